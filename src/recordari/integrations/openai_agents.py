"""The OpenAI Agents SDK: a `Session` whose items are messages of a Recordari session.

    from agents import Agent, Runner
    from recordari.integrations.openai_agents import RecordariSession

    session = RecordariSession("chat-17", memory, user="ana")
    await Runner.run(agent, "Where is my parcel?", session=session)

The session id is a session of the tenant; `user` and `agent` say whose it is. Every item comes back exactly as it was added.
Its text is also a message of the session: it is summarised, facts are taken from it, and recall finds it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from agents.memory.session import SessionABC
from agents.memory.session_settings import SessionSettings, resolve_session_limit

from recordari.integrations.base import MemoryCaller, Verbs
from recordari.sessions.rules.window import Message, MessageRole, NewMessage
from recordari.sync import Facade

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

__all__ = ["RecordariSession"]

PAGE = 100
ITEM = "openai_item"
KEPT = timedelta(weeks=520)  # history stays until it is cleared, as in the SDK's own sessions


class RecordariSession(SessionABC):
    """The history of one conversation, kept by Recordari."""

    def __init__(
        self,
        session_id: str,
        memory: Verbs | Facade,
        *,
        user: str | None = None,
        agent: str | None = None,
        idle: timedelta = KEPT,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """`idle`: after that time without a message the conversation begins anew; the old one stays recallable."""
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._caller = MemoryCaller(memory).acting_as(user=user, agent=agent, session=session_id)
        self._idle = idle

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The history, or the latest items of it, oldest first."""
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and most <= 0:
            return []
        found = await self._caller.run(self._latest(most))
        return [_item_of(message) for message in found]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all of them or none."""
        if items:
            await self._caller.run(self._add([_message_of(cast("Mapping[str, Any]", item)) for item in items]))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item away, for good, and return it."""
        last = await self._caller.run(self._pop())
        return _item_of(last) if last is not None else None

    async def clear_session(self) -> None:
        """Take every item away, for good."""
        await self._caller.run(self._clear())

    async def _open(self) -> tuple[str, int]:
        opened = await self._caller.memory.open_session(self.session_id, idle=self._idle)
        return opened.session.session_id, opened.session.messages

    async def _add(self, messages: list[NewMessage]) -> None:
        session_id, _ = await self._open()
        await self._caller.memory.add_messages(messages, session_id=session_id)

    async def _latest(self, most: int | None) -> list[Message]:
        """The last messages, oldest first: read from the end backwards, because places of what was popped are empty."""
        session_id, last = await self._open()
        found: list[Message] = []
        while last > 0 and (most is None or len(found) < most):
            first = max(0, last - PAGE)
            found = [*await self._caller.memory.list_messages(session_id, after=first, until=last, limit=PAGE), *found]
            last = first
        return found if most is None else found[-most:]

    async def _pop(self) -> Message | None:
        last = await self._latest(1)
        if not last:
            return None
        await self._caller.memory.forget(last[0].item_id, reason="popped from its session")
        return last[0]

    async def _clear(self) -> None:
        for message in await self._latest(None):
            await self._caller.memory.forget(message.item_id, reason="its session was cleared")


def _item_of(message: Message) -> TResponseInputItem:
    item = message.metadata.get(ITEM)
    if item is None:  # added to the session by another door
        item = {"role": "assistant" if message.role is MessageRole.ASSISTANT else "user", "content": message.content}
    return cast("TResponseInputItem", item)


def _message_of(item: Mapping[str, Any]) -> NewMessage:
    role = {"assistant": MessageRole.ASSISTANT, "system": MessageRole.SYSTEM, "developer": MessageRole.SYSTEM}
    kind = str(item.get("type", "message"))
    if kind == "message" or "role" in item:
        said = role.get(str(item.get("role")), MessageRole.USER)
    else:
        said = MessageRole.TOOL if kind.endswith("_output") else MessageRole.ASSISTANT
    return NewMessage(content=_text_of(item) or f"[{kind}]", role=said, metadata={ITEM: dict(item)})


def _text_of(item: Mapping[str, Any]) -> str:
    """What a person would read in an item."""
    if "arguments" in item:
        return f"{item.get('name', 'call')}({item['arguments']})"
    content = item.get("content") or item.get("output") or item.get("summary") or ""
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, list):
        parts = [part.get("text") or part.get("refusal") or "" for part in content if isinstance(part, Mapping)]
        return "\n".join(str(part) for part in parts if part)
    return json.dumps(content)
