"""`recordari mcp`: MCP over standard input and output."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

import typer

from recordari.errors import ConfigurationError, InvalidInput
from recordari.kit.commands import Agent, Session, Tenant, User, open_memory
from recordari.operations.maintenance import DEVELOPMENT_TENANT

try:
    from recordari.entry.mcp.profiles import PROFILES, Profile
    from recordari.entry.mcp.server import serve_stdio
except ModuleNotFoundError as error:
    if error.name not in {"mcp", "mcp_types"}:
        raise
    serve_stdio = None  # type: ignore[assignment]  # the extra `mcp` is not installed


def mcp(
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    profile: Annotated[str, typer.Option(help="Which tools: default, mem0 or admin.")] = "default",
) -> None:
    """Serve MCP over standard input and output, for an agent on this machine.

    Whose memory it is, is said here and cannot be changed by the agent.
    """
    if serve_stdio is None:
        raise ConfigurationError("MCP needs a further package; install it with `pip install 'recordari[mcp]'`")
    if profile not in PROFILES:
        raise InvalidInput(f"there is no profile {profile!r}; there are {', '.join(PROFILES)}", field="profile")
    asyncio.run(_serve(tenant, user, agent, session, PROFILES[profile]))


async def _serve(tenant: str, user: str | None, agent: str | None, session: str | None, profile: Profile) -> None:
    async with open_memory(tenant, user=user, agent=agent, session=session, worker=True) as memory:
        # A model is no administrator, whoever started it, unless it was started as one.
        await serve_stdio(memory.bound(replace(memory.identity, role=profile.role, actor="mcp")), profile)
