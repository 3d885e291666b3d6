"""Jobs of the queue (procrastinate, in the schema `recordari_queue`): deferred, listed, replayed, resumed.

A job belongs to one tenant, whose id is among its arguments. Its queue has the name of the job, so that a worker
fetches only jobs that it knows. Arguments are ids and numbers, never content.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

import procrastinate
import psycopg
import psycopg_pool
from croniter import croniter
from procrastinate import exceptions
from procrastinate.jobs import Job as QueuedJob
from procrastinate.jobs import Status
from procrastinate.manager import JobManager, NotificationCallback
from psycopg import sql
from psycopg.types.json import Jsonb
from pydantic import computed_field

from recordari.core.described import DESCRIBED
from recordari.core.identity import TenantId
from recordari.core.telemetry import get_log
from recordari.db.database import BatchedQuery, QueueTransaction, Transaction
from recordari.db.queries import Queries, Query

log = get_log(__name__)
queries = Queries(__name__)

# Retries last about as long as a database needs to restart; later the sweep takes the job over.
PERSIST_DELAYS = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0)


class JobStatus(StrEnum):
    """The status of a job; `failed` means that its tries are used up and a person must look."""

    TODO = "todo"
    DOING = "doing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABORTED = "aborted"


class DeadLetterKind(StrEnum):
    """The queue of a dead letter: jobs of a tenant, or entries of the outbox."""

    JOB = "job"
    OUTBOX = "outbox"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job of a tenant as a person sees it."""

    job_id: int
    job: str
    status: JobStatus
    attempts: int
    scheduled_at: datetime | None
    last_at: datetime | None
    args: dict[str, Any]
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Work that failed in its last try and waits for a person to replay or discard it."""

    __pydantic_config__ = DESCRIBED

    kind: DeadLetterKind
    number: int
    name: str
    attempts: int
    last_error: str | None
    failed_at: datetime | None
    ref: UUID | None = None
    """The item that the work is about, if any."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def dead_letter_id(self) -> str:
        """The id to replay or discard it by, such as `outbox:17`."""
        return f"{self.kind}:{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """How much work of a tenant waits, runs, is done and was given up."""

    __pydantic_config__ = DESCRIBED

    jobs: dict[JobStatus, int]
    outbox_pending: dict[str, int]
    """Work of the outbox that waits, by topic."""
    outbox_parked: dict[str, int]
    """Work of the outbox that was given up, by topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a job of every tenant runs: at the times of `cron` (UTC), each tenant with an offset of its own."""

    job: str
    cron: str
    spread: timedelta
    concurrency: int
    exclusive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    """When a job of a tenant ran last and runs next."""

    __pydantic_config__ = DESCRIBED

    job: str
    next_at: datetime
    last_at: datetime | None
    """Null: it has not run by the clock yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedJob:
    """A job taken from a worker whose heartbeat stopped."""

    job_id: int
    job: str
    status: JobStatus
    attempts: int


async def defer(
    tx: Transaction,
    job: str,
    *,
    args: Mapping[str, Any] | None = None,
    queueing_lock: str | None = None,
    lock: str | None = None,
    schedule_at: datetime | None = None,
    priority: int = 0,
) -> int | None:
    """Enqueue a job of this tenant in this transaction; None when one with that queueing lock waits already.

    The commit sends a NOTIFY for each job, so work that follows every write belongs in the outbox.
    """
    job_id: int | None = await tx.value(
        queries.defer_job,
        job=job,
        args=Jsonb(dict(args or {})),
        queueing_lock=queueing_lock,
        lock=lock,
        schedule_at=schedule_at,
        priority=priority,
    )
    return job_id


async def defer_for_tenants(rows: QueueTransaction, job: str, tenants: Sequence[TenantId], *, exclusive: bool) -> int:
    """Enqueue one job for each tenant that has none of that name waiting or running; returns how many."""
    return await rows.run(queries.defer_for_tenants, job=job, tenants=list(tenants), exclusive=exclusive)


async def count_open(rows: QueueTransaction, job: str) -> int:
    return int(await rows.value(queries.count_open, job=job))


async def resume_stalled(rows: QueueTransaction, budgets: Mapping[str, int], *, silence: timedelta) -> list[ResumedJob]:
    """Take jobs from workers whose heartbeat stopped; jobs whose last try this was are given up."""
    resumed = await rows.dicts(
        queries.resume_stalled, jobs=list(budgets), budgets=list(budgets.values()), silence=silence
    )
    await rows.run(queries.forget_workers, silence=silence * 10)
    return [
        ResumedJob(job_id=row["job_id"], job=row["job"], status=JobStatus(row["status"]), attempts=row["attempts"])
        for row in resumed
    ]


async def record_failure(tx: Transaction, job_id: int, error: str) -> None:
    await tx.run(queries.record_failure, job_id=job_id, error=error)


