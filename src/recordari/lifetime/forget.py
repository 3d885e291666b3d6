"""Forgetting: an item and everything derived from it is redacted at once, and does not come back.

What is left is the empty row, so that chains hold, and a *tombstone*: salted hashes of its reference and of its text. The
database leaves out every later write that a tombstone fits. A message, tool output or episode under a forgotten reference
never returns. A fact returns only when it is stated anew, with an `event_time` after the forgetting: a person may say it
again, but an old export, a retry or a job that reads old messages may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from recordari.core.checks import check_reason
from recordari.core.identity import Identity, Scope, SessionId, checked_id
from recordari.core.items import Kind
from recordari.core.telemetry import get_log
from recordari.db import audit, outbox
from recordari.db.database import RETENTION_ROLE, Transaction
from recordari.errors import Conflict, NotFound, ProviderError
from recordari.facts import storage as facts_storage
from recordari.kit.resources import Resources
from recordari.lifetime import storage
from recordari.lifetime.journal import write_journal
from recordari.lifetime.rules import Hold, without_fold
from recordari.lifetime.storage import RedactionTarget, Summaries, Tombstone
from recordari.memory import items
from recordari.memory.index import EMBED_TOPIC
from recordari.memory.items import refuse_shared
from recordari.memory.objects import Objects
from recordari.sessions.messages import SUMMARISE_TOPIC
from recordari.sharing.share import revoke_shares
from recordari.tenants.tenants import require_admin

log = get_log(__name__)

NO_SUCH_ITEM = "there is no such item"
OBJECTS_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was redacted: the items asked for and those derived from them; and what is made again without them."""

    item_ids: tuple[UUID, ...]
    reembedded: tuple[UUID, ...] = ()
    summaries_renewed: int = 0


