"""One tokeniser for indexing and searching; and where the sentences of a text end, in any script.

Words are stemmed in the tenant's language. Identifiers, addresses and paths are not stemmed (they are indexed whole, and
by their parts), nor are Chinese and Japanese, by pairs of characters, and single emoji.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import Stemmer
from numpy.typing import NDArray

MAX_TERM_LENGTH = 100
MAX_POSITION = 16_383  # PostgreSQL keeps no position beyond
MAX_POSITIONS_PER_TERM = 255

# Function words say nothing about the subject of a text; they would be a third of the index.
MOST_OF_STOP_WORDS = 200
"""Characters of a text of stop words that are read."""
STOP_WORDS = frozenset(
    """a an and are as at be been but by can did do does for from had has have he her hers him his how i if in into
    is it its just me my of on or our she so than that the their them then there these they this those to up us
    was we were what when where which who whom why will with would you your""".split()
)

# Every repetition is bounded, so that no text makes the search for tokens slow.
_IDENTIFIER = (
    r"[^\W_][\w.+-]{0,63}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"  # address
    r"|(?:[\w.-]{0,63}[/\\]){1,32}[\w.-]{1,63}"  # path
    r"|\w{1,63}(?:[._:#-]\w{1,63}){1,16}"  # dotted, dashed or versioned
    r"|\w{0,63}_\w{0,63}|\w{0,63}\d\w{0,63}"  # anything with an underscore or a digit
)
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
_EMOJI = "\u2600-\u27bf\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff"
# A fast path for most words: letters before a blank or punctuation, which cannot start an identifier. The slower
# patterns below would find the same words.
_PLAIN = r"[A-Za-z]+(?![\w@/\\]|[.+:#-](?!\s|\Z))(?:['’][^\W\d_]+)?"
_TOKEN = re.compile(
    rf"(?P<plain>{_PLAIN})|(?P<emoji>[{_EMOJI}])|(?P<cjk>[{_CJK}]+)|(?P<identifier>{_IDENTIFIER})|(?P<word>[^\W\d_{_CJK}]+(?:['’][^\W\d_]+)?)"
)
_PART = re.compile(rf"[^\W\d_{_CJK}]+|\d+")


def terms(text: str, language: str = "english") -> list[str]:
    """The terms of a text, in order; the same term may come more than once."""
    result: list[str] = []
    for run in text.split():  # no token has white space in it, nor depends on what is beyond
        result += _run_terms(run, language) if len(run) <= LONGEST_CACHED else _terms_of_run(run, language)
    return result


LONGEST_CACHED = 40
"""Characters of a run without white space whose terms are cached: a word, with its punctuation."""


def _terms_of_run(run: str, language: str) -> tuple[str, ...]:
    result: list[str] = []
    for match in _TOKEN.finditer(run):
        token = match.group()
        match match.lastgroup:
            case "emoji":
                result.append(token)
            case "cjk":
                result.extend([token] if len(token) == 1 else map("".join, pairwise(token)))
            case "identifier":
                result.extend(_identifier_terms(token, language))
            case _:
                if term := _word_term(token, language):
                    result.append(term)
    return tuple(result)


_run_terms = lru_cache(maxsize=100_000)(_terms_of_run)


def search_terms(text: str, language: str = "english") -> list[str]:
    """The terms by which a text is found: where it has only stop words, those ("A", "It is what it is")."""
    return terms(text, language) or [match.group().casefold() for match in _TOKEN.finditer(text[:MOST_OF_STOP_WORDS])]


@lru_cache(maxsize=100_000)
def _word_term(token: str, language: str) -> str:
    """The term of a word; empty for a stop word."""
    word = token.casefold().replace("’", "'").removesuffix("'s")
    return "" if word in STOP_WORDS else _stem(word, language)


def _identifier_terms(token: str, language: str) -> Iterable[str]:
    whole = token.casefold().strip("._:#-")
    if whole:
        yield whole[:MAX_TERM_LENGTH]
    for part in map(str.casefold, _PART.findall(token)):
        if len(part) > 1 and part != whole and part not in STOP_WORDS:
            yield _stem(part, language) if part.isalpha() else part[:MAX_TERM_LENGTH]


@lru_cache(maxsize=8)
def _stemmer(language: str) -> Stemmer.Stemmer | None:
    return Stemmer.Stemmer(language) if language in Stemmer.algorithms() else None


@lru_cache(maxsize=100_000)
def _stem(word: str, language: str) -> str:
    stemmer = _stemmer(language)
    return (stemmer.stemWord(word) if stemmer is not None else word)[:MAX_TERM_LENGTH]


def tsvector_literal(content_terms: Sequence[str]) -> str:
    """The terms with their positions, in PostgreSQL's notation of a text-search vector."""
    positions: dict[str, list[int]] = {}
    for position, term in enumerate(content_terms, start=1):
        numbers = positions.get(term)
        if numbers is None:
            positions[term] = [min(position, MAX_POSITION)]
        elif len(numbers) < MAX_POSITIONS_PER_TERM:
            numbers.append(min(position, MAX_POSITION))
    return " ".join(
        [
            f"{_quoted(term)}:{numbers[0] if len(numbers) == 1 else ','.join(map(str, dict.fromkeys(numbers)))}"
            for term, numbers in positions.items()
        ]
    )


