"""Snapshots of memories in the process.

A snapshot holds exactly the items that one identity may see. The database decides at every recall, under row-level security,
which items those are: if its count of changes is not the known one, it answers with the id and the last change of each item,
and only items with equal versions are taken from the snapshot. New and changed items are fetched, missing ones dropped, before
the search begins. A snapshot can therefore be slow to come, but never shows an item that was superseded, archived or
forgotten, or that belongs to somebody else.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recordari.core.cache import BoundedMap
from recordari.core.identity import TenantId
from recordari.db.database import Database
from recordari.memory.rules import Collection
from recordari.recall import snapshot_storage
from recordari.recall.rules.arms import marked
from recordari.recall.rules.candidates import Columns
from recordari.recall.rules.numbering import Floats, Ids, RowBlock
from recordari.recall.snapshot_storage import (
    ENTRY,
    OwnedRead,
    SnapshotRead,
    SnapshotRow,
    SnapshotRows,
    VisibleVersions,
)
from recordari.recall.storage import Visibility

MOST_OWNED = 1_000  # visible items that are read whole, in one round trip: it costs less than any search
MOST_ITEMS = 20_000  # in a snapshot; larger memories are searched by the indexes of the database
MOST_BYTES = 192 * 2**20
ITEM_BYTES = 2_600  # about: one item without its text and vector
SNAPSHOT_SECONDS = 600.0
REQUEST_SECONDS = 60.0  # a memory gets a snapshot when it is asked twice in this time, a large one more often
FETCHED_PER_REQUEST = 400  # items; fetching so many costs about as much as a search in the database
COMPARED_PER_REQUEST = 2_000  # and so does, about, finding out which of so many have changed
MOST_REQUESTS = 10_000
FETCHED = 250  # items at a time


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The items that one identity may see, and their versions."""

    state: VisibleVersions
    items: Sequence[SnapshotRow]
    columns: Columns
    vectors: NDArray[np.float32]
    lacking: Sequence[bytes]
    """The entries of items that had no vector yet when they were fetched."""
    is_incomplete: bool
    """Whether some of these were still to be embedded."""
    text_bytes: int
    links: Ids | None
    """The rows of a fact and of what it was taken from, for each such pair; None where they were not read."""
    made_at: float
    is_steady: bool = True
    """Whether it is likely that nothing has changed at the next look, as at the last one."""

    @cached_property
    def places(self) -> dict[bytes, int]:
        """The row of each entry."""
        return {entry: index for index, entry in enumerate(_entries(self.entries))}

    @cached_property
    def entries(self) -> bytes:
        """The entry of each row."""
        return _entries_of(self.items)

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        of_items = len(self.items) * ITEM_BYTES + self.text_bytes
        return of_items + self.vectors.nbytes + self.columns.kept_bytes

    @property
    def embedded(self) -> bytes:
        """The entries of the items with a vector."""
        lacking = set(self.lacking)
        return b"".join([one for one in _entries(self.entries) if one not in lacking]) if lacking else self.entries

    def begins_as(self, entries: bytes) -> int:
        """How many of these entries are those of the first rows."""
        many = min(len(entries), len(self.entries)) // ENTRY
        ours = np.frombuffer(self.entries, np.uint8, many * ENTRY)
        others = np.flatnonzero(ours != np.frombuffer(entries, np.uint8, many * ENTRY))
        return int(others[0]) // ENTRY if len(others) else many

    def links_among(self, rows: Sequence[int]) -> list[tuple[UUID, UUID]] | None:
        """Pairs of a fact and what it was taken from, among these rows."""
        if self.links is None:
            return None
        if not len(self.links):
            return []
        both = marked(len(self.items), np.array(rows, dtype=np.int64))[self.links].all(axis=1)
        return [(self.items[fact].item_id, self.items[source].item_id) for fact, source in self.links[both].tolist()]

    def collection(self, terms: Sequence[str]) -> Collection:
        """How common terms are among the items that are no repetitions."""
        return self.columns.collection(terms, self._repetitions)

    @cached_property
    def _repetitions(self) -> Ids:
        """The rows of facts that repeat a message; where that was not read: of all facts, unless these are the most."""
        if self.links is not None:
            return self.links[:, 0]
        facts = np.flatnonzero(self.columns.is_fact)
        return facts if 2 * len(facts) < len(self.items) else facts[:0]

    def similarity(self, vector: NDArray[np.float32]) -> Floats:
        """How near each item is to a vector; not a number for an item without one."""
        if self.vectors.shape[1] != len(vector):  # nothing is embedded yet
            return np.full(len(self.items), np.nan)
        # The database compares halves; not BLAS, whose threads cost more than they bring here.
        halved = vector.astype(np.float16).astype(np.float32)
        return np.asarray(np.einsum("ij,j->i", self.vectors, halved), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Key:
    visibility: Visibility
    model_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requests:
    """How often a memory without a snapshot was asked, and since when; a later moment: not before then."""

    times: int
    since: float
    cost: int = 0
    """How many searches a snapshot costs, as far as that is known."""
    changes: int | None = None
    """How often the memory had changed: one that changes between questions is not brought up to date for each."""

    @property
    def is_enough(self) -> bool:
        """Whether a snapshot pays."""
        is_recent = 0 <= time.monotonic() - self.since <= REQUEST_SECONDS
        return is_recent and self.times >= 2 + self.cost


class SnapshotCache:
    """Keeps snapshots of memories that are asked again and again, as far as there is room."""

    def __init__(self) -> None:
        self._snapshots: OrderedDict[_Key, Snapshot] = OrderedDict()
        self._requests: BoundedMap[_Key, _Requests] = BoundedMap(MOST_REQUESTS)
        self._large: BoundedMap[_Key, bool] = BoundedMap(MOST_REQUESTS, seconds=SNAPSHOT_SECONDS)
        self._sizes: dict[_Key, int] = {}
        self._held = 0
        self._reading: dict[_Key, asyncio.Future[None]] = {}
        self._following: dict[_Key, asyncio.Task[VisibleVersions]] = {}
        self._fetching: set[_Key] = set()

    def __len__(self) -> int:
        return len(self._snapshots)

    async def read(
        self,
        database: Database,
        visibility: Visibility,
        *,
        model_id: str,
        topics: Sequence[str],
        meanwhile: Callable[[], object],
    ) -> tuple[Snapshot, bool] | None:
        """The items visible now, and whether the topics have work left; None when the database must be searched.

        `meanwhile` is called while the database reads a small memory; of another one perhaps not at all.
        """
        key = _Key(visibility, model_id)
        if self._large.get(key) is None:
            owned = await self._read_owned(database, key, topics, meanwhile)
            if owned is not None:
                return owned
        snapshot = self._snapshots.get(key)
        if snapshot is not None and snapshot.columns.is_large:
            changes, waiting = await snapshot_storage.find_state(
                database, visibility, topics=topics, meanwhile=meanwhile
            )
            if changes == snapshot.state.changes and not snapshot.is_incomplete:
                self._keep(key, snapshot)
                return snapshot, waiting
            cost = len(snapshot.items) // COMPARED_PER_REQUEST
            if not self._count_request(key, cost=cost, changes=changes).is_enough:
                return None
        requests = self._count_request(key) if snapshot is None else None
        if requests is not None and not requests.is_enough:
            return None
        state = await self._current_state(database, key, topics)
        snapshot = self._snapshots.get(key, snapshot)  # another request may have fetched it meanwhile
        items = len(state.versions) // ENTRY
        if items > MOST_ITEMS:
            self._drop(key)
            self._put_off(key)
            return None
        if requests is not None and not (requests := replace(requests, cost=items // FETCHED_PER_REQUEST)).is_enough:
            self._requests.put(key, requests)
            return None
        if snapshot is None or state.versions != snapshot.state.versions or snapshot.is_incomplete:
            snapshot = await self._refreshed(database, key, snapshot, state)
        elif snapshot.state.changes != state.changes:
            snapshot = replace(snapshot, state=state)
        self._requests.pop(key)  # a snapshot that must make room has to be earned again
        if snapshot is None:
            return None
        self._keep(key, snapshot)
        if key not in self._snapshots:  # it takes more room than there is
            self._put_off(key)
        return snapshot, state.waiting

    async def _read_owned(
        self,
        database: Database,
        key: _Key,
        topics: Sequence[str],
        meanwhile: Callable[[], object],
    ) -> tuple[Snapshot, bool] | None:
        """Read a small memory; of one that is at hand only what has changed. None if it is not small."""
        before = self._snapshots.get(key)
        if before is not None and before.columns.are_worn(len(before.items)):
            before = None
        is_whole = before is not None and before.links is not None and not before.is_incomplete
        if before is not None and is_whole and before.is_steady:
            changes, waiting = await snapshot_storage.find_state(
                database, key.visibility, topics=topics, meanwhile=meanwhile
            )
            if changes == before.state.changes:
                self._keep(key, before)
                return before, waiting
        owned = await self._read_rows(database, key, before, topics, meanwhile, is_whole=is_whole)
        if owned.is_beyond(MOST_OWNED):
            self._large.put(key, True)
            return None
        if before is not None and is_whole and owned.state.changes == before.state.changes:
            snapshot = replace(before, is_steady=True)
        else:
            is_steady = before is None and not key.visibility.line  # a session goes on after its question
            snapshot = replace(_owned_snapshot(owned, before), is_steady=is_steady)
        self._keep(key, snapshot)
        return snapshot, owned.state.waiting

    async def _read_rows(
        self,
        database: Database,
        key: _Key,
        before: Snapshot | None,
        topics: Sequence[str],
        meanwhile: Callable[[], object],
        *,
        is_whole: bool,
    ) -> OwnedRead:
        if before is None:
            return await snapshot_storage.find_owned_rows(
                database, key.visibility, key.model_id, topics=topics, limit=MOST_OWNED + 1, meanwhile=meanwhile
            )
        return await snapshot_storage.find_changed_rows(
            database,
            key.visibility,
            key.model_id,
            known=before.state.changes if is_whole else None,
            entries=before.embedded,
            topics=topics,
            limit=MOST_OWNED + 1,
            meanwhile=meanwhile,
        )

    async def _current_state(self, database: Database, key: _Key, topics: Sequence[str]) -> VisibleVersions:
        """The state now. Callers during a read share the next read, which begins after all of them called."""
        following = self._following.get(key)
        if following is None:
            if key not in self._reading:
                return await self._read_state(database, key, topics)
            following = self._following[key] = asyncio.create_task(self._read_next(database, key, topics))
        return await asyncio.shield(following)

    async def _read_next(self, database: Database, key: _Key, topics: Sequence[str]) -> VisibleVersions:
        while (reading := self._reading.get(key)) is not None:
            await reading
        del self._following[key]
        return await self._read_state(database, key, topics)

    async def _read_state(self, database: Database, key: _Key, topics: Sequence[str]) -> VisibleVersions:
        done = self._reading[key] = asyncio.get_running_loop().create_future()
        snapshot = self._snapshots.get(key)
        known = snapshot.state if snapshot is not None else None
        try:
            return await snapshot_storage.find_visible_versions(
                database, key.visibility, known=known, topics=topics, limit=MOST_ITEMS + 1
            )
        finally:
            del self._reading[key]
            done.set_result(None)

    def forget_tenant(self, tenant_id: TenantId) -> None:
        for key in [key for key in self._snapshots if key.visibility.identity.tenant_id == tenant_id]:
            self._drop(key)

    def _put_off(self, key: _Key) -> None:
        """Count no requests of this memory for a while."""
        self._requests.put(key, _Requests(times=0, since=time.monotonic() + SNAPSHOT_SECONDS))

    def _count_request(self, key: _Key, *, cost: int = 0, changes: int | None = None) -> _Requests:
        now = time.monotonic()
        before = self._requests.get(key)
        if before is None or before.changes != changes:
            before = _Requests(times=0, since=now, cost=cost, changes=changes)
        if now - before.since > REQUEST_SECONDS:
            before = replace(before, times=0, since=now)
        return self._requests.put(key, replace(before, times=before.times + 1))

    async def _refreshed(
        self, database: Database, key: _Key, before: Snapshot | None, state: VisibleVersions
    ) -> Snapshot | None:
        """The snapshot of this state: unchanged rows, and those that must be fetched; None while these are too many."""
        entries = list(_entries(state.versions))
        lacking = set(before.lacking) if before is not None else set()
        known = before.places if before is not None else {}
        missing = [entry for entry in entries if entry not in known or entry in lacking]
        if before is not None and not missing and len(entries) == len(before.items):
            return replace(before, state=state)  # the same in another order
        if len(missing) > FETCHED and (state.waiting or key in self._fetching):
            # During an import they would be fetched at every recall, and while one request fetches them, by every other too.
            return None
        self._fetching.add(key)
        try:
            reads = await self._fetched(database, key, missing)
            if before is None:
                return await asyncio.to_thread(_snapshot, [], reads, state, before=None)
        finally:
            self._fetching.discard(key)
        new = set(missing)
        kept = [before.items[known[entry]] for entry in entries if entry not in new]
        return _snapshot(kept, reads, state, before=before)

    async def _fetched(self, database: Database, key: _Key, entries: Sequence[bytes]) -> list[SnapshotRead]:
        """The items of these entries, in pages, so that the event loop goes on; perhaps changed once more meanwhile."""
        pages = [entries[start : start + FETCHED] for start in range(0, len(entries), FETCHED)]
        return [
            await snapshot_storage.find_snapshot_rows(
                database, key.visibility, key.model_id, [UUID(bytes=entry[:16]) for entry in page]
            )
            for page in pages
        ]

    def _keep(self, key: _Key, snapshot: Snapshot) -> None:
        self._drop(key)
        self._snapshots[key], self._sizes[key] = snapshot, snapshot.size
        self._held += self._sizes[key]
        earliest = time.monotonic() - SNAPSHOT_SECONDS
        while self._snapshots:
            oldest, least = next(iter(self._snapshots.items()))
            if self._held <= MOST_BYTES and least.made_at >= earliest:
                break
            self._drop(oldest)

    def _drop(self, key: _Key) -> None:
        self._snapshots.pop(key, None)
        self._held -= self._sizes.pop(key, 0)


def _entries(packed: bytes) -> Iterator[bytes]:
    return (packed[at : at + ENTRY] for at in range(0, len(packed), ENTRY))


def _entries_of(rows: Sequence[SnapshotRow]) -> bytes:
    return rows.entries if isinstance(rows, SnapshotRows) else b"".join([row.entry for row in rows])


def _owned_snapshot(owned: OwnedRead, before: Snapshot | None) -> Snapshot:
    """The snapshot of a small memory; its rows are in the order of the state."""
    read, state = owned.items(), owned.state
    if before is None:
        columns = Columns(rows=read.rows, new=read.block)
        return _made(read.rows, read.vectors, columns, state, links=owned.links, text_bytes=read.text_bytes)
    first = before.begins_as(state.versions) if not before.lacking else 0
    rows = list(before.items[:first])
    new = {row.entry: row for row in read.rows}
    rest = _entries(state.versions[len(rows) * ENTRY :])
    rows += [new[entry] if entry in new else before.items[before.places[entry]] for entry in rest]
    return _joined(rows, [read], state, before=before, links=owned.links)


def _snapshot(
    kept: list[SnapshotRow],
    reads: Sequence[SnapshotRead],
    state: VisibleVersions,
    *,
    before: Snapshot | None,
) -> Snapshot:
    """The snapshot of rows that are kept and others that were read, in the order of their ids: the oldest first."""
    rows = sorted([*kept, *(row for read in reads for row in read.rows)], key=attrgetter("entry"))
    return _joined(rows, reads, state, before=before, links=None)


def _joined(
    rows: list[SnapshotRow],
    reads: Sequence[SnapshotRead],
    state: VisibleVersions,
    *,
    before: Snapshot | None,
    links: bytes | None,
) -> Snapshot:
    """The snapshot of these rows; what those of the snapshot before were turned into is taken over."""
    new = {row.entry: place for place, row in enumerate(row for read in reads for row in read.rows)}
    block = RowBlock.joined([read.block for read in reads])
    matrices = [read.vectors for read in reads] + ([before.vectors] if before is not None else [])
    dimensions = max((matrix.shape[1] for matrix in matrices), default=1)
    matrices = [_of_length(matrix, dimensions) for matrix in matrices]
    fresh = np.concatenate([np.empty((0, dimensions), dtype=np.float32), *matrices[: len(reads)]])
    of_new = np.array([new.get(row.entry, -1) for row in rows], dtype=np.int64)
    if before is None:
        block, places = block.chosen(of_new), None
        vectors = fresh[of_new]
    else:
        same = before.places
        places = np.array([-1 if row.entry in new else same[row.entry] for row in rows], dtype=np.int64)
        block = block.chosen(of_new[of_new >= 0])
        vectors = np.empty((len(rows), dimensions), dtype=np.float32)
        vectors[places >= 0] = matrices[-1][places[places >= 0]]
        vectors[places < 0] = fresh[of_new[places < 0]]
    known = (before.columns, places) if before is not None and places is not None else None
    of_texts = sum(read.text_bytes for read in reads) + (before.text_bytes if before is not None else 0)
    columns = Columns(rows=rows, known=known, new=block)
    return _made(rows, vectors, columns, state, links=links, text_bytes=of_texts)


def _of_length(vectors: NDArray[np.float32], dimensions: int) -> NDArray[np.float32]:
    """Rows without any vector have no length of their own."""
    return vectors if vectors.shape[1] == dimensions else np.full((len(vectors), dimensions), np.nan, dtype=np.float32)


def _made(
    rows: Sequence[SnapshotRow],
    vectors: NDArray[np.float32],
    columns: Columns,
    state: VisibleVersions,
    *,
    links: bytes | None,
    text_bytes: int,
) -> Snapshot:
    lacking = [rows[row].entry for row in np.flatnonzero(np.isnan(vectors[:, 0])).tolist()]
    return Snapshot(
        state=state,
        items=rows,
        columns=columns,
        vectors=vectors,
        lacking=lacking,
        is_incomplete=bool(lacking) and state.waiting,
        text_bytes=text_bytes,
        links=_linked_rows(links, _entries_of(rows)) if links is not None else None,
        made_at=time.monotonic(),
    )


def _linked_rows(links: bytes, entries: bytes) -> Ids:
    """The rows of each pair of ids; pairs with an item that is not visible are left out."""
    if not links:
        return np.empty((0, 2), dtype=np.int64)
    places = {entry[:16]: index for index, entry in enumerate(_entries(entries))}
    ids = (links[at : at + 16] for at in range(0, len(links), 16))
    pairs = np.array([places.get(item_id, -1) for item_id in ids], dtype=np.int64).reshape(-1, 2)
    return pairs[(pairs >= 0).all(axis=1)]
