"""The judge's rulings: an administrator reads the last ones, and undoes a wrong one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity
from recordari.db import audit
from recordari.db.audit import AuditEntry
from recordari.db.database import Transaction
from recordari.errors import Conflict, NotFound
from recordari.facts import storage
from recordari.facts.rules.conflict import PastRuling
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory.rules import Retirement
from recordari.memory.versions import WAS_ENDED_AT, WAS_ENDED_BY, reclaim_reference
from recordari.privacy.sanitise import clean_reason
from recordari.tenants.tenants import page_size, require_admin

RULINGS = 100


async def list_rulings(
    resources: Resources, identity: Identity, *, before: UUID | None = None, limit: int = RULINGS
) -> list[PastRuling]:
    """The last rulings that ended a fact, newest first, each with both texts and its rule; for a user that user's alone."""
    require_admin(identity)
    async with resources.database.transaction(_reading_audit(identity)) as tx:
        return await storage.list_rulings(tx, of_user=identity.user_id, before=before, limit=page_size(limit))


async def undo_ruling(resources: Resources, identity: Identity, ruling_id: UUID, *, reason: str | None = None) -> None:
    """Undo a ruling: the fact that it ended is exactly as before. The fact that ended it stays."""
    require_admin(identity)
    reason = await clean_reason(resources, identity, reason)
    async with resources.database.transaction(_reading_audit(identity)) as tx:
        ruling = await storage.find_ruling(tx, ruling_id)
        if ruling is None:
            raise NotFound("there is no such ruling")
        item_id, successor_id = UUID(ruling.subject_id), UUID(ruling.details["superseded_by"])
        item = await memory_storage.find_item(tx, item_id)
        if identity.user_id is not None and (item is None or item.user_id != identity.user_id):
            raise NotFound("there is no such ruling")
        row = (await memory_storage.lock_items(tx, [item_id])).get(item_id)
        if row is None or row.is_forgotten:
            raise Conflict("the fact of this ruling was forgotten; nothing can be restored")
        if await storage.is_undone(tx, item_id, ruling_id):
            return
        if row.superseded_by != successor_id:
            raise Conflict("the fact was changed after this ruling; read its history and restore it by hand")
        await _put_back(tx, item_id, ruling)
        await audit.record(tx, "ruling.undo", "item", item_id, reason=reason, ruling=str(ruling_id))


def _reading_audit(identity: Identity) -> Identity:
    """The administrator without the user that it names: row-level security shows the audit to no user."""
    return replace(identity, user_id=None, agent_id=None, session_id=None, run_id=None)


async def _put_back(tx: Transaction, item_id: UUID, ruling: AuditEntry) -> None:
    """A fact that had ended before, later and by another one, ends there again; else it is true again."""
    details: dict[str, Any] = ruling.details
    if WAS_ENDED_BY in details:
        ended_at = datetime.fromisoformat(details[WAS_ENDED_AT])
        before = Retirement(
            item_id=item_id, superseded_by=UUID(details[WAS_ENDED_BY]), invalid_at=ended_at, rule="undone"
        )
        await memory_storage.end_items(tx, [before])
        return
    item = await memory_storage.find_item(tx, item_id)
    if item is None:
        raise NotFound("there is no such item")
    await reclaim_reference(tx, item)
    await memory_storage.revive_item(tx, item_id)
