"""Shared by the adapters: how they call verbs with and without an event loop, and how they show memories."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from recordari.app import Memory
from recordari.context.rules.rendering import NOTICE, block, line, mark_of
from recordari.core.items import Trust
from recordari.errors import ConfigurationError
from recordari.recall.request import RecallAnswer, RecalledItem
from recordari.sync import Facade

T = TypeVar("T")

Verbs = Memory
"""`Memory`, or `Client`, which has the same verbs."""


class MemoryCaller:
    """Calls the verbs of an async or a sync memory.

    Async code may use either kind. Sync code needs a sync memory, whose event loop runs in a thread.
    """

    def __init__(self, memory: Verbs | Facade) -> None:
        self._facade = memory if isinstance(memory, Facade) else None
        self.memory: Verbs = memory.asynchronous if isinstance(memory, Facade) else memory

    def acting_as(self, **who: str | None) -> MemoryCaller:
        """The same for a narrower identity."""
        other = object.__new__(MemoryCaller)
        other._facade, other.memory = self._facade, self.memory.acting_as(**who)
        return other

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the memory."""
        return await (coroutine if self._facade is None else self._facade.elsewhere(coroutine))

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from sync code and wait for its result."""
        if self._facade is None:
            coroutine.close()
            raise ConfigurationError(
                "this is called without await: give the adapter `recordari.sync.Memory` or `recordari.sync.Client`"
            )
        return self._facade.wait(coroutine)


def scope_of(*, user: str | None, agent: str | None) -> str | None:
    """The scope of new messages: the user's, else the agent's."""
    return "user" if user is not None else "agent" if agent is not None else None


def prompt_block(answer: RecallAnswer) -> str:
    """Recalled items for a prompt, in a block of memory with their source and trust; empty without any."""
    return fenced([_line(item) for item in answer.items]) if answer.items else ""


def _line(item: RecalledItem) -> str:
    fields: dict[str, object] = {"kind": item.source_kind, "trust": item.trust}
    if item.speaker is not None:
        fields["who"] = item.speaker
    return line({**fields, "when": f"{item.event_time:%Y-%m-%dT%H:%MZ}", "text": item.content})


def fenced(lines: Sequence[str]) -> str:
    """Lines of memory in the block in which a context has them, after the notice that explains it."""
    title = "long-term memory"
    return f"{NOTICE}\n\n{block(title, lines, mark_of(title, lines))}"


def fenced_text(content: str, *, trust: Trust, who: str | None) -> str:
    """Text that neither the user nor the agent vouches for, as data, for frameworks that know only their two roles."""
    return fenced([line({"trust": trust, **({"who": who} if who is not None else {}), "text": content})])
