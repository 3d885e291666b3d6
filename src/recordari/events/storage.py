"""Rows of the change feed, which triggers write and readers number, and of webhooks."""

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
    """Give positions to newly committed events; return whether there may be more."""
    if not await tx.value(queries.has_unplaced):
        return False
    await tx.run(queries.open_feed)
    last = await tx.value(queries.lock_feed)
    placed = await tx.value(queries.place_events, last=last, limit=PLACED_AT_ONCE)
    return bool(placed == PLACED_AT_ONCE)


async def feed_end(tx: Transaction) -> int:
    return int(await tx.value(queries.feed_end) or 0)


async def list_events(tx: Transaction, *, after: int, types: Sequence[EventType], limit: int) -> list[Event]:
    return await tx.all(queries.list_events, Event, after=after, types=[*map(str, types)], limit=limit)


async def delete_events(tx: Transaction, *, before: datetime) -> int:
    return await tx.run(queries.delete_events, before=before)


async def insert_webhook(
    tx: Transaction, webhook_id: UUID, *, url: str, types: Sequence[EventType], secret: str, position: int
) -> Webhook:
    (webhook,) = await tx.all(
        queries.insert_webhook,
        Webhook,
        webhook_id=webhook_id,
        url=url,
        types=[*map(str, types)],
        secret=secret,
        position=position,
    )
    return webhook


async def list_webhooks(tx: Transaction) -> list[Webhook]:
    return await tx.all(queries.list_webhooks, Webhook)


async def find_webhook(tx: Transaction, webhook_id: UUID) -> Webhook | None:
    return await tx.maybe(queries.find_webhook, Webhook, webhook_id=webhook_id)


async def delete_webhook(tx: Transaction, webhook_id: UUID) -> bool:
    return await tx.run(queries.delete_webhook, webhook_id=webhook_id) == 1


async def set_active(tx: Transaction, webhook_id: UUID, *, is_active: bool) -> Webhook | None:
    """Switch a webhook on or off and reset its failures."""
    return await tx.maybe(queries.set_active, Webhook, webhook_id=webhook_id, is_active=is_active)


async def take_webhook(tx: Transaction, webhook_id: UUID, *, lease: timedelta) -> Webhook | None:
    """Lease a webhook; None if it is leased, switched off or deleted."""
    return await tx.maybe(queries.take_webhook, Webhook, webhook_id=webhook_id, lease=lease)


async def note_delivery(tx: Transaction, webhook_id: UUID, *, position: int, now: datetime, lease: timedelta) -> None:
    """Record that everything up to the position was delivered, and renew the lease."""
    await tx.run(queries.note_delivery, webhook_id=webhook_id, position=position, now=now, lease=lease)


async def note_failure(tx: Transaction, webhook_id: UUID, *, error: str, now: datetime) -> None:
    await tx.run(queries.note_failure, webhook_id=webhook_id, error=error, now=now)


async def leave_webhook(tx: Transaction, webhook_id: UUID) -> None:
    await tx.run(queries.leave_webhook, webhook_id=webhook_id)


async def list_behind(tx: Transaction, *, topic: str) -> list[UUID]:
    """List active webhooks that are behind and have no entry in the outbox."""
    return [row["webhook_id"] for row in await tx.dicts(queries.list_behind, topic=topic)]
