"""Candidates: items that may answer, as rows and as the columns of numbers that the ranker computes with.

Columns are made for the rows of one search, or once for a snapshot of a small memory. They are derived from the rows alone and
never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recordari.core import text
from recordari.core.identity import AskedScope, Scope
from recordari.core.items import Trust
from recordari.memory.rules import Trait

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

ARMS = ("text", "vector", "time", "entity")
BESIDE = "beside"  # found by no arm: it is next to an item that was
BLOCK = 64  # rows that are multiplied at a time
MOST_CACHED = 3_000  # matches of words and tokens: at most 4 bytes of each for every row
MOST_TOKENS = 1 << 16  # a token has two bytes
UNRELATED_WISH = 0.1  # how near a question often is to a wish about something else


class Candidate(NamedTuple):
    """An item that may answer, as the ranker needs it; a tuple, because every search makes hundreds of them."""

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
    """The session it was said in; a fact has one too, though it is in no thread."""
    archived_at: datetime | None = None
    similarity: float | None = None
    is_fact: bool = False
    is_hit: bool = True
    """False for a row that only comes before a candidate and lends it its words."""
    text_rank: int | None = None
    vector_rank: int | None = None
    time_rank: int | None = None
    entity_rank: int | None = None

    @property
    def ranks(self) -> dict[str, int | None]:
        """The rank that each arm gave."""
        return dict(zip(ARMS, (self.text_rank, self.vector_rank, self.time_rank, self.entity_rank), strict=True))

    @property
    def found_by(self) -> tuple[str, ...]:
        return tuple(arm for arm, rank in self.ranks.items() if rank is not None) or (BESIDE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The question's tokens in the static table, each with the term of the word it belongs to."""

    ids: Ids
    words: Sequence[str]
    unit: NDArray[np.float32]
    """The table's vectors at length 1; `norms` are their lengths before: a long vector belongs to a distinctive token."""
    norms: NDArray[np.float32]
    asking: frozenset[int] = frozenset()
    """Tokens of words such as "ask": what a standing wish is about follows them, up to one of `ends`."""
    ends: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHits:
    """The rows that one search found; `hits` are their indexes, the rest has a value for every row."""

    hits: Ids
    similarity: Floats
    """Not a number where the row has no vector."""
    entity: Mask
    """Whether the row mentions a name of the question, or is linked to one that does."""
    linked: Mask
    """Whether only a link leads to the row: it mentions a name that is beside one of the question in another item (X1)."""


def search_hits(candidates: Sequence[Candidate], linked: Collection[UUID] = ()) -> SearchHits:
    """The hits of a search in the database."""
    return SearchHits(
        hits=np.array([index for index, row in enumerate(candidates) if row.is_hit], dtype=np.int64),
        similarity=np.array([np.nan if row.similarity is None else row.similarity for row in candidates], np.float64),
        entity=np.array([row.entity_rank is not None for row in candidates], np.bool_),
        linked=np.array([row.item_id in linked for row in candidates], np.bool_),
    )


