"""Figures over all of a tenant's rows."""

from __future__ import annotations

from dataclasses import dataclass

from recordari.db.database import Transaction
from recordari.db.queries import Queries

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCount:
    """How many items stand alike, and how large their texts are."""

    kind: str
    tier: str
    scope: str
    state: str
    number: int
    bytes: int
    pinned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCounts:
    """How much there is of everything that is no item."""

    vectors: int
    payloads: int
    payload_bytes: int
    open_sessions: int
    closed_sessions: int
    runs: int
    holds: int


async def count_items(tx: Transaction) -> list[ItemCount]:
    """Count the tenant's items by kind, tier, scope and state."""
    return await tx.all(queries.count_items, ItemCount)


async def count_others(tx: Transaction) -> OtherCounts:
    """Count what is no item."""
    (counts,) = await tx.all(queries.count_others, OtherCounts)
    return counts
