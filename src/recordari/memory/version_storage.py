"""Rows of items as versions: how a reference stands, what ended, and what followed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.items import Item, Kind
from recordari.db.database import Transaction
from recordari.db.queries import Queries

queries = Queries(__name__)


MOST_VERSIONS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FactState:
    """How the fact behind a reference stands."""

    source_ref: str
    item_id: UUID
    live: bool
    invalid_at: datetime | None
    superseded_by: UUID | None
    is_archived: bool
    is_forgotten: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A row that nobody else changes until the transaction ends."""

    item_id: UUID
    live: bool
    valid_at: datetime
    invalid_at: datetime | None
    superseded_by: UUID | None
    is_pinned: bool
    is_forgotten: bool


async def standing_of_refs(
    tx: Transaction, source_refs: Sequence[str], *, kind: Kind = Kind.FACT
) -> dict[str, FactState]:
    """How the rows behind references stand, by reference."""
    found = await tx.all(queries.standing_of_refs, FactState, kind=kind, source_refs=list(source_refs))
    return {one.source_ref: one for one in found}


async def set_aside(tx: Transaction, ended: Sequence[FactState]) -> None:
    """Let ended rows give up their references, unless they did meanwhile."""
    await tx.run(
        queries.set_aside, item_ids=[one.item_id for one in ended], source_refs=[one.source_ref for one in ended]
    )


async def set_ref(tx: Transaction, item_id: UUID, source_ref: str) -> None:
    """Give a row a reference that is free."""
    await tx.run(queries.set_ref, item_id=item_id, source_ref=source_ref)


async def lock_items(tx: Transaction, item_ids: Sequence[UUID]) -> dict[UUID, Locked]:
    """The rows of these ids, locked."""
    found = await tx.all(queries.lock_items, Locked, item_ids=list(item_ids))
    return {one.item_id: one for one in found}


async def end_items(tx: Transaction, retirements: Sequence[Retirement]) -> None:
    """End rows by their successors; at most one row each."""
    await tx.run(
        queries.end_items,
        item_ids=[one.item_id for one in retirements],
        successors=[one.superseded_by for one in retirements],
        moments=[one.invalid_at for one in retirements],
    )


async def end_item(tx: Transaction, item_id: UUID, moment: datetime) -> None:
    """End a row that has no successor."""
    await tx.run(queries.end_items, item_ids=[item_id], successors=[None], moments=[moment])


async def revive_item(tx: Transaction, item_id: UUID) -> None:
    """Make a row true again."""
    await tx.run(queries.revive_item, item_id=item_id)


async def unarchive_items(tx: Transaction, item_ids: Sequence[UUID]) -> None:
    """Bring rows that had only faded back into recall."""
    await tx.run(queries.unarchive_items, item_ids=list(item_ids))


async def history(tx: Transaction, item_id: UUID) -> list[Item]:
    """All versions that an item stands in line with, oldest first."""
    return await tx.all(queries.history, Item, item_id=item_id, limit=MOST_VERSIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """One statement that ends, by which other, and when it stopped being true."""

    item_id: UUID
    superseded_by: UUID
    invalid_at: datetime
    rule: str
