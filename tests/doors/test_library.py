"""The library as a user meets it: public names, the sync facade, opening and closing."""

from __future__ import annotations

import asyncio
import inspect

import pytest

import recordari
from recordari import sync
from recordari.app import Memory
from recordari.config import Settings
from recordari.errors import NotFound


def test_every_public_name_can_be_imported() -> None:
    for name in recordari.__all__:
        assert getattr(recordari, name) is not None
    assert len(recordari.__all__) <= 15
    with pytest.raises(AttributeError):
        _ = recordari.nothing


def test_the_sync_memory_remembers_and_recalls(settings: Settings) -> None:
    with sync.Memory.open(user="ana", settings=settings) as memory:
        first = memory.remember_fact("Ana prefers tea in the morning")
        again = memory.remember_fact("Ana prefers tea in the morning.")
        assert first.was_new and not again.was_new and first.id == again.id
        assert memory.recall("What does Ana drink, tea or coffee?").items[0].content == "Ana prefers tea in the morning"
        assert memory.acting_as(user="bob").recall("tea").items == ()
        with pytest.raises(NotFound):
            memory.get_agent("nobody")


def test_the_sync_memory_works_inside_a_running_event_loop(settings: Settings) -> None:
    async def inside() -> str:
        with sync.Memory.open(settings=settings) as memory:
            return str(memory.get_tenant().name)

    assert asyncio.run(inside()) == "default"


def test_the_sync_memory_has_every_verb() -> None:
    verbs = {
        name
        for name, value in inspect.getmembers(Memory)
        if not name.startswith("_") and inspect.iscoroutinefunction(value)
    }
    assert {"remember", "recall", "create_key"} <= verbs
    facade = sync.Memory(Memory(None, None), None)  # type: ignore[arg-type]
    assert all(callable(getattr(facade, verb)) for verb in verbs)


async def test_two_memories_of_one_process_share_the_database(settings: Settings) -> None:
    async with (
        Memory.open(user="ana", settings=settings) as one,
        Memory.open(user="ana", settings=settings, worker=False) as other,
    ):
        await one.remember_fact("The safe code is in the blue folder")
        assert (await other.recall("safe code folder")).total == 1
