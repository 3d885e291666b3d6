"""Reports for people: the daily brief of a tenant, stored and read again."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity
from recordari.core.ids import new_id
from recordari.db import jobs, outbox
from recordari.domain.jobs import JobStatus
from recordari.domain.reports import Day, Report, ReportKind, daily_brief, warnings_of
from recordari.errors import NotFound
from recordari.kit.resources import Resources
from recordari.sessions.rules.runs import MAX_EPISODES
from recordari.storage import reports
from recordari.tenants import storage as tenants_storage
from recordari.tenants.tenants import page_size, require_admin


async def make_daily_brief(resources: Resources, identity: Identity) -> Report:
    """Write today's brief of the tenant; made again the same day it replaces the earlier one."""
    require_admin(identity)
    now = resources.clock()
    since = now - timedelta(days=1)
    async with resources.database.transaction(identity) as tx:
        tenant = await tenants_storage.find_tenant(tx)
        if tenant is None:
            raise NotFound("there is no such tenant")
        pending, parked = await outbox.count_by_topic(tx)
        by_status = await jobs.count_jobs(tx)
        day = Day(
            tenant=tenant.name,
            day=now.date(),
            counts=await reports.count_day(tx, since=since),
            costs=await reports.sum_costs(tx, since=since),
            dead_letters=by_status.get(JobStatus.FAILED, 0) + sum(parked.values()),
            waiting=by_status.get(JobStatus.TODO, 0) + sum(pending.values()),
        )
        return await reports.save_report(
            tx,
            report_id=new_id(),
            kind=ReportKind.DAILY_BRIEF,
            day=day.day,
            body=daily_brief(day),
            figures={
                **day.counts,
                "episodes_most": MAX_EPISODES,
                "dead_letters": day.dead_letters,
                "waiting": day.waiting,
                "costs": {currency: str(cost) for currency, cost in day.costs.items()},
            },
            warnings=warnings_of(day),
            now=now,
        )


async def write_daily_brief(resources: Resources, identity: Identity, **_: Any) -> None:
    """Write today's brief. A daily job."""
    await make_daily_brief(resources, identity)


async def list_reports(
    resources: Resources,
    identity: Identity,
    *,
    kind: ReportKind = ReportKind.DAILY_BRIEF,
    before: date | None = None,
    limit: int = 50,
) -> list[Report]:
    """Reports of the tenant, newest day first; `before` is the day of the last one seen."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await reports.list_reports(tx, kind, before=before, limit=page_size(limit))


async def get_report(resources: Resources, identity: Identity, report_id: UUID) -> Report:
    """One report."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        found = await reports.find_report(tx, report_id)
    if found is None:
        raise NotFound("there is no such report")
    return found
