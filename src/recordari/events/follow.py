"""The change feed: events by id and type, in one order for every reader (X7).

In each process one reader per tenant looks for new events and tells every listener of that tenant. A listener has room
for `MOST_UNREAD` events. One that falls further behind is ended; the others notice nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

from recordari.core.identity import Identity, Role, TenantId
from recordari.core.telemetry import get_log
from recordari.errors import InvalidInput, Overloaded, RecordariError
from recordari.events import storage
from recordari.events.rules import Event, EventType, checked_types
from recordari.kit.resources import Resources
from recordari.tenants.tenants import page_size, require_admin

LOOK_SECONDS = 1.0
STREAM_SECONDS = 600.0  # a follower reconnects with its position; a revoked key cannot
PAGE = 100
MOST_UNREAD = 1000
FEED = timedelta(days=7)
"""The age of the oldest events in the feed."""

_log = get_log(__name__)


async def list_events(
    resources: Resources,
    identity: Identity,
    *,
    after: int = 0,
    types: Sequence[EventType | str] = (),
    limit: int = 50,
) -> list[Event]:
    """List events after a position of the feed, oldest first; without a position from the oldest event on."""
    _require_whole_tenant(identity)
    return await read_feed(resources, identity, after=after, types=checked_types(types), limit=page_size(limit))


async def follow_events(
    resources: Resources,
    identity: Identity,
    *,
    after: int | None = None,
    types: Sequence[EventType | str] = (),
    seconds: float = STREAM_SECONDS,
) -> AsyncGenerator[Event | None, None]:
    """Yield events as they happen, for `seconds`; from now on or from a position on. None: no event for a moment.

    If you read so slowly that too many events wait for you, `Overloaded` ends it; follow again after the last position
    that you saw.
    """
    async with contextlib.aclosing(listen(resources, identity, after=after, types=types, seconds=seconds)) as events:
        async for event in events:
            yield event


async def listen(
    resources: Resources,
    identity: Identity,
    *,
    after: int | None,
    types: Sequence[EventType | str],
    seconds: float = STREAM_SECONDS,
    pause: float = LOOK_SECONDS,
) -> AsyncGenerator[Event | None, None]:
    """Yield None at once, then events; None again after each `pause` without one."""
    _require_whole_tenant(identity)
    checked = checked_types(types)
    end = time.monotonic() + seconds
    async with resources.get(Feeds).listener(resources, identity.tenant_id, checked) as listener:
        yield None
        position = listener.start if after is None else after
        while position < listener.start:
            events = await read_feed(resources, identity, after=position, types=checked, limit=PAGE)
            for event in events:
                if event.position <= listener.start:  # the reader tells of the others
                    yield event
            position = events[-1].position if len(events) == PAGE else listener.start
        while (left := end - time.monotonic()) > 0:
            events = await listener.take(min(pause, left))
            for event in events:
                if event.position > position:
                    yield event
            if not events:
                yield None


class FeedListener:
    """One who follows a feed: the events that wait for it, from its start on."""

    def __init__(self, start: int, types: Sequence[EventType]) -> None:
        self.start = start
        self._types = frozenset(types)
        self._unread: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._is_behind = False

    def tell(self, events: Sequence[Event]) -> None:
        wanted = [event for event in events if not self._types or event.type in self._types]
        if not wanted or self._is_behind:
            return
        self._is_behind = len(self._unread) + len(wanted) > MOST_UNREAD
        if not self._is_behind:
            self._unread.extend(wanted)
        self._arrived.set()

    async def take(self, seconds: float) -> list[Event]:
        """The events that wait; those of the next `seconds` if there are none. `Overloaded` after the last of one behind."""
        if not self._unread and not self._is_behind:
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._arrived.wait()
        if not self._unread and self._is_behind:
            raise Overloaded("you read the feed too slowly; follow it again after the last position that you saw")
        events, self._unread = list(self._unread), deque()
        return events


class Feeds:
    """The readers of the process, one for each tenant whose feed is followed."""

    def __init__(self) -> None:
        self._readers: dict[TenantId, FeedReader] = {}

    @contextlib.asynccontextmanager
    async def listener(
        self, resources: Resources, tenant_id: TenantId, types: Sequence[EventType]
    ) -> AsyncIterator[FeedListener]:
        """Listen to the feed of a tenant for as long as the block lasts."""
        reader = self._readers.get(tenant_id)
        if reader is None or reader.reading.done():
            reader = self._readers[tenant_id] = FeedReader(resources, tenant_id)
            reader.reading.add_done_callback(lambda _: self._forget(tenant_id))
        async with reader.joined(types) as listener:
            yield listener

    def figures(self) -> dict[str, float]:
        """Readers and listeners."""
        return {"readers": len(self._readers), "listeners": sum(map(len, self._readers.values()))}

    def _forget(self, tenant_id: TenantId) -> None:
        if tenant_id in self._readers and self._readers[tenant_id].reading.done():
            del self._readers[tenant_id]

    async def close(self) -> None:
        """Stop every reader."""
        readings = [reader.reading for reader in self._readers.values()]
        for reading in readings:
            reading.cancel()
        await asyncio.gather(*readings, return_exceptions=True)


class FeedReader:
    """Looks for new events of a tenant and tells its listeners."""

    def __init__(self, resources: Resources, tenant_id: TenantId) -> None:
        self._resources = resources
        self._identity = Identity(tenant_id=tenant_id, role=Role.ADMIN, actor="feed")
        self._joining = 0
        self._listeners: set[FeedListener] = set()
        self._end = 0
        self._started = asyncio.create_task(self._start())
        self.reading = asyncio.create_task(self._read())

    def __len__(self) -> int:
        return len(self._listeners)

    @contextlib.asynccontextmanager
    async def joined(self, types: Sequence[EventType]) -> AsyncIterator[FeedListener]:
        self._joining += 1
        try:
            await asyncio.shield(self._started)
        finally:
            self._joining -= 1
        listener = FeedListener(self._end, types)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def _start(self) -> None:
        self._end = await place(self._resources, self._identity)

    async def _read(self) -> None:
        await asyncio.wait([self._started])
        while self._listeners or self._joining:  # none of either if the start failed
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except RecordariError as error:
                # The listeners stay; they are told when the database answers again.
                _log.warning("feed_unreadable", tenant_id=self._identity.tenant_id, error=error)

    async def _look(self) -> None:
        end = await place(self._resources, self._identity)
        while self._end < end:
            async with self._resources.database.transaction(self._identity) as tx:
                events = await storage.list_events(tx, after=self._end, types=(), limit=PAGE)
            # Without a pause from here on: who joins meanwhile would miss some of them.
            self._end = events[-1].position if events else end
            for listener in self._listeners:
                listener.tell(events)
            await asyncio.sleep(0)  # a long page for many listeners must not keep others waiting


async def read_feed(
    resources: Resources, identity: Identity, *, after: int, types: Sequence[EventType], limit: int
) -> list[Event]:
    """List events after a position, newly committed ones included."""
    await place(resources, identity)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_events(tx, after=after, types=types, limit=limit)


async def place(resources: Resources, identity: Identity) -> int:
    """Give every committed event its position; return the last position."""
    more = True
    while more:
        async with resources.database.transaction(identity) as tx:
            more = await storage.place_events(tx)
            last = await storage.feed_end(tx)
    return last


async def trim_events(resources: Resources, identity: Identity, **_: Any) -> int:
    """Delete events that are too old for the feed; return how many. A daily job."""
    async with resources.database.transaction(identity) as tx:
        return await storage.delete_events(tx, before=resources.clock() - FEED)


def _require_whole_tenant(identity: Identity) -> None:
    require_admin(identity)
    if identity.user_id is not None:
        raise InvalidInput("the change feed covers the whole tenant; do not act for a user here")
