"""Shares memories between tenants of an organisation: share, withdraw, accept, decline, and keep copies up to date (S7).

A copy is in the receiver's own rows, because then one rule holds for every table: row-level security shows a tenant its own
rows and no others. A policy that lets one tenant read another's rows would have to be right in every query for ever; a copy
only has to be written and deleted, and both happen here. Owner and receiver change in one transaction
(`Transaction.crossed`), so that a memory is never withdrawn on one side and visible on the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import AgentId, Identity, Role, TenantId, checked_id, tenant_id_of
from recordari.core.items import Kind
from recordari.core.telemetry import get_log
from recordari.db import audit, outbox
from recordari.db.database import Transaction
from recordari.db.outbox import Batch
from recordari.db.pipeline import TENANT_ROLE
from recordari.errors import Conflict, InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.memory.index import EMBED_TOPIC, derive
from recordari.memory.rules import Indexed
from recordari.memory.tenant_view import TenantViews
from recordari.sharing import storage
from recordari.sharing.rules import SHAREABLE, LinkStatus, Member, Membership, Share, ShareLink
from recordari.sharing.storage import Given, ToCopy
from recordari.tenants import storage as tenants_storage
from recordari.tenants import tenants
from recordari.tenants.rules import Agent, AgentDefinition, Tenant
from recordari.tenants.tenants import get_agent, get_tenant, page_size, require_admin

log = get_log(__name__)

SHARE_TOPIC = "share"
MOST_AT_ONCE = 100
NO_SUCH_TENANT = "there is no such tenant in your organisation"
NO_SUCH_SHARE = "this memory is not shared"
NO_SUCH_LINK = "no tenant of that name shares with you"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The result of sharing one memory with one tenant."""

    __pydantic_config__ = DESCRIBED

    item_id: UUID
    tenant: str
    was_new: bool
    """False: it was shared with that tenant already."""
    delivered: bool
    """False: the receiver has not accepted yet, or cannot take it."""


async def get_organisation(resources: Resources, identity: Identity) -> Membership:
    """The organisation that the tenant belongs to."""
    async with resources.database.transaction(identity) as tx:
        membership = await storage.find_membership(tx)
    if membership is None:
        raise NotFound("this tenant belongs to no organisation; an operator adds it with `recordari org add`")
    return membership


async def share(
    resources: Resources, identity: Identity, item_ids: Sequence[UUID], tenants: Sequence[str]
) -> list[Shared]:
    """Share memories with tenants of the same organisation; each arrives once its receiver has accepted."""
    require_admin(identity)
    if not item_ids or not tenants:
        raise InvalidInput("name at least one memory and one tenant")
    if len(item_ids) * len(tenants) > MOST_AT_ONCE:
        raise InvalidInput(f"at most {MOST_AT_ONCE} memories times tenants at a time; send the rest in another call")
    await get_organisation(resources, identity)
    owner = await get_tenant(resources, identity)
    ordered = sorted(set(item_ids))
    new: dict[str, list[UUID]] = {}
    # All owners take the tenants in the same order, so that no two of them wait for each other.
    for name in sorted(set(tenants), key=lambda name: str(tenant_id_of(name))):
        new[name] = await _offer(resources, identity, owner, ordered, name)
    return [
        Shared(
            item_id=item_id,
            tenant=name,
            was_new=item_id in new[name],
            delivered=await _deliver(resources, identity, owner, item_id, tenant_id_of(name)),
        )
        for name in dict.fromkeys(tenants)
        for item_id in ordered
    ]


