"""How commands reach the memory: through the library, as the operator of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Annotated, Any, TypeVar

import typer

from recordari.app import Memory
from recordari.config import Settings, load_settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.core.telemetry import configure_logging
from recordari.errors import NotFound
from recordari.operations.maintenance import DEVELOPMENT_TENANT
from recordari.tenants.tenants import ensure_tenant
from recordari.wiring import open_resources
from recordari.worker.runner import background_worker

T = TypeVar("T")

Tenant = Annotated[str, typer.Option("--tenant", "-t", help="Name of the tenant.")]
User = Annotated[str | None, typer.Option("--user", "-u", help="Act for this user.")]
Agent = Annotated[str | None, typer.Option("--agent", "-a", help="Act as this agent.")]
Session = Annotated[str | None, typer.Option("--session", "-s", help="In this session.")]
Moment = Annotated[str | None, typer.Option(help="A time in ISO 8601 with its offset, such as 2026-05-02T14:23Z.")]


def read_settings(*, quiet: bool = True, **given: Any) -> Settings:
    """Read the settings and send the log to standard error; `quiet` keeps to warnings."""
    settings = load_settings(**given)
    level = "warning" if quiet and settings.log_level == "info" else settings.log_level
    configure_logging(form=settings.log_format, level=level)
    return settings


@asynccontextmanager
async def open_as_operator(tenant: str) -> AsyncIterator[Memory]:
    """Open the memory of a tenant as its administrator; the tenant need not exist."""
    identity = Identity(tenant_id=tenant_id_of(tenant), role=Role.ADMIN, actor="cli")
    async with open_resources(read_settings()) as resources:
        yield Memory(resources, identity)


@asynccontextmanager
async def open_memory(
    tenant: str,
    *,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    worker: bool = False,
) -> AsyncIterator[Memory]:
    """Open the memory of a tenant that there is; the first one is made. `worker` runs background work meanwhile."""
    async with AsyncExitStack() as stack:
        memory = await stack.enter_async_context(open_as_operator(tenant))
        if tenant == DEVELOPMENT_TENANT:
            await ensure_tenant(memory.resources, tenant, actor="cli")
        try:
            await memory.get_tenant()
        except NotFound:
            raise NotFound(f"there is no tenant {tenant!r}; make it with `recordari tenant create`") from None
        if worker and memory.resources.settings.worker:
            await stack.enter_async_context(background_worker(memory.resources))
        yield memory.acting_as(user=user, agent=agent, session=session)


def ask(verb: Callable[[Memory], Awaitable[T]], tenant: str, *, user: str | None = None, agent: str | None = None) -> T:
    """Open the memory of a tenant, ask it one thing, and close it again."""

    async def run() -> T:
        async with open_memory(tenant, user=user, agent=agent) as memory:
            return await verb(memory)

    return asyncio.run(run())


def read_moment(text: str | None) -> datetime | None:
    """Read a time given on the command line; wrong usage when it is none."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time in ISO 8601.") from None
