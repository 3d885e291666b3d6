"""Sessions: open, resume, close and list them; their notes; the nightly job that closes idle ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from recordari.core.checks import check_times, checked_content
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Owner, Role, SessionId, checked_choice, checked_id, optional_choice
from recordari.core.ids import new_id
from recordari.core.items import Trust
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.privacy.sanitise import sanitise_json
from recordari.sessions import run_storage, storage
from recordari.sessions.cache import SessionCache
from recordari.sessions.rules.runs import TurnState, checked_json
from recordari.sessions.rules.sessions import (
    CloseReason,
    NoteKind,
    Session,
    SessionNote,
    SessionStatus,
    checked_limit,
    may_see,
    session_policy,
    sole_owner,
)
from recordari.sessions.rules.window import DEFAULT_MODEL_TOKENS, Message, Window, window_limit, window_of
from recordari.sessions.state import drop_state_of_run, drop_state_of_session
from recordari.sessions.storage import NewSession, SessionWithModel
from recordari.tenants import storage as tenants_storage
from recordari.tenants.tenants import page_size, require_admin

NO_SUCH_SESSION = "there is no such session"
IDLE_PAGE = 200
MAX_WINDOW_MESSAGES = 5_000
MOST_UNSUMMARISED = 200
MAX_NOTE_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The open session, and whether this call created it."""

    session: Session
    was_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedSession:
    """All you need to continue a session without replaying its messages."""

    __pydantic_config__ = DESCRIBED

    session: Session
    summary: str
    window: Window
    notes: tuple[SessionNote, ...]
    carried_over: str
    """The summary of the session that this one continues, or empty."""
    carried_over_trust: Trust | None
    """The trust of that summary; null if there is none."""
    unsummarised: tuple[Message, ...]
    """Messages that are in no summary yet and not in the window, oldest first: of the session that this one continues, then
    its own."""
    turn_state: TurnState | None


