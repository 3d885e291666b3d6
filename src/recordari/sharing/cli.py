"""`recordari share`: give, list, withdraw; links, accept, decline."""

from __future__ import annotations

import asyncio
from typing import Annotated
from uuid import UUID

import typer

from recordari.db.address import bring_up_to_date, open_address, owner_of
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, ask, open_as_operator, read_settings
from recordari.kit.output import AsJson, Yes, confirm, print_json, print_note, print_record, print_table, record
from recordari.sharing import share
from recordari.sharing.rules import Member, Membership
from recordari.sharing.share import add_member, list_members, remove_member

share_commands = typer.Typer()

ItemId = Annotated[UUID, typer.Argument(help="Id of the memory.")]
Giver = Annotated[str, typer.Argument(help="Name of the tenant that shares.")]


@share_commands.command()
def give(
    item_id: ItemId,
    tenants: Annotated[list[str], typer.Argument(help="Names of tenants of the same organisation.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Give a memory to other tenants of the organisation, read-only."""
    rows = [record(one) for one in ask(lambda caller: share.share(*caller, [item_id], tenants), tenant)]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty="nothing was shared")


@share_commands.command("list")
def list_shares(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most rows.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List what a tenant shares, and with whom."""
    rows = [
        record(one, without=("to_tenant_id",))
        for one in ask(lambda caller: share.list_shares(*caller, limit=limit), tenant)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty=f"tenant {tenant} shares nothing")


@share_commands.command()
def withdraw(
    item_id: ItemId,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    from_tenant: Annotated[str | None, typer.Option("--from", help="Only from this tenant.")] = None,
) -> None:
    """Take a memory back; it is gone there at once."""
    withdrawn = ask(lambda caller: share.withdraw(*caller, item_id, tenant=from_tenant), tenant)
    print_note(f"withdrawn from {withdrawn} tenants")


@share_commands.command()
def links(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List who shares with a tenant, and whether that was accepted."""
    rows = [
        record(one, without=("from_tenant_id",)) for one in ask(lambda caller: share.list_share_links(*caller), tenant)
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty=f"nobody shares with tenant {tenant}")


@share_commands.command()
def accept(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Let arrive what another tenant shares."""
    (print_json if as_json else print_record)(
        record(ask(lambda caller: share.accept_share_link(*caller, giver), tenant), without=("from_tenant_id",))
    )


@share_commands.command()
def decline(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Take nothing from another tenant, or nothing any more."""
    (print_json if as_json else print_record)(
        record(ask(lambda caller: share.decline_share_link(*caller, giver), tenant), without=("from_tenant_id",))
    )


org_commands = typer.Typer()

TenantName = Annotated[str, typer.Argument(help="Name of the tenant.")]


@org_commands.command()
def add(
    organisation: Annotated[str, typer.Argument(help="Name of the organisation; it need not exist.")],
    tenant: TenantName,
    *,
    as_json: AsJson = False,
) -> None:
    """Put a tenant into an organisation; its tenants may share memories with each other."""

    async def run() -> Membership:
        async with open_as_operator(tenant) as caller:
            return await add_member(caller.resources, organisation, tenant)

    found = {"tenant": tenant, **record(asyncio.run(run()))}
    (print_json if as_json else print_record)(found)


@org_commands.command()
def remove(tenant: TenantName, *, yes: Yes = False) -> None:
    """Take a tenant out of its organisation: nothing shared by it or with it is left anywhere."""
    confirm(f"Take {tenant} out of its organisation? What it shared and received is gone at once.", yes=yes)

    async def run() -> None:
        async with open_as_operator(tenant) as caller:
            await remove_member(caller.resources, tenant)

    asyncio.run(run())
    print_note(f"{tenant} belongs to no organisation")


@org_commands.command("list")
def list_organisations(*, as_json: AsJson = False) -> None:
    """List the tenants of every organisation."""

    async def run() -> list[Member]:
        settings = read_settings()
        async with open_address(settings) as address:
            await bring_up_to_date(settings, address)
            return await list_members(owner_of(address))

    found = [record(member) for member in asyncio.run(run())]
    if as_json:
        print_json(found)
    else:
        print_table(found, empty="there are no organisations yet; make one with `recordari org add ORG TENANT`")
