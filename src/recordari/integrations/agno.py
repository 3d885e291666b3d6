"""Agno: a `MemoryManager` that keeps what users say in Recordari and shows agents what is known of them.

    from agno.agent import Agent
    from recordari.integrations.agno import RecordariMemoryManager, memory_tools

    manager = RecordariMemoryManager(memory, agent="support")
    agent = Agent(model=…, memory_manager=manager, update_memory_on_run=True, tools=memory_tools(memory, user="ana"))
    agent.run("What do I like to drink?", user_id="ana", session_id="chat-17")

`memory` is of `recordari.sync`: Agno asks for memories without `await`, also in `arun`. It needs no database of Agno's and no
model of its own: facts are taken from what was said by Recordari.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from agno.db.schemas.memory import UserMemory
from agno.memory import MemoryManager
from agno.models.message import Message

from recordari.core.items import REVIEWED_TRUST, Item, Kind, Trust
from recordari.integrations.base import MemoryCaller, fenced_text, prompt_block
from recordari.recall.request import RecalledItem
from recordari.sessions.rules.window import NewMessage, role_named
from recordari.sync import Facade

__all__ = ["RecordariMemoryManager", "memory_tools"]

NOBODY = "default"  # Agno's own name for a user that is not named
SHOWN = 50


class RecordariMemoryManager(MemoryManager):
    """The memory of Agno's agents and teams; Agno's `user_id` is the user."""

    def __init__(self, memory: Facade, *, agent: str | None = None, **more: Any) -> None:
        super().__init__(**more)
        self._caller = MemoryCaller(memory)
        self._agent = agent

    def _acting(self, user_id: str | None, agent_id: str | None = None) -> MemoryCaller:
        return self._caller.acting_as(user=user_id or NOBODY, agent=self._agent or agent_id)

    def get_user_memories(self, user_id: str | None = None) -> list[UserMemory]:
        """The facts about a user and their wishes, newest first."""
        acting = self._acting(user_id)
        page = acting.wait(acting.memory.list_items(kinds=[Kind.FACT, Kind.PROCEDURE], limit=SHOWN))
        return [_listed(item) for item in page.items]

    async def aget_user_memories(self, user_id: str | None = None) -> list[UserMemory]:
        acting = self._acting(user_id)
        page = await acting.run(acting.memory.list_items(kinds=[Kind.FACT, Kind.PROCEDURE], limit=SHOWN))
        return [_listed(item) for item in page.items]

    def get_user_memory(self, memory_id: str, user_id: str | None = None) -> UserMemory | None:
        return next((one for one in self.get_user_memories(user_id) if one.memory_id == memory_id), None)

    def add_user_memory(self, memory: UserMemory, user_id: str | None = None) -> str:
        acting = self._acting(user_id or memory.user_id, memory.agent_id)
        category = memory.topics[0] if memory.topics else None
        return str(acting.wait(acting.memory.remember_fact(memory.memory, category=category)).id)

    def replace_user_memory(self, memory_id: str, memory: UserMemory, user_id: str | None = None) -> str:
        """Give a memory a new text; the old one stays among its versions."""
        acting = self._acting(user_id)
        return str(acting.wait(acting.memory.edit_item(UUID(memory_id), memory.memory)).id)

    def delete_user_memory(self, memory_id: str, user_id: str | None = None) -> None:
        """Forget a memory with everything derived from it."""
        acting = self._acting(user_id)
        acting.wait(acting.memory.forget(UUID(memory_id), reason="deleted through Agno"))

    def clear_user_memories(self, user_id: str | None = None) -> None:
        while memories := self.get_user_memories(user_id):
            for memory in memories:
                self.delete_user_memory(memory.memory_id or "", user_id)

    async def aclear_user_memories(self, user_id: str | None = None) -> None:
        acting = self._acting(user_id)
        while memories := await self.aget_user_memories(user_id):
            for memory in memories:
                await acting.run(acting.memory.forget(UUID(memory.memory_id), reason="deleted through Agno"))

    def search_user_memories(
        self,
        query: str | None = None,
        limit: int | None = None,
        retrieval_method: Any = None,
        user_id: str | None = None,
    ) -> list[UserMemory]:
        """Memories about a question, best first; without one, the newest (or with `first_n` the oldest) facts."""
        if query:
            acting = self._acting(user_id)
            answer = acting.wait(acting.memory.recall(query, top_k=limit or 10))
            return [_recalled(item) for item in answer.items]
        memories = self.get_user_memories(user_id)
        return (memories[::-1] if retrieval_method == "first_n" else memories)[:limit]

    def create_user_memories(
        self,
        message: str | None = None,
        messages: list[Message] | None = None,
        agent_id: str | None = None,
        team_id: str | None = None,
        user_id: str | None = None,
        run_metrics: Any = None,
    ) -> str:
        """Keep what was said; facts are taken from it in the background."""
        acting, said, session = self._said(message, messages, agent_id or team_id, user_id)
        acting.wait(acting.memory.add_messages(said, session_id=session, scope="user"))
        return "kept"

    async def acreate_user_memories(
        self,
        message: str | None = None,
        messages: list[Message] | None = None,
        agent_id: str | None = None,
        team_id: str | None = None,
        user_id: str | None = None,
        run_metrics: Any = None,
    ) -> str:
        acting, said, session = self._said(message, messages, agent_id or team_id, user_id)
        await acting.run(acting.memory.add_messages(said, session_id=session, scope="user"))
        return "kept"

    def _said(
        self, message: str | None, messages: Sequence[Message] | None, agent_id: str | None, user_id: str | None
    ) -> tuple[MemoryCaller, list[NewMessage], str]:
        """Agno does not name its session here: all that a user says to an agent is one."""
        given = [Message(role="user", content=message)] if message else list(messages or [])
        said = [
            NewMessage(content=text, role=role_named(one.role))
            for one in given
            if one.role != "system" and (text := one.get_content_string().strip())
        ]
        session = f"agno:{self._agent or agent_id or 'agent'}:{user_id or NOBODY}"
        return self._acting(user_id, agent_id).acting_as(session=session), said, session

    def update_memory_task(self, task: str, user_id: str | None = None) -> str:
        """Keep what an agent wants to remember (`enable_agentic_memory`)."""
        acting = self._acting(user_id)
        acting.wait(acting.memory.remember_fact(task))
        return "kept"

    async def aupdate_memory_task(self, task: str, user_id: str | None = None) -> str:
        acting = self._acting(user_id)
        await acting.run(acting.memory.remember_fact(task))
        return "kept"


def memory_tools(memory: Facade, *, user: str, agent: str | None = None) -> list[Callable[..., str]]:
    """The tools `recall` and `remember_fact` for `Agent(tools=…)`, of one user."""
    caller = MemoryCaller(memory).acting_as(user=user, agent=agent)

    def recall(query: str) -> str:
        """Search long-term memory: earlier messages, facts about the user, documents. Ask in plain words."""
        return prompt_block(caller.wait(caller.memory.recall(query))) or "Nothing is known about it."

    def remember_fact(content: str) -> str:
        """Keep one fact beyond this conversation, as a full sentence with names instead of pronouns."""
        return "kept" if caller.wait(caller.memory.remember_fact(content)).was_new else "known already"

    return [recall, remember_fact]


def _listed(item: Item) -> UserMemory:
    return UserMemory(
        memory=_shown(item.content, item.trust, item.speaker),
        memory_id=str(item.item_id),
        topics=[item.category] if item.category else None,
        user_id=item.user_id,
        agent_id=item.agent_id,
        created_at=int(item.event_time.timestamp()),
    )


def _recalled(item: RecalledItem) -> UserMemory:
    content = _shown(item.content, item.trust, item.speaker)
    return UserMemory(memory=content, memory_id=str(item.id), created_at=int(item.event_time.timestamp()))


def _shown(content: str, trust: Trust, who: str | None) -> str:
    """What neither the user nor the agent said is data, inside a block."""
    return content if trust in REVIEWED_TRUST else fenced_text(content, trust=trust, who=who)
