"""Curating: what people do with single items; every change is audited, and nothing is lost by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from recordari.core.checks import check_reason
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Scope, checked_choice, optional_choice
from recordari.core.items import EDITED_FROM, KINDS, Item, Kind, NewItem, Tier, Trust, normalised
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import Conflict, InvalidInput, NotFound
from recordari.facts import storage
from recordari.facts.judge import CANDIDATES, near_distance
from recordari.facts.rules.claims import EvidenceSource, Opinion, Trend, revised_confidence, trend_of
from recordari.facts.rules.conflict import Statement, Verdict, is_newer, ruling
from recordari.facts.storage import ItemFilter
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory import vector_storage
from recordari.memory.index import EMBED_TOPIC
from recordari.memory.items import get_item, refuse_shared
from recordari.memory.remember import Remembered, make_ready, save_ready
from recordari.memory.rules import Retirement
from recordari.memory.versions import Stated, free_reference, reclaim_reference, retire
from recordari.tenants.tenants import page_size, require_admin


class ItemState(StrEnum):
    """Which items to list."""

    LIVE = "live"
    SUPERSEDED = "superseded"
    INVALID = "invalid"
    ARCHIVED = "archived"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage:
    """Some items, and where the next page begins."""

    items: tuple[Item, ...]
    next_before: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What an item rests on, how it fares, and what people think of it."""

    __pydantic_config__ = DESCRIBED

    sources: tuple[EvidenceSource, ...]
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
    state: ItemState | str = ItemState.LIVE,
    pinned: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> ItemPage:
    """Items that the identity may see; `next_before` of a page is `before` of the next one."""
    wanted = ItemFilter(
        kinds=tuple(checked_choice("kinds", Kind, kind) for kind in kinds) if kinds else tuple(Kind),
        scope=optional_choice("scope", Scope, scope),
        category=category,
        subject=subject,
        trust=optional_choice("trust", Trust, trust),
        state=checked_choice("state", ItemState, state),
        pinned=pinned,
        since=since,
        until=until,
    )
    if wanted.state is not ItemState.LIVE:
        require_admin(identity)
    limit = page_size(limit)
    async with resources.database.transaction(identity) as tx:
        found = await storage.list_items(tx, wanted, before=before, limit=limit + 1)
    page = found[:limit]
    return ItemPage(items=tuple(page), next_before=page[-1].item_id if len(found) > limit else None)


async def edit_item(
    resources: Resources, identity: Identity, item_id: UUID, content: str, *, reason: str | None = None
) -> Remembered:
    """Give a fact or procedure another text, as a new version that supersedes the old one."""
    old = await _to_change(resources, identity, item_id)
    if not KINDS[Kind(old.kind)].is_editable:
        raise InvalidInput("what was said stays as it was said; only facts and procedures can be edited")
    if old.invalid_at is not None:
        raise Conflict("this version is not the current one; edit its successor, or restore it first")
    if normalised(content) == normalised(old.content):
        raise InvalidInput("this is the text it has already", field="content")
    ready = await make_ready(resources, _owner(identity, old), [_edited(old, content, identity)])
    async with resources.database.transaction(identity) as tx:
        now, ref = resources.clock(), ready.rows[0].item.source_ref
        known = await memory_storage.standing_of_refs(tx, [ref], kind=Kind(old.kind))
        await free_reference(tx, [Stated(source_ref=ref, event_time=now)], known)
        (remembered,), _ = await save_ready(tx, ready)
        rows = await memory_storage.lock_items(tx, sorted({item_id, remembered.id}))
        if not rows[item_id].live or not rows[remembered.id].live:
            raise Conflict("another change came first; read again and repeat")
        if rows[item_id].is_pinned:
            await storage.set_pinned(tx, remembered.id, now)
            await storage.set_pinned(tx, item_id, None)
        await storage.copy_links(tx, from_id=item_id, to_id=remembered.id)
        ended = Retirement(item_id=item_id, superseded_by=remembered.id, invalid_at=now, rule="edited")
        await retire(tx, [ended], judge=identity.actor)
        await _note(tx, "item.edit", item_id, reason, successor=str(remembered.id))
    resources.wake(EMBED_TOPIC)
    return remembered


