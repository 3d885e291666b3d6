"""Counts of recalled items: gathered in the process, written from time to time. An archived item is live again a second later.

Each item that comes back changes its row, and with it every copy of that memory in a process: so many recalls share one write.

And how long the last recalls took.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from operator import itemgetter
from uuid import UUID

from recordari.core.cache import BoundedMap, LaterFlush
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Role, TenantId, job_identity
from recordari.core.telemetry import get_log
from recordari.db.database import Database
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory.items import get_item
from recordari.recall import storage
from recordari.recall.request import ItemUse, RecalledItem, SeenBy, Via

log = get_log(__name__)

MOST_TIMES = 1_000
MOST_TENANTS = 10_000

FLUSH_SECONDS = 30.0
MOST_NOTED = 1_000
MOST_GATHERED = 50_000
MOST_SEEN = 4
AT_ONCE = 1_000
REVIVE_SECONDS = 1.0


@dataclass(slots=True)
class _Gathered:
    """What was noted of an item since the last flush."""

    last_at: datetime
    times: int = 0
    seen_by: dict[SeenBy, datetime] = field(default_factory=dict)

    def add(self, times: int, seen_by: Mapping[SeenBy, datetime]) -> None:
        """Add later uses; of those who saw it the last few stay."""
        self.times += times
        for by, at in seen_by.items():
            self.seen_by.pop(by, None)
            self.seen_by[by] = at
            self.last_at = max(self.last_at, at)
        while len(self.seen_by) > MOST_SEEN:
            del self.seen_by[next(iter(self.seen_by))]


class AccessCounts:
    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        self._database = database
        self._noted: list[tuple[TenantId, SeenBy, Sequence[UUID], datetime]] = []
        self._gathered: dict[tuple[TenantId, UUID], _Gathered] = {}
        self._archived: set[tuple[TenantId, UUID]] = set()
        failure = "access_counts_not_written"
        self._later = LaterFlush(self.flush, seconds=seconds, log=log, failure=failure)
        self._soon = LaterFlush(self.flush, seconds=min(seconds, REVIVE_SECONDS), log=log, failure=failure)

    def note(
        self,
        identity: Identity,
        item_ids: Sequence[UUID],
        *,
        now: datetime,
        via: Via = Via.RECALL,
        archived: Sequence[UUID] = (),
    ) -> None:
        """Count these items as used; those of them that are archived are live again with the next flush."""
        if not item_ids:
            return
        tenant_id = identity.tenant_id
        seen_by = SeenBy(identity.owned_by, identity.agent_id, identity.session_id, via)
        self._noted.append((tenant_id, seen_by, item_ids, now))
        if archived or len(self._noted) >= MOST_NOTED:
            self._gather()
        if archived:
            self._archived |= {(tenant_id, item_id) for item_id in archived if (tenant_id, item_id) in self._gathered}
            self._soon.start()
        else:
            self._later.start()

    def _gather(self) -> None:
        """Count what was noted by item: later than it was noted, because a question must not wait for it."""
        noted, self._noted = self._noted, []
        for tenant_id, seen_by, item_ids, at in noted:
            for item_id in item_ids:
                if len(self._gathered) >= MOST_GATHERED and (tenant_id, item_id) not in self._gathered:
                    break  # the database has been away for long: counts are not worth more memory
                self._gathered.setdefault((tenant_id, item_id), _Gathered(at)).add(1, {seen_by: at})

    async def flush(self) -> int:
        """Write the counts and return how many, and bring archived items back; what cannot be written stays gathered."""
        self._gather()
        gathered, self._gathered = self._gathered, {}
        by_tenant: dict[TenantId, list[storage.Accesses]] = {}
        for (tenant_id, item_id), one in sorted(gathered.items(), key=itemgetter(0)):
            count = storage.Accesses(item_id=item_id, times=one.times, last_at=one.last_at, seen_by=one.seen_by)
            by_tenant.setdefault(tenant_id, []).append(count)
        written = 0
        try:
            for tenant_id, counts in by_tenant.items():
                for start in range(0, len(counts), AT_ONCE):
                    page = counts[start : start + AT_ONCE]
                    back = [count.item_id for count in page if (tenant_id, count.item_id) in self._archived]
                    async with self._database.transaction(job_identity(tenant_id, "accesses")) as tx:
                        await storage.add_counts(tx, page)  # decay, which reads them, must not archive these again
                        if back:
                            await memory_storage.unarchive_items(tx, back)
                    for count in page:
                        del gathered[tenant_id, count.item_id]
                        self._archived.discard((tenant_id, count.item_id))
                    written += len(page)
        finally:
            for key, one in gathered.items():
                newer = self._gathered.get(key)
                if newer is not None:
                    one.add(newer.times, newer.seen_by)
                self._gathered[key] = one
        return written

    async def close(self) -> None:
        await self._soon.close()
        await self._later.close()


def note_use(resources: Resources, identity: Identity, items: Sequence[RecalledItem], *, via: Via = Via.RECALL) -> None:
    """Count items as used, each with those it is shown for; archived ones will be live again."""
    # A fact that is shown as its turn was recalled too, and does not decay.
    recalled = [item_id for item in items for item_id in (item.id, *item.same_as)]
    is_archived = any(item.archived for item in items)  # what an item is shown for may be archived although it is not
    archived = recalled if is_archived else ()
    resources.get(AccessCounts).note(identity, recalled, now=resources.clock(), via=via, archived=archived)


async def item_uses(resources: Resources, identity: Identity, item_id: UUID) -> list[ItemUse]:
    """Who saw an item last, and where, newest first: at most 16. An administrator sees all, others their own."""
    await get_item(resources, identity, item_id)
    await resources.get(AccessCounts).flush()
    async with resources.database.transaction(identity) as tx:
        return await storage.list_uses(tx, item_id, owner=None if identity.role is Role.ADMIN else identity.owned_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSpeed:
    """How long the last recalls of a tenant took in this process."""

    __pydantic_config__ = DESCRIBED

    recalls: int
    """At most the last 1,000 of the last hour."""
    per_minute: float
    p50_ms: float
    p95_ms: float


class RecallTimes:
    """How long the last recalls of each tenant took."""

    def __init__(self) -> None:
        self._times: BoundedMap[TenantId, deque[tuple[datetime, float]]] = BoundedMap(MOST_TENANTS)

    def note(self, tenant_id: TenantId, seconds: float, *, now: datetime) -> None:
        times = self._times.get(tenant_id)
        if times is None:
            times = self._times.put(tenant_id, deque(maxlen=MOST_TIMES))
        times.append((now, seconds))

    def speed(self, tenant_id: TenantId, *, now: datetime) -> RecallSpeed | None:
        """The figures of the last hour; None if there was no recall."""
        hour_ago = now - timedelta(hours=1)
        recent = [(at, seconds) for at, seconds in self._times.get(tenant_id) or () if at >= hour_ago]
        if not recent:
            return None
        minutes = max(1.0, (now - recent[0][0]).total_seconds() / 60)
        taken = sorted(seconds for _, seconds in recent)

        def below(share: float) -> float:
            return taken[ceil(share * len(taken)) - 1] * 1000

        return RecallSpeed(recalls=len(taken), per_minute=len(taken) / minutes, p50_ms=below(0.5), p95_ms=below(0.95))
