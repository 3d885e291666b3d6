"""`recordari tenant`: create, list, show, set."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import typer

from recordari.core.identity import Role
from recordari.db.address import bring_up_to_date, open_address, owner_of
from recordari.errors import Conflict, NotFound
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, open_as_operator, read_settings
from recordari.kit.output import (
    AsJson,
    Yes,
    confirm,
    print_json,
    print_line,
    print_note,
    print_record,
    print_table,
    record,
)
from recordari.tenants import tenants
from recordari.tenants.rules import ApiKey
from recordari.tenants.rules import Tenant as TenantRecord
from recordari.tenants.tenants import NewKey, ensure_tenant, list_tenants

tenant_commands = typer.Typer()

Name = Annotated[str, typer.Argument(help="Name of the tenant.")]
Language = Annotated[str | None, typer.Option(help="Language of its texts, such as english or swedish.")]
Plan = Annotated[str | None, typer.Option(help="Name of its plan.")]


@tenant_commands.command("create")
def create_tenant(name: Name, *, language: Language = None, plan: Plan = None, as_json: AsJson = False) -> None:
    """Create a tenant."""

    async def run() -> TenantRecord:
        async with open_as_operator(name) as caller:
            try:
                await tenants.get_tenant(*caller)
            except NotFound:
                return await ensure_tenant(
                    caller.resources,
                    name,
                    language=language or "english",
                    plan=plan or "standard",
                    actor="cli",
                )
            raise Conflict(f"there is a tenant {name!r} already; change it with `recordari tenant set`")

    _show(asyncio.run(run()), as_json=as_json)


@tenant_commands.command("list")
def list_tenants_command(*, as_json: AsJson = False) -> None:
    """List every tenant."""

    async def run() -> list[TenantRecord]:
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


@tenant_commands.command()
def show(name: Name = DEVELOPMENT_TENANT, *, as_json: AsJson = False) -> None:
    """Show one tenant."""

    async def run() -> TenantRecord:
        async with open_as_operator(name) as caller:
            return await tenants.get_tenant(*caller)

    _show(asyncio.run(run()), as_json=as_json)


@tenant_commands.command("set")
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

    async def run() -> TenantRecord:
        async with open_as_operator(name) as caller:
            return await tenants.update_tenant(*caller, language=language, plan=plan, settings=settings or None)

    _show(asyncio.run(run()), as_json=as_json)


def _read_setting(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise typer.BadParameter(f"{text!r} is not of the form KEY=VALUE.")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _show(tenant: TenantRecord, *, as_json: bool) -> None:
    (print_json if as_json else print_record)(record(tenant))


key_commands = typer.Typer()

_AGE = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@key_commands.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What the key is for.")] = "cli",
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    role: Annotated[Role, typer.Option(help="An admin also governs the tenant.")] = Role.AGENT,
    user: Annotated[str | None, typer.Option(help="Bind the key to one user.")] = None,
    agent: Annotated[str | None, typer.Option(help="Bind the key to one agent.")] = None,
    expires: Annotated[str | None, typer.Option(help="When it ends: 12h, 30d, 8w, or a time (ISO 8601).")] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key; its text is printed this once."""
    expires_at = _read_expiry(expires) if expires else None

    async def run() -> NewKey:
        async with open_as_operator(tenant) as caller:
            if tenant == DEVELOPMENT_TENANT:
                await ensure_tenant(caller.resources, tenant, actor="cli")
            await _check_tenant(tenants.get_tenant(*caller), tenant)
            return await tenants.create_key(
                *caller, name, role=role, user_id=user, agent_id=agent, expires_at=expires_at
            )

    made = asyncio.run(run())
    if as_json:
        print_json(_visible(made))
    else:
        print_line(made.key)
        print_note(f"key {made.key_id} ({made.role} of tenant {tenant}); it is not shown again")


@key_commands.command("list")
def list_keys(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List a tenant's keys, revoked ones too."""

    async def run() -> list[ApiKey]:
        async with open_as_operator(tenant) as caller:
            await _check_tenant(tenants.get_tenant(*caller), tenant)
            return await tenants.list_keys(*caller)

    rows = [_visible(key) for key in asyncio.run(run())]
    if as_json:
        print_json(rows)
    else:
        print_table(rows, empty=f"tenant {tenant} has no keys; make one with `recordari key create`")


@key_commands.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="Id of the key, from `recordari key list`.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Close a key at once and for good."""
    confirm(f"Revoke the key {key_id}? Whoever uses it is locked out at once.", yes=yes)

    async def run() -> ApiKey:
        async with open_as_operator(tenant) as caller:
            return await tenants.revoke_key(*caller, key_id)

    (print_json if as_json else print_record)(_visible(asyncio.run(run())))


def _visible(key: ApiKey) -> dict[str, object]:
    return record(key, without=("key_hash",))


async def _check_tenant(question: Awaitable[object], name: str) -> None:
    try:
        await question
    except NotFound:
        raise NotFound(f"there is no tenant {name!r}; make it with `recordari tenant create`") from None


def _read_expiry(text: str) -> datetime:
    if age := _AGE.fullmatch(text):
        return datetime.now(UTC) + timedelta(**{_UNITS[age[2]]: int(age[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither an age such as 30d nor a time in ISO 8601.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