async def _offer(
    resources: Resources, identity: Identity, owner: Tenant, item_ids: Sequence[UUID], name: str
) -> list[UUID]:
    """Insert the shares with a tenant, and offer them there; returns the ids of the new ones."""
    to = tenant_id_of(name)
    if to == owner.tenant_id:
        raise InvalidInput("a tenant cannot share with itself", field="tenants")
    now = resources.clock()
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        _check_shareable(item_ids, await storage.find_shareable(tx, item_ids))
        ours = await storage.find_membership(tx)
        new_ids = await storage.insert_shares(tx, item_ids, to_tenant_id=to, to_name=name, now=now)
        for item_id in new_ids:
            await audit.record(tx, "share.give", "item", item_id, tenant=name)
        await outbox.add(tx, SHARE_TOPIC, new_ids)
        async with tx.crossed(_acting_for(owner, to)) as there:
            theirs = await storage.find_membership(there)
            # The same answer whether the tenant is missing, in no organisation or in another.
            if ours is None or theirs is None or theirs.organisation != ours.organisation:
                raise NotFound(NO_SUCH_TENANT)
            if await storage.offer_link(there, from_tenant_id=owner.tenant_id, from_name=owner.name, now=now):
                await audit.record(there, "share.offer", "tenant", owner.tenant_id, tenant=owner.name)
    return new_ids


def _check_shareable(item_ids: Sequence[UUID], items: Sequence[Given]) -> None:
    by_id = {item.item_id: item for item in items}
    for item_id in item_ids:
        item = by_id.get(item_id)
        if item is None:
            raise NotFound("there is no such item")
        if item.shared_from is not None:
            raise InvalidInput("this memory is itself shared by another tenant; only its owner can share it")
        if Kind(item.kind) not in SHAREABLE:
            raise InvalidInput(f"only {', '.join(sorted(SHAREABLE))} can be shared, never messages")
        if not item.live:
            raise Conflict("this memory has ended; share its successor")
        if item.payload_key is not None:
            raise InvalidInput("a memory of more than 16 KiB cannot be shared; share its parts")


def _acting_for(owner: Tenant, other: TenantId) -> Identity:
    """The identity in the other tenant, whose audit then names the tenant that acted."""
    return Identity(tenant_id=other, role=Role.ADMIN, actor=f"tenant:{owner.name}")


async def _deliver(resources: Resources, identity: Identity, owner: Tenant, item_id: UUID, to: TenantId) -> bool:
    """Update a receiver's copy: write it, write it again, or delete it; returns whether the copy exists.

    The item is read again under locks: one that was forgotten or withdrawn meanwhile is not written.
    """
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        seen = next(iter(await storage.find_shareable(tx, [item_id])), None)
    view = await resources.get(TenantViews).get(resources.database, _acting_for(owner, to))
    (indexed,) = await derive(resources, [(seen.content, seen.speaker) if seen else ("", None)], language=view.language)
    try:
        async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
            ours = await storage.find_membership(tx)
            item = await storage.lock_shared(tx, item_id, to)
            if item is not None and item.live and (seen is None or seen.content_hash != item.content_hash):
                raise Conflict("the memory changed while it was shared; try again")
            async with tx.crossed(_acting_for(owner, to)) as there:
                delivered, changed = await _write_copy(resources, there, owner, ours, item_id, item, indexed)
    except InvalidInput:
        # The text repeats a document that the receiver protects. The owner must not learn which one.
        log.warning("share_not_delivered", item_id=item_id)
        return False
    if changed:
        resources.forget_tenant(to)
        resources.wake(EMBED_TOPIC)
    return delivered


async def _write_copy(
    resources: Resources,
    there: Transaction,
    owner: Tenant,
    ours: Membership | None,
    item_id: UUID,
    item: Given | None,
    indexed: Indexed,
) -> tuple[bool, bool]:
    """Write or delete the copy in the receiver; returns whether it exists now, and whether anything changed."""
    theirs = await storage.find_membership(there)
    is_open = await storage.link_status(there, owner.tenant_id) is LinkStatus.ACCEPTED
    together = ours is not None and theirs is not None and ours.organisation == theirs.organisation
    hashes = await storage.copy_hashes(there, owner.name, [item_id])
    if item is None or not item.live or not is_open or not together:
        return False, bool(await _remove(there, owner.name, [item_id], reason="ended"))
    if hashes.get(item_id) == item.content_hash:
        return True, False
    await storage.delete_copies(there, owner.name, [item_id])
    copy_id = await storage.insert_copy(
        there, item, indexed, owner=owner.tenant_id, owner_name=owner.name, now=resources.clock()
    )
    if copy_id is None:
        return False, True
    await outbox.add(there, EMBED_TOPIC, [copy_id])
    await audit.record(there, "share.receive", "item", copy_id, tenant=owner.name)
    return True, True