async def list_jobs(tx: Transaction, *, status: JobStatus | None, before: int, limit: int) -> list[JobRecord]:
    if status is None:
        return await tx.all(queries.list_jobs, JobRecord, before=before, limit=limit)
    return await tx.all(queries.list_jobs_by_status, JobRecord, status=status, before=before, limit=limit)


async def find_job(tx: Transaction, job_id: int) -> JobRecord | None:
    return await tx.maybe(queries.find_job, JobRecord, job_id=job_id)


async def list_failed(tx: Transaction, *, before: int, limit: int) -> list[DeadLetter]:
    return await tx.all(queries.list_failed, DeadLetter, before=before, limit=limit)


async def count_jobs(tx: Transaction) -> dict[JobStatus, int]:
    return _by_status(await tx.dicts(queries.count_jobs))


def ask_counts() -> BatchedQuery[dict[JobStatus, int]]:
    return BatchedQuery(queries.count_jobs, _by_status)


def _by_status(rows: Sequence[Mapping[str, Any]]) -> dict[JobStatus, int]:
    return {JobStatus(row["status"]): row["number"] for row in rows}


async def replay_failed(tx: Transaction, job_id: int) -> bool:
    """Give a job its tries back; False when the tenant has no such failed job."""
    return await tx.value(queries.replay_failed, job_id=job_id) is not None


async def replay_all_failed(tx: Transaction) -> int:
    return await tx.run(queries.replay_all_failed)


async def discard_failed(tx: Transaction, job_id: int) -> bool:
    """Give a job up for good; False when the tenant has no such failed job."""
    return await tx.run(queries.discard_failed, job_id=job_id) == 1


async def delete_finished(tx: Transaction, *, before: datetime, failed_before: datetime) -> int:
    return await tx.run(queries.delete_finished, before=before, failed_before=failed_before)


