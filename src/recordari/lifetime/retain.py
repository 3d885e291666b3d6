"""Daily jobs that end memory: retention of ended items by the tenant's policy (T5), and decay of recent memory (T2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Unpack
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.core.ids import FIRST
from recordari.core.telemetry import get_log
from recordari.db import audit
from recordari.db.database import RETENTION_ROLE
from recordari.errors import Conflict
from recordari.kit.resources import Resources
from recordari.kit.verbs import existing
from recordari.learning import storage as learning_storage
from recordari.learning.rules.proposals import NewProposal, ProposalKind
from recordari.lifetime import storage
from recordari.lifetime.forget import Redaction, follow_up, record, redact, remove_discarded
from recordari.lifetime.journal import complete_journal
from recordari.lifetime.rules import (
    SETTING,
    WEAKEST,
    DecayDecision,
    DecayOutcome,
    Ended,
    Forecast,
    RetentionChanges,
    RetentionPolicy,
    checked_policy,
    decay_decision,
    forecast,
    is_too_much,
    lifetime,
    retention_policy,
    review_of,
    verdict,
)
from recordari.memory.items import get_item
from recordari.memory.objects import Objects
from recordari.recall.accesses import AccessCounts
from recordari.tenants.tenants import get_tenant, require_admin, update_tenant

log = get_log(__name__)

PAGE = 1_000
SHOWN = 1_000
ACTIONS = (DecayOutcome.ARCHIVE, DecayOutcome.ANONYMIZE, DecayOutcome.PURGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The effect of a sweep, or its plan."""

    __pydantic_config__ = DESCRIBED

    dry_run: bool
    counts: dict[DecayOutcome, int]
    """How many items each action has."""
    item_ids: dict[DecayOutcome, tuple[UUID, ...]]
    """The first items of each action."""


async def get_retention_policy(resources: Resources, identity: Identity) -> RetentionPolicy:
    """The tenant's retention policy; the defaults where its settings have none that is valid."""
    tenant = await get_tenant(resources, identity)
    policy, is_valid = retention_policy(tenant.settings)
    if not is_valid:
        log.warning("retention_policy_is_not_valid", tenant_id=identity.tenant_id)
    return policy


async def set_retention_policy(
    resources: Resources, identity: Identity, /, **changes: Unpack[RetentionChanges]
) -> RetentionPolicy:
    """Change values of the tenant's retention policy; `InvalidInput` names a value that is not valid."""
    current = await get_retention_policy(resources, identity)
    policy = checked_policy(asdict(current) | changes)
    await update_tenant(resources, identity, settings={SETTING: asdict(policy)})
    return policy


async def sweep(resources: Resources, identity: Identity, *, dry_run: bool | None = None, force: bool = False) -> Sweep:
    """Apply the retention policy; `dry_run` only reports the effect, `force` skips the safety check.

    `Conflict` if more than the policy's `safety_share` of the tenant's items would end at once.
    """
    require_admin(identity)
    resources = resources.in_steps()
    policy = await get_retention_policy(resources, identity)
    planned = await _apply(resources, identity, policy, dry_run=True)
    if policy.dry_run if dry_run is None else dry_run:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            await audit.record(tx, "retention.dry_run", "tenant", identity.tenant_id, counts=planned.counts)
        return planned
    ending = planned.counts[DecayOutcome.ANONYMIZE] + planned.counts[DecayOutcome.PURGE]
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        total = await storage.count_kept(tx)
        refused = is_too_much(ending, total, policy) and not force
        if refused:
            await audit.record(tx, "retention.refuse", "tenant", identity.tenant_id, ending=ending, total=total)
    if refused:
        raise Conflict(
            f"the sweep would end {ending:,} of {total:,} items, more than the policy's safety_share allows; look at "
            "a dry run, then sweep with force, or change the policy",
            ending=ending,
            total=total,
        )
    return await _apply(resources, identity, policy, dry_run=False)


async def _apply(resources: Resources, identity: Identity, policy: RetentionPolicy, *, dry_run: bool) -> Sweep:
    counts = dict.fromkeys(ACTIONS, 0)
    shown: dict[DecayOutcome, tuple[UUID, ...]] = dict.fromkeys(ACTIONS, ())
    async for page in _pages(resources, identity):
        now = resources.clock()
        ids_by_action: dict[DecayOutcome, list[UUID]] = {}
        for item in page:
            ids_by_action.setdefault(verdict(item, policy, now=now), []).append(item.item_id)
        ids_by_action.pop(DecayOutcome.KEEP, None)
        for action, item_ids in ids_by_action.items():
            for start in range(0, len(item_ids), policy.batch_size):
                batch = item_ids[start : start + policy.batch_size]
                counts[action] += len(batch) if dry_run else await _apply_batch(resources, identity, action, batch)
                shown[action] = (*shown[action], *batch)[:SHOWN]
    return Sweep(dry_run=dry_run, counts=counts, item_ids=shown)


