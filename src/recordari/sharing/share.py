"""Sharing with other tenants of one organisation: give, withdraw, accept, decline, and keep copies in step (S7).

A copy stands in the receiver's own rows, because then one rule holds for every table: row-level security shows a tenant its
own rows and no others. A policy that lets one tenant read another's would have to be right in every query for ever; a copy
has only to be written and taken away, and both are done here. Giver and receiver change in one transaction
(`Transaction.crossed`), so that there is no moment in which a memory is withdrawn on one side and stands on the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from recordari.tenants.tenants import MAX_PAGE, get_agent, get_tenant, require_admin

log = get_log(__name__)

SHARE_TOPIC = "share"
MOST_AT_ONCE = 100
NO_SUCH_TENANT = "there is no such tenant in your organisation"
NO_SUCH_SHARE = "this memory is not shared"
NO_SUCH_LINK = "no tenant of that name shares with you"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What became of one memory given to one tenant."""

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
        found = await storage.find_membership(tx)
    if found is None:
        raise NotFound("this tenant belongs to no organisation; an operator adds it with `recordari org add`")
    return found


async def share(
    resources: Resources, identity: Identity, item_ids: Sequence[UUID], tenants: Sequence[str]
) -> list[Shared]:
    """Give memories to tenants of the same organisation; each arrives once its receiver has accepted."""
    require_admin(identity)
    if not item_ids or not tenants:
        raise InvalidInput("name at least one memory and one tenant")
    if len(item_ids) * len(tenants) > MOST_AT_ONCE:
        raise InvalidInput(f"at most {MOST_AT_ONCE} memories times tenants at a time; send the rest in another call")
    await get_organisation(resources, identity)
    owner = await get_tenant(resources, identity)
    wanted = sorted(set(item_ids))
    fresh: set[tuple[UUID, str]] = set()
    # One tenant after the other, in the same order for all, so that no two givers wait for each other.
    for name in sorted(set(tenants), key=lambda one: str(tenant_id_of(one))):
        made = await _give(resources, identity, owner, wanted, name)
        fresh |= {(item_id, name) for item_id in made}
    answers = []
    for name in dict.fromkeys(tenants):
        for item_id in wanted:
            delivered = await _deliver(resources, identity, owner, item_id, tenant_id_of(name))
            answers.append(Shared(item_id=item_id, tenant=name, was_new=(item_id, name) in fresh, delivered=delivered))
    return answers


async def _give(
    resources: Resources, identity: Identity, owner: Tenant, item_ids: Sequence[UUID], name: str
) -> list[UUID]:
    """Note what is given to a tenant, and offer it there; which of it is new."""
    to = tenant_id_of(name)
    if to == owner.tenant_id:
        raise InvalidInput("a tenant cannot share with itself", field="tenants")
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        _check_shareable(item_ids, await storage.find_shareable(tx, item_ids))
        ours = await storage.find_membership(tx)
        made = await storage.insert_shares(tx, item_ids, to_tenant_id=to, to_name=name, now=now)
        for item_id in made:
            await audit.record(tx, "share.give", "item", item_id, tenant=name)
        await outbox.add(tx, SHARE_TOPIC, made)
        async with tx.crossed(_acting_for(owner, to)) as there:
            theirs = await storage.find_membership(there)
            # The same answer whether the tenant is missing, in no organisation or in another.
            if ours is None or theirs is None or theirs.organisation != ours.organisation:
                raise NotFound(NO_SUCH_TENANT)
            if await storage.offer_link(there, from_tenant_id=owner.tenant_id, from_name=owner.name, now=now):
                await audit.record(there, "share.offer", "tenant", owner.tenant_id, tenant=owner.name)
    return made


def _check_shareable(item_ids: Sequence[UUID], found: Sequence[Given]) -> None:
    known = {one.item_id: one for one in found}
    for item_id in item_ids:
        one = known.get(item_id)
        if one is None:
            raise NotFound("there is no such item")
        if one.shared_from is not None:
            raise InvalidInput("this memory is itself shared by another tenant; only its owner gives it on")
        if Kind(one.kind) not in SHAREABLE:
            raise InvalidInput(f"only {', '.join(sorted(SHAREABLE))} can be shared, never what was said")
        if not one.live:
            raise Conflict("this memory has ended; share its successor")
        if one.payload_key is not None:
            raise InvalidInput("a memory of more than 16 KiB cannot be shared; share its parts")


