"""Knowing how much a tenant uses without counting at every write.

Each process keeps what the database said a moment ago and what it has written since, and adds that to the database some
seconds later. Several processes may therefore let a little too much through; nothing is ever refused on such a guess
alone: before the first refusal it is counted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from recordari.core.cache import BoundedMap, LaterFlush
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, TenantId
from recordari.core.telemetry import get_log
from recordari.db.database import Database
from recordari.errors import QuotaExceeded
from recordari.kit.resources import Resources
from recordari.tenants import storage
from recordari.tenants.rules import Quota, Usage, require_room, shares, warnings_of
from recordari.tenants.tenants import require_admin

log = get_log(__name__)

KNOWN_SECONDS = 10.0
COUNTED_PER_SECOND = 10_000
"""A count is worth so many items a second: a tenant of a million is counted again after 100 seconds at the soonest."""
FLUSH_SECONDS = 5.0
WARN_SECONDS = 3_600.0
MOST_TENANTS = 10_000


@dataclass(slots=True, kw_only=True)
class _Known:
    """What is known of one tenant."""

    quota: Quota
    usage: Usage
    asked_at: float
    counted_at: float = 0.0
    warned_at: float = 0.0


class Usages:
    """Admits writes within the quota of their tenant."""

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        self._database = database
        self._known: BoundedMap[TenantId, _Known] = BoundedMap(MOST_TENANTS)
        self._unwritten: dict[tuple[TenantId, date], tuple[int, int]] = {}
        self._later = LaterFlush(self.flush, seconds=seconds, log=log, failure="usage_not_written")

    async def admit(self, identity: Identity, *, items: int, size: int, now: datetime) -> None:
        """Count a write that is about to happen; `QuotaExceeded` when there is no room for it.

        What jobs make of memory that was admitted is counted later, and never refused.
        """
        if not items or identity.actor.startswith("job:"):
            return
        tenant_id, day = identity.tenant_id, now.date()
        known = await self._look(tenant_id, day)
        after = known.usage.grown(items=items, bytes=size, day=day)
        try:
            require_room(known.quota, after, day=day)
        except QuotaExceeded:
            if time.monotonic() - known.counted_at < known.usage.items / COUNTED_PER_SECOND:
                raise
            known = await self._counted(tenant_id, day)
            after = known.usage.grown(items=items, bytes=size, day=day)
            require_room(known.quota, after, day=day)
        known.usage = after
        self._warn(tenant_id, known, day)
        kept, weight = self._unwritten.get((tenant_id, day), (0, 0))
        self._unwritten[tenant_id, day] = (kept + items, weight + size)
        self._later.start()

    async def look(self, identity: Identity, *, now: datetime) -> tuple[Quota, Usage]:
        """The tenant's limits, and what it uses by an exact count."""
        known = await self._counted(identity.tenant_id, now.date())
        return known.quota, known.usage

    async def _look(self, tenant_id: TenantId, day: date) -> _Known:
        known = self._known.get(tenant_id)
        if known is not None and time.monotonic() - known.asked_at < KNOWN_SECONDS:
            return known
        async with self._database.transaction(Identity(tenant_id=tenant_id)) as tx:
            quota, used = await storage.find_usage(tx)
            if used is None:
                await storage.measure_usage(tx, day=day)
                quota, used = await storage.find_usage(tx)
        before = known
        known = _Known(quota=quota, usage=self._with_unwritten(tenant_id, used or Usage()), asked_at=time.monotonic())
        if before is not None:
            known.counted_at, known.warned_at = before.counted_at, before.warned_at
        self._known.put(tenant_id, known)
        return known

    async def _counted(self, tenant_id: TenantId, day: date) -> _Known:
        """What is known after an exact count."""
        await self.flush()
        async with self._database.transaction(Identity(tenant_id=tenant_id)) as tx:
            await storage.measure_usage(tx, day=day)
        self._known.pop(tenant_id)
        known = await self._look(tenant_id, day)
        known.counted_at = time.monotonic()
        return known

    def _with_unwritten(self, tenant_id: TenantId, used: Usage) -> Usage:
        for (whose, day), (items, size) in self._unwritten.items():
            if whose == tenant_id:
                used = used.grown(items=items, bytes=size, day=max(day, used.day))
        return used

    def _warn(self, tenant_id: TenantId, known: _Known, day: date) -> None:
        if time.monotonic() - known.warned_at >= WARN_SECONDS and (
            warnings := warnings_of(known.quota, known.usage, day=day)
        ):
            known.warned_at = time.monotonic()
            log.warning("quota_nearly_used", tenant_id=tenant_id, limits=len(warnings))

    async def flush(self) -> None:
        """Add what was admitted to what the database knows; what cannot be added is kept for the next time."""
        for key in list(self._unwritten):
            tenant_id, day = key
            items, size = self._unwritten.pop(key)
            try:
                async with self._database.transaction(Identity(tenant_id=tenant_id)) as tx:
                    await storage.add_usage(tx, items=items, size=size, day=day)
            except BaseException:
                more, weight = self._unwritten.get(key, (0, 0))
                self._unwritten[key] = (items + more, size + weight)
                raise

    async def close(self) -> None:
        """Write what is left and stop."""
        await self._later.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUsage:
    """A tenant's limits and how much of them is used."""

    __pydantic_config__ = DESCRIBED

    quota: Quota
    usage: Usage
    shares: dict[str, float]
    """Used part of each limit; 1 is all of it."""
    warnings: list[str]


async def quota_usage(resources: Resources, identity: Identity) -> QuotaUsage:
    """Count what the tenant uses, and compare it with its plan."""
    require_admin(identity)
    now = resources.clock()
    quota, used = await resources.get(Usages).look(identity, now=now)
    day = now.date()
    return QuotaUsage(
        quota=quota, usage=used, shares=shares(quota, used, day=day), warnings=warnings_of(quota, used, day=day)
    )


async def measure(resources: Resources, identity: Identity, **_: Any) -> None:
    """Count what the tenant really keeps. A daily job."""
    await resources.get(Usages).look(identity, now=resources.clock())
