"""`recordari share`: shares with other tenants; `recordari org`: organisations of tenants."""

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
from recordari.kit.output import Answer, Commands, Hint, Record, Table, confirm, record
from recordari.sharing import share

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
    """List a tenant's shares and their receivers."""
    shares = ask(lambda caller: share.list_shares(*caller, limit=limit), tenant)
    return Table([record(each, without=("to_tenant_id",)) for each in shares], empty=f"tenant {tenant} shares nothing")


@share_commands.command()
def withdraw(
    item_id: ItemId,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    from_tenant: Annotated[str | None, typer.Option("--from", help="Only from this tenant.")] = None,
) -> Answer:
    """Withdraw a memory; its copies are removed at once."""
    withdrawn = ask(lambda caller: share.withdraw(*caller, item_id, tenant=from_tenant), tenant)
    return Answer({"item_id": item_id, "withdrawn": withdrawn}, Hint(f"withdrawn from {withdrawn} tenants"))


@share_commands.command()
def links(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the tenants that share with a tenant, and whether it accepted."""
    givers = ask(lambda caller: share.list_share_links(*caller), tenant)
    rows = [record(link, without=("from_tenant_id",)) for link in givers]
    return Table(rows, empty=f"nobody shares with tenant {tenant}")


@share_commands.command()
def accept(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Accept the memories that another tenant shares."""
    link = ask(lambda caller: share.accept_share_link(*caller, giver), tenant)
    return Record(record(link, without=("from_tenant_id",)))


@share_commands.command()
def decline(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Record:
    """Decline another tenant's shares; copies that came from it are removed."""
    link = ask(lambda caller: share.decline_share_link(*caller, giver), tenant)
    return Record(record(link, without=("from_tenant_id",)))


org_commands = Commands()

TenantName = Annotated[str, typer.Argument(help="Name of the tenant.")]


@org_commands.command()
def add(
    organisation: Annotated[str, typer.Argument(help="Name of the organisation; it need not exist.")],
    tenant: TenantName,
) -> Record:
    """Add a tenant to an organisation; its tenants may share memories with each other."""
    membership = ask_as_operator(lambda caller: share.add_member(caller.resources, organisation, tenant), tenant)
    return Record({"tenant": tenant, **record(membership)})


@org_commands.command()
def remove(tenant: TenantName, *, yes: Yes = False) -> Answer:
    """Remove a tenant from its organisation; all copies of its shares and in it are removed."""
    confirm(f"Remove {tenant} from its organisation? Its shares and all copies end at once.", yes=yes)
    ask_as_operator(lambda caller: share.remove_member(caller.resources, tenant), tenant)
    return Answer({"tenant": tenant, "done": "removed"}, Hint(f"{tenant} belongs to no organisation"))


@org_commands.command("list")
def list_organisations() -> Table:
    """List the tenants of every organisation."""
    return Table(
        ask_owner(share.list_members),
        empty="there are no organisations yet; make one with `recordari org add ORG TENANT`",
    )
