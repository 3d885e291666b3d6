"""Working memory: turn state, session notes, the sliding window and compressed mode (W2–W5, T1).

Each test quotes the sentence of the designs that it shows.
"""

from __future__ import annotations

import logging
import random
from datetime import timedelta

import pytest
from tests.local_models import require_model
from tests.working import at, run_job, work_off

from recordari.app import Memory
from recordari.config import Settings, load_settings
from recordari.core.tokens import estimated_tokens, message_tokens
from recordari.errors import NotFound
from recordari.sessions.rules.runs import NewToolCall
from recordari.sessions.rules.sessions import SessionStatus
from recordari.sessions.rules.summaries import SUMMARY_TOKENS
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.tenants.rules import AgentDefinition
from recordari.wiring import open_resources

TURNS = 500


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Settings without embeddings, or those of the profile that a test names."""
    profile = getattr(request, "param", None)
    if profile is None:
        return settings.model_copy(update={"embedding_provider": "none"})
    require_model("potion-base-8M")
    return settings.model_copy(update={"embedding_profile": profile})


def exchange(number: int, user: str, assistant: str) -> list[NewMessage]:
    return [
        NewMessage(content=user, message_id=f"{number}-u"),
        NewMessage(content=assistant, role=MessageRole.ASSISTANT, message_id=f"{number}-a"),
    ]


async def test_the_turn_state_is_made_at_the_first_turn_and_updated_at_its_end(memory: Memory) -> None:
    """W2: "turn_state row created on first /run call; updated on completion"."""
    agent = memory.acting_as(agent="sdr")
    await agent.open_session("instance-1")
    with pytest.raises(NotFound):
        await agent.get_turn_state("instance-1")
    await agent.start_run(run_id="r1", session_id="instance-1")
    began = await agent.get_turn_state("instance-1")
    assert (began.run_id, began.number, began.status) == ("r1", 1, "running")
    await agent.end_turn("r1", state={"current_contact_id": 17})
    ended = await agent.get_turn_state("instance-1")
    assert (ended.status, ended.data) == ("completed", {"current_contact_id": 17})
    assert ended.created_at == began.created_at and ended.updated_at > began.updated_at


async def test_every_turn_is_logged(memory: Memory) -> None:
    """W2: "run_log row written for every agent turn"."""
    agent = memory.acting_as(agent="sdr")
    await agent.start_run(run_id="r1")
    for _ in range(4):
        await agent.start_turn("r1")
    await agent.complete_run("r1")
    assert [turn.number for turn in (await agent.replay_run("r1")).turns] == [1, 2, 3, 4, 5]


async def test_the_summary_rolls_every_five_messages(memory: Memory) -> None:
    """W3: "Stores conversation summary (rolling, updated every 5 messages)"."""
    for number in range(1, 13):
        text = f"Container {number} with {number * 3} pumps has cleared customs in Antwerp."
        await memory.add_messages([NewMessage(content=text, message_id=str(number))], session_id="chat")
        await work_off(memory, "summarise")
        session = await memory.get_session("chat")
        assert session.summarised_to == number // 5 * 5
        assert (f"Container {number // 5 * 5} " in session.summary) or number < 5
    assert estimated_tokens(session.summary) <= SUMMARY_TOKENS


async def test_decisions_and_action_items_are_stored(memory: Memory) -> None:
    """W3: "Stores key decisions and action items extracted per exchange"."""
    await memory.add_messages(
        exchange(1, "We decided to ship by sea.", "Fine. I will book the vessel before Friday."), session_id="chat"
    )
    assert [(note.kind, note.content) for note in await memory.list_notes("chat")] == [
        ("decision", "We decided to ship by sea."),
        ("action_item", "I will book the vessel before Friday."),
    ]


async def test_about_fifty_notes_a_session(memory: Memory) -> None:
    """W3: "Capacity ~50 items per session"; the least important goes first."""
    await memory.add_note("chat", "hardly worth it", importance=0.0)
    for number in range(60):
        await memory.add_messages([NewMessage(content=f"We decided to open warehouse {number}.")], session_id="chat")
    notes = await memory.list_notes("chat")
    assert len(notes) == 50 and "hardly worth it" not in [note.content for note in notes]


async def test_notes_live_a_day_and_the_time_can_be_set(memory: Memory) -> None:
    """W3: "TTL 24 hours after last activity (configurable)"."""
    long = timedelta(days=30)
    await memory.open_session("default", idle=long)
    await memory.add_note("default", "kept for a day")
    await memory.update_tenant(settings={"sessions": {"notes_hours": 72}})
    await memory.open_session("longer", idle=long)
    await memory.add_note("longer", "kept for three")
    later = at(memory, timedelta(hours=25))
    assert await later.list_notes("default") == [] and len(await later.list_notes("longer")) == 1
    await run_job(later, "close_idle_sessions")
    assert await memory.list_notes("default") == [] and len(await memory.list_notes("longer")) == 1


async def test_a_session_is_resumed_from_its_summary_and_window(memory: Memory) -> None:
    """W3: "On session resume: hydrate L0 from L1 summary instead of replaying full history"."""
    await memory.save_agent("sdr", AgentDefinition(window_tokens=600))
    agent = memory.acting_as(agent="sdr")
    for number in range(30):
        await agent.add_messages(
            exchange(number, f"Lamp {number} costs {number + 20} euros in Turin.", f"Noted: lamp {number}."),
            session_id="chat",
        )
    await agent.add_messages([NewMessage(content="We decided to buy lamp 7.")], session_id="chat")
    await work_off(agent, "summarise")
    resumed = await agent.resume_session("chat")
    assert resumed.summary and "Turin" in resumed.summary
    assert 0 < len(resumed.window.messages) < 61 and resumed.window.state.tokens <= 300
    assert resumed.window.messages[-1].content == "We decided to buy lamp 7."
    assert [note.content for note in resumed.notes] == ["We decided to buy lamp 7."]


async def test_a_new_session_after_the_idle_limit_starts_from_the_last_summary(memory: Memory) -> None:
    """T1: "new session allocated on first activity after 30-day idle"; "lazy on next-activity check"."""
    await memory.update_tenant(settings={"sessions": {"operators": ["ana"]}})
    ana = memory.acting_as(user="ana")
    await ana.add_messages(
        [NewMessage(content=f"Rule {n} covers the harbour crane number {n}.") for n in range(5)], session_id="work"
    )
    await work_off(ana, "summarise")
    assert (await at(ana, timedelta(days=29)).resume_session("work")).session.session_id == "work"
    resumed = await at(ana, timedelta(days=60)).resume_session("work")
    assert resumed.session.continues == "work" and resumed.session.session_id != "work"
    assert "harbour crane" in resumed.carried_over and resumed.window.messages == ()
    assert (await ana.get_session("work")).status is SessionStatus.CLOSED


def turns() -> list[list[NewMessage]]:
    """Long talk about few things: turns share most of their words, so that finding one again takes some skill."""
    pick = random.Random(7)
    people = ["Marta", "Anselm", "Yuki", "Rosa", "Tobias", "Ngozi", "Ilse", "Pavel"]
    places = ["Lisbon", "Oslo", "Antwerp", "Turin", "Gdansk", "Porto", "Bergen", "Trieste"]
    goods = ["olive oil", "brass lamps", "cork tiles", "wool blankets", "copper wire", "oak barrels", "sea salt"]
    acts = ["shipped", "ordered", "returned", "inspected", "priced", "repacked", "insured", "photographed"]
    made = []
    for number in range(TURNS // 2):
        person, place, thing = pick.choice(people), pick.choice(places), pick.choice(goods)
        count, price = pick.randint(2, 900), pick.randint(10, 99)
        made.append(
            exchange(
                number,
                f"{person} {pick.choice(acts)} {count} crates of {thing} in {place}; the buyer pays {price} euros each.",
                f"I have put {person}'s {count} crates of {thing} for {place} on sheet {number}, at {price} euros a crate.",
            )
        )
    return made


@pytest.mark.parametrize("settings", ["fast"], indirect=True)
@pytest.mark.parametrize("number", [1, 3, 7, 13])
async def test_a_resumed_session_has_everything_since_the_last_summary(memory: Memory, number: int) -> None:
    """W3: "A session that is resumed starts from the summary and the window", and nothing said is in neither."""
    ana = memory.acting_as(user="ana", session="chat")
    said = [f"Parcel {n} goes to pier {n + 20}." for n in range(number)]
    for text in said:
        await ana.add_messages([NewMessage(content=text)])
        await work_off(ana, "summarise")
    await ana.close_session("chat")
    resumed = await ana.resume_session("chat")
    assert resumed.session.continues == "chat" and resumed.window.messages == ()
    assert [one.content for one in resumed.unsummarised] == said[number // 5 * 5 :]
    known = resumed.carried_over + "".join(one.content for one in resumed.unsummarised)
    assert all(text in known for text in said)
    context = await ana.get_context("Hello again")
    assert all(text in (context.text or "") for text in said)


async def test_a_message_of_a_tool_is_a_tool_output(memory: Memory) -> None:
    """E1: "chat_message … tool_output"; what a tool says is in the conversation, and is found as what it is."""
    ana = memory.acting_as(user="ana", session="chat")
    said = [
        NewMessage(content="How many crates came in?", message_id="q"),
        NewMessage(content="rows: 318 crates", role=MessageRole.TOOL, speaker="warehouse", message_id="t"),
        NewMessage(content="318 crates came in.", role=MessageRole.ASSISTANT, message_id="a"),
    ]
    added = await ana.add_messages(said)
    again = await ana.add_messages(said)
    assert [one.was_new for one in again.messages] == [False] * 3
    assert [(await ana.get_item(one.id)).kind for one in added.messages] == [
        "chat_message",
        "tool_output",
        "chat_message",
    ]
    window = await ana.get_window("chat")
    assert [(one.role, one.kind) for one in window.messages][1] == ("tool", "tool_output")
    assert [one.content for one in await ana.list_messages("chat")] == [one.content for one in said]
    found = await ana.recall("crates", source_kinds=["tool_output"])
    assert [item.content for item in found.items] == ["rows: 318 crates"]
    await ana.start_run(run_id="run", session_id="chat")
    await ana.record_tool_calls("run", [NewToolCall(name="scale", arguments="{}", result="9 kg")])
    assert len((await ana.get_window("chat")).messages) == 3, "a recorded call is no message"


async def test_a_session_of_500_turns_stays_in_bounds_and_loses_nothing(memory: Memory, settings: Settings) -> None:
    """W4: "bound the sliding window by token count, summarize evicted turns into long-term memory … 'the last N tokens,
    plus pointers to summaries'"."""
    await memory.save_agent("clerk", AgentDefinition(window_tokens=4_000))
    clerk = memory.acting_as(agent="clerk", session="chat")
    said: list[str] = []
    for pair in turns():
        for message in pair:
            added = await clerk.add_messages([message])
            said.append(message.content)
            assert added.window.tokens <= added.window.limit == 2_000
            window = await clerk.get_window("chat")
            assert sum(message_tokens(one.content) for one in window.messages) <= 2_000
            assert window.messages[-1].content == message.content
    await work_off(clerk)

    window = await clerk.get_window("chat")
    inside = len(window.messages)
    assert 20 <= inside < TURNS and [one.content for one in window.messages] == said[-inside:]
    covered = [place for fold in window.state.folds for place in range(fold.first, fold.last + 1)]
    assert covered == list(range(1, TURNS - inside + 1)), "every evicted turn is behind exactly one pointer"

    evicted = said[: TURNS - inside]
    asked = evicted[::3]
    found = 0
    for text in asked:
        answer = await clerk.recall(text, scope="session", source_kinds=["chat_message"])
        found += text in [item.content for item in answer.items]
    assert found / len(asked) >= 0.95, f"{found} of {len(asked)}"

    before = await clerk.resume_session("chat")
    async with open_resources(settings) as reopened:
        again = await Memory(reopened, clerk.identity).resume_session("chat")
    assert (again.summary, again.window, again.notes) == (before.summary, before.window, before.notes)
    assert before.summary