async def invalidate_item(
    resources: Resources, identity: Identity, item_id: UUID, *, reason: str | None = None
) -> None:
    """Say that an item is no longer true; it leaves recall and stays for the record."""
    await _to_change(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        row = (await memory_storage.lock_items(tx, [item_id]))[item_id]
        if row.invalid_at is not None:
            return
        await memory_storage.end_item(tx, item_id, resources.clock())
        await _note(tx, "item.invalidate", item_id, reason)


async def restore_item(resources: Resources, identity: Identity, item_id: UUID, *, reason: str | None = None) -> None:
    """Undo that an item was invalidated or superseded, unless something newer contradicts it."""
    item = await _to_change(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        row = (await memory_storage.lock_items(tx, [item_id]))[item_id]
        if row.invalid_at is None and row.superseded_by is None:
            return
        against = await _contradicting(tx, item, row.superseded_by)
        if against is not None:
            raise Conflict("a newer item contradicts this one; invalidate that one first", contradicted_by=str(against))
        await reclaim_reference(tx, item)
        await memory_storage.revive_item(tx, item_id)
        await _note(tx, "item.restore", item_id, reason)


async def pin_item(resources: Resources, identity: Identity, item_id: UUID, *, pinned: bool = True) -> None:
    """Keep an item until a person ends it: neither the judge nor decay may."""
    await _to_change(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        if await storage.set_pinned(tx, item_id, resources.clock() if pinned else None):
            await _note(tx, "item.pin" if pinned else "item.unpin", item_id, None)


async def give_feedback(
    resources: Resources, identity: Identity, item_id: UUID, opinion: Opinion | str, *, reason: str | None = None
) -> float:
    """Say that an item was useful or wrong; how sure it is now. Each person has one voice."""
    said = checked_choice("opinion", Opinion, opinion)
    refuse_shared(await get_item(resources, identity, item_id))
    given_by = f"user:{identity.user_id}" if identity.user_id is not None else identity.actor
    async with resources.database.transaction(identity) as tx:
        await memory_storage.lock_items(tx, [item_id])
        item = await memory_storage.find_item(tx, item_id)
        if item is None:
            raise NotFound("there is no such item")
        before = await storage.save_feedback(tx, item_id, said, given_by=given_by, now=resources.clock())
        if before is said and item.confidence is not None:
            return item.confidence
        confidence = revised_confidence(item.confidence, before=before, opinion=said)
        await storage.set_confidence(tx, item_id, confidence)
        await _note(tx, "item.feedback", item_id, reason, opinion=str(said))
    return confidence


async def item_provenance(resources: Resources, identity: Identity, item_id: UUID) -> Provenance:
    """What an item rests on, its trend, and what people think of it."""
    item = await get_item(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        sources = await storage.sources_of(tx, item_id)
        useful, wrong = await storage.count_feedback(tx, item_id)
    said = [source.event_time for source in sources] or [item.event_time]
    return Provenance(sources=tuple(sources), trend=trend_of(said, now=resources.clock()), useful=useful, wrong=wrong)


async def _to_change(resources: Resources, identity: Identity, item_id: UUID) -> Item:
    """The item, if the identity may change it: what the whole tenant sees is an administrator's to change."""
    item = await get_item(resources, identity, item_id)
    refuse_shared(item)
    if Scope(item.scope) is Scope.TENANT:
        require_admin(identity)
    return item


def _owner(identity: Identity, item: Item) -> Identity:
    """The identity under which a new version belongs to whom the old one belonged."""
    return replace(
        identity,
        user_id=item.user_id,
        agent_id=item.agent_id,
        session_id=item.session_id,
        run_id=item.run_id,
    )


def _edited(old: Item, content: str, identity: Identity) -> NewItem:
    """The next version: of the same event, in other words; who edits it vouches for it."""
    return NewItem(
        content=content,
        kind=Kind(old.kind),
        scope=Scope(old.scope),
        tier=Tier(old.tier),
        speaker=old.speaker,
        event_time=old.event_time,
        trust=Trust.USER if identity.user_id is not None else Trust(old.trust),
        subject=old.subject,
        predicate=old.predicate,
        confidence=old.confidence,
        category=old.category,
        metadata={**old.metadata, EDITED_FROM: str(old.item_id)},
    )


async def _contradicting(tx: Transaction, item: Item, successor_id: UUID | None) -> UUID | None:
    """A live item that is newer and cannot be true together with this one."""
    if successor_id is not None:
        successor = (await memory_storage.lock_items(tx, [successor_id])).get(successor_id)
        if successor is not None and successor.live:
            return successor_id
    if not KINDS[Kind(item.kind)].is_editable:
        return None
    model_id = (await vector_storage.find_models(tx)).active
    mine = Statement.of(item)
    for other in await storage.near_facts(
        tx, item.item_id, model_id=model_id, distance=near_distance(model_id), most=CANDIDATES
    ):
        theirs = Statement.of(other)
        if is_newer(theirs, mine) and ruling(theirs, mine).verdict is Verdict.SUPERSEDE:
            return other.item_id
    return None


async def _note(tx: Transaction, action: str, item_id: UUID, reason: str | None, **details: str) -> None:
    check_reason(reason)
    await audit.record(tx, action, "item", item_id, reason=reason, **details)
