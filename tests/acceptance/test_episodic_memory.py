"""Episodic memory: runs and episodes, what a turn starts with, pruning, the daily brief, replay (E1–E5).

Each test quotes the sentence of the designs that it shows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
import pytest
from tests.stored import rows
from tests.working import at, run_job, work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.core.ids import new_id
from recordari.db import outbox
from recordari.db.jobs import Schedule, next_run
from recordari.errors import Forbidden, NotFound, Unauthenticated
from recordari.schedule import JOBS
from recordari.sessions import episodes as episode_verbs
from recordari.sessions.rules.runs import MAX_EPISODES, NewToolCall, RunUsage
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.tenants import tenants
from recordari.wiring import open_resources

MANY = """
INSERT INTO recordari.items (
    tenant_id, item_id, kind, scope, tier, agent_id, source_ref, content, content_hash, trust, event_time, valid_at, tsv,
    terms, tokens, traits)
SELECT %(tenant)s, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'episode', 'agent', 'recent', 'sdr',
    'episode:' || n, 'Episode ' || n, '', 'agent', now(), now(), '', '', '', 0
FROM generate_series(%(first)s::int, %(last)s::int) n
"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"embedding_provider": "none"})


@pytest.fixture
def agent(memory: Memory) -> Memory:
    return memory.acting_as(agent="sdr")


def as_owner(settings: Settings, statement: str, **parameters: object) -> None:
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value(), autocommit=True) as connection:
        connection.execute("SET search_path = recordari, public")
        connection.execute(statement, parameters)


async def test_the_verbs_of_the_write_path(agent: Memory, settings: Settings) -> None:
    """E1: "Implemented in src/lib/agent-memory.ts (startRun, appendEpisode, completeRun, failRun)"; an acknowledged write
    is never lost."""
    started = await agent.start_run(run_id="r1", session_id="s1", input={"task": "call Acme"})
    kept = await agent.append_episode("Called Acme; they want a demo.", run_id="r1", session_id="s1")
    await agent.complete_run("r1", output={"demo": True})
    await agent.start_run(run_id="r2", session_id="s1")
    await agent.fail_run("r2", error="no dial tone")
    async with open_resources(settings) as reopened:
        later = Memory(reopened, agent.identity)
        assert [(run.run_id, run.status) for run in await later.list_runs()] == [("r2", "failed"), ("r1", "completed")]
        item = await later.get_item(kept.id)
    assert (item.content, item.run_id, item.kind) == ("Called Acme; they want a demo.", "r1", "episode")
    assert started.run.input["task"] == "call Acme"


async def test_writing_waits_for_nothing_but_its_transaction(agent: Memory) -> None:
    """E1: "always async, never blocks the agent turn response": no worker runs here, and the episode is found at once."""
    await agent.append_episode("Acme prefers direct ROI framing.")
    answer = await agent.recall("ROI framing", source_kinds=["episode"])
    assert answer.items[0].content == "Acme prefers direct ROI framing."
    async with agent.resources.database.transaction(agent.identity) as tx:
        assert await outbox.pending(tx, "embed") == 1, "what is slow waits for a worker"


async def test_an_episode_sent_again_is_the_same_and_a_repeated_one_is_not(agent: Memory) -> None:
    """E1: writes may be retried; but what happened twice is kept twice."""
    first = await agent.append_episode("Called Acme.", episode_id="e1")
    again = await agent.append_episode("Called Acme.", episode_id="e1")
    assert again.id == first.id and not again.was_new
    await agent.append_episode("Called Acme.")
    await agent.append_episode("Called Acme.")
    assert len(await agent.last_episodes()) == 3


async def test_a_turn_starts_with_the_last_ten_episodes_of_its_agent_type(agent: Memory, memory: Memory) -> None:
    """E2: "Context recall: agent receives last-10 episodes at turn start (logged to agent_runs.input)"."""
    for number in range(12):
        await agent.append_episode(f"Episode {number}", session_id=f"s{number}")
    await memory.acting_as(agent="ops").append_episode("Of another agent type")
    started = await agent.start_run(run_id="r1", session_id="new", input={"task": "go on"})
    assert [one.content for one in started.episodes] == [f"Episode {number}" for number in range(2, 12)]
    assert started.run.input == {"task": "go on", "episodes": [str(one.item_id) for one in started.episodes]}

    fresh = await agent.append_episode("Episode 12", run_id="r1")
    second = await agent.start_turn("r1")
    assert [one.content for one in second.episodes] == [f"Episode {number}" for number in range(3, 13)]
    recorded = (await agent.get_run("r1")).input["episodes"]
    assert recorded == [*(str(one.item_id) for one in started.episodes), str(fresh.id)]
    assert (await agent.replay_run("r1")).turns[1].episodes == tuple(one.item_id for one in second.episodes)


