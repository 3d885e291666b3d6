"""When each tenant's jobs are due: one row per tenant and job, moved on when the job is started."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from recordari.core.identity import TenantId
from recordari.storage.database import QueueTransaction, Transaction
from recordari.storage.queries import Queries

queries = Queries(__name__)


async def insert(tx: Transaction, planned: Sequence[tuple[str, datetime]]) -> None:
    """Plan jobs of a new tenant; those already planned stay."""
    await tx.run(queries.insert_schedules, jobs=[job for job, _ in planned], times=[at for _, at in planned])


async def insert_for_tenants(rows: QueueTransaction, job: str, planned: Sequence[tuple[TenantId, datetime]]) -> None:
    """Plan one job of many tenants; those already planned stay."""
    await rows.run(
        queries.insert_for_tenants,
        job=job,
        tenants=[tenant for tenant, _ in planned],
        times=[at for _, at in planned],
    )


async def tenants_without(rows: QueueTransaction, job: str, *, limit: int) -> list[TenantId]:
    """List tenants for which the job is not planned yet."""
    return [row["tenant_id"] for row in await rows.dicts(queries.tenants_without, job=job, limit=limit)]


async def try_lock_job(rows: QueueTransaction, job: str) -> bool:
    """Become the one process that starts runs of the job in this transaction; False when another is."""
    return bool(await rows.value(queries.try_lock_job, job=job))


async def lock_due(rows: QueueTransaction, job: str, *, now: datetime, limit: int) -> list[TenantId]:
    """Lock and list tenants whose job is due."""
    return [row["tenant_id"] for row in await rows.dicts(queries.lock_due, job=job, now=now, limit=limit)]


async def advance(
    rows: QueueTransaction, job: str, planned: Sequence[tuple[TenantId, datetime]], *, now: datetime
) -> None:
    """Note that the job was started, and when it is due next."""
    await rows.run(
        queries.advance,
        job=job,
        now=now,
        tenants=[tenant for tenant, _ in planned],
        times=[at for _, at in planned],
    )


async def next_due(rows: QueueTransaction, jobs: Sequence[str]) -> datetime | None:
    """Find the earliest time at which any of the jobs is due; None when nothing is planned."""
    due: datetime | None = await rows.value(queries.next_due, jobs=list(jobs))
    return due
