"""Rows that end: redacted with everything derived from them, archived, or purged; and the tombstones they leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.identity import Scope, SessionId
from recordari.core.items import REDACTED, Kind, Tier, Trust
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.lifetime.rules import Ended, Hold, Trace
from recordari.sessions.rules.sessions import Fold

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionTarget:
    """An item that is to be forgotten: where it stands, and whether that is forbidden."""

    item_id: UUID
    kind: Kind
    scope: Scope
    session_id: SessionId | None
    thread: str | None
    position: int | None
    is_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """What is left of something forgotten: enough to know it again, not enough to tell what it was."""

    hash: bytes
    subject: str
    item_id: UUID | None
    is_final: bool
    forgotten_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Summaries:
    """What a session holds of summaries."""

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
    """Lock items that are to be forgotten; those that are forgotten already are left out."""
    return await tx.all(queries.lock_items, RedactionTarget, item_ids=list(item_ids))


async def resting_only_on(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    """What was derived from these items and from nothing else."""
    return [row["item_id"] for row in await tx.dicts(queries.resting_only_on, item_ids=list(item_ids))]


async def bury(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime) -> list[Tombstone]:
    """Leave tombstones for items that are about to be redacted."""
    return await tx.all(queries.bury, Tombstone, item_ids=list(item_ids), now=now)


async def redact(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime, keep_place: bool = True) -> int:
    """Take what items say out of them and of everything derived from them; how many rows that were.

    `keep_place` leaves them their place in their thread, by which their neighbours count.
    """
    named = await tx.dicts(queries.delete_derived, item_ids=list(item_ids))
    await tx.run(queries.delete_unmentioned, entity_ids=[row["entity_id"] for row in named])
    return await tx.run(queries.redact, item_ids=list(item_ids), redacted=REDACTED, now=now, keep_place=keep_place)


async def unembed_followers(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    """Drop vectors that were made with the beginning of one of these items; whose they were."""
    return [row["item_id"] for row in await tx.dicts(queries.unembed_followers, item_ids=list(item_ids))]


async def lock_sessions(tx: Transaction, session_ids: Sequence[SessionId]) -> list[Summaries]:
    """Lock sessions whose summaries may tell what is to be forgotten."""
    rows = await tx.dicts(queries.lock_sessions, session_ids=list(session_ids))
    return [
        Summaries(
            **{
                **row,
                "folds": tuple(
                    Fold(summary_id=UUID(one["summary_id"]), first=one["first"], last=one["last"])
                    for one in row["folds"]
                ),
            }
        )
        for row in rows
    ]


async def reset_summary(tx: Transaction, session: Summaries) -> None:
    """Leave a session only these summaries; without a `summary_id` its rolling one begins again."""
    await tx.run(
        queries.reset_summary,
        session_id=session.session_id,
        summary_id=session.summary_id,
        summarised_to=session.summarised_to,
        folded_to=session.folded_to,
        folds=Jsonb(
            [{"summary_id": str(one.summary_id), "first": one.first, "last": one.last} for one in session.folds]
        ),
    )


async def list_discarded(tx: Transaction, *, limit: int) -> list[DiscardedObject]:
    """Objects whose row is gone."""
    return await tx.all(queries.list_discarded, DiscardedObject, limit=limit)


async def delete_discarded(tx: Transaction, object_keys: Sequence[str]) -> None:
    """Strike off objects that were removed."""
    await tx.run(queries.delete_discarded, object_keys=list(object_keys))


async def list_ended(tx: Transaction, *, after: UUID, limit: int) -> list[Ended]:
    """Items that something has ended, some after the id given."""
    rows = await tx.dicts(queries.list_ended, after=after, limit=limit)
    return [Ended(**{**row, "tier": Tier(row["tier"])}) for row in rows]


async def count_kept(tx: Transaction) -> int:
    """How many items the tenant has that still say something."""
    return int(await tx.value(queries.count_kept))


async def archive_items(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime) -> int:
    """Take items out of recall; how many that were."""
    return len(await tx.dicts(queries.archive_items, item_ids=list(item_ids), now=now))


async def purge_items(tx: Transaction, item_ids: Sequence[UUID]) -> int:
    """Remove rows that were never meant to last; how many that were."""
    return len(await tx.dicts(queries.purge_items, item_ids=list(item_ids)))


async def list_used_objects(tx: Transaction, object_keys: Sequence[str]) -> set[str]:
    """Which of these objects a row points to."""
    rows = await tx.dicts(queries.list_used_objects, object_keys=list(object_keys))
    return {row["object_key"] for row in rows}


async def list_recent(tx: Transaction, *, after: UUID, limit: int) -> list[Trace]:
    """Some of recent memory by id, which is the order it was kept in, after the one given."""
    rows = await tx.dicts(queries.list_recent, after=after, limit=limit)
    return [
        Trace(**{**row, "kind": Kind(row["kind"]), "tier": Tier(row["tier"]), "trust": Trust(row["trust"])})
        for row in rows
    ]


async def archive_faded(
    tx: Transaction, item_ids: Sequence[UUID], *, now: datetime, recalled_since: datetime
) -> list[UUID]:
    """Take faded items out of recall; which those were."""
    rows = await tx.dicts(queries.archive_faded, item_ids=list(item_ids), now=now, recalled_since=recalled_since)
    return [row["item_id"] for row in rows]


async def promote_items(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    """Let recent items last; which those were."""
    return [row["item_id"] for row in await tx.dicts(queries.promote_items, item_ids=list(item_ids))]


async def insert_hold(tx: Transaction, item_id: UUID, action_id: str) -> bool:
    """Note that an action rests on an item; False when it does already."""
    return await tx.run(queries.insert_hold, item_id=item_id, action_id=action_id) == 1


async def delete_hold(tx: Transaction, item_id: UUID, action_id: str) -> bool:
    """Note that it does no longer; False when it did not."""
    return await tx.run(queries.delete_hold, item_id=item_id, action_id=action_id) == 1


async def list_holds(tx: Transaction, item_id: UUID) -> list[Hold]:
    """The actions that rest on an item."""
    return await tx.all(queries.list_holds, Hold, item_id=item_id)
