"""What a tenant wants to learn, what is learnt, and what is stated: against the real database."""

from __future__ import annotations

from typing import Any

import pytest
from tests.doors.rest_door import open_door
from tests.working import settled

from recordari.app import Memory
from recordari.core.items import Kind, Tier
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources

WISHES = {
    "never": [{"name": "health", "words": ["allergic", "aspirin"]}],
    "categories": [{"name": "delivery", "examples": ["Leave the parcel with the neighbour"]}],
    "agents": {"helper": {"never": ["Lund"]}},
}


@pytest.fixture
def chat(memory: Memory) -> Memory:
    return memory.acting_as(user="ana", session="talk")


async def facts(memory: Memory) -> dict[str, str | None]:
    items = (await memory.list_items(kinds=[Kind.FACT])).items
    return {item.content: item.category for item in items}


async def test_topics_are_never_kept_and_own_categories_are_used(memory: Memory, chat: Memory) -> None:
    await memory.update_tenant(settings={"learning": WISHES})
    await chat.remember(
        "I am allergic to nuts. Always leave my parcel with the neighbour. I live in Lund.", speaker="Ana"
    )
    await settled(memory)
    found = await facts(memory)
    assert not any("allergic" in text for text in found)
    assert {category for text, category in found.items() if "parcel" in text} == {"delivery"}
    assert any("Lund" in text for text in found)


async def test_an_agent_adds_its_own_topics(memory: Memory) -> None:
    await memory.update_tenant(settings={"learning": WISHES})
    await memory.acting_as(user="ana", agent="helper", session="talk").remember("I live in Lund.", speaker="Ana")
    await settled(memory)
    assert await facts(memory) == {}


async def test_a_preview_shows_what_would_be_learnt_and_keeps_nothing(memory: Memory, chat: Memory) -> None:
    text = "I live in Lund. I take aspirin every morning."
    plain = await chat.preview_facts(text, speaker="Ana")
    assert [(fact.content, fact.refused) for fact in plain] == [
        ("Ana lives in Lund.", None),
        ("Ana takes aspirin every morning.", None),
    ]
    tried = await chat.preview_facts(text, speaker="Ana", learning=WISHES)
    assert [fact.refused for fact in tried] == [None, "health"]
    # Words of similar meaning, which the topics do not list.
    near = await chat.preview_facts(
        "I have diabetes. I go to church on Sundays. I play chess on Tuesdays. I live in a small flat.",
        speaker="Ana",
        learning={"never": ["health", "religion"]},
    )
    assert [fact.refused for fact in near] == ["health", "religion", None, None]
    assert [fact.refused for fact in await chat.preview_facts(text, learning=WISHES, agent_id="helper")] == [
        "Lund",
        "health",
    ]
    await settled(memory)
    assert await facts(memory) == {}
    with pytest.raises(InvalidInput, match="text"):
        await chat.preview_facts("  ")


@pytest.mark.parametrize(
    "wrong",
    [
        {"topics": []},
        {"never": "health"},
        {"never": [{"words": ["x"]}]},
        {"categories": [{"name": "x", "examples": "y"}]},
        {"agents": {"helper": {"nope": 1}}},
        ["health"],
    ],
)
async def test_a_wrong_setting_is_refused_and_changes_nothing(memory: Memory, wrong: Any) -> None:
    await memory.update_tenant(settings={"learning": WISHES})
    with pytest.raises(InvalidInput, match="learning"):
        await memory.update_tenant(settings={"learning": wrong})
    assert (await memory.get_tenant()).settings["learning"] == WISHES


async def test_she_is_the_person_whom_the_session_named_before(memory: Memory, chat: Memory) -> None:
    await chat.remember("My sister Mona called yesterday.", speaker="Ana")
    await chat.acting_as(session="another talk").remember("She has moved to Oslo.", speaker="Ana")
    await chat.remember("She lives in Lyon now.", speaker="Ana")
    await settled(memory)
    assert [text for text in await facts(memory) if "Lyon" in text or "Oslo" in text] == [
        "Ana's sister Mona lives in Lyon now."
    ]


async def test_a_fact_that_was_extracted_lasts_once_it_is_stated(memory: Memory, chat: Memory) -> None:
    await chat.remember("I live in Lund.", speaker="Ana")
    await settled(memory)
    (before,) = (await chat.list_items(kinds=[Kind.FACT])).items
    assert before.tier is Tier.RECENT
    stated = await chat.remember_fact("Ana lives in Lund", subject="Ana", predicate="lives_in", object="Lund")
    (after,) = (await chat.list_items(kinds=[Kind.FACT])).items
    assert (stated.id, stated.was_new, after.item_id) == (before.item_id, False, before.item_id)
    assert after.tier is Tier.PERSISTENT


async def test_a_stated_fact_has_a_category_and_its_own_where_one_is_given(chat: Memory) -> None:
    await chat.remember_fact("Ana prefers tea")
    await chat.remember_fact("Ana lives in Lund")
    await chat.remember_fact("The team decided to drop the podcast")
    await chat.remember_fact("Ana has a boat", category="leisure")
    assert await facts(chat) == {
        "Ana prefers tea": "preference",
        "Ana lives in Lund": "personal",
        "The team decided to drop the podcast": "decision",
        "Ana has a boat": "leisure",
    }


async def test_rest_takes_subject_predicate_and_object_and_previews(resources: Resources) -> None:
    async with open_door(resources) as door:
        fact = {"content": "Bo lives in Lund", "subject": "Bo", "predicate": "lives_in", "object": "Lund"}
        saved = await door.request("POST", "/v1/remember_fact", json=fact, headers={"Recordari-User": "bo"})
        assert saved.status_code == 201, saved.text
        item = (await door.request("GET", f"/v1/items/{saved.json()['id']}", headers={"Recordari-User": "bo"})).json()
        assert (item["subject"], item["predicate"], item["object"]) == ("Bo", "lives_in", "Lund")
        body = {"text": "I live in Lund.", "speaker": "Bo", "learning": {"never": ["Lund"]}}
        (seen,) = (await door.request("POST", "/v1/facts/preview", json=body)).json()
        assert (seen["content"], seen["refused"]) == ("Bo lives in Lund.", "Lund")


async def test_mem0s_add_ignores_small_talk_and_its_update_keeps_the_date(resources: Resources) -> None:
    async with open_door(resources) as door:

        async def add(text: str) -> list[dict[str, Any]]:
            body = {"messages": [{"role": "user", "content": text}], "user_id": "ana"}
            return list((await door.request("POST", "/v1/memories/", json=body)).json()["results"])

        assert await add("ok") == []
        assert await add("Thanks, bye!") == []
        (memory,) = await add("Bob is a carpenter")
        path = f"/v1/memories/{memory['id']}/"
        before = (await door.request("GET", path)).json()
        assert before["categories"] == ["personal"]
        after = (await door.request("PUT", path, json={"text": "Bob is a joiner"})).json()
        assert after["memory"] == "Bob is a joiner"
        assert after["created_at"] == before["created_at"] < after["updated_at"]
