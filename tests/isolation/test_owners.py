"""Two users of one tenant choose the same ids: each has their own things, and nothing tells one of the other's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.doors.rest_door import Door, open_door
from tests.stored import rows

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Role
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.sessions.rules.runs import NewToolCall
from recordari.sessions.rules.window import NewMessage
from recordari.tenants import tenants

Step = tuple[str, str, Any]
LONG = "scan " * 6_000  # more than an item holds: it has a body
UUIDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^\"]*")


def steps(who: str, *, agent: bool) -> Iterator[Step]:
    """Every route that takes an id of the caller's choice, each with the same ids for everybody."""
    said = [{"content": f"{who} likes tea.", "message_id": "m-1"}, {"content": f"{who} was here.", "message_id": "m-2"}]
    yield "POST", "/v1/sessions", {"session_id": "monday", "metadata": {"of": who}}
    yield "POST", "/v1/sessions", {"session_id": "monday"}
    yield "POST", "/v1/sessions/monday/messages", {"messages": said}
    yield "POST", "/v1/sessions/monday/messages", {"messages": said}
    yield "POST", "/v1/sessions/monday/messages", {"messages": [{"content": "other words", "message_id": "m-1"}]}
    yield "POST", "/v1/sessions/monday/notes", {"content": f"a note of {who}"}
    yield "POST", "/v1/sessions/monday/usage", {"prompt_tokens": 100}
    for part in ("", "/messages", "/window", "/resume", "/notes", "/turn_state"):
        yield "GET", f"/v1/sessions/monday{part}", None
    yield "POST", "/v1/runs", {"run_id": "nightly", "session_id": "monday", "input": {"of": who}}
    yield "POST", "/v1/runs", {"run_id": "nightly", "session_id": "monday"}
    yield "POST", "/v1/runs/nightly/tool_calls", {"calls": [call(f"found by {who}"), call(f"{LONG}{who}", number=2)]}
    yield "POST", "/v1/runs/nightly/tool_calls", {"calls": [call("something else")]}
    yield "POST", "/v1/runs/nightly/turns/end", {"state": {"of": who}}
    yield "POST", "/v1/runs/nightly/turns", {}
    yield "PUT", "/v1/runs/nightly/delegated/goal", {"value": who}
    yield "PUT", "/v1/state/run/nightly/x", {"value": who, "if_version": 0}
    yield "PUT", "/v1/state/session/monday/x", {"value": who, "if_version": 0}
    for path in ("/v1/runs/nightly", "/v1/runs/nightly/replay", "/v1/runs/nightly/delegated", "/v1/runs"):
        yield "GET", path, None
    for path in ("/v1/state/run/nightly", "/v1/state/run/nightly/x", "/v1/state/session/monday/x"):
        yield "GET", path, None
    yield "GET", "/v1/sessions/monday/turn_state", None
    for kind, scope in [("chat_message", "session"), ("fact", "user"), ("tool_output", "session"), *OF_AGENT * agent]:
        item = {"content": f"{who} said so", "kind": kind, "scope": scope, "source_ref": "r-1", "session_id": "monday"}
        yield "POST", "/v1/items", item
        yield "POST", "/v1/items", item
        yield "POST", "/v1/items", {**item, "content": f"{who} said more"}
    yield (
        "POST",
        "/v1/items",
        {"content": f"{LONG}{who}", "kind": "tool_output", "source_ref": "r-2", "session_id": "monday"},
    )
    if agent:
        yield "POST", "/v1/episodes", {"content": f"did it for {who}", "episode_id": "e-1"}
        yield "POST", "/v1/episodes", {"content": f"did it for {who}", "episode_id": "e-1"}
        yield "POST", "/v1/episodes", {"content": f"did more for {who}", "episode_id": "e-1"}
    yield "PUT", "/v1/state/run/weekly/x", {"value": who}
    yield "DELETE", "/v1/state/session/monday/x", None
    yield "POST", "/v1/runs/nightly/complete", {"output": who}
    yield "PUT", "/v1/state/run/nightly/x", {"value": who}
    yield "POST", "/v1/runs", {"run_id": "weekly", "session_id": "monday"}
    yield "POST", "/v1/runs/weekly/fail", {"error": "no"}
    yield "POST", "/v1/sessions/monday/close", None
    yield "GET", "/v1/sessions", None
    yield "POST", "/v1/sessions/monday/messages", {"messages": said}


