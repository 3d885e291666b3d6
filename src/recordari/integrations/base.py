"""What the adapters share: the verbs they use, and how they are called with and without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from recordari.app import Memory
from recordari.errors import ConfigurationError
from recordari.recall.request import RecallAnswer
from recordari.sync import Facade

T = TypeVar("T")


Verbs = Memory
"""What adapters are given: `Memory`, or `Client`, which has the same verbs."""


class MemoryCaller:
    """A memory of either kind, for code of either kind.

    Async code may be given an async memory or a sync one; sync code needs a sync one, whose event loop runs in a thread.
    """

    def __init__(self, memory: Verbs | Facade) -> None:
        self._facade = memory if isinstance(memory, Facade) else None
        self.memory: Verbs = memory.asynchronous if isinstance(memory, Facade) else memory

    def acting_as(self, **who: str | None) -> MemoryCaller:
        """The same with more said about who asks."""
        other = object.__new__(MemoryCaller)
        other._facade, other.memory = self._facade, self.memory.acting_as(**who)
        return other

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine where the memory lives."""
        return await (coroutine if self._facade is None else self._facade.elsewhere(coroutine))

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for a coroutine, without an event loop of one's own."""
        if self._facade is None:
            coroutine.close()
            raise ConfigurationError(
                "this is called without await: give the adapter `recordari.sync.Memory` or `recordari.sync.Client`"
            )
        return self._facade.wait(coroutine)


def told(answer: RecallAnswer) -> str:
    """What was recalled as lines for a prompt, each with its day and who said it; empty when there is nothing."""
    return "\n".join(
        f"- [{item.event_time:%Y-%m-%d}] {f'{item.speaker}: ' if item.speaker else ''}{item.content}"
        for item in answer.items
    )
