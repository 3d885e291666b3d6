"""Items that may answer, as rows and as columns of numbers: what the ranker computes with.

Columns are made of the rows of one search, or once for a small memory that is asked again and again. They are derived
from the rows alone and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recordari.core import text
from recordari.core.identity import Scope
from recordari.core.items import Trust
from recordari.memory.rules import Trait

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

BLOCK = 64  # rows that are multiplied at a time
MOST_KEPT = 3_000  # matches of words and tokens that are kept: at most 4 bytes of each for every row
MOST_TOKENS = 1 << 16  # a token is written in two bytes


class Candidate(NamedTuple):
    """What the database returns of an item that may answer; a tuple, because every search makes hundreds of them."""

    item_id: UUID
    scope: Scope
    thread: str | None
    position: int | None
    speaker: str | None
    trust: Trust
    event_time: datetime
    terms: bytes
    tokens: bytes
    traits: int
    session_id: str | None = None
    """Where it was said; of a fact too, which stands in no thread."""
    similarity: float | None = None
    is_fact: bool = False
    is_hit: bool = True
    """False for a row that only stands before a candidate and lends it its words."""
    text_rank: int | None = None
    vector_rank: int | None = None
    time_rank: int | None = None
    entity_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The question's tokens in the static table, each with the term of the word it belongs to."""

    ids: Ids
    words: Sequence[str]
    unit: NDArray[np.float32]
    """The table's vectors at length 1, and what their lengths were: a long vector belongs to a telling token."""
    norms: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHits:
    """Which rows one search found, and what it says of them."""

    hits: Ids
    similarity: Floats
    """Of every row; not a number where it has no vector."""
    entity: Mask
    """Of every row, whether it mentions what the question names, or is linked to what does."""
    linked: Mask
    """Of every row, whether only a name that stands beside an asked one leads to it (X1)."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The same of many candidates, a place for each row."""

    rows: Sequence[Candidate]
    moments: Floats = field(init=False)
    days: Mapping[date, Ids] = field(init=False)
    speakers: Mapping[str, Ids] = field(init=False)
    threads: Ids = field(init=False)
    """A number for each thread; a row without one is alone in its own."""
    before: Ids = field(init=False)
    """Where the row one place earlier in the thread stands, or -1."""
    after: Ids = field(init=False)

    def __post_init__(self) -> None:
        rows, many = self.rows, len(self.rows)
        derived = object.__setattr__
        derived(self, "moments", np.fromiter((row.event_time.timestamp() for row in rows), np.float64, many))
        derived(self, "days", _places(row.event_time.date() for row in rows))
        derived(self, "speakers", _places((row.speaker or "").casefold() for row in rows))
        numbers: dict[object, int] = {}
        threads = np.fromiter((numbers.setdefault(row.thread or row.item_id, len(numbers)) for row in rows), int, many)
        derived(self, "threads", threads)
        positions = np.fromiter((-2 if row.position is None else row.position for row in rows), np.int64, many)
        before, after = _neighbours(threads, positions)
        derived(self, "before", before)
        derived(self, "after", after)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def lengths(self) -> Floats:
        """How many terms each row has."""
        return np.fromiter((len(row.terms) // 4 for row in self.rows), np.float64, len(self.rows))

    @cached_property
    def brevity(self) -> Floats:
        """What a match in each row is worth by its length."""
        return np.asarray(1 / (1 + np.log(np.maximum(self.lengths, 1))), dtype=np.float64)

    @cached_property
    def is_fact(self) -> Mask:
        """Whether a row is a fact."""
        return np.fromiter((row.is_fact for row in self.rows), np.bool_, len(self.rows))

    @cached_property
    def is_alone(self) -> Mask:
        """Whether a row stands in no thread."""
        return np.fromiter((row.thread is None for row in self.rows), np.bool_, len(self.rows))

    @cached_property
    def sessions(self) -> Ids:
        """A number for each session, with the facts stated in it; a row of none is alone in its own."""
        numbers: dict[object, int] = {}
        named = (row.session_id or row.thread or row.item_id for row in self.rows)
        return np.fromiter((numbers.setdefault(one, len(numbers)) for one in named), np.int64, len(self.rows))

    @cached_property
    def traits(self) -> Ids:
        """What stands out about each row's wording."""
        return np.fromiter((row.traits for row in self.rows), np.int64, len(self.rows))

    @cached_property
    def asks(self) -> Floats:
        """1 where the row is a question itself."""
        return np.asarray(self.traits & Trait.ASKS > 0, dtype=np.float64)

    @cached_property
    def is_dated(self) -> Floats:
        """1 where the row says when."""
        return np.asarray(self.traits & Trait.DATED > 0, dtype=np.float64)

    @cached_property
    def disclosure(self) -> Floats:
        """How much its speaker tells of themselves, 0 to 1."""
        return np.asarray((self.traits // Trait.DISCLOSES_ONE & 3) / 3, dtype=np.float64)

    @cached_property
    def is_users(self) -> Mask:
        """Whether a user said it."""
        return np.fromiter((row.trust == Trust.USER for row in self.rows), np.bool_, len(self.rows))

    @cached_property
    def scopes(self) -> Mapping[str, Ids]:
        """Which rows each scope has."""
        return _places(str(row.scope) for row in self.rows)

    @cached_property
    def _terms(self) -> tuple[NDArray[np.uint32], Ids]:
        flat = np.frombuffer(b"".join(row.terms for row in self.rows), dtype="<u4")
        return flat, np.repeat(np.arange(len(self.rows)), self.lengths.astype(np.int64))

    @cached_property
    def _tokens(self) -> tuple[NDArray[np.uint16], Ids, Ids]:
        """All tokens one after another, which rows have any, and where each of these begins."""
        flat = np.frombuffer(b"".join(row.tokens for row in self.rows), dtype="<u2")
        lengths = np.fromiter((len(row.tokens) // 2 for row in self.rows), np.int64, len(self.rows))
        filled = np.flatnonzero(lengths)
        return flat, filled, np.concatenate([[0], np.cumsum(lengths[filled])[:-1]]).astype(np.int64)

    @cached_property
    def _vocabulary(self) -> tuple[Ids, Ids]:
        """The different tokens, and for each place of all tokens which of them it is."""
        # By marks instead of sorting: there are many tokens and few different ones.
        flat = self._tokens[0]
        occurs = np.zeros(MOST_TOKENS, dtype=np.bool_)
        occurs[flat] = True
        vocabulary = np.flatnonzero(occurs)
        place = np.empty(MOST_TOKENS, dtype=np.int64)
        place[vocabulary] = np.arange(len(vocabulary))
        return vocabulary, place[flat]

    @cached_property
    def _kept(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def _speaker_terms(self) -> Mapping[str, Sequence[Ids]]:
        return _by_term((_speaker_terms(speaker), places) for speaker, places in self.speakers.items())

    @cached_property
    def _date_terms(self) -> Mapping[str, Sequence[Ids]]:
        return _by_term((_date_terms(day), places) for day, places in self.days.items())

    def count(self, term: str) -> Floats:
        """How often the term stands in each row, and an empty last place."""
        places = self._places_of(term)
        return np.asarray(np.bincount(places, minlength=len(self.rows) + 1), dtype=np.float64)

    def having(self, term: str) -> Ids:
        """The rows that have the term, or whose speaker's name has it; each once."""
        return np.unique(np.concatenate([self._places_of(term), *self.spoken_by(term)]))

    def _places_of(self, term: str) -> Ids:
        flat, owners = self._terms
        (number,) = text.hashes([term])
        return owners[np.flatnonzero(flat == number)]

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was computed of all rows for this key, or is computed now: the same words are asked again and again."""
        found: T | None = self._kept.get(key)
        if found is None:
            if len(self._kept) > MOST_KEPT:
                self._kept.clear()
            found = self._kept[key] = make()
        return found

    def spoken_by(self, term: str) -> Sequence[Ids]:
        """The rows of speakers in whose name the term stands."""
        return self._speaker_terms.get(term, ())

    def dated(self, term: str) -> Sequence[Ids]:
        """The rows of days in whose date the term stands."""
        return self._date_terms.get(term, ())

    def best_matches(self, tokens: Tokens, previous: float) -> list[NDArray[np.float32]]:
        """Squared cosine of each question token with the nearest token of each row; the row before counts as told."""
        asked = tokens.ids.tolist()
        unknown = [token for token in asked if ("late", token, previous) not in self._kept]
        if unknown:
            if len(self._kept) > MOST_KEPT:
                self._kept.clear()
                unknown = asked
            for token, best in zip(unknown, self._matched(tokens.unit, np.array(unknown)), strict=True):
                self._kept["late", token, previous] = np.maximum(best[:-1], np.float32(previous) * best[self.before])
        return [self._kept["late", token, previous] for token in asked]

    def _matched(self, unit: NDArray[np.float32], asked: Ids) -> NDArray[np.float32]:
        """The best match in each row alone, and an empty last place."""
        flat, filled, starts = self._tokens
        best = np.zeros((len(asked), len(self.rows) + 1), dtype=np.float32)
        if len(flat):
            vocabulary, places = self._vocabulary
            # The vectors of all its tokens lie together for the next question; to gather them is most of the work.
            blocks = self.kept(("blocks",), lambda: _blocks(unit, vocabulary))
            similar = np.square(np.maximum(_products(blocks, unit[asked]), 0))
            # A row for each token asked: what is compared lies side by side.
            best[:, filled] = np.maximum.reduceat(similar.T.take(places, axis=1), starts, axis=1)
        return best

    def are_verbatim(self, terms: Sequence[str]) -> Mask:
        """Which rows consist of exactly these terms."""
        found = np.zeros(len(self.rows), dtype=np.bool_)
        if terms:
            asked = text.hashes(terms).tobytes()
            for place in np.flatnonzero(self.lengths == len(asked) // 4).tolist():
                found[place] = self.rows[place].terms == asked
        return found


def _places(values: Iterable[K]) -> dict[K, Ids]:
    """Where each value stands."""
    places: dict[K, list[int]] = {}
    for place, value in enumerate(values):
        places.setdefault(value, []).append(place)
    return {value: np.array(found) for value, found in places.items()}


def _neighbours(threads: Ids, positions: Ids) -> tuple[Ids, Ids]:
    """For each row where the one before and the one after it in its thread stand, or -1."""
    order = np.lexsort((positions, threads))
    follows = (np.diff(threads[order]) == 0) & (np.diff(positions[order]) == 1)
    before, after = np.full(len(threads), -1), np.full(len(threads), -1)
    before[order[1:][follows]] = order[:-1][follows]
    after[order[:-1][follows]] = order[1:][follows]
    return before, after


def _by_term(named: Iterable[tuple[frozenset[str], Ids]]) -> dict[str, list[Ids]]:
    found: dict[str, list[Ids]] = {}
    for terms, places in named:
        for term in terms:
            found.setdefault(term, []).append(places)
    return found


@lru_cache(maxsize=10_000)
def _speaker_terms(speaker: str) -> frozenset[str]:
    return frozenset(text.terms(speaker))


@lru_cache(maxsize=10_000)
def _date_terms(day: date) -> frozenset[str]:
    return frozenset(text.terms(f"{day:%d %B %Y}"))


def _blocks(unit: NDArray[np.float32], chosen: Ids) -> NDArray[np.float32]:
    """The chosen vectors in blocks, of which the last is filled up."""
    padded = np.zeros(-(-len(chosen) // BLOCK) * BLOCK, dtype=np.intp)
    padded[: len(chosen)] = chosen
    return unit[padded].reshape(-1, BLOCK, unit.shape[1])


def _products(blocks: NDArray[np.float32], asked: NDArray[np.float32]) -> NDArray[np.float32]:
    """The product of each vector with each one asked for, a line for each vector.

    The blocks are so small that the linear algebra library does not wake threads for them. Those threads spin: under load a
    recall took four times as long with them.
    """
    return np.asarray(np.matmul(blocks, asked.T), dtype=np.float32).reshape(-1, len(asked))