async def test_an_episode_meant_for_one_user_is_not_given_to_another(memory: Memory) -> None:
    ana, bob = (memory.acting_as(agent="sdr", user=user) for user in ("ana", "bob"))
    await ana.append_episode("Ana's salary was discussed.")
    await ana.append_episode("The price list was updated.", scope="agent")
    assert [one.content for one in (await bob.start_run()).episodes] == ["The price list was updated."]
    assert len((await ana.start_run()).episodes) == 2


async def test_an_episode_needs_an_agent(memory: Memory) -> None:
    with pytest.raises(Unauthenticated, match="agent"):
        await memory.append_episode("Nobody did this.")


async def test_episodes_are_pruned_after_ninety_days_tenant_by_tenant(agent: Memory, settings: Settings) -> None:
    """E3: "Pruning cron: Sunday 03:00 UTC job removes rows older than 90 days (tested with synthetic old data)"."""
    other_tenant = await tenants.ensure_tenant(agent.resources, "other")
    other = agent.bound(Identity(tenant_id=other_tenant.tenant_id, role=Role.ADMIN)).acting_as(agent="sdr")
    for memory in (agent, other):
        await memory.append_episode("old")
        await memory.append_episode("young")
        await memory.remember_fact("Older than any episode", scope="agent")
    as_owner(settings, "UPDATE recordari.items SET created_at = now() - interval '91 days' WHERE content <> 'young'")
    await run_job(agent, "prune_episodes")
    assert [one.content for one in await agent.last_episodes()] == ["young"]
    assert [one.content for one in await other.last_episodes()] == ["old", "young"]
    assert (await agent.recall("Older than any episode")).total == 1
    await run_job(at(agent, timedelta(days=89)), "prune_episodes")
    assert len(await agent.last_episodes()) == 1
    (entry,) = [one for one in await agent.list_audit() if one.action == "episode.prune"]
    assert entry.details == {"removed": 1}

    pinned = await agent.append_episode("pinned")
    await agent.pin_item(pinned.id)
    as_owner(settings, "UPDATE recordari.items SET created_at = now() - interval '91 days' WHERE content = 'pinned'")
    await run_job(agent, "prune_episodes")
    assert await episode_verbs.trim(agent.resources, agent.identity, most=1, keep=0) == 1
    assert [one.content for one in await agent.last_episodes()] == ["pinned"]

    job = JOBS["prune_episodes"]
    assert job.cron == "0 3 * * 0"
    schedule = Schedule(job="prune_episodes", cron=job.cron, spread=job.spread, concurrency=job.concurrency)
    due = next_run(schedule, agent.identity.tenant_id, datetime(2026, 5, 7, tzinfo=UTC))
    assert due.date() == datetime(2026, 5, 10, tzinfo=UTC).date() and due.hour == 3


async def test_a_tenant_holds_at_most_a_hundred_thousand_episodes(agent: Memory, settings: Settings) -> None:
    """E3: "Hard limit: 100K memory_episodes rows per tenant; warn at 80K via the daily brief cron"."""
    tenant = agent.identity.tenant_id
    as_owner(settings, MANY, tenant=tenant, first=1, last=79_999)
    assert (await agent.make_daily_brief()).warnings == []
    as_owner(settings, MANY, tenant=tenant, first=80_000, last=80_000)
    (warning,) = (await agent.make_daily_brief()).warnings
    assert "80,000 of at most 100,000 episodes" in warning

    as_owner(settings, MANY, tenant=tenant, first=80_001, last=MAX_EPISODES)
    newest = await agent.append_episode("The newest one")
    async with agent.resources.database.transaction(agent.identity) as tx:
        await outbox.add(tx, episode_verbs.TRIM_TOPIC, [new_id()])
    await work_off(agent, episode_verbs.TRIM_TOPIC)
    figures = (await agent.make_daily_brief()).figures
    assert figures["episodes"] == episode_verbs.TRIM_TO < MAX_EPISODES
    assert (await agent.get_item(newest.id)).content == "The newest one"


async def test_some_append_in_a_few_has_the_number_looked_at(agent: Memory) -> None:
    """E3: the cap holds between two prunings, and no append has to count."""
    for number in range(400):
        await agent.append_episode(f"Episode {number}")
    async with agent.resources.database.transaction(agent.identity) as tx:
        assert 0 < await outbox.pending(tx, episode_verbs.TRIM_TOPIC) < 100


