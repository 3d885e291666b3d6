"""The queries of snapshots: what one identity may see, read column by column.

The first row of an answer has the values that the ranker computes with, those of all items one after another. The rows after it
have the columns of each item, which stay as the database sent them until the item is shown: of those that are searched few are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, overload
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recordari.core.identity import AskedScope, Scope
from recordari.core.items import Kind, Tier, Trust
from recordari.core.text import tsquery_literal
from recordari.db.database import Database
from recordari.db.pipeline import EncodedValue, RawAnswer, encoded
from recordari.db.queries import Queries, Query, delegated
from recordari.recall.request import SHOWN_COLUMNS
from recordari.recall.rules.numbering import Floats, Ids, RowBlock
from recordari.recall.storage import SearchVariant, Visibility, area_parameters

queries = Queries(__name__)

ENTRY = 20  # bytes: an id and the number of its last change
_ID = 16
_HEAD = 20  # bytes before the numbers of a vector: the id of its item, and its length
_STATE, _COLUMNS, _TEXTS, _MEANT = range(4), range(4, 17), 17, range(18, 20)
_LATE = {name: column for column, name in enumerate((*SHOWN_COLUMNS.values(), "thread"), start=20)}
_OF_SHOWN = [_LATE[column] for column in SHOWN_COLUMNS.values()]
_MEMBERS: Mapping[str, Mapping[str, Any]] = {
    field: {str(member): member for member in choices}
    for field, choices in {"source_kind": Kind, "scope": Scope, "tier": Tier, "trust": Trust}.items()
}
_EPOCH = np.int64(datetime(2000, 1, 1).toordinal())  # PostgreSQL counts microseconds from its beginning
_UNIX_SECONDS = 946_684_800
_DAY = 86_400 * 1_000_000
# A table is faster than converting: there are few halves, and each vector has hundreds.
_HALVES: NDArray[np.float32] = np.arange(1 << 16, dtype=np.uint16).byteswap().view(np.float16).astype(np.float32)


class SnapshotRow:
    """A visible item; its columns are read when they are asked for."""

    __slots__ = ("_answer", "_content", "_item_id", "_row", "_shown", "entry")

    def __init__(self, entry: bytes, answer: RawAnswer, row: int) -> None:
        self.entry = entry
        self._answer = answer
        self._row = row
        self._item_id: UUID | None = None
        self._content: str | None = None
        self._shown: dict[str, Any] | None = None

    @property
    def item_id(self) -> UUID:
        if self._item_id is None:
            self._item_id = self._answer.value(self._row, _LATE["item_id"])
        assert self._item_id is not None
        return self._item_id

    @property
    def kind(self) -> str:
        kind: str = self._answer.value(self._row, _LATE["kind"])
        return kind

    @property
    def content(self) -> str:
        if self._content is None:
            self._content = self._answer.value(self._row, _LATE["content"])
        assert self._content is not None
        return self._content

    @property
    def speaker(self) -> str | None:
        speaker: str | None = self._answer.value(self._row, _LATE["speaker"])
        return speaker

    @property
    def thread(self) -> str | None:
        thread: str | None = self._answer.value(self._row, _LATE["thread"])
        return thread

    @property
    def archived_at(self) -> datetime | None:
        archived_at: datetime | None = self._answer.value(self._row, _LATE["archived_at"])
        return archived_at

    @property
    def event_time(self) -> datetime:
        event_time: datetime = self._answer.value(self._row, _LATE["event_time"])
        return event_time

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.shown["metadata"]
        return metadata

    @property
    def shown(self) -> Mapping[str, Any]:
        """The fields of a recalled item that are the item's own; made once: those that are shown are shown again and again."""
        if self._shown is None:
            shown = dict(zip(SHOWN_COLUMNS, self._answer.values(self._row, _OF_SHOWN), strict=True))
            for name, members in _MEMBERS.items():
                shown[name] = members[shown[name]]
            shown["archived"] = shown["archived"] is not None
            self._shown = shown
        return self._shown


