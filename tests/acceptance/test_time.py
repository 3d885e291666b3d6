"""What time does to memory: what fades is still found, other sessions can be asked, and the past has two times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.patience import until
from tests.working import settled

from recordari.app import Memory
from recordari.config import RecallWeights
from recordari.context.assemble import Context
from recordari.core.identity import Identity
from recordari.core.items import Kind, NewItem
from recordari.errors import InvalidInput, Unauthenticated
from recordari.recall.accesses import AccessCounts
from recordari.sessions.rules.window import NewMessage

JANUARY, MARCH, JUNE = (datetime(2025, month, 1, tzinfo=UTC) for month in (1, 3, 6))


@pytest.fixture
def chat(memory: Memory) -> Memory:
    agent = Identity(tenant_id=memory.identity.tenant_id)
    return memory.bound(agent).acting_as(user="ines", agent="helper", session="chat-1")


def at(memory: Memory, days: float) -> Memory:
    """The memory, so many days from now."""
    clock = lambda: datetime.now(UTC) + timedelta(days=days)  # noqa: E731 - shorter than a function
    return Memory(replace(memory.resources, clock=clock), memory.identity)


def texts(answer: Any) -> list[str]:
    return [item.content for item in answer.items]


def shown(context: Context) -> str:
    return context.text or ""


def archived(answer: Any) -> dict[str, bool]:
    return {item.content: item.archived for item in answer.items}


async def fade(memory: Memory, days: float = 40) -> Memory:
    """The memory after so many days, with all that fades archived."""
    later = at(memory, days)
    await later.decay()
    return later


# Archived is not gone


@pytest.mark.parametrize("embeds", [False, True])
async def test_what_has_faded_is_found_by_recall_and_shown_by_no_context_unasked(
    memory: Memory, chat: Memory, embeds: bool
) -> None:
    await chat.remember("the spare keys hang behind the boiler")
    if embeds:
        await settled(chat)
    later = Memory((await fade(memory)).resources, chat.identity)
    assert "boiler" not in shown(await later.get_context("where are the spare keys?"))
    for _ in range(4):  # in the database, then in the process
        answer = await later.recall("where are the spare keys?")
        assert texts(answer) == ["the spare keys hang behind the boiler"]
    await later.resources.get(AccessCounts).flush()
    assert "boiler" in shown(await later.get_context("where are the spare keys?")), "recalled again, it is live again"


async def test_an_archived_item_says_so_and_is_live_again_soon(memory: Memory, chat: Memory) -> None:
    said = await chat.remember("the spare keys hang behind the boiler")
    await settled(chat)
    later = Memory((await fade(memory)).resources, chat.identity)
    assert archived(await later.recall("spare keys")) == {"the spare keys hang behind the boiler": True}

    async def is_live() -> bool:
        return (await later.get_item(said.id)).archived_at is None

    await until(is_live)
    assert archived(await later.recall("spare keys")) == {"the spare keys hang behind the boiler": False}
    assert (await at(memory, 41).decay()).archived == 0, "it was used a day ago"


async def test_what_was_said_in_a_session_stays_in_it_when_it_fades(memory: Memory, chat: Memory) -> None:
    await chat.open_session("chat-1", idle=timedelta(days=90))
    said = NewMessage(content="the spare keys hang behind the boiler", message_id="m1")
    (message,) = (await chat.add_messages([said])).messages
    later = Memory((await fade(memory)).resources, chat.identity)
    assert (await later.get_item(message.id)).archived_at is not None
    assert [each.content for each in await later.list_messages("chat-1")] == [said.content]
    assert [each.content for each in (await later.get_window("chat-1")).active] == [said.content]


async def test_of_two_equal_texts_the_one_that_did_not_fade_comes_first(memory: Memory, chat: Memory) -> None:
    await chat.remember("the ferry to Ven leaves at nine", speaker="Olle")
    later = Memory((await fade(memory)).resources, chat.identity)
    await later.remember("the ferry to Ven leaves at seven", speaker="Olle", event_time=datetime.now(UTC))
    await settled(later)
    answer = await later.recall("when leaves the ferry to Ven")
    assert texts(answer) == ["the ferry to Ven leaves at seven", "the ferry to Ven leaves at nine"]
    assert [item.archived for item in answer.items] == [False, True]


async def test_a_tenant_may_hide_what_has_faded(memory: Memory, chat: Memory) -> None:
    await chat.remember("the spare keys hang behind the boiler")
    await settled(chat)
    later = Memory((await fade(memory)).resources, chat.identity)
    await memory.update_tenant(settings={"archive": "hidden"})
    assert texts(await later.recall("spare keys boiler")) == []
    await memory.update_tenant(settings={"archive": "shown"})
    assert texts(await later.recall("spare keys boiler")) == ["the spare keys hang behind the boiler"]
    with pytest.raises(InvalidInput, match="archive must be one of shown, hidden"):
        await memory.update_tenant(settings={"archive": "gone"})


async def test_a_new_fact_ends_an_archived_one_that_it_contradicts(memory: Memory, chat: Memory) -> None:
    old = await chat.remember_fact("Ines lives in Oporto", tier="recent")
    await settled(chat)
    later = Memory((await fade(memory)).resources, chat.identity)
    assert (await later.get_item(old.id)).archived_at is not None
    await later.remember_fact("Ines lives in Braga")
    await settled(later)
    assert texts(await later.recall("where does Ines live")) == ["Ines lives in Braga"]


async def test_only_the_policy_removes_what_has_faded(memory: Memory, chat: Memory) -> None:
    await chat.remember("the spare keys hang behind the boiler")
    await fade(memory)
    years = Memory(at(memory, 3_000).resources, chat.identity)
    await at(memory, 3_000).sweep()
    assert archived(await years.recall("spare keys")) == {"the spare keys hang behind the boiler": True}
    await fade(memory, 3_100)
    await memory.set_retention_policy(archived_days=10, safety_share=1.0)
    await at(memory, 3_200).sweep()
    assert texts(await years.recall("spare keys")) == []


# History


async def say(memory: Memory, session: str, lines: Iterable[str], *, days_ago: float = 0) -> None:
    moment = datetime.now(UTC) - timedelta(days=days_ago)
    messages = [NewMessage(content=line, event_time=moment) for line in lines]
    await memory.acting_as(session=session).add_messages(messages)


def last_week() -> float:
    """Days since the middle of last week."""
    return datetime.now(UTC).weekday() + 4


async def test_what_was_discussed_last_week_is_found_in_a_new_session(memory: Memory, chat: Memory) -> None:
    await say(chat, "monday", ["Could the kitchen table be made of walnut?"], days_ago=last_week())
    await say(chat, "older", ["Could the bathroom floor be slate?"], days_ago=last_week() + 30)
    await settled(chat)
    new = chat.acting_as(session="today")
    question = "What did we discuss last week?"
    for scope in ("any", "history"):
        assert texts(await new.recall(question, scope=scope))[0] == "Could the kitchen table be made of walnut?"
    for scope in ("session", "user", "agent"):
        assert texts(await new.recall(question, scope=scope)) == []
    context = await new.get_context(question)
    (temporal,) = (section for section in context.sections if section.name == "temporal")
    assert [item.content for item in temporal.items] == ["Could the kitchen table be made of walnut?"]
    unasked = await new.get_context("Which wood is the table made of?")
    assert "walnut" not in shown(unasked), "other sessions are not shown unasked"


async def test_history_is_the_users_own_and_of_other_sessions(memory: Memory, chat: Memory) -> None:
    await say(chat, "one", ["the greenhouse code is 4711"])
    await say(chat.acting_as(user="omar"), "two", ["the greenhouse code is 9999"])
    await chat.acting_as(session="one").remember("greenhouse: 31 degrees", kind="tool_output")
    await settled(chat)
    new = chat.acting_as(session="three")
    for _ in range(4):  # in the database, then in the process
        found = await new.recall("greenhouse code", scope="history")
        assert sorted(texts(found)) == ["greenhouse: 31 degrees", "the greenhouse code is 4711"]
        assert {item.session_id for item in found.items} == {"one"}
        assert texts(await chat.acting_as(session="one").recall("greenhouse code", scope="history")) == []
    await say(chat, "four", ["the greenhouse code changed to 5150"])
    assert "the greenhouse code changed to 5150" in texts(await new.recall("greenhouse code", scope="history"))


async def test_without_a_user_there_is_no_history(memory: Memory, chat: Memory) -> None:
    await say(chat, "one", ["the greenhouse code is 4711"])
    nobody = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(agent="helper", session="two")
    assert texts(await nobody.recall("greenhouse code")) == []
    with pytest.raises(Unauthenticated, match="scope history needs a user"):
        await nobody.recall("greenhouse code", scope="history")


async def test_a_tenant_mutes_history_and_a_request_that_names_it_finds_it_still(memory: Memory, chat: Memory) -> None:
    await say(chat, "one", ["the greenhouse code is 4711"])
    new = chat.acting_as(session="two")
    assert texts(await new.recall("greenhouse code")) == ["the greenhouse code is 4711"]
    await memory.update_tenant(settings={"history": 0})
    answer = await new.recall("greenhouse code", explain=True)
    assert texts(answer) == [] and answer.trace is not None
    assert answer.trace["scopes_left_out"] == {"history": "its weight is 0"}
    assert texts(await new.recall("greenhouse code", scope="history")) == ["the greenhouse code is 4711"]
    with pytest.raises(InvalidInput, match="history must be a weight"):
        await memory.update_tenant(settings={"history": "off"})


async def test_the_setting_mutes_history(chat: Memory) -> None:
    await say(chat, "one", ["the greenhouse code is 4711"])
    settings = chat.resources.settings.model_copy(update={"recall_weights": RecallWeights(history=0.0)})
    quiet = Memory(replace(chat.resources, settings=settings), chat.identity).acting_as(session="two")
    assert texts(await quiet.recall("greenhouse code")) == []


# Two times


async def test_a_dated_history_can_be_asked_although_it_was_written_later(chat: Memory) -> None:
    await chat.remember_many(
        [
            NewItem(content="Ines works at Nordwind", kind=Kind.FACT, event_time=JANUARY),
            NewItem(content="Ines works at Sonnenhof", kind=Kind.FACT, event_time=JUNE),
        ]
    )
    await settled(chat)
    question = "where does Ines work"
    assert texts(await chat.recall(question, as_of=JANUARY - timedelta(days=1))) == []
    assert texts(await chat.recall(question, as_of=MARCH)) == ["Ines works at Nordwind"]
    assert texts(await chat.recall(question, as_of=JUNE + timedelta(days=1))) == ["Ines works at Sonnenhof"]
    assert texts(await chat.recall(question, known_at=MARCH)) == [], "nobody had said so then"
    then = shown(await chat.get_context(question, as_of=MARCH))
    assert "Nordwind" in then and "Sonnenhof" not in then
    assert "Nordwind" not in shown(await chat.get_context(question, known_at=MARCH))


async def test_what_was_believed_is_asked_apart_from_what_was_true(chat: Memory) -> None:
    """In March Ines changed her employer; we heard of it only now."""
    question = "where does Ines work"
    await chat.remember_fact("Ines works at Nordwind", event_time=JANUARY)
    await settled(chat)
    before = datetime.now(UTC)
    await chat.remember_fact("Ines works at Sonnenhof", event_time=MARCH)
    await settled(chat)
    now = datetime.now(UTC)
    assert texts(await chat.recall(question, as_of=JUNE)) == ["Ines works at Sonnenhof"], "what was true in June"
    assert texts(await chat.recall(question, known_at=before)) == ["Ines works at Nordwind"], "what we believed"
    both = await chat.recall(question, as_of=JUNE, known_at=before)
    assert texts(both) == ["Ines works at Nordwind"], "what we believed of June"
    assert texts(await chat.recall(question, as_of=JANUARY, known_at=now)) == ["Ines works at Nordwind"]
    assert texts(await chat.recall(question, known_at=now)) == texts(await chat.recall(question))

    async def listed(*, as_of: datetime | None = None, known_at: datetime | None = None) -> list[str]:
        page = await chat.list_items(kinds=["fact"], as_of=as_of, known_at=known_at)
        return [item.content for item in page.items]

    assert await listed() == await listed(known_at=now) == ["Ines works at Sonnenhof"]
    assert await listed(known_at=before) == await listed(as_of=JUNE, known_at=before) == ["Ines works at Nordwind"]
    assert await listed(as_of=JANUARY) == ["Ines works at Nordwind"], "what was true in January"
    assert await listed(as_of=JANUARY - timedelta(days=1)) == []
    with pytest.raises(InvalidInput):
        await chat.list_items(state="superseded", known_at=before)
    (old, _) = await chat.item_history(both.items[0].id)
    assert old.invalid_at == MARCH and old.retired_at is not None and before < old.retired_at < now


async def test_a_person_who_ends_a_fact_ends_it_from_then_on(chat: Memory) -> None:
    fact = await chat.remember_fact("Ines works at Nordwind", event_time=JANUARY)
    before = datetime.now(UTC)
    await chat.invalidate_item(fact.id)
    assert texts(await chat.recall("where does Ines work")) == []
    assert texts(await chat.recall("where does Ines work", known_at=before)) == ["Ines works at Nordwind"]
    await chat.restore_item(fact.id)
    assert (await chat.get_item(fact.id)).retired_at is None


async def test_a_moment_needs_a_time_zone(chat: Memory) -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        await chat.recall("anything", known_at=datetime(2026, 3, 1))
    with pytest.raises(InvalidInput, match="time zone"):
        await chat.get_context("anything", known_at=datetime(2026, 3, 1))
