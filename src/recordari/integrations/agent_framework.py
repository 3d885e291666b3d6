"""Microsoft Agent Framework: a `ContextProvider` that recalls before a run and remembers after it.

    from agent_framework import Agent
    from recordari.integrations.agent_framework import RecordariContextProvider

    provider = RecordariContextProvider(memory, user="ana", agent="support")
    agent = Agent(client=…, context_providers=[provider])
    await agent.run("What do I like to drink?", session=agent.create_session())

`user` and `agent` say whose memory it is; the framework's session is the session that messages go to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_framework import AgentSession, ContextProvider, Message, SessionContext, SupportsAgentRun

from recordari.integrations.base import MemoryCaller, Verbs, told
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.sync import Facade

__all__ = ["RecordariContextProvider"]

SAID_BEFORE = "What is remembered from earlier conversations and may matter now:"


class RecordariContextProvider(ContextProvider):
    """Long-term memory for an agent of the framework."""

    def __init__(
        self,
        memory: Verbs | Facade,
        *,
        user: str | None = None,
        agent: str | None = None,
        top_k: int = 5,
        source_id: str = "recordari",
    ) -> None:
        super().__init__(source_id)
        self._caller = MemoryCaller(memory).acting_as(user=user, agent=agent)
        self._scope = "user" if user is not None else "agent" if agent is not None else None
        self._top_k = top_k

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add what memory knows about the input."""
        query = "\n".join(text for one in context.input_messages if (text := (one.text or "").strip()))
        if not query:
            return
        answer = await self._caller.run(self._caller.memory.recall(query, top_k=self._top_k))
        if found := told(answer):
            context.extend_instructions(self.source_id, f"{SAID_BEFORE}\n{found}")

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Keep what was said and answered."""
        answered = list(context.response.messages) if context.response is not None else []
        messages = _messages([*context.input_messages, *answered])
        if messages:
            acting = self._caller.acting_as(session=session.session_id)
            await acting.run(acting.memory.add_messages(messages, session_id=session.session_id, scope=self._scope))


def _messages(said: Sequence[Message]) -> list[NewMessage]:
    return [
        NewMessage(content=text, role=_role(str(one.role)), speaker=one.author_name or None)
        for one in said
        if (text := (one.text or "").strip())
    ]


def _role(role: str) -> MessageRole:
    return MessageRole(role) if role in set(MessageRole) else MessageRole.USER
