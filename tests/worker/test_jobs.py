"""Jobs: enqueued with a change, run for one tenant, retried, given up, replayed; started on time once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import PATIENCE, until

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, TenantId, tenant_id_of
from recordari.db import jobs
from recordari.db.jobs import JobStatus, Schedule, next_run
from recordari.db.queries import Query
from recordari.errors import DatabaseUnavailable, Forbidden, InvalidInput
from recordari.kit.resources import Resources
from recordari.runner import run_worker
from recordari.schedule import JOBS
from recordari.tenants import tenants
from recordari.wiring import open_resources
from recordari.worker import jobs as job_service
from recordari.worker.dispatch import Job, Pace, schedules

MINUTELY = Schedule(job="count", cron="* * * * *", spread=timedelta(seconds=30), concurrency=1000)


@pytest.fixture
async def resources(resources: Resources) -> Resources:
    return resources.replacing(Pace, Pace(tick=0.2, retry_seconds=0.01))


@asynccontextmanager
async def working(resources: Resources, table: dict[str, Job]) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(run_worker(resources, stop, jobs=table, topics={}))
    try:
        yield
    finally:
        stop.set()
        await task


async def defer(memory: Memory, job: str, **options: Any) -> int | None:
    async with memory.resources.database.transaction(memory.identity) as tx:
        return await jobs.defer(tx, job, **options)


async def until_status(memory: Memory, status: JobStatus, number: int = 1) -> None:
    async def reached() -> bool:
        with suppress(DatabaseUnavailable):  # some tests cut every connection
            return len(await memory.list_jobs(status=status)) >= number
        return False

    await until(reached)


async def another(memory: Memory, name: str) -> Memory:
    tenant = await tenants.ensure_tenant(memory.resources, name)
    return memory.bound(Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))


async def test_a_job_rolls_back_with_its_transaction(memory: Memory) -> None:
    with pytest.raises(ZeroDivisionError):
        async with memory.resources.database.transaction(memory.identity) as tx:
            assert await jobs.defer(tx, "count") is not None
            raise ZeroDivisionError
    assert await memory.list_jobs() == []


async def test_a_job_that_waits_already_is_not_enqueued_twice_and_spoils_no_transaction(
    memory: Memory,
) -> None:
    async with memory.resources.database.transaction(memory.identity) as tx:
        assert await jobs.defer(tx, "count", queueing_lock="one") is not None
        assert await jobs.defer(tx, "count", queueing_lock="one") is None
        assert await jobs.defer(tx, "count", queueing_lock="two") is not None
    assert len(await memory.list_jobs()) == 2


async def test_a_job_runs_for_its_tenant_with_its_arguments(memory: Memory) -> None:
    seen: list[tuple[Identity, dict[str, Any]]] = []

    async def count(resources: Resources, identity: Identity, **args: Any) -> None:
        seen.append((identity, args))

    async with working(memory.resources, {"count": Job(run=count)}):
        await defer(memory, "count", args={"step": 3})
        await until_status(memory, JobStatus.SUCCEEDED)
    ((identity, args),) = seen
    assert (identity.tenant_id, identity.role, identity.actor) == (
        memory.identity.tenant_id,
        Role.ADMIN,
        "job:count",
    )
    assert args == {"step": 3}
    (record,) = await memory.list_jobs()
    assert (record.job, record.attempts, record.args) == ("count", 1, {"step": 3})


async def test_a_job_that_fails_is_retried_given_up_and_replayed(memory: Memory) -> None:
    tries = 0
    broken = True

    async def count(resources: Resources, identity: Identity, **args: Any) -> None:
        nonlocal tries
        tries += 1
        if broken:
            raise ValueError("secret content")

    async with working(memory.resources, {"count": Job(run=count, max_attempts=3)}):
        await defer(memory, "count")
        await until_status(memory, JobStatus.FAILED)
        (letter,) = await memory.list_dead_letters()
        assert (letter.name, letter.attempts, letter.last_error) == ("count", 3, "ValueError")
        assert tries == 3
        stranger = await another(memory, "stranger")
        assert await stranger.list_dead_letters() == [] and await stranger.list_jobs() == []

        broken = False
        await memory.replay_dead_letter(letter.dead_letter_id)
        await until_status(memory, JobStatus.SUCCEEDED)
    assert await memory.list_dead_letters() == []
    assert (await memory.job_counts()).jobs == {JobStatus.SUCCEEDED: 1}


async def test_a_retry_is_not_lost_when_the_same_job_was_enqueued_meanwhile(memory: Memory) -> None:
    runs = 0
    second = asyncio.Event()

    async def count(resources: Resources, identity: Identity, **args: Any) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            await second.wait()
            raise ValueError

    async with working(memory.resources, {"count": Job(run=count)}):
        await defer(memory, "count", queueing_lock="one", lock="one")
        await until(lambda: runs == 1)
        assert await defer(memory, "count", queueing_lock="one", lock="one") is not None
        second.set()
        await until_status(memory, JobStatus.SUCCEEDED, 2)


async def test_a_job_cut_short_by_a_shutdown_runs_again(memory: Memory) -> None:
    started = asyncio.Event()

    async def hang(resources: Resources, identity: Identity, **args: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    async def count(resources: Resources, identity: Identity, **args: Any) -> None:
        return

    async with working(memory.resources, {"count": Job(run=hang)}):
        await defer(memory, "count")
        await asyncio.wait_for(started.wait(), PATIENCE)
    assert [record.status for record in await memory.list_jobs()] == [JobStatus.TODO]
    async with working(memory.resources, {"count": Job(run=count)}):
        await until_status(memory, JobStatus.SUCCEEDED)


async def test_a_worker_leaves_jobs_it_does_not_know_to_others(memory: Memory) -> None:
    async def count(resources: Resources, identity: Identity, **args: Any) -> None:
        return

    async with working(memory.resources, {"count": Job(run=count)}):
        await defer(memory, "of a newer version")
        await defer(memory, "count")
        await until_status(memory, JobStatus.SUCCEEDED)
    assert {record.job: record.status for record in await memory.list_jobs()} == {
        "of a newer version": JobStatus.TODO,
        "count": JobStatus.SUCCEEDED,
    }


@pytest.mark.parametrize("last_heartbeat", ["now() - interval '1 minute'", "now() + interval '2 hours'"])
async def test_a_job_of_a_silent_worker_is_resumed_and_given_up_after_its_budget(
    memory: Memory, last_heartbeat: str
) -> None:
    """A heartbeat in the future is from before the clock was set back."""
    take = Query(
        "tests.take",
        "Take every waiting job as a worker that is silent.",
        f"""WITH dead AS (
               INSERT INTO procrastinate_workers (last_heartbeat) VALUES ({last_heartbeat})
               RETURNING id)
           UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM dead)
           WHERE status = 'todo'""",
    )
    await defer(memory, "count")
    statuses = []
    for _ in range(5):
        async with memory.resources.database.queue() as rows:
            await rows.run(take)
        (resumed,) = await job_service.resume_stalled(memory.resources, {"count": 5})
        statuses.append((resumed.attempts, resumed.status))
    assert statuses == [*((number, JobStatus.TODO) for number in range(1, 5)), (5, JobStatus.FAILED)]
    (letter,) = await memory.list_dead_letters()
    assert letter.last_error == "Crashed"
    assert await job_service.resume_stalled(memory.resources, {"count": 5}) == []


async def test_a_new_tenant_is_planned_with_every_scheduled_job(memory: Memory) -> None:
    before = datetime.now(UTC)
    memory = await another(memory, "new")
    plan = Query(
        "tests.plan",
        "The plan of this tenant.",
        "SELECT job, next_at FROM schedules WHERE tenant_id = %(tenant_id)s",
    )
    async with memory.resources.database.transaction(memory.identity) as tx:
        planned = {row["job"]: row["next_at"] for row in await tx.dicts(plan)}
    assert set(planned) == {name for name, job in JOBS.items() if job.cron}
    assert all(at > before for at in planned.values())


def at(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


async def planned_tenants(memory: Memory, number: int) -> list[TenantId]:
    names = [f"tenant {index}" for index in range(number)]
    for name in names:
        await tenants.ensure_tenant(memory.resources, name)
    await job_service.plan_missing(memory.resources, [MINUTELY])
    return [tenant_id_of(name) for name in names]


async def count_deferred(memory: Memory) -> Counter[TenantId]:
    listing = Query(
        "tests.deferred",
        "Jobs of the schedule by tenant.",
        "SELECT (args ->> 'tenant_id')::uuid AS tenant_id FROM procrastinate_jobs WHERE task_name = 'count'",
    )
    async with memory.resources.database.queue() as rows:
        return Counter(row["tenant_id"] for row in await rows.dicts(listing))


async def test_two_tickers_start_one_job_per_tenant_and_due_time(settings: Settings, memory: Memory) -> None:
    owners = await planned_tenants(memory, 12)
    finish = Query("tests.finish", "End every job.", "UPDATE procrastinate_jobs SET status = 'succeeded'")
    async with open_resources(settings) as elsewhere:
        for due_times in range(1, 4):
            later = datetime.now(UTC) + timedelta(minutes=2 * due_times)
            both = [replace(each, clock=at(later)) for each in (memory.resources, elsewhere)]
            await asyncio.gather(*(job_service.start_due(each, MINUTELY) for each in both * 4))
            deferred = await count_deferred(memory)
            assert {deferred[owner] for owner in owners} == {due_times}
            async with memory.resources.database.queue() as rows:
                await rows.run(finish)


async def test_a_job_still_open_is_not_started_again(memory: Memory) -> None:
    (owner,) = await planned_tenants(memory, 1)
    for minutes in (2, 4, 6):
        later = datetime.now(UTC) + timedelta(minutes=minutes)
        await job_service.start_due(replace(memory.resources, clock=at(later)), MINUTELY)
    assert (await count_deferred(memory))[owner] == 1


async def test_no_more_runs_of_a_job_are_open_than_its_limit(settings: Settings, memory: Memory) -> None:
    running = most = 0
    done: Counter[TenantId] = Counter()

    async def count(resources: Resources, identity: Identity, **args: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        done[identity.tenant_id] += 1

    owners = await planned_tenants(memory, 10)
    limited = settings.model_copy(update={"job_concurrency": {"count": 2}})
    late = replace(memory.resources, settings=limited, clock=lambda: datetime.now(UTC) + timedelta(minutes=3))
    table = {"count": Job(run=count, cron=MINUTELY.cron, spread=MINUTELY.spread)}
    async with working(late, table):
        await until(lambda: set(owners) <= set(done))
    assert most <= 2


async def test_a_job_whose_limit_is_nought_is_not_started_by_the_clock(settings: Settings, memory: Memory) -> None:
    seen: list[dict[str, Any]] = []

    async def count(resources: Resources, identity: Identity, **args: Any) -> None:
        seen.append(args)

    await planned_tenants(memory, 3)
    off = settings.model_copy(update={"job_concurrency": {"count": 0}})
    late = replace(memory.resources, settings=off, clock=lambda: datetime.now(UTC) + timedelta(minutes=3))
    table = {"count": Job(run=count, cron=MINUTELY.cron, spread=MINUTELY.spread)}
    async with working(late, table):
        await defer(memory, "count", args={"step": 1})
        await until_status(memory, JobStatus.SUCCEEDED)
    assert seen == [{"step": 1}], "what is asked for runs all the same"


@given(
    name=st.text("abcdef", min_size=1),
    after=st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    cron=st.sampled_from(["0 * * * *", "0 3 * * *", "0 3 * * 0"]),
)
def test_the_next_run_lies_ahead_within_the_window_after_a_due_time(name: str, after: datetime, cron: str) -> None:
    schedule = Schedule(job="count", cron=cron, spread=timedelta(hours=1), concurrency=1)
    due = next_run(schedule, tenant_id_of(name), after)
    assert due > after
    assert (due.hour == 3 or cron.startswith("0 *")) and (due.weekday() == 6 or not cron.endswith("0"))
    following = next_run(schedule, tenant_id_of(name), due)
    assert following - due in {timedelta(hours=1), timedelta(days=1), timedelta(days=7)}


def test_tenants_are_spread_over_the_window() -> None:
    (schedule,) = schedules({"count": Job(run=job_service.housekeeping, cron="0 3 * * *")})
    after = datetime(2026, 1, 1, tzinfo=UTC)
    minutes = Counter(next_run(schedule, tenant_id_of(f"t{number}"), after).minute for number in range(6_000))
    assert len(minutes) == 60
    assert max(minutes.values()) < 200


async def test_an_administrator_runs_a_job_before_its_time(memory: Memory) -> None:
    async with working(memory.resources, JOBS):
        assert await memory.enqueue_job("housekeeping") is not None
        await until_status(memory, JobStatus.SUCCEEDED)
    with pytest.raises(InvalidInput):
        await memory.enqueue_job("nonsense")
    with pytest.raises(Forbidden):
        await memory.bound(Identity(tenant_id=memory.identity.tenant_id)).enqueue_job("housekeeping")
    assert [entry.action for entry in await memory.list_audit(limit=1)] == ["job.enqueue"]


async def test_housekeeping_forgets_old_jobs_of_its_tenant_only(memory: Memory) -> None:
    stranger = await another(memory, "stranger")
    age = Query(
        "tests.age",
        "Make every job one that ended 8 days ago.",
        """WITH aged AS (UPDATE procrastinate_events SET at = at - interval '8 days')
           UPDATE procrastinate_jobs SET status = (args ->> 'ends')::procrastinate_job_status""",
    )
    for each in (memory, stranger):
        await defer(each, "count", args={"ends": "succeeded"})
        await defer(each, "count", args={"ends": "failed"})
    await defer(memory, "count", args={"ends": "todo"})
    async with memory.resources.database.queue() as rows:
        await rows.run(age)
    async with memory.resources.database.queue() as rows:
        await rows.run(Query("tests.age", "The same for what the change itself recorded.", age.sql))
    await job_service.housekeeping(memory.resources, memory.identity)
    assert {record.status for record in await memory.list_jobs()} == {JobStatus.FAILED, JobStatus.TODO}
    assert len(await stranger.list_jobs()) == 2


async def test_jobs_go_on_after_every_connection_was_cut(memory: Memory) -> None:
    async def count(resources: Resources, identity: Identity, **args: Any) -> None:
        async with resources.database.queue() as rows:
            await rows.value(cut)

    cut = Query(
        "tests.cut",
        "End every other connection of this role.",
        """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
           WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()""",
    )
    async with working(memory.resources, {"count": Job(run=count)}):
        for told in range(1, 4):
            async with asyncio.timeout(PATIENCE):
                while True:
                    try:
                        await defer(memory, "count")
                        break
                    except DatabaseUnavailable:
                        await asyncio.sleep(0.05)
            await until_status(memory, JobStatus.SUCCEEDED, told)
    assert {record.attempts for record in await memory.list_jobs()} == {1}


async def test_the_library_runs_jobs_in_the_background(settings: Settings) -> None:
    async with Memory.open(tenant="library", settings=settings) as memory:
        await memory.enqueue_job("housekeeping")
        await until_status(memory, JobStatus.SUCCEEDED)