def _acting_for(owner: Tenant, other: TenantId) -> Identity:
    """Who acts in the other tenant: its audit names the tenant that did it."""
    return Identity(tenant_id=other, role=Role.ADMIN, actor=f"tenant:{owner.name}")


async def _deliver(resources: Resources, identity: Identity, owner: Tenant, item_id: UUID, to: TenantId) -> bool:
    """Bring a receiver's copy in step with the item: write it, write it anew, or take it away; whether it is there.

    What is read here is checked again under locks: an item that is forgotten, withdrawn or left meanwhile is not written.
    """
    async with resources.database.transaction(identity) as tx:
        seen = {one.item_id: one for one in await storage.find_shareable(tx, [item_id])}.get(item_id)
    view = await resources.get(TenantViews).get(resources.database, _acting_for(owner, to))
    (indexed,) = await derive(resources, [(seen.content, seen.speaker) if seen else ("", None)], language=view.language)
    try:
        async with resources.database.transaction(identity) as tx:
            ours = await storage.find_membership(tx)
            given = await storage.lock_shared(tx, item_id, to)
            if given is not None and given.live and (seen is None or seen.content_hash != given.content_hash):
                raise Conflict("the memory changed while it was shared; try again")
            async with tx.crossed(_acting_for(owner, to)) as there:
                delivered, changed = await _placed(resources, there, owner, ours, item_id, given, indexed)
    except InvalidInput:
        # The receiver guards a document that the text repeats. Which one is not for the giver to know.
        log.warning("share_not_delivered", item_id=item_id)
        return False
    if changed:
        resources.forget_tenant(to)
        resources.wake(EMBED_TOPIC)
    return delivered


async def _placed(
    resources: Resources,
    there: Transaction,
    owner: Tenant,
    ours: Membership | None,
    item_id: UUID,
    given: Given | None,
    indexed: Indexed,
) -> tuple[bool, bool]:
    """Whether the copy is there now, and whether that changed anything; inside the receiver."""
    theirs = await storage.find_membership(there)
    is_open = await storage.link_status(there, owner.tenant_id) is LinkStatus.ACCEPTED
    together = ours is not None and theirs is not None and ours.organisation == theirs.organisation
    known = await storage.copy_hashes(there, owner.name, [item_id])
    if given is None or not given.live or not is_open or not together:
        return False, bool(await _remove(there, owner.name, [item_id], reason="ended"))
    if known.get(item_id) == given.content_hash:
        return True, False
    await storage.delete_copies(there, owner.name, [item_id])
    copy_id = await storage.insert_copy(
        there, given, indexed, owner=owner.tenant_id, owner_name=owner.name, now=resources.clock()
    )
    if copy_id is None:
        return False, True
    await outbox.add(there, EMBED_TOPIC, [copy_id])
    await audit.record(there, "share.receive", "item", copy_id, tenant=owner.name)
    return True, True


async def _remove(there: Transaction, shared_from: str, item_ids: Sequence[UUID], *, reason: str) -> list[UUID]:
    """Take copies away inside the receiver, with a line of its audit for each."""
    removed = await storage.delete_copies(there, shared_from, item_ids)
    for item_id in removed:
        await audit.record(there, "share.remove", "item", item_id, reason=reason, tenant=shared_from)
    return removed


async def list_shares(
    resources: Resources, identity: Identity, *, before: tuple[UUID, UUID] | None = None, limit: int = 50
) -> list[Share]:
    """What the tenant shares and with whom, newest items first; `before` are the ids of the last one seen."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_shares(tx, before=before, limit=min(limit, MAX_PAGE))


async def withdraw(resources: Resources, identity: Identity, item_id: UUID, *, tenant: str | None = None) -> int:
    """Take a memory back, from one tenant or from all: gone there when this returns. From how many it was taken."""
    require_admin(identity)
    owner = await get_tenant(resources, identity)
    async with resources.database.transaction(identity) as tx:
        to = tenant_id_of(tenant) if tenant is not None else None
        ended = await storage.delete_shares(tx, [item_id], to_tenant_id=to)
        if not ended:
            raise NotFound(NO_SUCH_SHARE)
        await _take_away(tx, owner, ended, reason="withdrawn")
        for one in ended:
            await audit.record(tx, "share.withdraw", "item", item_id, tenant=one.tenant)
    return len(ended)


async def revoke_shares(tx: Transaction, item_ids: Sequence[UUID]) -> None:
    """End every share of items that are forgotten, with the copies, in the transaction of the forgetting."""
    ended = await storage.delete_shares(tx, item_ids)
    owner = await tenants_storage.find_tenant(tx) if ended else None
    if owner is not None:
        await _take_away(tx, owner, ended, reason="forgotten")


async def _take_away(tx: Transaction, owner: Tenant, ended: Sequence[Share], *, reason: str) -> None:
    ordered = sorted(ended, key=lambda one: (str(one.to_tenant_id), one.item_id))
    for to, group in groupby(ordered, key=lambda one: one.to_tenant_id):
        async with tx.crossed(_acting_for(owner, to)) as there:
            await _remove(there, owner.name, [one.item_id for one in group], reason=reason)


async def list_share_links(resources: Resources, identity: Identity) -> list[ShareLink]:
    """Which tenants share with this one, and how it stands to each."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_links(tx)


