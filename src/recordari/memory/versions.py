"""Superseding: an old truth ends where its successor begins; one transaction, audited with ids only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.identity import Identity
from recordari.core.items import Item, Kind
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import Conflict
from recordari.kit.resources import Resources
from recordari.memory import storage
from recordari.memory.items import get_item
from recordari.memory.rules import Retirement
from recordari.memory.storage import FactState


async def retire(tx: Transaction, retirements: Sequence[Retirement], *, judge: str) -> list[Retirement]:
    """End facts by their successors, inside the caller's transaction; those that could be ended.

    What was ended, pinned or forgotten meanwhile stays as it is. A successor may have ended too: that one then has a
    successor of its own, and the line holds. It must be there, though, and must not have been found wrong.
    """
    if not retirements:
        return []
    ids = {one.item_id for one in retirements} | {one.superseded_by for one in retirements}
    rows = await storage.lock_items(tx, sorted(ids))
    done: list[Retirement] = []
    for one in retirements:
        old, successor = rows.get(one.item_id), rows.get(one.superseded_by)
        if old is None or successor is None or old.is_pinned or old.is_forgotten or successor.is_forgotten:
            continue
        if successor.invalid_at is not None and successor.superseded_by is None:
            continue
        # A late one may come to stand between a fact and its successor: then the fact ends earlier than was thought.
        between = old.superseded_by is not None and old.invalid_at is not None and one.invalid_at < old.invalid_at
        if old.live or between:
            done.append(one)
    await storage.end_items(tx, done)
    for one in done:
        await audit.record(
            tx, "fact.supersede", "item", one.item_id, superseded_by=str(one.superseded_by), rule=one.rule, judge=judge
        )
    return done


async def item_history(resources: Resources, identity: Identity, item_id: UUID) -> list[Item]:
    """All versions that an item stands in line with, oldest first, the retired ones too."""
    await get_item(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        return await storage.history(tx, item_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """Words stated now: under which reference, and as of when."""

    source_ref: str
    event_time: datetime


async def free_reference(
    tx: Transaction, stated: Sequence[Stated], known: Mapping[str, FactState]
) -> dict[str, FactState]:
    """Free the references of what ended before it is stated again; the ended rows by reference.

    What had only faded is brought back instead.
    """
    ended = {
        one.source_ref: found
        for one in stated
        if (found := known.get(one.source_ref)) is not None and is_ended_before(found, one.event_time)
    }
    faded = [
        found.item_id
        for one in stated
        if (found := known.get(one.source_ref)) is not None and found.is_archived and found.invalid_at is None
    ]
    if ended:
        await storage.lock_items(tx, sorted(found.item_id for found in ended.values()))
        await storage.set_aside(tx, list(ended.values()))
    if faded:
        await storage.unarchive_items(tx, faded)
    return ended


def is_ended_before(found: FactState, event_time: datetime) -> bool:
    """Whether a row ended, and words of that moment state it anew."""
    return not found.is_forgotten and found.invalid_at is not None and event_time > found.invalid_at


def archived_reference(ended: FactState) -> str:
    """The reference of an ended row after it gave up the one of its words."""
    return f"{ended.source_ref}@{ended.item_id}"


async def link_predecessor(tx: Transaction, item_id: UUID, ended: FactState) -> None:
    """Note that a row states again what had ended; where nothing else followed the ended one, this one does."""
    if ended.superseded_by is None and ended.invalid_at is not None:
        again = Retirement(
            item_id=ended.item_id, superseded_by=item_id, invalid_at=ended.invalid_at, rule="stated again"
        )
        await storage.end_items(tx, [again])
    await audit.record(tx, "fact.restate", "item", item_id, follows=str(ended.item_id))


async def reclaim_reference(tx: Transaction, item: Item) -> None:
    """Let a row that is restored be found by its words again; `Conflict` while another one states them."""
    base = item.source_ref.removesuffix(f"@{item.item_id}")
    holder = (await storage.standing_of_refs(tx, [base], kind=Kind(item.kind))).get(base)
    if holder is None or holder.item_id == item.item_id:
        return
    if holder.live:
        raise Conflict("this was stated again, and is current already", contradicted_by=str(holder.item_id))
    await storage.set_aside(tx, [holder])
    await storage.set_ref(tx, item.item_id, base)
