"""Usage and quotas of a tenant, without a count at every write.

Each process remembers the last figures of the database and its own writes since, and adds these to the database some
seconds later. Several processes may therefore admit a little too much. A write is never refused on an estimate: the
exact count comes first.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from recordari.core.cache import BoundedMap, LaterFlush
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, TenantId, job_identity
from recordari.core.telemetry import get_log
from recordari.db.database import Database
from recordari.errors import QuotaExceeded
from recordari.kit.resources import Resources
from recordari.tenants import storage
from recordari.tenants.rules import Quota, Usage, require_room, shares, warnings_of
from recordari.tenants.tenants import require_admin

log = get_log(__name__)

KNOWN_SECONDS = 10.0
COUNTED_SECONDS, COUNTED_PER_SECOND = 1.0, 10_000
"""A tenant that has reached a limit is counted again after so long at the earliest, a small one sooner: items per second."""
FOLD_WRITES = 1_000
"""After so many writes of a process their counts are replaced by their sums."""
FLUSH_SECONDS = 5.0
WARN_SECONDS = 3_600.0
MOST_TENANTS = 10_000


@dataclass(slots=True, kw_only=True)
class _TenantUsage:
    quota: Quota
    usage: Usage
    read_at: float
    counted_at: float = 0.0
    warned_at: float = 0.0


class Usages:
    """Admits writes within the quota of their tenant."""

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        self._database = database
        self._known: BoundedMap[TenantId, _TenantUsage] = BoundedMap(MOST_TENANTS)
        self._unwritten: dict[tuple[TenantId, date], tuple[int, int]] = {}
        self._unfolded: BoundedMap[TenantId, int] = BoundedMap(MOST_TENANTS)
        self._flushing = asyncio.Lock()
        self._later = LaterFlush(self.flush, seconds=seconds, log=log, failure="usage_not_written")

    async def admit(self, identity: Identity, *, items: int, size: int, now: datetime) -> None:
        """Count a write that is about to happen; `QuotaExceeded` when it exceeds the quota.

        Writes of jobs are counted later and never refused.
        """
        if not items or identity.actor.startswith("job:"):
            return
        tenant_id, day = identity.tenant_id, now.date()
        current = await self._look(tenant_id, day)
        after = current.usage.grown(items=items, bytes=size, day=day)
        try:
            require_room(current.quota, after, now=now)
        except QuotaExceeded:
            pause = min(COUNTED_SECONDS, current.usage.items / COUNTED_PER_SECOND)
            if time.monotonic() - current.counted_at < pause:
                raise
            current = await self._counted(tenant_id, day)
            after = current.usage.grown(items=items, bytes=size, day=day)
            require_room(current.quota, after, now=now)
        current.usage = after
        self._warn(tenant_id, current, day)
        self._add(tenant_id, day, items, size)
        self._later.start()

    async def look(self, identity: Identity, *, now: datetime) -> tuple[Quota, Usage]:
        """Return the limits of the tenant and its exact usage."""
        current = await self._counted(identity.tenant_id, now.date())
        return current.quota, current.usage

    async def _look(self, tenant_id: TenantId, day: date) -> _TenantUsage:
        current = self._known.get(tenant_id)
        if current is not None and time.monotonic() - current.read_at < KNOWN_SECONDS:
            return current
        async with self._database.transaction(job_identity(tenant_id, "usage")) as tx:
            quota, used = await storage.find_usage(tx)
            if used is None:
                await storage.measure_usage(tx, day=day)
                quota, used = await storage.find_usage(tx)
        usage = _TenantUsage(
            quota=quota,
            usage=self._with_unwritten(tenant_id, used or Usage()),
            read_at=time.monotonic(),
            counted_at=current.counted_at if current is not None else 0.0,
            warned_at=current.warned_at if current is not None else 0.0,
        )
        self._known.put(tenant_id, usage)
        return usage

    async def _counted(self, tenant_id: TenantId, day: date) -> _TenantUsage:
        await self.flush()
        async with self._database.transaction(job_identity(tenant_id, "usage")) as tx:
            await storage.measure_usage(tx, day=day)
        self._known.pop(tenant_id)
        current = await self._look(tenant_id, day)
        current.counted_at = time.monotonic()
        return current

    async def recount(self, identity: Identity, *, now: datetime) -> None:
        """Count every item of the tenant anew, whatever its writes have counted, and with it the usage."""
        await self.flush()
        day = now.date()
        async with self._database.transaction(job_identity(identity.tenant_id, "usage")) as tx:
            await storage.add_usage(tx, items=0, size=0, day=day)  # its lock: nobody folds counts meanwhile
            await storage.recount_items(tx)
            await storage.measure_usage(tx, day=day)
        self._known.pop(identity.tenant_id)

    def _with_unwritten(self, tenant_id: TenantId, used: Usage) -> Usage:
        for (owner, day), (items, size) in self._unwritten.items():
            if owner == tenant_id:
                used = used.grown(items=items, bytes=size, day=max(day, used.day))
        return used

    def _warn(self, tenant_id: TenantId, current: _TenantUsage, day: date) -> None:
        if time.monotonic() - current.warned_at >= WARN_SECONDS and (
            warnings := warnings_of(current.quota, current.usage, day=day)
        ):
            current.warned_at = time.monotonic()
            log.warning("quota_nearly_used", tenant_id=tenant_id, limits=len(warnings))

    def _add(self, tenant_id: TenantId, day: date, items: int, size: int) -> None:
        before = self._unwritten.get((tenant_id, day), (0, 0))
        self._unwritten[tenant_id, day] = (before[0] + items, before[1] + size)

    async def flush(self) -> None:
        """Add the admitted writes to the database; on failure they wait for the next flush."""
        async with self._flushing:  # one that comes second finds everything written when it ends
            for tenant_id, day in list(self._unwritten):
                items, size = self._unwritten.pop((tenant_id, day))
                try:
                    async with self._database.transaction(job_identity(tenant_id, "usage")) as tx:
                        await storage.add_usage(tx, items=items, size=size, day=day)
                        unfolded = (self._unfolded.get(tenant_id) or 0) + items
                        if unfolded >= FOLD_WRITES:
                            await storage.fold_counts(tx, since=day - timedelta(days=1))
                except BaseException:
                    self._add(tenant_id, day, items, size)
                    raise
                self._unfolded.put(tenant_id, unfolded % FOLD_WRITES)

    async def close(self) -> None:
        await self._later.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUsage:
    __pydantic_config__ = DESCRIBED

    quota: Quota
    usage: Usage
    shares: dict[str, float]
    """The used part of each limit; 1 is all of it."""
    warnings: list[str]


async def quota_usage(resources: Resources, identity: Identity) -> QuotaUsage:
    """Return the usage of the tenant, compared with its plan."""
    require_admin(identity)
    now = resources.clock()
    day = now.date()
    quota, used = await resources.get(Usages).look(identity, now=now)
    return QuotaUsage(
        quota=quota, usage=used, shares=shares(quota, used, day=day), warnings=warnings_of(quota, used, day=day)
    )


async def measure(resources: Resources, identity: Identity, **_: Any) -> None:
    """Count the items of the tenant anew, and with them its usage. A daily job."""
    await resources.get(Usages).recount(identity, now=resources.clock())
