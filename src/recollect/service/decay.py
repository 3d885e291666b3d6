"""Letting recent memory fade: what is hardly used is archived, what matters is kept for good (T2). A daily job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from recollect.domain.decay import WEAKEST as WEAKEST_STRENGTH
from recollect.domain.decay import Fate, fate, lifetime
from recollect.domain.identity import Identity
from recollect.service.resources import Resources
from recollect.service.tenants import require_admin
from recollect.storage import access, audit

PAGE = 1_000
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faded:
    """What a pass over recent memory did."""

    examined: int
    archived: int
    promoted: int


async def fade(resources: Resources, identity: Identity, **_: Any) -> Faded:
    """Archive what has faded and promote what matters, over all of the tenant's recent memory."""
    require_admin(identity)
    await resources.accesses.flush()
    now = resources.clock()
    after, after_id = _BEGINNING, _FIRST
    examined, archived, promoted = 0, 0, 0
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await access.list_recent(tx, after=after, after_id=after_id, limit=PAGE)
            if not page:
                break
            fates = {trace.item_id: fate(trace, now=now) for trace in page}
            faded = [item_id for item_id, found in fates.items() if found is Fate.ARCHIVE]
            lasting = [item_id for item_id, found in fates.items() if found is Fate.PROMOTE]
            # What was recalled within the shortest lifetime cannot have faded, whatever was read before.
            recently = now - lifetime(WEAKEST_STRENGTH)
            archived += len(await access.archive_faded(tx, faded, now=now, recalled_since=recently))
            kept = await access.promote_items(tx, lasting)
            for item_id in kept:
                await audit.record(tx, "memory.promote", "item", item_id, reason="importance")
        examined, promoted = examined + len(page), promoted + len(kept)
        after, after_id = page[-1].created_at, page[-1].item_id
    if archived:
        async with resources.database.transaction(identity) as tx:
            await audit.record(tx, "memory.archive", "tenant", identity.tenant_id, reason="faded", archived=archived)
    return Faded(examined=examined, archived=archived, promoted=promoted)
