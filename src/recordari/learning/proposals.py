"""The weekly review ("dreaming"): it compares memory with itself and proposes changes (X5).

The review changes nothing. An administrator accepts or rejects each proposal; a tenant's policy may accept merges and
retirements. Accepting is one audited transaction. It can be undone until something else changes the items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pydantic import ConfigDict

from recordari.core.described import describe
from recordari.core.identity import Identity, optional_choice
from recordari.core.ids import FIRST
from recordari.core.items import Tier
from recordari.core.telemetry import get_log
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import Conflict, NotFound
from recordari.facts import storage as facts_storage
from recordari.facts.judge import CANDIDATES, near_distance
from recordari.facts.rules.conflict import Statement, Verdict, is_newer, ruling
from recordari.facts.storage import FactRow
from recordari.kit.resources import Resources
from recordari.learning import storage
from recordari.learning.rules.proposals import (
    SETTING,
    NewProposal,
    Proposal,
    ProposalKind,
    ProposalPolicy,
    ProposalStatus,
    changed,
    checked_accept,
    contradiction_of,
    explained,
    merge_of,
    proposal_policy,
    retirement_of,
)
from recordari.memory import storage as memory_storage
from recordari.memory import vector_storage
from recordari.memory.rules import Retirement
from recordari.memory.versions import retire
from recordari.privacy.sanitise import clean_reason
from recordari.recall.accesses import AccessCounts
from recordari.tenants.tenants import get_tenant, page_size, require_admin, update_tenant

log = get_log(__name__)

PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    """The result of a review."""

    __pydantic_config__ = ConfigDict(json_schema_extra=describe)

    examined: int
    proposed: int
    accepted: int
    """Proposals that the tenant's policy accepted."""
    voided: int
    """Older proposals that are void, because their items changed."""


async def review_memory(resources: Resources, identity: Identity) -> ReviewResult:
    """Compare the tenant's lasting memory with itself, and propose merges and retirements.

    A weekly job. A second review proposes nothing new.
    """
    require_admin(identity)
    resources = resources.in_steps()
    identity = replace(identity, user_id=None)  # acting for a user, an administrator would see only that user's rows
    await resources.get(AccessCounts).flush()
    voided = await _void_changed(resources, identity)
    policy = await get_proposal_policy(resources, identity)
    async with resources.database.transaction(identity) as tx:
        mark = await storage.find_mark(tx)
        model_id = (await vector_storage.find_models(tx)).active
    examined, proposed, accepted, after = 0, 0, 0, FIRST
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await storage.list_lasting(tx, after=after, limit=PAGE)
            news = await _proposals_of(resources, tx, page, mark=mark, model_id=model_id)
            saved = [(await storage.insert_proposal(tx, new, now=resources.clock()), new) for new in news]
            if page:
                await storage.save_mark(tx, page[-1], now=resources.clock())
        for proposal_id, new in saved:
            if proposal_id is not None:
                proposed += 1
                accepted += await _accepted_by_policy(resources, identity, policy, new, proposal_id)
        examined += len(page)
        if len(page) < PAGE:
            break
        after = page[-1]
    async with resources.database.transaction(identity) as tx:
        await audit.record(
            tx, "memory.review", "tenant", identity.tenant_id, examined=examined, proposed=proposed, accepted=accepted
        )
    return ReviewResult(examined=examined, proposed=proposed, accepted=accepted, voided=voided)


async def _proposals_of(
    resources: Resources, tx: Transaction, item_ids: Sequence[UUID], *, mark: UUID, model_id: str | None
) -> list[NewProposal]:
    """Look at each item alone, and compare the items after the mark with their neighbours."""
    items = await storage.list_reviewed(tx, item_ids)
    news = [new for item in items.values() if (new := retirement_of(item, now=resources.clock())) is not None]
    taken = {item_id for new in news for item_id in new.item_ids}
    for item_id in item_ids:
        if item_id <= mark or item_id not in items or item_id in taken:
            continue
        near = await facts_storage.near_facts(
            tx, [item_id], model_id=model_id, distance=near_distance(model_id), most=CANDIDATES
        )
        for new in await _compare(tx, item_id, near[item_id]):
            if not new.inputs & taken:  # one proposal per item at a time
                news.append(new)
                taken |= new.inputs
    return news


async def _compare(tx: Transaction, item_id: UUID, near: Sequence[FactRow]) -> list[NewProposal]:
    """Propose to merge an item with neighbours that say the same, and to retire the older of a contradiction."""
    if not near:
        return []
    others = await storage.list_reviewed(tx, [item_id, *(fact.item_id for fact in near)])
    item = others.pop(item_id, None)
    if item is None:
        return []
    merge = merge_of(item, list(others.values()))
    news = [merge]
    for other in others.values():
        if merge is not None and other.item_id in merge.inputs:
            continue
        older, newer = (other, item) if is_newer(Statement.of(item), Statement.of(other)) else (item, other)
        if ruling(Statement.of(newer), Statement.of(older)).verdict is Verdict.SUPERSEDE:
            news.append(contradiction_of(older, newer))
    return [new for new in news if new is not None]


