"""Small memories laid out in the process, so that recall need not fetch them again at every question.

A shelf holds what one identity may see, exactly. Which items those are is decided by the database at every recall, under
row-level security: unless nothing at all changed, which it counts, it answers with the id of each and the number of its last
change, and only what is equal in both is taken from the shelf. What is new or changed is fetched; what is missing is thrown
away before anything is looked for. A shelf can therefore be slow to come, but never show what was superseded, archived,
forgotten or is somebody else's.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recordari.core.cache import BoundedMap
from recordari.core.identity import Identity, TenantId
from recordari.db.database import Database
from recordari.recall import storage
from recordari.recall.rules.candidates import Columns, Floats, Ids
from recordari.recall.storage import SnapshotRow, Visibility

MOST_ITEMS = 4_000  # on a shelf; larger memories are searched by the indexes of the database
MOST_BYTES = 192 * 2**20
ITEM_BYTES = 10_000  # about: row, text and vector of one item, and what is kept of the words asked for
KEPT_SECONDS = 600.0
ASKED_SECONDS = 60.0  # a memory gets a shelf when it is asked twice in this time, a large one oftener
ITEMS_PER_ASKING = 200  # fetching so many costs about as much as a search in the database
MOST_ASKED = 10_000
FETCHED = 250  # items at a time
_ENTRY = 20  # bytes: an id and the number of its last change


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What one identity may see, and as of when."""

    standing: bytes
    version: int
    """How often what this identity may see had been changed."""
    items: Sequence[SnapshotRow]
    columns: Columns
    vectors: NDArray[np.float32]
    mentions: Mapping[str, Ids]
    lacking: Sequence[UUID]
    """Items that had no vector yet when they were fetched."""
    is_settled: bool
    """Whether nothing waited to be embedded when they were fetched."""
    made_at: float

    def similarity(self, vector: NDArray[np.float32]) -> Floats:
        """How near each item is to a vector; not a number for one that has none."""
        if not len(self.items):
            return np.empty(0)
        # The database compares halves; not BLAS, whose threads cost more than they bring here.
        asked = vector.astype(np.float16).astype(np.float32)
        return np.asarray(np.einsum("ij,j->i", self.vectors, asked), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Key:
    sight: Visibility
    model_id: str


@dataclass(frozen=True, slots=True)
class _Stands:
    standing: bytes
    version: int
    waiting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _SnapshotQuery:
    """How often a memory that is not laid out was asked for, and since when; from a later moment on: not before then."""

    times: int
    since: float
    items: int = 0
    """How many could be seen of it when that was read last."""

    @property
    def is_enough(self) -> bool:
        """Whether laying it out, which costs as much as some searches, pays."""
        is_lately = 0 <= time.monotonic() - self.since <= ASKED_SECONDS
        return is_lately and self.times >= 2 + self.items // ITEMS_PER_ASKING


class SnapshotCache:
    """Keeps the shelves of memories that are asked again and again, as far as there is room."""

    def __init__(self) -> None:
        self._shelves: OrderedDict[_Key, Shelf] = OrderedDict()
        self._asked: BoundedMap[_Key, _SnapshotQuery] = BoundedMap(MOST_ASKED)
        self._held = 0
        self._reading: dict[_Key, asyncio.Future[None]] = {}
        self._following: dict[_Key, asyncio.Task[_Stands]] = {}

    def __len__(self) -> int:
        return len(self._shelves)

    def expects(self, sight: Visibility, *, model_id: str) -> bool:
        """Whether what may be seen is laid out already, or will be if it is asked for now, as far as is known."""
        key = _Key(sight, model_id)
        asked = self._asked.get(key)
        return key in self._shelves or (asked is not None and replace(asked, times=asked.times + 1).is_enough)

    async def look(
        self, database: Database, sight: Visibility, *, model_id: str, dimensions: int, topic: str
    ) -> tuple[Shelf, bool] | None:
        """What may be seen now, and whether the topic is waited for; None when the database must be searched."""
        key = _Key(sight, model_id)
        shelf = self._shelves.get(key)
        asked = self._count_asking(key) if shelf is None else None
        if asked is not None and not asked.is_enough:
            return None
        stands = await self._standing(database, key, topic)
        standing, waiting = stands.standing, stands.waiting
        items = len(standing) // _ENTRY
        if items > MOST_ITEMS:
            self._drop(key)
            self._asked.put(key, _SnapshotQuery(times=0, since=time.monotonic() + KEPT_SECONDS))
            return None
        if asked is not None and not (asked := replace(asked, items=items)).is_enough:
            self._asked.put(key, asked)
            return None
        if shelf is None or standing != shelf.standing or (shelf.lacking and not shelf.is_settled):
            shelf = await self._arranged(database, key, shelf, stands, dimensions)
            if shelf is None:
                return None
        elif shelf.version != stands.version:
            shelf = replace(shelf, version=stands.version)
        self._asked.pop(key)  # one that must make room has to be asked for again
        self._keep(key, shelf)
        return shelf, waiting

    async def _standing(self, database: Database, key: _Key, topic: str) -> _Stands:
        """What stands now. Who asks while another reads shares the next read, which begins after all of them asked."""
        following = self._following.get(key)
        if following is None:
            if key not in self._reading:
                return await self._read(database, key, topic)
            following = self._following[key] = asyncio.create_task(self._read_next(database, key, topic))
        return await asyncio.shield(following)

    async def _read_next(self, database: Database, key: _Key, topic: str) -> _Stands:
        while (reading := self._reading.get(key)) is not None:
            await reading
        del self._following[key]
        return await self._read(database, key, topic)

    async def _read(self, database: Database, key: _Key, topic: str) -> _Stands:
        done = self._reading[key] = asyncio.get_running_loop().create_future()
        shelf = self._shelves.get(key)
        known = shelf.version if shelf is not None else None
        try:
            version, standing, waiting = await storage.find_standing(
                database, key.sight, known=known, topic=topic, limit=MOST_ITEMS + 1
            )
            if standing is None:
                assert shelf is not None
                standing = shelf.standing
            return _Stands(standing, version, waiting)
        finally:
            del self._reading[key]
            done.set_result(None)

    def forget_tenant(self, tenant_id: TenantId) -> None:
        """Throw away everything of a tenant."""
        for key in [key for key in self._shelves if key.sight.identity.tenant_id == tenant_id]:
            self._drop(key)

    def _count_asking(self, key: _Key) -> _SnapshotQuery:
        """How often it was asked for lately, with this time."""
        now = time.monotonic()
        before = self._asked.get(key) or _SnapshotQuery(times=0, since=now)
        if now - before.since > ASKED_SECONDS:
            before = replace(before, times=0, since=now)
        asked = replace(before, times=before.times + 1)
        self._asked.put(key, asked)
        return asked

    async def _arranged(
        self, database: Database, key: _Key, before: Shelf | None, stands: _Stands, dimensions: int
    ) -> Shelf | None:
        """The shelf as it stands now: what is on it already, and what must be fetched; None while that is too much."""
        standing, waiting = stands.standing, stands.waiting
        versions = {standing[at : at + 16]: standing[at + 16 : at + _ENTRY] for at in range(0, len(standing), _ENTRY)}
        lacking = {one.bytes for one in before.lacking} if before is not None else set()
        kept = {
            id_bytes: one
            for one in (before.items if before is not None else ())
            if (id_bytes := one.item.item_id.bytes) not in lacking and versions.get(id_bytes) == one.version
        }
        wanted = [UUID(bytes=id_bytes) for id_bytes in versions if id_bytes not in kept]
        if before is not None and not wanted and len(kept) == len(before.items):
            return replace(before, standing=standing, version=stands.version)  # the same in another order
        if waiting and len(wanted) > FETCHED:
            return None  # an import is under way: all of these would be fetched at every recall
        if wanted:
            async with database.transaction(key.sight.identity) as tx:
                for start in range(0, len(wanted), FETCHED):  # some at a time, so that the event loop goes on
                    page = wanted[start : start + FETCHED]
                    fetched = await storage.find_shelved(tx, key.sight, key.model_id, page)
                    kept |= {one.item.item_id.bytes: one for one in fetched}
        return _shelf(list(kept.values()), stands, dimensions)

    def _keep(self, key: _Key, shelf: Shelf) -> None:
        self._drop(key)
        self._shelves[key] = shelf
        self._held += len(shelf.items)
        oldest_kept = time.monotonic() - KEPT_SECONDS
        while self._shelves:
            oldest, least = next(iter(self._shelves.items()))
            if self._held * ITEM_BYTES <= MOST_BYTES and least.made_at >= oldest_kept:
                break
            self._drop(oldest)

    def _drop(self, key: _Key) -> None:
        dropped = self._shelves.pop(key, None)
        self._held -= len(dropped.items) if dropped is not None else 0


def _shelf(items: list[SnapshotRow], stands: _Stands, dimensions: int) -> Shelf:
    vectors = np.full((len(items), dimensions), np.nan, dtype=np.float32)
    mentions: dict[str, list[int]] = {}
    for place, one in enumerate(items):
        if one.embedding is not None:
            vectors[place] = one.embedding
        for name in one.names:
            mentions.setdefault(name, []).append(place)
    return Shelf(
        standing=stands.standing,
        version=stands.version,
        items=items,
        columns=Columns(rows=[one.candidate for one in items]),
        vectors=vectors,
        mentions={name: np.array(places) for name, places in mentions.items()},
        lacking=[one.item.item_id for one in items if one.embedding is None],
        is_settled=not stands.waiting,
        made_at=time.monotonic(),
    )


SECONDS = 300.0  # C4
DEGRADED_SECONDS = 5.0
MOST_ANSWERS = 2_000


class CacheableAnswer(Protocol):
    """What recall answers."""

    @property
    def degraded(self) -> bool:
        """Whether a later answer may be better."""


A = TypeVar("A", bound=CacheableAnswer)


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: Any
    version: int


class RecallCache:
    """The answers of this process."""

    def __init__(self, *, seconds: float = SECONDS, most: int = MOST_ANSWERS) -> None:
        self._seconds = seconds
        self._kept: BoundedMap[Hashable, _Kept] = BoundedMap(most)
        self._counts = {"hits": 0, "misses": 0}

    async def read(
        self,
        database: Database,
        identity: Identity,
        request: Hashable,
        load: Callable[[], Awaitable[A]],
    ) -> tuple[A, bool]:
        """The answer to a request, and whether it was kept from before."""
        version = await storage.read_version(database, identity)
        # The viewpoint says what may be seen and the request what is asked: nothing else does.
        key: Hashable = (identity.viewpoint, request)
        found = self._kept.get(key)
        if found is not None and found.version == version:
            self._counts["hits"] += 1
            kept: A = found.answer
            return kept, True
        self._counts["misses"] += 1
        answer = await load()
        seconds = min(self._seconds, DEGRADED_SECONDS) if answer.degraded else self._seconds
        self._kept.put(key, _Kept(answer, version), seconds=seconds)
        return answer, False

    def statistics(self) -> dict[str, int]:
        """How often an answer was kept from before, and how many are kept."""
        return {**self._counts, "kept": len(self._kept)}
