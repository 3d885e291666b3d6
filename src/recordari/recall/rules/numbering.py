"""Rows of a search: candidates, or values that were read column by column; and the numbers that stand for their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recordari.core.identity import Scope
from recordari.core.items import Trust

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

ARMS = ("text", "vector", "time", "entity")
BESIDE = "beside"  # found by no arm: it is next to an item that was


class FoundRow(Protocol):
    """What is known of an item before it is read."""

    @property
    def item_id(self) -> UUID: ...

    @property
    def thread(self) -> str | None: ...

    @property
    def speaker(self) -> str | None: ...

    @property
    def archived_at(self) -> datetime | None: ...


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
    names: Sequence[str] = ()
    """The names that it mentions; known only in a snapshot."""

    @property
    def ranks(self) -> dict[str, int | None]:
        """The rank that each arm gave."""
        return dict(zip(ARMS, (self.text_rank, self.vector_rank, self.time_rank, self.entity_rank), strict=True))

    @property
    def found_by(self) -> tuple[str, ...]:
        return tuple(arm for arm, rank in self.ranks.items() if rank is not None) or (BESIDE,)


ROW = np.dtype(
    [
        ("moment", np.float64),
        ("day", np.int64),
        ("thread", np.int64),
        ("position", np.int64),
        ("session", np.int64),
        ("speaker", np.int64),
        ("traits", np.int64),
        ("scope", np.int64),
        ("terms", np.int64),
        ("tokens", np.int64),
        ("names", np.int64),
        ("is_fact", np.bool_),
        ("is_alone", np.bool_),
        ("is_users", np.bool_),
        ("is_archived", np.bool_),
    ]
)
"""The numbers of a row: names by their number in `Numbers`, `terms`, `tokens` and `names` by how many it has."""
SCOPES: dict[str, int] = {scope: number for number, scope in enumerate(Scope)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowBlock:
    """What columns need of some rows, one sequence for each value; read so, hundreds of rows cost little more than one."""

    threads: Sequence[str | None]
    sessions: Sequence[str | None]
    speakers: Sequence[str | None]
    scopes: Sequence[str]
    moments: Floats
    days: Ids
    positions: Ids
    """-2 for a row without one."""
    traits: Ids
    is_fact: Mask
    is_users: Mask
    is_archived: Mask
    terms: NDArray[np.uint32]
    """Those of all rows one after another, as are tokens and names."""
    term_counts: Ids
    tokens: NDArray[np.uint16]
    token_counts: Ids
    names: Sequence[str]
    name_counts: Ids

    @classmethod
    def of(cls, rows: Sequence[Candidate]) -> RowBlock:
        return cls(
            threads=[row.thread for row in rows],
            sessions=[row.session_id for row in rows],
            speakers=[row.speaker for row in rows],
            scopes=[row.scope for row in rows],
            moments=np.array([row.event_time.timestamp() for row in rows], np.float64),
            days=np.array([row.event_time.toordinal() for row in rows], np.int64),
            positions=np.array([-2 if row.position is None else row.position for row in rows], np.int64),
            traits=np.array([row.traits for row in rows], np.int64),
            is_fact=np.array([row.is_fact for row in rows], np.bool_),
            is_users=np.array([row.trust == Trust.USER for row in rows], np.bool_),
            is_archived=np.array([row.archived_at is not None for row in rows], np.bool_),
            terms=np.frombuffer(b"".join([row.terms for row in rows]), dtype="<u4"),
            term_counts=np.array([len(row.terms) // 4 for row in rows], np.int64),
            tokens=np.frombuffer(b"".join([row.tokens for row in rows]), dtype="<u2"),
            token_counts=np.array([len(row.tokens) // 2 for row in rows], np.int64),
            names=[name for row in rows for name in row.names],
            name_counts=np.array([len(row.names) for row in rows], np.int64),
        )

    @classmethod
    def joined(cls, blocks: Sequence[RowBlock]) -> RowBlock:
        """The rows of these blocks one after another."""
        if len(blocks) <= 1:
            return blocks[0] if blocks else cls.of([])
        return cls(
            **{column.name: _all_of([getattr(block, column.name) for block in blocks]) for column in fields(cls)}
        )

    def chosen(self, rows: Ids) -> RowBlock:
        """These rows in this order."""
        if np.array_equal(rows, np.arange(len(self.moments))):
            return self
        places = rows.tolist()
        ends = np.cumsum(self.name_counts).tolist()
        counts = self.name_counts.tolist()
        return RowBlock(
            threads=[self.threads[row] for row in places],
            sessions=[self.sessions[row] for row in places],
            speakers=[self.speakers[row] for row in places],
            scopes=[self.scopes[row] for row in places],
            moments=self.moments[rows],
            days=self.days[rows],
            positions=self.positions[rows],
            traits=self.traits[rows],
            is_fact=self.is_fact[rows],
            is_users=self.is_users[rows],
            is_archived=self.is_archived[rows],
            terms=reordered(self.terms, self.term_counts, rows),
            term_counts=self.term_counts[rows],
            tokens=reordered(self.tokens, self.token_counts, rows),
            token_counts=self.token_counts[rows],
            names=[name for row in places for name in self.names[ends[row] - counts[row] : ends[row]]],
            name_counts=self.name_counts[rows],
        )


NO_ROWS = RowBlock.of([])


def _all_of(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [value for part in parts for value in part]


def reordered(flat: NDArray[Any], lengths: Ids, order: Ids) -> NDArray[Any]:
    """Parts of these lengths, which are one after another, in another order or without some of them."""
    return gathered(flat, (np.cumsum(lengths) - lengths)[order], lengths[order])


def gathered(flat: NDArray[Any], starts: Ids, lengths: Ids) -> NDArray[Any]:
    """The parts that begin there and have these lengths, one after another."""
    moved = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return flat[moved + np.arange(len(moved))]


def rows_by(values: Ids) -> dict[int, Ids]:
    """The rows that have each value, in their order."""
    if len(values) and (values == values[0]).all():
        return {int(values[0]): np.arange(len(values))}
    order = np.argsort(values, kind="stable")
    names, starts = np.unique(values[order], return_index=True)
    return dict(zip(names.tolist(), np.split(order, starts[1:]), strict=True)) if len(values) else {}


def neighbours(threads: Ids, positions: Ids) -> tuple[Ids, Ids]:
    """For each row the index of the one before and of the one after it in its thread, or -1."""
    if (positions < 0).all():  # nothing is in a thread
        return np.full(len(threads), -1), np.full(len(threads), -1)
    order = np.lexsort((positions, threads))
    follows = (np.diff(threads[order]) == 0) & (np.diff(positions[order]) == 1)
    before, after = np.full(len(threads), -1), np.full(len(threads), -1)
    before[order[1:][follows]] = order[:-1][follows]
    after[order[:-1][follows]] = order[1:][follows]
    return before, after


def by_term(groups: Iterable[tuple[frozenset[str], Ids]]) -> dict[str, list[Ids]]:
    """The rows of each term."""
    by_term: dict[str, list[Ids]] = {}
    for terms, rows in groups:
        for term in terms:
            by_term.setdefault(term, []).append(rows)
    return by_term


class _Numbering(dict[str, int]):
    """A number for each name, given when it is first looked up; what has no name gets one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0

    def __missing__(self, name: str) -> int:
        number = self[name] = self.given
        self.given += 1
        return number

    def of(self, names: Sequence[str | None]) -> Ids:
        unnamed = names.count(None)
        numbers = np.empty(len(names), dtype=np.int64)
        if unnamed < len(names):
            numbers[:] = [-1 if name is None else self[name] for name in names]
        if unnamed:
            numbers[numbers < 0 if unnamed < len(names) else slice(None)] = range(self.given, self.given + unnamed)
            self.given += unnamed
        return numbers


