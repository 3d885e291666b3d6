"""Retention: a tenant's policy decides what becomes of memory that was ended; a daily job carries it out (T5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.core.ids import FIRST
from recordari.core.telemetry import get_log
from recordari.db import audit
from recordari.db.database import RETENTION_ROLE, Transaction
from recordari.errors import Conflict
from recordari.kit.resources import Resources
from recordari.lifetime import storage
from recordari.lifetime.forget import Redaction, follow_up, record, redact, remove_discarded
from recordari.lifetime.journal import complete_journal
from recordari.lifetime.rules import (
    SETTING,
    DecayOutcome,
    Ended,
    RetentionPolicy,
    checked_policy,
    is_too_much,
    retention_policy,
    verdict,
)
from recordari.memory.objects import Objects
from recordari.tenants.tenants import get_tenant, require_admin, update_tenant

log = get_log(__name__)

PAGE = 1_000
SHOWN = 1_000
ENDING = (DecayOutcome.ANONYMIZE, DecayOutcome.PURGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a sweep did, or would do."""

    __pydantic_config__ = DESCRIBED

    dry_run: bool
    counts: dict[DecayOutcome, int]
    """How many items had each verdict, as far as it asks for anything."""
    item_ids: dict[DecayOutcome, tuple[UUID, ...]]
    """The first items of each verdict."""


async def get_retention_policy(resources: Resources, identity: Identity) -> RetentionPolicy:
    """The tenant's retention policy; the defaults where its settings have none that is valid."""
    tenant = await get_tenant(resources, identity)
    policy, is_valid = retention_policy(tenant.settings)
    if not is_valid:
        log.warning("retention_policy_is_not_valid", tenant_id=identity.tenant_id)
    return policy


async def set_retention_policy(resources: Resources, identity: Identity, /, **changes: Any) -> RetentionPolicy:
    """Change some values of the tenant's policy; `InvalidInput` names one that cannot be."""
    current = await get_retention_policy(resources, identity)
    policy = checked_policy({**current.written(), **changes})
    await update_tenant(resources, identity, settings={SETTING: policy.written()})
    return policy


async def sweep(resources: Resources, identity: Identity, *, dry_run: bool | None = None, force: bool = False) -> Sweep:
    """Carry the policy out; `dry_run` only says what that would be, `force` passes over the safety floor.

    `Conflict` when more than the policy's `safety_share` of the tenant's items would end at once.
    """
    require_admin(identity)
    policy = await get_retention_policy(resources, identity)
    only_look = policy.dry_run if dry_run is None else dry_run
    planned = await _planned(resources, identity, policy)
    if only_look:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            await audit.record(tx, "retention.dry_run", "tenant", identity.tenant_id, counts=planned.counts)
        return planned
    ending = sum(planned.counts[one] for one in ENDING)
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
    return await _carried_out(resources, identity, policy)


async def _planned(resources: Resources, identity: Identity, policy: RetentionPolicy) -> Sweep:
    found: dict[DecayOutcome, list[UUID]] = {one: [] for one in DecayOutcome if one is not DecayOutcome.KEEP}
    counts = dict.fromkeys(found, 0)
    async for page in _pages(resources, identity):
        for asked, ids in _by_verdict(resources, page, policy).items():
            counts[asked] += len(ids)
            found[asked].extend(ids[: SHOWN - len(found[asked])])
    return Sweep(dry_run=True, counts=counts, item_ids={asked: tuple(ids) for asked, ids in found.items()})


async def _carried_out(resources: Resources, identity: Identity, policy: RetentionPolicy) -> Sweep:
    counts: dict[DecayOutcome, int] = dict.fromkeys((one for one in DecayOutcome if one is not DecayOutcome.KEEP), 0)
    found: dict[DecayOutcome, tuple[UUID, ...]] = dict.fromkeys(counts, ())
    async for page in _pages(resources, identity):
        for asked, ids in _by_verdict(resources, page, policy).items():
            for start in range(0, len(ids), policy.batch_size):
                batch = ids[start : start + policy.batch_size]
                counts[asked] += await _batch(resources, identity, asked, batch)
                found[asked] = (*found[asked], *batch)[:SHOWN]
    return Sweep(dry_run=False, counts=counts, item_ids=found)


