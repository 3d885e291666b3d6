"""Memory for AI agents: remembers, recalls in milliseconds, forgets by policy, and can prove who saw what.

    from recordari import Memory

    async with Memory.open(user="ana") as memory:
        await memory.remember_fact("Ana prefers tea")
        answer = await memory.recall("What does Ana drink?")

`recordari.sync.Memory` has the same verbs for code without an event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recordari.app import Memory
    from recordari.client import Client
    from recordari.config import Settings
    from recordari.core.identity import Identity, Role, Scope
    from recordari.core.items import Kind, NewItem, Tier, Trust
    from recordari.errors import RecordariError
    from recordari.sessions.rules.runs import NewToolCall
    from recordari.sessions.rules.window import NewMessage
    from recordari.tenants.rules import AgentDefinition

__all__ = [
    "AgentDefinition",
    "Client",
    "Identity",
    "Kind",
    "Memory",
    "NewItem",
    "NewMessage",
    "NewToolCall",
    "RecordariError",
    "Role",
    "Scope",
    "Settings",
    "Tier",
    "Trust",
    "__version__",
]
__version__ = "0.1.0"

_HOMES = {
    "AgentDefinition": "recordari.tenants.rules",
    "Client": "recordari.client",
    "Identity": "recordari.core.identity",
    "Kind": "recordari.core.items",
    "Memory": "recordari.app",
    "NewItem": "recordari.core.items",
    "NewMessage": "recordari.sessions.rules.window",
    "NewToolCall": "recordari.sessions.rules.runs",
    "RecordariError": "recordari.errors",
    "Role": "recordari.core.identity",
    "Scope": "recordari.core.identity",
    "Settings": "recordari.config",
    "Tier": "recordari.core.items",
    "Trust": "recordari.core.items",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: importing the package stays cheap."""
    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'recordari' has no attribute {name!r}") from None
    return getattr(import_module(home), name)
