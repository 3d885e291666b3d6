"""Decay of recent memory: items that are hardly used are archived, important ones become persistent (T2). A daily job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.core.ids import FIRST
from recordari.db import audit
from recordari.kit.resources import Resources
from recordari.learning import storage as learning_storage
from recordari.learning.rules.proposals import NewProposal, ProposalKind
from recordari.lifetime import storage
from recordari.lifetime.rules import WEAKEST as WEAKEST_STRENGTH
from recordari.lifetime.rules import DecayDecision, decay_decision, lifetime, review_of
from recordari.recall.accesses import AccessCounts
from recordari.tenants.tenants import require_admin

PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayResult:
    """The effect of one pass over recent memory."""

    __pydantic_config__ = DESCRIBED

    examined: int
    archived: int
    promoted: int
    reviews: int = 0
    """Important items that a person must approve before they become persistent."""


async def decay(resources: Resources, identity: Identity, /, **_: Any) -> DecayResult:
    """Archive faded items and promote important ones, in all of the tenant's recent memory."""
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
            decisions = {trace.item_id: decay_decision(trace, now=now) for trace in page}
            faded = [item_id for item_id, decision in decisions.items() if decision is DecayDecision.ARCHIVE]
            important = [item_id for item_id, decision in decisions.items() if decision is DecayDecision.PROMOTE]
            # An item recalled within the shortest lifetime cannot have faded, even if the page was read before that.
            recently = now - lifetime(WEAKEST_STRENGTH)
            archived += len(await storage.archive_faded(tx, faded, now=now, recalled_since=recently))
            persistent = await storage.promote_items(tx, important)
            for item_id in persistent:
                await audit.record(tx, "memory.promote", "item", item_id, reason="importance")
            for trace in page:
                # Important, but neither its carrier nor its sources vouch for it (F6): a person decides.
                reason = review_of(trace, now=now) if decisions[trace.item_id] is DecayDecision.KEEP else None
                if reason is not None:
                    proposal = NewProposal(kind=ProposalKind.PROMOTE, rule=reason, item_ids=(trace.item_id,))
                    reviews += await learning_storage.insert_proposal(tx, proposal, now=now) is not None
        examined, promoted = examined + len(page), promoted + len(persistent)
        after = page[-1].item_id
    if archived:
        async with resources.database.transaction(identity) as tx:
            await audit.record(tx, "memory.archive", "tenant", identity.tenant_id, reason="faded", archived=archived)
    return DecayResult(examined=examined, archived=archived, promoted=promoted, reviews=reviews)
