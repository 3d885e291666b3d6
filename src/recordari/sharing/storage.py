"""Rows of what tenants of one organisation share: who belongs to it, what is given, what was received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.identity import AgentId, Scope, TenantId
from recordari.core.ids import LAST, new_id
from recordari.core.items import WRITTEN_COLUMNS, Item, Tier
from recordari.db.backup import list_as_owner
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.memory.rules import Indexed
from recordari.sharing.rules import RECEIVED_TRUST, LinkStatus, Member, Membership, Share, ShareLink, copy_ref

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given(Item):
    """An item as it is given away."""

    content_hash: bytes
    live: bool


async def find_membership(tx: Transaction) -> Membership | None:
    return await tx.maybe(queries.find_membership, Membership)


async def insert_membership(tx: Transaction, organisation: str, *, now: datetime) -> bool:
    return await tx.run(queries.insert_membership, organisation=organisation, now=now) == 1


async def delete_membership(tx: Transaction) -> bool:
    return await tx.run(queries.delete_membership) == 1


async def insert_shares(
    tx: Transaction, item_ids: Sequence[UUID], *, to_tenant_id: TenantId, to_name: str, now: datetime
) -> list[UUID]:
    rows = await tx.dicts(
        queries.insert_shares,
        item_ids=list(item_ids),
        to_tenant_id=to_tenant_id,
        to_name=to_name,
        shared_by=tx.identity.actor,
        now=now,
    )
    return [row["item_id"] for row in rows]


async def list_shares(tx: Transaction, *, before: tuple[UUID, UUID] | None, limit: int) -> list[Share]:
    item_id, tenant_id = before or (LAST, LAST)
    return await tx.all(queries.list_shares, Share, before_item=item_id, before_tenant=tenant_id, limit=limit)


async def shares_of(tx: Transaction, item_ids: Sequence[UUID]) -> list[Share]:
    return await tx.all(queries.shares_of, Share, item_ids=list(item_ids))


async def shares_with(tx: Transaction, to_tenant_id: TenantId) -> list[UUID]:
    return [row["item_id"] for row in await tx.dicts(queries.shares_with, to_tenant_id=to_tenant_id)]


async def receivers(tx: Transaction) -> list[TenantId]:
    return [row["to_tenant_id"] for row in await tx.dicts(queries.receivers)]


async def delete_shares(
    tx: Transaction, item_ids: Sequence[UUID], *, to_tenant_id: TenantId | None = None
) -> list[Share]:
    return await tx.all(queries.delete_shares, Share, item_ids=list(item_ids), to_tenant_id=to_tenant_id)


async def delete_shares_with(tx: Transaction, to_tenant_id: TenantId) -> int:
    return await tx.run(queries.delete_shares_with, to_tenant_id=to_tenant_id)


async def find_shareable(tx: Transaction, item_ids: Sequence[UUID]) -> list[Given]:
    return await tx.all(queries.find_shareable, Given, item_ids=list(item_ids))


async def lock_shared(tx: Transaction, item_id: UUID, to_tenant_id: TenantId) -> Given | None:
    """An item that is given to a tenant, locked with the giving of it; None when it is not, or was forgotten.

    First the item and then the giving of it, as whoever forgets does: so they never wait for each other.
    """
    given = await tx.maybe(queries.lock_given, Given, item_id=item_id)
    shared = await tx.value(queries.lock_share, item_id=item_id, to_tenant_id=to_tenant_id)
    return given if shared else None


async def still_shared(tx: Transaction, item_ids: Sequence[UUID], to_tenant_id: TenantId) -> set[UUID]:
    rows = await tx.dicts(queries.still_shared, item_ids=list(item_ids), to_tenant_id=to_tenant_id)
    return {row["item_id"] for row in rows}


async def offer_link(tx: Transaction, *, from_tenant_id: TenantId, from_name: str, now: datetime) -> bool:
    return await tx.run(queries.offer_link, from_tenant_id=from_tenant_id, from_name=from_name, now=now) == 1


async def link_status(tx: Transaction, from_tenant_id: TenantId) -> LinkStatus | None:
    found = await tx.value(queries.link_status, from_tenant_id=from_tenant_id)
    return LinkStatus(found) if found is not None else None


async def decide_link(tx: Transaction, from_name: str, status: LinkStatus, *, now: datetime) -> TenantId | None:
    """Accept or decline what a tenant shares; its id, None when it never shared."""
    found: TenantId | None = await tx.value(queries.decide_link, from_name=from_name, status=str(status), now=now)
    return found


async def delete_link(tx: Transaction, from_tenant_id: TenantId) -> None:
    await tx.run(queries.delete_link, from_tenant_id=from_tenant_id)


async def list_links(tx: Transaction) -> list[ShareLink]:
    rows = await tx.dicts(queries.list_links)
    return [ShareLink(**{**row, "status": LinkStatus(row["status"])}) for row in rows]


async def insert_copy(
    tx: Transaction, given: Given, indexed: Indexed, *, owner: TenantId, owner_name: str, now: datetime
) -> UUID | None:
    """Write the copy of an item into the receiver; None when it is there, or was forgotten there."""
    item_id = new_id()
    values = {name: getattr(given, name, None) for name in WRITTEN_COLUMNS} | asdict(indexed)
    made = await tx.run(
        queries.insert_copy,
        **values
        | {"item_id": item_id, "kind": str(given.kind), "scope": str(Scope.TENANT), "tier": str(Tier.PERSISTENT)}
        | {"source_ref": copy_ref(owner, given.item_id), "trust": str(RECEIVED_TRUST), "metadata": Jsonb({})}
        | dict.fromkeys(("user_id", "agent_id", "session_id", "run_id", "payload_key")),
        now=now,
        shared_from=owner_name,
        shared_item_id=given.item_id,
    )
    return item_id if made == 1 else None


async def copy_hashes(tx: Transaction, shared_from: str, item_ids: Sequence[UUID]) -> dict[UUID, bytes]:
    rows = await tx.dicts(queries.copy_hashes, shared_from=shared_from, item_ids=list(item_ids))
    return {row["shared_item_id"]: row["content_hash"] for row in rows}


async def list_copies(tx: Transaction, shared_from: str) -> list[UUID]:
    return [row["shared_item_id"] for row in await tx.dicts(queries.list_copies, shared_from=shared_from)]


async def delete_copies(tx: Transaction, shared_from: str, item_ids: Sequence[UUID]) -> list[UUID]:
    """Take copies away with everything derived from them; what they were copies of."""
    if not item_ids:
        return []
    (row,) = await tx.dicts(queries.delete_copies, shared_from=shared_from, item_ids=list(item_ids))
    await tx.run(queries.delete_unnamed, entity_ids=row["entity_ids"])
    deleted: list[UUID] = row["item_ids"]
    return deleted


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


async def copy_workflows(tx: Transaction, template: AgentId, agent_id: AgentId, *, now: datetime) -> int:
    found = [row["workflow_id"] for row in await tx.dicts(queries.list_workflows, template=template)]
    made = await tx.dicts(
        queries.copy_workflows,
        workflow_ids=found,
        copy_ids=[new_id() for _ in found],
        agent_id=agent_id,
        now=now,
    )
    return len(made)


async def list_members(owner_dsn: str) -> list[Member]:
    return await list_as_owner(owner_dsn, queries.list_members, Member)
