"""Jobs: enqueue and list them, replay dead letters, start due jobs and take over stalled ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from recordari.core.identity import Identity
from recordari.db import audit, jobs, outbox
from recordari.db.jobs import (
    DeadLetter,
    DeadLetterKind,
    JobCounts,
    JobRecord,
    JobStatus,
    ResumedJob,
    Schedule,
    ScheduledJob,
    next_run,
)
from recordari.errors import InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.kit.verbs import existing
from recordari.memory.index import find_embedder
from recordari.tenants.tenants import page_size, require_admin
from recordari.worker.dispatch import LONGEST_DELAY, Pace

PLAN_PAGE = 1_000
FINISHED_KEPT = timedelta(days=7)
FAILED_KEPT = timedelta(days=90)  # until then they can be replayed
LAST_NUMBER = 2**63 - 1
NO_SUCH_LETTER = "there is no such dead letter"


async def enqueue_job(resources: Resources, identity: Identity, job: str, /, **args: Any) -> int | None:
    """Enqueue a job of the tenant now; return its id, or None if one waits already.

    `args` are arguments of the job: ids, names and numbers, never content.
    """
    require_admin(identity)
    if job not in resources.job_names:
        raise InvalidInput(f"there is no job {job!r}; use one of {', '.join(sorted(resources.job_names))}", field="job")
    async with resources.database.transaction(identity) as tx:
        name = f"{job}:{identity.tenant_id}"
        job_id = await jobs.defer(tx, job, args=args, queueing_lock=name, lock=name)
        await audit.record(tx, "job.enqueue", "job", job if job_id is None else job_id, job=job, **args)
        return job_id


async def start_reindex(resources: Resources, identity: Identity) -> int | None:
    """Derive everything again in the background; return the id of the job, or None if one waits already."""
    return await enqueue_job(resources, identity, "reindex")


async def start_reembed(resources: Resources, identity: Identity, *, model_id: str | None = None) -> int | None:
    """Move to another embedding model in the background; return the id of the job, or None if one waits already."""
    find_embedder(resources, model_id)
    return await enqueue_job(resources, identity, "reembed", model_id=model_id)


async def list_jobs(
    resources: Resources,
    identity: Identity,
    *,
    status: JobStatus | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[JobRecord]:
    """List the jobs of the tenant, newest first; `before` is the id of the last one seen."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await jobs.list_jobs(
            tx, status=status, before=LAST_NUMBER if before is None else before, limit=page_size(limit)
        )


async def get_job(resources: Resources, identity: Identity, job_id: int) -> JobRecord:
    """Return a job of the tenant."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return existing(await jobs.find_job(tx, job_id), "job")


async def job_counts(resources: Resources, identity: Identity) -> JobCounts:
    """Count the background work of the tenant: waiting, running, done and dead."""
    require_admin(identity)
    by_status, by_topic = jobs.ask_counts(), outbox.ask_by_topic()
    await resources.database.read_batch(identity, [by_status, by_topic])
    pending, parked = by_topic.answer
    return JobCounts(jobs=by_status.answer, outbox_pending=pending, outbox_parked=parked)


async def job_schedule(resources: Resources, identity: Identity) -> list[ScheduledJob]:
    """List the jobs that run by the clock, the next one first."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await jobs.list_schedules(tx, [schedule.job for schedule in resources.schedules])


async def list_dead_letters(
    resources: Resources, identity: Identity, *, after: str | None = None, limit: int = 50
) -> list[DeadLetter]:
    """List dead letters: failed jobs, then parked entries of the outbox, newest first.

    `after` is the id of the last one seen.
    """
    require_admin(identity)
    limit = page_size(limit)
    kind, number = _read_id(after) if after is not None else (DeadLetterKind.JOB, LAST_NUMBER)
    letters: list[DeadLetter] = []
    async with resources.database.transaction(identity) as tx:
        if kind is DeadLetterKind.JOB:
            letters = await jobs.list_failed(tx, before=number, limit=limit)
            number = LAST_NUMBER
        if len(letters) < limit:
            letters += await outbox.list_parked(tx, before=number, limit=limit - len(letters))
    return letters


async def replay_dead_letter(resources: Resources, identity: Identity, dead_letter_id: str) -> None:
    """Run a dead letter again, with all its tries."""
    require_admin(identity)
    kind, number = _read_id(dead_letter_id)
    topic = None
    async with resources.database.transaction(identity) as tx:
        if kind is DeadLetterKind.OUTBOX:
            topic = await outbox.replay_parked(tx, number)
        if topic is None and not (kind is DeadLetterKind.JOB and await jobs.replay_failed(tx, number)):
            raise NotFound(NO_SUCH_LETTER)
        await audit.record(tx, "job.replay", kind, number)
    if topic is not None:
        resources.wake(topic)


