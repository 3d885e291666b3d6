"""Background work: when a tenant's job runs next, and what a person sees of jobs and dead letters."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from croniter import croniter

from recordari.core.identity import TenantId


class JobStatus(StrEnum):
    """Where a job stands; `failed` means that its tries are used up and a person must look."""

    TODO = "todo"
    DOING = "doing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ABORTED = "aborted"


class DeadLetterKind(StrEnum):
    """Which queue a dead letter lies in: jobs of a tenant, or entries of the outbox."""

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
    """Work that was given up after its last try: it waits for a person to replay or discard it."""

    kind: DeadLetterKind
    number: int
    name: str
    attempts: int
    last_error: str | None
    failed_at: datetime | None
    ref: UUID | None = None

    @property
    def dead_letter_id(self) -> str:
        """What to replay or discard it by, such as `outbox:17`."""
        return f"{self.kind}:{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """How much work of a tenant waits, runs, is done and was given up."""

    jobs: dict[JobStatus, int]
    outbox_pending: dict[str, int]
    outbox_parked: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a job of every tenant runs: at the times of `cron` (UTC), each tenant at its own distance."""

    job: str
    cron: str
    spread: timedelta
    concurrency: int
    exclusive: bool = True


def next_run(schedule: Schedule, tenant_id: TenantId, after: datetime) -> datetime:
    """Find the first time later than `after` at which this tenant's job is due.

    The tenant's place in the window is fixed by its id, so that many tenants do not all come due at once.
    """
    window = max(1, int(schedule.spread.total_seconds()))
    digest = hashlib.blake2b(tenant_id.bytes + schedule.job.encode(), digest_size=8).digest()
    offset = timedelta(seconds=int.from_bytes(digest) % window)
    planned: datetime = croniter(schedule.cron, after - offset).get_next(datetime)
    return planned + offset


def retry_delay(attempts: int, *, first: float, cap: float = 300.0) -> float:
    """Seconds to wait after so many failed tries: four times as long after each, up to `cap`."""
    return float(min(cap, first * 4 ** min(max(attempts - 1, 0), 10)))
