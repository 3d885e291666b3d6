"""Agno's `MemoryManager` over Recordari, in the framework's own agent with a local model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("agno", reason="tested by `make test-agno`")

from agno.agent import Agent
from agno.db.schemas.memory import UserMemory
from agno.models.base import Model
from agno.models.response import ModelResponse
from tests.patience import until

from recordari.integrations.agno import RecordariMemoryManager, memory_tools
from recordari.sync import Facade

pytestmark = pytest.mark.filterwarnings("default")


class Echo(Model):
    """A model that repeats what it was told before the question."""

    def __init__(self) -> None:
        super().__init__(id="echo")

    def _told(self, messages: Any) -> ModelResponse:
        told = " ".join(str(one.content) for one in messages if one.role != "user")
        return ModelResponse(role="assistant", content=f"I was told: {told}")

    def invoke(self, messages: Any, *_: Any, **__: Any) -> ModelResponse:
        return self._told(messages)

    async def ainvoke(self, messages: Any, *_: Any, **__: Any) -> ModelResponse:
        return self._told(messages)

    def invoke_stream(self, messages: Any, *_: Any, **__: Any) -> Iterator[ModelResponse]:
        yield self._told(messages)

    async def ainvoke_stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[ModelResponse]:
        yield self._told(messages)

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return ModelResponse()

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return ModelResponse()


def agent(memory: Facade, **more: Any) -> Agent:
    manager = RecordariMemoryManager(memory, agent="support")
    return Agent(model=Echo(), memory_manager=manager, update_memory_on_run=True, telemetry=False, **more)


def test_what_a_user_says_is_kept_and_what_is_known_is_shown(waiting: Facade) -> None:
    agent(waiting).run("My sister Noor lives in Bergen.", user_id="ana", session_id="one")
    ana = waiting.acting_as(user="ana")

    def is_kept() -> bool:
        found = ana.recall("Where does Noor live?").items
        return any("Bergen" in item.content for item in found)

    asyncio.run(until(is_kept))
    ana.remember_fact("Ana's favourite tea is oolong")
    told = str(agent(waiting).run("What tea do I like?", user_id="ana", session_id="two").content)
    assert "favourite tea is oolong" in told
    assert "oolong" not in str(agent(waiting).run("What tea do I like?", user_id="bo", session_id="three").content)


async def test_an_agent_with_an_event_loop_uses_the_same_memory(waiting: Facade) -> None:
    await agent(waiting).arun("My brother Emil lives in Ghent.", user_id="ana", session_id="one")
    manager = RecordariMemoryManager(waiting, agent="support")
    assert await manager.aupdate_memory_task("Ana sails on Sundays", user_id="ana") == "kept"
    told = str((await agent(waiting).arun("What do I do on Sundays?", user_id="ana", session_id="two")).content)
    assert "Ana sails on Sundays" in told
    found = manager.search_user_memories("Where does Emil live?", user_id="ana")
    assert any("Ghent" in one.memory for one in found)


def test_memories_are_added_changed_searched_and_forgotten(waiting: Facade) -> None:
    manager = RecordariMemoryManager(waiting)
    first = manager.add_user_memory(UserMemory(memory="Ana collects stamps", topics=["hobby"]), user_id="ana")
    second = manager.replace_user_memory(first, UserMemory(memory="Ana collects coins"), user_id="ana")
    (kept,) = manager.get_user_memories("ana")
    assert (kept.memory, kept.memory_id) == ("Ana collects coins", second)
    assert manager.get_user_memory(second, "ana") == kept and manager.get_user_memories("bo") == []
    waiting.acting_as(user="ana").remember("Coins are free today", kind="fact", scope="user", trust="external")
    newest = manager.search_user_memories(limit=1, user_id="ana")[0]
    assert '"trust": "external"' in newest.memory, "foreign words are shown as data"
    recall, remember_fact = memory_tools(waiting, user="ana")
    assert remember_fact("Ana's album is blue") == "kept" and "[begin memory " in recall("Which colour has the album?")
    manager.clear_user_memories("ana")
    assert manager.get_user_memories("ana") == []