async def replay_dead_letters(resources: Resources, identity: Identity) -> int:
    """Run every dead letter of the tenant again; return how many there were."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        topics = await outbox.replay_all_parked(tx)
        replayed = len(topics) + await jobs.replay_all_failed(tx)
        await audit.record(tx, "job.replay_all", "tenant", identity.tenant_id, replayed=replayed)
    for topic in sorted(set(topics)):
        resources.wake(topic)
    return replayed


async def discard_dead_letter(resources: Resources, identity: Identity, dead_letter_id: str) -> None:
    """Discard a dead letter for good."""
    require_admin(identity)
    kind, number = _read_id(dead_letter_id)
    async with resources.database.transaction(identity) as tx:
        discard = outbox.discard_parked if kind is DeadLetterKind.OUTBOX else jobs.discard_failed
        if not await discard(tx, number):
            raise NotFound(NO_SUCH_LETTER)
        await audit.record(tx, "job.discard", kind, number)


def _read_id(dead_letter_id: str) -> tuple[DeadLetterKind, int]:
    kind, _, number = dead_letter_id.partition(":")
    if kind not in set(DeadLetterKind) or not number.isascii() or not number.isdigit() or len(number) > 18:
        raise NotFound(NO_SUCH_LETTER)
    return DeadLetterKind(kind), int(number)


async def housekeeping(resources: Resources, identity: Identity, **_: Any) -> None:
    """Delete jobs of the tenant that ended long ago.

    Parked entries of the outbox stay until you replay or discard them: each is work that is not done.
    """
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        await jobs.delete_finished(tx, before=now - FINISHED_KEPT, failed_before=now - FAILED_KEPT)


async def record_failure(resources: Resources, identity: Identity, job_id: int, error: str) -> None:
    async with resources.database.transaction(identity) as tx:
        await jobs.record_failure(tx, job_id, error)


async def plan_missing(resources: Resources, schedules: Sequence[Schedule]) -> int:
    """Plan new kinds of jobs for tenants that are older; return the number of new rows."""
    added = 0
    for schedule in schedules:
        while True:
            async with resources.database.queue() as rows:
                tenants = await jobs.tenants_without(rows, schedule.job, limit=PLAN_PAGE)
                now = resources.clock()
                times = [(tenant, next_run(schedule, tenant, now)) for tenant in tenants]
                await jobs.insert_for_tenants(rows, schedule.job, times)
            added += len(tenants)
            if len(tenants) < PLAN_PAGE:
                break
    return added


def most_open(resources: Resources, schedule: Schedule) -> int:
    """Return the most open runs of a scheduled job over all workers; 0: the clock starts none."""
    return resources.settings.job_concurrency.get(schedule.job, schedule.concurrency)


async def start_due(resources: Resources, schedule: Schedule) -> tuple[int, bool]:
    """Enqueue a job for the tenants for which it is due, within its limit; return how many, and whether more may be due.

    The same transaction sets the next time of each tenant: a due time gives one job, however many workers look.
    """
    limit = most_open(resources, schedule)
    async with resources.database.queue() as rows:
        if not await jobs.try_lock_job(rows, schedule.job):
            return 0, False
        room = limit - await jobs.count_open(rows, schedule.job)
        if room <= 0:
            return 0, True
        now = resources.clock()
        due = await jobs.lock_due(rows, schedule.job, now=now, limit=room)
        if due:
            await jobs.defer_for_tenants(rows, schedule.job, due, exclusive=schedule.exclusive)
            times = [(tenant, next_run(schedule, tenant, now)) for tenant in due]
            await jobs.advance(rows, schedule.job, times, now=now)
        return len(due), len(due) == room


async def seconds_until_due(resources: Resources, schedules: Sequence[Schedule], *, longest: float) -> float:
    async with resources.database.queue() as rows:
        due = await jobs.next_due(rows, [schedule.job for schedule in schedules])
    if due is None:
        return longest
    return max(0.0, min(longest, (due - resources.clock()).total_seconds()))


async def resume_stalled(resources: Resources, budgets: Mapping[str, int]) -> list[ResumedJob]:
    """Take over jobs of workers that stalled; the crash counts as a try. Work that a clock set back put off is due."""
    silence = timedelta(seconds=resources.get(Pace).stalled_seconds)
    async with resources.database.queue() as rows:
        await outbox.make_due(rows, longest=LONGEST_DELAY)
        return await jobs.resume_stalled(rows, budgets, silence=silence)
