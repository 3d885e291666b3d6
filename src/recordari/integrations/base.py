"""What the adapters share: the verbs they use, and how they are called with and without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, Self, TypeVar
from uuid import UUID

from recordari.entries.rules import Entry, FoundEntry
from recordari.errors import ConfigurationError
from recordari.lifetime.forget import Forgotten
from recordari.memory.remember import Remembered
from recordari.recall.request import RecallAnswer
from recordari.sessions.messages import Added
from recordari.sessions.rules.window import Message, NewMessage
from recordari.sessions.sessions import Opened
from recordari.sync import Facade

T = TypeVar("T")


class Verbs(Protocol):
    """The verbs that adapters use; `Memory` and `Client` have them."""

    def acting_as(
        self, *, user: str | None = None, agent: str | None = None, session: str | None = None, run: str | None = None
    ) -> Self:
        """The same with more said about who asks."""

    async def recall(self, query: str, *, top_k: int = 5, **more: Any) -> RecallAnswer:
        """Find what answers a question."""

    async def remember_fact(
        self, content: str, *, scope: str = "user", metadata: dict[str, Any] | None = None
    ) -> Remembered:
        """Keep a fact."""

    async def open_session(self, session_id: str | None = None, *, idle_limit: timedelta | None = None) -> Opened:
        """Open a session."""

    async def add_messages(
        self, new: Sequence[NewMessage], *, session_id: str | None = None, scope: str | None = None
    ) -> Added:
        """Keep messages of a session."""

    async def list_messages(self, session_id: str, **more: Any) -> list[Message]:
        """Messages of a session in order."""

    async def forget(self, item_id: UUID, *, reason: str | None = None) -> Forgotten:
        """Redact an item."""

    async def put_entry(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        *,
        scope: str | None = None,
        index: Sequence[str] | bool | None = None,
        ttl: timedelta | None = None,
        if_version: int | None = None,
    ) -> Entry:
        """Keep a document."""

    async def get_entry(
        self, namespace: Sequence[str], key: str, *, scope: str | None = None, refresh: bool = True
    ) -> Entry:
        """One document."""

    async def delete_entry(
        self, namespace: Sequence[str], key: str, *, scope: str | None = None, if_version: int | None = None
    ) -> None:
        """Remove a document."""

    async def search_entries(
        self, prefix: Sequence[str] = (), *, scope: str | None = None, **more: Any
    ) -> list[FoundEntry]:
        """Documents below a namespace."""

    async def list_namespaces(self, *, scope: str | None = None, **more: Any) -> list[tuple[str, ...]]:
        """Namespaces that hold something."""


class Caller:
    """A memory of either kind, for code of either kind.

    Async code may be given an async memory or a sync one; sync code needs a sync one, whose event loop runs in a thread.
    """

    def __init__(self, memory: Verbs | Facade) -> None:
        self._facade = memory if isinstance(memory, Facade) else None
        self.memory: Verbs = memory.asynchronous if isinstance(memory, Facade) else memory

    def acting_as(self, **who: str | None) -> Caller:
        """The same with more said about who asks."""
        other = object.__new__(Caller)
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
