"""LangGraph's `BaseStore` over Recordari: what LangGraph's own stores promise, and that recall finds it too."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest

pytest.importorskip("langgraph.store.base")

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from tests.working import settled

from recordari.app import Memory
from recordari.core.identity import Identity
from recordari.errors import ConfigurationError, Unauthenticated
from recordari.integrations.base import Verbs
from recordari.integrations.langgraph import RecordariStore
from recordari.sync import Facade


@pytest.fixture
def store(verbs: Verbs) -> RecordariStore:
    return RecordariStore(verbs.acting_as(agent="assistant"))


async def test_an_item_is_put_read_replaced_and_deleted(store: RecordariStore) -> None:
    await store.aput(("users", "ana"), "profile", {"name": "Ana", "tags": ["a"], "n": {"x": None}})
    item = await store.aget(("users", "ana"), "profile")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (
        {"name": "Ana", "tags": ["a"], "n": {"x": None}},
        "profile",
        ("users", "ana"),
    )
    assert item.created_at.tzinfo is not None
    await store.aput(("users", "ana"), "profile", {"name": "Anna"})
    later = await store.aget(("users", "ana"), "profile")
    assert later is not None
    assert (later.value, later.created_at) == ({"name": "Anna"}, item.created_at)
    assert later.updated_at > item.updated_at
    await store.adelete(("users", "ana"), "profile")
    await store.adelete(("users", "ana"), "profile")
    assert await store.aget(("users", "ana"), "profile") is None
    assert await store.asearch(("users",)) == []


async def test_a_batch_answers_in_order_reads_before_it_writes_and_keeps_the_last_write(store: RecordariStore) -> None:
    await store.aput(("test",), "key1", {"data": "value1"})
    results = await store.abatch(
        [
            GetOp(namespace=("test",), key="key1"),
            PutOp(namespace=("test",), key="key2", value={"data": "first"}),
            SearchOp(namespace_prefix=("test",), filter={"data": "value1"}, limit=10, offset=0),
            ListNamespacesOp(match_conditions=None, max_depth=None, limit=10, offset=0),
            GetOp(namespace=("test",), key="key3"),
            PutOp(namespace=("test",), key="key2", value={"data": "last"}),
            PutOp(namespace=("test",), key="key1", value=None),
        ]
    )
    assert results[0] is not None
    assert [results[1], results[4], results[5], results[6]] == [None] * 4
    assert isinstance(results[2], list)
    assert [item.key for item in results[2]] == ["key1"]  # type: ignore[union-attr]
    assert results[3] == [("test",)]
    assert await store.aget(("test",), "key1") is None
    second = await store.aget(("test",), "key2")
    assert second is not None
    assert second.value == {"data": "last"}


FILTERS: list[dict[str, Any]] = [
    {},
    {"color": "red"},
    {"color": {"$ne": "red"}},
    {"score": {"$gt": 4.99}},
    {"score": {"$gte": 3, "$lte": 5}},
    {"score": {"$lt": 4}, "color": "red"},
    {"score": {"$eq": 4.5}},
    {"nested": {"a": 1}},
    {"tags": ["x", "y"]},
    {"missing": None},
]


async def test_filters_pages_and_listings_answer_as_langgraphs_own_store_does(store: RecordariStore) -> None:
    own = InMemoryStore()
    for number, value in enumerate(
        [
            {"color": "red", "score": 5, "nested": {"a": 1, "b": 2}, "tags": ["x", "y"]},
            {"color": "blue", "score": 3, "nested": {"a": 2}, "tags": ["x"]},
            {"color": "red", "score": 4.5, "nested": {}, "tags": []},
        ]
    ):
        for place in (("docs", str(number)), ("docs", str(number), "draft"), ("other",)):
            for each in (own, store):
                await each.aput(place, f"k{number}", value)
    for wanted in FILTERS:
        for prefix in ((), ("docs",), ("docs", "1"), ("doc",)):
            expected = {(item.namespace, item.key) for item in await own.asearch(prefix, filter=wanted, limit=50)}
            found = await store.asearch(prefix, filter=wanted, limit=50)
            assert {(item.namespace, item.key) for item in found} == expected, (wanted, prefix)
            assert len(found) == len(expected)
    ordered = [item.key for item in await store.asearch(("other",))]
    assert ordered == ["k2", "k1", "k0"]
    assert [item.key for item in await store.asearch(("other",), limit=1, offset=1)] == ["k1"]
    assert await store.asearch(("other",), limit=0) == []
    for asked in (
        {},
        {"prefix": ("docs",)},
        {"suffix": ("draft",)},
        {"prefix": ("docs", "*"), "suffix": ("draft",)},
        {"prefix": ("*",), "max_depth": 1},
        {"prefix": ("docs",), "max_depth": 2, "limit": 2, "offset": 1},
    ):
        assert await store.alist_namespaces(**asked) == await own.alist_namespaces(**asked), asked
    op = ListNamespacesOp(match_conditions=(MatchCondition(match_type="suffix", path=("draft",)),))
    assert await store.abatch([op]) == await own.abatch([op])
    with pytest.raises(ValueError, match="operators"):
        await store.asearch((), filter={"score": {"$near": 1}})


async def test_namespaces_that_langgraph_forbids_are_refused(store: RecordariStore) -> None:
    for bad in ((), ("the.thing",), ("",), ("langgraph", "x")):
        with pytest.raises(InvalidNamespaceError):
            await store.aput(bad, "key", {"a": 1})


async def test_an_item_lives_for_its_minutes_and_a_read_renews_them(memory: Memory) -> None:
    agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(agent="assistant")
    now = [datetime(2026, 5, 2, 12, 0, tzinfo=UTC)]
    timed = Memory(replace(memory.resources, clock=lambda: now[0]), agent.identity)
    store = RecordariStore(timed, ttl={"default_ttl": 10, "refresh_on_read": True})
    await store.aput(("n",), "default", {"a": 1})
    await store.aput(("n",), "short", {"a": 1}, ttl=0.5)
    await store.aput(("n",), "always", {"a": 1}, ttl=None)
    now[0] += timedelta(minutes=1)
    assert await store.aget(("n",), "short") is None
    now[0] += timedelta(minutes=7)
    assert await store.aget(("n",), "default") is not None
    now[0] += timedelta(minutes=9)
    assert await store.aget(("n",), "default", refresh_ttl=False) is not None
    now[0] += timedelta(minutes=2)
    assert await store.aget(("n",), "default") is None
    assert [item.key for item in await store.asearch(("n",))] == ["always"]


async def test_a_question_finds_by_meaning_and_recall_finds_it_too(memory: Memory) -> None:
    agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(agent="assistant")
    store = RecordariStore(agent, fields=["text"])
    await store.aput(("m",), "food", {"text": "I love pizza and pasta", "mood": "astronomy"})
    await store.aput(("m",), "job", {"text": "I am a software engineer"})
    await store.aput(("m",), "hobby", {"text": "nothing", "also": "I look at the stars"}, index=["also"])
    await store.aput(("m",), "plain", {"text": "I love food"}, index=False)
    await settled(memory)
    found = await store.asearch(("m",), query="what Italian food do I like to eat?", limit=4)
    assert found[0].key == "food"
    assert found[-1].key == "plain"
    scores = [item.score for item in found[:3]]
    assert all(score is not None for score in scores)
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    assert found[-1].score is None
    assert (await store.asearch(("m",), query="stars", limit=1))[0].key == "hobby"
    assert (await agent.recall("pizza")).items[0].content == "I love pizza and pasta"


async def test_a_store_shows_one_owner_only(verbs: Verbs) -> None:
    mine = RecordariStore(verbs.acting_as(user="ana", agent="assistant"))
    await mine.aput(("n",), "k", {"a": 1})
    await RecordariStore(verbs.acting_as(user="ana", agent="assistant"), scope="agent").aput(("n",), "k", {"a": 2})
    assert await RecordariStore(verbs.acting_as(user="bo", agent="assistant")).asearch(()) == []
    shared = await RecordariStore(verbs.acting_as(user="bo", agent="assistant"), scope="agent").aget(("n",), "k")
    assert shared is not None
    assert shared.value == {"a": 2}
    with pytest.raises(Unauthenticated):
        await RecordariStore(verbs).aput(("n",), "k", {"a": 1})


class Talk(TypedDict):
    said: str


def test_a_graph_remembers_between_threads_without_an_event_loop(waiting: Facade) -> None:
    def learn(state: Talk, *, store: BaseStore) -> Talk:
        store.put(("facts",), "last", {"text": state["said"]})
        return state

    def answer(state: Talk, *, store: BaseStore) -> Talk:
        item = store.get(("facts",), "last")
        assert item is not None
        return {"said": f"you said: {item.value['text']}"}

    builder = StateGraph(Talk)
    builder.add_node("learn", learn)
    builder.add_node("answer", answer)
    builder.add_edge(START, "learn")
    builder.add_edge("learn", "answer")
    builder.add_edge("answer", END)
    graph = builder.compile(store=RecordariStore(waiting.acting_as(agent="assistant")))
    assert graph.invoke({"said": "I like tea"}) == {"said": "you said: I like tea"}
    assert asyncio.run(graph.ainvoke({"said": "Coffee now"})) == {"said": "you said: Coffee now"}


def test_sync_calls_on_an_async_memory_say_what_to_give_instead(memory: Memory) -> None:
    with pytest.raises(ConfigurationError, match=r"recordari\.sync"):
        RecordariStore(memory.acting_as(agent="a")).get(("n",), "k")
