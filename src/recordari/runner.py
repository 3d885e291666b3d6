"""The worker: drains the outbox, runs jobs, starts scheduled jobs and takes over stalled ones.

It runs inside a server, inside a program that uses the library, or alone; any number of workers may run at once. While the
database cannot be reached, every part waits and tries again: a worker never ends by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import procrastinate
from procrastinate import retry
from procrastinate.jobs import Job as QueuedJob

from recordari.core.identity import Identity, TenantId, job_identity
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
    """A job raised this error; its message is left out because it may hold content."""


async def run_worker(
    resources: Resources,
    stop: asyncio.Event,
    *,
    jobs: Mapping[str, Job] = JOBS,
    topics: Mapping[str, Topic] = TOPICS,
) -> None:
    """Work until `stop` is set; then finish or release the current work within a few seconds."""
    freed = asyncio.Event()
    dispatchers = [Dispatcher(resources, name, topic) for name, topic in topics.items()]
    draining = [asyncio.create_task(_restarting(f"dispatch {part.name}", part.run)) for part in dispatchers]
    parts: dict[str, Callable[[], Awaitable[None]]] = {
        "schedule": lambda: _start_due(resources, jobs, freed),
        "sweep": lambda: _resume_stalled(resources, jobs),
        "queue": lambda: _run_jobs(resources, jobs, freed),
    }
    if (dsn := _direct(resources)) is not None:
        parts["listen"] = lambda: listen(dsn, resources.wakeups.heard)
    others = [asyncio.create_task(_restarting(name, part)) for name, part in parts.items()]
    log.info("worker_started", jobs=len(jobs), topics=len(topics))
    try:
        await stop.wait()
    finally:
        for dispatcher in dispatchers:
            dispatcher.stop()
        for task in others:
            task.cancel()
        await _end(draining, 1.0)  # first, so that none starts a batch after `close` has looked
        await asyncio.gather(*(dispatcher.close(GRACE) for dispatcher in dispatchers))
        await _end(others, GRACE + 2.0)
        log.info("worker_stopped")


def _direct(resources: Resources) -> str | None:
    """The address to listen at: past a pooler in transaction mode. None: the worker looks for work at each tick."""
    if (direct := resources.settings.database_direct_url) is not None:
        return direct.get_secret_value()
    return None if resources.database.behind_pooler else resources.database.dsn


@asynccontextmanager
async def background_worker(resources: Resources) -> AsyncIterator[None]:
    """Run a worker on this event loop for as long as the block lasts."""
    stop = asyncio.Event()
    task = asyncio.create_task(run_worker(resources, stop), name="recordari worker")
    try:
        yield
    finally:
        stop.set()
        await task


async def _end(tasks: list[asyncio.Task[None]], seconds: float) -> None:
    if not tasks:
        return
    _, late = await asyncio.wait(tasks, timeout=seconds)
    for task in late:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _restarting(name: str, part: Callable[[], Awaitable[None]]) -> None:
    """Run a part of the worker; restart it after a growing pause whenever it fails."""
    delay = FIRST_RESTART
    while True:
        started = time.monotonic()
        try:
            return await part()
        except Exception as error:  # noqa: BLE001 - a worker outlives every failure of its parts
            log.warning("worker_part_failed", part=name, error=type(error).__name__)
        delay = FIRST_RESTART if time.monotonic() - started > 60 else min(delay * 2, LONGEST_RESTART)
        await asyncio.sleep(delay)


async def _start_due(resources: Resources, table: Mapping[str, Job], freed: asyncio.Event) -> None:
    planned = schedules(table)
    await job_service.plan_missing(resources, planned)
    planned = tuple(schedule for schedule in planned if job_service.most_open(resources, schedule) > 0)
    while True:
        freed.clear()
        held_back = False
        for schedule in planned:
            _, more = await job_service.start_due(resources, schedule)
            held_back |= more
        pause = await job_service.seconds_until_due(resources, planned, longest=LONGEST_SLEEP)
        if not held_back:
            await asyncio.sleep(max(1.0, pause))
            continue
        # Runs beyond the limit start when a run of this process ends, or a tick after one of another process.
        with suppress(TimeoutError):
            async with asyncio.timeout(resources.get(Pace).tick):
                await freed.wait()


async def _resume_stalled(resources: Resources, table: Mapping[str, Job]) -> None:
    budgets = {name: _budget(resources, job) for name, job in table.items()}
    while True:
        for resumed in await job_service.resume_stalled(resources, budgets):
            log.warning("job_resumed", job=resumed.job, job_id=resumed.job_id, status=resumed.status)
        await asyncio.sleep(max(1.0, resources.get(Pace).stalled_seconds / 4))


async def _run_jobs(resources: Resources, table: Mapping[str, Job], freed: asyncio.Event) -> None:
    pace, limit, direct = resources.get(Pace), resources.settings.statement_timeout, _direct(resources)
    dsn = direct or resources.database.dsn
    async with open_queue(dsn, connections=3, statement_timeout=limit, behind_pooler=direct is None) as app:
        for name, job in table.items():
            _register(app, resources, name, job, freed)
        await app.run_worker_async(
            name="recordari",
            queues=list(table),
            concurrency=pace.jobs,
            install_signal_handlers=False,
            fetch_job_polling_interval=pace.tick,
            listen_notify=direct is not None,
            shutdown_graceful_timeout=GRACE,
            update_heartbeat_interval=pace.stalled_seconds / 4,
            stalled_worker_timeout=pace.stalled_seconds,
        )
    raise RuntimeError("the queue's worker stopped by itself")  # to be started again


def _budget(resources: Resources, job: Job) -> int:
    return job.max_attempts or resources.get(Pace).max_attempts


def _register(app: procrastinate.App, resources: Resources, name: str, job: Job, freed: asyncio.Event) -> None:
    async def run(context: procrastinate.JobContext, /, *, tenant_id: str, **args: Any) -> None:
        identity = job_identity(TenantId(UUID(tenant_id)), name)
        failure = None
        try:
            async with asyncio.timeout(job.timeout):
                await job.run(resources, identity, **args)
        except Exception as error:  # noqa: BLE001 - after any exception a job is tried again or given up
            failure = type(error).__name__
        finally:
            freed.set()
        if failure is not None:
            await _record_failure(resources, identity, context.job.id, failure)
            raise JobFailed(failure)

    retries = _Retries(_budget(resources, job), resources.get(Pace).retry_seconds, resources.clock)
    app.task(name=name, queue=name, pass_context=True, retry=retries)(run)


async def _record_failure(resources: Resources, identity: Identity, job_id: int | None, failure: str) -> None:
    if job_id is None:
        return
    try:
        await job_service.record_failure(resources, identity, job_id, failure)
    except RecordariError as error:
        log.warning("outcome_not_saved", job_id=job_id, error=type(error).__name__)


class _Retries(retry.BaseRetryStrategy):
    """Retries after growing pauses within the budget, and always after a shutdown."""

    def __init__(self, budget: int, first: float, clock: Clock) -> None:
        self.budget, self.first, self.clock = budget, first, clock

    def get_retry_decision(self, *, exception: BaseException, job: QueuedJob) -> procrastinate.RetryDecision | None:
        tries = job.attempts + 1
        if isinstance(exception, asyncio.CancelledError):
            return procrastinate.RetryDecision()
        if tries >= self.budget:
            return None
        delay = timedelta(seconds=retry_delay(tries, first=self.first))
        return procrastinate.RetryDecision(retry_at=self.clock() + delay)
