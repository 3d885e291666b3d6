"""`recordari tenant`: create, list, show, set."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

import typer

from recordari.domain.tenants import Tenant
from recordari.errors import Conflict, NotFound
from recordari.kit.commands import open_as_operator, read_settings
from recordari.kit.output import AsJson, print_json, print_record, print_table, record
from recordari.service.maintenance import DEVELOPMENT_TENANT, list_tenants
from recordari.service.tenants import ensure_tenant
from recordari.wiring import bring_up_to_date, open_address, owner_of

app = typer.Typer()

Name = Annotated[str, typer.Argument(help="Name of the tenant.")]
Language = Annotated[str | None, typer.Option(help="Language of its texts, such as english or swedish.")]
Plan = Annotated[str | None, typer.Option(help="Name of its plan.")]


@app.command()
def create(name: Name, *, language: Language = None, plan: Plan = None, as_json: AsJson = False) -> None:
    """Create a tenant."""

    async def run() -> Tenant:
        async with open_as_operator(name) as memory:
            try:
                await memory.get_tenant()
            except NotFound:
                return await ensure_tenant(
                    memory.resources,
                    name,
                    language=language or "english",
                    plan=plan or "standard",
                    actor="cli",
                )
            raise Conflict(f"there is a tenant {name!r} already; change it with `recordari tenant set`")

    _show(asyncio.run(run()), as_json=as_json)


@app.command("list")
def list_all(*, as_json: AsJson = False) -> None:
    """List every tenant."""

    async def run() -> list[Tenant]:
        settings = read_settings()
        async with open_address(settings) as address:
            await bring_up_to_date(settings, address)
            return await list_tenants(owner_of(address))

    found = asyncio.run(run())
    if as_json:
        print_json(found)
    else:
        rows = [record(tenant, without=("tenant_id", "settings")) for tenant in found]
        print_table(rows, empty="there are no tenants yet; make one with `recordari tenant create NAME`")


@app.command()
def show(name: Name = DEVELOPMENT_TENANT, *, as_json: AsJson = False) -> None:
    """Show one tenant."""

    async def run() -> Tenant:
        async with open_as_operator(name) as memory:
            return await memory.get_tenant()

    _show(asyncio.run(run()), as_json=as_json)


@app.command("set")
def change(
    name: Name,
    *,
    language: Language = None,
    plan: Plan = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting as KEY=VALUE, the value in JSON or plain; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change a tenant's language, plan or settings."""
    settings = dict(_read_setting(text) for text in setting or [])
    if language is None and plan is None and not settings:
        raise typer.BadParameter("Say what to change: --language, --plan or --setting KEY=VALUE.")

    async def run() -> Tenant:
        async with open_as_operator(name) as memory:
            return await memory.update_tenant(language=language, plan=plan, settings=settings or None)

    _show(asyncio.run(run()), as_json=as_json)


def _read_setting(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE.")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _show(tenant: Tenant, *, as_json: bool) -> None:
    (print_json if as_json else print_record)(record(tenant))