async def accept_share_link(resources: Resources, identity: Identity, tenant: str) -> ShareLink:
    """Let what a tenant shares arrive, from now on and what it has shared so far."""
    require_admin(identity)
    me = await get_tenant(resources, identity)
    async with resources.database.transaction(identity) as tx:
        giver = await storage.decide_link(tx, tenant, LinkStatus.ACCEPTED, now=resources.clock())
        if giver is None:
            raise NotFound(NO_SUCH_LINK)
        await audit.record(tx, "share.accept", "tenant", giver, tenant=tenant)
        async with tx.crossed(_acting_for(me, giver)) as there:
            given = await storage.shares_with(there, me.tenant_id)
            await outbox.add(there, SHARE_TOPIC, given)
            await audit.record(there, "share.accepted", "tenant", me.tenant_id, tenant=me.name)
    owner = await get_tenant(resources, _acting_for(me, giver))
    for item_id in given[:MOST_AT_ONCE]:  # the rest by the worker, whose entries are committed
        await _deliver(resources, _acting_for(me, giver), owner, item_id, me.tenant_id)
    resources.wake(SHARE_TOPIC)
    return await _link(resources, identity, tenant)


async def decline_share_link(resources: Resources, identity: Identity, tenant: str) -> ShareLink:
    """Take nothing from a tenant, or nothing any more: what came from it is gone when this returns."""
    require_admin(identity)
    me = await get_tenant(resources, identity)
    async with resources.database.transaction(identity) as tx:
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
    found = next((link for link in await list_share_links(resources, identity) if link.tenant == tenant), None)
    if found is None:  # it ended meanwhile
        raise NotFound(NO_SUCH_LINK)
    return found


