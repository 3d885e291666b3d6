"""A large memory that is asked often is searched in the process, and finds what the database would find."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.working import work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Scope
from recordari.core.items import NewItem
from recordari.recall import process_cache, recall, search, snapshot_storage
from recordari.recall.process_cache import SnapshotCache
from recordari.recall.rules import candidates
from recordari.recall.rules.arms import Depths
from recordari.recall.search import MemoryTerms
from recordari.recall.snapshot_storage import SnapshotRead
from recordari.tenants import tenants
from recordari.wiring import open_resources

NAMES = ("Olga", "Igor", "Vera", "Ivan")
THINGS = ("kayak", "violin", "loom", "kiln", "radio", "mural")
SAID = [
    f"Then {NAMES[number % 4]} showed the {THINGS[number % 6]} to {NAMES[(number // 4) % 4]}, visit {number}"
    for number in range(60)
]
BEGAN = datetime(2026, 5, 1, tzinfo=UTC)
QUESTIONS = (
    "Did Olga see Igor?",
    "Did Olga, Igor and Vera see the violin?",
    "the kiln of Ivan",
    "visit 17",
    "Who is the person who showed the radio to Vera?",
    "What happened on 3 May 2026?",
    "music",
)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty items are a large memory, and are read in pages."""
    monkeypatch.setattr(process_cache, "MOST_OWNED", 0)
    monkeypatch.setattr(process_cache, "FETCHED", 25)
    monkeypatch.setattr(candidates, "LARGE", 20)
    monkeypatch.setattr(recall, "depths_of", lambda *_, **__: Depths(text=12, vector=12, time=4, entity=4))


@pytest.fixture
async def ana(memory: Memory) -> Memory:
    """A user whose memory is at hand."""
    user = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana")
    await user.remember_many(
        [
            NewItem(
                content=text,
                scope=Scope.USER,
                source_ref=text,
                speaker=NAMES[number % 3],
                session_id=f"s{number // 10}" if number % 2 else None,
                event_time=BEGAN + timedelta(hours=number),
            )
            for number, text in enumerate(SAID)
        ]
    )
    await work_off(memory, "embed")
    for _ in range(3):
        await user.recall("anything")
    assert await searched_in(user) == "process"
    return user


def texts(answer: Any) -> list[str]:
    return [item.content for item in answer.items]


async def searched_in(memory: Memory) -> str:
    answer = await memory.recall("a place", explain=True)
    assert answer.trace is not None
    return str(answer.trace["searched_in"])


async def both(ana: Memory, question: str, **filters: Any) -> tuple[Any, Any]:
    """The answer of the memory that is at hand, and that of the database."""
    at_hand = await ana.recall(question, top_k=10, explain=True, **filters)
    anew = Memory(ana.resources.replacing(SnapshotCache, SnapshotCache()), ana.identity)
    searched = await anew.recall(question, top_k=10, explain=True, **filters)
    assert at_hand.trace is not None and at_hand.trace["searched_in"] == "process"
    assert searched.trace is not None and searched.trace["searched_in"] == "database"
    return at_hand, searched


@pytest.mark.parametrize("question", QUESTIONS)
async def test_what_others_say_changes_no_answer_of_the_database(ana: Memory, question: str) -> None:
    async def answer() -> list[tuple[str, float]]:
        # Neither at hand nor counted before.
        resources = ana.resources.replacing(SnapshotCache, SnapshotCache()).replacing(MemoryTerms, MemoryTerms())
        anew = Memory(resources, ana.identity)
        return [(item.content, item.score) for item in (await anew.recall(question, top_k=10)).items]

    before = await answer()
    said = [f"Olga and Igor showed a kiln and a violin to Vera, visit {number % 60}" for number in range(300)]
    bob = ana.acting_as(user="bob")
    await bob.remember_many([NewItem(content=f"{text}, {n}", scope=Scope.USER) for n, text in enumerate(said)])
    await work_off(ana, "embed")
    ana.resources.forget_tenant(ana.identity.tenant_id)
    assert await answer() == before


