"""Google's Agent Development Kit: a `BaseMemoryService` that keeps sessions in Recordari and searches them.

    from google.adk.runners import Runner
    from recordari.integrations.google_adk import RecordariMemoryService

    runner = Runner(agent=agent, app_name="shop", session_service=…, memory_service=RecordariMemoryService(memory))

The app is the agent, the user is the user, and each ADK session is a session of the tenant. The messages of a user are found
in all sessions of that user, and by nobody else. A session can be added again as it grows: an event is kept once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from recordari.core.items import REVIEWED_TRUST, Trust
from recordari.integrations.base import MemoryCaller, Verbs, fenced_text
from recordari.recall.request import RecalledItem
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.sync import Facade

if TYPE_CHECKING:
    from google.adk.events.event import Event
    from google.adk.sessions.session import Session

__all__ = ["RecordariMemoryService"]

BATCH = 200


class RecordariMemoryService(BaseMemoryService):
    """The long-term memory of an ADK app."""

    def __init__(self, memory: Verbs | Facade, *, top_k: int = 10) -> None:
        self._caller = MemoryCaller(memory)
        self._top_k = top_k

    async def add_session_to_memory(self, session: Session) -> None:
        """Keep the messages of a session."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Keep events of a session; events that are stored already are skipped."""
        # An ADK session id is unique within a user; ours is unique within the tenant.
        session = f"{app_name}:{user_id}:{session_id or 'memory'}"
        acting = self._caller.acting_as(user=user_id, agent=app_name, session=session)
        metadata = dict(custom_metadata or {})
        messages = [message for event in events if (message := _message(event, session, metadata)) is not None]
        for first in range(0, len(messages), BATCH):
            batch = messages[first : first + BATCH]
            await acting.run(acting.memory.add_messages(batch, session_id=session, scope="user"))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Keep facts about a user."""
        acting = self._caller.acting_as(user=user_id, agent=app_name)
        for memory in memories:
            if text := _text(memory.content):
                metadata: dict[str, Any] = {**memory.custom_metadata, **(custom_metadata or {})}
                await acting.run(acting.memory.remember_fact(text, scope="user", metadata=metadata))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Recall memories about a question, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        acting = self._caller.acting_as(user=user_id, agent=app_name)
        answer = await acting.run(acting.memory.recall(query, top_k=self._top_k))
        return SearchMemoryResponse(memories=[_entry(item) for item in answer.items])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget one memory with everything derived from it."""
        if memory_id:
            acting = self._caller.acting_as(user=user_id, agent=app_name)
            await acting.run(acting.memory.forget(UUID(memory_id), reason="deleted through ADK"))


def _message(event: Event, session: str, metadata: dict[str, Any]) -> NewMessage | None:
    text = _text(event.content)
    if not text:
        return None
    role = MessageRole.USER if event.author == "user" else MessageRole.ASSISTANT
    return NewMessage(
        content=text,
        role=role,
        speaker=event.author,
        message_id=f"{session}:{event.id}"[-200:],
        event_time=datetime.fromtimestamp(event.timestamp, UTC),
        metadata=metadata,
    )


def _text(content: types.Content | None) -> str:
    return "\n".join(part.text for part in (content.parts if content and content.parts else []) if part.text).strip()


def _entry(item: RecalledItem) -> MemoryEntry:
    """An item as ADK shows it; what neither the user nor the agent said is data, inside a block."""
    is_said = item.trust in REVIEWED_TRUST
    text = item.content if is_said else fenced_text(item.content, trust=item.trust, who=item.speaker)
    return MemoryEntry(
        id=str(item.id),
        content=types.Content(role="model" if item.trust is Trust.AGENT else "user", parts=[types.Part(text=text)]),
        author=item.speaker if is_said else str(item.trust),
        timestamp=item.event_time.isoformat(),
        custom_metadata={"source_kind": str(item.source_kind), "score": item.score, "trust": str(item.trust)},
    )
