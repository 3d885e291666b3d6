"""`recordari share`: give, list, withdraw, links, accept, decline; `recordari org`: add, remove, list."""

from __future__ import annotations

from typing import Annotated

import typer

from recordari.kit.commands import (
    DEVELOPMENT_TENANT,
    ItemId,
    Limit,
    Tenant,
    Yes,
    ask,
    ask_as_operator,
    ask_owner,
)
from recordari.kit.output import Answer, Commands, Note, Record, Table, confirm, record
from recordari.sharing import share
from recordari.sharing.share import add_member, list_members, remove_member

share_commands = Commands()

Giver = Annotated[str, typer.Argument(help="Name of the tenant that shares.")]


@share_commands.command()
def give(
    item_id: ItemId,
    tenants: Annotated[list[str], typer.Argument(help="Names of tenants of the same organisation.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Table:
    """Share a memory with other tenants of the organisation, read-only."""
    return Table(ask(lambda caller: share.share(*caller, [item_id], tenants), tenant), empty="nothing was shared")


@share_commands.command("list")
def list_shares(*, tenant: Tenant = DEVELOPMENT_TENANT, limit: Limit = 50) -> Table:
    """List what a tenant shares, and with which tenants."""
    found = ask(lambda caller: share.list_shares(*caller, limit=limit), tenant)
    return Table([record(one, without=("to_tenant_id",)) for one in found], empty=f"tenant {tenant} shares nothing")


@share_commands.command()
def withdraw(
    item_id: ItemId,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    from_tenant: Annotated[str | None, typer.Option("--from", help="Only from this tenant.")] = None,
) -> Answer:
    """Take a memory back; it is gone there at once."""
    withdrawn = ask(lambda caller: share.withdraw(*caller, item_id, tenant=from_tenant), tenant)
    return Answer({"item_id": item_id, "withdrawn": withdrawn}, Note(f"withdrawn from {withdrawn} tenants"))


@share_commands.command()
def links(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the tenants that share with a tenant, and whether it accepted."""
    found = ask(lambda caller: share.list_share_links(*caller), tenant)
    rows = [record(one, without=("from_tenant_id",)) for one in found]
    return Table(rows, empty=f"nobody shares with tenant {tenant}")


@share_commands.command()
def accept(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Accept what another tenant shares."""
    link = ask(lambda caller: share.accept_share_link(*caller, giver), tenant)
    return Record(record(link, without=("from_tenant_id",)))


@share_commands.command()
def decline(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Take nothing from another tenant, or nothing any more."""
    link = ask(lambda caller: share.decline_share_link(*caller, giver), tenant)
    return Record(record(link, without=("from_tenant_id",)))


org_commands = Commands()

TenantName = Annotated[str, typer.Argument(help="Name of the tenant.")]


@org_commands.command()
def add(
    organisation: Annotated[str, typer.Argument(help="Name of the organisation; it need not exist.")],
    tenant: TenantName,
) -> Record:
    """Put a tenant into an organisation; its tenants may share memories with each other."""
    membership = ask_as_operator(lambda caller: add_member(caller.resources, organisation, tenant), tenant)
    return Record({"tenant": tenant, **record(membership)})


@org_commands.command()
def remove(tenant: TenantName, *, yes: Yes = False) -> Answer:
    """Take a tenant out of its organisation: nothing shared by it or with it is left anywhere."""
    confirm(f"Take {tenant} out of its organisation? What it shared and received is gone at once.", yes=yes)
    ask_as_operator(lambda caller: remove_member(caller.resources, tenant), tenant)
    return Answer({"tenant": tenant, "done": "removed"}, Note(f"{tenant} belongs to no organisation"))


@org_commands.command("list")
def list_organisations() -> Table:
    """List the tenants of every organisation."""
    return Table(
        ask_owner(list_members), empty="there are no organisations yet; make one with `recordari org add ORG TENANT`"
    )
