"""Rows of the feed of changes. Triggers write them; a reader gives them their positions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.domain.events import Event, EventType

queries = Queries(__name__)

PLACED_AT_ONCE = 5_000


async def place_events(tx: Transaction) -> bool:
    """Give positions to events that were committed since; True when there may be more of them."""
    if not await tx.value(queries.has_unplaced):
        return False
    await tx.run(queries.open_feed)
    last = await tx.value(queries.lock_feed)
    placed = await tx.value(queries.place_events, last=last, limit=PLACED_AT_ONCE)
    return bool(placed == PLACED_AT_ONCE)


async def feed_end(tx: Transaction) -> int:
    """The position of the last event; 0 when there was none ever."""
    return int(await tx.value(queries.feed_end) or 0)


async def list_events(tx: Transaction, *, after: int, types: Sequence[EventType], limit: int) -> list[Event]:
    """Events after a position, in order."""
    found = await tx.all(queries.list_events, Event, after=after, types=[str(each) for each in types], limit=limit)
    return list(found)


async def delete_events(tx: Transaction, *, before: datetime) -> int:
    """Forget events of before that moment; how many."""
    return await tx.run(queries.delete_events, before=before)
