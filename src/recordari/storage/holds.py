"""Rows that say which actions rest on an item."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.db.database import Transaction
from recordari.db.queries import Queries

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """An action that rests on an item, which nothing may remove meanwhile."""

    item_id: UUID
    action_id: str
    created_at: datetime


async def insert_hold(tx: Transaction, item_id: UUID, action_id: str) -> bool:
    """Note that an action rests on an item; False when it does already."""
    return await tx.run(queries.insert_hold, item_id=item_id, action_id=action_id) == 1


async def delete_hold(tx: Transaction, item_id: UUID, action_id: str) -> bool:
    """Note that it does no longer; False when it did not."""
    return await tx.run(queries.delete_hold, item_id=item_id, action_id=action_id) == 1


async def list_holds(tx: Transaction, item_id: UUID) -> list[Hold]:
    """The actions that rest on an item."""
    return await tx.all(queries.list_holds, Hold, item_id=item_id)
