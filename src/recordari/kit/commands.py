"""How commands reach the memory: through the library, as the operator of this machine.

The root command chooses the `Opening`; commands call `ask`, which opens the memory, runs one verb and closes it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Annotated, Any, Protocol, TypedDict, TypeVar, Unpack
from uuid import UUID

import typer

from recordari.config import Settings, load_settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.core.telemetry import configure_logging
from recordari.db.address import bring_up_to_date, open_address, owner_of
from recordari.kit.resources import Resources
from recordari.kit.verbs import Caller

T = TypeVar("T")

DEVELOPMENT_TENANT = "default"

Tenant = Annotated[str, typer.Option("--tenant", "-t", help="Name of the tenant.")]
User = Annotated[str | None, typer.Option("--user", "-u", help="Act for this user.")]
Agent = Annotated[str | None, typer.Option("--agent", "-a", help="Act as this agent.")]
Session = Annotated[str | None, typer.Option("--session", "-s", help="In this session.")]
Moment = Annotated[str | None, typer.Option(help="A time in ISO 8601 with its offset, such as 2026-05-02T14:23Z.")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="Most lines.")]
ItemId = Annotated[UUID, typer.Argument(help="Id of the item; `recordari facts list` and `recall` print it.")]
Reason = Annotated[str | None, typer.Option(help="Why; the audit keeps it.")]
Explain = Annotated[bool, typer.Option("--explain", help="Say why.")]
TopK = Annotated[int, typer.Option("--top-k", "-k", help="Most items, up to 20.")]
NoRerank = Annotated[bool, typer.Option("--no-rerank", help="Skip the cross-encoder.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class Opening(Protocol):
    def resources(self, settings: Settings) -> AbstractAsyncContextManager[Resources]:
        """Open everything that verbs need."""

    def tenant(self, caller: Caller, tenant: str, *, worker: bool) -> AbstractAsyncContextManager[None]:
        """Require that the tenant exists; the first one is created. `worker` runs background work meanwhile."""


_OPENING: ContextVar[Opening] = ContextVar("opening")


def use(opening: Opening) -> None:
    _OPENING.set(opening)


def read_settings(*, quiet: bool = True, **overrides: Any) -> Settings:
    """Read the settings and send the log to standard error; `quiet` limits it to warnings."""
    settings = load_settings(**overrides)
    level = "warning" if quiet and settings.log_level == "info" else settings.log_level
    configure_logging(form=settings.log_format, level=level)
    return settings


def open_resources(settings: Settings) -> AbstractAsyncContextManager[Resources]:
    return _OPENING.get().resources(settings)


@asynccontextmanager
async def open_as_operator(tenant: str) -> AsyncIterator[Caller]:
    """Open the memory of a tenant as its administrator; the tenant need not exist."""
    async with open_resources(read_settings()) as resources:
        yield Caller(resources, Identity(tenant_id=tenant_id_of(tenant), role=Role.ADMIN, actor="cli"))


class Acting(TypedDict, total=False):
    """Options of a command: the identity to act as, and whether background work runs meanwhile."""

    user: str | None
    agent: str | None
    session: str | None
    worker: bool


@asynccontextmanager
async def open_memory(tenant: str, **acting: Unpack[Acting]) -> AsyncIterator[Caller]:
    """Open the memory of an existing tenant; the first one is created."""
    worker = acting.get("worker", False)
    async with open_as_operator(tenant) as caller, _OPENING.get().tenant(caller, tenant, worker=worker):
        identity = caller.identity.narrowed(
            user_id=acting.get("user"), agent_id=acting.get("agent"), session_id=acting.get("session")
        )
        yield caller.bound(identity)


def ask(verb: Callable[[Caller], Awaitable[T]], tenant: str, **acting: Unpack[Acting]) -> T:
    """Open the memory of an existing tenant, run one verb, and close it again."""
    return asyncio.run(_ask(verb, open_memory(tenant, **acting)))


def ask_as_operator(verb: Callable[[Caller], Awaitable[T]], tenant: str) -> T:
    """Run one verb for a tenant that need not exist."""
    return asyncio.run(_ask(verb, open_as_operator(tenant)))


async def _ask(verb: Callable[[Caller], Awaitable[T]], opened: AbstractAsyncContextManager[Caller]) -> T:
    async with opened as caller:
        return await verb(caller)


def ask_owner(verb: Callable[[str], Awaitable[T]]) -> T:
    """Run one verb across tenants, as the owner of the database; the schema is migrated first."""

    async def run() -> T:
        settings = read_settings()
        async with open_address(settings) as address:
            await bring_up_to_date(settings, address)
            return await verb(owner_of(address))

    return asyncio.run(run())


def read_moment(text: str | None) -> datetime | None:
    """Read a time from the command line; a text that is no time is wrong usage."""
    try:
        return datetime.fromisoformat(text) if text is not None else None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time in ISO 8601.") from None


def read_values(texts: list[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE from the command line, the value in JSON or plain; anything else is wrong usage."""
    values = {}
    for text in texts or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{text!r} is not of the form NAME=VALUE.")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values