class QueueManager(JobManager):
    """The queue of a worker, which survives an outage of the database.

    The library's own worker stops for good, or loses its heartbeat unnoticed, when the database restarts; and a job
    whose end cannot be written stays `doing`. Here each of these steps waits for the database, and only the worker that
    holds a job closes it.
    """

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> QueuedJob | None:
        """Take the next job; None when there is none or the database is down."""
        try:
            return await super().fetch_job(queues=queues, worker_id=worker_id)
        except exceptions.ConnectorException as error:
            if not _is_outage(error):
                raise
            log.warning("queue_unreachable", step="fetch", error=type(error.__cause__).__name__)
            return None

    async def update_heartbeat(self, worker_id: int) -> None:
        """Send a heartbeat; one that fails is made up for by the next."""
        try:
            await super().update_heartbeat(worker_id)
        except exceptions.ConnectorException as error:
            log.warning("queue_unreachable", step="heartbeat", error=type(error.__cause__).__name__)

    async def list_jobs_to_abort_async(self, queue: str | None = None) -> Iterable[int]:
        """List jobs to abort; none while the database is down."""
        try:
            return await super().list_jobs_to_abort_async(queue)
        except exceptions.ConnectorException as error:
            if not _is_outage(error):
                raise
            return []

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        """Listen for new jobs, and connect again whenever the connection breaks."""
        while True:
            try:
                await super().listen_for_jobs(on_notification=on_notification, queues=queues)
            except (exceptions.ConnectorException, psycopg.Error) as error:
                log.warning("queue_unreachable", step="listen", error=type(error.__cause__ or error).__name__)
            await asyncio.sleep(2.0)

    async def finish_job(self, job: QueuedJob, status: Status, delete_job: bool) -> None:
        """Close a job, unless another worker holds it by now (likewise `retry_job`)."""
        await self._persist(queries.finish_job, job, status=status.value)

    async def retry_job(
        self,
        job: QueuedJob,
        retry_at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        await self._persist(queries.retry_job, job, retry_at=retry_at)

    async def _persist(self, query: Query, job: QueuedJob, **values: Any) -> None:
        async def attempt() -> None:
            await self.connector.execute_query_one_async(query.sql, job_id=job.id, worker_id=job.worker_id, **values)

        try:
            await _despite_outage(attempt)
        except exceptions.NoResult:
            log.warning("job_taken_over", job=job.task_name, job_id=job.id)


async def _despite_outage(attempt: Callable[[], Awaitable[None]]) -> None:
    for delay in PERSIST_DELAYS:
        try:
            return await attempt()
        except exceptions.ConnectorException as error:
            if not _is_outage(error):
                raise
            await asyncio.sleep(delay)
    return await attempt()


def _is_outage(error: exceptions.ConnectorException) -> bool:
    return isinstance(error.__cause__, psycopg.OperationalError | psycopg.InterfaceError)


class _SettledPool(psycopg_pool.AsyncConnectionPool[psycopg.AsyncConnection[Any]]):
    """Connections whose transactions begin with our settings: behind a pooler no setting outlasts one."""

    def __init__(self, *arguments: Any, opening: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._opening = opening

    @asynccontextmanager
    async def connection(  # the driver's own signature
        self,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        async with super().connection(timeout) as connection:
            await connection.execute(self._opening)
            yield connection


@asynccontextmanager
async def open_queue(
    dsn: str, *, connections: int, statement_timeout: float, behind_pooler: bool = False
) -> AsyncIterator[procrastinate.App]:
    """Open the queue as a worker uses it, with a small pool of its own."""
    scope = sql.SQL("LOCAL" if behind_pooler else "SESSION")
    settings = (
        sql.SQL("SET {0} search_path = recordari_queue; SET {0} jit = off; SET {0} statement_timeout = {1}")
        .format(scope, sql.Literal(int(statement_timeout * 1000)))
        .as_string(None)
    )

    async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("SET application_name = 'recordari worker'; SET TimeZone = 'UTC'")
        if behind_pooler:
            connection.prepare_threshold = None
        else:
            await connection.execute(settings)
        if not connection.autocommit:
            await connection.commit()

    connector = procrastinate.PsycopgConnector(
        conninfo=dsn,
        pool_factory=partial(_SettledPool, opening=settings) if behind_pooler else psycopg_pool.AsyncConnectionPool,
        kwargs={"connect_timeout": 5},
        configure=configure,
        min_size=1,
        max_size=connections,
        timeout=5.0,
        reconnect_timeout=5.0,
    )
    app = procrastinate.App(connector=connector)
    app.job_manager = QueueManager(connector)
    try:
        async with app.open_async():
            yield app
    except psycopg_pool.PoolTimeout as error:
        raise exceptions.ConnectorException from error
    finally:
        # A pool whose opening is cancelled continues to connect, and would keep the process from ending.
        await asyncio.shield(connector.close_async())


async def insert(tx: Transaction, planned: Sequence[tuple[str, datetime]]) -> None:
    await tx.run(queries.insert_schedules, jobs=[job for job, _ in planned], times=[at for _, at in planned])


async def insert_for_tenants(rows: QueueTransaction, job: str, planned: Sequence[tuple[TenantId, datetime]]) -> None:
    await rows.run(queries.insert_for_tenants, job=job, **_planned(planned))


async def list_schedules(tx: Transaction, jobs: Sequence[str]) -> list[ScheduledJob]:
    return await tx.all(queries.list_schedules, ScheduledJob, jobs=list(jobs))


async def tenants_without(rows: QueueTransaction, job: str, *, limit: int) -> list[TenantId]:
    return [row["tenant_id"] for row in await rows.dicts(queries.tenants_without, job=job, limit=limit)]


async def try_lock_job(rows: QueueTransaction, job: str) -> bool:
    """Let only this process start runs of the job in this transaction; False when another one does."""
    return bool(await rows.value(queries.try_lock_job, job=job))


async def lock_due(rows: QueueTransaction, job: str, *, now: datetime, limit: int) -> list[TenantId]:
    return [row["tenant_id"] for row in await rows.dicts(queries.lock_due, job=job, now=now, limit=limit)]


async def advance(
    rows: QueueTransaction, job: str, planned: Sequence[tuple[TenantId, datetime]], *, now: datetime
) -> None:
    await rows.run(queries.advance, job=job, now=now, **_planned(planned))


def _planned(planned: Sequence[tuple[TenantId, datetime]]) -> dict[str, list[Any]]:
    return {"tenants": [tenant for tenant, _ in planned], "times": [at for _, at in planned]}


async def next_due(rows: QueueTransaction, jobs: Sequence[str]) -> datetime | None:
    """The earliest time at which any of the jobs is due; None when nothing is planned."""
    due: datetime | None = await rows.value(queries.next_due, jobs=list(jobs))
    return due


def next_run(schedule: Schedule, tenant_id: TenantId, after: datetime) -> datetime:
    """The first time after `after` at which this tenant's job is due.

    The tenant's id fixes its offset in the window, so that tenants do not all come due at once.
    """
    window = max(1, int(schedule.spread.total_seconds()))
    digest = hashlib.blake2b(tenant_id.bytes + schedule.job.encode(), digest_size=8).digest()
    offset = timedelta(seconds=int.from_bytes(digest) % window)
    planned: datetime = croniter(schedule.cron, after - offset).get_next(datetime)
    return planned + offset


def retry_delay(attempts: int, *, first: float, cap: float = 300.0) -> float:
    """Seconds to wait after so many failed tries: four times as long after each, up to `cap`."""
    return float(min(cap, first * 4 ** min(max(attempts - 1, 0), 10)))
