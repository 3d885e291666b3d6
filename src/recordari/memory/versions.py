"""Versions: an old item ends where its successor begins, in one transaction, audited with ids only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from recordari.core.identity import Identity
from recordari.core.items import Item, item_owner
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import Conflict
from recordari.kit.resources import Resources
from recordari.memory import storage
from recordari.memory.items import get_item
from recordari.memory.rules import Retirement
from recordari.memory.storage import FactState

WAS_ENDED_BY, WAS_ENDED_AT = "was_superseded_by", "was_invalid_at"
"""In the audit of a fact that had ended already: by which one, and when."""


async def retire(tx: Transaction, retirements: Sequence[Retirement], *, judge: str) -> list[Retirement]:
    """End facts by their successors, inside the caller's transaction. Return the retirements that took place.

    A fact that was ended, pinned or forgotten meanwhile stays as it is. The successor must exist. It may have ended by a
    successor of its own, but not because it was wrong.
    """
    if not retirements:
        return []
    ids = {item_id for retirement in retirements for item_id in (retirement.item_id, retirement.superseded_by)}
    rows = await storage.lock_items(tx, sorted(ids))
    ended: list[Retirement] = []
    for retirement in retirements:
        old, successor = rows.get(retirement.item_id), rows.get(retirement.superseded_by)
        if old is None or successor is None or old.is_pinned or old.is_forgotten or successor.is_forgotten:
            continue
        if successor.invalid_at is not None and successor.superseded_by is None:
            continue
        # A late fact may belong between an ended fact and its successor: then the old one ended earlier.
        ended_at = old.invalid_at if old.superseded_by is not None else None
        if old.holds or (ended_at is not None and retirement.invalid_at < ended_at):
            ended.append(retirement)
    await storage.end_items(tx, ended)
    for retirement in ended:
        details = {"superseded_by": str(retirement.superseded_by), "rule": retirement.rule, "judge": judge}
        old = rows[retirement.item_id]
        if old.superseded_by is not None and old.invalid_at is not None:  # whoever undoes this needs it
            details |= {WAS_ENDED_BY: str(old.superseded_by), WAS_ENDED_AT: old.invalid_at.isoformat()}
        await audit.record(tx, "fact.supersede", "item", retirement.item_id, **details)
    return ended


async def item_history(resources: Resources, identity: Identity, item_id: UUID) -> list[Item]:
    """All versions of an item, oldest first, with the retired ones."""
    await get_item(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        return await storage.history(tx, item_id)


async def free_reference(
    tx: Transaction, stated: Iterable[tuple[str, datetime]], known: Mapping[str, FactState]
) -> dict[str, FactState]:
    """Free the references of ended facts that are stated again. Return the ended facts by reference.

    `stated` are references and times. A fact that was only archived comes back instead.
    """
    pairs = [(known[ref], event_time) for ref, event_time in stated if ref in known]
    ended = {fact.source_ref: fact for fact, event_time in pairs if is_ended_before(fact, event_time)}
    archived = [fact.item_id for fact, _ in pairs if fact.is_archived and fact.invalid_at is None]
    if ended:
        await storage.lock_items(tx, sorted(fact.item_id for fact in ended.values()))
        await storage.set_aside(tx, list(ended.values()))
    if archived:
        await storage.unarchive_items(tx, archived)
    return ended


def is_ended_before(fact: FactState, event_time: datetime) -> bool:
    return not fact.is_forgotten and fact.invalid_at is not None and event_time > fact.invalid_at


def archived_reference(ended: FactState) -> str:
    """The reference of an ended fact after it gave up its own."""
    return f"{ended.source_ref}@{ended.item_id}"


async def link_predecessor(tx: Transaction, item_id: UUID, ended: FactState) -> None:
    """Record that a fact was stated again; it supersedes the ended one unless another one does."""
    if ended.superseded_by is None and ended.invalid_at is not None:
        successor = Retirement(
            item_id=ended.item_id, superseded_by=item_id, invalid_at=ended.invalid_at, rule="stated again"
        )
        await storage.end_items(tx, [successor])
    await audit.record(tx, "fact.restate", "item", item_id, follows=str(ended.item_id))


async def reclaim_reference(tx: Transaction, item: Item) -> None:
    """Give a restored item its reference back; `Conflict` when a live item has it."""
    base = item.source_ref.removesuffix(f"@{item.item_id}")
    owner = item_owner(item.kind, item.scope, item.user_id, item.agent_id)
    holder = (await storage.fact_states(tx, [(owner, base)], kind=item.kind)).get(base)
    if holder is None or holder.item_id == item.item_id:
        return
    if holder.live:
        raise Conflict("this was stated again and is current", contradicted_by=str(holder.item_id))
    await storage.set_aside(tx, [holder])
    await storage.set_ref(tx, item.item_id, base)
