"""Caches in the process: snapshots of small memories, and the answers that contexts ask for.

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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recordari.core.cache import BoundedMap
from recordari.core.identity import Identity, SessionId, TenantId
from recordari.db.database import BatchedQuery, Database
from recordari.memory.storage import ask_line
from recordari.recall import storage
from recordari.recall.request import RecallAnswer, RecallRequest
from recordari.recall.rules.arms import marked
from recordari.recall.rules.candidates import Columns, Floats, Ids
from recordari.recall.storage import SnapshotRow, Visibility, VisibleVersions

MOST_OWNED = 1_000  # visible items that are read whole, in one round trip: it costs less than any search
MOST_ITEMS = 4_000  # in a snapshot; larger memories are searched by the indexes of the database
MOST_BYTES = 192 * 2**20
ITEM_BYTES = 10_000  # about: row, text and vector of one item, and cached matches of its words
SNAPSHOT_SECONDS = 600.0
REQUEST_SECONDS = 60.0  # a memory gets a snapshot when it is asked twice in this time, a large one more often
ITEMS_PER_REQUEST = 200  # fetching so many costs about as much as a search in the database
MOST_REQUESTS = 10_000
FETCHED = 250  # items at a time
_ENTRY = 20  # bytes: an id and the number of its last change

ANSWER_SECONDS = 300.0  # C4
DEGRADED_SECONDS = 5.0
MOST_ANSWERS = 2_000


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
    links: Ids | None
    """The rows of a fact and of what it was taken from, for each such pair; None where they were not read."""
    made_at: float

    @cached_property
    def places(self) -> dict[bytes, int]:
        """The row of each entry."""
        return {row.entry: index for index, row in enumerate(self.items)}

    @cached_property
    def entries(self) -> bytes:
        """The entry of each row."""
        return b"".join([row.entry for row in self.items])

    @property
    def embedded(self) -> bytes:
        """The entries of the items with a vector."""
        lacking = set(self.lacking)
        return b"".join([row.entry for row in self.items if row.entry not in lacking]) if lacking else self.entries

    def begins_as(self, entries: bytes) -> int:
        """How many of these entries are those of the first rows."""
        many = min(len(entries), len(self.entries)) // _ENTRY
        ours = np.frombuffer(self.entries, np.uint8, many * _ENTRY)
        others = np.flatnonzero(ours != np.frombuffer(entries, np.uint8, many * _ENTRY))
        return int(others[0]) // _ENTRY if len(others) else many

    def links_among(self, rows: Sequence[int]) -> list[tuple[UUID, UUID]] | None:
        """Pairs of a fact and what it was taken from, among these rows."""
        if self.links is None:
            return None
        both = marked(len(self.items), np.array(rows, dtype=np.int64))[self.links].all(axis=1)
        ids = self.columns.rows
        return [(ids[fact].item_id, ids[source].item_id) for fact, source in self.links[both].tolist()]

    def similarity(self, vector: NDArray[np.float32]) -> Floats:
        """How near each item is to a vector; not a number for an item without one."""
        if not len(self.items):
            return np.empty(0)
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
    items: int = 0
    """How many items were visible at the last read."""

    @property
    def is_enough(self) -> bool:
        """Whether a snapshot, which costs as much as some searches, pays."""
        is_recent = 0 <= time.monotonic() - self.since <= REQUEST_SECONDS
        return is_recent and self.times >= 2 + self.items // ITEMS_PER_REQUEST


class SnapshotCache:
    """Keeps snapshots of memories that are asked again and again, as far as there is room."""

    def __init__(self) -> None:
        self._snapshots: OrderedDict[_Key, Snapshot] = OrderedDict()
        self._requests: BoundedMap[_Key, _Requests] = BoundedMap(MOST_REQUESTS)
        self._large: BoundedMap[_Key, bool] = BoundedMap(MOST_REQUESTS, seconds=SNAPSHOT_SECONDS)
        self._held = 0
        self._reading: dict[_Key, asyncio.Future[None]] = {}
        self._following: dict[_Key, asyncio.Task[VisibleVersions]] = {}

    def __len__(self) -> int:
        return len(self._snapshots)

    def expects(self, visibility: Visibility, *, model_id: str) -> bool:
        """Whether the memory may be small, or has a snapshot, or will have one after one more request."""
        key = _Key(visibility, model_id)
        if key in self._snapshots or self._large.get(key) is None:
            return True
        requests = self._requests.get(key)
        return requests is not None and replace(requests, times=requests.times + 1).is_enough

    async def read(
        self, database: Database, visibility: Visibility, *, model_id: str, dimensions: int, topics: Sequence[str]
    ) -> tuple[Snapshot, bool] | None:
        """The items visible now, and whether the topics have work left; None when the database must be searched."""
        key = _Key(visibility, model_id)
        if self._large.get(key) is None:
            owned = await self._read_owned(database, key, dimensions, topics)
            if owned is not None:
                return owned
        snapshot = self._snapshots.get(key)
        requests = self._count_request(key) if snapshot is None else None
        if requests is not None and not requests.is_enough:
            return None
        state = await self._current_state(database, key, topics)
        items = len(state.versions) // _ENTRY
        if items > MOST_ITEMS:
            self._drop(key)
            self._requests.put(key, _Requests(times=0, since=time.monotonic() + SNAPSHOT_SECONDS))
            return None
        if requests is not None and not (requests := replace(requests, items=items)).is_enough:
            self._requests.put(key, requests)
            return None
        if snapshot is None or state.versions != snapshot.state.versions or snapshot.is_incomplete:
            snapshot = await self._refreshed(database, key, snapshot, state, dimensions)
            if snapshot is None:
                return None
        elif snapshot.state.changes != state.changes:
            snapshot = replace(snapshot, state=state)
        self._requests.pop(key)  # a snapshot that must make room has to be earned again
        self._keep(key, snapshot)
        return snapshot, state.waiting

    async def _read_owned(
        self, database: Database, key: _Key, dimensions: int, topics: Sequence[str]
    ) -> tuple[Snapshot, bool] | None:
        """Read a small memory; of one that is at hand only what has changed. None if it is not small."""
        before = self._snapshots.get(key)
        is_whole = before is not None and before.links is not None and not before.is_incomplete
        owned = await storage.find_owned_rows(
            database,
            key.visibility,
            key.model_id,
            known=before.state.changes if before is not None and is_whole else None,
            entries=before.embedded if before is not None else b"",
            topics=topics,
            limit=MOST_OWNED + 1,
        )
        if len(owned.entries) > MOST_OWNED * _ENTRY:
            self._large.put(key, True)
            return None
        if before is not None and is_whole and owned.changes == before.state.changes:
            self._keep(key, before)
            return before, owned.waiting
        state = VisibleVersions(changes=owned.changes, versions=owned.entries, waiting=owned.waiting)
        rows = (
            list(before.items[: before.begins_as(owned.entries)]) if before is not None and not before.lacking else []
        )
        new = {row.entry: row for row in owned.rows}
        known, items = (before.places, before.items) if before is not None else ({}, [])
        for entry in _entries(owned.entries[len(rows) * _ENTRY :]):
            rows.append(new[entry] if entry in new else items[known[entry]])
        snapshot = _snapshot(rows, state, dimensions, before=before, links=owned.links)
        self._keep(key, snapshot)
        return snapshot, owned.waiting

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
            return await storage.find_visible_versions(
                database, key.visibility, known=known, topics=topics, limit=MOST_ITEMS + 1
            )
        finally:
            del self._reading[key]
            done.set_result(None)

    def forget_tenant(self, tenant_id: TenantId) -> None:
        for key in [key for key in self._snapshots if key.visibility.identity.tenant_id == tenant_id]:
            self._drop(key)

    def _count_request(self, key: _Key) -> _Requests:
        now = time.monotonic()
        before = self._requests.get(key) or _Requests(times=0, since=now)
        if now - before.since > REQUEST_SECONDS:
            before = replace(before, times=0, since=now)
        return self._requests.put(key, replace(before, times=before.times + 1))

    async def _refreshed(
        self, database: Database, key: _Key, before: Snapshot | None, state: VisibleVersions, dimensions: int
    ) -> Snapshot | None:
        """The snapshot of this state: unchanged rows, and those that must be fetched; None while these are too many."""
        entries = list(_entries(state.versions))
        lacking = set(before.lacking) if before is not None else set()
        known = before.places if before is not None else {}
        missing = [entry for entry in entries if entry not in known or entry in lacking]
        if before is not None and not missing and len(entries) == len(before.items):
            return replace(before, state=state)  # the same in another order
        if state.waiting and len(missing) > FETCHED:
            return None  # during an import, all of these would be fetched at every recall
        fetched: dict[bytes, SnapshotRow] = {}
        if missing:
            async with database.transaction(key.visibility.identity) as tx:
                for start in range(0, len(missing), FETCHED):  # in pages, so that the event loop goes on
                    page = [UUID(bytes=entry[:16]) for entry in missing[start : start + FETCHED]]
                    rows = await storage.find_snapshot_rows(tx, key.visibility, key.model_id, page)
                    fetched |= {row.candidate.item_id.bytes: row for row in rows}  # perhaps changed once more
        new = set(missing)
        kept = [before.items[known[entry]] for entry in entries if entry not in new] if before is not None else []
        return _snapshot([*kept, *fetched.values()], state, dimensions, before=before)

    def _keep(self, key: _Key, snapshot: Snapshot) -> None:
        self._drop(key)
        self._snapshots[key] = snapshot
        self._held += len(snapshot.items)
        earliest = time.monotonic() - SNAPSHOT_SECONDS
        while self._snapshots:
            oldest, least = next(iter(self._snapshots.items()))
            if self._held * ITEM_BYTES <= MOST_BYTES and least.made_at >= earliest:
                break
            self._drop(oldest)

    def _drop(self, key: _Key) -> None:
        dropped = self._snapshots.pop(key, None)
        self._held -= len(dropped.items) if dropped is not None else 0


def _entries(packed: bytes) -> Iterator[bytes]:
    return (packed[at : at + _ENTRY] for at in range(0, len(packed), _ENTRY))


def _snapshot(
    rows: list[SnapshotRow],
    state: VisibleVersions,
    dimensions: int,
    *,
    before: Snapshot | None,
    links: bytes | None = None,
) -> Snapshot:
    """The snapshot of these rows; what those of the snapshot before were turned into is taken over."""
    places = np.full(len(rows), -1)
    if before is not None:
        first = before.begins_as(b"".join([row.entry for row in rows]))
        places[:first] = np.arange(first)
        same = before.places if first < len(rows) else {}
        places[first:] = [same.get(row.entry, -1) for row in rows[first:]]
    vectors = np.full((len(rows), dimensions), np.nan, dtype=np.float32)
    kept = places >= 0
    if before is not None and kept.any():
        vectors[kept] = before.vectors[places[kept]]
    for index in np.flatnonzero(np.isnan(vectors[:, 0])).tolist():  # new, or embedded since
        if (embedding := rows[index].embedding) is not None:
            vectors[index] = embedding
    lacking = [row.entry for row in rows if row.embedding is None]
    candidates = [row.candidate for row in rows]
    return Snapshot(
        state=state,
        items=rows,
        columns=Columns(rows=candidates, known=(before.columns, places) if before is not None else None),
        vectors=vectors,
        lacking=lacking,
        is_incomplete=bool(lacking) and state.waiting,
        links=_linked_rows(links, rows) if links is not None else None,
        made_at=time.monotonic(),
    )


def _linked_rows(links: bytes, rows: Sequence[SnapshotRow]) -> Ids:
    """The rows of each pair of ids; pairs with an item that is not visible are left out."""
    places = {row.entry[:16]: index for index, row in enumerate(rows)}
    ids = (links[at : at + 16] for at in range(0, len(links), 16))
    pairs = np.array([places.get(item_id, -1) for item_id in ids], dtype=np.int64).reshape(-1, 2)
    return pairs[(pairs >= 0).all(axis=1)]


@dataclass(frozen=True, slots=True)
class MemoryState:
    """How often the memory of an identity has changed, and the sessions of its line; to be sent in a batch of reads."""

    version: BatchedQuery[int]
    line: BatchedQuery[list[SessionId]] | None

    @classmethod
    def asked(cls, identity: Identity) -> MemoryState:
        return cls(storage.ask_version(identity), ask_line(identity))

    @property
    def batch(self) -> list[BatchedQuery[Any]]:
        return [self.version] if self.line is None else [self.version, self.line]


class RecallCache:
    """The answers of this process, each valid until the memory that it was found in changes."""

    def __init__(self) -> None:
        self._answers: BoundedMap[tuple[Identity, RecallRequest], tuple[RecallAnswer, int]] = BoundedMap(MOST_ANSWERS)
        self._counts = {"hits": 0, "misses": 0}

    async def read(
        self,
        identity: Identity,
        request: RecallRequest,
        state: MemoryState,
        load: Callable[[Sequence[SessionId]], Awaitable[RecallAnswer]],
    ) -> tuple[RecallAnswer, bool]:
        """The answer to a request, and whether it came from the cache; `load` gets the sessions of the caller's line.

        `state` was read before: if the memory changes meanwhile, the answer counts for the state before and is not used again.
        """
        version, line = state.version.answer, state.line
        # The viewpoint decides what is visible and the request what is asked: nothing else does.
        key = (identity.viewpoint, request)
        cached = self._answers.get(key)
        if cached is not None and cached[1] == version:
            self._counts["hits"] += 1
            return cached[0], True
        self._counts["misses"] += 1
        answer = await load(line.answer if line is not None else ())
        seconds = DEGRADED_SECONDS if answer.degraded else ANSWER_SECONDS
        self._answers.put(key, (answer, version), seconds=seconds)
        return answer, False

    def forget_tenant(self, tenant_id: TenantId) -> None:
        """Answer anew, because the tenant's settings may have changed."""
        self._answers.drop(lambda key, _: key[0].tenant_id == tenant_id)

    def statistics(self) -> dict[str, int]:
        return {**self._counts, "kept": len(self._answers)}
