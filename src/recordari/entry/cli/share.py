"""`recordari share`: give, list, withdraw; links, accept, decline."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from recordari.kit.commands import Tenant, ask
from recordari.kit.output import AsJson, print_json, print_note, print_record, print_table, record
from recordari.service.maintenance import DEVELOPMENT_TENANT

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
    rows = [record(one) for one in ask(lambda memory: memory.share([item_id], tenants), tenant)]
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
    rows = [
        record(one, without=("to_tenant_id",)) for one in ask(lambda memory: memory.list_shares(limit=limit), tenant)
    ]
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
    withdrawn = ask(lambda memory: memory.withdraw(item_id, tenant=from_tenant), tenant)
    print_note(f"withdrawn from {withdrawn} tenants")


@app.command()
def links(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List who shares with a tenant, and whether that was accepted."""
    rows = [record(one, without=("from_tenant_id",)) for one in ask(lambda memory: memory.list_share_links(), tenant)]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty=f"nobody shares with tenant {tenant}")


@app.command()
def accept(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Let arrive what another tenant shares."""
    (print_json if as_json else print_record)(
        record(ask(lambda memory: memory.accept_share_link(giver), tenant), without=("from_tenant_id",))
    )


@app.command()
def decline(giver: Giver, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Take nothing from another tenant, or nothing any more."""
    (print_json if as_json else print_record)(
        record(ask(lambda memory: memory.decline_share_link(giver), tenant), without=("from_tenant_id",))
    )
