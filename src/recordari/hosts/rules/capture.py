"""What is kept of a text that a host gives: nothing that the model was shown, and nothing of files that are ignored.

What was shown is known by marks, so that memory does not learn from its own words. The program of the hooks imports this
module, so it imports little.
"""

from __future__ import annotations

import json
import re
from binascii import crc32
from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:  # see `recordari.hosts.hook`
    from collections.abc import Iterable, Iterator

SHORTEST_SENTENCE, SHORTEST_QUOTE = 10, 20  # letters: of a sentence that is repeated, of one inside another
SHORTEST_TEXT = 20  # letters of a whole text that may be a repetition: "All right, noted." is said anew
WINDOW, STEP = 10, 5  # words of a part of a long sentence, and from one part to the next
HEAD = 2  # words that a mark is found by

# A block of memory, and the frame in which Gemini CLI gives a prompt what a hook answered.
_BLOCK = re.compile(
    r"<hook_context>.*?</hook_context>\s*|\[begin memory (\w+)[^\]\n]*\].*?(?:\[end memory \1\]|\Z)", re.DOTALL
)
_SENTENCE = re.compile(r"((?<=[.!?])\s+|(?<=[。！？])\s*|\n+)")
# Scripts without spaces have no words that a pattern could find: each of their signs is one, worth three letters.
_SIGN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f"
_WORD = re.compile(rf"[{_SIGN}]|[^\W_{_SIGN}]+")
_IS_SIGN = re.compile(rf"[{_SIGN}]")


class _Word:
    __slots__ = ("end", "start", "text", "weight")

    def __init__(self, match: re.Match[str]) -> None:
        self.start, self.end = match.span()
        self.text = match[0].casefold()
        self.weight = 3 if _IS_SIGN.match(self.text) else len(self.text)


def outside_blocks(text: str) -> str:
    """What is around the blocks of memory in a text."""
    return _BLOCK.sub("\n", text)


def marks_of(text: str) -> list[str]:
    """The marks of a text that is shown: of each sentence, and of overlapping parts of long ones."""
    return [mark for sentence in _SENTENCE.split(text)[::2] for mark in _marks([*_words(sentence)])]


def without(text: str, known: Iterable[str]) -> str:
    """A text without blocks of memory and without what is known: whole sentences, or the part that is quoted in one."""
    index: dict[str, set[tuple[int, str]]] = {}
    for mark in known:
        head, length, digest = mark.split(":")
        index.setdefault(head, set()).add((int(length), digest))
    said = _BLOCK.sub("", text)
    if sum(word.weight for word in _words(said)) < SHORTEST_TEXT:
        return said
    parts = _SENTENCE.split(said)
    pairs = [(_without_quotes(part, index), space) for part, space in zip(parts[::2], [*parts[1::2], ""], strict=True)]
    kept = [part + space for part, space in pairs if part is not None]
    return "".join(kept) if len(kept) == len(pairs) else "".join(kept).rstrip()


def digest(text: str, size: int = 12) -> str:
    """A short hash."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=size).hexdigest()


def texts_in(value: object) -> list[str]:
    """All texts in the result of a tool; a text that is JSON is looked into."""
    if isinstance(value, str):
        try:
            inner = json.loads(value) if value[:1] in "{[" and value else None
        except ValueError:
            inner = None
        return texts_in(inner) if inner is not None else [value]
    if isinstance(value, dict):
        return [text for part in value.values() for text in texts_in(part)]
    return [text for part in value for text in texts_in(part)] if isinstance(value, list) else []


def storable(text: str) -> str:
    """A text that a database takes: without halves of characters, and without NUL."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "")


def is_ignored(path: str, patterns: list[str]) -> bool:
    """Whether a path matches a pattern of `.recordariignore`."""
    from fnmatch import fnmatch

    plain = [pattern.removeprefix("**/").removesuffix("/**").strip("/") for pattern in patterns]
    return any(
        f"/{pattern}/" in f"/{path}/"
        or fnmatch(path, f"*/{pattern}")
        or any(fnmatch(name, pattern) for name in (path, *path.split("/")))
        for pattern in plain
        if pattern
    )


def _words(text: str) -> Iterator[_Word]:
    return map(_Word, _WORD.finditer(text))


def _head(words: list[_Word], start: int) -> str:
    return f"{crc32(' '.join([word.text for word in words[start : start + HEAD]]).encode()):x}"


def _digest_of(words: list[_Word]) -> str:
    return digest(" ".join(word.text for word in words), 8)


def _marks(words: list[_Word]) -> Iterator[str]:
    starts = range(0, len(words) - WINDOW, STEP)
    windows = [(start, start + WINDOW) for start in starts] + [(len(words) - WINDOW, len(words))] if starts else []
    for start, end in [(0, len(words)), *windows]:
        part = words[start:end]
        if len(part) >= HEAD and sum(word.weight for word in part) >= SHORTEST_SENTENCE:
            yield f"{_head(part, 0)}:{len(part)}:{_digest_of(part)}"


def _without_quotes(sentence: str, index: dict[str, set[tuple[int, str]]]) -> str | None:
    """A sentence without what is known of it; None where nothing else is in it."""
    words = [*_words(sentence)] if index else []
    covered = [False] * len(words)
    for start in range(len(words) - HEAD + 1):
        for length, mark in index.get(_head(words, start), ()):
            part = words[start : start + length]
            is_all, is_long = length == len(words), sum(word.weight for word in part) >= SHORTEST_QUOTE
            if len(part) == length and (is_all or is_long) and _digest_of(part) == mark:
                covered[start : start + length] = [True] * length
    if True not in covered:
        return sentence
    if all(covered):
        return None
    kept, end = "", 0
    for word, is_covered in zip(words, covered, strict=True):
        if not is_covered:
            kept += sentence[end : word.end]
        elif not kept.endswith("…"):
            kept += sentence[end : word.start] + "…"
        end = word.end
    return kept + sentence[end:]
