"""Runs: started, turned, ended; every tool call in order and exactly; costs, lists and who may see them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from tests.working import at, run_job

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.errors import Conflict, InvalidInput, NotFound
from recordari.sessions.rules.runs import ABANDONED, NewToolCall, RunStatus, RunUsage
from recordari.sessions.rules.sessions import NoteKind
from recordari.sessions.rules.window import NewMessage
from recordari.tenants.rules import AgentDefinition

# What jsonb would change: order of keys, spaces, forms of numbers, a key twice, U+0000, and text that is not JSON at all.
EXACT = [
    '{"b":1,"a":2}',
    '{ "spaces" :  [1.0, 1e3, -0.0,100000000000000000000] }',
    '{"twice":1,"twice":2}',
    '{"nul":"\\u0000","half":"\\ud800"}',
    '{"broken": ',
    "",
    '{"ünïcode":"日本語 🎉"}',
]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedding_provider": "none"})


@pytest.fixture
def agent(memory: Memory) -> Memory:
    return memory.acting_as(agent="sdr")


async def test_a_run_starts_in_a_session_of_its_own_or_in_the_one_named(agent: Memory) -> None:
    alone = await agent.start_run()
    named = await agent.start_run(session_id="chat", input={"goal": "book"})
    assert named.run.session_id == "chat" != alone.run.session_id
    assert named.run.status is RunStatus.RUNNING and named.run.input["goal"] == "book"
    assert named.run.agent_id == "sdr" and named.turn.number == 1


async def test_starting_a_run_again_is_the_same_run(agent: Memory) -> None:
    await agent.append_episode("Called Acme.")
    first = await agent.start_run(run_id="r1", session_id="chat")
    await agent.append_episode("Called Bolt.")
    again = await agent.start_run(run_id="r1", session_id="chat")
    assert first.was_new and not again.was_new
    assert [one.content for one in again.episodes] == ["Called Acme."] and len(await agent.list_runs()) == 1


async def test_a_run_ends_once(agent: Memory) -> None:
    await agent.start_run(run_id="good")
    done = await agent.complete_run("good", output={"answer": 42})
    assert done.status is RunStatus.COMPLETED and done.output == {"answer": 42} and done.ended_at is not None
    assert await agent.complete_run("good", output={"answer": 42}) == done
    assert await agent.complete_run("good") == done
    with pytest.raises(Conflict, match="another output"):
        await agent.complete_run("good", output={"answer": 43})
    assert (await agent.get_run("good")).output == {"answer": 42}
    with pytest.raises(Conflict, match="completed already"):
        await agent.fail_run("good", error="too late")
    await agent.start_run(run_id="bad")
    failed = await agent.fail_run("bad", error="TimeoutError: the CRM did not answer")
    assert failed.status is RunStatus.FAILED and failed.error is not None and "CRM" in failed.error


async def test_every_turn_has_its_row_and_the_run_its_cost(agent: Memory) -> None:
    await agent.start_run(run_id="r1", session_id="chat")
    await agent.end_turn("r1", usage=RunUsage(tokens_in=100, tokens_out=20, cost=Decimal("0.0012")), state={"step": 1})
    await agent.start_turn("r1")
    await agent.end_turn("r1", usage=RunUsage(tokens_in=50, tokens_out=5, cost=Decimal("0.0003")), error="tool broke")
    await agent.start_turn("r1")
    await agent.complete_run("r1", usage=RunUsage(tokens_in=1))
    replay = await agent.replay_run("r1")
    assert [(turn.number, turn.status) for turn in replay.turns] == [(1, "completed"), (2, "failed"), (3, "completed")]
    assert all(turn.ended_at is not None for turn in replay.turns)
    run = replay.run
    assert (run.tokens_in, run.tokens_out, run.cost, run.turns) == (151, 25, Decimal("0.0015"), 3)
    state = await agent.get_turn_state("chat")
    assert (state.number, state.status, state.data) == (3, "completed", {"step": 1})
    with pytest.raises(Conflict):
        await agent.end_turn("r1")


@pytest.mark.parametrize("result", [{"rows": [1, 2.5, None], "ok": True}, [], 0, False, {"long": "é" * 20_000}])
async def test_a_result_may_be_any_json(result: object, agent: Memory) -> None:
    await agent.start_run(run_id="r1")
    (call,) = await agent.record_tool_calls("r1", [NewToolCall(name="look", arguments={}, result=result, useful=True)])
    (replayed,) = (await agent.replay_run("r1")).calls
    assert (replayed.result, replayed.result_type) == (result, "application/json")
    assert call.result_id is not None


@pytest.mark.parametrize("size", [1, 300, 250_000])
async def test_a_result_may_be_bytes(size: int, agent: Memory) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
    await agent.start_run(run_id="r1")
    new = NewToolCall(name="screenshot", arguments={}, result=body, result_type="image/png", useful=True)
    (call,) = await agent.record_tool_calls("r1", [new])
    (replayed,) = (await agent.replay_run("r1")).calls
    assert (replayed.result_body, replayed.result_type, replayed.result_bytes) == (body, "image/png", size)
    assert await agent.record_tool_calls("r1", [replace(new, number=1)]) == [call]
    with pytest.raises(Conflict, match="another tool call"):
        await agent.record_tool_calls("r1", [replace(new, number=1, result=body + b"x")])
    working = agent.acting_as(session=(await agent.get_run("r1")).session_id)
    (item,) = (await working.recall("screenshot image/png", source_kinds=["tool_output"])).items
    assert item.content == f"screenshot returned {size:,} bytes of image/png"
    assert item.payload_key == call.result_key is not None
    part = await working.read_tool_output(call.result_key, length=100_000)
    read = base64.b64decode(part.content)
    while part.next_start is not None:
        part = await working.read_tool_output(call.result_key, start=part.next_start, length=100_000)
        read += base64.b64decode(part.content)
    assert (read, part.media_type, part.total_bytes) == (body, "image/png", size)


@pytest.mark.parametrize(
    ("result", "result_type", "said"),
    [
        ("no base64!", "image/png", "Base64"),
        ({"a": 1}, "image/png", "Base64"),
        ({"a": 1}, "text/plain", "must be text"),
        ("{broken", "application/json", "no JSON"),
        ("text", "png", "media type"),
        ({"a": float("nan")}, None, "result"),
    ],
)
async def test_a_result_that_does_not_fit_its_type_is_refused(
    result: object, result_type: str | None, said: str, agent: Memory
) -> None:
    await agent.start_run(run_id="r1")
    call = NewToolCall(name="look", arguments={}, result=result, result_type=result_type)
    with pytest.raises(InvalidInput, match=said):
        await agent.record_tool_calls("r1", [call])
    assert (await agent.replay_run("r1")).calls == ()


async def test_a_turn_that_was_left_running_is_completed_by_the_next(agent: Memory) -> None:
    await agent.start_run(run_id="r1")
    assert (await agent.start_turn("r1")).turn.number == 2
    first, second = (await agent.replay_run("r1")).turns
    assert first.status is RunStatus.COMPLETED and second.status is RunStatus.RUNNING


async def test_a_turns_prompt_may_compress_the_session(agent: Memory) -> None:
    await agent.save_agent("sdr", AgentDefinition(window_tokens=1_000))
    await agent.add_messages([NewMessage(content=f"Message {n}") for n in range(10)], session_id="chat")
    await agent.start_run(run_id="r1", session_id="chat")
    await agent.end_turn("r1", prompt_tokens=900)
    window = await agent.get_window("chat")
    assert window.state.epoch == 1 and len(window.active) == 4


@pytest.mark.parametrize("arguments", EXACT)
async def test_arguments_are_replayed_to_the_letter(arguments: str, agent: Memory) -> None:
    await agent.start_run(run_id="r1")
    await agent.record_tool_calls("r1", [NewToolCall(name="tool", arguments=arguments)])
    (call,) = (await agent.replay_run("r1")).calls
    assert call.arguments == arguments


@pytest.mark.parametrize(
    "result", ["", " \n\t", "short", "x" * 20_000, "é" * 150_000, '{"nested": "\\u0000"}', "ends with spaces   \n"]
)
async def test_results_are_replayed_to_the_letter(result: str, agent: Memory) -> None:
    await agent.start_run(run_id="r1")
    (call,) = await agent.record_tool_calls("r1", [NewToolCall(name="tool", arguments={}, result=result)])
    (replayed,) = (await agent.replay_run("r1")).calls
    assert replayed.result == result
    assert replayed.result_sha256 == hashlib.sha256(result.encode()).digest()
    assert (call.result_id is None) == (not result.strip())
    if call.result_key is not None:
        session = (await agent.get_run("r1")).session_id
        whole = await agent.acting_as(session=session).read_tool_output(call.result_key)
        assert whole.content == result


async def test_a_call_without_a_result_differs_from_one_with_an_empty_result(agent: Memory) -> None:
    await agent.start_run(run_id="r1")
    calls = [NewToolCall(name="a", arguments={}), NewToolCall(name="b", arguments={}, result="")]
    await agent.record_tool_calls("r1", calls)
    assert [call.result for call in (await agent.replay_run("r1")).calls] == [None, ""]


async def test_tool_calls_keep_their_order_and_latency(agent: Memory) -> None:
    await agent.start_run(run_id="r1", session_id="chat")
    at_ten = datetime(2026, 5, 2, 10, tzinfo=UTC)
    await agent.record_tool_calls(
        "r1",
        [
            NewToolCall(name="find", arguments={"q": 1}, call_id="c1", latency_ms=12.5, started_at=at_ten),
            NewToolCall(name="book", arguments={"id": 7}, call_id="c2", error="sold out"),
        ],
    )
    await agent.start_turn("r1")
    await agent.record_tool_calls("r1", [NewToolCall(name="pay", arguments={}, call_id="c3")])
    one, two, three = (await agent.replay_run("r1")).calls
    assert [call.number for call in (one, two, three)] == [1, 2, 3]
    assert (one.name, one.latency_ms, one.started_at, one.turn) == ("find", 12.5, at_ten, 1)
    assert (two.error, three.turn) == ("sold out", 2)


async def test_calls_made_at_once_get_places_of_their_own(agent: Memory) -> None:
    await agent.start_run(run_id="r1", session_id="chat")
    await asyncio.gather(
        *(agent.record_tool_calls("r1", [NewToolCall(name=f"t{n}", arguments={}, result=f"r{n}")]) for n in range(12))
    )
    assert [call.number for call in (await agent.replay_run("r1")).calls] == list(range(1, 13))


async def test_a_call_recorded_again_under_its_number_is_the_same_call(agent: Memory) -> None:
    await agent.start_run(run_id="r1")
    call = NewToolCall(name="find", arguments='{"q":1}', result="Found 3", number=1)
    first = await agent.record_tool_calls("r1", [call])
    assert await agent.record_tool_calls("r1", [call]) == first
    later = await agent.record_tool_calls("r1", [call, NewToolCall(name="book", arguments="{}", number=2)])
    assert [one.number for one in later] == [1, 2]
    with pytest.raises(Conflict, match="number 1"):
        await agent.record_tool_calls("r1", [NewToolCall(name="find", arguments='{"q":2}', number=1)])
    with pytest.raises(Conflict, match="has the number 3"):
        await agent.record_tool_calls("r1", [NewToolCall(name="find", arguments="{}", number=5)])
    assert len((await agent.replay_run("r1")).calls) == 2


async def test_a_model_may_use_a_call_id_twice(agent: Memory) -> None:
    for run in ("r1", "r2"):
        await agent.start_run(run_id=run)
        for number in range(2):
            call = NewToolCall(name="t", arguments={"n": number}, result=f"{run} {number}", call_id="c1")
            await agent.record_tool_calls(run, [call])
        await agent.record_tool_calls(run, [call, call])
    replayed = (await agent.replay_run("r2")).calls
    assert [one.result for one in replayed] == ["r2 0", "r2 1", "r2 1", "r2 1"]
    assert {one.call_id for one in replayed} == {"c1"}


async def test_a_result_can_be_recalled_in_its_session_and_noted(agent: Memory) -> None:
    await agent.start_run(run_id="r1", session_id="chat")
    await agent.record_tool_calls(
        "r1", [NewToolCall(name="metabase", arguments={}, result="ANCHOR_TOKEN_7a3f9 order count 412", useful=True)]
    )
    found = await agent.acting_as(session="chat").recall("ANCHOR_TOKEN_7a3f9", source_kinds=["tool_output"])
    assert found.items[0].content.endswith("412")
    (note,) = await agent.list_notes("chat")
    assert note.kind is NoteKind.TOOL_RESULT and "412" in note.content


async def test_an_ended_run_takes_no_calls(agent: Memory) -> None:
    await agent.start_run(run_id="r1")
    await agent.complete_run("r1")
    with pytest.raises(Conflict, match="before it ends"):
        await agent.record_tool_calls("r1", [NewToolCall(name="late", arguments={})])
    with pytest.raises(Conflict):
        await agent.start_turn("r1")


async def test_a_run_whose_session_is_closed_is_abandoned(agent: Memory) -> None:
    await agent.start_run(run_id="r1", session_id="chat")
    await run_job(at(agent, timedelta(days=2)), "close_idle_sessions")
    run = await agent.get_run("r1")
    assert run.status is RunStatus.FAILED and run.error == ABANDONED
    assert (await agent.get_turn_state("chat")).status is RunStatus.FAILED


async def test_a_running_run_keeps_its_session_open(agent: Memory) -> None:
    await agent.start_run(run_id="r1", session_id="chat")
    later = at(agent, timedelta(hours=20))
    await later.record_tool_calls("r1", [NewToolCall(name="t", arguments={})])
    await run_job(at(agent, timedelta(hours=40)), "close_idle_sessions")
    assert (await agent.get_run("r1")).status is RunStatus.RUNNING


async def test_what_was_handed_to_a_run_ends_with_it(agent: Memory) -> None:
    await agent.start_run(run_id="r1", session_id="chat")
    in_run = agent.acting_as(run="r1")
    await in_run.delegate("brief", {"goal": "book"})
    assert await in_run.delegated() == {"brief": {"goal": "book"}}
    await agent.complete_run("r1")
    assert await in_run.delegated() == {}


async def test_runs_are_listed_by_agent_status_session_time_and_page(agent: Memory, memory: Memory) -> None:
    for number in range(4):
        await agent.start_run(run_id=f"r{number}", session_id="chat")
    await agent.complete_run("r1")
    await memory.acting_as(agent="ops").start_run(run_id="other")
    assert [run.run_id for run in await memory.list_runs(agent_id="sdr", status="running")] == ["r3", "r2", "r0"]
    assert [run.run_id for run in await memory.list_runs(session_id="chat", limit=1)] == ["r3"]
    page = await memory.list_runs(limit=2)
    rest = await memory.list_runs(before=page[-1].run_ref)
    assert [run.run_id for run in [*page, *rest]] == ["other", "r3", "r2", "r1", "r0"]
    assert await memory.list_runs(since=datetime.now(UTC) + timedelta(hours=1)) == []
    with pytest.raises(InvalidInput, match="time zone"):
        await memory.list_runs(since=datetime(2026, 1, 1))


async def test_a_run_of_another_agent_or_user_is_missing(memory: Memory) -> None:
    tenant = memory.identity.tenant_id
    sdr = memory.bound(Identity(tenant_id=tenant)).acting_as(agent="sdr", user="ana")
    ops = memory.bound(Identity(tenant_id=tenant)).acting_as(agent="ops")
    bob = memory.bound(Identity(tenant_id=tenant)).acting_as(agent="sdr", user="bob")
    await sdr.start_run(run_id="r1")
    for stranger in (ops, bob):
        with pytest.raises(NotFound, match="there is no such run"):
            await stranger.replay_run("r1")
        with pytest.raises(NotFound):
            await stranger.complete_run("r1")
        assert await stranger.list_runs() == []
    assert [run.run_id for run in await sdr.list_runs()] == ["r1"]


async def test_input_that_cannot_be_kept_is_refused_and_starts_nothing(agent: Memory) -> None:
    refused: list[dict[str, object]] = [{"nul": "\x00"}, {"nan": float("nan")}, {"episodes": []}]
    for bad in refused:
        with pytest.raises(InvalidInput):
            await agent.start_run(input=bad)
    with pytest.raises(InvalidInput, match="currency"):
        await agent.start_run(currency="dollars")
    with pytest.raises(InvalidInput):
        RunUsage(tokens_in=-1)
    assert await agent.list_runs() == []