async def _pages(resources: Resources, identity: Identity) -> AsyncIterator[list[Ended]]:
    after = FIRST
    while True:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            page = await storage.list_ended(tx, after=after, limit=PAGE)
        if not page:
            return
        yield page
        after = page[-1].item_id


async def _apply_batch(resources: Resources, identity: Identity, action: DecayOutcome, item_ids: Sequence[UUID]) -> int:
    """Apply one action to some items, in one transaction with its audit; returns the number of rows changed."""
    redaction: Redaction | None = None
    try:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            if action is DecayOutcome.ANONYMIZE:
                redaction = await redact(tx, item_ids, now=resources.clock())
                await record(tx, item_ids, redaction, reason="policy")
                changed = len(redaction.forgotten.item_ids)
            else:
                ids = [str(item_id) for item_id in item_ids]
                if action is DecayOutcome.ARCHIVE:
                    changed = await storage.archive_items(tx, item_ids, now=resources.clock())
                else:
                    changed = await storage.purge_items(tx, item_ids)
                    await storage.empty_answers(tx, ids)
                await audit.record(tx, f"memory.{action}", "tenant", identity.tenant_id, reason="policy", item_ids=ids)
    except Conflict:
        # Something derived from one of them is held: only that one is left out.
        if len(item_ids) == 1:
            log.warning("retention_left_out_a_held_item", item_id=item_ids[0])
            return 0
        return sum([await _apply_batch(resources, identity, action, [item_id]) for item_id in item_ids])
    if redaction is not None:
        await follow_up(resources, identity, redaction)
    return changed


async def retain(resources: Resources, identity: Identity, **_: Any) -> None:
    """Apply the retention policy and complete erasures that a crash interrupted. A daily job."""
    try:
        await sweep(resources, identity)
    except Conflict as refusal:
        # It is in the audit; trying again would not make the sweep smaller.
        log.warning("retention_sweep_refused", ending=refusal.details.get("ending"), total=refusal.details.get("total"))
    await remove_discarded(resources, identity)
    await complete_journal(resources, identity)


JOB = "collect_objects"
AT_ONCE = 500
GRACE = timedelta(hours=24)
"""Age from which an object that no row points to is removed: an upload writes its object before its row."""


async def collect_objects(resources: Resources, identity: Identity) -> int:
    """Remove the tenant's objects that no row points to; returns their number. A weekly job."""
    removed = await remove_discarded(resources, identity)
    before = resources.clock() - GRACE
    keys: list[str] = []
    async for stored in resources.get(Objects).list_of(str(identity.tenant_id)):
        if stored.modified_at < before:
            keys.append(stored.key)
        if len(keys) >= AT_ONCE:
            removed += await _collect(resources, identity, keys)
            keys = []
    removed += await _collect(resources, identity, keys)
    if removed:
        log.info("objects_collected", objects=removed)
    return removed


async def _collect(resources: Resources, identity: Identity, keys: list[str]) -> int:
    before = resources.clock() - GRACE
    removed = 0
    for key in await _unused(resources, identity, keys):
        # Check this one again: the page may have taken long.
        if await _unused(resources, identity, [key]) and await resources.get(Objects).delete_older(key, before):
            removed += 1
    return removed


async def _unused(resources: Resources, identity: Identity, keys: list[str]) -> list[str]:
    if not keys:
        return []
    async with resources.database.transaction(identity) as tx:
        used = await storage.list_used_objects(tx, keys)
    return [key for key in keys if key not in used]


async def item_forecast(resources: Resources, identity: Identity, item_id: UUID) -> Forecast:
    """How often an item was used, and how it fades."""
    await get_item(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        trace = existing(await storage.find_trace(tx, item_id), "item")
    return forecast(trace, now=resources.clock())


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayResult:
    __pydantic_config__ = DESCRIBED

    examined: int
    archived: int
    promoted: int
    reviews: int = 0
    """Important items that a person must approve before they become persistent."""


async def decay(resources: Resources, identity: Identity) -> DecayResult:
    """Archive faded items and promote important ones, in all of the tenant's recent memory."""
    require_admin(identity)
    resources = resources.in_steps()
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
            recently = now - lifetime(WEAKEST)
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