async def _remove(there: Transaction, shared_from: str, item_ids: Sequence[UUID], *, reason: str) -> list[UUID]:
    removed = await storage.delete_copies(there, shared_from, item_ids)
    for item_id in removed:
        await audit.record(there, "share.remove", "item", item_id, reason=reason, tenant=shared_from)
    return removed


async def list_shares(
    resources: Resources, identity: Identity, *, before: tuple[UUID, UUID] | None = None, limit: int = 50
) -> list[Share]:
    """The tenant's shares, newest items first; `before` are the ids of the last one you have."""
    require_admin(identity)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        return await storage.list_shares(tx, before=before, limit=page_size(limit))


async def withdraw(resources: Resources, identity: Identity, item_id: UUID, *, tenant: str | None = None) -> int:
    """Withdraw a memory from one tenant or from all, at once; returns the number of tenants that had it."""
    require_admin(identity)
    owner = await get_tenant(resources, identity)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        to = tenant_id_of(tenant) if tenant is not None else None
        ended = await storage.delete_shares(tx, [item_id], to_tenant_id=to)
        if not ended:
            raise NotFound(NO_SUCH_SHARE)
        await _delete_copies(tx, owner, ended, reason="withdrawn")
        for ended_share in ended:
            await audit.record(tx, "share.withdraw", "item", item_id, tenant=ended_share.tenant)
    return len(ended)


async def revoke_shares(tx: Transaction, item_ids: Sequence[UUID]) -> None:
    """End every share of forgotten items and delete the copies, in the transaction that forgets them."""
    ended = await storage.delete_shares(tx, item_ids)
    owner = await tenants_storage.find_tenant(tx) if ended else None
    if owner is not None:
        await _delete_copies(tx, owner, ended, reason="forgotten")


async def _delete_copies(tx: Transaction, owner: Tenant, shares: Sequence[Share], *, reason: str) -> None:
    ordered = sorted(shares, key=lambda share: (str(share.to_tenant_id), share.item_id))
    for to, group in groupby(ordered, key=lambda share: share.to_tenant_id):
        async with tx.crossed(_acting_for(owner, to)) as there:
            await _remove(there, owner.name, [share.item_id for share in group], reason=reason)


async def list_share_links(resources: Resources, identity: Identity) -> list[ShareLink]:
    """The tenants that share with this one, and whether it accepted each."""
    require_admin(identity)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        return await storage.list_links(tx)


async def accept_share_link(resources: Resources, identity: Identity, tenant: str) -> ShareLink:
    """Accept the memories that a tenant shares, those so far and all later ones."""
    require_admin(identity)
    me = await get_tenant(resources, identity)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        giver = await storage.decide_link(tx, tenant, LinkStatus.ACCEPTED, now=resources.clock())
        if giver is None:
            raise NotFound(NO_SUCH_LINK)
        await audit.record(tx, "share.accept", "tenant", giver, tenant=tenant)
        async with tx.crossed(_acting_for(me, giver)) as there:
            item_ids = await storage.shares_with(there, me.tenant_id)
            await outbox.add(there, SHARE_TOPIC, item_ids)
            await audit.record(there, "share.accepted", "tenant", me.tenant_id, tenant=me.name)
    owner = await get_tenant(resources, _acting_for(me, giver))
    for item_id in item_ids[:MOST_AT_ONCE]:  # a worker delivers the rest
        await _deliver(resources, _acting_for(me, giver), owner, item_id, me.tenant_id)
    resources.wake(SHARE_TOPIC)
    return await _link(resources, identity, tenant)


