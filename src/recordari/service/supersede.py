"""Superseding: an old truth ends where its successor begins; one transaction, audited with ids only."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from recordari.core.identity import Identity
from recordari.core.items import Item
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.domain.conflict import Retirement
from recordari.kit.resources import Resources
from recordari.memory.remember import get_item
from recordari.storage import facts


async def retire(tx: Transaction, retirements: Sequence[Retirement], *, judge: str) -> list[Retirement]:
    """End facts by their successors, inside the caller's transaction; those that could be ended.

    What was ended, pinned or forgotten meanwhile stays as it is. A successor may have ended too: that one then has a
    successor of its own, and the line holds. It must be there, though, and must not have been found wrong.
    """
    if not retirements:
        return []
    ids = {one.item_id for one in retirements} | {one.superseded_by for one in retirements}
    rows = await facts.lock_items(tx, sorted(ids))
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
    await facts.end_items(tx, done)
    for one in done:
        await audit.record(
            tx, "fact.supersede", "item", one.item_id, superseded_by=str(one.superseded_by), rule=one.rule, judge=judge
        )
    return done


async def history(resources: Resources, identity: Identity, item_id: UUID) -> list[Item]:
    """All versions that an item stands in line with, oldest first, the retired ones too."""
    await get_item(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        return await facts.history(tx, item_id)
