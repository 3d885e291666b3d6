"""`recordari tenant`: create, list, show, set; `recordari key`: create, list, revoke; `recordari sign-in`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

import typer

from recordari.core.identity import Role
from recordari.errors import Conflict, NotFound
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, User, Yes, ask, ask_as_operator, ask_owner, read_values
from recordari.kit.output import Answer, Commands, Hint, Record, Table, confirm, record
from recordari.kit.verbs import Caller
from recordari.tenants import sign_ins, tenants
from recordari.tenants.rules import PLANS
from recordari.tenants.rules import Tenant as TenantRecord

tenant_commands = Commands()

Name = Annotated[str, typer.Argument(help="Name of the tenant.")]
Language = Annotated[str | None, typer.Option(help="Language of its texts, such as english or swedish.")]
Plan = Annotated[str | None, typer.Option(help=f"Its plan: {', '.join(PLANS)}.")]


@tenant_commands.command("create")
def create_tenant(name: Name, *, language: Language = None, plan: Plan = None) -> Record:
    """Create a tenant."""

    async def run(caller: Caller) -> TenantRecord:
        try:
            await tenants.get_tenant(*caller)
        except NotFound:
            return await tenants.ensure_tenant(
                caller.resources, name, language=language or "english", plan=plan or "standard", actor="cli"
            )
        raise Conflict(f"the tenant {name!r} exists already; change it with `recordari tenant set`")

    return Record(ask_as_operator(run, name))


@tenant_commands.command("list")
def list_tenants() -> Answer:
    """List every tenant."""
    every = ask_owner(tenants.list_tenants)
    rows = [record(tenant, without=("tenant_id", "settings")) for tenant in every]
    return Answer(every, Table(rows, empty="there are no tenants yet; create one with `recordari tenant create NAME`"))


@tenant_commands.command()
def show(name: Name = DEVELOPMENT_TENANT) -> Record:
    """Show one tenant."""
    return Record(ask_as_operator(lambda caller: tenants.get_tenant(*caller), name))


@tenant_commands.command("set")
def change(
    name: Name,
    *,
    language: Language = None,
    plan: Plan = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting as NAME=VALUE, the value in JSON or plain; repeatable.")
    ] = None,
) -> Record:
    """Change a tenant's language, plan or settings."""
    settings = read_values(setting) or None
    if language is None and plan is None and settings is None:
        raise typer.BadParameter("Name a change: --language, --plan or --setting NAME=VALUE.")
    return Record(
        ask_as_operator(
            lambda caller: tenants.update_tenant(*caller, language=language, plan=plan, settings=settings), name
        )
    )


key_commands = Commands()

HASH = ("key_hash",)
_AGE = re.compile(r"(\d{1,5})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@key_commands.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="The purpose of the key.")] = "cli",
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    role: Annotated[Role, typer.Option(help="An admin also governs the tenant.")] = Role.AGENT,
    user: Annotated[str | None, typer.Option(help="Bind the key to one user.")] = None,
    only_user: Annotated[
        list[str] | None, typer.Option(help="Limit the key to this user, and others that you name so; repeatable.")
    ] = None,
    no_user: Annotated[bool, typer.Option("--no-user", help="Let the key act for no user.")] = False,
    agent: Annotated[str | None, typer.Option(help="Bind the key to one agent.")] = None,
    expires: Annotated[str | None, typer.Option(help="When it ends: 12h, 30d, 8w, or a time (ISO 8601).")] = None,
) -> Answer:
    """Create a key; its text is printed only once."""
    expires_at = _read_expiry(expires) if expires else None
    if no_user and only_user:
        raise typer.BadParameter("Give --only-user or --no-user, not both.")
    users = [] if no_user else only_user or None
    key = ask(
        lambda caller: tenants.create_key(
            *caller, name, role=role, user_id=user, users=users, agent_id=agent, expires_at=expires_at
        ),
        tenant,
    )
    return Answer(
        record(key, without=HASH),
        key.key,
        Hint(f"key {key.key_id} ({key.role} of tenant {tenant}); it is not shown again"),
    )


@key_commands.command("list")
def list_keys(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the keys of a tenant, revoked ones included."""
    keys = ask(lambda caller: tenants.list_keys(*caller), tenant)
    rows = [record(key, without=HASH) for key in keys]
    return Table(rows, empty=f"tenant {tenant} has no keys; create one with `recordari key create`")


@key_commands.command()
def revoke(
    key_id: Annotated[UUID, typer.Argument(help="Id of the key, from `recordari key list`.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
) -> Record:
    """Revoke a key at once and for good."""
    confirm(f"Revoke the key {key_id}? Programs that use it are locked out at once.", yes=yes)
    return Record(record(ask_as_operator(lambda caller: tenants.revoke_key(*caller, key_id), tenant), without=HASH))


def sign_in(*, tenant: Tenant = DEVELOPMENT_TENANT, user: User = None) -> Answer:
    """Print an address of the dashboard that signs in once, within an hour; with --user as that user sees it."""

    async def run(caller: Caller) -> str:
        settings = caller.resources.settings
        host = f"[{settings.host}]" if ":" in settings.host.strip("[]") else settings.host
        code = await sign_ins.make_code(caller.resources, caller.identity)
        return f"http://{host}:{settings.port}/#code={code}"

    address = ask(run, tenant, user=user)
    return Answer({"address": address}, address, Hint("it signs in once, within an hour"))


def _read_expiry(text: str) -> datetime:
    if age := _AGE.fullmatch(text):
        return datetime.now(UTC) + timedelta(**{_UNITS[age[2]]: int(age[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither an age such as 30d nor a time in ISO 8601.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
