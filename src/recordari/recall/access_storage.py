"""The queries of use: how often items were recalled, and who saw them last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from recordari.core.identity import Owner
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.recall.request import ItemUse, SeenBy

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """How often an item was recalled lately, when last, and when by whom."""

    item_id: UUID
    times: int
    last_at: datetime
    seen_by: Mapping[SeenBy, datetime] = field(default_factory=dict)


async def add_counts(tx: Transaction, counts: Sequence[Accesses]) -> None:
    await tx.run(
        queries.add_counts,
        item_ids=[count.item_id for count in counts],
        times=[count.times for count in counts],
        last_ats=[count.last_at for count in counts],
    )
    seen = [(count.item_id, by, at) for count in counts for by, at in count.seen_by.items()]
    if seen:
        await tx.run(
            queries.note_uses,
            item_ids=[item_id for item_id, _, _ in seen],
            last_ats=[at for _, _, at in seen],
            owners=[by.owned_by for _, by, _ in seen],
            agents=[by.agent_id for _, by, _ in seen],
            sessions=[by.session_id for _, by, _ in seen],
            vias=[by.via for _, by, _ in seen],
        )


async def list_uses(tx: Transaction, item_id: UUID, *, owner: Owner | None) -> list[ItemUse]:
    return await tx.all(queries.list_uses, ItemUse, item_id=item_id, owned_by=owner)
