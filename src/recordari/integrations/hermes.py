"""Hermes: a memory provider. It recalls before each turn, keeps each turn, and gives the model tools to recall and remember.

    # $HERMES_HOME/plugins/recordari/__init__.py, with `memory: {provider: recordari}` in config.yaml
    from recordari import sync
    from recordari.integrations.hermes import RecordariMemoryProvider

    def register(context):
        memory = sync.Client.open("http://127.0.0.1:8765", key="rcd_…").__enter__()
        context.register_memory_provider(RecordariMemoryProvider(memory))

The profile of Hermes is the agent, its session is the session; the user is that of the platform, or `user`. Turns are kept in
the background. When memory is away, Hermes goes on without it, and its log says so.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import UUID

from agent.memory_provider import MemoryProvider

from recordari.errors import RecordariError
from recordari.integrations.base import MemoryCaller, prompt_block
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.sync import Facade

__all__ = ["RecordariMemoryProvider"]

T = TypeVar("T")
NAME = "recordari"
MOST_ASKED = 8_000  # characters of a question
TOOLS: Mapping[str, tuple[str, str, str]] = {
    "recordari_recall": (
        "Search long-term memory: earlier messages, facts about the user, documents. Ask in plain words.",
        "query",
        "The question.",
    ),
    "recordari_remember": (
        "Keep one fact beyond this conversation, as a full sentence with names instead of pronouns.",
        "content",
        "The fact.",
    ),
    "recordari_forget": (
        "Remove one memory for good. Only when the user asks for it; it cannot be undone.",
        "id",
        "`id` of a recalled memory.",
    ),
}

_log = logging.getLogger(__name__)


class RecordariMemoryProvider(MemoryProvider):
    """Recordari in the memory slot of Hermes."""

    def __init__(self, memory: Facade, *, user: str = "me", top_k: int = 5) -> None:
        self._memory = MemoryCaller(memory)
        self._acting = self._memory
        self._user = user
        self._top_k = top_k
        self._session = ""
        self._keeps = True
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix=NAME)

    @property
    def name(self) -> str:
        return NAME

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Learn whose session it is. Only the agent that talks with a person writes."""
        self._session = session_id
        self._keeps = kwargs.get("agent_context", "primary") == "primary"
        user, agent = kwargs.get("user_id") or self._user, kwargs.get("agent_identity") or "hermes"
        self._acting = self._memory.acting_as(user=str(user), agent=str(agent))

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory (Recordari). What it knows about a message comes with it, as data. Search it with "
            "recordari_recall before you say that you do not know, and keep lasting facts with recordari_remember."
        )

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What memory knows about a message, in a block with its sources."""
        if not query.strip():
            return ""
        answer = self._safely(lambda: self._recall(query))
        return prompt_block(answer) if answer is not None else ""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Keep what was said, in the background."""
        said = [
            NewMessage(content=text, role=role)
            for role, text in ((MessageRole.USER, user_content), (MessageRole.ASSISTANT, assistant_content))
            if text.strip()
        ]
        session = session_id or self._session
        if said and self._keeps:
            acting = self._acting.acting_as(session=session)
            self._later(lambda: acting.wait(acting.memory.add_messages(said, session_id=session, scope="user")))

    def on_session_switch(self, new_session_id: str, **kwargs: Any) -> None:
        self._session = new_session_id

    def on_session_end(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Close the session, so that it is consolidated."""
        if self._keeps and self._session:
            acting, session = self._acting, self._session
            self._later(lambda: acting.wait(acting.memory.close_session(session)))

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Keep what the agent writes into Hermes' own memory, too."""
        if action in {"add", "replace"} and content.strip() and self._keeps:
            acting, scope = self._acting, "user" if target == "user" else "agent"
            self._later(lambda: acting.wait(acting.memory.remember_fact(content, scope=scope)))

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "description": description,
                "parameters": {
                    "type": "object",
                    "properties": {argument: {"type": "string", "description": meaning}},
                    "required": [argument],
                },
            }
            for name, (description, argument, meaning) in TOOLS.items()
        ]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """The answer of a tool as JSON; an error says what to do."""
        _, argument, _ = TOOLS[tool_name]
        given = str(args.get(argument) or "")
        try:
            return json.dumps(self._called(tool_name, given))
        except (RecordariError, ValueError) as error:
            return json.dumps({"error": str(error)})

    def _called(self, tool_name: str, given: str) -> object:
        acting = self._acting
        if tool_name == "recordari_recall":
            items = self._recall(given).items
            return {
                "memories": [
                    {
                        "id": str(one.id),
                        "content": one.content,
                        "trust": str(one.trust),
                        "when": one.event_time.isoformat(),
                    }
                    for one in items
                ]
            }
        if tool_name == "recordari_remember":
            return {"id": str(acting.wait(acting.memory.remember_fact(given)).id)}
        return {"forgotten": len(acting.wait(acting.memory.forget(UUID(given), reason="asked")).item_ids)}

    def _recall(self, query: str) -> Any:
        return self._acting.wait(self._acting.memory.recall(query[:MOST_ASKED], top_k=self._top_k))

    def shutdown(self) -> None:
        """Finish what is being kept."""
        self._writer.shutdown(wait=True)

    def _later(self, work: Callable[[], object]) -> None:
        self._writer.submit(self._safely, work)

    def _safely(self, work: Callable[[], T]) -> T | None:
        """Hermes works on when memory cannot be asked."""
        try:
            return work()
        except RecordariError as error:
            _log.warning("memory could not be asked: %s", error.code)
            return None
