"""The library as a user meets it: public names, the sync facade, opening and closing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

import recordari
from recordari import sync
from recordari.app import Memory
from recordari.client import Client
from recordari.config import Settings
from recordari.core.items import NewItem
from recordari.errors import InvalidInput, NotFound

TEA = NewItem(content="tea")


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


@pytest.mark.parametrize(("facade", "original"), [(sync.Memory, Memory), (sync.Client, Client)])
def test_the_sync_classes_list_every_verb_with_its_signature(facade: type, original: type) -> None:
    verbs = {
        name
        for name, value in inspect.getmembers(original, inspect.isfunction)
        if not name.startswith("_") and name not in {"bound", "close"}
    }
    assert {"remember", "recall", "create_key"} <= verbs <= set(dir(facade))
    for name in verbs - {"acting_as"}:
        assert inspect.signature(getattr(facade, name)) == inspect.signature(getattr(original, name)), name
    assert not hasattr(facade, "no_such_verb")


WRONG: list[tuple[str, Callable[[Any], Awaitable[Any]]]] = [
    ("query", lambda memory: memory.recall(5)),
    ("top_k", lambda memory: memory.recall("tea", top_k="5")),
    ("top_k", lambda memory: memory.recall("tea", top_k=True)),
    ("top_k", lambda memory: memory.recall("tea", top_k=None)),
    ("since", lambda memory: memory.recall("tea", since="yesterday")),
    ("source_kinds", lambda memory: memory.recall("tea", source_kinds=[])),
    ("source_kinds", lambda memory: memory.recall("tea", source_kinds="fact")),
    ("source_kinds", lambda memory: memory.recall("tea", source_kinds=["rumour"])),
    ("item_id", lambda memory: memory.get_item("tea")),
    ("confidence", lambda memory: memory.remember_many([replace(TEA, confidence="high")])),  # type: ignore[arg-type]
    ("speaker", lambda memory: memory.remember_many([replace(TEA, speaker=5)])),  # type: ignore[arg-type]
    ("metadata", lambda memory: memory.remember_fact("tea", metadata=["a"])),
    ("messages", lambda memory: memory.add_messages([{"content": "tea"}], session_id="chat")),
    ("messages", lambda memory: memory.add_messages("tea", session_id="chat")),
    ("limit", lambda memory: memory.list_workflows(limit=0)),
    ("limit", lambda memory: memory.list_users(limit=-1)),
    ("limit", lambda memory: memory.list_audit(limit=0)),
    ("deleted_days", lambda memory: memory.set_retention_policy(deleted_days="7")),
]


async def test_a_wrong_argument_is_refused_by_its_name(memory: Memory) -> None:
    for field, call in WRONG:
        with pytest.raises(InvalidInput) as refused:
            await call(memory)
        assert refused.value.details["field"] == field, refused.value.message


def test_the_signature_of_a_verb_says_what_it_takes() -> None:
    for name, verb in inspect.getmembers(Memory, inspect.isfunction):
        for parameter in inspect.signature(verb).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                assert name == "enqueue_job" or "Unpack" in str(parameter.annotation), f"{name} hides what it takes"


async def test_two_memories_of_one_process_share_the_database(settings: Settings) -> None:
    async with (
        Memory.open(user="ana", settings=settings) as one,
        Memory.open(user="ana", settings=settings, worker=False) as other,
    ):
        await one.remember_fact("The safe code is in the blue folder")
        assert (await other.recall("safe code folder")).total == 1
