"""Strands' `MemoryStore` over Recordari, in the framework's own agent with a local model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("strands", reason="tested by `make test-strands`")

from strands import Agent
from strands.memory import AddMessagesContext, MemoryManager
from strands.models.model import Model

from recordari.integrations.base import Verbs
from recordari.integrations.strands import RecordariMemoryStore
from recordari.sync import Facade

pytestmark = pytest.mark.filterwarnings("default")


class Echo(Model):  # type: ignore[misc,unused-ignore]
    """A model that notes what it is asked, and says one sentence."""

    def __init__(self) -> None:
        self.asked = ""

    def update_config(self, **_: Any) -> None:
        """It has none."""

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.asked = json.dumps(messages)
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "All right, noted."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def store_of(memory: Any, user: str, session: str) -> RecordariMemoryStore:
    return RecordariMemoryStore(memory, user=user, agent="support", session=session)


async def test_an_agent_knows_in_a_later_session_what_was_said_in_an_earlier_one(verbs: Verbs) -> None:
    async def asked(user: str, session: str, question: str) -> str:
        model = Echo()
        manager = MemoryManager(stores=[store_of(verbs, user, session)])
        await Agent(model=model, memory_manager=manager, callback_handler=None).invoke_async(question)
        await manager.flush()
        return model.asked

    assert "oolong" not in await asked("ana", "one", "My favourite tea is called Dong Ding.")
    assert "favourite tea is called Dong Ding" in await asked("ana", "two", "Which tea is my favourite?")
    assert "Dong Ding" not in await asked("bo", "three", "Which tea is my favourite?")
    kept = await verbs.acting_as(user="ana", agent="support").list_messages("two")
    assert [(str(one.role), one.content) for one in kept] == [
        ("user", "Which tea is my favourite?"),
        ("assistant", "All right, noted."),
    ], "what was shown is not kept"


def test_an_agent_without_an_event_loop_uses_the_same_memory(waiting: Facade) -> None:
    model = Echo()
    waiting.acting_as(user="ana").remember_fact("Ana's boat is called Halcyon")
    agent = Agent(
        model=model, memory_manager=MemoryManager(stores=[store_of(waiting, "ana", "one")]), callback_handler=None
    )
    agent("What is my boat called?")
    assert "Halcyon" in model.asked


async def test_a_store_keeps_each_message_once_and_shows_foreign_words_as_data(verbs: Verbs) -> None:
    store = store_of(verbs, "ana", "one")
    batch: Any = [{"role": "user", "content": [{"text": "ok"}]}, {"role": "user", "content": [{"text": "ok"}]}]
    for _ in range(2):
        await store.add_messages(batch, AddMessagesContext(sequence_numbers=[0, 1]))
    assert len(await verbs.acting_as(user="ana", agent="support").list_messages("one")) == 2
    await store.add("Ana sails on Sundays", {"topic": "sport"})
    await verbs.acting_as(user="ana").remember("Sails are free on Sundays", kind="fact", scope="user", trust="external")
    found = await store.search("What about Sundays?", {"max_search_results": 5})
    assert any(entry.content == "Ana sails on Sundays" for entry in found)
    foreign = next(entry for entry in found if "free" in entry.content)
    assert "[begin memory " in foreign.content and (foreign.metadata or {})["trust"] == "external"
    assert await store.search("  ") == []
