"""Which sentences of recalled items answer a question, and how they are quoted; no model writes anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from uuid import UUID

import numpy as np

from recordari.core import text
from recordari.core.described import DESCRIBED
from recordari.core.items import normalised
from recordari.core.text import sentence_ends
from recordari.memory.rules import REQUEST_TERMS, Collection, Trait, entities_in, traits_of
from recordari.recall.rules.candidates import Columns, Tokens
from recordari.recall.rules.numbering import Floats

SHORT = 240  # characters; a shorter text is quoted whole
LONGEST_QUOTE = 400
READ = 6_000  # characters of one item that are read sentence by sentence
QUOTED, LISTED = 3, 12
"""Most quotes of an answer; of a list or a count."""
NEAR, NEAR_IN_LIST = 0.8, 0.6
"""A further quote has at least this share of the best one's score."""
SAME_MATTER = 0.9
"""Quotes within this share of the best say the same or contradict each other: the newest comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What an item says, word for word, and where it is from."""

    __pydantic_config__ = DESCRIBED

    id: UUID
    """The item."""
    text: str
    speaker: str | None
    event_time: datetime
    source_ref: str
    session_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of an item; `place` is the rank of the item."""

    place: int
    first: int
    past: int
    text: str


def sentences_of(place: int, content: str, *, is_list: bool = False) -> list[Sentence]:
    """The sentences of an item that are read; a short text that is no list is one, of which its questions are not read."""
    read = content[:READ]
    ends = [0, *sentence_ends(read), len(read)]
    sentences = [
        Sentence(place=place, first=first, past=past, text=said)
        for first, past in pairwise(ends)
        if (said := read[first:past].strip())
    ]
    if is_list or len(read) > SHORT:
        return sentences
    said = " ".join(one.text for one in sentences if not is_question(one.text)) or read.strip()
    return [Sentence(place=place, first=0, past=len(read), text=said)]


def is_question(said: str) -> bool:
    """Whether a sentence asks; it answers no question then."""
    return said.rstrip("\"'”’) ").endswith(("?", "？", "؟"))


def quoted(content: str, sentence: Sentence, *, is_list: bool = False) -> str:
    """The sentence with what follows it, as much as fits: an answer often goes on. A line of a list is alone."""
    if is_list:
        return sentence.text[:LONGEST_QUOTE].lstrip("-*• ")
    if sentence.past - sentence.first >= LONGEST_QUOTE:
        return content[sentence.first : sentence.first + LONGEST_QUOTE].strip()
    ends = [end for end in (*sentence_ends(content[:READ]), len(content)) if sentence.past < end]
    past = sentence.past
    for end in ends:
        if end - sentence.first > SHORT:
            break
        past = end
    return content[sentence.first : past].strip()


def chosen(
    sentences: Sequence[Sentence], scores: Sequence[float], moments: Sequence[datetime], *, many: bool, present: bool
) -> list[int]:
    """The indexes of the sentences to quote, one of each item; where they differ and the present is asked, newest first."""
    order = sorted(range(len(sentences)), key=lambda index: -scores[index])
    best: dict[int, int] = {}
    told: set[str] = set()
    for index in order:
        said = normalised(sentences[index].text)
        if sentences[index].place not in best and said not in told:
            best[sentences[index].place] = index
            told.add(said)
    first = next(iter(best.values()), None)
    if first is None:
        return []
    least = (NEAR_IN_LIST if many else NEAR) * scores[first]
    kept = [index for index in best.values() if scores[index] >= least][: LISTED if many else QUOTED]
    if present and not many:
        same = [index for index in kept if scores[index] >= SAME_MATTER * scores[first]]
        same.sort(key=lambda index: moments[sentences[index].place], reverse=True)
        kept = [*same, *(index for index in kept if index not in same)]
    return kept


def written(quotes: Sequence[Quote], *, many: bool) -> str:
    """The answer as a text: each quote with its speaker and date."""
    lines = [f"“{quote.text}” ({_source(quote)})" for quote in quotes]
    if not many or len(lines) == 1:
        return lines[0]
    return "\n".join([f"{len(lines)} found:", *(f"- {line}" for line in lines)])


def _source(quote: Quote) -> str:
    day = f"{quote.event_time.day} {quote.event_time:%B %Y}"
    return f"{quote.speaker}, {day}" if quote.speaker else day


REQUEST_SHARE = 0.2  # what a word that only phrases a request counts


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTerms:
    """The terms of a question, and how distinctive each is in this memory."""

    terms: Sequence[str]
    weights: Floats
    asks_for: Wanted | None = None

    @property
    def shares(self) -> Floats:
        return self.weights / max(float(self.weights.sum()), 1e-9)


def question_terms(query: str, terms: Sequence[str], collection: Collection) -> QuestionTerms:
    distinct = list(dict.fromkeys(terms))
    weights = [collection.rarity(term) * (REQUEST_SHARE if term in REQUEST_TERMS else 1.0) for term in distinct]
    return QuestionTerms(terms=distinct, weights=np.array(weights, dtype=np.float64), asks_for=wanted_by(query))


class Wanted(StrEnum):
    """What the words of a question ask for."""

    NUMBER = "number"
    TIME = "time"
    NAME = "name"


_WANTED = {
    Wanted.TIME: re.compile(
        r"\b(?:when|(?:what|which) (?:time|date|day|month|year|week)|how (?:long|often)|what's the date|since when|until when"
        r"|wann|um wie viel uhr|quand|cuándo|a qué hora|quando|wanneer)\b|什么时候|何时|いつ",
        re.IGNORECASE,
    ),
    Wanted.NUMBER: re.compile(
        r"\b(?:how (?:many|much|old|high|tall|far|big|large|heavy)|(?:what|which) (?:number|percentage|price"
        r"|amount|size|age|score|total)|wie ?viele?|wie (?:hoch|alt|teuer|groß|lang|weit)|combien|cuánt[oa]s?|quant[oaie]s?"
        r"|hoeveel|hoe oud)\b|多少|几|いくつ|いくら",
        re.IGNORECASE,
    ),
    Wanted.NAME: re.compile(
        r"\b(?:who|whom|whose|wer|wem|wen|wessen|qui|quién(?:es)?|quem|chi|wie is)\b|谁|誰", re.IGNORECASE
    ),
}
_NUMBER = re.compile(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|fifty|hundred|thousand|half|once|twice"
    r"|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|deux|trois|quatre|cinq)\b",
    re.IGNORECASE,
)


def wanted_by(query: str) -> Wanted | None:
    """What a question asks for; None for anything else. Its first question word decides."""
    places = {wanted: match.start() for wanted, pattern in _WANTED.items() if (match := pattern.search(query[:600]))}
    return min(places, key=places.__getitem__) if places else None


def typed(question: QuestionTerms, content: str) -> float:
    """Whether a text has what the question asks for: 0 or 1; a half if it asks for no number, time or name."""
    known = set(question.terms)
    match question.asks_for:
        case None:
            return 0.5
        case Wanted.TIME:
            return float(bool(traits_of(content) & Trait.DATED) or re.search(r"\d", content) is not None)
        case Wanted.NUMBER:
            return float(any(not known.issuperset(text.terms(found)) for found in _words_with_number(content)))
        case Wanted.NAME:
            return float(any(known.isdisjoint(text.terms(entity.name)) for entity in entities_in(content)))


def _words_with_number(content: str) -> list[str]:
    return [word for word in content.split() if _NUMBER.search(word)]


def matches_of(
    terms: Sequence[str], tokens: Tokens | None, columns: Columns, rows: Sequence[int], *, previous: float
) -> list[Floats]:
    """For each row, how well it matches each term: 1 for the term itself, else by the nearest of its tokens.

    A token of the row before counts `previous` of that.
    """
    found = np.zeros((len(rows), len(terms)))
    if tokens is not None and len(tokens.ids):
        nearest = [best[list(rows)] for best in columns.best_matches(tokens, previous)]
        lengths = tokens.norms[tokens.ids].tolist()
        for place, term in enumerate(terms):
            every = zip(tokens.words, lengths, nearest, strict=True)
            parts = [(length, near) for word, length, near in every if word == term]
            if parts:
                found[:, place] = sum(length * near for length, near in parts) / max(sum(one for one, _ in parts), 1e-9)
    for place, having in enumerate(columns.having(terms)):
        found[having[list(rows)], place] = 1.0
    return list(found)
