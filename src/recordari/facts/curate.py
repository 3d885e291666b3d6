"""Curation: people list, edit, end, restore, pin and rate items, and undo the judge's rulings. Every change is audited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.checks import BEGINNING, END, check_times
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Scope, checked_choice, optional_choice
from recordari.core.ids import LAST
from recordari.core.items import EDITED_FROM, KINDS, Item, Kind, NewItem, Tier, Trust, normalised
from recordari.db import audit
from recordari.db.audit import AuditEntry
from recordari.db.database import Transaction
from recordari.errors import Conflict, InvalidInput, NotFound
from recordari.facts import storage
from recordari.facts.extract import owner_of
from recordari.facts.judge import CANDIDATES, near_distance
from recordari.facts.rules.claims import EvidenceSource, Opinion, Trend, revised_confidence, trend_of
from recordari.facts.rules.conflict import PastRuling, Statement, Verdict, is_newer, ruling
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory import vector_storage
from recordari.memory.items import get_item, refuse_shared
from recordari.memory.remember import Remembered, make_ready, save_ready
from recordari.memory.rules import Retirement
from recordari.memory.versions import WAS_ENDED_AT, WAS_ENDED_BY, free_reference, reclaim_reference, retire
from recordari.privacy.sanitise import clean_reason
from recordari.tenants.tenants import page_size, require_admin

RULINGS = 100


class ItemState(StrEnum):
    LIVE = "live"
    SUPERSEDED = "superseded"
    INVALID = "invalid"
    ARCHIVED = "archived"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage:
    items: tuple[Item, ...]
    next_before: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The sources of an item, what rests on it, its trend, and its feedback."""

    __pydantic_config__ = DESCRIBED

    sources: tuple[EvidenceSource, ...]
    led_to: tuple[UUID, ...]
    """The items that rest on it."""
    trend: Trend
    useful: int
    wrong: int


