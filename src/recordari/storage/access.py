"""Rows that say how often and when last an item was recalled, and what follows from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.items import Kind, Tier, Trust
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.domain.decay import Trace

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """How often an item was recalled lately, and when last."""

    item_id: UUID
    times: int
    last_at: datetime


async def add_counts(tx: Transaction, counts: Sequence[Accesses]) -> None:
    """Add to what is known of the use of items."""
    await tx.run(
        queries.add_counts,
        item_ids=[one.item_id for one in counts],
        times=[one.times for one in counts],
        last_ats=[one.last_at for one in counts],
    )


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