async def _accepted_by_policy(
    resources: Resources, identity: Identity, policy: ProposalPolicy, new: NewProposal, proposal_id: UUID
) -> bool:
    if new.kind not in policy.accept or new.needs_person:
        return False
    try:
        await accept_proposal(resources, identity, proposal_id, reason="policy")
    except Conflict:
        log.info("proposal_not_accepted_by_policy", proposal_id=proposal_id)
        return False
    return True


async def _void_changed(resources: Resources, identity: Identity) -> int:
    """Void open proposals whose inputs changed. Return how many."""
    voided, before = 0, None
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await storage.list_proposals(tx, status=ProposalStatus.OPEN, kind=None, before=before, limit=PAGE)
            for proposal in page:
                voided += await _void_if_changed(resources, tx, proposal) is not None
        if len(page) < PAGE:
            return voided
        before = page[-1].proposal_id


async def _void_if_changed(resources: Resources, tx: Transaction, proposal: Proposal) -> str | None:
    """Void a proposal if its inputs changed. Return why. The inputs stay locked."""
    locked = await storage.lock_proposal(tx, proposal.proposal_id)
    before = await storage.inputs_of(tx, proposal.proposal_id)
    item_ids = sorted(item.item_id for item in before)
    await memory_storage.lock_items(tx, item_ids)
    is_gone = locked is None or len(before) < locked.inputs
    why = "an item was removed" if is_gone else changed(proposal, before, await storage.inputs_now(tx, item_ids))
    if why is not None:
        await storage.decide(
            tx, proposal.proposal_id, ProposalStatus.VOID, now=resources.clock(), reason=f"void: {why}"
        )
        await audit.record(tx, "proposal.void", "proposal", proposal.proposal_id, reason=why)
    return why


async def get_proposal_policy(resources: Resources, identity: Identity) -> ProposalPolicy:
    """The kinds of proposals that the tenant accepts at once."""
    return proposal_policy((await get_tenant(resources, identity)).settings)


async def set_proposal_policy(resources: Resources, identity: Identity, accept: Sequence[str]) -> ProposalPolicy:
    """Set the kinds of proposals that are accepted at once: `merge`, `retire`, both or none."""
    policy = ProposalPolicy(accept=checked_accept(list(accept)))
    await update_tenant(resources, identity, settings={SETTING: policy.written()})
    return policy


