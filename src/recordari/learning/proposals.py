"""The weekly review ("dreaming"): memory is compared with itself, and changes are proposed (X5).

The review itself changes nothing. An administrator accepts or rejects each proposal; a tenant's policy may accept merges and
retirements by itself. Accepting is one transaction, audited, and can be undone for as long as nothing else was done to what
it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pydantic import ConfigDict

from recordari.core.checks import check_reason
from recordari.core.identity import Identity, optional_choice
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
    merge_of,
    proposal_policy,
    retirement_of,
)
from recordari.learning.storage import FIRST
from recordari.memory import storage as memory_storage
from recordari.memory import vector_storage
from recordari.memory.rules import Retirement
from recordari.memory.versions import retire
from recordari.recall.accesses import AccessCounts
from recordari.tenants.tenants import MAX_PAGE, get_tenant, require_admin, update_tenant

log = get_log(__name__)

PAGE = 200
NO_SUCH_PROPOSAL = "there is no such proposal"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewResult:
    """What came of comparing memory with itself."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)

    examined: int
    proposed: int
    accepted: int
    """Proposals that the tenant's policy accepted at once."""
    voided: int
    """Older proposals that are void now, because their items have changed."""


async def review_memory(resources: Resources, identity: Identity, /, **_: Any) -> ReviewResult:
    """Propose merges and retirements over the tenant's lasting memory. A weekly job; done again it proposes nothing new."""
    require_admin(identity)
    identity = replace(identity, user_id=None)  # an administrator who acts for a user would see that user's rows only
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
            found = await _proposals_of(resources, tx, page, mark=mark, model_id=model_id)
            made = [(new, await storage.insert_proposal(tx, new, now=resources.clock())) for new in found]
            if page:
                await storage.save_mark(tx, page[-1], now=resources.clock())
        for new, proposal_id in made:
            if proposal_id is not None:
                proposed += 1
                accepted += await _by_policy(resources, identity, policy, new, proposal_id)
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
    """What is proposed about items: each of them is weighed, and those that are new are compared with their neighbours."""
    weighed = await storage.weigh(tx, item_ids)
    found = [one for each in weighed.values() if (one := retirement_of(each, now=resources.clock())) is not None]
    taken = {item_id for one in found for item_id in one.item_ids}
    for item_id in item_ids:
        if item_id <= mark or item_id not in weighed or item_id in taken:
            continue
        near = await facts_storage.near_facts(
            tx, item_id, model_id=model_id, distance=near_distance(model_id), most=CANDIDATES
        )
        for one in await _compared(tx, item_id, near):
            inputs = {*one.item_ids, *([one.successor_id] if one.successor_id is not None else [])}
            if not inputs & taken:  # of one item one thing is proposed at a time
                found.append(one)
                taken |= inputs
    return found


async def _compared(tx: Transaction, item_id: UUID, near: Sequence[FactRow]) -> list[NewProposal]:
    """What follows from one item and its neighbours: the same said twice, or the contrary."""
    if not near:
        return []
    others = await storage.weigh(tx, [item_id, *(one.item_id for one in near)])
    mine = others.pop(item_id, None)
    if mine is None:
        return []
    merge = merge_of(mine, list(others.values()))
    found = [merge] if merge is not None else []
    merged = {*merge.item_ids, merge.successor_id} if merge is not None else set()
    for other in others.values():
        if other.item_id in merged:
            continue
        older, newer = (other, mine) if is_newer(Statement.of(mine), Statement.of(other)) else (mine, other)
        if ruling(Statement.of(newer), Statement.of(older)).verdict is Verdict.SUPERSEDE:
            retirement = contradiction_of(older, newer)
            found += [retirement] if retirement is not None else []
    return found


async def _by_policy(
    resources: Resources, identity: Identity, policy: ProposalPolicy, new: NewProposal, proposal_id: UUID
) -> bool:
    """Accept a proposal at once where the tenant's policy says so; whether it did."""
    if new.kind not in policy.accept or new.needs_person:
        return False
    try:
        await accept_proposal(resources, identity, proposal_id, reason="policy")
    except Conflict:
        log.info("proposal_not_accepted_by_policy", proposal_id=proposal_id)
        return False
    return True


async def _void_changed(resources: Resources, identity: Identity) -> int:
    """Let open proposals fall whose inputs changed; how many."""
    voided, before = 0, None
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await storage.list_proposals(tx, status=ProposalStatus.OPEN, kind=None, before=before, limit=PAGE)
            for one in page:
                voided += await _void_if_changed(resources, tx, one) is not None
        if len(page) < PAGE:
            return voided
        before = page[-1].proposal_id


async def _void_if_changed(resources: Resources, tx: Transaction, proposal: Proposal) -> str | None:
    """Let a proposal fall if its inputs changed; why it did. They are locked from here on."""
    locked = await storage.lock_proposal(tx, proposal.proposal_id)
    before = await storage.inputs_of(tx, proposal.proposal_id)
    item_ids = [one.item_id for one in before]
    await memory_storage.lock_items(tx, sorted(item_ids))
    now = await storage.inputs_now(tx, item_ids)
    gone = locked is None or len(before) < locked.inputs
    why = "an item was removed" if gone else changed(proposal, before, now)
    if why is not None:
        await storage.decide(
            tx, proposal.proposal_id, ProposalStatus.VOID, now=resources.clock(), reason=f"void: {why}"
        )
        await audit.record(tx, "proposal.void", "proposal", proposal.proposal_id, reason=why)
    return why


