"""How commands reach the memory: through the library, as the operator of this machine.

The root command says which `Opening` to use; commands call these functions, which ask it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from datetime import datetime
from typing import Annotated, Any, Protocol, TypeVar

import typer

from recordari.config import Settings, load_settings
from recordari.core.telemetry import configure_logging
from recordari.kit.resources import Resources
from recordari.kit.verbs import Caller

T = TypeVar("T")

DEVELOPMENT_TENANT = "default"

Tenant = Annotated[str, typer.Option("--tenant", "-t", help="Name of the tenant.")]
User = Annotated[str | None, typer.Option("--user", "-u", help="Act for this user.")]
Agent = Annotated[str | None, typer.Option("--agent", "-a", help="Act as this agent.")]
Session = Annotated[str | None, typer.Option("--session", "-s", help="In this session.")]
Moment = Annotated[str | None, typer.Option(help="A time in ISO 8601 with its offset, such as 2026-05-02T14:23Z.")]


class Opening(Protocol):
    """What opens the memory for commands."""

    def resources(self, settings: Settings) -> AbstractAsyncContextManager[Resources]:
        """Everything verbs need, for these settings."""

    def as_operator(self, settings: Settings, tenant: str) -> AbstractAsyncContextManager[Caller]:
        """The administrator of a tenant that need not exist."""

    def memory(
        self, settings: Settings, tenant: str, *, user: str | None, agent: str | None, session: str | None, worker: bool
    ) -> AbstractAsyncContextManager[Caller]:
        """The administrator of a tenant that exists, acting for a user, agent or session."""


_OPENING: ContextVar[Opening] = ContextVar("opening")


def use(opening: Opening) -> None:
    """Open the memory this way for the command that runs now."""
    _OPENING.set(opening)


def read_settings(*, quiet: bool = True, **given: Any) -> Settings:
    """Read the settings and send the log to standard error; `quiet` keeps to warnings."""
    settings = load_settings(**given)
    level = "warning" if quiet and settings.log_level == "info" else settings.log_level
    configure_logging(form=settings.log_format, level=level)
    return settings


def open_resources(settings: Settings) -> AbstractAsyncContextManager[Resources]:
    """Open everything verbs need, for these settings."""
    return _OPENING.get().resources(settings)


def open_as_operator(tenant: str) -> AbstractAsyncContextManager[Caller]:
    """Open the memory of a tenant as its administrator; the tenant need not exist."""
    return _OPENING.get().as_operator(read_settings(), tenant)


def open_memory(
    tenant: str,
    *,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    worker: bool = False,
) -> AbstractAsyncContextManager[Caller]:
    """Open the memory of an existing tenant; the first one is made. `worker` runs background work meanwhile."""
    return _OPENING.get().memory(read_settings(), tenant, user=user, agent=agent, session=session, worker=worker)


def ask(verb: Callable[[Caller], Awaitable[T]], tenant: str, *, user: str | None = None, agent: str | None = None) -> T:
    """Open the memory of a tenant, ask it one thing, and close it again."""

    async def run() -> T:
        async with open_memory(tenant, user=user, agent=agent) as caller:
            return await verb(caller)

    return asyncio.run(run())


def read_moment(text: str | None) -> datetime | None:
    """Read a time given on the command line; wrong usage when it is none."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time in ISO 8601.") from None