async def test_the_daily_brief_is_stored_and_can_be_read(agent: Memory) -> None:
    """E3: "warn at 80K via the daily brief cron": a readable report of each tenant."""
    agent = at(agent, datetime.now(UTC))  # in one day, whenever the test runs
    await agent.start_run(run_id="good", session_id="s1")
    await agent.complete_run("good", usage=RunUsage(tokens_in=1_200, tokens_out=300, cost=Decimal("0.0042")))
    for number in range(5):
        await agent.start_run(run_id=f"bad{number}", session_id="s1")
        await agent.fail_run(f"bad{number}", error="no dial tone")
    await agent.add_messages([NewMessage(content="Hello there")], session_id="s1")
    await run_job(agent, "daily_brief")
    (report,) = await agent.list_reports()
    assert report.body.startswith(f"# test: daily brief of {report.day.isoformat()}")
    for line in (
        "- 5 of 6 runs that ended have failed.",
        "- 1 session opened and 0 closed; 1 message.",
        "- 6 runs started (1 completed, 5 failed), with 0 tool calls.",
        "- Agents at work: sdr (6 runs, 5 failed).",
        "- Spent: 1,200 tokens in and 300 out; cost 0.0042 USD.",
        "- Episodes: 0 of 100,000 (0%).",
    ):
        assert line in report.body.splitlines()
    assert await agent.get_report(report.report_id) == report

    await run_job(agent, "daily_brief")
    assert [one.report_id for one in await agent.list_reports()] == [report.report_id], "one a day"
    await run_job(at(agent, timedelta(days=1)), "daily_brief")
    newest, oldest = await agent.list_reports()
    assert newest.day > oldest.day and await agent.list_reports(before=newest.day) == [oldest]


async def test_the_brief_tells_of_work_that_was_given_up(agent: Memory, settings: Settings) -> None:
    await agent.append_episode("This cannot be embedded.")
    as_owner(settings, "UPDATE recordari_queue.outbox SET parked_at = now()")
    (parked,) = rows(settings, "SELECT count(*) FROM recordari_queue.outbox")
    report = await agent.make_daily_brief()
    assert parked["count"] and f"{parked['count']} pieces of background work have failed" in report.warnings[0]
    assert report.figures["dead_letters"] == parked["count"]


async def test_reports_are_for_administrators_of_the_tenant(agent: Memory) -> None:
    report = await agent.make_daily_brief()
    with pytest.raises(Forbidden):
        await agent.bound(Identity(tenant_id=agent.identity.tenant_id)).list_reports()
    other_tenant = await tenants.ensure_tenant(agent.resources, "other")
    other = agent.bound(Identity(tenant_id=other_tenant.tenant_id, role=Role.ADMIN))
    with pytest.raises(NotFound):
        await other.get_report(report.report_id)


async def test_every_tool_call_of_a_run_is_replayed(agent: Memory) -> None:
    """E4: "Per-run audit trail (every tool call in a specific run) … supports exact replay"."""
    calls = [
        NewToolCall(
            name="search_flights",
            arguments=f'{{"origin":"JFK", "seats":{number}.0}}',
            result=f'[{{"flight": "HAT{number}"}}]' * (1 + 2_000 * (number == 2)),
            call_id=f"call_{number}",
            latency_ms=number * 10.5,
        )
        for number in range(5)
    ]
    await agent.start_run(run_id="r1", session_id="s1")
    for call in calls:
        await agent.record_tool_calls("r1", [call])
    await agent.complete_run("r1")
    replayed = (await agent.replay_run("r1")).calls
    assert [(one.call_id, one.name, one.arguments, one.result, one.latency_ms) for one in replayed] == [
        (one.call_id, one.name, one.arguments, one.result, one.latency_ms) for one in calls
    ]


async def test_what_happened_is_kept_raw(agent: Memory) -> None:
    """E5: "All conversation exchanges (stored with infer=False — raw, not extracted) · Recipe execution summaries ·
    Heartbeat daily logs · Tool call results that had useful outcomes"."""
    raw = "  Weird   spacing, ÜNICODE 🎉 and\ttabs stay.  "
    added = await agent.add_messages(
        [NewMessage(content=raw), NewMessage(content=raw, role=MessageRole.ASSISTANT)], session_id="s1"
    )
    recipe = await agent.append_episode(raw, metadata={"recipe": "weekly report"})
    daily = await agent.append_episode(raw, metadata={"daily_log": "2026-05-02"})
    await agent.start_run(run_id="r1", session_id="s1")
    (call,) = await agent.record_tool_calls("r1", [NewToolCall(name="t", arguments={}, result=raw, useful=True)])
    assert call.result_id is not None
    for item_id in (*(one.id for one in added.messages), recipe.id, daily.id, call.result_id):
        assert (await agent.get_item(item_id)).content == raw
