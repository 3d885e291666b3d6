"""Rows of sharing: memberships of organisations, shares, links between tenants, copies; and agents copied from a template."""

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
from recordari.sharing.rules import RECEIVED_TRUST, LinkStatus, Member, Membership, Share, ShareLink

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given(Item):
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
    """A shared item, locked with its share; None if it is not shared with the tenant, or forgotten.

    The item is locked before its share, in the same order as forgetting locks them, so that no deadlock is possible.
    """
    item = await tx.maybe(queries.lock_given, Given, item_id=item_id)
    is_shared = await tx.value(queries.lock_share, item_id=item_id, to_tenant_id=to_tenant_id)
    return item if is_shared else None


async def still_shared(tx: Transaction, item_ids: Sequence[UUID], to_tenant_id: TenantId) -> set[UUID]:
    rows = await tx.dicts(queries.still_shared, item_ids=list(item_ids), to_tenant_id=to_tenant_id)
    return {row["item_id"] for row in rows}


async def offer_link(tx: Transaction, *, from_tenant_id: TenantId, from_name: str, now: datetime) -> bool:
    return await tx.run(queries.offer_link, from_tenant_id=from_tenant_id, from_name=from_name, now=now) == 1


async def link_status(tx: Transaction, from_tenant_id: TenantId) -> LinkStatus | None:
    status = await tx.value(queries.link_status, from_tenant_id=from_tenant_id)
    return LinkStatus(status) if status is not None else None


async def decide_link(tx: Transaction, from_name: str, status: LinkStatus, *, now: datetime) -> TenantId | None:
    """Accept or decline a tenant's shares; returns its id, None if it never shared."""
    from_tenant_id: TenantId | None = await tx.value(
        queries.decide_link, from_name=from_name, status=str(status), now=now
    )
    return from_tenant_id


async def delete_link(tx: Transaction, from_tenant_id: TenantId) -> None:
    await tx.run(queries.delete_link, from_tenant_id=from_tenant_id)


async def list_links(tx: Transaction) -> list[ShareLink]:
    return await tx.all(queries.list_links, ShareLink)


async def insert_copy(
    tx: Transaction, given: Given, indexed: Indexed, *, owner: TenantId, owner_name: str, now: datetime
) -> UUID | None:
    """Write the copy of an item into the receiver; None if it exists or was forgotten there."""
    item_id = new_id()
    values = {name: getattr(given, name, None) for name in WRITTEN_COLUMNS} | asdict(indexed)
    count = await tx.run(
        queries.insert_copy,
        **values
        | {"item_id": item_id, "kind": str(given.kind), "scope": str(Scope.TENANT), "tier": str(Tier.PERSISTENT)}
        | {"source_ref": f"shared:{owner}:{given.item_id}", "trust": str(RECEIVED_TRUST), "metadata": Jsonb({})}
        | dict.fromkeys(("user_id", "agent_id", "session_id", "run_id", "payload_key")),
        now=now,
        shared_from=owner_name,
        shared_item_id=given.item_id,
    )
    return item_id if count == 1 else None


async def copy_hashes(tx: Transaction, shared_from: str, item_ids: Sequence[UUID]) -> dict[UUID, bytes]:
    rows = await tx.dicts(queries.copy_hashes, shared_from=shared_from, item_ids=list(item_ids))
    return {row["shared_item_id"]: row["content_hash"] for row in rows}


async def list_copies(tx: Transaction, shared_from: str) -> list[UUID]:
    return [row["shared_item_id"] for row in await tx.dicts(queries.list_copies, shared_from=shared_from)]


async def delete_copies(tx: Transaction, shared_from: str, item_ids: Sequence[UUID]) -> list[UUID]:
    """Delete copies with everything derived from them; returns the ids of their originals."""
    if not item_ids:
        return []
    (row,) = await tx.dicts(queries.delete_copies, shared_from=shared_from, item_ids=list(item_ids))
    await tx.run(queries.delete_unnamed, entity_ids=row["entity_ids"])
    deleted: list[UUID] = row["item_ids"]
    return deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class ToCopy:
    item_id: UUID
    kind: str
    source_ref: str


async def list_to_copy(tx: Transaction, template: AgentId) -> list[ToCopy]:
    return await tx.all(queries.list_to_copy, ToCopy, template=template)


async def copy_items(
    tx: Transaction, originals: Sequence[ToCopy], source_refs: Sequence[str], *, template: AgentId, agent_id: AgentId
) -> tuple[list[UUID], list[UUID]]:
    """Copy items with everything derived from them; returns the new ids, and those of them that have no vector yet."""
    pairs = {new_id(): item.item_id for item in originals}
    rows = await tx.dicts(
        queries.copy_items,
        item_ids=list(pairs.values()),
        copy_ids=list(pairs),
        source_refs=list(source_refs),
        template=template,
        agent_id=agent_id,
    )
    copy_ids = [row["item_id"] for row in rows]
    item_ids = [pairs[copy_id] for copy_id in copy_ids]
    for query in (queries.copy_vectors, queries.copy_mentions, queries.link_copies):
        await tx.run(query, item_ids=item_ids, copy_ids=copy_ids)
    not_embedded = await tx.dicts(queries.not_embedded, copy_ids=copy_ids)
    return copy_ids, [row["copy_id"] for row in not_embedded]


async def copy_workflows(tx: Transaction, template: AgentId, agent_id: AgentId, *, now: datetime) -> int:
    workflow_ids = [row["workflow_id"] for row in await tx.dicts(queries.list_workflows, template=template)]
    copy_ids = [new_id() for _ in workflow_ids]
    copies = await tx.dicts(
        queries.copy_workflows, workflow_ids=workflow_ids, copy_ids=copy_ids, agent_id=agent_id, now=now
    )
    return len(copies)


async def list_members(owner_dsn: str) -> list[Member]:
    return await list_as_owner(owner_dsn, queries.list_members, Member)
