"""Entries: documents by namespace and key, that can be filtered and searched, and that recall finds (X8)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.working import settled

from recordari.app import Memory
from recordari.core.identity import Identity
from recordari.entries.entries import sweep_entries
from recordari.entries.rules import indexed_text, matching
from recordari.errors import Forbidden, InvalidInput, NotFound, PreconditionFailed, TooLarge, Unauthenticated
from recordari.kit.resources import Resources
from recordari.tenants import tenants

PLACE = ("preferences", "travel")


def as_agent(memory: Memory, **who: str) -> Memory:
    """The same tenant without the rights of an administrator."""
    return memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(**who)


async def keys(memory: Memory, prefix: tuple[str, ...] = (), **more: Any) -> list[str]:
    return [found.key for found in await memory.search_entries(prefix, **more)]


async def test_a_document_is_kept_read_replaced_and_removed_by_its_key(memory: Memory) -> None:
    ana = as_agent(memory, user="ana")
    first = await ana.put_entry(PLACE, "seat", {"text": "aisle", "rows": [1, 2.5, None, True, "ü"]})
    assert (first.version, first.namespace, first.scope, first.owner_id) == (1, PLACE, "user", "ana")
    second = await ana.put_entry(PLACE, "seat", {"text": "window"})
    assert (second.version, second.created_at, second.item_id) == (2, first.created_at, first.item_id)
    assert (await ana.get_entry(PLACE, "seat")).value == {"text": "window"}
    with pytest.raises(NotFound):
        await ana.get_entry(PLACE[:1], "seat")
    await ana.delete_entry(PLACE, "seat")
    for gone in (ana.get_entry(PLACE, "seat"), ana.delete_entry(PLACE, "seat")):
        with pytest.raises(NotFound):
            await gone
    assert (await ana.put_entry(PLACE, "seat", {"text": "aisle"})).version == 1
    assert first.item_id is not None
    assert (await ana.recall("aisle or window seat", source_kinds=["entry"])).items[0].content == "aisle"


async def test_a_document_belongs_to_one_user_or_agent(memory: Memory) -> None:
    ana, bo = as_agent(memory, user="ana", agent="helper"), as_agent(memory, user="bo", agent="other")
    await ana.put_entry(PLACE, "seat", {"text": "aisle"})
    await ana.put_entry(PLACE, "rule", {"text": "ask first"}, scope="agent")
    for read in (bo.get_entry(PLACE, "seat"), bo.get_entry(PLACE, "rule", scope="agent")):
        with pytest.raises(NotFound):
            await read
    assert await keys(bo, PLACE) == [] == await bo.list_namespaces()
    assert (await as_agent(memory, user="bo", agent="helper").get_entry(PLACE, "rule", scope="agent")).key == "rule"
    assert (await as_agent(memory, agent="helper").get_entry(PLACE, "rule")).key == "rule"
    with pytest.raises(Unauthenticated):
        await as_agent(memory).put_entry(PLACE, "seat", {"text": "aisle"})
    with pytest.raises(Forbidden):
        await ana.put_entry(PLACE, "house", {"text": "closed on Monday"}, scope="tenant")
    await memory.put_entry(PLACE, "house", {"text": "closed on Monday"}, scope="tenant")
    assert (await bo.get_entry(PLACE, "house", scope="tenant")).value == {"text": "closed on Monday"}


async def test_a_version_named_guards_a_change(memory: Memory) -> None:
    ana = as_agent(memory, user="ana")
    await ana.put_entry(PLACE, "seat", {"n": 1}, if_version=0)
    for late in (0, 2):
        with pytest.raises(PreconditionFailed):
            await ana.put_entry(PLACE, "seat", {"n": 2}, if_version=late)
    assert (await ana.put_entry(PLACE, "seat", {"n": 2}, if_version=1)).version == 2
    with pytest.raises(PreconditionFailed):
        await ana.delete_entry(PLACE, "seat", if_version=1)
    with pytest.raises(PreconditionFailed):
        await ana.put_entry(PLACE, "meal", {"n": 1}, if_version=3)
    assert (await ana.get_entry(PLACE, "seat")).value == {"n": 2}


async def test_a_document_ends_after_its_time_unless_it_is_read(memory: Memory) -> None:
    now = datetime(2026, 5, 2, 12, tzinfo=UTC)
    ana = as_agent(memory, user="ana")

    def at(minutes: int) -> Memory:
        return Memory(replace(memory.resources, clock=lambda: now + timedelta(minutes=minutes)), ana.identity)

    await at(0).put_entry(PLACE, "read", {"text": "aisle"}, ttl=timedelta(minutes=10))
    await at(0).put_entry(PLACE, "glanced", {"text": "aisle"}, ttl=timedelta(minutes=10))
    await at(0).put_entry(PLACE, "kept", {"text": "aisle"})
    await at(8).get_entry(PLACE, "read")
    await at(8).get_entry(PLACE, "glanced", refresh=False)
    assert sorted(await keys(at(12), PLACE, refresh=False)) == ["kept", "read"]
    await at(17).search_entries(PLACE)
    assert (await at(26).get_entry(PLACE, "read")).key == "read"
    assert (await at(12).put_entry(PLACE, "glanced", {"text": "window"})).version == 1
    await at(40).put_entry(PLACE, "short", {"text": "hidden gem"}, ttl=timedelta(seconds=1))
    admin = Memory(at(50).resources, memory.identity)
    await sweep_entries(admin.resources, admin.identity)
    assert (await ana.recall("hidden gem", source_kinds=["entry"])).items == ()


async def test_documents_are_filtered_by_their_fields(memory: Memory) -> None:
    ana = as_agent(memory, user="ana")
    documents: dict[str, dict[str, Any]] = {
        "a": {"status": "open", "score": 3, "tags": ["x", "y"], "who": {"name": "Bo", "age": 7}},
        "b": {"status": "done", "score": 4.5, "tags": ["x"], "who": {"name": "Cy"}, "note": None},
        "c": {"status": "open", "score": "3", "tags": "x"},
    }
    for key, value in documents.items():
        await ana.put_entry(("tasks", key), key, value)
    for wanted, expected in (
        ({"status": "open"}, "ac"),
        ({"status": {"$ne": "open"}}, "b"),
        ({"score": 3}, "a"),
        ({"score": {"$gt": 3}}, "b"),
        ({"score": {"$gte": 3, "$lt": 4}}, "a"),
        ({"score": {"$lte": "3"}}, "c"),
        ({"score": {"$ne": 3}}, "bc"),
        ({"tags": ["x"]}, "b"),
        ({"tags": "x"}, "c"),
        ({"tags": {"$ne": ["x"]}}, "ac"),
        ({"who": {"name": "Bo"}}, "a"),
        ({"who": {"name": {"$ne": "Bo"}}}, "b"),
        ({"note": None}, "abc"),
        ({"status": "open", "score": 3}, "a"),
        ({'sta"tus': "open"}, ""),
        ({}, "abc"),
    ):
        assert "".join(sorted(await keys(ana, ("tasks",), filter=wanted))) == expected, wanted
    for bad in ({"score": {"$near": 3}}, {"tags": {"$gt": ["x"]}}):
        with pytest.raises(InvalidInput):
            await ana.search_entries((), filter=bad)


async def test_documents_below_a_namespace_come_latest_first_page_by_page(memory: Memory) -> None:
    ana = as_agent(memory, user="ana")
    for number in range(5):
        await ana.put_entry(("a", str(number % 2)), f"k{number}", {"n": number})
    await ana.put_entry(("ab",), "other", {"n": 9})
    assert await keys(ana, ("a",)) == ["k4", "k3", "k2", "k1", "k0"]
    assert await keys(ana, ("a", "1")) == ["k3", "k1"]
    assert await keys(ana, ("a",), limit=2, offset=1) == ["k3", "k2"]
    await ana.put_entry(("a", "0"), "k0", {"n": 0})
    assert (await keys(ana, ()))[0] == "k0"


async def test_a_question_finds_by_meaning_once_embedded_and_by_words_at_once(memory: Memory) -> None:
    ana = as_agent(memory, user="ana")
    await ana.put_entry(("m",), "drink", {"text": "I love green tea in the morning", "code": "QX-7781"})
    await ana.put_entry(("m",), "dog", {"text": "The dog barks at night"})
    await ana.put_entry(("m",), "secret", {"text": "green tea"}, index=False)
    await ana.put_entry(("m",), "title", {"title": "Holidays", "text": "green tea"}, index=["title"])
    assert (await keys(ana, ("m",), query="QX-7781"))[0] == "drink"
    await settled(memory)
    found = await ana.search_entries(("m",), query="hot beverage to wake up with, green tea")
    assert found[0].key == "drink"
    assert found[0].score is not None
    assert (found[-1].key, found[-1].score) == ("secret", None)
    recalled = await ana.recall("green tea", source_kinds=["entry"])
    assert recalled.items[0].content == "I love green tea in the morning\nQX-7781"
    assert "green tea" not in [item.content for item in recalled.items]
    await ana.put_entry(("m",), "drink", {"text": "coffee"}, index=False)
    assert "tea" not in str((await ana.recall("green tea", source_kinds=["entry"])).items)


async def test_namespaces_are_listed_by_their_ends_and_to_a_depth(memory: Memory) -> None:
    ana = as_agent(memory, user="ana")
    for place in (("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "c", "f")):
        await ana.put_entry(place, "k", {"n": 1})
    assert await ana.list_namespaces(prefix=("a", "b"), max_depth=3) == [("a", "b", "c"), ("a", "b", "d")]
    assert await ana.list_namespaces(suffix=("f",)) == [("a", "c", "f")]
    assert await ana.list_namespaces(prefix=("*", "b"), suffix=("*",), limit=1, offset=1) == [("a", "b", "d", "e")]


async def test_forgetting_and_erasing_take_documents_along(memory: Memory) -> None:
    ana = as_agent(memory, user="ana")
    kept = await ana.put_entry(PLACE, "seat", {"text": "aisle"})
    assert kept.item_id is not None
    await ana.forget(kept.item_id)
    with pytest.raises(NotFound):
        await ana.get_entry(PLACE, "seat")
    await ana.put_entry(PLACE, "seat", {"text": "aisle"})
    await ana.put_entry(PLACE, "hidden", {"text": "aisle"}, index=False)
    await memory.erase_user("ana")
    assert await keys(ana, ()) == []


async def test_an_export_carries_documents_elsewhere(memory: Memory, resources: Resources) -> None:
    ana = as_agent(memory, user="ana")
    await ana.put_entry(PLACE, "seat", {"text": "aisle"}, ttl=timedelta(days=1))
    await ana.put_entry(PLACE, "hidden", {"n": 1}, index=False)
    lines = [line async for line in memory.export()]
    tenant = await tenants.ensure_tenant(resources, "elsewhere")
    there = memory.bound(replace(memory.identity, tenant_id=tenant.tenant_id))
    for _ in range(2):
        await there.import_export(lines)
    moved = as_agent(there, user="ana")
    assert (await moved.get_entry(PLACE, "seat")).value == {"text": "aisle"}
    assert sorted(await keys(moved, PLACE)) == ["hidden", "seat"]
    assert (await moved.recall("aisle", source_kinds=["entry"])).total == 1


async def test_bad_names_values_and_lifetimes_are_refused(memory: Memory) -> None:
    ana = as_agent(memory, user="ana")
    for place, key, value, more in (
        ((), "k", {}, {}),
        ("text", "k", {}, {}),
        (("",), "k", {}, {}),
        (("a\x1fb",), "k", {}, {}),
        (("a",), "", {}, {}),
        (("a",), "x" * 3000, {}, {}),
        (("a",) * 21, "k", {}, {}),
        (("a",), "k", [1], {}),
        (("a",), "k", {"n": float("nan")}, {}),
        (("a",), "k", {}, {"ttl": timedelta(0)}),
        (("a",), "k", {"a": 1}, {"index": ["a..b["]}),
        (("a",), "k", {}, {"scope": "session"}),
        (("a",), "k", {}, {"scope": "nobody"}),
    ):
        with pytest.raises(InvalidInput):
            await ana.put_entry(place, key, value, **more)  # type: ignore[arg-type]
    with pytest.raises(TooLarge):
        await ana.put_entry(("a",), "k", {"text": "x" * 2**20})
    with pytest.raises(InvalidInput):
        await ana.search_entries((), limit=0)


async def test_secrets_are_taken_out_of_documents_too(memory: Memory) -> None:
    await memory.update_tenant(settings={"privacy": {"enabled": True}})
    ana = as_agent(memory, user="ana")
    card = "4111 1111 1111 1111"
    await ana.put_entry(PLACE, "card", {"text": f"pay with {card}"})
    assert card not in str((await ana.get_entry(PLACE, "card")).value)


def test_fields_to_index_are_read_by_their_paths() -> None:
    value = {"title": "T", "parts": [{"text": "a"}, {"text": "b"}, {}], "by": {"name": "N"}, "n": 3}
    assert indexed_text(value, None) == "T\na\nb\nN\n3"
    assert indexed_text(value, ["parts[*].text", "by.name"]) == "a\nb\nN"
    assert indexed_text(value, ["parts[-2].text"]) == "b"
    assert indexed_text(value, ["missing"]) is None
    assert indexed_text(value, False) is None


@settings(max_examples=50)
@given(st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple), max_size=8))
def test_a_listing_cut_to_a_depth_has_each_namespace_once_in_order(namespaces: list[tuple[str, ...]]) -> None:
    found = matching(namespaces, max_depth=2)
    assert found == sorted(set(found))
    assert {each[:2] for each in namespaces} == set(found)
