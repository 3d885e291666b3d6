"""Organisations: which tenants belong together. An operator's verbs; no credential of a tenant reaches them."""

from __future__ import annotations

from recordari.core.identity import Identity, Role, checked_id, tenant_id_of
from recordari.db import audit, backup
from recordari.db.database import Transaction
from recordari.domain.sharing import Member, Membership, ShareLink
from recordari.errors import Conflict, NotFound
from recordari.kit.resources import Resources
from recordari.storage import sharing
from recordari.tenants.rules import Tenant
from recordari.tenants.tenants import get_tenant


def _operator(name: str) -> Identity:
    return Identity(tenant_id=tenant_id_of(name), role=Role.ADMIN, actor="operator")


async def add_member(resources: Resources, organisation: str, tenant: str) -> Membership:
    """Put a tenant into an organisation; it can then share with the others in it. It belongs to one at most."""
    organisation = checked_id("organisation", organisation)
    who = _operator(tenant)
    await get_tenant(resources, who)
    async with resources.database.transaction(who) as tx:
        if await sharing.insert_membership(tx, organisation, now=resources.clock()):
            await audit.record(tx, "organisation.join", "tenant", who.tenant_id, organisation=organisation)
        found = await sharing.find_membership(tx)
    assert found is not None
    if found.organisation != organisation:
        raise Conflict(f"the tenant belongs to {found.organisation!r}; take it out of that one first")
    return found


async def remove_member(resources: Resources, tenant: str) -> None:
    """Take a tenant out of its organisation: at once nothing shared by it or with it is left anywhere."""
    who = _operator(tenant)
    me = await get_tenant(resources, who)
    async with resources.database.transaction(who) as tx:
        found = await sharing.find_membership(tx)
        if found is None:
            raise NotFound("the tenant belongs to no organisation")
        links = await sharing.list_links(tx)
        # Givers' rows first, as in every delivery: so they never wait for each other.
        for link in links:
            await _end_giving(tx, me, link)
        await sharing.delete_membership(tx)
        for link in links:
            await sharing.delete_copies(tx, link.tenant, await sharing.list_copies(tx, link.tenant))
            await sharing.delete_link(tx, link.from_tenant_id)
        await _end_given(tx, me)
        await audit.record(tx, "organisation.leave", "tenant", me.tenant_id, organisation=found.organisation)
    resources.views.forget(me.tenant_id)


async def _end_giving(tx: Transaction, me: Tenant, link: ShareLink) -> None:
    """Let another tenant give nothing to the one that leaves."""
    other = Identity(tenant_id=link.from_tenant_id, role=Role.ADMIN, actor="operator")
    async with tx.crossed(other) as there:
        ended = await sharing.delete_shares_with(there, me.tenant_id)
        await audit.record(there, "share.end", "tenant", me.tenant_id, tenant=me.name, items=ended)


async def _end_given(tx: Transaction, me: Tenant) -> None:
    """Take away what the one that leaves gave to others."""
    for to in await sharing.receivers(tx):
        await sharing.delete_shares_with(tx, to)
        async with tx.crossed(Identity(tenant_id=to, role=Role.ADMIN, actor="operator")) as there:
            removed = await sharing.delete_copies(there, me.name, await sharing.list_copies(there, me.name))
            await sharing.delete_link(there, me.tenant_id)
            await audit.record(there, "share.end", "tenant", me.tenant_id, tenant=me.name, items=len(removed))


async def list_members(owner_dsn: str) -> list[Member]:
    """The tenants of every organisation, for an operator who holds the owner's connection."""
    return await backup.list_members(owner_dsn)
