"""Rows of the feed of changes. Triggers write them; a reader gives them their positions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.events.rules import Event, EventType, Webhook

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


async def insert_webhook(
    tx: Transaction, webhook_id: UUID, *, url: str, types: Sequence[EventType], secret: str, position: int
) -> Webhook:
    """Keep a webhook that hears of what comes after the position."""
    (made,) = await tx.all(
        queries.insert_webhook,
        Webhook,
        webhook_id=webhook_id,
        url=url,
        types=[str(each) for each in types],
        secret=secret,
        position=position,
    )
    return made


async def list_webhooks(tx: Transaction) -> list[Webhook]:
    """The tenant's webhooks."""
    return await tx.all(queries.list_webhooks, Webhook)


async def find_webhook(tx: Transaction, webhook_id: UUID) -> Webhook | None:
    """One webhook."""
    return await tx.maybe(queries.find_webhook, Webhook, webhook_id=webhook_id)


async def delete_webhook(tx: Transaction, webhook_id: UUID) -> bool:
    """Remove a webhook; False when there is none."""
    return await tx.run(queries.delete_webhook, webhook_id=webhook_id) == 1


async def set_active(tx: Transaction, webhook_id: UUID, *, is_active: bool) -> Webhook | None:
    """Switch a webhook on or off, with its failures forgotten."""
    return await tx.maybe(queries.set_active, Webhook, webhook_id=webhook_id, is_active=is_active)


async def take_webhook(tx: Transaction, webhook_id: UUID, *, lease: timedelta) -> Webhook | None:
    """The webhook to work on; None while somebody does, or when there is none to tell."""
    return await tx.maybe(queries.take_webhook, Webhook, webhook_id=webhook_id, lease=lease)


async def note_delivery(tx: Transaction, webhook_id: UUID, *, position: int, now: datetime, lease: timedelta) -> None:
    """Note that everything up to the position was heard."""
    await tx.run(queries.note_delivery, webhook_id=webhook_id, position=position, now=now, lease=lease)


async def note_failure(tx: Transaction, webhook_id: UUID, *, error: str, now: datetime) -> None:
    """Note that a delivery did not arrive."""
    await tx.run(queries.note_failure, webhook_id=webhook_id, error=error, now=now)


async def leave_webhook(tx: Transaction, webhook_id: UUID) -> None:
    """Note that nobody works on it any more."""
    await tx.run(queries.leave_webhook, webhook_id=webhook_id)


async def list_behind(tx: Transaction, *, topic: str) -> list[UUID]:
    """Active webhooks that have not heard of everything, and that nothing waits for."""
    return [row["webhook_id"] for row in await tx.dicts(queries.list_behind, topic=topic)]