OF_AGENT = [("chat_message", "agent"), ("episode", "user")]


def call(result: str, *, number: int = 1) -> dict[str, Any]:
    return {"name": "look", "arguments": {"q": 1}, "result": result, "number": number}


async def answers(door: Door, key: str, who: str, *, agent: str | None) -> list[tuple[Step, int, str]]:
    """What a user gets, without the ids and times that we make."""
    told = []
    headers = {"Recordari-Agent": agent} if agent else {}
    for step in steps(who, agent=agent is not None):
        method, path, body = step
        more = {} if body is None else {"json": body}
        answer = await door.request(method, path, key=key, headers=headers, **more)
        told.append((step, answer.status_code, TIMES.sub("<time>", UUIDS.sub("<id>", answer.text))))
    return told


async def keys_of(memory: Memory, *names: str) -> dict[str, str]:
    return {f"{memory.identity.tenant_id}:{name}": (await memory.create_key(name, user_id=name)).key for name in names}


@pytest.mark.parametrize("agent", ["helper", None], ids=["with an agent", "without an agent"])
async def test_nothing_differs_for_a_user_whose_ids_another_has_too(resources: Resources, agent: str | None) -> None:
    async with open_door(resources, rate_limit="") as door:
        shared, alone = str(door.memory.identity.tenant_id), str(door.other.identity.tenant_id)
        door.keys.update(await keys_of(door.memory, "ana", "ben") | await keys_of(door.other, "ben"))
        before = await answers(door, f"{shared}:ana", "ana", agent=agent)
        crowded = await answers(door, f"{shared}:ben", "ben", agent=agent)
        lonely = await answers(door, f"{alone}:ben", "ben", agent=agent)
        for with_ana, without in zip(crowded, lonely, strict=True):
            assert with_ana == without
            assert with_ana[1] < 500 and "ana" not in with_ana[2]
        assert {status for _, status, _ in before} >= {200, 201, 404, 409}
        # Ana's are as she left them.
        ana: dict[str, Any] = {"key": f"{shared}:ana", "headers": {"Recordari-Agent": agent} if agent else {}}
        run = (await door.request("GET", "/v1/runs/nightly", **ana)).json()
        assert run["output"] == "ana" and run["user_id"] == "ana"
        first = (await door.request("GET", "/v1/sessions/monday/messages", **ana)).json()["items"]
        assert [message["content"] for message in first][:2] == ["ana likes tea.", "ana was here."]
        replay = (await door.request("GET", "/v1/runs/nightly/replay", **ana)).json()
        assert replay["calls"][1]["result"] == f"{LONG}ana"


