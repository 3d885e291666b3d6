"""Rows that say what an item rests on, and what people think of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.identity import Identity
from recordari.db.database import Database, Transaction
from recordari.db.queries import Queries
from recordari.domain.evidence import Opinion, Source

queries = Queries(__name__)

MOST_SOURCES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An item, and one that it was taken from."""

    item_id: UUID
    source_item_id: UUID
    event_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """An item that rests on others; an orphan rests on nothing else."""

    item_id: UUID
    is_orphan: bool


async def insert_links(tx: Transaction, links: Sequence[Link]) -> None:
    """Note what items were taken from."""
    if links:
        await tx.run(
            queries.insert_links,
            item_ids=[link.item_id for link in links],
            source_ids=[link.source_item_id for link in links],
            event_times=[link.event_time for link in links],
        )


async def links_among(database: Database, identity: Identity, item_ids: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """Pairs of these items of which the first was taken from the second."""
    return [(fact, turn) for fact, turn in await database.once(identity, queries.links_among, item_ids=list(item_ids))]


async def copy_links(tx: Transaction, *, from_id: UUID, to_id: UUID) -> None:
    """Let one item rest on what another rests on."""
    await tx.run(queries.copy_links, item_id=to_id, from_id=from_id)


async def sources_of(tx: Transaction, item_id: UUID) -> list[Source]:
    """What an item rests on, oldest first."""
    return await tx.all(queries.sources_of, Source, item_id=item_id, limit=MOST_SOURCES)


async def derived_from(tx: Transaction, item_ids: Sequence[UUID]) -> list[Derived]:
    """Everything that rests on these items."""
    return await tx.all(queries.derived_from, Derived, item_ids=list(item_ids))


async def promote_corroborated(tx: Transaction, item_ids: Sequence[UUID], *, sessions: int) -> list[UUID]:
    """Let facts last that were said in so many sessions; which those are."""
    rows = await tx.dicts(queries.promote_corroborated, item_ids=list(item_ids), sessions=sessions)
    return [row["item_id"] for row in rows]


async def save_feedback(
    tx: Transaction, item_id: UUID, opinion: Opinion, *, given_by: str, now: datetime
) -> Opinion | None:
    """Keep an opinion; the one it takes the place of."""
    before = await tx.value(queries.save_feedback, item_id=item_id, opinion=str(opinion), given_by=given_by, now=now)
    return Opinion(before) if before is not None else None


async def count_feedback(tx: Transaction, item_id: UUID) -> tuple[int, int]:
    """How many found an item useful, and how many wrong."""
    (row,) = await tx.dicts(queries.count_feedback, item_id=item_id)
    return int(row["useful"]), int(row["wrong"])
