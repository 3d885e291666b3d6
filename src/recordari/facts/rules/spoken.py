"""How people say things, by language: the word lists of the extractor (`speech/*.toml`).

Each list names what its phrases do in a clause, not a topic: `ask` opens a question, `order` a request, `always` makes a
request a standing wish, `moment` ties a clause to this hour, `change` leaves a lasting state, and so on. Phrases are divided by
semicolons; a star stands for the rest of a word, or for a word.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from recordari.facts.rules.grammar import language_of

SPOKEN = ("en", "de", "fr", "es", "pt", "it", "nl")
OPENING = 50
"""Characters in which a phrase at the start of a text lies."""
_TEXTS = frozenset({"wish", "called", "others", "owner", "owner_after_s"})
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*'?")
_ELIDED = re.compile(r"[^\W_]{1,6}'(?=[^\W_])|[^\W_]+(?:-[^\W_]+)*'?")
_HALF_DAYS = frozenset({"am", "pm", "AM", "PM"})
"""Behind a number: "am" is no verb in "2:30 am"."""
_MOST_ADVERBS = 3
LETTERS = 2


@dataclass(frozen=True, slots=True)
class Found:
    """A phrase in a text."""

    start: int
    end: int


class SpokenWord(NamedTuple):
    """A tuple, because a message has many and each is made anew."""

    text: str
    start: int
    end: int


@lru_cache(maxsize=4_000)
def words_in(text: str, elides: bool) -> tuple[SpokenWord, ...]:
    """The words of a text in small letters. "j'habite" is two, "don't" is one, and "Ana's" is also "ana"."""
    words = []
    for match in (_ELIDED if elides else _WORD).finditer(text):
        word, (start, end) = match.group(), match.span()
        if not (word in _HALF_DAYS and text[:start].rstrip()[-1:].isdigit()):
            words.append(SpokenWord(word.casefold(), start, end))
    return tuple(words)


def _fits_all(words: tuple[SpokenWord, ...], place: int, phrase: tuple[str, ...]) -> bool:
    if place + len(phrase) > len(words):
        return False
    for number, part in enumerate(phrase, place):  # a loop: a generator costs more than most comparisons
        word = words[number][0]
        if word != part and not ("*" in part and _fits(word, part)):
            return False
    return True


def _fits(word: str, part: str) -> bool:
    """Whether a word is what a part with a star stands for."""
    before, _, after = part.partition("*")
    after = after.rpartition("*")[2]
    return len(word) >= len(before) + len(after) and word.startswith(before) and word.endswith(after)


@dataclass(frozen=True, slots=True)
class Speech:
    """The lists and the forms of one language."""

    code: str
    names: frozenset[str]
    """Of the lists."""
    by_word: dict[str, tuple[tuple[str, tuple[str, ...]], ...]]
    """The phrases and their lists, by the first word or, with a star in it, by its first letters."""
    adverbs: tuple[str, ...]
    texts: dict[str, str]
    rewrites: tuple[tuple[re.Pattern[str], str], ...]
    """How the first person becomes a name."""
    third_person: dict[str, str]
    endings: tuple[tuple[re.Pattern[str], str], ...]
    """The verb of the first person as that of the third: whole words, then endings, the first that fits."""
    subjects: tuple[str, ...]
    """The pronouns of one person; none where a verb needs no pronoun."""

    @property
    def verb_second(self) -> bool:
        """A verb may come before its subject, and comes last in a subordinate clause."""
        return self.code in {"de", "nl"}

    def words(self, text: str) -> tuple[SpokenWord, ...]:
        return words_in(text, self.code != "en")

    def finds(self, name: str, text: str) -> tuple[Found, ...]:
        """Where the phrases of a list are in a text."""
        return _marks(self.code, text).get(name, ())

    def find(self, name: str, text: str) -> Found | None:
        return next(iter(self.finds(name, text)), None)

    def has(self, name: str, text: str) -> bool:
        return name in _marks(self.code, text)

    def start(self, name: str, text: str) -> Found | None:
        """The longest phrase that a text starts with."""
        end = _opening(self.code, text[:OPENING]).get(name)
        return Found(0, end) if end is not None else None

    def starts(self, name: str, text: str) -> bool:
        return self.start(name, text) is not None

    def own_verb(self, text: str) -> Found | None:
        """The verb of the first person that a text starts with, in a language that needs no pronoun: "ya no trabajo"."""
        words = self.words(text[:OPENING])
        if self.subjects or not words or words[0].start:
            return None
        for place in range(min(_MOST_ADVERBS + 1, len(words))):
            if words[place].text in self.third_person:
                return Found(words[place].start, words[place].end)
            if words[place].text not in self.adverbs:
                return None
        return None


def speech_of(text: str) -> Speech | None:
    """The lists for the language of a text; None where there are none for it."""
    code = language_of(text)
    return _speech(code) if code in SPOKEN else None


@cache
def _speech(code: str) -> Speech:
    table: dict[str, Any] = tomllib.loads(
        files("recordari.facts.rules").joinpath("speech", f"{code}.toml").read_text("utf-8")
    )
    lists = {name: value for name, value in table.items() if isinstance(value, str) and name not in _TEXTS}
    by_word: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for name, value in lists.items():
        for phrase in value.split(";"):
            if parts := _parts(phrase, code):
                by_word.setdefault(_key(parts[0]), []).append((name, parts))
    return Speech(
        code=code,
        names=frozenset(lists),
        by_word={word: tuple(found) for word, found in by_word.items()},
        adverbs=tuple(sorted((" ".join(each.split()) for each in lists["adverb"].split(";")), key=len, reverse=True)),
        texts={name: table[name] for name in _TEXTS if name in table},
        rewrites=tuple((re.compile(pattern, re.IGNORECASE), text) for pattern, text in table["rewrites"]),
        third_person=table["third_person"],
        endings=tuple((re.compile(pattern), text) for pattern, text in table["endings"]),
        subjects=tuple(table["subjects"]),
    )


def _key(word: str) -> str:
    """Under which a word with a star is found: its first letters."""
    return f"{word.partition('*')[0][:LETTERS]}*" if "*" in word else word


@lru_cache(maxsize=4_000)
def _marks(code: str, text: str) -> dict[str, tuple[Found, ...]]:
    """All phrases of a text, by the name of their list."""
    speech = _speech(code)
    words = speech.words(text)
    found: dict[str, list[Found]] = {}
    for place, word in enumerate(words):
        for name, last in _phrases_at(speech, words, place):
            found.setdefault(name, []).append(Found(word.start, words[last].end))
    return {name: tuple(each) for name, each in found.items()}


@lru_cache(maxsize=4_000)
def _opening(code: str, text: str) -> dict[str, int]:
    """The longest phrase of each list that a text starts with."""
    speech = _speech(code)
    words = speech.words(text)
    ends: dict[str, int] = {}
    if words and not words[0].start:
        for name, last in _phrases_at(speech, words, 0):
            ends[name] = max(words[last].end, ends.get(name, 0))
    return ends


def _phrases_at(speech: Speech, words: tuple[SpokenWord, ...], place: int) -> Iterator[tuple[str, int]]:
    """The lists whose phrases start at a word, with the place of their last word."""
    word = words[place].text
    for name, phrase in speech.by_word.get(word, ()):
        if len(phrase) == 1 or _fits_all(words, place, phrase):
            yield name, place + len(phrase) - 1
    for size in range(LETTERS + 1):
        for name, phrase in speech.by_word.get(f"{word[:size]}*", ()):
            if _fits_all(words, place, phrase):
                yield name, place + len(phrase) - 1
    if word.endswith("'s"):
        for name, phrase in speech.by_word.get(word[:-2], ()):
            if len(phrase) == 1:
                yield name, place


def _parts(phrase: str, code: str) -> tuple[str, ...]:
    """The words of a phrase, as they are read in a text."""
    parts: list[str] = []
    for part in phrase.casefold().split():
        parts += [part] if "*" in part and "'" not in part else [word for word in _cut(part, code) if word]
    return tuple(parts)


def _cut(part: str, code: str) -> list[str]:
    if code == "en" or "'" not in part:
        return [part]
    head, _, tail = part.partition("'")
    return [f"{head}'", tail]
