"""`recollect mcp`: MCP over standard input and output."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from recollect.domain.identity import Role
from recollect.entry.cli.access import Agent, Session, Tenant, User, open_memory
from recollect.errors import ConfigurationError
from recollect.service.maintenance import DEVELOPMENT_TENANT

try:
    from recollect.entry.mcp import serve_stdio
except ModuleNotFoundError as error:
    if error.name not in {"mcp", "mcp_types"}:
        raise
    serve_stdio = None  # type: ignore[assignment]  # the extra `mcp` is not installed


def mcp(
    *, tenant: Tenant = DEVELOPMENT_TENANT, user: User = None, agent: Agent = None, session: Session = None
) -> None:
    """Serve MCP over standard input and output, for an agent on this machine.

    Whose memory it is, is said here and cannot be changed by the agent.
    """
    if serve_stdio is None:
        raise ConfigurationError("MCP needs a further package; install it with `pip install 'recollect[mcp]'`")
    asyncio.run(_serve(tenant, user, agent, session))


async def _serve(tenant: str, user: str | None, agent: str | None, session: str | None) -> None:
    assert serve_stdio is not None
    async with open_memory(tenant, user=user, agent=agent, session=session, worker=True) as memory:
        # A model is no administrator, whoever started it.
        await serve_stdio(memory.bound(replace(memory.identity, role=Role.AGENT, actor="mcp")))
