"""LiveKit Agents: an `Agent` whose model sees what memory knows about what the user says, and whose conversation is kept.

    from livekit.agents import AgentSession
    from recordari.integrations.livekit import RecordariAgent

    session = AgentSession(llm=…, stt=…, tts=…)
    await session.start(agent=RecordariAgent(memory, user="ana", instructions="Be brief."), room=…)

`user` and `agent` own the memory, what is said goes to `session_id`. A voice must not wait: when memory takes longer than
`seconds`, or cannot be asked, the model answers without it, and the log says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

from livekit.agents import Agent, ConversationItemAddedEvent, ModelSettings, llm

from recordari.errors import RecordariError
from recordari.integrations.base import MemoryCaller, Verbs, prompt_block, scope_of
from recordari.sessions.rules.window import NewMessage, role_named
from recordari.sync import Facade

__all__ = ["RecordariAgent"]

MOST_ASKED = 8_000  # characters of a question

_log = logging.getLogger(__name__)


class RecordariAgent(Agent):
    """An agent with a long-term memory. Further arguments are those of `Agent`."""

    def __init__(
        self,
        memory: Verbs | Facade,
        *,
        user: str | None = None,
        agent: str | None = None,
        session_id: str | None = None,
        top_k: int = 5,
        seconds: float = 1.0,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._session_id = session_id or f"livekit-{uuid4()}"
        self._memory = MemoryCaller(memory).acting_as(user=user, agent=agent, session=self._session_id)
        self._scope = scope_of(user=user, agent=agent)
        self._top_k = top_k
        self._seconds = seconds
        self._recalled: tuple[str, str] = ("", "")  # a message, and what memory knows about it
        self._keeping: asyncio.Task[None] | None = None

    async def on_enter(self) -> None:
        self.session.on("conversation_item_added", self._heard)

    async def on_exit(self) -> None:
        """Finish what is being kept."""
        self.session.off("conversation_item_added", self._heard)
        if self._keeping is not None:
            await self._keeping

    async def llm_node(
        self, chat_ctx: llm.ChatContext, tools: list[llm.Tool], model_settings: ModelSettings
    ) -> AsyncIterator[Any]:
        """Show the model what memory knows about the user's last message, for this answer only."""
        said = next((one for one in reversed(chat_ctx.messages()) if one.role == "user"), None)
        if said is not None and (memories := await self._known(said, chat_ctx)):
            chat_ctx = chat_ctx.copy()
            chat_ctx.items.insert(
                chat_ctx.index_by_id(said.id) or 0, llm.ChatMessage(role="system", content=[memories])
            )
        async for part in Agent.default.llm_node(self, chat_ctx, tools, model_settings):
            yield part

    async def _known(self, said: llm.ChatMessage, chat_ctx: llm.ChatContext) -> str:
        """What memory knows about a message beyond what the model sees anyway. After a tool it is not asked again."""
        query = (said.text_content or "").strip()[:MOST_ASKED]
        if self._recalled[0] != said.id and query:
            memories = ""
            try:
                async with asyncio.timeout(self._seconds):
                    answer = await self._memory.run(self._memory.memory.recall(query, top_k=2 * self._top_k))
                seen = {(one.text_content or "").strip() for one in chat_ctx.messages()}
                others = [one for one in answer.items if one.session_id != self._session_id or one.content not in seen]
                memories = prompt_block(replace(answer, items=tuple(others[: self._top_k])))
            except (RecordariError, TimeoutError) as error:
                _log.warning("memory could not be asked: %s", type(error).__name__)
            self._recalled = (said.id, memories)
        return self._recalled[1] if query else ""

    def _heard(self, event: ConversationItemAddedEvent) -> None:
        """Keep what was said, one message after the other, in the background."""
        item = event.item
        if isinstance(item, llm.ChatMessage) and item.role in {"user", "assistant"}:
            self._keeping = asyncio.create_task(self._keep(item, after=self._keeping))

    async def _keep(self, item: llm.ChatMessage, *, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await after
        if not (text := (item.text_content or "").strip()):
            return
        message = NewMessage(content=text, role=role_named(item.role), message_id=item.id)
        verbs = self._memory.memory
        try:
            await self._memory.run(verbs.add_messages([message], session_id=self._session_id, scope=self._scope))
        except RecordariError as error:
            _log.warning("what was said could not be kept: %s", error.code)
