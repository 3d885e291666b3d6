"""The change feed: events by id and type, in one order for every reader (X7)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Any

from recordari.core.identity import Identity
from recordari.errors import InvalidInput
from recordari.events import storage
from recordari.events.rules import Event, EventType, checked_types
from recordari.kit.resources import Resources
from recordari.tenants.tenants import MAX_PAGE, require_admin

LOOK_SECONDS = 1.0
STREAM_SECONDS = 600.0  # a follower reconnects with its position; a revoked key cannot
PAGE = 100
FEED = timedelta(days=7)
"""The age of the oldest events in the feed."""


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
    return await read_feed(resources, identity, after=after, types=checked_types(types), limit=min(limit, MAX_PAGE))


async def follow_events(
    resources: Resources,
    identity: Identity,
    *,
    after: int | None = None,
    types: Sequence[EventType | str] = (),
    seconds: float = STREAM_SECONDS,
) -> AsyncGenerator[Event | None, None]:
    """Yield events as they happen, for `seconds`; from now on or from a position on. None: no event for a moment."""
    _require_whole_tenant(identity)
    checked = checked_types(types)
    end = time.monotonic() + seconds
    position = await place(resources, identity) if after is None else after
    while time.monotonic() < end:
        events = await read_feed(resources, identity, after=position, types=checked, limit=PAGE)
        for event in events:
            yield event
            position = event.position
        if len(events) < PAGE:
            yield None
            await asyncio.sleep(LOOK_SECONDS)


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
