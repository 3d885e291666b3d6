"""How a tenant's memory fares: what it holds, what waits, what was given up, how large it is (S6)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from recordari.core.identity import Identity
from recordari.domain.jobs import JobStatus
from recordari.kit.resources import Resources
from recordari.memory.index import EMBED_TOPIC, Reembedding, embedding_state
from recordari.service.jobs import job_counts
from recordari.storage import stats
from recordari.storage.stats import OtherCounts
from recordari.tenants.tenants import require_admin
from recordari.tenants.usage import QuotaStanding, quota_standing

LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The figures of a tenant's memory; what is counted by kind, tier and scope is live."""

    items: int
    by_state: dict[str, int]
    by_kind: dict[str, int]
    by_tier: dict[str, int]
    by_scope: dict[str, int]
    pinned: int
    content_bytes: int
    others: OtherCounts
    pending_embeddings: int
    embedding_model: str | None
    """The model that recall uses; None until something is embedded."""
    reembedding: Reembedding | None
    """How far the move to another model has come, while there is one."""
    waiting: dict[str, int]
    """Work that follows from writes, by topic."""
    dead_letters: int
    quota: QuotaStanding


async def memory_stats(resources: Resources, identity: Identity) -> Stats:
    """Count everything that an operator wants to see at a glance."""
    require_admin(identity)
    work = await job_counts(resources, identity)
    async with resources.database.transaction(identity) as tx:
        counted = await stats.count_items(tx)
        others = await stats.count_others(tx)
    model, moving = await embedding_state(resources, identity)
    sums: dict[str, Counter[str]] = {name: Counter() for name in ("state", "kind", "tier", "scope")}
    for one in counted:
        sums["state"][one.state] += one.number
        if one.state == LIVE:
            for name in ("kind", "tier", "scope"):
                sums[name][getattr(one, name)] += one.number
    return Stats(
        items=sum(one.number for one in counted),
        by_state=dict(sums["state"]),
        by_kind=dict(sums["kind"]),
        by_tier=dict(sums["tier"]),
        by_scope=dict(sums["scope"]),
        pinned=sum(one.pinned for one in counted if one.state == LIVE),
        content_bytes=sum(one.bytes for one in counted),
        others=others,
        pending_embeddings=work.outbox_pending.get(EMBED_TOPIC, 0) + work.outbox_parked.get(EMBED_TOPIC, 0),
        embedding_model=model,
        reembedding=moving,
        waiting=work.outbox_pending,
        dead_letters=sum(work.outbox_parked.values()) + work.jobs.get(JobStatus.FAILED, 0),
        quota=await quota_standing(resources, identity),
    )
