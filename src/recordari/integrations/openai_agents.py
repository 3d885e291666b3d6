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

from recordari.core.items import REVIEWED_TRUST, Trust
from recordari.integrations.base import MemoryCaller, Verbs, fenced_text
from recordari.sessions.rules.window import TRUST, Message, MessageRole, NewMessage, role_named
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
        """After `idle` without a message a new conversation begins; recall still finds the old one."""
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._caller = MemoryCaller(memory).acting_as(user=user, agent=agent, session=session_id)
        self._idle = idle

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The history, or the latest items of it, oldest first."""
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and most <= 0:
            return []
        return [_item_of(message) for message in await self._caller.run(self._latest(most))]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all of them or none."""
        if items:
            messages = [_message_of(cast("Mapping[str, Any]", item)) for item in items]
            await self._caller.run(self._add(messages))

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item for good, and return it."""
        last = await self._caller.run(self._pop())
        return _item_of(last) if last is not None else None

    async def clear_session(self) -> None:
        """Remove every item for good."""
        await self._caller.run(self._clear())

    async def _open(self) -> tuple[str, int]:
        opened = await self._caller.memory.open_session(self.session_id, idle=self._idle)
        return opened.session.session_id, opened.session.messages

    async def _add(self, messages: list[NewMessage]) -> None:
        session_id, _ = await self._open()
        await self._caller.memory.add_messages(messages, session_id=session_id)

    async def _latest(self, most: int | None) -> list[Message]:
        """The last messages, oldest first. They are read backwards, because popped messages leave gaps."""
        session_id, last = await self._open()
        messages: list[Message] = []
        while last > 0 and (most is None or len(messages) < most):
            first = max(0, last - PAGE)
            page = await self._caller.memory.list_messages(session_id, after=first, until=last, limit=PAGE)
            messages = [*page, *messages]
            last = first
        return messages if most is None else messages[-most:]

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
    if isinstance(item, dict) and TRUST[_role_of(item)] is message.trust:
        return cast("TResponseInputItem", item)
    # Added to the session through another interface: what neither the user nor the agent said is data, inside a block.
    is_said = message.trust in REVIEWED_TRUST
    text = message.content if is_said else fenced_text(message.content, trust=message.trust, who=message.speaker)
    role = "assistant" if message.trust is Trust.AGENT else "user"
    return cast("TResponseInputItem", {"role": role, "content": text})


def _message_of(item: Mapping[str, Any]) -> NewMessage:
    content = _text_of(item) or f"[{item.get('type', 'message')}]"
    return NewMessage(content=content, role=_role_of(item), metadata={ITEM: dict(item)})


def _role_of(item: Mapping[str, Any]) -> MessageRole:
    kind = str(item.get("type", "message"))
    if kind == "message" or "role" in item:
        return role_named(str(item.get("role", "user")))
    return MessageRole.TOOL if kind.endswith("_output") else MessageRole.ASSISTANT


def _text_of(item: Mapping[str, Any]) -> str:
    """The readable text of an item."""
    if "arguments" in item:
        return f"{item.get('name', 'call')}({item['arguments']})"
    content = item.get("content") or item.get("output") or item.get("summary") or ""
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, list):
        parts = [part.get("text") or part.get("refusal") or "" for part in content if isinstance(part, Mapping)]
        return "\n".join(str(part) for part in parts if part)
    return json.dumps(content)
