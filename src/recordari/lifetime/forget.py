"""Forgets an item with everything derived from it: redacted at once, for good.

The empty row stays, so that chains hold, with a *tombstone*: salted hashes of its reference and of its text. The database
ignores every later write that matches a tombstone. A message, tool output or episode under a forgotten reference never
returns. A fact returns only if it is stated again, with an `event_time` after the forgetting: a person may say it again,
but an old export, a retry or a job that reads old messages may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from recordari.core.identity import Identity, Owner, Role, Scope, SessionId, checked_id
from recordari.core.items import Item, Kind
from recordari.core.telemetry import get_log
from recordari.db import audit, outbox
from recordari.db.database import RETENTION_ROLE, Transaction
from recordari.errors import Conflict, Forbidden, NotFound, ProviderError
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
from recordari.privacy.sanitise import clean_reason
from recordari.sessions.summaries import SUMMARISE_TOPIC
from recordari.sharing.share import revoke_shares
from recordari.tenants.tenants import require_admin

log = get_log(__name__)

OBJECTS_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """The redacted items, with those derived from them, and the number of summaries to renew."""

    item_ids: tuple[UUID, ...]
    reembedded: tuple[UUID, ...] = ()
    summaries_renewed: int = 0


_SessionKey = tuple[Owner, SessionId]


@dataclass(slots=True, kw_only=True)
class _Cascade:
    targets: dict[UUID, RedactionTarget] = field(default_factory=dict)
    sessions: dict[_SessionKey, Summaries] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """The result of `redact`, for `follow_up` after the commit."""

    forgotten: Forgotten
    tombstones: tuple[Tombstone, ...]


async def forget(
    resources: Resources, identity: Identity, item_id: UUID, *, reason: str | None = None, dry_run: bool = False
) -> Forgotten:
    """Redact an item with everything derived from it; `Conflict` while an action holds one of them.

    Earlier versions of a fact with the same words are redacted too. `dry_run` only reports the items.
    """
    resources = resources.in_steps()
    _require_owner(identity, await items.get_item(resources, identity, item_id))
    reason = await clean_reason(resources, identity, reason)
    async with resources.database.transaction(identity) as tx:
        item_ids = list(dict.fromkeys([item_id, *await facts_storage.same_words(tx, item_id)]))
    if not dry_run:
        return await forget_items(resources, identity, item_ids, reason=reason or "asked")
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        cascade = await _cascade(tx, item_ids)
    _refuse_held(cascade)
    return Forgotten(item_ids=tuple(cascade.targets), summaries_renewed=len(cascade.sessions))


def _require_owner(identity: Identity, item: Item) -> None:
    """Raise unless the identity may forget or hold an item that it sees: its owner, or an administrator.

    What has the scope agent is seen by all of the agent's users, but it is of the one it was written for. So who names no
    user may not do it either: a credential may be limited to other users, or to none.
    """
    refuse_shared(item)
    if item.scope is Scope.TENANT:
        require_admin(identity)
    if identity.role is not Role.ADMIN and item.user_id not in {None, identity.user_id}:
        raise Forbidden("this memory was written for another user; that user or an administrator may do this")


async def forget_items(resources: Resources, identity: Identity, item_ids: Sequence[UUID], *, reason: str) -> Forgotten:
    """Redact items with everything derived from them, in one transaction with its audit."""
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        redaction = await redact(tx, item_ids, now=resources.clock())
        if not redaction.forgotten.item_ids:
            raise NotFound("there is no such item")
        await record(tx, item_ids, redaction, reason=reason)
    await follow_up(resources, identity, redaction)
    return redaction.forgotten


async def redact(
    tx: Transaction, item_ids: Sequence[UUID], *, now: datetime, of_erased_user: bool = False
) -> Redaction:
    """Redact items with what was derived from them alone, in the caller's transaction; call `follow_up` after its commit.

    The items of an erased user need no tombstones, because the user has one. They lose their position in their thread,
    and holds made since the request do not stop it.
    """
    cascade = await _cascade(tx, item_ids)
    if not of_erased_user:
        _refuse_held(cascade)
    targets = list(cascade.targets)
    without_tombstone = set(item_ids) if of_erased_user else set()
    await revoke_shares(tx, targets)
    buried = [item_id for item_id in targets if item_id not in without_tombstone]
    tombstones = await storage.bury(tx, buried, now=now)
    followers = await storage.unembed_followers(tx, targets)
    await storage.redact(tx, targets, now=now, keep_place=not of_erased_user)
    await storage.empty_answers(tx, [*map(str, targets), *(session_id for _, session_id in cascade.sessions)])
    for session in cascade.sessions.values():
        await storage.reset_summary(tx, session)
    await outbox.add(tx, EMBED_TOPIC, followers)
    await outbox.add(tx, SUMMARISE_TOPIC, [session.session_ref for session in cascade.sessions.values()])
    return Redaction(
        forgotten=Forgotten(
            item_ids=tuple(targets), reembedded=tuple(followers), summaries_renewed=len(cascade.sessions)
        ),
        tombstones=tuple(tombstones),
    )


def _refuse_held(cascade: _Cascade) -> None:
    if held := [str(target.item_id) for target in cascade.targets.values() if target.is_held]:
        raise Conflict(
            "an action rests on this memory or on one derived from it; release the hold first", item_ids=held
        )


async def _cascade(tx: Transaction, item_ids: Sequence[UUID]) -> _Cascade:
    """Lock the items, the summaries that include them and everything derived from these alone, to the last row."""
    cascade = _Cascade()
    frontier = list(item_ids)
    while frontier:
        locked = await storage.lock_items(tx, sorted(frontier))
        cascade.targets.update({target.item_id: target for target in locked})
        summary_ids = await _summaries_of(tx, locked, cascade.sessions)
        derived = await storage.resting_only_on(tx, list(cascade.targets))
        frontier = [item_id for item_id in {*summary_ids, *derived} if item_id not in cascade.targets]
        if not locked:
            break
    return cascade


async def _summaries_of(
    tx: Transaction, locked: Sequence[RedactionTarget], sessions: dict[_SessionKey, Summaries]
) -> list[UUID]:
    """The ids of summaries that include one of these messages; `sessions` gets their sessions without them."""
    messages = [
        ((target.session_owner, target.session_id), target.position)
        for target in locked
        if target.kind == Kind.CHAT_MESSAGE and target.session_id is not None and target.position is not None
    ]
    unread = dict.fromkeys(key for key, _ in messages if key not in sessions)
    found = await storage.lock_sessions(tx, list(unread))
    sessions.update({(session.owned_by, session.session_id): session for session in found})
    summary_ids: list[UUID] = []
    for key, position in messages:
        if key in sessions:
            sessions[key], removed = _without(sessions[key], position)
            summary_ids.extend(removed)
    return summary_ids


def _without(session: Summaries, position: int) -> tuple[Summaries, list[UUID]]:
    """A session without the summaries that include a position, and the ids of these.

    Both limits decrease, so that a job that is summarising the same messages finds its result outdated.
    """
    folds, folded_to, fold_ids = without_fold(session.folds, session.folded_to, position)
    changed = replace(session, folds=folds, folded_to=folded_to)
    if session.summarised_to < position:
        return replace(changed, summarised_to=session.summarised_to - 1), list(fold_ids)
    rolling = [session.summary_id] if session.summary_id is not None else []
    return replace(changed, summary_id=None, summarised_to=min(0, session.summarised_to) - 1), [*fold_ids, *rolling]


async def record(tx: Transaction, item_ids: Sequence[UUID], redaction: Redaction, *, reason: str) -> None:
    """Write to the audit which items were redacted and why: ids, never content."""
    requested = set(item_ids)
    for item_id in redaction.forgotten.item_ids:
        why = reason if item_id in requested else f"{reason}: derived"
        await audit.record(tx, "memory.anonymize", "item", item_id, reason=why)


async def follow_up(resources: Resources, identity: Identity, redaction: Redaction) -> None:
    """After the commit of a redaction: wake workers, remove objects, write the journal.

    If that fails, the daily job of retention completes it.
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
    """Remove the objects whose rows are deleted; returns their number."""
    removed = 0
    while True:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            discarded = await storage.list_discarded(tx, limit=OBJECTS_AT_ONCE)
        if not discarded:
            return removed
        for stored in discarded:
            if not stored.is_used:
                await resources.get(Objects).delete(stored.object_key)
                removed += 1
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            await storage.delete_discarded(tx, [stored.object_key for stored in discarded])


async def hold(resources: Resources, identity: Identity, item_id: UUID, action_id: str) -> bool:
    """Hold an item for an action: nothing may remove it until you release it. False if the action holds it already."""
    _require_owner(identity, await items.get_item(resources, identity, item_id))
    checked_id("action_id", action_id)
    async with resources.database.transaction(identity) as tx:
        is_new = await storage.insert_hold(tx, item_id, action_id)
        if is_new:
            await audit.record(tx, "memory.hold", "item", item_id, action_id=action_id)
    return is_new


async def release(resources: Resources, identity: Identity, item_id: UUID, action_id: str) -> None:
    """Release an item that an action held."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        if not await storage.delete_hold(tx, item_id, action_id):
            raise NotFound("there is no such hold")
        await audit.record(tx, "memory.release", "item", item_id, action_id=action_id)


async def list_holds(resources: Resources, identity: Identity, item_id: UUID) -> list[Hold]:
    """The actions that hold an item."""
    await items.get_item(resources, identity, item_id)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_holds(tx, item_id)
