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

from recordari.integrations.base import MemoryCaller, Verbs, prompt_block, scope_of
from recordari.sessions.rules.window import NewMessage, role_named
from recordari.sync import Facade

__all__ = ["RecordariContextProvider"]


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
        self._scope = scope_of(user=user, agent=agent)
        self._top_k = top_k

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Add memories about the input to the instructions."""
        query = "\n".join(message.content for message in _messages(context.input_messages))
        if not query:
            return
        answer = await self._caller.run(self._caller.memory.recall(query, top_k=self._top_k))
        if memories := prompt_block(answer):
            context.extend_instructions(self.source_id, memories)

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Keep the input and the answer."""
        answer = context.response.messages if context.response is not None else []
        if messages := _messages([*context.input_messages, *answer]):
            acting = self._caller.acting_as(session=session.session_id)
            await acting.run(acting.memory.add_messages(messages, session_id=session.session_id, scope=self._scope))


def _messages(messages: Sequence[Message]) -> list[NewMessage]:
    return [
        NewMessage(content=text, role=role_named(str(message.role)), speaker=message.author_name or None)
        for message in messages
        if (text := (message.text or "").strip())
    ]