class SnapshotRows(Sequence[SnapshotRow]):
    """The visible items of an answer; each row is made when it is looked at."""

    def __init__(self, entries: bytes, answer: RawAnswer) -> None:
        self.entries = entries
        self._answer = answer
        self._rows: list[SnapshotRow | None] = [None] * (len(entries) // ENTRY)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> SnapshotRow: ...

    @overload
    def __getitem__(self, place: slice) -> list[SnapshotRow]: ...

    def __getitem__(self, place: int | slice) -> SnapshotRow | list[SnapshotRow]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        row = self._rows[place]
        if row is None:
            # The first row of the answer has the columns of all items.
            row = SnapshotRow(self.entries[place * ENTRY : (place + 1) * ENTRY], self._answer, place + 1)
            self._rows[place] = row
        return row

    def __iter__(self) -> Iterator[SnapshotRow]:
        return (self[place] for place in range(len(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRead:
    """The items that were read, and how they are searched."""

    rows: Sequence[SnapshotRow]
    block: RowBlock
    vectors: NDArray[np.float32]
    """Not a number where an item has none."""
    text_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleVersions:
    """The state of the items that are visible to an identity."""

    changes: int
    """How often they have changed."""
    versions: bytes
    """The id and the number of the last change of each item."""
    waiting: bool
    """Whether the topics have work left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedRead:
    """The state of a small memory, and its items that were not known."""

    state: VisibleVersions
    links: bytes
    """The ids of a fact and of what it was taken from, for each such pair."""
    answer: RawAnswer

    def items(self) -> SnapshotRead:
        return _read(self.answer)

    def is_beyond(self, most: int) -> bool:
        """Whether there are more items than that, or vectors: the query reads no more than one too many."""
        return len(self.state.versions) > most * ENTRY or self.vectors > most

    @property
    def vectors(self) -> int:
        """How many vectors were read."""
        names: str | None = self.answer.value(0, _MEANT[1])
        return 0 if names is None else names.count("\x1e") + 1


async def find_visible_versions(
    database: Database, visibility: Visibility, *, known: VisibleVersions | None, topics: Sequence[str], limit: int
) -> VisibleVersions:
    """The state now; the database sends the versions only if the count of changes is not the known one."""
    query, parameters = _query(queries.visible_versions, visibility, tuple(topics))
    changes = known.changes if known is not None else None
    answer = await database.execute_raw(visibility.identity, query, {**parameters, "known": changes, "limit": limit})
    versions = answer.sent(0, 1)
    if versions is None and known is not None:
        versions = known.versions
    return VisibleVersions(changes=answer.value(0, 0), versions=versions or b"", waiting=answer.value(0, 2))


async def find_state(
    database: Database, visibility: Visibility, *, topics: Sequence[str], meanwhile: Callable[[], object]
) -> tuple[int, bool]:
    """How often the visible items have changed, and whether the topics have work left."""
    query, parameters = _query(queries.memory_state, visibility, tuple(topics))
    answer = await database.execute_raw(visibility.identity, query, parameters, meanwhile)
    return answer.value(0, 0), answer.value(0, 1)


async def find_owned_rows(
    database: Database,
    visibility: Visibility,
    model_id: str,
    *,
    topics: Sequence[str],
    limit: int,
    meanwhile: Callable[[], object],
) -> OwnedRead:
    """All visible items of a small memory."""
    query, parameters = _query(queries.owned_rows, visibility, tuple(topics))
    values = {**parameters, "model_id": model_id, "limit": limit}
    answer = await database.execute_raw(visibility.identity, query, values, meanwhile)
    state = VisibleVersions(changes=answer.value(0, 0), waiting=answer.value(0, 1), versions=answer.sent(0, 4) or b"")
    return OwnedRead(state=state, links=answer.sent(0, 3) or b"", answer=answer)


async def find_changed_rows(
    database: Database,
    visibility: Visibility,
    model_id: str,
    *,
    known: int | None,
    entries: bytes,
    topics: Sequence[str],
    limit: int,
    meanwhile: Callable[[], object],
) -> OwnedRead:
    """The state, and the items that are not among the entries; no items if the count of changes is the known one."""
    query, parameters = _query(queries.changed_rows, visibility, tuple(topics))
    values = {**parameters, "model_id": model_id, "known": known, "entries": entries, "limit": limit}
    answer = await database.execute_raw(visibility.identity, query, values, meanwhile)
    state = VisibleVersions(changes=answer.value(0, 0), waiting=answer.value(0, 1), versions=answer.sent(0, 2) or b"")
    return OwnedRead(state=state, links=answer.sent(0, 3) or b"", answer=answer)


async def find_snapshot_rows(
    database: Database, visibility: Visibility, model_id: str, item_ids: Sequence[UUID]
) -> SnapshotRead:
    query, parameters = _query(queries.snapshot_rows, visibility, ())
    values = {**parameters, "model_id": model_id, "item_ids": list(item_ids)}
    return _read(await database.execute_raw(visibility.identity, query, values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How many items are visible, and how many terms they have on average; facts that repeat a message do not count."""

    items: int
    mean_length: float


async def find_extent(database: Database, visibility: Visibility, *, most: int) -> Extent:
    """The extent of a memory, counted up to so many items."""
    query = _counting(queries.extent, visibility)
    (row,) = await database.execute(
        visibility.identity, query, **area_parameters(visibility.identity, visibility), limit=most
    )
    return Extent(items=row[0], mean_length=row[1])


async def count_terms(database: Database, visibility: Visibility, terms: Sequence[str]) -> dict[str, int]:
    """In how many visible items each term occurs."""
    rows = await database.execute(
        visibility.identity,
        _counting(queries.frequencies, visibility),
        **area_parameters(visibility.identity, visibility),
        queries=[tsquery_literal([term]) for term in terms],
    )
    return {term: count for term, (count,) in zip(terms, rows, strict=True)}


def _counting(query: Query, visibility: Visibility) -> Query:
    return _counting_variant(query, history=AskedScope.HISTORY in visibility.scopes, archived=visibility.archived)


@lru_cache(maxsize=32)
def _counting_variant(query: Query, *, history: bool, archived: bool) -> Query:
    variant = _current(history=history, archived=archived)
    return _named(
        query.filled(
            owned=_owned(variant),
            with_word=variant.with_word,
            live=variant.live,
            visible=variant.visible,
            no_repetition=queries.no_repetition.sql,
        ),
        variant,
    )


@lru_cache(maxsize=10_000)
def _query(query: Query, visibility: Visibility, topics: Sequence[str]) -> tuple[Query, Mapping[str, EncodedValue]]:
    """A query of a memory, and those of its parameters that stay the same."""
    parameters = area_parameters(visibility.identity, visibility) | {
        "topics": list(topics),
        "session_user": visibility.identity.user_id,
    }
    whole = filled(query, history=AskedScope.HISTORY in visibility.scopes, archived=visibility.archived)
    return whole, encoded(parameters)


def _current(*, history: bool, archived: bool) -> SearchVariant:
    return SearchVariant(past="holds_now", archived=archived, of_source=False, history=history)


def _owned(variant: SearchVariant) -> str:
    """What the owners have, one range of an index after another."""
    owned = [queries.owned, *([queries.owned_history] if variant.history else [])]
    return " UNION ALL ".join(f"({part.sql})" for part in owned)


def _named(query: Query, variant: SearchVariant) -> Query:
    """With a name of its own: the connection prepares statements by name."""
    return replace(query, name=f"{query.name}_{variant.name}", binary=True)


@lru_cache(maxsize=32)
def filled(query: Query, *, history: bool, archived: bool) -> Query:
    """A query for memories with or without other sessions and what has faded."""
    variant = _current(history=history, archived=archived)
    is_owned, is_changed = query == queries.owned_rows, query == queries.changed_rows
    meant = (
        [queries.meanings, *([queries.meanings_history] if history else [])] if is_owned else [queries.meanings_of_new]
    )
    snapshot = queries.snapshot.filled(
        entries=queries.entries.sql if is_changed else "NULL::bytea",
        links=queries.links.filled(seen="seen" if is_changed else "new").sql
        if is_owned or is_changed
        else "NULL::bytea",
        meant=" UNION ALL ".join(f"({part.sql})" for part in meant),
        no_columns=", ".join(["NULL"] * len(_LATE)),
        late_columns=", ".join(f"n.{name}" for name in _LATE),
    )
    whole = query.filled(snapshot=snapshot.sql).filled(
        owned=_owned(variant),
        changes=queries.changes.sql,
        waiting=queries.waiting.sql,
        live=variant.live,
        visible=variant.visible,
    )
    return delegated(_named(whole, variant))


MEMORY_QUERIES = tuple(
    filled(query, history=history, archived=archived)
    for query in (
        queries.visible_versions,
        queries.memory_state,
        queries.snapshot_rows,
        queries.owned_rows,
        queries.changed_rows,
    )
    for history in (False, True)
    for archived in (False, True)
)
"""Every query of a memory as it is sent, so that a cluster has a function for each."""


def _read(answer: RawAnswer) -> SnapshotRead:
    entries = answer.sent(0, _COLUMNS[0]) or b""
    vectors, names = _meanings(answer, entries)
    return SnapshotRead(
        rows=SnapshotRows(entries, answer),
        block=_block(answer, names),
        vectors=vectors,
        text_bytes=answer.value(0, _TEXTS) or 0,
    )


def _meanings(answer: RawAnswer, entries: bytes) -> tuple[NDArray[np.float32], Sequence[Sequence[str]]]:
    """The vector and the names of each row; they come in an order of their own."""
    many = len(entries) // ENTRY
    names: list[Sequence[str]] = [()] * many
    sent = answer.sent(0, _MEANT[0])
    if sent is None:
        return np.full((many, 1), np.nan, dtype=np.float32), names
    named: list[str] = answer.value(0, _MEANT[1]).split("\x1e")
    halves = np.frombuffer(sent, dtype=np.uint16).reshape(len(named), -1)
    places = _places(halves[:, : _ID // 2], entries)
    if places == range(many):
        vectors = _HALVES.take(halves[:, _HEAD // 2 :])
    else:
        vectors = np.full((many, halves.shape[1] - _HEAD // 2), np.nan, dtype=np.float32)
        visible = [number for number, place in enumerate(places) if place >= 0]
        vectors[[places[number] for number in visible]] = _HALVES.take(halves[visible, _HEAD // 2 :])
    for place, mentioned in zip(places, named, strict=True):
        if mentioned and place >= 0:
            names[place] = mentioned.split("\x1f")
    return vectors, names


def _places(ids: NDArray[np.uint16], entries: bytes) -> Sequence[int]:
    """The row of each of these ids, or -1 for an item that is not visible."""
    of_rows = np.frombuffer(entries, dtype=np.uint16).reshape(-1, ENTRY // 2)[:, : _ID // 2]
    if np.array_equal(ids, of_rows):  # in the order of the rows, as most are
        return range(len(ids))
    sent, known = ids.tobytes(), of_rows.tobytes()
    rows = {known[at : at + _ID]: row for row, at in enumerate(range(0, len(known), _ID))}
    return [rows.get(sent[at : at + _ID], -1) for at in range(0, len(sent), _ID)]


def _block(answer: RawAnswer, names: Sequence[Sequence[str]]) -> RowBlock:
    _, threads, sessions, speakers, scopes, times, positions, traits, flags, of_terms, terms, of_tokens, tokens = (
        _COLUMNS
    )
    microseconds, marks = _numbers(answer.sent(0, times), ">i8"), _numbers(answer.sent(0, flags), ">i4")
    return RowBlock(
        threads=answer.value(0, threads) or (),
        sessions=answer.value(0, sessions) or (),
        speakers=answer.value(0, speakers) or (),
        scopes=answer.value(0, scopes) or (),
        moments=_seconds(microseconds),
        days=microseconds // _DAY + _EPOCH,
        positions=_numbers(answer.sent(0, positions), ">i4"),
        traits=_numbers(answer.sent(0, traits), ">i2"),
        is_fact=marks & 1 > 0,
        is_users=marks & 2 > 0,
        is_archived=marks & 4 > 0,
        terms=np.frombuffer(answer.sent(0, terms) or b"", dtype="<u4"),
        term_counts=_numbers(answer.sent(0, of_terms), ">i4") // 4,
        tokens=np.frombuffer(answer.sent(0, tokens) or b"", dtype="<u2"),
        token_counts=_numbers(answer.sent(0, of_tokens), ">i4") // 2,
        names=[name for named in names for name in named],
        name_counts=np.array([len(named) for named in names], dtype=np.int64),
    )


def _seconds(microseconds: Ids) -> Floats:
    return np.asarray((microseconds + _UNIX_SECONDS * 1_000_000) / 1_000_000, dtype=np.float64)


def _numbers(sent: bytes | None, form: str) -> Ids:
    """The numbers of an array without NULL: 20 bytes of its form, then each after its length."""
    if sent is None:
        return np.empty(0, dtype=np.int64)
    return np.frombuffer(sent, dtype=[("length", ">i4"), ("number", form)], offset=20)["number"].astype(np.int64)