async def test_questions_asked_together_count_their_words(ana: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_FREQUENCIES", 1)  # each makes room for itself
    resources = ana.resources.replacing(SnapshotCache, SnapshotCache()).replacing(MemoryTerms, MemoryTerms())
    anew = Memory(resources, ana.identity)
    await anew.recall("the violin of Olga")
    asked = [f"the violin of {name} and the {thing}" for name in NAMES for thing in THINGS]
    answers = await asyncio.gather(*(anew.recall(one) for one in asked))
    assert all(answer.items for answer in answers)


@pytest.mark.parametrize("question", QUESTIONS)
async def test_it_finds_by_names_meaning_and_time_what_the_database_finds(ana: Memory, question: str) -> None:
    at_hand, searched = await both(ana, question)
    of_items = [{one["id"]: one for one in answer.trace["items"]} for answer in (at_hand, searched)]
    for arm in ("vector", "time", "entity"):
        found = [{key for key, one in items.items() if one["ranks"][arm]} for items in of_items]
        assert found[0] == found[1], arm
    for item_id in of_items[0].keys() & of_items[1].keys():
        own = [{name: items[item_id]["parts"][name] for name in ("words", "late", "meaning")} for items in of_items]
        assert own[0] == pytest.approx(own[1], abs=1e-3)


async def test_filters_of_time_hold(ana: Memory) -> None:
    since, until = BEGAN + timedelta(hours=20), BEGAN + timedelta(hours=30)
    at_hand, searched = await both(ana, "Did Olga see Igor?", since=since, until=until)
    assert texts(at_hand) and all(since <= item.event_time < until for item in at_hand.items)
    assert set(texts(at_hand)) == set(texts(searched))


async def test_what_changes_is_found_at_once_in_the_database_and_then_in_the_process(
    memory: Memory, ana: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_cache, "COMPARED_PER_REQUEST", 30)  # four searches
    await ana.remember("Vera sold the telescope", scope="user")
    await work_off(memory, "embed")
    places = []
    for _ in range(5):
        answer = await ana.recall("Who sold the telescope?", explain=True)
        assert texts(answer)[0] == "Vera sold the telescope" and answer.trace is not None
        places.append(answer.trace["searched_in"])
    assert places == ["database"] * 3 + ["process"] * 2


async def test_one_that_changes_before_each_question_is_not_brought_up_to_date_each_time(
    memory: Memory, ana: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: Any, **__: Any) -> None:
        pytest.fail("all versions were read")

    monkeypatch.setattr(snapshot_storage, "find_visible_versions", refused)
    for number in range(6):
        await ana.remember(f"Ivan paid bill number{number}", scope="user")
        assert texts(await ana.recall(f"bill number{number}", top_k=1)) == [f"Ivan paid bill number{number}"]


async def test_what_another_process_forgets_is_gone_at_once(memory: Memory, ana: Memory, settings: Settings) -> None:
    found = (await ana.recall("visit 17", top_k=1)).items[0]
    assert found.content == SAID[17]
    async with open_resources(settings) as elsewhere:
        await Memory(elsewhere, memory.identity).forget(found.id)
    for _ in range(6):
        assert SAID[17] not in texts(await ana.recall("visit 17", top_k=50))
    assert await searched_in(ana) == "process"


async def test_nobody_is_shown_what_is_at_hand_for_another(memory: Memory, ana: Memory) -> None:
    other = await tenants.ensure_tenant(memory.resources, "other")
    strangers = [
        ana.acting_as(user="bob"),
        memory.bound(Identity(tenant_id=memory.identity.tenant_id)),
        memory.bound(Identity(tenant_id=other.tenant_id)).acting_as(user="ana"),
    ]
    for stranger in strangers:
        for _ in range(3):
            assert texts(await stranger.recall("visit 17", top_k=20)) == []
    assert texts(await ana.recall("visit 17", top_k=1)) == [SAID[17]]


async def test_many_questions_at_once_fetch_it_once(ana: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched, find = [0], snapshot_storage.find_snapshot_rows

    async def counted(*given: Any) -> SnapshotRead:
        read = await find(*given)
        fetched[0] += len(read.rows)
        return read

    build, is_building, go_on = process_cache._snapshot, threading.Event(), threading.Event()

    def built_later(*given: Any, **options: Any) -> process_cache.Snapshot:
        is_building.set()
        go_on.wait(60)
        return build(*given, **options)

    monkeypatch.setattr(snapshot_storage, "find_snapshot_rows", counted)
    monkeypatch.setattr(process_cache, "_snapshot", built_later)
    anew = Memory(ana.resources.replacing(SnapshotCache, SnapshotCache()), ana.identity)
    asked = asyncio.gather(*(anew.recall(f"visit {number}", top_k=1) for number in range(20, 50)))
    await asyncio.to_thread(is_building.wait, 60)
    threading.Timer(2.0, go_on.set).start()
    for _ in range(4):  # meanwhile
        assert texts(await anew.recall("visit 17", top_k=1)) == [SAID[17]]
    go_on.set()
    assert [texts(answer) for answer in await asked] == [[said] for said in SAID[20:50]]
    assert fetched == [len(SAID)]
    assert await searched_in(anew) == "process"


async def test_one_that_takes_more_room_than_there_is_is_not_fetched_again_and_again(
    ana: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched, find = [0], snapshot_storage.find_snapshot_rows

    async def counted(*given: Any) -> SnapshotRead:
        fetched[0] += 1
        return await find(*given)

    monkeypatch.setattr(snapshot_storage, "find_snapshot_rows", counted)
    monkeypatch.setattr(process_cache, "MOST_BYTES", 50_000)
    anew = Memory(ana.resources.replacing(SnapshotCache, SnapshotCache()), ana.identity)
    for number in range(20, 40):
        assert texts(await anew.recall(f"visit {number}", top_k=1)) == [SAID[number]]
    assert fetched == [3] and len(anew.resources.get(SnapshotCache)) == 0