async def decline_share_link(resources: Resources, identity: Identity, tenant: str) -> ShareLink:
    """Decline a tenant's shares; copies that came from it are deleted at once."""
    require_admin(identity)
    me = await get_tenant(resources, identity)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        giver = await storage.decide_link(tx, tenant, LinkStatus.DECLINED, now=resources.clock())
        if giver is None:
            raise NotFound(NO_SUCH_LINK)
        await _remove(tx, tenant, await storage.list_copies(tx, tenant), reason="declined")
        await audit.record(tx, "share.decline", "tenant", giver, tenant=tenant)
        async with tx.crossed(_acting_for(me, giver)) as there:
            await audit.record(there, "share.declined", "tenant", me.tenant_id, tenant=me.name)
    resources.forget_tenant(identity.tenant_id)
    return await _link(resources, identity, tenant)


async def _link(resources: Resources, identity: Identity, tenant: str) -> ShareLink:
    for link in await list_share_links(resources, identity):
        if link.tenant == tenant:
            return link
    raise NotFound(NO_SUCH_LINK)  # it ended meanwhile


async def sync_copies(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Update the copies of items that were shared, changed or ended. A job of the outbox."""
    owner = await get_tenant(resources, identity)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        shares = await storage.shares_of(tx, list(dict.fromkeys(batch.refs)))
    for each in shares:
        await _deliver(resources, identity, owner, each.item_id, each.to_tenant_id)


async def reconcile(resources: Resources, identity: Identity, **_: Any) -> None:
    """Delete copies that are no longer shared, and update the copies of the tenant's own shares. A daily job.

    Usually there is nothing to do: it repairs what a restored backup brought back on one side only.
    """
    require_admin(identity)
    me = await get_tenant(resources, identity)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        for link in await storage.list_links(tx):
            copies = await storage.list_copies(tx, link.tenant)
            async with tx.crossed(_acting_for(me, link.from_tenant_id)) as there:
                shared = await storage.still_shared(there, copies, me.tenant_id)
            await _remove(tx, link.tenant, sorted(set(copies) - shared), reason="not shared")
        item_ids = [item_id for to in await storage.receivers(tx) for item_id in await storage.shares_with(tx, to)]
        await outbox.add(tx, SHARE_TOPIC, list(dict.fromkeys(item_ids)))
    resources.wake(SHARE_TOPIC)


def _operator(tenant_id: TenantId) -> Identity:
    return Identity(tenant_id=tenant_id, role=Role.ADMIN, actor="operator")


async def add_member(resources: Resources, organisation: str, tenant: str) -> Membership:
    """Add a tenant to an organisation, so that it can share with the others in it. It belongs to one at most."""
    organisation = checked_id("organisation", organisation)
    operator = _operator(tenant_id_of(tenant))
    await get_tenant(resources, operator)
    async with resources.database.transaction(operator) as tx:
        if await storage.insert_membership(tx, organisation, now=resources.clock()):
            await audit.record(tx, "organisation.join", "tenant", operator.tenant_id, organisation=organisation)
        membership = await storage.find_membership(tx)
    assert membership is not None
    if membership.organisation != organisation:
        raise Conflict(f"the tenant belongs to {membership.organisation!r}; take it out of that one first")
    return membership


async def remove_member(resources: Resources, tenant: str) -> None:
    """Remove a tenant from its organisation, with every share and copy that it gave or received."""
    operator = _operator(tenant_id_of(tenant))
    me = await get_tenant(resources, operator)
    async with resources.database.transaction(operator) as tx:
        membership = await storage.find_membership(tx)
        if membership is None:
            raise NotFound("the tenant belongs to no organisation")
        links = await storage.list_links(tx)
        # Owners' rows first, as in every delivery, so that no two transactions wait for each other.
        for link in links:
            async with tx.crossed(_operator(link.from_tenant_id)) as there:
                ended = await storage.delete_shares_with(there, me.tenant_id)
                await audit.record(there, "share.end", "tenant", me.tenant_id, tenant=me.name, items=ended)
        await storage.delete_membership(tx)
        for link in links:
            await storage.delete_copies(tx, link.tenant, await storage.list_copies(tx, link.tenant))
            await storage.delete_link(tx, link.from_tenant_id)
        await _end_shares(tx, me)
        await audit.record(tx, "organisation.leave", "tenant", me.tenant_id, organisation=membership.organisation)
    resources.forget_tenant(me.tenant_id)


async def _end_shares(tx: Transaction, me: Tenant) -> None:
    """End the shares of the tenant that leaves, with their copies."""
    for to in await storage.receivers(tx):
        await storage.delete_shares_with(tx, to)
        async with tx.crossed(_operator(to)) as there:
            removed = await storage.delete_copies(there, me.name, await storage.list_copies(there, me.name))
            await storage.delete_link(there, me.tenant_id)
            await audit.record(there, "share.end", "tenant", me.tenant_id, tenant=me.name, items=len(removed))


async def list_members(owner_dsn: str) -> list[Member]:
    """The tenants of every organisation, for an operator with the database owner's DSN."""
    return await storage.list_members(owner_dsn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    items: int
    workflows: int


async def save_agent(
    resources: Resources,
    identity: Identity,
    agent_id: str,
    definition: AgentDefinition,
    *,
    expected_version: int | None = None,
    template: str | None = None,
) -> Agent:
    """Create or replace a definition; with a template, the agent gets copies of its persistent memories."""
    if template is not None:
        await get_agent(resources, identity, template)
    agent = await tenants.save_agent(resources, identity, agent_id, definition, expected_version=expected_version)
    if template is not None:  # not only the first time: the call may come again after a crash
        await copy_memories(resources, identity, template, agent_id)
    return agent


async def copy_memories(resources: Resources, identity: Identity, template: str, agent_id: str) -> Copied:
    """Copy a template's persistent memories to an agent: facts, procedures, and workflows with their posteriors.

    A copy is derived from its original: if that is forgotten, so is the copy. Vectors are copied too. A second call
    copies only what is new to the agent.
    """
    require_admin(identity)
    if template == agent_id:
        raise InvalidInput("an agent cannot be its own template", field="template")
    await get_agent(resources, identity, template)
    await get_agent(resources, identity, agent_id)
    source, target = AgentId(template), AgentId(checked_id("agent_id", agent_id))
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        originals = await storage.list_to_copy(tx, source)
        refs = [_reference_of_copy(item, source, target) for item in originals]
        copies, not_embedded = await storage.copy_items(tx, originals, refs, template=source, agent_id=target)
        workflows = await storage.copy_workflows(tx, source, target, now=resources.clock())
        await outbox.add(tx, EMBED_TOPIC, not_embedded)
        await audit.record(
            tx, "agent.copy", "agent", agent_id, template=template, items=len(copies), workflows=workflows
        )
    if not_embedded:
        resources.wake(EMBED_TOPIC)
    return Copied(items=len(copies), workflows=workflows)


def _reference_of_copy(item: ToCopy, template: AgentId, agent_id: AgentId) -> str:
    """The reference that the agent itself would use for the same words, so that stating them again finds the copy."""
    for kind in ("fact", "pattern"):
        prefix = f"{kind}:agent:{template}:"
        if item.source_ref.startswith(prefix):
            return f"{kind}:agent:{agent_id}:{item.source_ref.removeprefix(prefix)}"
    return f"copy:{agent_id}:{item.item_id}"
