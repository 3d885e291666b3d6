"""Strands Agents: a `MemoryStore` that recalls before the model is asked, and keeps what was said after each run.

    from strands import Agent
    from strands.memory import MemoryManager
    from recordari.integrations.strands import RecordariMemoryStore

    store = RecordariMemoryStore(memory, user="ana", agent="support", session="chat-17")
    agent = Agent(memory_manager=MemoryManager(stores=[store], add_tool_config=True))

`user` and `agent` say whose memory it is; `session` is the session that messages go to. `agent("…")` runs on an event loop of
its own: give the store a memory of `recordari.sync`. With `invoke_async` either kind will do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from strands.memory import (
    AddMessagesContext,
    ExtractionConfig,
    InvocationTrigger,
    MemoryEntry,
    MemoryStore,
    SearchOptions,
)
from strands.types.content import Message

from recordari.core.items import REVIEWED_TRUST
from recordari.integrations.base import MemoryCaller, Verbs, fenced_text, scope_of
from recordari.recall.request import RecalledItem
from recordari.sessions.rules.window import NewMessage, role_named
from recordari.sync import Facade

__all__ = ["RecordariMemoryStore"]


class RecordariMemoryStore(MemoryStore):
    """Long-term memory in Recordari, as a store of Strands' `MemoryManager`."""

    def __init__(
        self,
        memory: Verbs | Facade,
        *,
        user: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        name: str = "recordari",
        description: str = "What is known from earlier conversations.",
        top_k: int = 5,
        keep: bool = True,
    ) -> None:
        """`keep` says whether what is said is kept."""
        self.name, self.description, self.max_search_results = name, description, top_k
        self.writable = True
        # Recordari takes facts from messages itself, so the messages are all it needs.
        self.extraction = ExtractionConfig(trigger=InvocationTrigger()) if keep else None
        self._session = session or f"strands:{uuid4()}"
        self._run = uuid4()
        self._scope = scope_of(user=user, agent=agent)
        self._caller = MemoryCaller(memory).acting_as(user=user, agent=agent, session=self._session)

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Recall memories about a question, best first."""
        if not query.strip():
            return []
        most = (options or {}).get("max_search_results") or self.max_search_results
        answer = await self._caller.run(self._caller.memory.recall(query, top_k=most))
        return [_entry(item) for item in answer.items]

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> str:
        """Keep a fact that the agent wants to remember."""
        remembered = await self._caller.run(self._caller.memory.remember_fact(content, metadata=dict(metadata or {})))
        return str(remembered.id)

    async def add_messages(self, messages: Sequence[Message], context: AddMessagesContext | None = None) -> int:
        """Keep messages of a conversation, each once: a batch that is tried again has the same numbers."""
        numbers = (
            context.sequence_numbers if context is not None and context.sequence_numbers else [None] * len(messages)
        )
        said = [
            NewMessage(
                content=text,
                role=role_named(message["role"]),
                message_id=f"strands:{self._run}:{number}" if number is not None else None,
            )
            for number, message in zip(numbers, messages, strict=True)
            if (text := _text(message))
        ]
        if said:
            add = self._caller.memory.add_messages(said, session_id=self._session, scope=self._scope)
            await self._caller.run(add)
        return len(said)


def _text(message: Message) -> str:
    return "\n".join(str(block["text"]) for block in message["content"] if block.get("text")).strip()


def _entry(item: RecalledItem) -> MemoryEntry:
    """An item as Strands shows it; what neither the user nor the agent said is data, inside a block."""
    is_said = item.trust in REVIEWED_TRUST
    content = item.content if is_said else fenced_text(item.content, trust=item.trust, who=item.speaker)
    metadata = {"id": str(item.id), "kind": str(item.source_kind), "trust": str(item.trust)}
    return MemoryEntry(content=content, metadata={**metadata, "when": item.event_time.isoformat()})