def tsquery_literal(query_terms: Iterable[str]) -> str:
    """A query that matches any of the terms."""
    return " | ".join(_quoted(term) for term in query_terms)


def _quoted(term: str) -> str:
    if "'" in term or "\\" in term:
        term = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{term}'"


def hashes(content_terms: Sequence[str]) -> NDArray[np.uint32]:
    """A number for each term, so that scoring compares numbers and not strings."""
    return np.fromiter(map(hash_of, content_terms), dtype="<u4", count=len(content_terms))


@lru_cache(maxsize=200_000)
def hash_of(term: str) -> int:
    return zlib.crc32(term.encode())


LONGEST_CHARACTER = 4  # bytes of UTF-8


# The end of a sentence: a mark before white space, a mark of a script without spaces, or the end of a line. The lookahead
# tests for all of them at once: trying one after the other at every letter takes three times as long.
_END = re.compile(r"(?=[.!?…؟।。！？｡\n])(?:[.!?…؟।]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*|(?=\n))")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Za-z]|[Dd]rs?|[Mm]rs?|[Mm]s|[Pp]rof|[Ss]t|[Nn]o|[Nn]r|vs|etc|approx|ca|bzw|z\.B|[Ee]\.g|[Ii]\.e"
    r"|[Ii]nc|[Ll]td|[Jj]r|[Ss]ra?|[Dd]ra|[HF]r|U\.S|a\.m|p\.m|[Ff]ig|[Vv]ol|[Cc]f|[Dd]ept)\.$"
    # The mark of a list; a date in German or a Nordic language.
    r"|(?:^|\n)\s{0,8}\d{1,3}\.$|\b(?i:am|ab|bis|vom|zum|der|den|dem|des|die|das|im|seit|und|fra|til|og|på)\s\d{1,3}\.$"
)
_MONTH = re.compile(r"(?:Jan|Feb|März|Mär|Apr|Mai|Juni|Juli|Aug|Sep|Okt|Nov|Dez)")


def ends_shortened(text: str) -> bool:
    """Whether the full stop at the end of a text belongs to an abbreviation, a date or the mark of a list."""
    return _ABBREVIATION.search(text[-12:]) is not None


def sentence_ends(text: str, *, capitalised: bool = True) -> list[int]:
    """The positions at which a text may be cut: after each sentence or line with text, except the last.

    `capitalised`: a small letter after a full stop continues the sentence. Many people write chats in small letters.
    """
    ends: list[int] = []
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    for match in _END.finditer(text):
        end = match.end()
        if end >= last or end <= first or (ends and not text[ends[-1] : end].strip()):
            continue
        rest = text[end : end + 8].lstrip(" \t")
        if text[end - 1] in ".…" and (
            (capitalised and rest[:1].islower()) or ends_shortened(text[max(0, end - 12) : end])
        ):
            continue
        ends.append(end)
    return ends


def characters_begun(body: bytes, length: int | None) -> tuple[int, int]:
    """The range of bytes, start and end, of the characters that begin in the first `length` bytes.

    So consecutive ranges hold every character once, wherever they are cut; `body` must contain the rest of the last
    character.
    """
    starts = (position for position, byte in enumerate(body[:LONGEST_CHARACTER]) if not _is_continuation(byte))
    end = len(body) if length is None else min(length, len(body))
    while end < len(body) and _is_continuation(body[end]):
        end += 1
    return min(next(starts, len(body)), end), end


def _is_continuation(byte: int) -> bool:
    return byte & 0xC0 == 0x80
