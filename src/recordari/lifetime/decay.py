"""Letting recent memory fade: what is hardly used is archived, what matters is kept for good (T2). A daily job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.flushing import LaterFlush
from recordari.core.identity import Identity, TenantId
from recordari.core.telemetry import get_log
from recordari.db import audit
from recordari.db.database import Database
from recordari.kit.resources import Resources
from recordari.learning import storage as learning_storage
from recordari.learning.rules.proposals import NewProposal, ProposalKind
from recordari.lifetime import storage
from recordari.lifetime.rules import WEAKEST as WEAKEST_STRENGTH
from recordari.lifetime.rules import Fate, Trace, fate, lifetime, review_of
from recordari.lifetime.storage import Accesses
from recordari.tenants.tenants import require_admin

PAGE = 1_000
_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faded:
    """What a pass over recent memory did."""

    examined: int
    archived: int
    promoted: int
    reviews: int = 0
    """Items that matter and wait for a person to let them last."""


async def fade(resources: Resources, identity: Identity, **_: Any) -> Faded:
    """Archive what has faded and promote what matters, over all of the tenant's recent memory."""
    require_admin(identity)
    await resources.get(AccessCounts).flush()
    now = resources.clock()
    after = _FIRST
    examined, archived, promoted, reviews = 0, 0, 0, 0
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await storage.list_recent(tx, after=after, limit=PAGE)
            if not page:
                break
            fates = {trace.item_id: fate(trace, now=now) for trace in page}
            faded = [item_id for item_id, found in fates.items() if found is Fate.ARCHIVE]
            lasting = [item_id for item_id, found in fates.items() if found is Fate.PROMOTE]
            # What was recalled within the shortest lifetime cannot have faded, whatever was read before.
            recently = now - lifetime(WEAKEST_STRENGTH)
            archived += len(await storage.archive_faded(tx, faded, now=now, recalled_since=recently))
            kept = await storage.promote_items(tx, lasting)
            for item_id in kept:
                await audit.record(tx, "memory.promote", "item", item_id, reason="importance")
            waiting = [one for trace in page if (one := _to_review(trace, fates[trace.item_id], now)) is not None]
            made = [await learning_storage.insert_proposal(tx, one, now=now) for one in waiting]
        examined, promoted = examined + len(page), promoted + len(kept)
        reviews += sum(one is not None for one in made)
        after = page[-1].item_id
    if archived:
        async with resources.database.transaction(identity) as tx:
            await audit.record(tx, "memory.archive", "tenant", identity.tenant_id, reason="faded", archived=archived)
    return Faded(examined=examined, archived=archived, promoted=promoted, reviews=reviews)


def _to_review(trace: Trace, found: Fate, now: datetime) -> NewProposal | None:
    """The proposal to let something last that matters, and that neither its carrier nor its sources vouch for (F6)."""
    reason = review_of(trace, now=now) if found is Fate.KEEP else None
    if reason is None:
        return None
    return NewProposal(kind=ProposalKind.PROMOTE, rule=reason, item_ids=(trace.item_id,))


log = get_log(__name__)

FLUSH_SECONDS = 30.0
MOST_GATHERED = 50_000
AT_ONCE = 1_000


class AccessCounts:
    """Gathers the items that were recalled, and writes how often that was from time to time."""

    def __init__(self, database: Database, *, seconds: float = FLUSH_SECONDS) -> None:
        self._database = database
        self._gathered: dict[tuple[TenantId, UUID], tuple[int, datetime]] = {}
        self._later = LaterFlush(self.flush, seconds=seconds, log=log, failure="access_counts_not_written")

    def note(self, tenant_id: TenantId, item_ids: Sequence[UUID], *, now: datetime) -> None:
        """Count items that were recalled."""
        for item_id in item_ids:
            if len(self._gathered) >= MOST_GATHERED and (tenant_id, item_id) not in self._gathered:
                break  # the database has been away for long; what is counted is not worth the memory
            times, _ = self._gathered.get((tenant_id, item_id), (0, now))
            self._gathered[tenant_id, item_id] = (times + 1, now)
        if item_ids:
            self._later.start()

    async def flush(self) -> int:
        """Write what was gathered; how many items. What cannot be written stays gathered."""
        gathered, self._gathered = self._gathered, {}
        by_tenant: dict[TenantId, list[Accesses]] = {}
        for (tenant_id, item_id), (times, last_at) in sorted(gathered.items()):
            by_tenant.setdefault(tenant_id, []).append(Accesses(item_id=item_id, times=times, last_at=last_at))
        written = 0
        try:
            for tenant_id, counts in by_tenant.items():
                for start in range(0, len(counts), AT_ONCE):
                    async with self._database.transaction(Identity(tenant_id=tenant_id)) as tx:
                        await storage.add_counts(tx, counts[start : start + AT_ONCE])
                    for one in counts[start : start + AT_ONCE]:
                        del gathered[tenant_id, one.item_id]
                        written += 1
        finally:
            for key, (times, last_at) in gathered.items():
                more, later = self._gathered.get(key, (0, last_at))
                self._gathered[key] = (times + more, max(last_at, later))
        return written

    async def close(self) -> None:
        """Write what is left and stop."""
        await self._later.close()