def arm_counts(candidates: Sequence[Candidate]) -> dict[str, int]:
    """How many candidates each arm of the database found, and how many are only next to one."""
    counts = Counter(arm for row in candidates if row.is_hit for arm in row.found_by)
    return {**{arm: counts[arm] for arm in ARMS}, "beside_a_hit": counts[BESIDE]}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Many candidates, one value for each row."""

    rows: Sequence[Candidate]
    moments: Floats = field(init=False)
    days: Mapping[date, Ids] = field(init=False)
    speakers: Mapping[str, Ids] = field(init=False)
    threads: Ids = field(init=False)
    """A number for each thread; a row without one is alone in its own."""
    before: Ids = field(init=False)
    """The index of the row one position earlier in the thread, or -1."""
    after: Ids = field(init=False)

    def __post_init__(self) -> None:
        rows, many = self.rows, len(self.rows)
        derived = object.__setattr__
        derived(self, "moments", np.fromiter((row.event_time.timestamp() for row in rows), np.float64, many))
        derived(self, "days", _rows_by(row.event_time.date() for row in rows))
        derived(self, "speakers", _rows_by((row.speaker or "").casefold() for row in rows))
        threads = _numbered(row.thread or row.item_id for row in rows)
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
        """The worth of a match by the length of the row."""
        return np.asarray(1 / (1 + np.log(np.maximum(self.lengths, 1))), dtype=np.float64)

    @cached_property
    def is_fact(self) -> Mask:
        return np.fromiter((row.is_fact for row in self.rows), np.bool_, len(self.rows))

    @cached_property
    def is_alone(self) -> Mask:
        return np.fromiter((row.thread is None for row in self.rows), np.bool_, len(self.rows))

    @cached_property
    def sessions(self) -> Ids:
        """A number for each session, with the facts stated in it; a row of none is alone in its own."""
        return _numbered(row.session_id or row.thread or row.item_id for row in self.rows)

    @cached_property
    def traits(self) -> Ids:
        return np.fromiter((row.traits for row in self.rows), np.int64, len(self.rows))

    @cached_property
    def asks(self) -> Floats:
        return np.asarray(self.traits & Trait.ASKS > 0, dtype=np.float64)

    @cached_property
    def is_dated(self) -> Floats:
        return np.asarray(self.traits & Trait.DATED > 0, dtype=np.float64)

    @cached_property
    def disclosure(self) -> Floats:
        """How much the speakers say about themselves, 0 to 1."""
        return np.asarray((self.traits // Trait.DISCLOSES_ONE & 3) / 3, dtype=np.float64)

    def wished(self, tokens: Tokens) -> Floats:
        """How near the question is to what each standing wish is about, 0 to 0.9; 0 for what is no such wish."""
        near = np.zeros(len(self.rows))
        wishes = np.flatnonzero((self.traits & Trait.WISHES > 0) & ~self.is_others)
        if len(wishes) and len(tokens.ids):
            about = self.cached(("wishes",), lambda: self._about(wishes, tokens))
            near[wishes] = np.maximum(about @ _direction(tokens.ids, tokens) - UNRELATED_WISH, 0)
        return near

    def _about(self, wishes: Ids, tokens: Tokens) -> NDArray[np.float32]:
        """The direction of what each wish is about, a line for each."""
        texts = (np.frombuffer(self.rows[row].tokens, dtype="<u2").tolist() for row in wishes.tolist())
        parts = [_after(text, tokens.asking, tokens.ends) for text in texts]
        return np.array([_direction(np.array(part, dtype=np.int64), tokens) for part in parts], dtype=np.float32)

    @cached_property
    def is_others(self) -> Mask:
        """Whether the text is neither the user's nor kept as known: an assistant's or a tool's words are no wish."""
        return ~self.is_users & ~self.is_alone

    @cached_property
    def is_users(self) -> Mask:
        return np.fromiter((row.trust == Trust.USER for row in self.rows), np.bool_, len(self.rows))

    @cached_property
    def is_archived(self) -> Mask:
        return np.fromiter((row.archived_at is not None for row in self.rows), np.bool_, len(self.rows))

    def places(self, line: Collection[str]) -> Mapping[AskedScope, Ids]:
        """The rows by where they were found: their scope, or history for sessions that are not of this line."""
        return self.cached(("places", tuple(line)), lambda: _rows_by(_place(row, line) for row in self.rows))

    @cached_property
    def _terms(self) -> tuple[NDArray[np.uint32], Ids]:
        flat = np.frombuffer(b"".join(row.terms for row in self.rows), dtype="<u4")
        return flat, np.repeat(np.arange(len(self.rows)), self.lengths.astype(np.int64))

    @cached_property
    def _tokens(self) -> tuple[NDArray[np.uint16], Ids, Ids]:
        """All tokens one after another, the rows that have any, and where each of these begins."""
        flat = np.frombuffer(b"".join(row.tokens for row in self.rows), dtype="<u2")
        lengths = np.fromiter((len(row.tokens) // 2 for row in self.rows), np.int64, len(self.rows))
        filled = np.flatnonzero(lengths)
        return flat, filled, np.concatenate([[0], np.cumsum(lengths[filled])[:-1]]).astype(np.int64)

    @cached_property
    def _vocabulary(self) -> tuple[Ids, Ids]:
        """The different tokens, and which of them each of all tokens is."""
        # By marks instead of sorting: there are many tokens and few different ones.
        flat = self._tokens[0]
        occurs = np.zeros(MOST_TOKENS, dtype=np.bool_)
        occurs[flat] = True
        vocabulary = np.flatnonzero(occurs)
        numbers = np.empty(MOST_TOKENS, dtype=np.int64)
        numbers[vocabulary] = np.arange(len(vocabulary))
        return vocabulary, numbers[flat]

    @cached_property
    def _cache(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def _speaker_terms(self) -> Mapping[str, Sequence[Ids]]:
        return _by_term((_speaker_terms(speaker), rows) for speaker, rows in self.speakers.items())

    @cached_property
    def _date_terms(self) -> Mapping[str, Sequence[Ids]]:
        return _by_term((_date_terms(day), rows) for day, rows in self.days.items())

    def count(self, term: str) -> Floats:
        """How often each row has the term, and a last 0."""
        return np.asarray(np.bincount(self._rows_with(term), minlength=len(self.rows) + 1), dtype=np.float64)

    def having(self, term: str) -> Ids:
        """The rows that have the term, or whose speaker's name has it; each once."""
        return np.unique(np.concatenate([self._rows_with(term), *self.spoken_by(term)]))

    def _rows_with(self, term: str) -> Ids:
        flat, owners = self._terms
        (number,) = text.hashes([term])
        return owners[np.flatnonzero(flat == number)]

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value for a key, computed at first use: questions repeat the same words."""
        value: T | None = self._cache.get(key)
        if value is None:
            if len(self._cache) > MOST_CACHED:
                self._cache.clear()
            value = self._cache[key] = make()
        return value

    def spoken_by(self, term: str) -> Sequence[Ids]:
        """The rows of speakers whose name has the term."""
        return self._speaker_terms.get(term, ())

    def dated(self, term: str) -> Sequence[Ids]:
        """The rows of days whose date has the term."""
        return self._date_terms.get(term, ())

    def best_matches(self, tokens: Tokens, previous: float) -> list[NDArray[np.float32]]:
        """Squared cosine of each question token with the nearest token of each row, or of the row before times `previous`."""
        ids = tokens.ids.tolist()
        missing = [token for token in ids if ("late", token, previous) not in self._cache]
        if missing:
            if len(self._cache) > MOST_CACHED:
                self._cache.clear()
                missing = ids
            for token, best in zip(missing, self._matched(tokens.unit, np.array(missing)), strict=True):
                self._cache["late", token, previous] = np.maximum(best[:-1], np.float32(previous) * best[self.before])
        return [self._cache["late", token, previous] for token in ids]

    def _matched(self, unit: NDArray[np.float32], ids: Ids) -> NDArray[np.float32]:
        """The best match of each token in each row alone, and a last 0."""
        flat, filled, starts = self._tokens
        best = np.zeros((len(ids), len(self.rows) + 1), dtype=np.float32)
        if len(flat):
            vocabulary, numbers = self._vocabulary
            # The vectors of the vocabulary are gathered once, for later questions too: gathering is most of the work.
            blocks = self.cached(("blocks",), lambda: _blocks(unit, vocabulary))
            similar = np.square(np.maximum(_products(blocks, unit[ids]), 0))
            # A line for each question token, so that values to compare are side by side in memory.
            best[:, filled] = np.maximum.reduceat(similar.T.take(numbers, axis=1), starts, axis=1)
        return best

    def are_verbatim(self, terms: Sequence[str]) -> Mask:
        """Which rows consist of exactly these terms."""
        equal = np.zeros(len(self.rows), dtype=np.bool_)
        if terms:
            hashes = text.hashes(terms).tobytes()
            for index in np.flatnonzero(self.lengths == len(hashes) // 4).tolist():
                equal[index] = self.rows[index].terms == hashes
        return equal


def _place(row: Candidate, line: Collection[str]) -> AskedScope:
    is_other = row.scope == Scope.SESSION and row.session_id not in line
    return AskedScope.HISTORY if is_other else AskedScope(row.scope)


def _rows_by(values: Iterable[K]) -> dict[K, Ids]:
    """The indexes of the rows that have each value."""
    indexes: dict[K, list[int]] = {}
    for index, value in enumerate(values):
        indexes.setdefault(value, []).append(index)
    return {value: np.array(rows) for value, rows in indexes.items()}


def _numbered(values: Iterable[object]) -> Ids:
    """A number for each different value."""
    numbers: dict[object, int] = {}
    return np.fromiter((numbers.setdefault(value, len(numbers)) for value in values), np.int64)


def _neighbours(threads: Ids, positions: Ids) -> tuple[Ids, Ids]:
    """For each row the index of the one before and of the one after it in its thread, or -1."""
    order = np.lexsort((positions, threads))
    follows = (np.diff(threads[order]) == 0) & (np.diff(positions[order]) == 1)
    before, after = np.full(len(threads), -1), np.full(len(threads), -1)
    before[order[1:][follows]] = order[:-1][follows]
    after[order[:-1][follows]] = order[1:][follows]
    return before, after


def _by_term(groups: Iterable[tuple[frozenset[str], Ids]]) -> dict[str, list[Ids]]:
    by_term: dict[str, list[Ids]] = {}
    for terms, rows in groups:
        for term in terms:
            by_term.setdefault(term, []).append(rows)
    return by_term


def _direction(ids: Ids, tokens: Tokens) -> NDArray[np.float32]:
    """The mean of these tokens' vectors, at length 1."""
    mean = tokens.norms[ids] @ tokens.unit[ids]
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9), dtype=np.float32)


def _after(text: Sequence[int], marks: frozenset[int], ends: frozenset[int]) -> Sequence[int]:
    """The tokens after the last mark, up to the next end; all of them if nothing follows a mark."""
    first = max((place + 1 for place, token in enumerate(text) if token in marks), default=0)
    past = next((place for place in range(first, len(text)) if text[place] in ends), len(text))
    return text[first:past] or text


@lru_cache(maxsize=10_000)
def _speaker_terms(speaker: str) -> frozenset[str]:
    return frozenset(text.terms(speaker))


@lru_cache(maxsize=10_000)
def _date_terms(day: date) -> frozenset[str]:
    return frozenset(text.terms(f"{day:%d %B %Y}"))


def _blocks(unit: NDArray[np.float32], ids: Ids) -> NDArray[np.float32]:
    """The vectors of these tokens in blocks; the last block is padded."""
    padded = np.zeros(-(-len(ids) // BLOCK) * BLOCK, dtype=np.intp)
    padded[: len(ids)] = ids
    return unit[padded].reshape(-1, BLOCK, unit.shape[1])


def _products(blocks: NDArray[np.float32], question: NDArray[np.float32]) -> NDArray[np.float32]:
    """The product of each vector with each of the question, a line for each vector.

    The blocks are so small that the linear algebra library does not wake threads for them. Those threads spin: under load a
    recall took four times as long with them.
    """
    return np.asarray(np.matmul(blocks, question.T), dtype=np.float32).reshape(-1, len(question))
