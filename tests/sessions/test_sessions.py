"""Sessions: opened, resumed, closed when idle, continued by a successor; their messages, window and notes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from tests.statements import counted
from tests.working import at, run_job, work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound
from recordari.sessions.rules.sessions import CloseReason, NoteKind, SessionStatus
from recordari.sessions.rules.summaries import Said
from recordari.sessions.rules.window import HINT, MessageRole, NewMessage
from recordari.sessions.summaries import Summariser
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition

HOUR = timedelta(hours=1)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedding_provider": "none"})


def said(*texts: str, start: int = 1) -> list[NewMessage]:
    roles = (MessageRole.USER, MessageRole.ASSISTANT)
    return [
        NewMessage(content=text, role=roles[place % 2], message_id=f"m{place + start}")
        for place, text in enumerate(texts)
    ]


async def test_opening_twice_gives_the_same_session(memory: Memory) -> None:
    first = await memory.open_session("chat", metadata={"channel": "web"})
    again = await memory.open_session("chat")
    assert first.was_new and not again.was_new
    assert again.session.session_ref == first.session.session_ref and again.session.metadata == {"channel": "web"}


async def test_concurrent_openers_share_one_session(memory: Memory) -> None:
    opened = await asyncio.gather(*(memory.open_session("chat") for _ in range(8)))
    assert len({one.session.session_ref for one in opened}) == 1
    assert sum(one.was_new for one in opened) == 1


async def test_a_session_without_an_id_gets_one(memory: Memory) -> None:
    one, other = await memory.open_session(), await memory.open_session()
    assert one.session.session_id != other.session.session_id


async def test_an_idle_session_is_closed_by_the_next_activity_and_continued(memory: Memory) -> None:
    await memory.add_messages(said("The Lisbon launch is on 14 March."), session_id="chat")
    in_time = await at(memory, 23 * HOUR).open_session("chat")
    assert not in_time.was_new
    late = at(memory, 48 * HOUR)
    successor = await late.open_session("chat")
    assert successor.was_new and successor.session.session_id != "chat"
    assert successor.session.continues == "chat" and successor.session.root_id == "chat"
    closed = await memory.get_session("chat")
    assert closed.status is SessionStatus.CLOSED and closed.close_reason is CloseReason.IDLE
    # The id that the caller knows goes on working, and leads to the successor.
    added = await late.add_messages(said("Is it still on?", start=2), session_id="chat")
    assert added.session_id == successor.session.session_id
    assert [one.content for one in await late.list_messages("chat")] == ["The Lisbon launch is on 14 March."]


async def test_concurrent_activity_after_idleness_makes_one_successor(memory: Memory) -> None:
    await memory.open_session("chat")
    late = at(memory, 48 * HOUR)
    added = await asyncio.gather(
        *(late.add_messages([NewMessage(content=f"Message {n}")], session_id="chat") for n in range(8))
    )
    assert len({one.session_id for one in added}) == 1
    assert len(await memory.list_sessions()) == 2


async def test_a_closed_session_stays_closed_and_has_a_successor(memory: Memory) -> None:
    await memory.open_session("chat")
    closed = await memory.close_session("chat")
    assert closed.close_reason is CloseReason.ASKED
    assert (await memory.close_session("chat")).closed_at == closed.closed_at
    assert (await memory.resume_session("chat")).session.continues == "chat"
    assert (await memory.get_session("chat")).status is SessionStatus.CLOSED


async def test_the_idle_limit_comes_from_the_session_the_agent_the_operator_or_the_tenant(memory: Memory) -> None:
    await memory.update_tenant(settings={"sessions": {"idle_hours": 2, "agents": {"ops": 48}, "operators": ["ana"]}})
    opened = {
        "given": await memory.open_session("given", idle=5 * HOUR),
        "agent": await memory.acting_as(agent="ops").open_session("agent"),
        "operator": await memory.acting_as(user="ana").open_session("operator"),
        "tenant": await memory.open_session("tenant"),
    }
    hours = {name: one.session.idle_seconds / 3600 for name, one in opened.items()}
    assert hours == {"given": 5, "agent": 48, "operator": 720, "tenant": 2}


async def test_the_nightly_job_closes_idle_sessions_of_its_tenant_only(memory: Memory) -> None:
    other_tenant = await tenants.ensure_tenant(memory.resources, "other")
    other = memory.bound(Identity(tenant_id=other_tenant.tenant_id, role=Role.ADMIN))
    await other.open_session("theirs")
    await memory.open_session("short")
    await memory.open_session("long", idle=timedelta(days=30))
    await memory.add_note("short", "call the bank")
    await run_job(at(memory, 25 * HOUR), "close_idle_sessions")
    assert (await memory.get_session("short")).close_reason is CloseReason.IDLE
    assert (await memory.get_session("long")).status is SessionStatus.OPEN
    assert (await other.get_session("theirs")).status is SessionStatus.OPEN
    assert await memory.list_notes("short") == []
    (entry,) = await memory.list_audit(subject_kind="session", subject_id="short")
    assert entry.action == "session.close"


async def test_resuming_a_session_that_never_was_is_an_error(memory: Memory) -> None:
    with pytest.raises(NotFound):
        await memory.resume_session("nobody")
    with pytest.raises(NotFound):
        await memory.get_window("nobody")


async def test_sessions_are_listed_by_agent_status_and_page(memory: Memory) -> None:
    sdr = memory.acting_as(agent="sdr")
    for number in range(5):
        await sdr.open_session(f"sdr-{number}")
    await memory.open_session("other")
    await memory.close_session("sdr-1")
    names = [one.session_id for one in await memory.list_sessions(agent_id="sdr", status="open")]
    assert names == ["sdr-4", "sdr-3", "sdr-2", "sdr-0"]
    page = await memory.list_sessions(agent_id="sdr", limit=2)
    rest = await memory.list_sessions(agent_id="sdr", before=page[-1].session_ref)
    assert [one.session_id for one in [*page, *rest]] == ["sdr-4", "sdr-3", "sdr-2", "sdr-1", "sdr-0"]
    assert await memory.list_sessions(until=memory.resources.clock() - HOUR) == []
    with pytest.raises(InvalidInput, match="status must be one of open, closed"):
        await memory.list_sessions(status="sleeping")


async def test_a_users_session_is_missing_for_another_user(memory: Memory) -> None:
    hers = await memory.acting_as(user="ana").open_session("private")
    bob = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="bob")
    for attempt in (bob.get_session, bob.resume_session, bob.close_session, bob.get_window):
        with pytest.raises(NotFound, match="there is no such session"):
            await attempt("private")
    assert await bob.list_sessions() == []
    his = await bob.open_session("private")
    assert his.was_new and his.session.session_ref != hers.session.session_ref
    await bob.add_messages(said("My own"), session_id="private")
    assert (await memory.acting_as(user="ana").get_session("private")).messages == 0
    nobody = memory.bound(Identity(tenant_id=memory.identity.tenant_id))
    with pytest.raises(Forbidden):
        await nobody.list_sessions()


async def test_a_message_sent_again_is_the_same_message(memory: Memory) -> None:
    first = await memory.add_messages(said("One", "Two"), session_id="chat")
    again = await memory.add_messages(said("One", "Two", "Three"), session_id="chat")
    assert [one.was_new for one in again.messages] == [False, False, True]
    assert [one.id for one in again.messages[:2]] == [one.id for one in first.messages]
    assert (await memory.get_session("chat")).messages == 3
    with pytest.raises(Conflict):
        await memory.add_messages(said("Another text"), session_id="chat")


async def test_a_tool_message_sent_again_is_the_same_message(memory: Memory) -> None:
    ana = memory.acting_as(user="ana")
    await ana.add_messages(said("One"), session_id="chat")
    looked_up = NewMessage(content="42 orders", role=MessageRole.TOOL, message_id="call-1")
    first = await ana.add_messages([looked_up], session_id="chat")
    again = await ana.add_messages([looked_up, *said("One", "Two")[1:]], session_id="chat")
    assert [one.was_new for one in again.messages] == [False, True]
    assert again.messages[0].id == first.messages[0].id
    assert (await ana.get_session("chat")).messages == 3


async def test_sessions_number_their_messages_alike_and_lose_none(memory: Memory) -> None:
    await memory.add_messages(said("ok"), session_id="one")
    added = await memory.add_messages(said("ok"), session_id="two")
    assert added.messages[0].was_new
    assert len(await memory.list_messages("two")) == 1


async def test_people_repeat_themselves_within_one_call(memory: Memory) -> None:
    await memory.add_messages([NewMessage(content="ok"), NewMessage(content="ok")], session_id="chat")
    assert [one.content for one in await memory.list_messages("chat")] == ["ok", "ok"]


async def test_a_message_sent_again_after_its_session_closed_is_still_the_same(memory: Memory) -> None:
    await memory.add_messages(said("One"), session_id="chat")
    await memory.close_session("chat")
    again = await memory.add_messages(said("One"), session_id="chat")
    assert not again.messages[0].was_new
    assert (await memory.get_window("chat")).messages == ()


async def test_a_bad_message_keeps_none_of_its_batch(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="content"):
        await memory.add_messages([*said("Good"), NewMessage(content="  ")], session_id="chat")
    with pytest.raises(NotFound):
        await memory.get_session("chat")


async def test_roles_become_carriers_and_come_back(memory: Memory) -> None:
    roles = list(MessageRole)
    added = await memory.add_messages(
        [NewMessage(content=f"said by {role}", role=role) for role in roles], session_id="chat"
    )
    kept = [await memory.get_item(one.id) for one in added.messages]
    assert [item.trust for item in kept] == ["user", "agent", "tool", "agent"]
    assert [one.role for one in await memory.list_messages("chat")] == roles


async def test_concurrent_writers_stand_in_line(memory: Memory) -> None:
    await asyncio.gather(
        *(
            memory.add_messages([NewMessage(content=f"{n}a"), NewMessage(content=f"{n}b")], session_id="chat")
            for n in range(10)
        )
    )
    found = await memory.list_messages("chat")
    assert [one.position for one in found] == list(range(1, 21))
    assert all(found[place].content[:-1] == found[place + 1].content[:-1] for place in range(0, 20, 2))


async def test_the_summary_is_renewed_every_five_messages(memory: Memory) -> None:
    texts = [f"Shipment {n} leaves Rotterdam with {n * 10} crates of olive oil." for n in range(1, 10)]
    await memory.add_messages(said(*texts[:4]), session_id="chat")
    await work_off(memory, "summarise")
    assert (await memory.get_session("chat")).summary == ""
    await memory.add_messages(said(texts[4], start=5), session_id="chat")
    await work_off(memory, "summarise")
    five = await memory.get_session("chat")
    assert "Shipment 5" in five.summary and five.summarised_to == 5
    await memory.add_messages(said(*texts[5:], start=6), session_id="chat")
    await work_off(memory, "summarise")
    assert (await memory.get_session("chat")).summarised_to == 5
    assert five.summary_id is not None
    item = await memory.get_item(five.summary_id)
    assert item.kind == "session_summary" and item.content == five.summary and item.tier == "session"


async def test_a_renewed_summary_replaces_the_old_item(memory: Memory) -> None:
    for start in (1, 6):
        texts = [f"Crate {n} holds {n} bottles of olive oil." for n in range(start, start + 5)]
        await memory.add_messages(said(*texts, start=start), session_id="chat")
        await work_off(memory, "summarise")
    session = await memory.get_session("chat")
    assert session.summary_id is not None
    assert (await memory.get_item(session.summary_id)).content == session.summary
    found = await memory.acting_as(session="chat").recall("olive oil", source_kinds=["session_summary"])
    assert found.total == 1


class Failing:
    name = "failing"

    async def summarise(self, previous: str, said: Sequence[Said], *, most_tokens: int) -> str:
        raise RuntimeError("the model is away")


class Shouting:
    name = "shouting"

    async def summarise(self, previous: str, said: Sequence[Said], *, most_tokens: int) -> str:
        return f"{previous} {len(said)} MESSAGES".strip()


async def test_another_summariser_can_be_plugged_in(memory: Memory) -> None:
    loud = Memory(memory.resources.replacing(Summariser, Shouting()), memory.identity)
    await loud.add_messages(said(*"abcde"), session_id="chat")
    await work_off(loud, "summarise")
    session = await loud.get_session("chat")
    assert session.summary == "5 MESSAGES" and session.summary_id is not None
    assert (await loud.get_item(session.summary_id)).metadata["summariser"] == "shouting"


async def test_a_summariser_that_fails_is_stood_in_for(memory: Memory) -> None:
    broken = Memory(memory.resources.replacing(Summariser, Failing()), memory.identity)
    texts = [f"Crate {n} holds {n} bottles of olive oil." for n in range(1, 6)]
    await broken.add_messages(said(*texts), session_id="chat")
    await work_off(broken, "summarise")
    session = await broken.get_session("chat")
    assert "olive oil" in session.summary and session.summary_id is not None
    assert (await broken.get_item(session.summary_id)).metadata["summariser"] == "offline"


async def test_decisions_and_tasks_are_noted_as_they_are_said(memory: Memory) -> None:
    await memory.add_messages(
        said("We decided to use Postgres for the ledger.", "I will send the contract to Marta by Friday."),
        session_id="chat",
    )
    decision, task = await memory.list_notes("chat")
    assert (decision.kind, task.kind) == (NoteKind.DECISION, NoteKind.ACTION_ITEM)
    assert decision.item_id is not None
    assert (await memory.get_item(decision.item_id)).content == decision.content


async def test_past_fifty_notes_the_least_important_goes(memory: Memory) -> None:
    for number in range(50):
        await memory.add_note("chat", f"note {number}", importance=0.1 + number / 100)
    await memory.add_note("chat", "weightier", importance=0.9)
    contents = [note.content for note in await memory.list_notes("chat")]
    assert len(contents) == 50 and "note 0" not in contents and "weightier" in contents
    await memory.add_note("chat", "trifle", importance=0.01)
    assert "trifle" not in [note.content for note in await memory.list_notes("chat")]


async def test_a_note_that_no_longer_holds_can_be_removed(memory: Memory) -> None:
    done = await memory.add_note("chat", "call the bank", kind="action_item")
    open_task = await memory.add_note("chat", "send the contract", kind="action_item")
    with pytest.raises(NotFound):
        await memory.delete_note("another", done.note_id)
    await memory.open_session("another")
    with pytest.raises(NotFound, match="no such note"):
        await memory.delete_note("another", done.note_id)
    await memory.delete_note("chat", done.note_id)
    assert await memory.list_notes("chat") == [open_task]


async def test_notes_live_for_a_day_after_the_last_activity(memory: Memory) -> None:
    await memory.open_session("chat", idle=timedelta(days=30))
    await memory.add_note("chat", "call the bank")
    assert len(await at(memory, 23 * HOUR).list_notes("chat")) == 1
    late = at(memory, 25 * HOUR)
    assert await late.list_notes("chat") == []
    await late.add_note("chat", "a new day")
    assert [note.content for note in await late.list_notes("chat")] == ["a new day"]


async def test_what_leaves_the_window_is_summarised_with_pointers_both_ways(memory: Memory) -> None:
    await memory.save_agent("small", AgentDefinition(window_tokens=400))
    agent = memory.acting_as(agent="small")
    for number in range(1, 41):
        text = f"Order {number} ships {number * 7} lamps to harbour {chr(64 + number % 26 + 1)}."
        added = await agent.add_messages([NewMessage(content=text)], session_id="chat")
        assert added.window.tokens <= added.window.limit == 200
        if number % 20 == 0:
            await work_off(agent, "summarise")
    window = await agent.get_window("chat")
    assert window.state.tokens <= 200 and window.messages[-1].content.startswith("Order 40 ")
    folds = window.state.folds
    assert folds[0].first == 1 and folds[-1].last == window.messages[0].position - 1
    assert len(folds) > 1 and all(later.first == earlier.last + 1 for earlier, later in pairwise(folds))
    summary = await agent.get_item(folds[0].summary_id)
    assert summary.kind == "session_summary" and summary.tier == "recent"
    covers = summary.metadata["covers"]
    behind = await agent.list_messages(summary.session_id or "", after=covers["first"] - 1, until=covers["last"])
    assert len(behind) == covers["last"] and {one.summary_id for one in behind} == {summary.item_id}
    assert all(one.summary_id is None for one in window.messages)


async def test_a_full_prompt_compresses_the_context_once(memory: Memory) -> None:
    await memory.save_agent("small", AgentDefinition(window_tokens=10_000))
    agent = memory.acting_as(agent="small")
    await agent.add_messages([NewMessage(content=f"Message {n}") for n in range(1, 31)], session_id="chat")
    assert len((await agent.get_window("chat")).active) == 20
    assert (await agent.report_usage("chat", 8_000)).epoch == 0
    state = await agent.report_usage("chat", 8_001)
    assert (state.epoch, state.compressed, state.hint) == (1, True, HINT)
    assert (await agent.report_usage("chat", 9_000)).epoch == 1
    window = await agent.get_window("chat")
    assert [one.content for one in window.active] == [f"Message {n}" for n in range(27, 31)]
    await agent.add_messages([NewMessage(content="Message 31")], session_id="chat", prompt_tokens=3_000)
    grown = await agent.get_window("chat")
    assert grown.active[:4] == window.active and len(grown.active) == 5
    added = await agent.add_messages([NewMessage(content="Message 32")], session_id="chat", prompt_tokens=9_500)
    assert added.window.epoch == 2
    assert len((await agent.get_window("chat")).active) == 4


async def test_messages_remembered_without_a_session_still_keep_the_windows_bound(memory: Memory) -> None:
    await memory.open_session("chat")
    session = memory.acting_as(session="chat")
    settings = session.resources.settings.model_copy(update={"window_override": 200})
    small = Memory(replace(session.resources, settings=settings), session.identity)
    for number in range(30):
        await small.remember(f"A sentence of some length with the number {number}.")
    window = await small.get_window("chat")
    assert window.state.limit == 100 and 50 < window.state.tokens <= 100
    assert window.messages[-1].content.endswith("29.")


async def test_recall_follows_a_session_into_its_successor(memory: Memory) -> None:
    agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana", agent="helper")
    chat = agent.acting_as(session="chat-1")
    await chat.add_messages([NewMessage(content="the parcel left Lund")])
    output = await chat.remember("parcel scan " * 2_000, kind="tool_output", source_ref="scan-1")
    await chat.close_session("chat-1")
    await chat.add_messages([NewMessage(content="the parcel reached Malmö")])
    (newest, *_) = await chat.list_sessions(agent_id="helper")
    assert newest.continues == "chat-1"
    for session in ("chat-1", newest.session_id):
        here = agent.acting_as(session=session)
        found = {item.content for item in (await here.recall("where is the parcel", scope="session", top_k=20)).items}
        assert {"the parcel left Lund", "the parcel reached Malmö"} <= found
        assert (await here.get_item(output.id)).source_ref == "scan-1"
        assert output.payload_key is not None
        assert (await here.read_tool_output(output.payload_key)).is_whole
        assert len((await here.list_items(kinds=["chat_message"])).items) == 2
    elsewhere = agent.acting_as(session="chat-2")
    await elsewhere.add_messages([NewMessage(content="hello")])
    assert (await elsewhere.recall("where is the parcel", scope="session")).items == ()
    with pytest.raises(NotFound):
        await elsewhere.get_item(output.id)


async def test_what_is_said_in_a_users_session_is_shown_to_no_other_user_who_knows_its_id(memory: Memory) -> None:
    plain = memory.bound(replace(memory.identity, role=Role.AGENT, user_id=None))
    ana, ben = plain.acting_as(user="ana", session="visit"), plain.acting_as(user="ben", session="visit")
    await ana.open_session("visit")
    added = await ana.add_messages([NewMessage(content="The alarm code is zebra")], session_id="visit")
    output = await ana.remember("zebra " * 5_000, kind="tool_output", session_id="visit")
    assert output.payload_key is not None
    assert (await ana.recall("alarm code", scope="session")).items[0].content == "The alarm code is zebra"
    assert "zebra" in ((await ana.get_context("alarm code")).text or "")

    assert (await ben.recall("alarm code zebra", scope="session")).items == ()
    assert (await ben.recall("alarm code zebra")).items == ()
    assert "zebra" not in ((await ben.get_context("alarm code")).text or "")
    for refused in (
        ben.get_item(added.messages[0].id),
        ben.read_tool_output(output.payload_key),
        ben.get_window("visit"),
        ben.list_messages("visit"),
    ):
        with pytest.raises(NotFound):
            await refused
    await ben.add_messages([NewMessage(content="It is ben's now")], session_id="visit")
    assert [one.content for one in await ben.list_messages("visit")] == ["It is ben's now"]
    assert [one.content for one in await ana.list_messages("visit")] == ["The alarm code is zebra"]
    assert (await ben.recall("whose is it now", scope="session")).items[0].content == "It is ben's now"


async def test_the_messages_of_an_agents_session_are_as_hidden_as_the_session(memory: Memory) -> None:
    plain = memory.bound(replace(memory.identity, role=Role.AGENT, user_id=None))
    await plain.acting_as(agent="alpha").add_messages([NewMessage(content="Berth four")], session_id="alphas")
    beta = plain.acting_as(agent="beta")
    for hidden in (beta.get_session("alphas"), beta.get_window("alphas"), beta.list_messages("alphas")):
        with pytest.raises(NotFound):
            await hidden


async def test_sessions_of_several_users_are_summarised_together(memory: Memory) -> None:
    chats = {name: memory.acting_as(user=name, session="chat") for name in ("ana", "ben", "cem")}
    for name, chat in chats.items():
        await chat.add_messages([NewMessage(content=f"We decided on the {name} plan {number}.") for number in range(5)])
    with counted() as sent:
        await work_off(memory, "summarise")
    for name, chat in chats.items():
        summary = (await chat.get_session("chat")).summary
        assert f"{name} plan" in summary and not any(f"{other} plan" in summary for other in chats if other != name)
    assert sum(many for statement, many in sent.statements.items() if "AS span" in statement) == 1
