"""Rows that end: redacted with everything derived from them, archived or purged; and their tombstones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.identity import Scope, SessionId
from recordari.core.items import REDACTED, Kind
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.lifetime.rules import Ended, Hold, Trace
from recordari.sessions.rules.sessions import Fold

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionTarget:
    """An item to forget: its position in its thread, and whether a hold forbids it."""

    item_id: UUID
    kind: Kind
    scope: Scope
    session_id: SessionId | None
    thread: str | None
    position: int | None
    is_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The trace of a forgotten item: enough to recognise it again, not enough to restore it."""

    hash: bytes
    subject: str
    item_id: UUID | None
    is_final: bool
    forgotten_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Summaries:
    session_id: SessionId
    session_ref: UUID
    summary_id: UUID | None
    summarised_to: int
    folded_to: int
    folds: tuple[Fold, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedObject:
    """An object whose row is gone; `is_used` when another row points to the same."""

    object_key: str
    is_used: bool


async def lock_items(tx: Transaction, item_ids: Sequence[UUID]) -> list[RedactionTarget]:
    """Lock the items to forget; items that are forgotten already are left out."""
    return await tx.all(queries.lock_items, RedactionTarget, item_ids=list(item_ids))


async def resting_only_on(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    return [row["item_id"] for row in await tx.dicts(queries.resting_only_on, item_ids=list(item_ids))]


async def bury(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime) -> list[Tombstone]:
    return await tx.all(queries.bury, Tombstone, item_ids=list(item_ids), now=now)


async def redact(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime, keep_place: bool = True) -> int:
    """Remove the content of items and of everything derived from them; returns the number of rows.

    `keep_place` keeps their position in their thread, by which their neighbours count.
    """
    entities = await tx.dicts(queries.delete_derived, item_ids=list(item_ids))
    await tx.run(queries.delete_unmentioned, entity_ids=[row["entity_id"] for row in entities])
    return await tx.run(queries.redact, item_ids=list(item_ids), redacted=REDACTED, now=now, keep_place=keep_place)


async def unembed_followers(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    """Drop the vectors that include the beginning of one of these items; returns the ids of their items."""
    return [row["item_id"] for row in await tx.dicts(queries.unembed_followers, item_ids=list(item_ids))]


async def lock_sessions(tx: Transaction, session_ids: Sequence[SessionId]) -> list[Summaries]:
    rows = await tx.dicts(queries.lock_sessions, session_ids=list(session_ids))
    for row in rows:
        row["folds"] = tuple(Fold(**fold | {"summary_id": UUID(fold["summary_id"])}) for fold in row["folds"])
    return [Summaries(**row) for row in rows]


async def reset_summary(tx: Transaction, session: Summaries) -> None:
    """Keep only these summaries of a session; without a `summary_id` its rolling summary begins again."""
    await tx.run(
        queries.reset_summary,
        session_id=session.session_id,
        summary_id=session.summary_id,
        summarised_to=session.summarised_to,
        folded_to=session.folded_to,
        folds=Jsonb([asdict(fold) | {"summary_id": str(fold.summary_id)} for fold in session.folds]),
    )


async def list_discarded(tx: Transaction, *, limit: int) -> list[DiscardedObject]:
    return await tx.all(queries.list_discarded, DiscardedObject, limit=limit)


async def delete_discarded(tx: Transaction, object_keys: Sequence[str]) -> None:
    await tx.run(queries.delete_discarded, object_keys=list(object_keys))


async def list_ended(tx: Transaction, *, after: UUID, limit: int) -> list[Ended]:
    return await tx.all(queries.list_ended, Ended, after=after, limit=limit)


async def count_kept(tx: Transaction) -> int:
    return int(await tx.value(queries.count_kept))


async def archive_items(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime) -> int:
    return len(await tx.dicts(queries.archive_items, item_ids=list(item_ids), now=now))


async def purge_items(tx: Transaction, item_ids: Sequence[UUID]) -> int:
    return len(await tx.dicts(queries.purge_items, item_ids=list(item_ids)))


async def list_used_objects(tx: Transaction, object_keys: Sequence[str]) -> set[str]:
    rows = await tx.dicts(queries.list_used_objects, object_keys=list(object_keys))
    return {row["object_key"] for row in rows}


async def list_recent(tx: Transaction, *, after: UUID, limit: int) -> list[Trace]:
    return await tx.all(queries.list_recent, Trace, after=after, limit=limit)


async def archive_faded(
    tx: Transaction, item_ids: Sequence[UUID], *, now: datetime, recalled_since: datetime
) -> list[UUID]:
    """Archive faded items unless they were recalled or promoted meanwhile; returns their ids."""
    rows = await tx.dicts(queries.archive_faded, item_ids=list(item_ids), now=now, recalled_since=recalled_since)
    return [row["item_id"] for row in rows]


async def promote_items(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    return [row["item_id"] for row in await tx.dicts(queries.promote_items, item_ids=list(item_ids))]


async def insert_hold(tx: Transaction, item_id: UUID, action_id: str) -> bool:
    return await tx.run(queries.insert_hold, item_id=item_id, action_id=action_id) == 1


async def delete_hold(tx: Transaction, item_id: UUID, action_id: str) -> bool:
    return await tx.run(queries.delete_hold, item_id=item_id, action_id=action_id) == 1


async def list_holds(tx: Transaction, item_id: UUID) -> list[Hold]:
    return await tx.all(queries.list_holds, Hold, item_id=item_id)
