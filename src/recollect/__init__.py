"""Memory for AI agents: remembers, recalls in milliseconds, forgets by policy, and can prove who saw what.

    from recollect import Memory

    async with Memory.open(user="ana") as memory:
        await memory.remember_fact("Ana prefers tea")
        answer = await memory.recall("What does Ana drink?")

`recollect.sync.Memory` has the same verbs for code without an event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.app import Memory
    from recollect.client import Client
    from recollect.config import Settings
    from recollect.domain.identity import Identity, Role, Scope
    from recollect.domain.items import Kind, NewItem, Tier, Trust
    from recollect.domain.runs import NewToolCall
    from recollect.domain.tenants import AgentDefinition
    from recollect.domain.window import NewMessage
    from recollect.errors import RecollectError

__all__ = [
    "AgentDefinition",
    "Client",
    "Identity",
    "Kind",
    "Memory",
    "NewItem",
    "NewMessage",
    "NewToolCall",
    "RecollectError",
    "Role",
    "Scope",
    "Settings",
    "Tier",
    "Trust",
    "__version__",
]
__version__ = "0.1.0"

_HOMES = {
    "AgentDefinition": "recollect.domain.tenants",
    "Client": "recollect.client",
    "Identity": "recollect.domain.identity",
    "Kind": "recollect.domain.items",
    "Memory": "recollect.app",
    "NewItem": "recollect.domain.items",
    "NewMessage": "recollect.domain.window",
    "NewToolCall": "recollect.domain.runs",
    "RecollectError": "recollect.errors",
    "Role": "recollect.domain.identity",
    "Scope": "recollect.domain.identity",
    "Settings": "recollect.config",
    "Tier": "recollect.domain.items",
    "Trust": "recollect.domain.items",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: importing the package stays cheap."""
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}") from None
    return getattr(import_module(home), name)
