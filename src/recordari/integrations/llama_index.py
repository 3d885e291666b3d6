"""LlamaIndex: a memory block that keeps what falls out of the chat history, and recalls what matters now.

    from llama_index.core.memory import Memory as ChatMemory
    from recordari.integrations.llama_index import RecordariMemoryBlock

    block = RecordariMemoryBlock(memory=memory, user="ana", session="chat-17")
    chat = ChatMemory.from_defaults(session_id="chat-17", memory_blocks=[block])

`user` and `agent` say whose memory it is; `session` is the session that new messages go to (LlamaIndex's own session id
where it gives one).
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock

from recordari.integrations.base import MemoryCaller, prompt_block, scope_of
from recordari.sessions.rules.window import NewMessage, role_named

__all__ = ["RecordariMemoryBlock"]


class RecordariMemoryBlock(BaseMemoryBlock[str]):
    """Long-term memory in Recordari, as a block of LlamaIndex's `Memory`."""

    name: str = Field(default="recordari", description="The name of the block.")
    description: str | None = Field(default="What is known from earlier conversations.")
    priority: int = Field(default=1)
    user: str | None = Field(default=None, description="Whose memory it is.")
    agent: str | None = Field(default=None, description="The agent that asks.")
    session: str | None = Field(default=None, description="The session that messages go to.")
    top_k: int = Field(default=5, ge=1, le=20)
    _caller: MemoryCaller = PrivateAttr()

    def __init__(self, memory: Any, **fields: Any) -> None:
        """`memory` is a `Memory` or `Client`, async or of `recordari.sync`."""
        super().__init__(**fields)
        self._caller = MemoryCaller(memory)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """Recall memories about the user's last message."""
        questions = (_text(message) for message in reversed(messages or []) if message.role.value == "user")
        query = next(filter(None, questions), None)
        if query is None:
            return ""
        acting = self._caller.acting_as(user=self.user, agent=self.agent)
        return prompt_block(await acting.run(acting.memory.recall(query, top_k=self.top_k)))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        for session, group in _by_session(messages, self.session).items():
            acting = self._caller.acting_as(user=self.user, agent=self.agent, session=session)
            scope = scope_of(user=self.user, agent=self.agent)
            await acting.run(acting.memory.add_messages(group, session_id=session, scope=scope))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Drop the least relevant memories, which are last; the block around them stays closed."""
        *before, end = content.split("\n")
        memories = [text for text in before if text.startswith("{")]
        kept = before[: len(before) - len(memories)]
        while memories and tokens_to_truncate > 0:
            tokens_to_truncate -= max(1, len(memories.pop()) // 4)
        return "\n".join([*kept, *memories, end]) if memories else None


def _by_session(messages: list[ChatMessage], session: str | None) -> dict[str, list[NewMessage]]:
    groups: dict[str, list[NewMessage]] = {}
    for message in messages:
        if text := _text(message):
            session_id = session or str(message.additional_kwargs.get("session_id") or "llama-index")
            groups.setdefault(session_id, []).append(NewMessage(content=text, role=role_named(message.role.value)))
    return groups


def _text(message: ChatMessage) -> str:
    return (message.content or "").strip()
