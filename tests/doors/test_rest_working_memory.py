"""Working memory, runs and workflows over REST: what the library does, a client can do too (W1–W7, E1–E5, P1–P2)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.doors.rest_door import Door, open_door
from tests.redis_server import running_redis
from tests.working import work_off

from recordari.config import Settings
from recordari.kit.resources import Resources
from recordari.sessions import episodes
from recordari.sessions.cache import SessionCache
from recordari.wiring import open_resources

CHAT = {"Recordari-User": "alice", "Recordari-Agent": "support", "Recordari-Session": "chat-1"}


async def call(door: Door, method: str, path: str, status: int = 200, key: str = "agent", **more: Any) -> Any:
    answer = await door.request(method, path, key=key, headers=CHAT, **more)
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


# "lightweight cross-step state", "1h TTL", "Per-instance budget: <128KB total across all KV keys"


async def test_state_is_kept_by_key_within_its_budget(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        path = "/v1/state/session/chat-1/current_contact_id"
        first = await call(door, "PUT", path, json={"value": {"id": 7}})
        assert first["version"] == 1 and first["expires_at"] is not None
        assert (await call(door, "GET", path))["value"] == {"id": 7}
        await call(door, "PUT", path, json={"value": 8, "if_version": 7}, status=412)
        assert (await call(door, "PUT", path, json={"value": 8, "if_version": 1}))["version"] == 2
        refused = await call(door, "PUT", "/v1/state/session/chat-1/draft", json={"value": "x" * 131_072}, status=429)
        assert "128" in refused["detail"]
        assert [entry["key"] for entry in await call(door, "GET", "/v1/state/session/chat-1")] == ["current_contact_id"]
        await call(door, "DELETE", path, status=204)
        await call(door, "GET", path, status=404)


# "On session resume: hydrate L0 from L1 summary instead of replaying full history"


async def test_a_session_is_resumed_from_its_summary_and_window(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        opened = await call(door, "POST", "/v1/sessions", json={"session_id": "chat-1"}, status=201)
        assert opened["was_new"] and opened["session"]["status"] == "open"
        body = {
            "messages": [
                {"content": f"We decided to ship part {number} on Friday.", "role": "user", "message_id": f"m-{number}"}
                for number in range(6)
            ]
        }
        added = await call(door, "POST", "/v1/sessions/chat-1/messages", json=body)
        again = await call(door, "POST", "/v1/sessions/chat-1/messages", json=body)
        assert [one["was_new"] for one in added["messages"]] == [True] * 6
        assert [one["was_new"] for one in again["messages"]] == [False] * 6
        assert len((await call(door, "GET", "/v1/sessions/chat-1/messages"))["items"]) == 6
        resumed = await call(door, "GET", "/v1/sessions/chat-1/resume")
        assert len(resumed["window"]["messages"]) == 6 and resumed["window"]["state"]["tokens"] > 0
        await call(door, "POST", "/v1/sessions/chat-1/notes", json={"content": "call the carrier"}, status=201)
        notes = (await call(door, "GET", "/v1/sessions/chat-1/notes"))["items"]
        assert "call the carrier" in [note["content"] for note in notes]


# "When the previous turn's usage.prompt_tokens exceeds 80% … switches from a 20-message tail to a 4-message tail"


async def test_a_full_window_is_compressed_once_per_epoch(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        messages = [{"content": f"message number {number}", "message_id": f"m-{number}"} for number in range(30)]
        await call(door, "POST", "/v1/sessions", json={"session_id": "chat-1"}, status=201)
        await call(door, "POST", "/v1/sessions/chat-1/messages", json={"messages": messages})
        assert len((await call(door, "GET", "/v1/sessions/chat-1/window"))["active"]) == 20
        state = await call(door, "POST", "/v1/sessions/chat-1/usage", json={"prompt_tokens": 120_000})
        assert state["compressed"] and state["epoch"] == 1 and "recall" in state["hint"]
        assert len((await call(door, "GET", "/v1/sessions/chat-1/window"))["active"]) == 4


# "Per-run audit trail (every tool call in a specific run) … supports exact replay"


async def test_a_run_is_replayed_exactly(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        started = await call(
            door,
            "POST",
            "/v1/runs",
            json={"run_id": "r-1", "session_id": "chat-1", "input": {"goal": "refund"}},
            status=201,
        )
        assert started["run"]["status"] == "running"
        arguments = '{"order": "A-1",  "amount": 10.50}'
        calls = {
            "calls": [
                {
                    "name": "refund",
                    "arguments": arguments,
                    "result": "done ✓",
                    "call_id": "c-1",
                    "number": 1,
                    "latency_ms": 12.5,
                }
            ]
        }
        await call(door, "POST", "/v1/runs/r-1/tool_calls", json=calls)
        await call(door, "POST", "/v1/runs/r-1/tool_calls", json=calls)
        await call(
            door,
            "POST",
            "/v1/runs/r-1/turns/end",
            json={"usage": {"tokens_in": 100, "tokens_out": 20, "cost": "0.0000025"}},
        )
        ended = await call(door, "POST", "/v1/runs/r-1/complete", json={"output": {"refunded": True}})
        assert ended["status"] == "completed" and ended["tokens_in"] == 100 and ended["cost"] == "0.0000025"
        replay = await call(door, "GET", "/v1/runs/r-1/replay")
        assert [(one["name"], one["arguments"], one["result"]) for one in replay["calls"]] == [
            ("refund", arguments, "done ✓")
        ]
        listed = await call(door, "GET", "/v1/runs?status=completed&limit=1")
        assert [run["run_id"] for run in listed["items"]] == ["r-1"]
        await call(door, "POST", "/v1/runs/r-1/fail", json={"error": "too late"}, status=409)


# "Context recall: agent receives last-10 episodes at turn start (logged to agent_runs.input)."


async def test_a_turn_begins_with_the_last_episodes(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        for number in range(12):
            await call(door, "POST", "/v1/episodes", json={"content": f"handled ticket {number}"}, status=201)
        started = await call(door, "POST", "/v1/runs", json={"run_id": "r-2"}, status=201)
        assert [one["content"] for one in started["episodes"]] == [
            f"handled ticket {number}" for number in range(2, 12)
        ]
        assert len(started["run"]["input"]["episodes"]) == 10
        assert len(await call(door, "GET", "/v1/episodes/last?limit=3")) == 3


# "Thompson-sampling bandit over workflow specs"; "recordOutcome … update alpha/beta based on outcome"


async def test_workflows_are_chosen_and_rewarded_once_per_outcome(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        for name in ("polite", "brief"):
            body = {"agent_type": "support", "task_type": "reply", "name": name, "spec": {"style": name}}
            await call(door, "PUT", "/v1/workflows", json=body, key="admin", status=201)
        wanted = {"agent_type": "support", "task_type": "reply", "seed": 3}
        choice = await call(door, "POST", "/v1/workflows/choose", json=wanted)
        reward = {"target_id": choice["choice_id"], "score": 1.0}
        first, again = [await call(door, "POST", "/v1/workflows/reward", json=reward) for _ in range(2)]
        assert first["was_new"] and not again["was_new"]
        assert again["workflow"]["alpha"] == first["workflow"]["alpha"] == 2.0
        await call(
            door, "POST", "/v1/workflows/reward", json={"target_id": choice["choice_id"], "score": 1.5}, status=422
        )
        await call(door, "PUT", "/v1/workflows", json={}, status=403)
        active = await call(door, "GET", "/v1/workflows/active?agent_type=support&task_type=reply")
        assert {one["name"] for one in active} == {"polite", "brief"}


async def test_the_daily_brief_can_be_read(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        made = await call(door, "POST", "/v1/reports/daily_brief", json={}, key="admin")
        assert made["body"] and made["figures"]
        listed = await call(door, "GET", "/v1/reports", key="admin")
        assert [one["report_id"] for one in listed["items"]] == [made["report_id"]]
        await call(door, "GET", f"/v1/reports/{made['report_id']}", status=403)


async def test_rewards_sent_at_once_all_count(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        body = {"agent_type": "support", "task_type": "reply", "name": "only", "spec": {}}
        saved = await call(door, "PUT", "/v1/workflows", json=body, key="admin", status=201)
        target = saved["workflow"]["workflow_id"]
        gate = asyncio.Semaphore(32)

        async def one(number: int) -> None:
            async with gate:
                wanted = {"target_id": target, "score": (number % 5) / 4, "outcome_id": f"o-{number}"}
                await call(door, "POST", "/v1/workflows/reward", json=wanted)

        await asyncio.gather(*(one(number) for number in range(200)))
        learned = await call(door, "GET", f"/v1/workflows/{target}")
        assert learned["alpha"] + learned["beta"] == pytest.approx(2 + 200)


# "turn_state row created on first /run call; updated on completion." "run_log row written for every agent turn."


async def test_the_turn_state_is_made_at_the_first_turn_and_every_turn_is_logged(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        await call(door, "POST", "/v1/runs", json={"run_id": "r-3", "session_id": "chat-1"}, status=201)
        first = await call(door, "GET", "/v1/sessions/chat-1/turn_state")
        assert first["number"] == 1 and first["status"] == "running"
        await call(door, "POST", "/v1/runs/r-3/turns/end", json={"state": {"step": "asked"}})
        assert (await call(door, "GET", "/v1/sessions/chat-1/turn_state"))["data"] == {"step": "asked"}
        await call(door, "POST", "/v1/runs/r-3/turns", json={}, status=201)
        await call(door, "POST", "/v1/runs/r-3/complete", json={})
        replay = await call(door, "GET", "/v1/runs/r-3/replay")
        assert [turn["number"] for turn in replay["turns"]] == [1, 2]
        assert (await call(door, "GET", "/v1/sessions/chat-1/turn_state"))["status"] == "completed"


# "Delegated Context (per-task) … ephemeral with the run"


async def test_what_a_task_hands_over_lives_and_dies_with_its_run(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        await call(door, "POST", "/v1/runs", json={"run_id": "r-4", "session_id": "chat-1"}, status=201)
        await call(door, "PUT", "/v1/runs/r-4/delegated/order", json={"value": {"id": "A-1"}})
        assert await call(door, "GET", "/v1/runs/r-4/delegated") == {"order": {"id": "A-1"}}
        await call(door, "POST", "/v1/runs/r-4/complete", json={})
        assert await call(door, "GET", "/v1/runs/r-4/delegated") == {}


# "insert new row active, mark prior superseded_at = now(), superseded_by = <new_id>; active set … superseded_at IS NULL"


async def test_a_changed_workflow_supersedes_its_old_version(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        body = {"agent_type": "support", "task_type": "reply", "name": "only", "spec": {"tone": "warm"}}
        old = await call(door, "PUT", "/v1/workflows", json=body, key="admin", status=201)
        new = await call(door, "PUT", "/v1/workflows", json={**body, "spec": {"tone": "dry"}}, key="admin", status=201)
        history = await call(door, "GET", "/v1/workflows/history?agent_type=support&task_type=reply&name=only")
        assert [one["version"] for one in history] == [2, 1]
        assert history[1]["superseded_by"] == new["workflow"]["workflow_id"] and history[1]["invalid_at"]
        active = await call(door, "GET", "/v1/workflows/active?agent_type=support&task_type=reply")
        assert [one["workflow_id"] for one in active] == [new["workflow"]["workflow_id"]]
        assert old["workflow"]["workflow_id"] != new["workflow"]["workflow_id"]


# "Pruning cron: Sunday 03:00 UTC job removes rows older than 90 days (tested with synthetic old data)."


async def test_episodes_are_pruned_ninety_days_after_they_were_written(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        await call(door, "POST", "/v1/episodes", json={"content": "closed ticket 7"}, status=201)
        soon = replace(resources, clock=lambda: resources.clock() + timedelta(days=89))
        await episodes.prune_episodes(soon, door.memory.identity)
        assert len(await call(door, "GET", "/v1/episodes/last")) == 1
        late = replace(resources, clock=lambda: resources.clock() + timedelta(days=91))
        await episodes.prune_episodes(late, door.memory.identity)
        assert await call(door, "GET", "/v1/episodes/last") == []


# "bound the sliding window by token count, summarize evicted turns into long-term memory … 'the last N tokens, plus
# pointers to summaries'"


async def test_what_falls_out_of_the_window_is_summarised_and_stays_recallable(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        small = {"core": "You keep the books.", "window_tokens": 1_000}
        await call(door, "PUT", "/v1/agents/support", json=small, key="admin")
        await call(door, "POST", "/v1/sessions", json={"session_id": "chat-1"}, status=201)
        said = [f"Crate {number} of the harbour order goes to Pier {number * 7} by noon." for number in range(60)]
        for first in range(0, 60, 10):
            body = {"messages": [{"content": text} for text in said[first : first + 10]]}
            added = await call(door, "POST", "/v1/sessions/chat-1/messages", json=body)
            assert added["window"]["tokens"] <= added["window"]["limit"]
        await work_off(door.memory)
        window = await call(door, "GET", "/v1/sessions/chat-1/window")
        inside = len(window["messages"])
        assert inside < 60 and [one["content"] for one in window["messages"]] == said[-inside:]
        folds = window["state"]["folds"]
        covered = [place for fold in folds for place in range(fold["first"], fold["last"] + 1)]
        assert covered == list(range(1, 61 - inside))
        summary = await call(door, "GET", f"/v1/items/{folds[0]['summary_id']}")
        assert summary["kind"] == "session_summary" and summary["content"]
        for text in said[: 60 - inside : 5]:
            wanted = {"query": text, "scope": "session", "source_kinds": ["chat_message"]}
            found = await call(door, "POST", "/v1/recall", json=wanted)
            assert text in [item["content"] for item in found["items"]]


# "All conversation exchanges (stored with infer=False — raw, not extracted) · Recipe execution summaries · Heartbeat
# daily logs · Tool call results that had useful outcomes"


async def test_what_happened_is_kept_raw(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        raw = "  Weird   spacing, ÜNICODE 🎉 and\ttabs stay.  "
        await call(door, "POST", "/v1/runs", json={"run_id": "r-5", "session_id": "chat-1"}, status=201)
        body = {"messages": [{"content": raw, "role": role} for role in ("user", "assistant")]}
        added = await call(door, "POST", "/v1/sessions/chat-1/messages", json=body)
        kept = [one["id"] for one in added["messages"]]
        for about in ({"recipe": "weekly report"}, {"daily_log": "2026-05-02"}):
            episode = await call(door, "POST", "/v1/episodes", json={"content": raw, "metadata": about}, status=201)
            kept.append(episode["id"])
        calls = {"calls": [{"name": "look_up", "arguments": {}, "result": raw, "useful": True}]}
        (recorded,) = await call(door, "POST", "/v1/runs/r-5/tool_calls", json=calls)
        kept.append(recorded["result_id"])
        for item_id in kept:
            assert (await call(door, "GET", f"/v1/items/{item_id}"))["content"] == raw


# "Redis (per-session key)"; "Session state: Redis (fast) … source of truth: Postgres"; "if Redis down, skip L1/cache"


@pytest.mark.redis
async def test_a_cache_in_front_changes_nothing_but_speed(settings: Settings, tmp_path: Path) -> None:
    path = "/v1/state/session/chat-1/step"
    with running_redis(tmp_path) as redis:
        cache = SessionCache(redis.url, timeout=2.0)  # a busy machine must not look like a Redis that hangs
        async with AsyncExitStack() as stack:
            stack.push_async_callback(cache.close)
            resources = await stack.enter_async_context(open_resources(settings))
            door = await stack.enter_async_context(open_door(resources.replacing(SessionCache, cache), rate_limit=""))
            await call(door, "PUT", path, json={"value": 0})
            assert (await call(door, "GET", path))["value"] == 0
            name = f"mem:session:{door.memory.identity.tenant_id}:chat-1"
            assert redis.ask("EXISTS", name) == b":1"
            for number in range(1, 20):
                if number == 10:
                    redis.kill()
                await call(door, "PUT", path, json={"value": number})
                for _ in range(2):  # from the database, and from the copy that this read made
                    assert (await call(door, "GET", path))["value"] == number
            assert cache.statistics()["hits"] == 9