async def list_items(
    resources: Resources,
    identity: Identity,
    *,
    kinds: Sequence[Kind | str] | None = None,
    scope: Scope | str | None = None,
    category: str | None = None,
    subject: str | None = None,
    trust: Trust | str | None = None,
    tier: Tier | str | None = None,
    session_id: str | None = None,
    state: ItemState | str = ItemState.LIVE,
    pinned: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> ItemPage:
    """Items that you may see, newest first; `next_before` of a page is `before` of the next one.

    `as_of` lists what was true at a moment, `known_at` what was recorded by then, whatever happened since.
    """
    check_times(since=since, until=until, as_of=as_of, known_at=known_at)
    filters = {
        "kinds": [str(checked_choice("kinds", Kind, kind)) for kind in kinds or Kind],
        "scope": optional_choice("scope", Scope, scope),
        "category": category,
        "subject": subject,
        "trust": optional_choice("trust", Trust, trust),
        "tier": optional_choice("tier", Tier, tier),
        "of_session": session_id,
        "state": checked_choice("state", ItemState, state),
        "pinned": pinned,
        "since": since or BEGINNING,
        "until": until or END,
        "as_of": as_of or END,
        "known_at": known_at or END,
        "is_past": as_of is not None or known_at is not None,
        "before": before or LAST,
    }
    if filters["state"] is not ItemState.LIVE:
        if filters["is_past"]:
            raise InvalidInput("as_of and known_at list what was true then; leave out state", field="state")
        require_admin(identity)
    limit = page_size(limit)
    async with resources.database.transaction(identity) as tx:
        rows = await storage.list_items(tx, **filters, limit=limit + 1)
    page = tuple(rows[:limit])
    return ItemPage(items=page, next_before=page[-1].item_id if len(rows) > limit else None)


async def edit_item(
    resources: Resources, identity: Identity, item_id: UUID, content: str, *, reason: str | None = None
) -> Remembered:
    """Give a fact or procedure another text, as a new version that supersedes the old one."""
    old = await _get_changeable(resources, identity, item_id)
    if not KINDS[old.kind].is_editable:
        raise InvalidInput("you can edit only facts and procedures; messages stay as they were said")
    if old.invalid_at is not None:
        raise Conflict("this version is not the current one; edit its successor, or restore it first")
    if normalised(content) == normalised(old.content):
        raise InvalidInput("the item has this text already", field="content")
    reason = await clean_reason(resources, identity, reason)
    ready = await make_ready(resources, owner_of(identity, old), [_edited(old, content, identity)])
    now = resources.clock()
    # The same event in other words, which are held true from now on: the old version ends where this one begins.
    (row,) = ready.rows
    new = replace(row.item, valid_at=now)
    ready = replace(ready, rows=(replace(row, item=new),))
    async with resources.database.transaction(identity) as tx:
        known = await memory_storage.fact_states(tx, [(new.owned_by, new.source_ref)], kind=old.kind)
        await free_reference(tx, [(new.source_ref, now)], known)
        (remembered,), changes = await save_ready(tx, ready)
        rows = await memory_storage.lock_items(tx, sorted({item_id, remembered.id}))
        if remembered.id not in rows or rows[remembered.id].is_forgotten:
            raise Conflict("this text was forgotten; remember it as a new fact if it is true again", field="content")
        if item_id not in rows or not rows[item_id].holds or not rows[remembered.id].holds:
            raise Conflict("another change came first; read the item and try again")
        if rows[item_id].is_pinned:
            await storage.set_pinned(tx, remembered.id, now)
            await storage.set_pinned(tx, item_id, None)
        await storage.copy_links(tx, from_id=item_id, to_id=remembered.id)
        edit = Retirement(item_id=item_id, superseded_by=remembered.id, invalid_at=now, rule="edited")
        await retire(tx, [edit], judge=identity.actor)
        await _audit(tx, "item.edit", item_id, reason, successor=str(remembered.id))
    changes.wake(resources)
    return remembered


async def invalidate_item(
    resources: Resources, identity: Identity, item_id: UUID, *, reason: str | None = None
) -> None:
    """Mark an item as no longer true. It leaves recall and stays on record."""
    await _get_changeable(resources, identity, item_id)
    reason = await clean_reason(resources, identity, reason)
    async with resources.database.transaction(identity) as tx:
        row = await _locked(tx, item_id)
        if row.invalid_at is not None:
            return
        await memory_storage.end_item(tx, item_id, resources.clock())
        await _audit(tx, "item.invalidate", item_id, reason)


async def restore_item(resources: Resources, identity: Identity, item_id: UUID, *, reason: str | None = None) -> None:
    """Make an invalidated or superseded item current again, unless a newer one contradicts it."""
    item = await _get_changeable(resources, identity, item_id)
    reason = await clean_reason(resources, identity, reason)
    async with resources.database.transaction(identity) as tx:
        row = await _locked(tx, item_id)
        if row.invalid_at is None and row.superseded_by is None:
            return
        newer_id = await _contradicting(tx, item, row.superseded_by)
        if newer_id is not None:
            raise Conflict("a newer item contradicts this one; invalidate it first", contradicted_by=str(newer_id))
        await reclaim_reference(tx, item)
        await memory_storage.revive_item(tx, item_id)
        await _audit(tx, "item.restore", item_id, reason)


async def pin_item(resources: Resources, identity: Identity, item_id: UUID, *, pinned: bool = True) -> None:
    """Keep an item until a person ends it: neither the judge nor decay may."""
    await _get_changeable(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        if await storage.set_pinned(tx, item_id, resources.clock() if pinned else None):
            await _audit(tx, "item.pin" if pinned else "item.unpin", item_id, None)


async def give_feedback(
    resources: Resources, identity: Identity, item_id: UUID, opinion: Opinion | str, *, reason: str | None = None
) -> float:
    """Rate an item as useful or wrong. Returns its new confidence. Each person has one vote."""
    opinion = checked_choice("opinion", Opinion, opinion)
    refuse_shared(await get_item(resources, identity, item_id))
    reason = await clean_reason(resources, identity, reason)
    given_by = f"user:{identity.user_id}" if identity.user_id is not None else identity.actor
    async with resources.database.transaction(identity) as tx:
        await memory_storage.lock_items(tx, [item_id])
        item = await memory_storage.find_item(tx, item_id)
        if item is None:
            raise NotFound("there is no such item")
        before = await storage.save_feedback(tx, item_id, opinion, given_by=given_by, now=resources.clock())
        if before is opinion and item.confidence is not None:
            return item.confidence
        confidence = revised_confidence(item.confidence, before=before, opinion=opinion)
        await storage.set_confidence(tx, item_id, confidence)
        await _audit(tx, "item.feedback", item_id, reason, opinion=str(opinion))
    return confidence


async def item_provenance(resources: Resources, identity: Identity, item_id: UUID) -> Provenance:
    """The sources of an item, what rests on it, its trend, and its feedback."""
    item = await get_item(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        sources = await storage.sources_of(tx, item_id)
        led_to = await storage.led_to(tx, item_id)
        useful, wrong = await storage.count_feedback(tx, item_id)
    times = [source.event_time for source in sources] or [item.event_time]
    return Provenance(
        sources=tuple(sources),
        led_to=tuple(led_to),
        trend=trend_of(times, now=resources.clock()),
        useful=useful,
        wrong=wrong,
    )


async def _get_changeable(resources: Resources, identity: Identity, item_id: UUID) -> Item:
    """Only an administrator changes an item of the whole tenant, and only its owner one that is shared."""
    item = await get_item(resources, identity, item_id)
    refuse_shared(item)
    if item.scope is Scope.TENANT:
        require_admin(identity)
    return item


async def _locked(tx: Transaction, item_id: UUID) -> memory_storage.Locked:
    row = (await memory_storage.lock_items(tx, [item_id])).get(item_id)
    if row is None:  # removed since it was read
        raise NotFound("there is no such item")
    return row


def _edited(old: Item, content: str, identity: Identity) -> NewItem:
    """The next version. The editor vouches for it."""
    return NewItem(
        content=content,
        kind=old.kind,
        scope=old.scope,
        tier=old.tier,
        speaker=old.speaker,
        event_time=old.event_time,
        trust=Trust.USER if identity.user_id is not None else old.trust,
        subject=old.subject,
        predicate=old.predicate,
        confidence=old.confidence,
        category=old.category,
        metadata={**old.metadata, EDITED_FROM: str(old.item_id)},
    )


async def _contradicting(tx: Transaction, item: Item, successor_id: UUID | None) -> UUID | None:
    """The id of a newer live item that contradicts this one."""
    if successor_id is not None:
        successor = (await memory_storage.lock_items(tx, [successor_id])).get(successor_id)
        if successor is not None and successor.holds:
            return successor_id
    if not KINDS[item.kind].is_editable:
        return None
    model_id = (await vector_storage.find_models(tx)).active
    older = Statement.of(item)
    near = await storage.near_facts(
        tx, [item.item_id], model_id=model_id, distance=near_distance(model_id), most=CANDIDATES
    )
    for newer in map(Statement.of, near[item.item_id]):
        if is_newer(newer, older) and ruling(newer, older).verdict is Verdict.SUPERSEDE:
            return newer.item_id
    return None


async def _audit(tx: Transaction, action: str, item_id: UUID, reason: str | None, **details: str) -> None:
    await audit.record(tx, action, "item", item_id, reason=reason, **details)


async def list_rulings(
    resources: Resources, identity: Identity, *, before: UUID | None = None, limit: int = RULINGS
) -> list[PastRuling]:
    """The last rulings that ended a fact, newest first, each with both texts and its rule; for a user that user's alone."""
    require_admin(identity)
    async with resources.database.transaction(_reading_audit(identity)) as tx:
        return await storage.list_rulings(tx, of_user=identity.user_id, before=before, limit=page_size(limit))


async def undo_ruling(resources: Resources, identity: Identity, ruling_id: UUID, *, reason: str | None = None) -> None:
    """Undo a ruling: the fact that it ended is exactly as before. The fact that ended it stays."""
    require_admin(identity)
    reason = await clean_reason(resources, identity, reason)
    async with resources.database.transaction(_reading_audit(identity)) as tx:
        past = await storage.find_ruling(tx, ruling_id)
        if past is None:
            raise NotFound("there is no such ruling")
        item_id, successor_id = UUID(past.subject_id), UUID(past.details["superseded_by"])
        item = await memory_storage.find_item(tx, item_id)
        if identity.user_id is not None and (item is None or item.user_id != identity.user_id):
            raise NotFound("there is no such ruling")
        row = (await memory_storage.lock_items(tx, [item_id])).get(item_id)
        if row is None or row.is_forgotten:
            raise Conflict("the fact of this ruling was forgotten; nothing can be restored")
        if await storage.is_undone(tx, item_id, ruling_id):
            return
        if row.superseded_by != successor_id:
            raise Conflict("the fact was changed after this ruling; read its history and restore it by hand")
        await _put_back(tx, item_id, past)
        await audit.record(tx, "ruling.undo", "item", item_id, reason=reason, ruling=str(ruling_id))


def _reading_audit(identity: Identity) -> Identity:
    """The administrator without the user that it names: row-level security shows the audit to no user."""
    return replace(identity, user_id=None, agent_id=None, session_id=None, run_id=None)


async def _put_back(tx: Transaction, item_id: UUID, past: AuditEntry) -> None:
    """A fact that had ended before, later and by another one, ends there again; else it is true again."""
    details: dict[str, Any] = past.details
    if WAS_ENDED_BY in details:
        ended_at = datetime.fromisoformat(details[WAS_ENDED_AT])
        before = Retirement(
            item_id=item_id, superseded_by=UUID(details[WAS_ENDED_BY]), invalid_at=ended_at, rule="undone"
        )
        await memory_storage.end_items(tx, [before])
        return
    item = await memory_storage.find_item(tx, item_id)
    if item is None:
        raise NotFound("there is no such item")
    await reclaim_reference(tx, item)
    await memory_storage.revive_item(tx, item_id)
