"""Reports of a tenant: the stored daily briefs, and current statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.core.ids import new_id
from recordari.db import jobs, outbox
from recordari.db.jobs import JobStatus
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources
from recordari.kit.verbs import existing
from recordari.memory.index import EMBED_TOPIC, Reembedding, embedding_state
from recordari.operations import storage
from recordari.operations.rules import MOST_AGENTS, Day, Report, ReportKind, daily_brief, warnings_of
from recordari.operations.storage import ActiveDay, ItemCount, OtherCounts
from recordari.recall.accesses import RecallSpeed, RecallTimes
from recordari.sessions.rules.runs import MAX_EPISODES
from recordari.tenants import storage as tenants_storage
from recordari.tenants.tenants import page_size, require_admin
from recordari.tenants.usage import QuotaUsage, quota_usage
from recordari.worker.jobs import job_counts


async def make_daily_brief(resources: Resources, identity: Identity) -> Report:
    """Write the brief of today; a second one on the same day replaces the first."""
    require_admin(identity)
    now = resources.clock()
    since = now - timedelta(days=1)
    quota = await quota_usage(resources, identity)
    async with resources.database.transaction(identity) as tx:
        tenant = existing(await tenants_storage.find_tenant(tx), "tenant")
        pending, parked = await outbox.count_by_topic(tx)
        by_status = await jobs.count_jobs(tx)
        day = Day(
            tenant=tenant.name,
            day=now.date(),
            counts=await storage.count_day(tx, since=since),
            costs=await storage.sum_costs(tx, since=since),
            dead_letters=by_status.get(JobStatus.FAILED, 0) + sum(parked.values()),
            waiting=by_status.get(JobStatus.TODO, 0) + sum(pending.values()),
            quotas=quota.warnings,
            agents=await storage.count_runs_by_agent(tx, since=since, limit=MOST_AGENTS),
        )
        figures = {
            **day.counts,
            "episodes_most": MAX_EPISODES,
            "dead_letters": day.dead_letters,
            "waiting": day.waiting,
            "costs": {currency: str(cost) for currency, cost in day.costs.items()},
        }
        report = Report(
            report_id=new_id(),
            kind=ReportKind.DAILY_BRIEF,
            day=day.day,
            body=daily_brief(day),
            figures=figures,
            warnings=warnings_of(day),
            created_at=now,
        )
        return await storage.save_report(tx, report)


async def write_daily_brief(resources: Resources, identity: Identity, **_: Any) -> None:
    """Write the brief of today. A daily job."""
    await make_daily_brief(resources, identity)


async def list_reports(
    resources: Resources,
    identity: Identity,
    *,
    kind: ReportKind = ReportKind.DAILY_BRIEF,
    before: date | None = None,
    limit: int = 50,
) -> list[Report]:
    """List the reports of the tenant, newest day first; `before` is the day of the last one seen."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_reports(tx, kind, before=before, limit=page_size(limit))


async def get_report(resources: Resources, identity: Identity, report_id: UUID) -> Report:
    """Return a report."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return existing(await storage.find_report(tx, report_id), "report")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What was remembered on each day, and how quick recall was."""

    __pydantic_config__ = DESCRIBED

    days: tuple[ActiveDay, ...]
    """Oldest first; a day without new items is left out."""
    recall: RecallSpeed | None
    """Null if this process recalled nothing for the tenant in the last hour."""


async def memory_activity(resources: Resources, identity: Identity, *, days: int = 30) -> Activity:
    """Return how memory grew in the last days, and how quick recall was in the last hour."""
    require_admin(identity)
    if not 1 <= days <= MOST_ACTIVE_DAYS:
        raise InvalidInput(f"days must be from 1 to {MOST_ACTIVE_DAYS}", field="days")
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        found = await storage.count_new(tx, since=(now - timedelta(days=days)).date())
    return Activity(days=tuple(found), recall=resources.get(RecallTimes).speed(identity.tenant_id, now=now))


LIVE = "live"
MOST_ACTIVE_DAYS = 366


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Figures of the memory of a tenant; the counts by kind, tier and scope are of live items."""

    __pydantic_config__ = DESCRIBED

    items: int
    by_state: dict[str, int]
    by_kind: dict[str, int]
    by_tier: dict[str, int]
    by_layer: dict[str, int]
    """L1 working, L2 recent, L3 persistent, L4 reference."""
    by_scope: dict[str, int]
    pinned: int
    content_bytes: int
    others: OtherCounts
    pending_embeddings: int
    """Items that recall finds by keyword, but not yet by meaning."""
    embedding_model: str | None
    """The model that recall uses; null until something is embedded."""
    reembedding: Reembedding | None
    """The move to another model; null if there is none."""
    waiting: dict[str, int]
    """Pending work in the outbox, by topic."""
    dead_letters: int
    """Work that failed at its last try."""
    quota: QuotaUsage


async def memory_stats(resources: Resources, identity: Identity) -> Stats:
    """Return the figures of the tenant's memory, its pending work and its quota."""
    require_admin(identity)
    work = await job_counts(resources, identity)
    async with resources.database.transaction(identity) as tx:
        counts = await storage.count_items(tx)
        others = await storage.count_others(tx)
    model, moving = await embedding_state(resources, identity)
    live = [count for count in counts if count.state == LIVE]
    return Stats(
        items=sum(count.number for count in counts),
        by_state=_sums("state", counts),
        by_kind=_sums("kind", live),
        by_tier=_sums("tier", live),
        by_layer=_sums("layer", live),
        by_scope=_sums("scope", live),
        pinned=sum(count.pinned for count in live),
        content_bytes=sum(count.bytes for count in counts),
        others=others,
        pending_embeddings=work.outbox_pending.get(EMBED_TOPIC, 0) + work.outbox_parked.get(EMBED_TOPIC, 0),
        embedding_model=model,
        reembedding=moving,
        waiting=work.outbox_pending,
        dead_letters=sum(work.outbox_parked.values()) + work.jobs.get(JobStatus.FAILED, 0),
        quota=await quota_usage(resources, identity),
    )


def _sums(field: str, counts: Iterable[ItemCount]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for count in counts:
        sums[getattr(count, field)] += count.number
    return dict(sums)
