"""Facts as the designs describe them: learned, extracted, contradicted, curated (F1–F6, P2, X2, X3)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.doors.rest_door import open_door
from tests.working import settled, work_off

from recordari.app import Memory
from recordari.core.identity import Identity, Scope
from recordari.core.items import Kind, Tier, Trust
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound
from recordari.facts import storage as facts_storage
from recordari.facts.rules.claims import Trend
from recordari.kit.resources import Resources
from recordari.lifetime import storage as lifetime_storage
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC
from recordari.recall.accesses import AccessCounts

JANUARY = datetime(2026, 1, 10, tzinfo=UTC)


@pytest.fixture
def chat(memory: Memory) -> Memory:
    """An agent in a session with a user."""
    return memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(
        user="ana", agent="helper", session="chat-1"
    )


async def facts(memory: Memory, **request: Any) -> list[str]:
    return [item.content for item in (await memory.list_items(kinds=[Kind.FACT], **request)).items]


def texts(answer: Any) -> list[str]:
    return [item.content for item in answer.items]


# "recall("responded positively to direct ROI framing") returns relevant facts in top-5 after 10+ runs."


async def test_learned_facts_are_recalled_with_subject_predicate_object_and_run(chat: Memory) -> None:
    for number in range(12):
        await chat.acting_as(run=f"run-{number}").remember_fact(
            f"contact {number} {'responded positively to direct ROI framing' if number % 4 == 0 else 'asked for a call'}",
            scope="agent",
            subject=f"contact:{number}",
            predicate="responded_positively_to",
            object="direct_roi_framing",
            confidence=0.82,
        )
    await settled(chat)
    found = await chat.recall("responded positively to direct ROI framing", source_kinds=["fact"])
    assert sum("ROI framing" in text for text in texts(found)) == 3
    item = await chat.get_item(found.items[0].id)
    assert (item.predicate, item.object, item.confidence) == ("responded_positively_to", "direct_roi_framing", 0.82)
    assert item.run_id is not None and item.run_id.startswith("run-")


OUTCOMES = (
    "responded positively to direct ROI framing",
    "asked for a call next quarter",
    "did not answer the second e-mail",
    "wanted a security questionnaire first",
)


async def learn_over_runs(chat: Memory) -> None:
    """Twelve runs of a sales agent, each with episodes, a message and one fact at its end."""
    for number in range(12):
        run = chat.acting_as(run=f"run-{number}")
        await run.append_episode(f"opened the mail of contact {number} and drafted an answer", run_id=f"run-{number}")
        await run.remember(f"The framing of the offer to contact {number} was fine, thank you.", speaker="Ana")
        await run.remember_fact(
            f"Contact {number} of account {number % 5} {OUTCOMES[number % 4]}", scope="agent", confidence=0.8
        )
    await settled(chat)


async def test_learned_facts_are_in_the_top_five_among_everything_else(chat: Memory) -> None:
    await learn_over_runs(chat)
    found = await chat.recall("responded positively to direct ROI framing")
    relevant = [item for item in found.items if "ROI framing" in item.content]
    assert len(found.items) == 5 and len(relevant) == 3
    assert found.items[:3] == tuple(relevant)


async def test_learned_facts_are_in_the_top_five_over_rest(chat: Memory, resources: Resources) -> None:
    await learn_over_runs(chat)
    headers = {"Recordari-User": "ana", "Recordari-Agent": "helper", "Recordari-Session": "chat-1"}
    async with open_door(resources) as door:
        asked = {"query": "responded positively to direct ROI framing"}
        found = await door.request("POST", "/v1/recall", key="agent", headers=headers, json=asked)
        # "learn(tenant_id, fact) completes without error and fact appears in subsequent recall results."
        learned = {"content": "Contact 99 responded positively to direct ROI framing too", "scope": "agent"}
        made = await door.request("POST", "/v1/remember_fact", key="agent", headers=headers, json=learned)
        then = await door.request("POST", "/v1/recall", key="agent", headers=headers, json=asked)
    assert sum("ROI framing" in item["content"] for item in found.json()["items"][:5]) == 3
    assert made.status_code == 201
    assert made.json()["id"] in [item["id"] for item in then.json()["items"]]


# "the same thing must not take two of the top k": a fact and the message that it was taken from are one


async def test_a_fact_and_its_message_take_one_place(chat: Memory) -> None:
    said = await chat.remember(
        "Thanks! By the way, I prefer window seats on long flights. Is it going to rain?", speaker="Ana"
    )
    await chat.remember("Window seats were sold out on the train.", kind="tool_output")
    await settled(chat)
    (fact,) = (await chat.list_items(kinds=[Kind.FACT])).items
    found = await chat.recall("which seats on flights does Ana prefer", explain=True)
    (shown,) = [item for item in found.items if "prefer" in item.content]
    assert (shown.id, shown.same_as) == (said.id, (fact.item_id,))
    assert found.trace is not None and found.trace["facts_folded"] == [str(fact.item_id)]
    assert {item.id for item in (await chat.recall("window seats", source_kinds=["fact"])).items} == {fact.item_id}


async def test_facts_taken_from_messages_leave_their_scores_as_they_were(chat: Memory) -> None:
    await chat.remember("I prefer window seats on long flights, and I always travel with one small bag.", speaker="Ana")
    await chat.remember("The window was open all night, so the room was cold and the bag got wet.", speaker="Ana")
    await work_off(chat, EMBED_TOPIC)
    chat.resources.forget_tenant(chat.identity.tenant_id)  # how rare words are is looked up anew
    before = await chat.recall("window seats or a bag", source_kinds=["chat_message"])
    await settled(chat)
    assert await facts(chat)
    chat.resources.forget_tenant(chat.identity.tenant_id)
    after = await chat.recall("window seats or a bag", source_kinds=["chat_message"])
    assert [(one.id, one.score) for one in after.items] == [(one.id, one.score) for one in before.items]


async def test_a_fact_counts_as_text_of_its_own_once_its_message_is_gone(chat: Memory) -> None:
    said = await chat.remember("I prefer window seats on long flights.", speaker="Ana")
    await settled(chat)
    database = chat.resources.database
    assert await memory_storage.document_frequencies(database, chat.identity, ["window"]) == {"window": 1}
    counted = memory_storage.ask_collection(most=1_000)
    await database.read_batch(chat.identity, [counted])
    assert (counted.answer.items, counted.answer.distinct_items) == (2, 1)
    async with database.transaction(chat.identity) as tx:
        await lifetime_storage.archive_items(tx, [said.id], now=JANUARY)
    await database.read_batch(chat.identity, [counted])
    assert (counted.answer.items, counted.answer.distinct_items) == (2, 1), "recall still finds an archived message"
    async with database.transaction(chat.identity) as tx:
        await memory_storage.end_item(tx, said.id, JANUARY)
    await database.read_batch(chat.identity, [counted])
    assert (counted.answer.items, counted.answer.distinct_items) == (1, 1)


async def test_a_corrected_fact_is_shown_instead_of_the_message_that_it_corrects(chat: Memory) -> None:
    said = await chat.remember("Well, I prefer window seats on long flights.", speaker="Ana")
    await settled(chat)
    (fact,) = (await chat.list_items(kinds=[Kind.FACT])).items
    corrected = await chat.edit_item(fact.item_id, "I prefer aisle seats on long flights.", reason="misheard")
    await settled(chat)
    (shown,) = (await chat.recall("which seats on flights does Ana prefer")).items
    assert (shown.id, shown.same_as) == (corrected.id, (said.id,))


async def test_a_fact_that_is_shown_as_its_message_does_not_fade_for_it(chat: Memory) -> None:
    await chat.remember("By the way, I prefer window seats on long flights.", speaker="Ana")
    await settled(chat)
    (fact,) = (await chat.list_items(kinds=[Kind.FACT])).items
    await chat.recall("which seats on flights does Ana prefer")
    await chat.resources.get(AccessCounts).flush()
    async with chat.resources.database.transaction(chat.identity) as tx:
        page = await lifetime_storage.list_recent(tx, after=UUID(int=0), limit=10)
    assert {trace.accesses for trace in page} == {1} and fact.item_id in {trace.item_id for trace in page}


# "LLM fact extraction pulls out key facts, not verbatim storage" "Store raw in L2 always; L3 extraction is bonus"


async def test_facts_are_extracted_from_what_a_person_says_and_the_message_stays(chat: Memory) -> None:
    said = "Thanks! By the way, I prefer window seats on long flights. Can you check the weather in Lund?"
    message = await chat.remember(said, speaker="Ana", event_time=JANUARY)
    await settled(chat)
    (fact,) = (await chat.list_items(kinds=[Kind.FACT])).items
    assert fact.content == "Ana prefers window seats on long flights."
    assert (fact.category, fact.scope, fact.user_id, fact.speaker) == ("preference", Scope.USER, "ana", "Ana")
    assert (fact.trust, fact.valid_at, fact.tier) == (Trust.USER, JANUARY, Tier.RECENT)
    assert [source.item_id for source in (await chat.item_provenance(fact.item_id)).sources] == [message.id]
    assert (await chat.get_item(message.id)).content == said
    elsewhere = chat.acting_as(session="chat-2")
    assert fact.content in texts(await elsewhere.recall("which seats does Ana like", scope="user"))


async def test_nothing_is_extracted_from_agents_tools_documents_or_recalled_text(memory: Memory, chat: Memory) -> None:
    statement = "I live in Lisbon and I prefer tea."
    await chat.remember(statement, speaker="assistant")
    await chat.remember(f"{statement} Indeed.", speaker="helper", trust=Trust.AGENT)
    await chat.remember(f"{statement} Yes.", kind="tool_output")
    await memory.remember(f"{statement} So.", kind="document_chunk", source_ref="d#1")
    await chat.remember(f"{statement} Again.", speaker="Ana", metadata={"recalled": True})
    await chat.remember(f"<memory>\n{statement}\n</memory>\nWhat do you make of it?", speaker="Ana")
    await settled(chat)
    assert await facts(memory, state="any") == []


async def test_a_tenant_switches_extraction_off_or_lets_agents_speak_too(memory: Memory, chat: Memory) -> None:
    await memory.update_tenant(settings={"extraction": "off"})
    await chat.remember("I live in Lisbon with two cats.", speaker="Ana")
    await settled(chat)
    assert await facts(memory) == []
    await memory.update_tenant(settings={"extraction": "all"})
    await chat.remember("We decided to ship the beta.", speaker="helper", trust=Trust.AGENT)
    await settled(chat)
    (fact,) = (await memory.list_items(kinds=[Kind.FACT])).items
    assert (fact.content, fact.trust) == ("helper and others decided to ship the beta.", Trust.AGENT)


# "("user likes coffee" stored twice → merged)" "Semantic: corroboration-gated promotion"


async def test_the_same_fact_said_twice_is_one_row_with_two_sources_and_then_lasts(chat: Memory) -> None:
    await chat.remember("I really love coffee in the morning.", speaker="Ana", event_time=JANUARY)
    await settled(chat)
    (first,) = (await chat.list_items(kinds=[Kind.FACT])).items
    assert first.tier == Tier.RECENT
    again = chat.acting_as(session="chat-2")
    await again.remember("Well, I really love coffee in the  morning!", speaker="Ana")
    await again.remember("I really love coffee in the morning", speaker="Ana", event_time=JANUARY + timedelta(days=9))
    await settled(chat)
    merged = next(item for item in (await chat.list_items(kinds=[Kind.FACT])).items if item.item_id == first.item_id)
    assert merged.tier == Tier.PERSISTENT
    standing = await chat.item_provenance(first.item_id)
    assert {source.session_id for source in standing.sources} == {"chat-1", "chat-2"}


# "the platform retires the older fact in the background. The retired fact is invisible to default recall"


async def test_a_contradicted_fact_leaves_recall_and_stays_for_the_record(memory: Memory, chat: Memory) -> None:
    old = await chat.remember_fact("Ana lives in Berlin", event_time=JANUARY)
    await settled(chat)
    new = await chat.remember_fact("Ana now lives in Lisbon", event_time=JANUARY + timedelta(days=30))
    await chat.remember_fact("Ana likes Berlin for its lakes", event_time=JANUARY)
    await settled(chat)
    found = texts(await chat.recall("where does Ana live", scope="user"))
    assert "Ana now lives in Lisbon" in found and "Ana lives in Berlin" not in found
    assert "Ana likes Berlin for its lakes" in found
    retired = await chat.get_item(old.id)
    assert (retired.superseded_by, retired.invalid_at) == (new.id, JANUARY + timedelta(days=30))
    admin = memory.acting_as(user="ana")
    everything = await admin.recall("where does Ana live", scope="user", include_superseded=True, top_k=20)
    assert "Ana lives in Berlin" in texts(everything)
    with pytest.raises(Forbidden):
        await chat.recall("where does Ana live", include_superseded=True)
    audited = await memory.list_audit(subject_kind="item", subject_id=str(old.id))
    (entry,) = [one for one in audited if one.action == "fact.supersede"]
    assert entry.details["superseded_by"] == str(new.id) and "Berlin" not in str(entry)


# "old fact gets invalid_at = now(), new fact inserted with valid_at = now(); both retained"


async def test_what_was_believed_on_a_date_can_be_asked(memory: Memory, chat: Memory) -> None:
    def at(moment: datetime) -> Memory:
        return Memory(replace(chat.resources, clock=lambda: moment), chat.identity)

    now = datetime.now(UTC)
    await at(now).remember_fact("Ana works at Acme", event_time=now - timedelta(days=3))
    await settled(chat)
    then = datetime.now(UTC)
    await asyncio.sleep(0.01)
    await chat.remember_fact("Ana works at Globex")
    await settled(chat)
    assert texts(await chat.recall("where does Ana work", as_of=then)) == ["Ana works at Acme"]
    assert texts(await chat.recall("where does Ana work")) == ["Ana works at Globex"]
    assert texts(await chat.recall("where does Ana work", as_of=now - timedelta(days=9))) == []


async def test_the_history_of_a_fact_shows_every_version_in_order(chat: Memory) -> None:
    ids = []
    for number, city in enumerate(["Berlin", "Lisbon", "Lund"]):
        moment = JANUARY + timedelta(days=number)
        ids.append((await chat.remember_fact(f"Ana lives in {city}", event_time=moment)).id)
        await settled(chat)
    for one in ids:
        assert [version.item_id for version in await chat.item_history(one)] == ids
    versions = await chat.item_history(ids[0])
    assert [version.superseded_by for version in versions] == [ids[1], ids[2], None]


async def test_what_becomes_true_again_is_a_new_version(chat: Memory) -> None:
    for number, city in enumerate(["Berlin", "Lisbon", "Berlin"]):
        await chat.remember(f"I live in {city} these days.", speaker="Ana", event_time=JANUARY + timedelta(days=number))
        await settled(chat)
    assert await facts(chat) == ["Ana lives in Berlin these days."]
    (current,) = (await chat.list_items(kinds=[Kind.FACT])).items
    assert len(await chat.item_history(current.item_id)) == 3


async def test_a_retired_fact_that_is_stated_again_is_current_again(memory: Memory, chat: Memory) -> None:
    first = await chat.remember_fact("Ana lives in Berlin", event_time=JANUARY)
    between = await chat.remember_fact("Ana lives in Lisbon", event_time=JANUARY + timedelta(days=30))
    await settled(chat)
    late = await chat.remember_fact("Ana lives in Berlin", event_time=JANUARY + timedelta(days=3))
    assert (late.id, late.was_new) == (first.id, False), "said late of the time before, it changes nothing"
    again = await chat.remember_fact("Ana lives in Berlin.", event_time=JANUARY + timedelta(days=60))
    assert again.was_new and again.id not in {first.id, between.id}
    await settled(chat)
    assert await facts(chat) == ["Ana lives in Berlin."]
    assert [one.item_id for one in await chat.item_history(first.id)] == [first.id, between.id, again.id]
    repeated = await chat.remember_fact("Ana lives in Berlin", event_time=JANUARY + timedelta(days=90))
    assert (repeated.id, repeated.was_new) == (again.id, False)
    (entry,) = await memory.list_audit(subject_kind="item", subject_id=str(again.id))
    assert (entry.action, entry.details) == ("fact.restate", {"follows": str(first.id)})


async def test_an_invalidated_fact_that_is_stated_again_follows_itself(chat: Memory) -> None:
    ids = []
    for _ in range(12):  # as often as it may be
        ids.append((await chat.remember_fact("The standup is at nine")).id)
        await chat.invalidate_item(ids[-1])
    assert len(set(ids)) == 12
    current = await chat.remember_fact("The standup is at nine")
    assert current.was_new and await facts(chat) == ["The standup is at nine"]
    assert [one.item_id for one in await chat.item_history(ids[0])] == [*ids, current.id]
    with pytest.raises(Conflict):
        await chat.restore_item(ids[3])
    await chat.invalidate_item(current.id)
    await chat.restore_item(ids[3])
    found = await chat.remember_fact("The standup is at nine")
    assert (found.id, found.was_new) == (ids[3], False), "who is restored is found by its words"


async def test_many_who_state_a_retired_fact_at_once_make_one_version(chat: Memory) -> None:
    first = await chat.remember_fact("The standup is at nine")
    for _ in range(20):  # they meet each other in another way each time
        await chat.invalidate_item(first.id)
        stated = await asyncio.gather(*(chat.remember_fact("The standup is at nine") for _ in range(6)))
        assert len({one.id for one in stated}) == 1 and [one.was_new for one in stated].count(True) == 1
        assert await facts(chat) == ["The standup is at nine"]
        first = stated[0]


async def test_a_retry_under_the_callers_own_reference_revives_nothing(chat: Memory) -> None:
    sent: dict[str, Any] = {"content": "The standup is at nine", "source_ref": "calendar-7"}
    first = await chat.remember_fact(**sent)
    await chat.invalidate_item(first.id)
    again = await chat.remember_fact(**sent)
    assert (again.id, again.was_new) == (first.id, False)
    assert await facts(chat) == []


async def test_a_faded_fact_that_is_said_again_comes_back_and_lasts(memory: Memory, chat: Memory) -> None:
    await chat.remember("I live in Lisbon with two cats.", speaker="Ana", event_time=JANUARY)
    await settled(chat)
    (first,) = (await chat.list_items(kinds=[Kind.FACT])).items
    clock = lambda: datetime.now(UTC) + timedelta(days=40)  # noqa: E731 - shorter than a function
    await Memory(replace(memory.resources, clock=clock), memory.identity).decay()
    assert await facts(chat) == []
    await chat.acting_as(session="chat-2").remember("I live in Lisbon with two cats.", speaker="Ana")
    await settled(chat)
    (back,) = (await chat.list_items(kinds=[Kind.FACT])).items
    assert (back.item_id, back.tier) == (first.item_id, Tier.PERSISTENT)
    assert back.content in texts(await chat.recall("where does Ana live", scope="user"))


async def test_forgetting_a_fact_forgets_its_versions_of_the_same_words(memory: Memory, chat: Memory) -> None:
    first = await chat.remember_fact("Ana keeps zebrafinches")
    await chat.invalidate_item(first.id)
    again = await chat.remember_fact("Ana keeps zebrafinches")
    assert set((await chat.forget(again.id)).item_ids) == {first.id, again.id}
    assert await facts(memory, state="any") == []


async def test_the_trend_of_a_fact_follows_its_sources(chat: Memory) -> None:
    now = datetime.now(UTC)
    for days in (100, 20, 10):
        await chat.remember(
            "I usually deploy the site before lunch.", speaker="Ana", event_time=now - timedelta(days=days)
        )
    await settled(chat)
    (fact,) = (await chat.list_items(kinds=[Kind.FACT])).items
    assert (await chat.item_provenance(fact.item_id)).trend is Trend.STRENGTHENING


# "Procedural: insert new row active, mark prior superseded_at = now(), superseded_by = <new_id>"


async def test_a_new_preference_or_working_pattern_supersedes_the_old_one(chat: Memory) -> None:
    for kind in (Kind.FACT, Kind.PROCEDURE):
        for number, style in enumerate(["detailed", "concise"]):
            await chat.remember(
                f"Ana prefers {style} reports",
                kind=kind,
                scope="agent",
                source_ref=f"{kind}-{style}",
                event_time=JANUARY + timedelta(days=number),
            )
            await settled(chat)
        active = (await chat.list_items(kinds=[kind])).items
        assert [item.content for item in active] == ["Ana prefers concise reports"]


async def test_text_from_outside_never_ends_what_a_person_stated(chat: Memory) -> None:
    await chat.remember_fact("Ana lives in Berlin", trust=Trust.USER, event_time=JANUARY)
    await chat.remember_fact("Ana lives in Paris", trust=Trust.EXTERNAL)
    await settled(chat)
    assert set(await facts(chat)) == {"Ana lives in Berlin", "Ana lives in Paris"}


async def test_facts_of_others_are_never_compared(chat: Memory) -> None:
    await chat.remember_fact("Ana lives in Berlin", event_time=JANUARY)
    await chat.acting_as(user="bob").remember_fact("Ana lives in Paris")
    await chat.remember_fact("Ana lives in Rome", scope="agent")
    await settled(chat)
    assert "Ana lives in Berlin" in texts(await chat.recall("where does Ana live", scope="user"))


# Curation: list, edit, invalidate, restore, pin, give feedback; every change is audited.


async def test_items_are_listed_page_by_page_and_by_filter(memory: Memory, chat: Memory) -> None:
    for number in range(5):
        await chat.remember_fact(f"note number {number}", category="decision" if number % 2 else "learning")
    first = await chat.list_items(kinds=["fact"], limit=2)
    assert [item.content for item in first.items] == ["note number 4", "note number 3"]
    rest = await chat.list_items(kinds=["fact"], limit=10, before=first.next_before)
    assert len(rest.items) == 3 and rest.next_before is None
    assert await facts(chat, category="decision") == ["note number 3", "note number 1"]
    assert await facts(chat.acting_as(user="bob")) == []
    assert len(await facts(memory)) == 5
    with pytest.raises(InvalidInput):
        await chat.list_items(kinds=["opinion"])
    with pytest.raises(Forbidden):
        await chat.list_items(state="superseded")


async def test_an_edit_is_a_new_version_that_keeps_owner_sources_and_pin(memory: Memory, chat: Memory) -> None:
    message = await chat.remember("I prefer window seats on trains.", speaker="Ana")
    await settled(chat)
    (fact,) = (await chat.list_items(kinds=[Kind.FACT])).items
    await chat.pin_item(fact.item_id)
    edited = await memory.edit_item(fact.item_id, "I prefer aisle seats on trains.", reason="misheard")
    assert await facts(chat, pinned=True) == ["I prefer aisle seats on trains."]
    assert (await chat.get_item(edited.id)).user_id == "ana"
    assert [source.item_id for source in (await chat.item_provenance(edited.id)).sources] == [message.id]
    with pytest.raises(Conflict):
        await chat.edit_item(fact.item_id, "I prefer any seat.")
    with pytest.raises(InvalidInput, match="only facts"):
        await chat.edit_item(message.id, "I never said that.")
    back = await chat.edit_item(edited.id, "I prefer window seats on trains.")
    assert back.id not in {fact.item_id, edited.id}
    assert len(await chat.item_history(back.id)) == 3


async def test_invalidate_hides_and_restore_brings_back(memory: Memory, chat: Memory) -> None:
    kept = await chat.remember_fact("The standup is at nine")
    await settled(chat)
    await chat.invalidate_item(kept.id, reason="cancelled")
    assert texts(await chat.recall("when is the standup", scope="user")) == []
    await chat.restore_item(kept.id)
    assert texts(await chat.recall("when is the standup", scope="user")) == ["The standup is at nine"]
    actions = [one.action for one in await memory.list_audit(subject_kind="item", subject_id=str(kept.id))]
    assert actions[:2] == ["item.restore", "item.invalidate"]
    with pytest.raises(NotFound):
        await chat.acting_as(user="bob").invalidate_item(kept.id)


async def test_a_superseded_fact_is_restored_only_when_nothing_newer_contradicts_it(chat: Memory) -> None:
    old = await chat.remember_fact("Ana lives in Berlin", event_time=JANUARY)
    new = await chat.remember_fact("Ana lives in Lisbon")
    await settled(chat)
    with pytest.raises(Conflict) as refused:
        await chat.restore_item(old.id)
    assert refused.value.details["contradicted_by"] == str(new.id)
    await chat.invalidate_item(new.id)
    await chat.restore_item(old.id)
    assert await facts(chat) == ["Ana lives in Berlin"]


async def test_a_pinned_fact_is_not_ended_by_the_judge(chat: Memory) -> None:
    old = await chat.remember_fact("Ana lives in Berlin", event_time=JANUARY)
    await chat.pin_item(old.id)
    await chat.remember_fact("Ana lives in Lisbon")
    await settled(chat)
    assert len(await facts(chat)) == 2
    await chat.pin_item(old.id, pinned=False)
    assert await facts(chat, pinned=True) == []


async def test_feedback_moves_the_confidence_and_each_person_has_one_voice(chat: Memory) -> None:
    kept = await chat.remember_fact("The export runs at night", confidence=0.6)
    useful = await chat.give_feedback(kept.id, "useful")
    assert useful > 0.6
    assert await chat.give_feedback(kept.id, "useful") == pytest.approx(useful, abs=1e-6)
    wrong = await chat.give_feedback(kept.id, "wrong")
    assert wrong < 0.6
    standing = await chat.item_provenance(kept.id)
    assert (standing.useful, standing.wrong) == (0, 1)
    with pytest.raises(InvalidInput):
        await chat.give_feedback(kept.id, "meh")


async def test_what_rests_on_an_item_can_be_found_to_the_last_derived_row(chat: Memory) -> None:
    first = await chat.remember("I prefer window seats on trains.", speaker="Ana")
    other = await chat.acting_as(session="chat-2").remember("I prefer window seats on trains.", speaker="Ana")
    alone = await chat.remember("I live in Lisbon with two cats.", speaker="Ana")
    await settled(chat)
    async with chat.resources.database.transaction(chat.identity) as tx:
        shared = await facts_storage.derived_from(tx, [first.id])
        both = await facts_storage.derived_from(tx, [first.id, other.id, alone.id])
    assert [one.is_orphan for one in shared] == [False]
    assert [one.is_orphan for one in both] == [True, True]
