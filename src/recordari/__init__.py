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

_MODULES = {
    "app": ("Memory",),
    "client": ("Client",),
    "config": ("Settings",),
    "core.identity": ("Identity", "Role", "Scope"),
    "core.items": ("Kind", "NewItem", "Tier", "Trust"),
    "errors": ("RecordariError",),
    "sessions.rules.runs": ("NewToolCall",),
    "sessions.rules.window": ("NewMessage",),
    "tenants.rules": ("AgentDefinition",),
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: importing the package stays cheap."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"recordari.{module}"), name)
    raise AttributeError(f"module 'recordari' has no attribute {name!r}")