class Numbers:
    """A number for each thread, session, speaker and name; columns made from others go on counting."""

    def __init__(self) -> None:
        self.threads, self.sessions, self.speakers, self.names = (_Numbering() for _ in range(4))

    def __len__(self) -> int:
        return self.threads.given + self.sessions.given + self.names.given

    def table(self, block: RowBlock) -> NDArray[np.void]:
        table = np.empty(len(block.moments), dtype=ROW)
        speakers = {name: self.speakers[(name or "").casefold()] for name in set(block.speakers)}
        table["moment"] = block.moments
        table["day"] = block.days
        table["thread"] = self.threads.of(block.threads)
        table["position"] = block.positions
        table["session"] = self.sessions.of([a or b for a, b in zip(block.sessions, block.threads, strict=True)])
        table["speaker"] = [speakers[name] for name in block.speakers]
        table["traits"] = block.traits
        table["scope"] = [SCOPES[scope] for scope in block.scopes]
        table["terms"] = block.term_counts
        table["tokens"] = block.token_counts
        table["names"] = block.name_counts
        table["is_fact"] = block.is_fact
        table["is_alone"] = [thread is None for thread in block.threads]
        table["is_users"] = block.is_users
        table["is_archived"] = block.is_archived
        return table

    def named(self, block: RowBlock) -> Ids:
        return np.array([self.names[name] for name in block.names], dtype=np.int64)


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

    def among(self, rows: Ids) -> SearchHits:
        """The same for these rows alone, which are in ascending order and have every hit."""
        return SearchHits(
            hits=np.searchsorted(rows, self.hits),
            similarity=self.similarity[rows],
            entity=self.entity[rows],
            linked=self.linked[rows],
        )


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
