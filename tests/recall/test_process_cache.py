"""A small memory that is asked again is ranked in the process; what may be seen is decided by the database every time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.working import work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, RunId, Scope
from recordari.core.items import NewItem
from recordari.errors import Conflict
from recordari.facts import storage as facts_storage
from recordari.facts.storage import Link
from recordari.models.embedding import Embedders
from recordari.recall import process_cache, recall
from recordari.recall.process_cache import SnapshotCache
from recordari.recall.rules.arms import Depths
from recordari.tenants import tenants
from recordari.wiring import open_resources

PETS = [
    "The puppy chewed my slippers",
    "We fed the parrot at noon",
    "Ada adopted a grey cat named Pixel",
    "The goldfish needs a larger bowl",
]


@pytest.fixture
async def ana(memory: Memory) -> Memory:
    """A user with a few embedded memories that have been asked for often enough to be at hand."""
    user = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana")
    await user.remember_many(
        [
            NewItem(
                content=text,
                scope=Scope.USER,
                source_ref=text,
                speaker="Ada" if day % 2 else "Ben",
                event_time=datetime(2026, 5, day, tzinfo=UTC),
            )
            for day, text in enumerate(PETS, start=1)
        ]
    )
    await work_off(memory, "embed")
    for _ in range(2):
        await user.recall("anything")
    assert len(memory.resources.get(SnapshotCache)) == 1
    return user


def texts(answer: Any) -> list[str]:
    return [item.content for item in answer.items]


async def everything(memory: Memory) -> set[str]:
    return set(texts(await memory.recall("animals", top_k=20)))


async def test_the_answer_and_its_trace_are_those_of_the_database(ana: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    second, fourth = datetime(2026, 5, 2, tzinfo=UTC), datetime(2026, 5, 4, tzinfo=UTC)
    asked: list[tuple[str, datetime | None, datetime | None]] = [
        ("dog", None, None),
        ("Who is Pixel?", None, None),
        ("cat or parrot", None, None),
        ("What did Ada adopt in 2025?", None, None),
        ("larger bowl", None, None),
        ("What did Ben say about the parrot?", None, None),  # a speaker's name is as common as what they said
        ("animals", second, None),
        ("animals", None, fourth),
        ("Who is Pixel?", second, fourth),
    ]
    for question, since, until in asked:
        ana.resources.forget_tenant(ana.identity.tenant_id)  # how rare words are is looked up anew for both
        at_hand = await ana.recall(question, top_k=10, explain=True, since=since, until=until)
        assert at_hand.trace is not None and at_hand.trace["searched_in"] == "process"
        searching = Memory(ana.resources.replacing(SnapshotCache, SnapshotCache()), ana.identity)
        with monkeypatch.context() as larger:
            larger.setattr(process_cache, "MOST_OWNED", 0)
            searched = await searching.recall(question, top_k=10, explain=True, since=since, until=until)
        assert searched.trace is not None and searched.trace["searched_in"] == "database"
        assert texts(at_hand) == texts(searched)
        assert [one.score for one in at_hand.items] == pytest.approx([one.score for one in searched.items], abs=1e-3)
        assert at_hand.trace["candidates"] == searched.trace["candidates"]
        ranks = [{one["id"]: one["ranks"] for one in trace["items"]} for trace in (at_hand.trace, searched.trace)]
        assert ranks[0].keys() == ranks[1].keys()
        for item_id, seen in ranks[0].items():
            assert {arm for arm, rank in seen.items() if rank} == {
                arm for arm, rank in ranks[1][item_id].items() if rank
            }


async def test_a_memory_makes_room_for_another_by_its_bytes(ana: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, ben = ana.resources.get(SnapshotCache), ana.acting_as(user="ben")
    await ben.remember("The tortoise sleeps " + "all winter " * 1_000, scope="user")
    await work_off(ana, "embed")
    monkeypatch.setattr(process_cache, "MOST_BYTES", 32_000)
    await ben.recall("animals")
    assert len(cache) == 2
    await ben.remember("The hare sleeps " + "all summer " * 2_000, scope="user")
    await work_off(ana, "embed")
    assert "The hare" in (await ben.recall("hare")).items[0].content
    assert len(cache) == 1


async def test_the_database_prefers_several_names_and_then_the_newest(
    ana: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [
        "Then Olga met Igor",
        "Then Olga sang",
        "Then Igor ran",
        "Then Igor met Olga",
        "Then Igor ate",
        "Then Olga swam",
    ]
    for text in named:
        await ana.remember(text, scope="user")
    await work_off(ana, "embed")
    monkeypatch.setattr(recall, "depths_of", lambda _, **__: Depths(text=0, vector=0, time=0, entity=4))
    monkeypatch.setattr(process_cache, "MOST_OWNED", 0)
    searching = Memory(ana.resources.replacing(SnapshotCache, SnapshotCache()), ana.identity)
    answer = await searching.recall("Did Olga see Igor?", top_k=10, explain=True)
    assert answer.trace is not None and answer.trace["searched_in"] == "database"
    ranks = {one["id"]: one["ranks"]["entity"] for one in answer.trace["items"]}
    shown = sorted(answer.items, key=lambda item: ranks[str(item.id)] or 0)
    assert texts(answer) and [item.content for item in shown] == [named[place] for place in (3, 0, 5, 4)]
    one = await searching.recall("Did Igor do anything?", top_k=10, explain=True)
    assert set(texts(one)) == {named[place] for place in (4, 3, 2, 0)}


async def test_facts_stand_beside_messages_in_both(ana: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "depths_of", lambda _, **__: Depths(text=1, vector=1, time=1, entity=1))
    talking = ana.acting_as(user="ana", session="s")
    for text in ("I love hiking in the Alps with my dog.", "I prefer tea to coffee.", "I bought a red bicycle."):
        await talking.remember(f"Hello again, how are you today? {text} What do you think of it?", speaker="Ana")
    for topic in ("embed", "extract", "embed"):
        await work_off(ana, topic)
    for question in ("hiking with a dog", "tea or coffee", "bicycle"):
        ana.resources.forget_tenant(ana.identity.tenant_id)
        kinds = ["chat_message", "fact"]
        for _ in range(3):
            at_hand = await ana.recall(question, source_kinds=kinds, explain=True)
        searching = Memory(ana.resources.replacing(SnapshotCache, SnapshotCache()), ana.identity)
        with monkeypatch.context() as larger:
            larger.setattr(process_cache, "MOST_OWNED", 0)
            searched = await searching.recall(question, source_kinds=kinds, explain=True)
        assert at_hand.trace is not None and searched.trace is not None
        assert at_hand.trace["candidates"] == searched.trace["candidates"]
        assert at_hand.trace["candidates"]["vector"] == 2  # a message and a fact, each the nearest of its sort
        assert texts(at_hand) == texts(searched)
        assert [one.id for one in (await ana.recall(question, source_kinds=kinds)).items] == [
            one.id for one in at_hand.items
        ]


async def test_what_another_process_forgets_is_gone_at_once(memory: Memory, ana: Memory, settings: Settings) -> None:
    (found,) = [one for one in (await ana.recall("puppy", top_k=20)).items if "puppy" in one.content]
    async with open_resources(settings) as elsewhere:
        await Memory(elsewhere, memory.identity).forget(found.id)
    assert await everything(ana) == set(PETS[1:])


async def test_what_is_written_is_found_by_words_at_once_and_by_meaning_once_embedded(
    memory: Memory, ana: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = ["Rex barked all night", "The neighbours slept badly"]
    with monkeypatch.context() as slower:
        slower.setattr(Embedders, "instant", lambda *_: None)  # a model that is not quick embeds in the background
        await ana.remember_many([NewItem(content=text, scope=Scope.USER) for text in news])
    answer = await ana.recall("barked")
    assert texts(answer)[0] == "Rex barked all night" and answer.degraded
    await work_off(memory, "embed")
    answer = await ana.recall("a loud dog", explain=True)
    assert not answer.degraded and answer.trace is not None
    (rex,) = [one for one in answer.items if "Rex" in one.content]
    assert [one["similarity"] for one in answer.trace["items"] if one["id"] == str(rex.id)] != [None]


async def test_a_text_that_replaces_another_is_shown(memory: Memory, ana: Memory) -> None:
    first: dict[str, Any] = {"kind": "session_summary", "scope": "user", "source_ref": "summary", "session_id": "s"}
    await ana.remember("They spoke about horses", **first)
    assert texts(await ana.recall("spoke", top_k=1)) == ["They spoke about horses"]
    await ana.remember("They spoke about donkeys", **first)
    assert texts(await ana.recall("spoke", top_k=1)) == ["They spoke about donkeys"]
    assert "They spoke about horses" not in texts(await ana.recall("spoke", top_k=20))


async def test_nobody_is_shown_what_is_at_hand_for_another(memory: Memory, ana: Memory) -> None:
    other = await tenants.ensure_tenant(memory.resources, "other")
    strangers = [
        ana.acting_as(user="bob"),
        memory.bound(Identity(tenant_id=memory.identity.tenant_id)),
        memory.bound(Identity(tenant_id=other.tenant_id)).acting_as(user="ana"),
    ]
    for stranger in strangers:
        for _ in range(3):
            assert await everything(stranger) == set()
    assert await everything(ana) == set(PETS)


async def test_what_others_say_changes_no_score(ana: Memory) -> None:
    async def scores() -> dict[str, float]:
        return {item.content: item.score for item in (await ana.recall("the grey cat", top_k=10)).items}

    before = await scores()
    bob = ana.acting_as(user="bob")
    await bob.remember_many([NewItem(content=f"The grey cat number {n} slept", scope=Scope.USER) for n in range(300)])
    await work_off(ana, "embed")
    ana.resources.forget_tenant(ana.identity.tenant_id)
    assert await scores() == before


@pytest.mark.parametrize("question", ["???", "…", "-- !", "🙂", "\u200b", "the", "a", "и", "？"])
async def test_a_question_without_words_is_answered(ana: Memory, question: str) -> None:
    # First by the database, then by what is at hand.
    answers = [[item.content for item in (await ana.recall(question, top_k=20)).items] for _ in range(3)]
    assert answers[0] == answers[1] == answers[2] and set(answers[0]) <= set(PETS)


async def test_what_is_at_hand_serves_every_run_and_credential_of_the_same_user(ana: Memory) -> None:
    for run, actor in (("run-1", "key-1"), ("run-2", "key-2")):
        identity = replace(ana.identity, run_id=RunId(run), actor=actor)
        for _ in range(3):
            assert await everything(ana.bound(identity)) == set(PETS)
    assert len(ana.resources.get(SnapshotCache)) == 1


async def test_filters_are_kept_while_a_memory_is_at_hand(ana: Memory) -> None:
    await ana.remember_fact("Ana keeps bees")
    for _ in range(3):
        facts = await ana.recall("animals", top_k=20, source_kinds=["fact"])
        assert texts(facts) == ["Ana keeps bees"] or texts(facts) == []  # without a vector it has no word in common
        assert texts(await ana.recall("bees", source_kinds=["fact"])) == ["Ana keeps bees"]
        assert texts(await ana.recall("bees", scope="tenant")) == []


async def test_questions_asked_together_see_all_that_was_written_before_them(ana: Memory) -> None:
    async def exchange(number: int) -> None:
        await ana.remember(f"visit number{number} to the zoo", scope="user")
        answer = await ana.recall(f"number{number}", top_k=1)
        assert texts(answer) == [f"visit number{number} to the zoo"]

    await asyncio.gather(*(exchange(number) for number in range(20)))


async def test_a_memory_that_outgrows_its_place_is_searched_in_the_database(
    ana: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_cache, "MOST_OWNED", 3)
    monkeypatch.setattr(process_cache, "MOST_ITEMS", 3)
    await ana.remember("The hamster sleeps all day", scope="user")
    assert await everything(ana) == {*PETS, "The hamster sleeps all day"}
    assert len(ana.resources.get(SnapshotCache)) == 0
    assert await everything(ana) == {*PETS, "The hamster sleeps all day"}


WEIRD = [
    "it's",
    'a "b" {c}',
    "back\\slash \\' \\x41",
    "100 % %(x)s %s $1",
    "ünï 🙂 漢字",
    "a,b;NULL",
    "line\nbreak\ttab",
    "--'); DROP",
]


async def test_a_single_item_is_kept_as_one_of_many_would_be(memory: Memory) -> None:
    user = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="o'hara %s \\")
    for text in WEIRD:
        more: dict[str, Any] = {"speaker": text.replace("\n", " "), "metadata": {"said": text, "n": [1.5, None, True]}}
        one = await user.remember(text, scope="user", source_ref=f"one {text}", **more)
        (two,) = await user.remember_many(
            [NewItem(content=text, scope=Scope.USER, source_ref=f"two {text}", **more)] * 1
        )
        kept = [await user.get_item(found.id) for found in (one, two)]
        assert [item.content for item in kept] == [text, text]
        assert kept[0].metadata == kept[1].metadata == more["metadata"]
        again = await user.remember(text, scope="user", source_ref=f"one {text}", **more)
        assert again.id == one.id and one.was_new and not again.was_new


async def test_a_refused_write_leaves_the_connection_usable(ana: Memory) -> None:
    for _ in range(3):
        with pytest.raises(Conflict):
            await ana.remember("another text", scope="user", source_ref=PETS[0])
        assert await everything(ana) == set(PETS)
        assert (await ana.remember(PETS[0], scope="user", source_ref=PETS[0])).was_new is False


async def test_a_new_source_of_a_known_fact_is_seen_at_once(ana: Memory) -> None:
    told = await ana.remember("My sister Ada has adopted a cat, and it is grey", scope="user")
    await ana.remember_fact("Ada has a cat named Felix")
    await work_off(ana, "embed")
    fact = next(item for item in (await ana.recall("Ada's cat", top_k=10)).items if "Felix" in item.content)
    assert not fact.same_as
    async with ana.resources.database.transaction(ana.identity) as tx:
        link = Link(item_id=fact.id, source_item_id=told.id, event_time=fact.event_time)
        await facts_storage.insert_links(tx, [link])
    shown = {item.id: item.same_as for item in (await ana.recall("Ada's cat", top_k=10)).items}
    assert shown.get(told.id) == (fact.id,)
    assert fact.id not in shown
