"""`recordari org`: add, remove, list."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from recordari.domain.sharing import Member, Membership
from recordari.kit.commands import open_as_operator, read_settings
from recordari.kit.output import AsJson, Yes, confirm, print_json, print_note, print_record, print_table, record
from recordari.service.organise import add_member, list_members, remove_member
from recordari.wiring import bring_up_to_date, open_address, owner_of

app = typer.Typer()

TenantName = Annotated[str, typer.Argument(help="Name of the tenant.")]


@app.command()
def add(
    organisation: Annotated[str, typer.Argument(help="Name of the organisation; it need not exist.")],
    tenant: TenantName,
    *,
    as_json: AsJson = False,
) -> None:
    """Put a tenant into an organisation; its tenants may share memories with each other."""

    async def run() -> Membership:
        async with open_as_operator(tenant) as memory:
            return await add_member(memory.resources, organisation, tenant)

    found = {"tenant": tenant, **record(asyncio.run(run()))}
    (print_json if as_json else print_record)(found)


@app.command()
def remove(tenant: TenantName, *, yes: Yes = False) -> None:
    """Take a tenant out of its organisation: nothing shared by it or with it is left anywhere."""
    confirm(f"Take {tenant} out of its organisation? What it shared and received is gone at once.", yes=yes)

    async def run() -> None:
        async with open_as_operator(tenant) as memory:
            await remove_member(memory.resources, tenant)

    asyncio.run(run())
    print_note(f"{tenant} belongs to no organisation")


@app.command("list")
def list_all(*, as_json: AsJson = False) -> None:
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