async def test_what_is_said_for_a_user_is_recalled_in_another_session(memory: Memory) -> None:
    """W4: nothing said in a session is lost: it stays recallable, as the user's where the caller chose so."""
    ana = memory.acting_as(user="ana")
    await ana.add_messages([NewMessage(content="My sister Ilse moved to Bergen.")], session_id="one", scope="user")
    await ana.add_messages([NewMessage(content="This stays between us in Bergen.")], session_id="one")
    answer = await ana.acting_as(session="two").recall("Who moved to Bergen?", scope="user")
    assert [item.content for item in answer.items] == ["My sister Ilse moved to Bergen."]


async def test_above_eighty_percent_the_tail_goes_from_twenty_to_four(memory: Memory) -> None:
    """W5: "When the previous turn's usage.prompt_tokens exceeds 80% of the model's context window, the composer switches
    from a 20-message tail to a 4-message tail", with "exactly one prefix-bust event per compression epoch"."""
    await memory.save_agent("clerk", AgentDefinition(window_tokens=10_000))
    clerk = memory.acting_as(agent="clerk")
    await clerk.start_run(run_id="r1", session_id="chat")
    await clerk.add_messages([NewMessage(content=f"Message {n}") for n in range(25)], session_id="chat")
    await clerk.end_turn("r1", prompt_tokens=8_000)
    assert len((await clerk.get_window("chat")).active) == 20
    await clerk.start_turn("r1")
    await clerk.end_turn("r1", prompt_tokens=8_001)
    compressed = await clerk.get_window("chat")
    assert len(compressed.active) == 4 and compressed.state.epoch == 1
    assert compressed.state.hint is not None and "recall" in compressed.state.hint
    for number in range(25, 45):
        await clerk.add_messages([NewMessage(content=f"Message {number}")], session_id="chat", prompt_tokens=4_000)
        window = await clerk.get_window("chat")
        assert window.active[:4] == compressed.active, "the prefix stays stable until the next threshold trip"
        assert window.state.epoch == 1
    await clerk.report_usage("chat", 9_000)
    assert len((await clerk.get_window("chat")).active) == 4


async def test_the_window_can_be_overridden_with_a_warning(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W5: "MEMORY_BUDGET_MODEL_WINDOW_OVERRIDE=8000 … overrides the model-window lookup. The api/worker emit a startup
    warning when this is set"."""
    monkeypatch.setenv("RECORDARI_WINDOW_OVERRIDE", "8000")
    assert load_settings().window_override == 8_000
    with caplog.at_level(logging.WARNING):
        async with open_resources(settings) as plain:
            assert plain.settings.window_override is None
        assert "window_override_is_set" not in caplog.text
        changed = settings.model_copy(update={"window_override": 8_000, "worker": False})
        async with Memory.open(tenant="test", settings=changed) as memory:
            added = await memory.add_messages([NewMessage(content="Hello")], session_id="chat")
    assert "window_override_is_set" in caplog.text
    assert added.window.limit == 4_000