@dataclass(slots=True, kw_only=True)
class _Cascade:
    """Everything that one forgetting reaches."""

    doomed: dict[UUID, RedactionTarget] = field(default_factory=dict)
    sessions: dict[SessionId, Summaries] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What a transaction redacted, for what follows its commit."""

    forgotten: Forgotten
    tombstones: tuple[Tombstone, ...]


async def forget(
    resources: Resources, identity: Identity, item_id: UUID, *, reason: str | None = None, dry_run: bool = False
) -> Forgotten:
    """Redact an item that the identity may see, with everything derived from it; `Conflict` while an action rests on it.

    A fact goes with its earlier versions of the same words: they say what is to be forgotten. `dry_run` only says what
    that would be.
    """
    found = await items.get_item(resources, identity, item_id)
    refuse_shared(found)
    if found.scope == Scope.TENANT:
        require_admin(identity)
    check_reason(reason)
    async with resources.database.transaction(identity) as tx:
        everything = list(dict.fromkeys([item_id, *await facts_storage.same_words(tx, item_id)]))
    if dry_run:
        return await _foreseen(resources, identity, everything)
    return await forget_items(resources, identity, everything, reason=reason or "asked")


async def _foreseen(resources: Resources, identity: Identity, item_ids: Sequence[UUID]) -> Forgotten:
    """What forgetting items would reach; nothing is changed."""
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        cascade = await _reach(tx, item_ids)
    _refuse_held(cascade)
    return Forgotten(item_ids=tuple(cascade.doomed), summaries_renewed=len(cascade.sessions))


async def forget_items(resources: Resources, identity: Identity, item_ids: Sequence[UUID], *, reason: str) -> Forgotten:
    """Redact items with everything derived from them, in one transaction with its audit."""
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        redaction = await redact(tx, item_ids, now=resources.clock())
        if not redaction.forgotten.item_ids:
            raise NotFound(NO_SUCH_ITEM)
        await record(tx, item_ids, redaction, reason=reason)
    await follow_up(resources, identity, redaction)
    return redaction.forgotten


async def redact(
    tx: Transaction, item_ids: Sequence[UUID], *, now: datetime, of_erased_user: bool = False
) -> Redaction:
    """Redact items and what rests on them alone, in the caller's transaction; `follow_up` comes after its commit.

    The items of an erased user need no tombstones, because the user has one; they lose their place in their thread, and
    holds made since the erasure was asked for do not stop it.
    """
    cascade = await _reach(tx, item_ids)
    if not of_erased_user:
        _refuse_held(cascade)
    everything = list(cascade.doomed)
    named = set(item_ids) if of_erased_user else set()
    buried = [item_id for item_id in everything if item_id not in named]
    await revoke_shares(tx, everything)
    tombstones = await storage.bury(tx, buried, now=now)
    followers = await storage.unembed_followers(tx, everything)
    await storage.redact(tx, everything, now=now, keep_place=not of_erased_user)
    for session in cascade.sessions.values():
        await storage.reset_summary(tx, session)
    await outbox.add(tx, EMBED_TOPIC, followers)
    await outbox.add(tx, SUMMARISE_TOPIC, [session.session_ref for session in cascade.sessions.values()])
    return Redaction(
        forgotten=Forgotten(
            item_ids=tuple(everything), reembedded=tuple(followers), summaries_renewed=len(cascade.sessions)
        ),
        tombstones=tuple(tombstones),
    )


def _refuse_held(cascade: _Cascade) -> None:
    """Raise `Conflict` when an action rests on anything that would go."""
    if held := [one.item_id for one in cascade.doomed.values() if one.is_held]:
        raise Conflict(
            "an action rests on this memory or on one derived from it; release the hold first",
            item_ids=[str(item_id) for item_id in held],
        )


async def _reach(tx: Transaction, item_ids: Sequence[UUID]) -> _Cascade:
    """Lock the items, the summaries that tell them and whatever rests on these alone, to the last derived row."""
    cascade = _Cascade()
    frontier = list(item_ids)
    while frontier:
        locked = await storage.lock_items(tx, sorted(frontier))
        cascade.doomed.update({one.item_id: one for one in locked})
        told = await _told_by(tx, locked, cascade.sessions)
        derived = await storage.resting_only_on(tx, list(cascade.doomed))
        frontier = [item_id for item_id in {*told, *derived} if item_id not in cascade.doomed]
        if not locked:
            break
    return cascade


async def _told_by(
    tx: Transaction, locked: Sequence[RedactionTarget], sessions: dict[SessionId, Summaries]
) -> list[UUID]:
    """The summaries of sessions that tell one of these messages; the sessions are noted without them."""
    places: dict[SessionId, list[int]] = {}
    for one in locked:
        if one.kind == Kind.CHAT_MESSAGE and one.session_id is not None and one.position is not None:
            places.setdefault(one.session_id, []).append(one.position)
    unknown = [session_id for session_id in places if session_id not in sessions]
    sessions.update({one.session_id: one for one in await storage.lock_sessions(tx, unknown)})
    told: list[UUID] = []
    for session_id, positions in places.items():
        if (session := sessions.get(session_id)) is None:
            continue
        for position in positions:
            session, gone = _without(session, position)
            told.extend(gone)
        sessions[session_id] = session
    return told


def _without(session: Summaries, position: int) -> tuple[Summaries, list[UUID]]:
    """A session's summaries without those that tell what stood at a place, and these.

    Every place goes down, so that whoever is making a summary of the same messages finds it overtaken.
    """
    folds, folded_to, gone = without_fold(session.folds, session.folded_to, position)
    if session.summarised_to < position:
        summary_id, summarised_to, told = session.summary_id, session.summarised_to - 1, list(gone)
    else:
        told = [*gone, session.summary_id] if session.summary_id is not None else list(gone)
        summary_id, summarised_to = None, min(0, session.summarised_to) - 1
    changed = replace(session, summary_id=summary_id, summarised_to=summarised_to, folded_to=folded_to, folds=folds)
    return changed, told


async def record(tx: Transaction, item_ids: Sequence[UUID], redaction: Redaction, *, reason: str) -> None:
    """Write to the audit what was redacted and why: ids, never content."""
    named = set(item_ids)
    for item_id in redaction.forgotten.item_ids:
        why = reason if item_id in named else f"{reason}: derived"
        await audit.record(tx, "memory.anonymize", "item", item_id, reason=why)


async def follow_up(resources: Resources, identity: Identity, redaction: Redaction) -> None:
    """Do what follows the commit of a redaction: wake workers, remove objects, write the journal.

    What fails here is made good by the daily job of retention.
    """
    if redaction.forgotten.reembedded:
        resources.wake(EMBED_TOPIC)
    if redaction.forgotten.summaries_renewed:
        resources.wake(SUMMARISE_TOPIC)
    resources.forget_tenant(identity.tenant_id)
    try:
        await write_journal(resources, identity, redaction.tombstones)
        await remove_discarded(resources, identity)
    except ProviderError as error:
        log.warning("erasure_left_for_the_daily_job", error=error)


async def remove_discarded(resources: Resources, identity: Identity) -> int:
    """Remove the objects whose rows are gone; how many."""
    removed = 0
    while True:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            found = await storage.list_discarded(tx, limit=OBJECTS_AT_ONCE)
        if not found:
            return removed
        for one in found:
            if not one.is_used:
                await resources.get(Objects).delete(one.object_key)
                removed += 1
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            await storage.delete_discarded(tx, [one.object_key for one in found])


async def hold(resources: Resources, identity: Identity, item_id: UUID, action_id: str) -> bool:
    """Note that an action rests on an item, which nothing may remove from then on; False when it was noted before."""
    refuse_shared(await items.get_item(resources, identity, item_id))
    checked_id("action_id", action_id)
    async with resources.database.transaction(identity) as tx:
        made = await storage.insert_hold(tx, item_id, action_id)
        if made:
            await audit.record(tx, "memory.hold", "item", item_id, action_id=action_id)
    return made


async def release(resources: Resources, identity: Identity, item_id: UUID, action_id: str) -> None:
    """Note that an action rests on an item no longer."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        if not await storage.delete_hold(tx, item_id, action_id):
            raise NotFound("there is no such hold")
        await audit.record(tx, "memory.release", "item", item_id, action_id=action_id)


async def list_holds(resources: Resources, identity: Identity, item_id: UUID) -> list[Hold]:
    """The actions that rest on an item."""
    await items.get_item(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_holds(tx, item_id)
