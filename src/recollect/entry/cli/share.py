"""`recollect share`: give, list, withdraw; links, accept, decline."""

from __future__ import annotations

import asyncio
from typing import Annotated
from uuid import UUID

import typer

from recollect.domain.sharing import Share, ShareLink
from recollect.entry.cli.access import Tenant, open_memory
from recollect.entry.cli.output import AsJson, print_json, print_note, print_record, print_table, record
from recollect.service.maintenance import DEVELOPMENT_TENANT
from recollect.service.share import Shared

app = typer.Typer()

ItemId = Annotated[UUID, typer.Argument(help="Id of the memory.")]
Giver = Annotated[str, typer.Argument(help="Name of the tenant that shares.")]


@app.command()
def give(
    item_id: ItemId,
    tenants: Annotated[list[str], typer.Argument(help="Names of tenants of the same organisation.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Give a memory to other tenants of the organisation, read-only."""

    async def run() -> list[Shared]:
        async with open_memory(tenant) as memory:
            return await memory.share([item_id], tenants)

    rows = [record(one) for one in asyncio.run(run())]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty="nothing was shared")


@app.command("list")
def list_all(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most rows.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List what a tenant shares, and with whom."""

    async def run() -> list[Share]:
        async with open_memory(tenant) as memory:
            return await memory.list_shares(limit=limit)

    rows = [record(one, without=("to_tenant_id",)) for one in asyncio.run(run())]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty=f"tenant {tenant} shares nothing")


@app.command()
def withdraw(
    item_id: ItemId,
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    from_tenant: Annotated[str | None, typer.Option("--from", help="Only from this tenant.")] = None,
) -> None:
    """Take a memory back; it is gone there at once."""

    async def run() -> int:
        async with open_memory(tenant) as memory:
            return await memory.withdraw(item_id, tenant=from_tenant)

    print_note(f"withdrawn from {asyncio.run(run())} tenants")


@app.command()
def links(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List who shares with a tenant, and whether that was accepted."""

    async def run() -> list[ShareLink]:
        async with open_memory(tenant) as memory:
            return await memory.list_share_links()

    rows = [record(one, without=("from_tenant_id",)) for one in asyncio.run(run())]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty=f"nobody shares with tenant {tenant}")


@app.command()
def accept(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Let arrive what another tenant shares."""

    async def run() -> ShareLink:
        async with open_memory(tenant) as memory:
            return await memory.accept_share_link(giver)

    (print_json if as_json else print_record)(record(asyncio.run(run()), without=("from_tenant_id",)))


@app.command()
def decline(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Take nothing from another tenant, or nothing any more."""

    async def run() -> ShareLink:
        async with open_memory(tenant) as memory:
            return await memory.decline_share_link(giver)

    (print_json if as_json else print_record)(record(asyncio.run(run()), without=("from_tenant_id",)))