async def list_proposals(
    resources: Resources,
    identity: Identity,
    *,
    status: ProposalStatus | str | None = ProposalStatus.OPEN,
    kind: ProposalKind | str | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[Proposal]:
    """Proposals with the texts of their items, newest first.

    `status` None lists all, `before` is the id of the last one seen.
    """
    identity = _governing(identity)
    async with resources.database.transaction(identity) as tx:
        page = await storage.list_proposals(
            tx,
            status=optional_choice("status", ProposalStatus, status),
            kind=optional_choice("kind", ProposalKind, kind),
            before=before,
            limit=page_size(limit),
        )
        contents = await storage.proposed_items(tx, sorted({item_id for each in page for item_id in each.inputs}))
    return [explained(proposal, contents) for proposal in page]


async def get_proposal(resources: Resources, identity: Identity, proposal_id: UUID) -> Proposal:
    """One proposal with the texts of its items, their sources and the reason."""
    identity = _governing(identity)
    async with resources.database.transaction(identity) as tx:
        return await _find(tx, proposal_id)


async def _find(tx: Transaction, proposal_id: UUID) -> Proposal:
    proposal = await storage.find_proposal(tx, proposal_id)
    if proposal is None:
        raise NotFound("there is no such proposal")
    return explained(proposal, await storage.proposed_items(tx, sorted(proposal.inputs)))


async def accept_proposal(
    resources: Resources, identity: Identity, proposal_id: UUID, *, reason: str | None = None
) -> Proposal:
    """Carry out a proposal; `Conflict` when it is void, because an item of it changed."""
    identity, reason = _governing(identity), await clean_reason(resources, identity, reason)
    async with resources.database.transaction(identity) as tx:
        proposal = await _open(tx, proposal_id)
        why = await _void_if_changed(resources, tx, proposal)
        if why is None:
            links = await _carry_out(resources, tx, proposal)
            await storage.decide(
                tx, proposal_id, ProposalStatus.ACCEPTED, now=resources.clock(), reason=reason, links_made=links
            )
            await audit.record(tx, "proposal.accept", "proposal", proposal_id, reason=reason, **_details(proposal))
        decided = await _find(tx, proposal_id)
    if why is not None:
        raise Conflict(f"the proposal is void: {why} since it was made", status=str(ProposalStatus.VOID))
    return decided


async def reject_proposal(
    resources: Resources, identity: Identity, proposal_id: UUID, *, reason: str | None = None
) -> Proposal:
    """Reject a proposal and change nothing. The same is not proposed again."""
    identity, reason = _governing(identity), await clean_reason(resources, identity, reason)
    async with resources.database.transaction(identity) as tx:
        await _open(tx, proposal_id)
        await storage.decide(tx, proposal_id, ProposalStatus.REJECTED, now=resources.clock(), reason=reason)
        await audit.record(tx, "proposal.reject", "proposal", proposal_id, reason=reason)
        return await _find(tx, proposal_id)


async def undo_proposal(
    resources: Resources, identity: Identity, proposal_id: UUID, *, reason: str | None = None
) -> Proposal:
    """Undo an accepted proposal; `Conflict` when its items changed since."""
    identity, reason = _governing(identity), await clean_reason(resources, identity, reason)
    async with resources.database.transaction(identity) as tx:
        locked = await storage.lock_proposal(tx, proposal_id)
        proposal = await _find(tx, proposal_id)
        if locked is None or proposal.status is not ProposalStatus.ACCEPTED:
            raise Conflict(f"only an accepted proposal can be undone; this one is {proposal.status}")
        await _reverse(tx, proposal)
        if proposal.successor_id is not None:
            await storage.return_links(tx, locked.links_made, successor_id=proposal.successor_id)
        await storage.decide(tx, proposal_id, ProposalStatus.UNDONE, now=resources.clock(), reason=reason)
        await audit.record(tx, "proposal.undo", "proposal", proposal_id, reason=reason, **_details(proposal))
        return await _find(tx, proposal_id)


async def _open(tx: Transaction, proposal_id: UUID) -> Proposal:
    """Lock a proposal that can still be decided."""
    await storage.lock_proposal(tx, proposal_id)
    proposal = await _find(tx, proposal_id)
    if proposal.status is not ProposalStatus.OPEN:
        raise Conflict(f"the proposal is {proposal.status} already", status=str(proposal.status))
    return proposal


async def _carry_out(resources: Resources, tx: Transaction, proposal: Proposal) -> list[UUID]:
    """Change the inputs of a proposal, which are locked and unchanged. Return the evidence given to the successor."""
    now, item_ids, successor = resources.clock(), proposal.item_ids, proposal.successor_id
    if proposal.kind is ProposalKind.PROMOTE:
        for item_id in await storage.set_tier(tx, item_ids, was=Tier.RECENT, tier=Tier.PERSISTENT):
            await audit.record(tx, "memory.promote", "item", item_id, reason="reviewed")
        return []
    if successor is None:
        for item_id in item_ids:
            await memory_storage.end_item(tx, item_id, now)
            await audit.record(tx, "item.invalidate", "item", item_id, reason=f"proposal: {proposal.rule}")
        return []
    merges = proposal.kind is ProposalKind.MERGE
    links = await storage.lend_links(tx, item_ids, successor_id=successor) if merges else []
    moment = now if merges else (await memory_storage.lock_items(tx, [successor]))[successor].valid_at
    rule = "merged" if merges else proposal.rule
    ended = [Retirement(item_id=item_id, superseded_by=successor, invalid_at=moment, rule=rule) for item_id in item_ids]
    await retire(tx, ended, judge=tx.identity.actor)
    return links


async def _reverse(tx: Transaction, proposal: Proposal) -> None:
    rows = await memory_storage.lock_items(tx, sorted(proposal.inputs))
    if proposal.kind is ProposalKind.PROMOTE:
        moved = await storage.set_tier(tx, proposal.item_ids, was=Tier.PERSISTENT, tier=Tier.RECENT)
        if len(moved) < len(proposal.item_ids):
            raise Conflict("a promoted item has ended since; there is nothing to undo")
        return
    for item_id in proposal.item_ids:
        row = rows.get(item_id)
        if row is None or row.holds or row.is_forgotten or row.superseded_by != proposal.successor_id:
            raise Conflict("an item that this proposal ended was changed since; restore the items one by one")
        await memory_storage.revive_item(tx, item_id)
        await audit.record(tx, "item.restore", "item", item_id, reason="proposal undone")


def _details(proposal: Proposal) -> dict[str, Any]:
    return {
        "kind": str(proposal.kind),
        "rule": proposal.rule,
        "item_ids": [str(item_id) for item_id in proposal.item_ids],
        "successor_id": str(proposal.successor_id) if proposal.successor_id is not None else None,
    }


def _governing(identity: Identity) -> Identity:
    """The administrator who decides, for the whole tenant and not for one of its users."""
    require_admin(identity)
    return replace(identity, user_id=None)
