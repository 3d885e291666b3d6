"""Pydantic AI: memory as a toolset, or as a capability that also adds memories to the instructions.

    from pydantic_ai import Agent
    from recordari.integrations.pydantic_ai import memory_capability

    agent = Agent("openai:gpt-5.2", deps_type=str, capabilities=[memory_capability(memory, user=lambda ctx: ctx.deps)])
    await agent.run("What do I like to drink?", deps="ana")

`user`, `agent` and `session` are names, or functions of the run's context that give them: one agent can serve many users.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.capabilities import Capability
from pydantic_ai.toolsets import FunctionToolset

from recordari.integrations.base import MemoryCaller, Verbs, prompt_block
from recordari.sync import Facade

__all__ = ["memory_capability", "memory_toolset"]

Name = str | Callable[[RunContext[Any]], str | None] | None

INSTRUCTIONS = (
    "You have a memory that lasts beyond this conversation. Call `recall` before you say that you do not know something "
    "about the user, and `remember_fact` when you learn something that will matter later."
)
NOTHING = "Nothing is known about that."
MOST = 20


def memory_toolset(
    memory: Verbs | Facade, *, user: Name = None, agent: Name = None, session: Name = None
) -> FunctionToolset[Any]:
    """The tools `recall` and `remember_fact`."""
    named = _Named(MemoryCaller(memory), user=user, agent=agent, session=session)

    async def recall(ctx: RunContext[Any], query: str, top_k: int = 5) -> str:
        """Look something up in memory.

        Args:
            ctx: The context of the run.
            query: What you want to know, as a question or in keywords.
            top_k: The most memories to return, up to 20.
        """
        acting = named.acting(ctx)
        answer = await acting.run(acting.memory.recall(query, top_k=max(1, min(top_k, MOST))))
        return prompt_block(answer) or NOTHING

    async def remember_fact(ctx: RunContext[Any], content: str) -> str:
        """Keep a fact about the user for later conversations.

        Args:
            ctx: The context of the run.
            content: One sentence that can be understood by itself.
        """
        acting = named.acting(ctx)
        scope = "user" if named.has_user(ctx) else "agent"
        remembered = await acting.run(acting.memory.remember_fact(content, scope=scope))
        return "Remembered." if remembered.was_new else "That is known already."

    return FunctionToolset([recall, remember_fact], id="recordari")


def memory_capability(
    memory: Verbs | Facade, *, user: Name = None, agent: Name = None, session: Name = None, top_k: int = 5
) -> Capability[Any]:
    """The toolset, instructions for it, and for each run the memories about its prompt."""
    named = _Named(MemoryCaller(memory), user=user, agent=agent, session=session)

    async def memories(ctx: RunContext[Any]) -> str:
        query = ctx.prompt if isinstance(ctx.prompt, str) else ""
        if not query.strip():
            return ""
        acting = named.acting(ctx)
        return prompt_block(await acting.run(acting.memory.recall(query, top_k=top_k)))

    toolset = memory_toolset(memory, user=user, agent=agent, session=session)
    return Capability(id="recordari", instructions=[INSTRUCTIONS, memories], toolsets=[toolset])


class _Named:
    """The identity of a run."""

    def __init__(self, caller: MemoryCaller, **names: Name) -> None:
        self._caller = caller
        self._names = names

    def acting(self, ctx: RunContext[Any]) -> MemoryCaller:
        return self._caller.acting_as(**{noun: _value(name, ctx) for noun, name in self._names.items()})

    def has_user(self, ctx: RunContext[Any]) -> bool:
        return _value(self._names["user"], ctx) is not None or self._names["agent"] is None


def _value(name: Name, ctx: RunContext[Any]) -> str | None:
    return name(ctx) if callable(name) else name