async def test_an_administrator_is_asked_whose_thing_is_meant(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        for user in ("ana", "ben"):
            working = door.memory.acting_as(user=user, agent="helper")
            await working.add_messages([NewMessage(content=f"{user} speaks")], session_id="monday")
            await working.start_run(run_id="nightly", session_id="monday")
            await working.set_state("x", user, owner="run", owner_id="nightly")
            await working.open_session(f"only-{user}")
        for method, path in (
            ("GET", "/v1/sessions/monday"),
            ("GET", "/v1/sessions/monday/messages"),
            ("POST", "/v1/sessions/monday/close"),
            ("GET", "/v1/runs/nightly"),
            ("GET", "/v1/state/run/nightly/x"),
            ("POST", "/v1/sessions/monday/consolidate"),
        ):
            answer = await door.request(method, path)
            assert answer.status_code == 409 and "name the one you mean" in answer.json()["detail"], (path, answer.text)
        assert (await door.request("GET", "/v1/sessions/only-ana")).json()["user_id"] == "ana"
        for user in ("ana", "ben"):
            named = {"Recordari-User": user}
            assert (await door.request("GET", "/v1/sessions/monday", headers=named)).json()["user_id"] == user
            assert (await door.request("GET", "/v1/state/run/nightly/x", headers=named)).json()["value"] == user
        both = (await door.request("GET", "/v1/sessions")).json()["items"]
        assert sorted(one["user_id"] for one in both if one["session_id"] == "monday") == ["ana", "ben"]
        assert (await door.request("GET", "/v1/runs/nightly", key="agent")).status_code == 404


@pytest.fixture
def bound(memory: Memory) -> Memory:
    """Any key of the tenant that is no administrator's."""
    return memory.bound(replace(memory.identity, role=Role.AGENT))


async def test_episodes_of_a_user_are_hidden_from_other_users_of_the_agent(memory: Memory, bound: Memory) -> None:
    ana, ben = (bound.acting_as(user=user, agent="helper") for user in ("ana", "ben"))
    episode = await ana.append_episode("Paid ana's invoice 4711.")
    for refused in (
        ben.get_item(episode.id),
        ben.forget(episode.id),
        ben.hold(episode.id, "blocks"),
        ben.list_holds(episode.id),
    ):
        with pytest.raises(NotFound):
            await refused
    assert await ben.last_episodes() == [] and (await ben.recall("invoice 4711")).items == ()
    for working in (ana, ben):
        told = f"All may know what {working.identity.user_id} did."
        assert (await working.append_episode(told, episode_id="e-1", scope="agent")).was_new
    assert len(await ben.last_episodes()) == 2, "what has the scope agent is shown to both"
    assert len(await ana.last_episodes()) == 3
    assert (await memory.erase_user("ana")).finished_at is not None


@pytest.mark.parametrize("kind", ["episode", "fact", "procedure"])
async def test_without_a_scope_what_is_written_for_a_user_is_that_users(bound: Memory, kind: str) -> None:
    ana, ben = (bound.acting_as(user=user, agent="helper") for user in ("ana", "ben"))
    written = await ana.remember("Ana wants her okapis fed at nine", kind=kind)
    assert (await ana.get_item(written.id)).scope == "user"
    with pytest.raises(NotFound):
        await ben.get_item(written.id)
    assert (await ben.recall("okapis")).items == ()


async def test_only_the_owner_and_an_administrator_hold_and_forget_what_all_see(memory: Memory, bound: Memory) -> None:
    ana, ben = (bound.acting_as(user=user, agent="helper") for user in ("ana", "ben"))
    episode = await ana.append_episode("The price list changed.", scope="agent")
    fact = await ana.remember_fact("Helper files invoices by month", scope="agent")
    for item_id in (episode.id, fact.id):
        assert (await ben.get_item(item_id)).agent_id == "helper"
        for other in (ben, bound.acting_as(agent="helper")):
            for refused in (other.hold(item_id, "blocks"), other.forget(item_id), other.forget(item_id, dry_run=True)):
                with pytest.raises(Forbidden):
                    await refused
        assert await memory.list_holds(item_id) == []
    assert await ana.hold(episode.id, "hers")
    with pytest.raises(Conflict, match="rest on 1 memories"):
        await memory.erase_user("ana")
    await memory.release(episode.id, "hers")
    assert fact.id in (await ana.forget(fact.id)).item_ids
    assert (await memory.erase_user("ana")).finished_at is not None


async def test_what_one_user_forgets_another_may_still_say(bound: Memory) -> None:
    ana, ben = (bound.acting_as(user=user, session="monday") for user in ("ana", "ben"))
    for user in (ana, ben):
        await user.add_messages([NewMessage(content="We meet at nine", message_id="m-1")], session_id="monday")
    said = await ana.remember("We meet at ten", session_id="monday", source_ref="r-1")
    await ana.forget(said.id)
    (first,) = await ana.list_messages("monday")
    await ana.forget(first.item_id)
    again = await ben.remember("We meet at ten", session_id="monday", source_ref="r-1")
    assert again.was_new
    assert [one.content for one in await ben.list_messages("monday")] == ["We meet at nine", "We meet at ten"]


async def test_erasing_one_user_leaves_the_same_ids_of_the_other(memory: Memory, settings: Settings) -> None:
    workflow = (await memory.save_workflow("w", {"do": 1}, agent_type="helper", task_type="t")).workflow
    for user in ("ana-canary", "ben"):
        working = memory.acting_as(user=user, agent="helper", session="monday", run="nightly")
        added = await working.add_messages([NewMessage(content="Hello there", message_id="m")], session_id="monday")
        await working.forget((await working.remember("gone", session_id="tuesday", kind="tool_output")).id)
        await working.add_note("monday", "a note")
        await working.start_run(run_id="nightly", session_id="monday")
        await working.record_tool_calls("nightly", [NewToolCall(name="look", arguments={}, result=LONG)])
        await working.set_state("x", 1, owner="run", owner_id="nightly")
        await working.set_state("x", 1)
        choice = await working.choose("helper", "t")
        await working.reward(choice, 1.0)
        await working.reward(workflow, 1.0, outcome_id="ticket")
        assert added.messages[0].was_new
    await memory.erase_user("ana-canary")
    ben = memory.acting_as(user="ben", agent="helper", session="monday", run="nightly")
    assert [one.content for one in await ben.list_messages("monday")] == ["Hello there"]
    assert len((await ben.replay_run("nightly")).calls) == 1 and len(await ben.list_notes("monday")) == 1
    assert (await ben.get_state("x")).value == 1 and (await ben.get_state("x", owner="run")).value == 1
    assert (await memory.get_workflow(workflow.workflow_id)).rewards == 4
    tables = rows(
        settings,
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'recordari' AND relkind = 'r'",
    )
    for table in (row["relname"] for row in tables):
        (found,) = rows(settings, f"SELECT count(*) AS n FROM {table} t WHERE t::text LIKE %s", "%ana-canary%")
        assert found["n"] == 0, table


async def test_an_export_keeps_apart_what_two_users_call_the_same(memory: Memory, bound: Memory) -> None:
    for user in ("ana", "ben"):
        working = memory.acting_as(user=user, agent="helper", session="monday", run="nightly")
        await working.add_messages([NewMessage(content=f"{user} speaks", message_id="m")], session_id="monday")
        await working.add_note("monday", f"note of {user}")
        await working.start_run(run_id="nightly", session_id="monday")
        await working.record_tool_calls("nightly", [NewToolCall(name="look", arguments={}, result=f"{LONG}{user}")])
        await working.set_state("x", user, owner="run", owner_id="nightly")
    whole = [line async for line in memory.export()]
    hers = [line async for line in memory.export(user_id="ana")]
    assert not any("ben" in line for line in hers)
    target = await other_tenant(memory)
    for lines, users in ((hers, ["ana"]), (whole, ["ana", "ben"]), (whole, ["ana", "ben"])):
        await target.import_export(lines)
        for user in users:
            working = target.acting_as(user=user, agent="helper", session="monday", run="nightly")
            assert (await working.list_messages("monday"))[0].content == f"{user} speaks"
            assert (await working.list_notes("monday"))[-1].content == f"note of {user}"
            (replayed,) = (await working.replay_run("nightly")).calls
            assert replayed.result == f"{LONG}{user}"
            assert (await working.get_state("x", owner="run")).value == user
            assert (await working.get_turn_state("monday")).run_id == "nightly"
    foreign = [line.replace("user:ana", "user:ben") for line in hers]
    assert foreign != hers
    with pytest.raises(InvalidInput, match="not that user's"):
        await (await other_tenant(memory, "third")).import_export(foreign)


async def other_tenant(memory: Memory, name: str = "elsewhere") -> Memory:
    tenant = await tenants.ensure_tenant(memory.resources, name)
    return memory.bound(replace(memory.identity, tenant_id=tenant.tenant_id))


async def test_two_users_reward_under_the_same_id(memory: Memory, bound: Memory) -> None:
    workflow = (await memory.save_workflow("w", {"do": 1}, agent_type="helper", task_type="t")).workflow
    ana, ben = (bound.acting_as(user=user) for user in ("ana", "ben"))
    assert (await ana.reward(workflow, 1.0, outcome_id="ticket-1")).was_new
    assert (await ben.reward(workflow, 0.0, outcome_id="ticket-1")).was_new
    assert not (await ben.reward(workflow, 0.0, outcome_id="ticket-1")).was_new
    assert [one.score for one in await ben.list_outcomes(workflow.workflow_id)] == [0.0]
    assert len(await memory.list_outcomes(workflow.workflow_id)) == 2
