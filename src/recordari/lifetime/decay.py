"""Letting recent memory fade: what is hardly used is archived, what matters is kept for good (T2). A daily job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.core.ids import FIRST
from recordari.core.telemetry import get_log
from recordari.db import audit
from recordari.kit.resources import Resources
from recordari.learning import storage as learning_storage
from recordari.learning.rules.proposals import NewProposal, ProposalKind
from recordari.lifetime import storage
from recordari.lifetime.rules import WEAKEST as WEAKEST_STRENGTH
from recordari.lifetime.rules import DecayDecision, Trace, decay_decision, lifetime, review_of
from recordari.recall.accesses import AccessCounts
from recordari.tenants.tenants import require_admin

PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayResult:
    """What a pass over recent memory did."""

    __pydantic_config__ = DESCRIBED

    examined: int
    archived: int
    promoted: int
    reviews: int = 0
    """Items that matter and wait for a person to let them last."""


async def decay(resources: Resources, identity: Identity, /, **_: Any) -> DecayResult:
    """Archive what has faded and promote what matters, over all of the tenant's recent memory."""
    require_admin(identity)
    await resources.get(AccessCounts).flush()
    now = resources.clock()
    after = FIRST
    examined, archived, promoted, reviews = 0, 0, 0, 0
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await storage.list_recent(tx, after=after, limit=PAGE)
            if not page:
                break
            fates = {trace.item_id: decay_decision(trace, now=now) for trace in page}
            faded = [item_id for item_id, found in fates.items() if found is DecayDecision.ARCHIVE]
            lasting = [item_id for item_id, found in fates.items() if found is DecayDecision.PROMOTE]
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
    return DecayResult(examined=examined, archived=archived, promoted=promoted, reviews=reviews)


def _to_review(trace: Trace, found: DecayDecision, now: datetime) -> NewProposal | None:
    """The proposal to let something last that matters, and that neither its carrier nor its sources vouch for (F6)."""
    reason = review_of(trace, now=now) if found is DecayDecision.KEEP else None
    if reason is None:
        return None
    return NewProposal(kind=ProposalKind.PROMOTE, rule=reason, item_ids=(trace.item_id,))


log = get_log(__name__)