async def sync_copies(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Bring the copies of items in step that were shared, changed or ended. A job of the outbox."""
    owner = await get_tenant(resources, identity)
    async with resources.database.transaction(identity) as tx:
        given = await storage.shares_of(tx, list(dict.fromkeys(batch.refs)))
    for one in given:
        await _deliver(resources, identity, owner, one.item_id, one.to_tenant_id)


async def reconcile(resources: Resources, identity: Identity, **_: Any) -> None:
    """Take away copies that nobody shares any more, and bring the tenant's own shares in step. A daily job.

    In the ordinary course there are none: this makes good what a restored backup brought back on one side only.
    """
    require_admin(identity)
    me = await get_tenant(resources, identity)
    async with resources.database.transaction(identity) as tx:
        for link in await storage.list_links(tx):
            copies = await storage.list_copies(tx, link.tenant)
            async with tx.crossed(_acting_for(me, link.from_tenant_id)) as there:
                stand = await storage.still_shared(there, copies, me.tenant_id)
            await _remove(tx, link.tenant, sorted(set(copies) - stand), reason="not shared")
        waiting: Mapping[UUID, None] = {
            item_id: None for to in await storage.receivers(tx) for item_id in await storage.shares_with(tx, to)
        }
        await outbox.add(tx, SHARE_TOPIC, list(waiting))
    resources.wake(SHARE_TOPIC)


def _operator(name: str) -> Identity:
    return Identity(tenant_id=tenant_id_of(name), role=Role.ADMIN, actor="operator")


async def add_member(resources: Resources, organisation: str, tenant: str) -> Membership:
    """Put a tenant into an organisation; it can then share with the others in it. It belongs to one at most."""
    organisation = checked_id("organisation", organisation)
    who = _operator(tenant)
    await get_tenant(resources, who)
    async with resources.database.transaction(who) as tx:
        if await storage.insert_membership(tx, organisation, now=resources.clock()):
            await audit.record(tx, "organisation.join", "tenant", who.tenant_id, organisation=organisation)
        found = await storage.find_membership(tx)
    assert found is not None
    if found.organisation != organisation:
        raise Conflict(f"the tenant belongs to {found.organisation!r}; take it out of that one first")
    return found


async def remove_member(resources: Resources, tenant: str) -> None:
    """Take a tenant out of its organisation: at once nothing shared by it or with it is left anywhere."""
    who = _operator(tenant)
    me = await get_tenant(resources, who)
    async with resources.database.transaction(who) as tx:
        found = await storage.find_membership(tx)
        if found is None:
            raise NotFound("the tenant belongs to no organisation")
        links = await storage.list_links(tx)
        # Givers' rows first, as in every delivery: so they never wait for each other.
        for link in links:
            await _end_giving(tx, me, link)
        await storage.delete_membership(tx)
        for link in links:
            await storage.delete_copies(tx, link.tenant, await storage.list_copies(tx, link.tenant))
            await storage.delete_link(tx, link.from_tenant_id)
        await _end_given(tx, me)
        await audit.record(tx, "organisation.leave", "tenant", me.tenant_id, organisation=found.organisation)
    resources.forget_tenant(me.tenant_id)


async def _end_giving(tx: Transaction, me: Tenant, link: ShareLink) -> None:
    """Let another tenant give nothing to the one that leaves."""
    other = Identity(tenant_id=link.from_tenant_id, role=Role.ADMIN, actor="operator")
    async with tx.crossed(other) as there:
        ended = await storage.delete_shares_with(there, me.tenant_id)
        await audit.record(there, "share.end", "tenant", me.tenant_id, tenant=me.name, items=ended)


async def _end_given(tx: Transaction, me: Tenant) -> None:
    """Take away what the one that leaves gave to others."""
    for to in await storage.receivers(tx):
        await storage.delete_shares_with(tx, to)
        async with tx.crossed(Identity(tenant_id=to, role=Role.ADMIN, actor="operator")) as there:
            removed = await storage.delete_copies(there, me.name, await storage.list_copies(there, me.name))
            await storage.delete_link(there, me.tenant_id)
            await audit.record(there, "share.end", "tenant", me.tenant_id, tenant=me.name, items=len(removed))


async def list_members(owner_dsn: str) -> list[Member]:
    """The tenants of every organisation, for an operator who holds the owner's connection."""
    return await storage.list_members(owner_dsn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """How much was copied; what the agent had already is not counted."""

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
    """Create or replace a definition; with a template, it gets those memories of it that it does not have."""
    if template is not None:
        await get_agent(resources, identity, template)
    agent = await tenants.save_agent(resources, identity, agent_id, definition, expected_version=expected_version)
    if template is not None:  # not only the first time: the call may come again after a crash
        await copy_memories(resources, identity, template, agent_id)
    return agent


async def copy_memories(resources: Resources, identity: Identity, template: str, agent_id: str) -> Copied:
    """Give an agent what another one knows for good: facts, procedures, and workflows with their posteriors.

    Copies rest on their originals, so that whatever is forgotten there is forgotten here. Nothing is embedded again. Done
    again, only what is new to the agent is copied.
    """
    require_admin(identity)
    if template == agent_id:
        raise InvalidInput("an agent cannot be its own template", field="template")
    await get_agent(resources, identity, template)
    await get_agent(resources, identity, agent_id)
    source, target = AgentId(template), AgentId(checked_id("agent_id", agent_id))
    async with resources.database.transaction(identity) as tx:
        found = await storage.list_to_copy(tx, source)
        refs = [_copied_ref(one, source, target) for one in found]
        copies, waiting = await storage.copy_items(tx, found, refs, template=source, agent_id=target)
        workflows = await storage.copy_workflows(tx, source, target, now=resources.clock())
        await outbox.add(tx, EMBED_TOPIC, waiting)
        await audit.record(
            tx, "agent.copy", "agent", agent_id, template=template, items=len(copies), workflows=workflows
        )
    if waiting:
        resources.wake(EMBED_TOPIC)
    return Copied(items=len(copies), workflows=workflows)


def _copied_ref(one: ToCopy, template: AgentId, agent_id: AgentId) -> str:
    """The reference of a copy: the one that the agent would give the same words, so that stating them finds it."""
    for kind in ("fact", "pattern"):
        prefix = f"{kind}:agent:{template}:"
        if one.source_ref.startswith(prefix):
            return f"{kind}:agent:{agent_id}:{one.source_ref.removeprefix(prefix)}"
    return f"copy:{agent_id}:{one.item_id}"
