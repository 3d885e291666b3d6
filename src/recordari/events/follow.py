"""Following what changes in memory: events by id and type, in one order that every reader sees alike (X7)."""

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
STREAM_SECONDS = 600.0  # a follower comes back with its place; a key that was revoked does not
PAGE = 100
FEED = timedelta(days=7)
"""How far the feed of changes reaches back."""


async def list_events(
    resources: Resources,
    identity: Identity,
    *,
    after: int = 0,
    types: Sequence[EventType | str] = (),
    limit: int = 50,
) -> list[Event]:
    """Events after a position of the feed, oldest first; from the oldest one that is kept, if none is given."""
    _require_whole_tenant(identity)
    wanted = checked_types(types)
    await place(resources, identity)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_events(tx, after=after, types=wanted, limit=min(limit, MAX_PAGE))


async def follow_events(
    resources: Resources,
    identity: Identity,
    *,
    after: int | None = None,
    types: Sequence[EventType | str] = (),
    seconds: float = STREAM_SECONDS,
) -> AsyncGenerator[Event | None, None]:
    """Events as they happen, for `seconds`; from now on, unless a position is given. None: nothing happened for a moment."""
    _require_whole_tenant(identity)
    wanted = checked_types(types)
    end = time.monotonic() + seconds
    position = await place(resources, identity) if after is None else after
    while time.monotonic() < end:
        await place(resources, identity)
        async with resources.database.transaction(identity) as tx:
            found = await storage.list_events(tx, after=position, types=wanted, limit=PAGE)
        for event in found:
            yield event
            position = event.position
        if len(found) < PAGE:
            yield None
            await asyncio.sleep(LOOK_SECONDS)


async def place(resources: Resources, identity: Identity) -> int:
    """Give every event that was committed its position; the last one."""
    more = True
    while more:
        async with resources.database.transaction(identity) as tx:
            more = await storage.place_events(tx)
            last = await storage.feed_end(tx)
    return last


async def trim_events(resources: Resources, identity: Identity, **_: Any) -> int:
    """Forget events that are older than the feed reaches back; how many. A daily job."""
    before = resources.clock() - FEED
    async with resources.database.transaction(identity) as tx:
        return await storage.delete_events(tx, before=before)


def _require_whole_tenant(identity: Identity) -> None:
    require_admin(identity)
    if identity.user_id is not None:
        raise InvalidInput("the feed of changes is that of the whole tenant; do not act for a user here")