async def get_proposal_policy(resources: Resources, identity: Identity) -> ProposalPolicy:
    """Which proposals the tenant accepts by itself."""
    return proposal_policy((await get_tenant(resources, identity)).settings)


async def set_proposal_policy(resources: Resources, identity: Identity, accept: Sequence[str]) -> ProposalPolicy:
    """Say which kinds of proposals are accepted as soon as they are made: `merge`, `retire`, both or none."""
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
    """Proposals, newest first; `status` None lists all, `before` is the id of the last one seen."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_proposals(
            tx,
            status=optional_choice("status", ProposalStatus, status),
            kind=optional_choice("kind", ProposalKind, kind),
            before=before,
            limit=min(limit, MAX_PAGE),
        )


async def get_proposal(resources: Resources, identity: Identity, proposal_id: UUID) -> Proposal:
    """One proposal."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        return await _found(tx, proposal_id)


async def _found(tx: Transaction, proposal_id: UUID) -> Proposal:
    found = await storage.find_proposal(tx, proposal_id)
    if found is None:
        raise NotFound(NO_SUCH_PROPOSAL)
    return found


async def accept_proposal(
    resources: Resources, identity: Identity, proposal_id: UUID, *, reason: str | None = None
) -> Proposal:
    """Carry a proposal out, whole; `Conflict` when it is void, because what it is about has changed."""
    identity = _governing(identity, reason)
    async with resources.database.transaction(identity) as tx:
        proposal = await _open(tx, proposal_id)
        why = await _void_if_changed(resources, tx, proposal)
        if why is None:
            links = await _carry_out(resources, tx, proposal)
            await storage.decide(
                tx, proposal_id, ProposalStatus.ACCEPTED, now=resources.clock(), reason=reason, links_made=links
            )
            await audit.record(tx, "proposal.accept", "proposal", proposal_id, reason=reason, **_details(proposal))
        decided = await _found(tx, proposal_id)
    if why is not None:
        raise Conflict(f"the proposal is void: {why} since it was made", status=str(ProposalStatus.VOID))
    return decided


async def reject_proposal(
    resources: Resources, identity: Identity, proposal_id: UUID, *, reason: str | None = None
) -> Proposal:
    """Leave everything as it is, for good: the same is not proposed again."""
    identity = _governing(identity, reason)
    async with resources.database.transaction(identity) as tx:
        await _open(tx, proposal_id)
        await storage.decide(tx, proposal_id, ProposalStatus.REJECTED, now=resources.clock(), reason=reason)
        await audit.record(tx, "proposal.reject", "proposal", proposal_id, reason=reason)
        return await _found(tx, proposal_id)


async def undo_proposal(
    resources: Resources, identity: Identity, proposal_id: UUID, *, reason: str | None = None
) -> Proposal:
    """Take back what accepting a proposal did; `Conflict` where something else was done to its items since."""
    identity = _governing(identity, reason)
    async with resources.database.transaction(identity) as tx:
        locked = await storage.lock_proposal(tx, proposal_id)
        proposal = await _found(tx, proposal_id)
        if locked is None or proposal.status is not ProposalStatus.ACCEPTED:
            raise Conflict(f"only an accepted proposal can be undone; this one is {proposal.status}")
        await _reverse(tx, proposal)
        if proposal.successor_id is not None:
            await storage.return_links(tx, locked.links_made, successor_id=proposal.successor_id)
        await storage.decide(tx, proposal_id, ProposalStatus.UNDONE, now=resources.clock(), reason=reason)
        await audit.record(tx, "proposal.undo", "proposal", proposal_id, reason=reason, **_details(proposal))
        return await _found(tx, proposal_id)


async def _open(tx: Transaction, proposal_id: UUID) -> Proposal:
    """A proposal that can still be decided, locked."""
    await storage.lock_proposal(tx, proposal_id)
    proposal = await _found(tx, proposal_id)
    if proposal.status is not ProposalStatus.OPEN:
        raise Conflict(f"the proposal is {proposal.status} already", status=str(proposal.status))
    return proposal


async def _carry_out(resources: Resources, tx: Transaction, proposal: Proposal) -> list[UUID]:
    """Do what a proposal says to its inputs, which are locked and stand as they did; evidence given to its successor."""
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
    inputs = [*proposal.item_ids, *([proposal.successor_id] if proposal.successor_id is not None else [])]
    rows = await memory_storage.lock_items(tx, sorted(inputs))
    if proposal.kind is ProposalKind.PROMOTE:
        moved = await storage.set_tier(tx, proposal.item_ids, was=Tier.PERSISTENT, tier=Tier.RECENT)
        if len(moved) < len(proposal.item_ids):
            raise Conflict("what was promoted has ended since; there is nothing to undo")
        return
    for item_id in proposal.item_ids:
        row = rows.get(item_id)
        untouched = row is not None and not row.live and not row.is_forgotten
        if row is None or not untouched or row.superseded_by != proposal.successor_id:
            raise Conflict("something else was done to what this proposal ended; restore the items one by one")
        await memory_storage.revive_item(tx, item_id)
        await audit.record(tx, "item.restore", "item", item_id, reason="proposal undone")


def _details(proposal: Proposal) -> dict[str, Any]:
    return {
        "kind": str(proposal.kind),
        "rule": proposal.rule,
        "item_ids": [str(item_id) for item_id in proposal.item_ids],
        "successor_id": str(proposal.successor_id) if proposal.successor_id is not None else None,
    }


def _governing(identity: Identity, reason: str | None) -> Identity:
    """The administrator who decides, for the whole tenant and not for one of its users."""
    require_admin(identity)
    check_reason(reason)
    return replace(identity, user_id=None)
