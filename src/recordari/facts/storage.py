"""Rows of facts: extracted, judged and curated, with their evidence and feedback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.identity import Role, UserId
from recordari.core.ids import LAST
from recordari.core.items import Item, Trust
from recordari.db.audit import AuditEntry
from recordari.db.database import Transaction
from recordari.db.queries import Queries, reader
from recordari.facts.rules.claims import EvidenceSource, Opinion
from recordari.facts.rules.conflict import PastRuling
from recordari.facts.rules.naming import EarlierMessage
from recordari.memory.storage import line_of

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactRow(Item):
    is_pinned: bool


_read_fact = reader(FactRow)


async def sources_to_extract(tx: Transaction, item_ids: Sequence[UUID], trusts: Sequence[Trust]) -> list[Item]:
    return await tx.all(
        queries.sources_to_extract, Item, item_ids=list(item_ids), trusts=[str(trust) for trust in trusts]
    )


async def said_before(tx: Transaction, item_ids: Sequence[UUID], limit: int) -> dict[UUID, list[EarlierMessage]]:
    """The last messages before each of these in its session."""
    found: dict[UUID, list[EarlierMessage]] = {}
    for row in await tx.dicts(queries.said_before, item_ids=list(item_ids), limit=limit):
        found.setdefault(row["item_id"], []).append(EarlierMessage(content=row["content"], is_own=row["is_own"]))
    return found


async def mark_extracted(tx: Transaction, item_ids: Sequence[UUID], now: datetime) -> None:
    await tx.run(queries.mark_extracted, item_ids=list(item_ids), now=now)


async def find_copies(tx: Transaction, contents: Sequence[str]) -> set[int]:
    """The numbers of the texts that the leak guard would refuse."""
    return {row["number"] for row in await tx.dicts(queries.find_copies, contents=list(contents))}


async def list_comparable(tx: Transaction, *, after: UUID, least: int, limit: int) -> dict[UUID, bool]:
    """A page of facts of at least so many characters, and whether each copies a protected source."""
    rows = await tx.dicts(queries.list_comparable, after=after, least=least, limit=limit)
    return {row["item_id"]: row["is_copy"] for row in rows}


async def same_words(tx: Transaction, item_id: UUID) -> list[UUID]:
    """The ids of all rows by which an owner states a fact, with its own; none for another kind."""
    return [row["item_id"] for row in await tx.dicts(queries.same_words, item_id=item_id)]


async def facts_to_judge(tx: Transaction, item_ids: Sequence[UUID]) -> list[FactRow]:
    return await tx.all(queries.facts_to_judge, FactRow, item_ids=list(item_ids))


async def near_facts(
    tx: Transaction, item_ids: Sequence[UUID], *, model_id: str | None, distance: float, most: int
) -> dict[UUID, list[FactRow]]:
    """For each fact the live facts that may contradict it."""
    near: dict[UUID, list[FactRow]] = {item_id: [] for item_id in item_ids}
    parameters = {"model_id": model_id or "", "distance": distance, "most": most}
    for row in await tx.dicts(queries.near_facts, item_ids=list(item_ids), **parameters):
        near[row.pop("of_id")].append(_read_fact(**row))
    return near


async def predecessors(tx: Transaction, item_ids: Sequence[UUID], *, most: int) -> list[FactRow]:
    return await tx.all(queries.predecessors, FactRow, item_ids=list(item_ids), most=most)


async def list_rulings(tx: Transaction, *, of_user: UserId | None, before: UUID | None, limit: int) -> list[PastRuling]:
    return await tx.all(queries.list_rulings, PastRuling, of_user=of_user, before=before or LAST, limit=limit)


async def find_ruling(tx: Transaction, ruling_id: UUID) -> AuditEntry | None:
    return await tx.maybe(queries.find_ruling, AuditEntry, ruling_id=ruling_id)


async def is_undone(tx: Transaction, item_id: UUID, ruling_id: UUID) -> bool:
    return bool(await tx.value(queries.is_undone, item_id=str(item_id), ruling_id=str(ruling_id)))


async def mark_judged(tx: Transaction, item_ids: Sequence[UUID], now: datetime) -> None:
    await tx.run(queries.mark_judged, item_ids=list(item_ids), now=now)


async def set_pinned(tx: Transaction, item_id: UUID, pinned_at: datetime | None) -> bool:
    """Pin or unpin. Return whether that changed anything."""
    return await tx.run(queries.set_pinned, item_id=item_id, pinned_at=pinned_at) == 1


async def set_confidence(tx: Transaction, item_id: UUID, confidence: float) -> None:
    await tx.run(queries.set_confidence, item_id=item_id, confidence=confidence)


async def list_items(tx: Transaction, **filters: Any) -> list[Item]:
    caller = tx.identity
    return await tx.all(
        queries.list_items,
        Item,
        user_id=caller.user_id,
        agent_id=caller.agent_id,
        owned_by=caller.owned_by,
        session_ids=await line_of(tx, caller.owned_by, caller.session_id),
        is_admin=caller.role is Role.ADMIN,
        **filters,
    )


MOST_SOURCES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An item and one of its sources."""

    item_id: UUID
    source_item_id: UUID
    event_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """An item that rests on some items; an orphan rests on nothing else."""

    item_id: UUID
    is_orphan: bool


async def insert_links(tx: Transaction, links: Sequence[Link]) -> None:
    if links:
        await tx.run(
            queries.insert_links,
            item_ids=[link.item_id for link in links],
            source_ids=[link.source_item_id for link in links],
            event_times=[link.event_time for link in links],
        )


async def copy_links(tx: Transaction, *, from_id: UUID, to_id: UUID) -> None:
    await tx.run(queries.copy_links, item_id=to_id, from_id=from_id)


async def sources_of(tx: Transaction, item_id: UUID) -> list[EvidenceSource]:
    return await tx.all(queries.sources_of, EvidenceSource, item_id=item_id, limit=MOST_SOURCES)


async def led_to(tx: Transaction, item_id: UUID) -> list[UUID]:
    rows = await tx.dicts(queries.led_to, item_id=item_id, limit=MOST_SOURCES)
    return [row["item_id"] for row in rows]


async def derived_from(tx: Transaction, item_ids: Sequence[UUID]) -> list[Derived]:
    return await tx.all(queries.derived_from, Derived, item_ids=list(item_ids))


async def promote_corroborated(tx: Transaction, item_ids: Sequence[UUID], *, sessions: int) -> list[UUID]:
    """Make facts persistent that were said in enough sessions. Return their ids."""
    rows = await tx.dicts(queries.promote_corroborated, item_ids=list(item_ids), sessions=sessions)
    return [row["item_id"] for row in rows]


async def save_feedback(
    tx: Transaction, item_id: UUID, opinion: Opinion, *, given_by: str, now: datetime
) -> Opinion | None:
    """Save an opinion. Return the one that it replaces."""
    before = await tx.value(queries.save_feedback, item_id=item_id, opinion=str(opinion), given_by=given_by, now=now)
    return Opinion(before) if before is not None else None


async def count_feedback(tx: Transaction, item_id: UUID) -> tuple[int, int]:
    """The numbers of useful and of wrong opinions."""
    (row,) = await tx.dicts(queries.count_feedback, item_id=item_id)
    return int(row["useful"]), int(row["wrong"])