async def open_session(
    resources: Resources,
    identity: Identity,
    session_id: str | None = None,
    *,
    idle: timedelta | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Opened:
    """Open the session with this id or create it; without an id, create one. A closed session gets a successor."""
    session_id = session_id or identity.session_id
    metadata = await sanitise_json(resources, identity, dict(metadata)) if metadata else None
    async with entered(resources, identity, session_id, idle=idle, metadata=metadata) as (tx, current, was_new):
        if not was_new:
            await _touch(tx, current.session, now=resources.clock())
    return Opened(session=current.session, was_new=was_new)


@asynccontextmanager
async def entered(
    resources: Resources,
    identity: Identity,
    session_id: str | None,
    *,
    idle: timedelta | None = None,
    metadata: Mapping[str, Any] | None = None,
    create: bool = True,
) -> AsyncIterator[tuple[Transaction, SessionWithModel, bool]]:
    """A transaction with the open session under this id locked in it, and whether that session is new.

    An idle session is closed here, and its successor opened in the same transaction (T1).
    """
    async with resources.database.transaction(identity) as tx:
        current, was_new = await _enter(resources, tx, session_id, idle=idle, metadata=metadata, create=create)
        yield tx, current, was_new
    if was_new and current.session.continues is not None:
        await resources.get(SessionCache).drop(identity.tenant_id, current.session.owned_by, current.session.continues)


async def _enter(
    resources: Resources,
    tx: Transaction,
    session_id: str | None,
    *,
    idle: timedelta | None,
    metadata: Mapping[str, Any] | None,
    create: bool,
) -> tuple[SessionWithModel, bool]:
    now = resources.clock()
    named = SessionId(checked_id("session_id", session_id)) if session_id is not None else None
    predecessor: Session | None = None
    if named is not None:
        owner = tx.identity.owned_by
        current = await storage.lock_open(tx, owner, named)
        if current is None and tx.identity.spans_users:
            owner = await _owner_of(tx, named)
            current = await storage.lock_open(tx, owner, named)
        if current is not None:
            predecessor = shown(tx.identity, current).session
            if not predecessor.is_idle(now):
                return current, False
            await _close(resources, tx, owner, predecessor.session_id, CloseReason.IDLE)
        elif (newest := await storage.find_newest(tx, owner, named)) is not None:
            predecessor = shown(tx.identity, newest).session
    if predecessor is None and not create:
        raise NotFound(NO_SUCH_SESSION)
    new = await _new_session(tx, named, predecessor, idle=idle, metadata=metadata)
    was_new = await storage.insert_session(tx, new, now=now)
    return shown(tx.identity, await storage.lock_open(tx, new.owned_by, new.root_id)), was_new


async def _owner_of(tx: Transaction, session_id: SessionId) -> Owner:
    """Whose session an administrator means who names no user."""
    return sole_owner(tx.identity.owned_by, await storage.list_session_owners(tx, session_id), noun="session")


async def _touch(tx: Transaction, session: Session, *, now: datetime) -> None:
    await storage.touch(tx, session.owned_by, session.session_id, now=now)


async def _new_session(
    tx: Transaction,
    named: SessionId | None,
    predecessor: Session | None,
    *,
    idle: timedelta | None,
    metadata: Mapping[str, Any] | None,
) -> NewSession:
    tenant = await tenants_storage.find_tenant(tx)
    policy = session_policy(tenant.settings if tenant is not None else {})
    ref = new_id()
    session_id = SessionId(str(ref)) if named is None or predecessor is not None else named
    user_id, agent_id = tx.identity.user_id, tx.identity.agent_id
    if predecessor is not None:  # a successor has the same owner
        user_id = predecessor.user_id
        agent_id = (agent_id if user_id is not None else None) or predecessor.agent_id
    limit = checked_limit(idle) if idle else policy.idle_limit(user_id=user_id, agent_id=agent_id)
    return NewSession(
        session_id=session_id,
        session_ref=ref,
        root_id=predecessor.root_id if predecessor else session_id,
        continues=predecessor.session_id if predecessor else None,
        user_id=user_id,
        agent_id=agent_id,
        idle_seconds=int(limit.total_seconds()),
        notes_seconds=int(policy.notes.total_seconds()),
        window_share=policy.window_share,
        metadata=checked_json("metadata", dict(metadata or {})),
    )


def shown(identity: Identity, current: SessionWithModel | None) -> SessionWithModel:
    """The same session; `NotFound` when there is none or the identity may not see it."""
    if current is None or not _may_see(identity, current.session):
        raise NotFound(NO_SUCH_SESSION)
    return current


def _may_see(identity: Identity, session: Session) -> bool:
    return may_see(identity, user_id=session.user_id, agent_id=session.agent_id)


async def _close(
    resources: Resources, tx: Transaction, owner: Owner, session_id: SessionId, reason: CloseReason
) -> None:
    """Close a session with its state and its runs; call `SessionCache.drop` after the commit."""
    abandoned = await storage.close_session(tx, owner, session_id, reason, now=resources.clock())
    if abandoned is None:
        return
    for run_id in abandoned:
        await drop_state_of_run(tx, resources, owner, run_id)
    await drop_state_of_session(tx, owner, session_id)
    await audit.record(tx, "session.close", "session", session_id, reason=reason, abandoned_runs=len(abandoned))


async def find_newest(tx: Transaction, session_id: str) -> SessionWithModel:
    """The newest session of the line under an id; `NotFound` when the identity may not see it."""
    named = SessionId(session_id)
    newest = await storage.find_newest(tx, tx.identity.owned_by, named)
    if newest is None and tx.identity.spans_users:
        newest = await storage.find_newest(tx, await _owner_of(tx, named), named)
    return shown(tx.identity, newest)


async def find_session(tx: Transaction, session_id: str) -> Session:
    """The session with exactly this id; `NotFound` when the identity may not see it."""
    named = SessionId(session_id)
    session = await storage.find_session(tx, tx.identity.owned_by, named)
    if session is None and tx.identity.spans_users:
        session = await storage.find_session(tx, await _owner_of(tx, named), named)
    if session is None or not _may_see(tx.identity, session):
        raise NotFound(NO_SUCH_SESSION)
    return session


async def close_session(resources: Resources, identity: Identity, session_id: str) -> Session:
    """Close the open session under this id; closed again it stays as it was."""
    async with resources.database.transaction(identity) as tx:
        session = (await find_newest(tx, session_id)).session
        await _close(resources, tx, session.owned_by, session.session_id, CloseReason.ASKED)
        closed = await storage.find_session(tx, session.owned_by, session.session_id)
    await resources.get(SessionCache).drop(identity.tenant_id, session.owned_by, session.session_id)
    assert closed is not None
    return closed


async def get_session(resources: Resources, identity: Identity, session_id: str) -> Session:
    """Read one session by its own id, open or closed."""
    async with resources.database.transaction(identity) as tx:
        return await find_session(tx, session_id)


async def list_sessions(
    resources: Resources,
    identity: Identity,
    *,
    agent_id: str | None = None,
    user_id: str | None = None,
    status: SessionStatus | str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[Session]:
    """Sessions that match, newest first; `before` is the `session_ref` of the last one on the page before."""
    status = optional_choice("status", SessionStatus, status)
    agent_id, user_id = own_only(identity, agent_id=agent_id, user_id=user_id)
    check_times(since=since, until=until)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_sessions(
            tx,
            owned_by=listed_owner(identity),
            agent_id=agent_id,
            user_id=user_id,
            status=status,
            since=since,
            until=until,
            before=before,
            limit=page_size(limit),
        )


def own_only(identity: Identity, *, agent_id: str | None, user_id: str | None) -> tuple[str | None, str | None]:
    """Narrow a filter to what the identity may list: an administrator everything, anyone else their own."""
    if identity.role is Role.ADMIN:
        return agent_id, user_id
    if identity.agent_id is None and identity.user_id is None:
        require_admin(identity)
    return identity.agent_id or agent_id, identity.user_id or user_id


def listed_owner(identity: Identity) -> Owner | None:
    """Whose sessions and runs a list shows: one's own; everybody's to an administrator who acts for no user."""
    return None if identity.spans_users else identity.owned_by


async def resume_session(resources: Resources, identity: Identity, session_id: str) -> ResumedSession:
    """Resume a session: its summary, window and notes. One that is closed or idle gets a successor."""
    now = resources.clock()
    async with entered(resources, identity, session_id, create=False) as (tx, current, was_new):
        session = current.session
        window = await read_window(resources, tx, current)
        notes = await storage.list_notes(tx, session) if session.has_notes(now) else []
        predecessor = await storage.find_session(tx, session.owned_by, session.continues) if session.continues else None
        missing = await _unsummarised(tx, session, predecessor, window)
        turn_state = await run_storage.find_turn_state(tx, session)
        if not was_new:
            await _touch(tx, session, now=now)
    return ResumedSession(
        session=session,
        summary=session.summary,
        window=window,
        notes=tuple(notes),
        carried_over=predecessor.summary if predecessor else "",
        carried_over_trust=predecessor.summary_trust if predecessor else None,
        unsummarised=tuple(missing),
        turn_state=turn_state,
    )


async def _unsummarised(
    tx: Transaction, session: Session, predecessor: Session | None, window: Window
) -> list[Message]:
    """What neither the summaries nor the window have: the worker may be late, and a summary is renewed every five messages."""
    missing = []
    if predecessor is not None:
        missing = await storage.list_unsummarised(tx, predecessor, before=None, limit=MOST_UNSUMMARISED)
    if session.summarised_to < window.state.first - 1:
        before = window.messages[0].position if window.messages else None
        missing += await storage.list_unsummarised(tx, session, before=before, limit=MOST_UNSUMMARISED)
    return missing


def limit_of(resources: Resources, current: SessionWithModel) -> int:
    """The size of a session's window in tokens."""
    return window_limit(model_tokens_of(resources, current), current.session.window_share)


def model_tokens_of(resources: Resources, current: SessionWithModel) -> int:
    """The context size of the session's model; the setting `window_override` goes first (W5)."""
    return resources.settings.window_override or current.model_tokens or DEFAULT_MODEL_TOKENS


async def read_window(resources: Resources, tx: Transaction, current: SessionWithModel) -> Window:
    session = current.session
    first = max(session.window_from, session.epoch_from or 1) if session.epoch else session.window_from
    messages = await storage.list_newest_messages(tx, session, first=first, limit=MAX_WINDOW_MESSAGES)
    return window_of(session, messages, limit=limit_of(resources, current))


async def add_note(
    resources: Resources,
    identity: Identity,
    session_id: str,
    content: str,
    *,
    kind: NoteKind | str = NoteKind.NOTE,
    importance: float = 0.5,
) -> SessionNote:
    """Add a note for the rest of the session; above 50 notes the least important one goes."""
    kind = checked_choice("kind", NoteKind, kind)
    if len(checked_content(content)) > MAX_NOTE_CHARACTERS:
        raise InvalidInput(f"a note has at most {MAX_NOTE_CHARACTERS} characters", field="content")
    if not 0 <= importance <= 1:
        raise InvalidInput("importance must be from 0 to 1", field="importance")
    content = checked_content(await sanitise_json(resources, identity, content))
    now = resources.clock()
    note = SessionNote(
        note_id=new_id(), kind=kind, content=content, importance=importance, item_id=None, created_at=now
    )
    async with entered(resources, identity, session_id) as (tx, current, _):
        await keep_notes(tx, current.session, [note], now=now)
        await _touch(tx, current.session, now=now)
    return note


async def keep_notes(tx: Transaction, session: Session, new: list[SessionNote], *, now: datetime) -> None:
    """Add notes to a locked session, after removing those that have expired."""
    if not session.has_notes(now):
        expired = [note.note_id for note in await storage.list_notes(tx, session)]
        await storage.delete_notes(tx, session, expired)
    await storage.insert_notes(tx, session, new, now=now)


async def list_notes(resources: Resources, identity: Identity, session_id: str) -> list[SessionNote]:
    """The notes of a session that have not expired, oldest first."""
    async with resources.database.transaction(identity) as tx:
        session = (await find_newest(tx, session_id)).session
        return await storage.list_notes(tx, session) if session.has_notes(resources.clock()) else []


async def delete_note(resources: Resources, identity: Identity, session_id: str, note_id: UUID) -> None:
    """Remove a note that no longer applies, such as a task that is done."""
    async with resources.database.transaction(identity) as tx:
        session = (await find_newest(tx, session_id)).session
        if not await storage.delete_notes(tx, session, [note_id]):
            raise NotFound("this session has no such note")
        await storage.empty_answer_of_note(tx, note_id)


async def close_idle(resources: Resources, identity: Identity, **_: Any) -> None:
    """Close the tenant's idle sessions and remove expired notes. A nightly job."""
    require_admin(identity)
    now = resources.clock()
    while True:
        async with resources.database.transaction(identity) as tx:
            idle = await storage.list_idle(tx, now=now, limit=IDLE_PAGE)
            for session in idle:
                await _close(resources, tx, session.owned_by, session.session_id, CloseReason.IDLE)
        for session in idle:
            await resources.get(SessionCache).drop(identity.tenant_id, session.owned_by, session.session_id)
        if len(idle) < IDLE_PAGE:
            break
    async with resources.database.transaction(identity) as tx:
        await storage.delete_expired(tx, now=now)