async def _pages(resources: Resources, identity: Identity) -> AsyncIterator[list[Ended]]:
    after = FIRST
    while True:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            page = await storage.list_ended(tx, after=after, limit=PAGE)
        if not page:
            return
        yield page
        after = page[-1].item_id


def _by_verdict(resources: Resources, page: Sequence[Ended], policy: RetentionPolicy) -> dict[DecayOutcome, list[UUID]]:
    now = resources.clock()
    asked: dict[DecayOutcome, list[UUID]] = {}
    for item in page:
        if (found := verdict(item, policy, now=now)) is not DecayOutcome.KEEP:
            asked.setdefault(found, []).append(item.item_id)
    return asked


async def _batch(resources: Resources, identity: Identity, asked: DecayOutcome, item_ids: Sequence[UUID]) -> int:
    """Carry one verdict out on some items, in one transaction with its audit; how many rows it changed."""
    redaction: Redaction | None = None
    try:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            if asked is DecayOutcome.ANONYMIZE:
                redaction = await redact(tx, item_ids, now=resources.clock())
                await record(tx, item_ids, redaction, reason="policy")
                changed = len(redaction.forgotten.item_ids)
            else:
                changed = await _ended(resources, tx, asked, item_ids)
    except Conflict:
        # An action rests on something derived from one of them: that one is left out, the others are not.
        if len(item_ids) == 1:
            log.warning("retention_left_out_a_held_item", item_id=item_ids[0])
            return 0
        return sum([await _batch(resources, identity, asked, [item_id]) for item_id in item_ids])
    if redaction is not None:
        await follow_up(resources, identity, redaction)
    return changed


async def _ended(resources: Resources, tx: Transaction, asked: DecayOutcome, item_ids: Sequence[UUID]) -> int:
    if asked is DecayOutcome.ARCHIVE:
        changed = await storage.archive_items(tx, item_ids, now=resources.clock())
    else:
        changed = await storage.purge_items(tx, item_ids)
    await audit.record(
        tx, f"memory.{asked}", "tenant", tx.identity.tenant_id, reason="policy", item_ids=[str(one) for one in item_ids]
    )
    return changed


async def retain(resources: Resources, identity: Identity, **_: Any) -> None:
    """Sweep by policy, and make good what a crash left of earlier erasures. A daily job."""
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


async def collect_objects(resources: Resources, identity: Identity, /, **_: Any) -> int:
    """Remove the tenant's objects that no row points to; how many. A weekly job."""
    removed = await remove_discarded(resources, identity)
    before = resources.clock() - GRACE
    held: list[str] = []
    async for found in resources.get(Objects).list_of(str(identity.tenant_id)):
        if found.modified_at < before:
            held.append(found.key)
        if len(held) >= AT_ONCE:
            removed += await _collect(resources, identity, held)
            held = []
    removed += await _collect(resources, identity, held)
    if removed:
        log.info("objects_collected", objects=removed)
    return removed


async def _collect(resources: Resources, identity: Identity, keys: list[str]) -> int:
    before = resources.clock() - GRACE
    removed = 0
    for key in await _unused(resources, identity, keys):
        # Once more for this one alone: the page may have taken long.
        if await _unused(resources, identity, [key]) and await resources.get(Objects).delete_older(key, before):
            removed += 1
    return removed


async def _unused(resources: Resources, identity: Identity, keys: list[str]) -> list[str]:
    if not keys:
        return []
    async with resources.database.transaction(identity) as tx:
        used = await storage.list_used_objects(tx, keys)
    return [key for key in keys if key not in used]
