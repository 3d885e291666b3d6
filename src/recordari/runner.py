"""The worker: drains the outbox, runs jobs, starts what is due and takes over what stalled.

It runs inside a server, inside a program that uses the library, or alone; any number of them may run at once.
While the database is away every part of it waits and tries again: it never ends by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import procrastinate
from procrastinate import retry
from procrastinate.jobs import Job as QueuedJob

from recordari.core.identity import Identity, Role, TenantId
from recordari.core.telemetry import get_log
from recordari.db.jobs import open_queue, retry_delay
from recordari.db.outbox import listen
from recordari.errors import RecordariError
from recordari.kit.resources import Clock, Resources
from recordari.schedule import JOBS, TOPICS
from recordari.worker import jobs as job_service
from recordari.worker.dispatch import Dispatcher, Job, Pace, Topic, schedules

log = get_log(__name__)

GRACE = 3.0
LONGEST_SLEEP = 30.0
FIRST_RESTART, LONGEST_RESTART = 0.5, 2.0


class JobFailed(Exception):
    """A job raised: stands for that error without its message, which might hold content."""


async def run_worker(
    resources: Resources,
    stop: asyncio.Event,
    *,
    jobs: Mapping[str, Job] = JOBS,
    topics: Mapping[str, Topic] = TOPICS,
) -> None:
    """Work until `stop` is set; then finish or hand back what is in flight, within a few seconds."""
    freed = asyncio.Event()
    dispatchers = [Dispatcher(resources, name, topic) for name, topic in topics.items()]
    draining = [asyncio.create_task(_persistently(f"dispatch {each.name}", each.run)) for each in dispatchers]
    others = [
        asyncio.create_task(_persistently(name, part))
        for name, part in {
            "listen": lambda: listen(resources.database.dsn, resources.wakeups.heard),
            "schedule": lambda: _start_what_is_due(resources, jobs, freed),
            "sweep": lambda: _take_over_what_stalled(resources, jobs),
            "queue": lambda: _run_jobs(resources, jobs, freed),
        }.items()
    ]
    log.info("worker_started", jobs=len(jobs), topics=len(topics))
    try:
        await stop.wait()
    finally:
        for each in dispatchers:
            each.stop()
        for task in others:
            task.cancel()
        await _ended(draining, 1.0)  # first, so that none starts a batch after `close` has looked
        await asyncio.gather(*(each.close(GRACE) for each in dispatchers))
        await _ended(others, GRACE + 2.0)
        log.info("worker_stopped")


@asynccontextmanager
async def background_worker(resources: Resources) -> AsyncIterator[None]:
    """Run a worker in the background of this event loop for as long as the block lasts."""
    stop = asyncio.Event()
    task = asyncio.create_task(run_worker(resources, stop), name="recordari worker")
    try:
        yield
    finally:
        stop.set()
        await task


async def _ended(tasks: list[asyncio.Task[None]], seconds: float) -> None:
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _persistently(name: str, part: Callable[[], Awaitable[None]]) -> None:
    """Run a part of the worker, and again after a growing pause whenever it fails."""
    delay = FIRST_RESTART
    while True:
        started = time.monotonic()
        try:
            return await part()
        except Exception as error:  # noqa: BLE001 - a worker outlives whatever befalls one of its parts
            log.warning("worker_part_failed", part=name, error=type(error).__name__)
        delay = FIRST_RESTART if time.monotonic() - started > 60 else min(delay * 2, LONGEST_RESTART)
        await asyncio.sleep(delay)


async def _start_what_is_due(resources: Resources, table: Mapping[str, Job], freed: asyncio.Event) -> None:
    planned = schedules(table)
    await job_service.plan_missing(resources, planned)
    planned = tuple(each for each in planned if job_service.most_open(resources, each) > 0)
    while True:
        freed.clear()
        held_back = False
        for schedule in planned:
            _, more = await job_service.start_due(resources, schedule)
            held_back = held_back or more
        pause = await job_service.seconds_until_due(resources, planned, longest=LONGEST_SLEEP)
        if not held_back:
            await asyncio.sleep(max(1.0, pause))
            continue
        # Runs beyond the limit start when one of this process ends, or a tick after one of another.
        try:
            async with asyncio.timeout(resources.get(Pace).tick):
                await freed.wait()
        except TimeoutError:
            continue


async def _take_over_what_stalled(resources: Resources, table: Mapping[str, Job]) -> None:
    budgets = {name: _budget(resources, job) for name, job in table.items()}
    while True:
        for resumed in await job_service.resume_stalled(resources, budgets):
            log.warning("job_resumed", job=resumed.job, job_id=resumed.job_id, status=resumed.status)
        await asyncio.sleep(max(1.0, resources.get(Pace).stalled_seconds / 4))


async def _run_jobs(resources: Resources, table: Mapping[str, Job], freed: asyncio.Event) -> None:
    pace, limit = resources.get(Pace), resources.settings.statement_timeout
    async with open_queue(resources.database.dsn, connections=3, statement_timeout=limit) as app:
        for name, job in table.items():
            _register(app, resources, name, job, freed)
        await app.run_worker_async(
            name="recordari",
            queues=list(table),
            concurrency=pace.jobs,
            install_signal_handlers=False,
            fetch_job_polling_interval=pace.tick,
            shutdown_graceful_timeout=GRACE,
            update_heartbeat_interval=pace.stalled_seconds / 4,
            stalled_worker_timeout=pace.stalled_seconds,
        )
    raise RuntimeError("the queue's worker stopped by itself")  # to be started again


def _budget(resources: Resources, job: Job) -> int:
    return job.max_attempts or resources.get(Pace).max_attempts


def _register(app: procrastinate.App, resources: Resources, name: str, job: Job, freed: asyncio.Event) -> None:
    async def run(context: procrastinate.JobContext, /, *, tenant_id: str, **args: Any) -> None:
        tenant = TenantId(UUID(tenant_id))
        identity = Identity(tenant_id=tenant, role=Role.ADMIN, actor=f"job:{name}")
        failure = None
        try:
            async with asyncio.timeout(job.timeout):
                await job.run(resources, identity, **args)
        except Exception as error:  # noqa: BLE001 - whatever a job raises, it is tried again or given up
            failure = type(error).__name__
        finally:
            freed.set()
        if failure is not None:
            await _note_failure(resources, identity, context.job.id, failure)
            raise JobFailed(failure)

    retries = _Retries(_budget(resources, job), resources.get(Pace).retry_seconds, resources.clock)
    app.task(name=name, queue=name, pass_context=True, retry=retries)(run)


async def _note_failure(resources: Resources, identity: Identity, job_id: int | None, failure: str) -> None:
    if job_id is None:
        return
    try:
        await job_service.record_failure(resources, identity, job_id, failure)
    except RecordariError as error:
        log.warning("outcome_not_saved", job_id=job_id, error=type(error).__name__)


class _Retries(retry.BaseRetryStrategy):
    """Try again after growing pauses within the budget; a run cut short by a shutdown always comes back."""

    def __init__(self, budget: int, first: float, clock: Clock) -> None:
        self.budget = budget
        self.first = first
        self.clock = clock

    def get_retry_decision(self, *, exception: BaseException, job: QueuedJob) -> procrastinate.RetryDecision | None:
        tries = job.attempts + 1
        if isinstance(exception, asyncio.CancelledError):
            return procrastinate.RetryDecision()
        if tries >= self.budget:
            return None
        delay = timedelta(seconds=retry_delay(tries, first=self.first))
        return procrastinate.RetryDecision(retry_at=self.clock() + delay)
