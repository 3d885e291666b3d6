"""Rows copied from one agent to another: what it knows, with vectors and links, and how it does things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.identity import AgentId
from recordari.core.ids import new_id
from recordari.db.database import Transaction
from recordari.db.queries import Queries

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToCopy:
    """An item to copy, and the reference that it has."""

    item_id: UUID
    kind: str
    source_ref: str


async def list_to_copy(tx: Transaction, template: AgentId) -> list[ToCopy]:
    """What an agent knows for good; it is not forgotten before the transaction ends."""
    return await tx.all(queries.list_to_copy, ToCopy, template=template)


async def copy_items(
    tx: Transaction, found: Sequence[ToCopy], source_refs: Sequence[str], *, template: AgentId, agent_id: AgentId
) -> tuple[list[UUID], list[UUID]]:
    """Copy items with everything derived from them: the copies made, and those of them that wait to be embedded."""
    pairs = {new_id(): one.item_id for one in found}
    made = await tx.dicts(
        queries.copy_items,
        item_ids=list(pairs.values()),
        copy_ids=list(pairs),
        source_refs=list(source_refs),
        template=template,
        agent_id=agent_id,
    )
    copies = [row["item_id"] for row in made]
    originals = [pairs[copy_id] for copy_id in copies]
    await tx.run(queries.copy_vectors, item_ids=originals, copy_ids=copies)
    await tx.run(queries.copy_mentions, item_ids=originals, copy_ids=copies)
    await tx.run(queries.link_copies, item_ids=originals, copy_ids=copies)
    waiting = await tx.dicts(queries.not_embedded, copy_ids=copies)
    return copies, [row["copy_id"] for row in waiting]


async def copy_procedures(tx: Transaction, template: AgentId, agent_id: AgentId, *, now: datetime) -> int:
    """Copy the active procedures of an agent type to another; how many."""
    found = [row["procedure_id"] for row in await tx.dicts(queries.list_procedures, template=template)]
    made = await tx.dicts(
        queries.copy_procedures,
        procedure_ids=found,
        copy_ids=[new_id() for _ in found],
        agent_id=agent_id,
        now=now,
    )
    return len(made)
