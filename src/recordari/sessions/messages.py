"""Messages of a session: add them to its thread and window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from recordari.core.cache import BoundedMap
from recordari.core.described import DESCRIBED
from recordari.core.identity import (
    Identity,
    Owner,
    Scope,
    SessionId,
    TenantId,
    checked_choice,
    checked_id,
    optional_choice,
)
from recordari.core.ids import new_id
from recordari.core.items import REVIEWED_TRUST, Kind, NewItem
from recordari.core.tokens import message_tokens
from recordari.db import outbox
from recordari.db.database import Transaction
from recordari.db.queries import columns_of
from recordari.errors import Conflict, InvalidInput
from recordari.kit.resources import Resources
from recordari.memory import remember
from recordari.memory.index import EMBED_TOPIC, Threads, with_meanings
from recordari.memory.remember import MAX_BATCH, Ready, Remembered, with_source_ref
from recordari.memory.storage import Row
from recordari.sessions import storage
from recordari.sessions.rules.runs import checked_json
from recordari.sessions.rules.sessions import Session, SessionNote
from recordari.sessions.rules.summaries import notes_in
from recordari.sessions.rules.window import (
    COMPRESSED_TAIL,
    SUMMARY_EVERY,
    TAIL,
    TRUST,
    Message,
    MessageRole,
    NewMessage,
    Window,
    WindowState,
    checked_usage,
    compresses,
    counted,
    slid_to,
    state_of,
    tail_must_move,
    trust_of,
    with_tail,
)
from recordari.sessions.sessions import (
    entered,
    find_newest,
    find_session,
    keep_notes,
    limit_of,
    model_tokens_of,
    read_window,
)
from recordari.sessions.storage import SessionWithModel
from recordari.sessions.summaries import SUMMARISE_TOPIC
from recordari.tenants.tenants import page_size

_NOTED_ROLES = {MessageRole.USER, MessageRole.ASSISTANT}  # the output of a tool decides nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The session that took the messages, and how full its window is now."""

    __pydantic_config__ = DESCRIBED

    session_id: SessionId
    """The session of the messages: a successor if the one you named was closed or idle."""
    messages: tuple[Remembered, ...]
    window: WindowState


async def add_messages(
    resources: Resources,
    identity: Identity,
    messages: Sequence[NewMessage],
    *,
    session_id: str | None = None,
    scope: Scope | str | None = None,
    prompt_tokens: int | None = None,
) -> Added:
    """Add messages in this order, all of them or none; the same message id again is the same message.

    `prompt_tokens` is what the model reported for the prompt of the last turn.
    """
    scope = optional_choice("scope", Scope, scope)
    if len(messages) > MAX_BATCH:
        raise InvalidInput(f"at most {MAX_BATCH} messages at a time; send the rest in another call")
    identity = identity.narrowed(session_id=session_id or identity.session_id or str(new_id()))
    with resources.telemetry.measured("add_messages"):
        ready = await remember.make_ready(resources, identity, [_item(message, scope) for message in messages])
        now = resources.clock()
        if prompt_tokens is None and (added := await _add_quickly(resources, identity, ready, now=now)) is not None:
            return added
        async with entered(resources, identity, identity.session_id) as (tx, current, _):
            ready = _in_session(ready, current.session)
            remembered, changes = await remember.save_ready(tx, ready)
            new_ids = set(changes.item_ids)
            # One with its own id that is not new was written, and counted, over a connection that was lost.
            fresh = [
                row
                for row, result in zip(ready.rows, remembered, strict=True)
                if result.was_new and result.id in new_ids
            ]
            if notes := _notes(fresh, now=now):
                await keep_notes(tx, current.session, notes, now=now)
            session = await _with_messages(resources, tx, current, fresh)
            if prompt_tokens is not None:
                session = await with_usage(resources, tx, replace(current, session=session), prompt_tokens)
            await storage.save_window(tx, session, now=now)
            due = _summary_due(current.session, session)
            if due:
                await outbox.add(tx, SUMMARISE_TOPIC, [session.session_ref])
        changes.wake(resources)
        if due:
            resources.wake(SUMMARISE_TOPIC)
        resources.get(OpenSessions).note(identity, replace(current, session=session))
        for row in fresh:
            resources.get(Threads).note(identity.tenant_id, row)
    return Added(
        session_id=session.session_id,
        messages=tuple(remembered),
        window=state_of(session, limit=limit_of(resources, current)),
    )


MOST_SESSIONS = 10_000
SESSION_SECONDS = 600.0  # a changed agent has its new window after that
QUICK_MESSAGES = 8


class OpenSessions:
    """Caches sessions that took messages a moment ago. Only the database knows whether they are still as they were."""

    def __init__(self) -> None:
        self._known: BoundedMap[tuple[TenantId, Owner, SessionId], SessionWithModel]
        self._known = BoundedMap(MOST_SESSIONS, seconds=SESSION_SECONDS)

    def note(self, identity: Identity, current: SessionWithModel) -> None:
        assert identity.session_id is not None
        self._known.put((identity.tenant_id, identity.owned_by, identity.session_id), current)

    def find(self, identity: Identity) -> SessionWithModel | None:
        """The open session under the identity's session id, if it is the identity's own."""
        if identity.session_id is None:
            return None
        current = self._known.get((identity.tenant_id, identity.owned_by, identity.session_id))
        return current if current is not None and current.session.owned_by == identity.owned_by else None

    def forget_tenant(self, tenant_id: TenantId) -> None:
        """Read its sessions again, because the tenant was changed."""
        self._known.drop(lambda key, _: key[0] == tenant_id)


async def _add_quickly(resources: Resources, identity: Identity, ready: Ready, *, now: datetime) -> Added | None:
    """Add a few messages in one round trip, if the session is as it was a moment ago; None when the long way is needed."""
    current = resources.get(OpenSessions).find(identity)
    is_plain = 0 < len(ready.rows) <= QUICK_MESSAGES and not any(row.item.payload for row in ready.rows)
    if current is None or not is_plain or resources.database.is_joined:
        return None
    rows, limit = _in_session(ready, current.session).rows, limit_of(resources, current)
    if _notes(rows, now=now) or len({row.item.source_ref for row in rows}) < len(rows):
        return None
    rows = await with_meanings(resources, identity, rows)
    try:
        session, topics = await storage.add_rows(
            resources.database,
            identity,
            current.session,
            rows,
            tokens=sum(counted(row.item.content, limit) for row in rows),
            limit=limit,
            embed_topic=EMBED_TOPIC,
            summary_topic=SUMMARISE_TOPIC,
            every=SUMMARY_EVERY,
            now=now,
        )
    except (Conflict, InvalidInput):  # it has changed, or the leak guard refuses what may exist already
        return None
    for topic in topics:
        resources.wake(topic)
    resources.get(OpenSessions).note(identity, replace(current, session=session))
    remembered = tuple(remember.answer_for(row, row.item_id, was_new=True) for row in rows)
    return Added(session_id=session.session_id, messages=remembered, window=state_of(session, limit=limit))


def _item(message: NewMessage, scope: Scope | None) -> NewItem:
    metadata = checked_json("metadata", dict(message.metadata or {}))
    if message.message_id is not None:
        metadata["message_id"] = checked_id("message_id", message.message_id)
    role = checked_choice("role", MessageRole, message.role)
    trust = trust_of(role, message.trust)
    return NewItem(
        content=message.content,
        kind=Kind.TOOL_OUTPUT if role is MessageRole.TOOL else Kind.CHAT_MESSAGE,
        scope=scope,
        # Not derived from the text: people repeat themselves, even within one call.
        source_ref=message.message_id or str(new_id()),
        speaker=message.speaker or (role if trust is TRUST[role] else trust),
        event_time=message.event_time,
        trust=trust,
        metadata={**metadata, "role": role},
    )


def _in_session(ready: Ready, session: Session) -> Ready:
    """The rows with their session filled in.

    A message id is unique within a line of sessions: two conversations may use the same ids, and a message sent again
    after its session was closed is still the same message.
    """
    rows = []
    for row in ready.rows:
        metadata = {**row.item.metadata, "tokens": message_tokens(row.item.content)}
        # The owner of the session, also if an administrator writes to it who names no user.
        agent_id = row.item.agent_id if session.user_id is not None else session.agent_id
        owner: dict[str, Any] = {"user_id": session.user_id, "agent_id": agent_id}
        source_ref = f"{session.root_id}:{row.item.source_ref}"
        item = replace(row.item, session_id=session.session_id, source_ref=source_ref, metadata=metadata, **owner)
        placed = replace(row, item=item, thread=session.thread)
        rows.append(placed if item.payload is None else with_source_ref(placed, source_ref))
    return Ready(rows=tuple(rows), objects=ready.objects)


def _notes(fresh: Sequence[Row], *, now: datetime) -> list[SessionNote]:
    return [
        SessionNote(note_id=new_id(), **columns_of(finding), item_id=row.item_id, created_at=now)
        for row in fresh
        if row.item.trust in REVIEWED_TRUST and row.item.metadata["role"] in _NOTED_ROLES
        for finding in notes_in(row.item.content)
    ]


async def _with_messages(
    resources: Resources, tx: Transaction, current: SessionWithModel, fresh: Sequence[Row]
) -> Session:
    """The session with new messages in its window; above the limit the oldest leave the window."""
    limit, session = limit_of(resources, current), current.session
    tokens = session.window_tokens + sum(counted(row.item.content, limit) for row in fresh)
    session = replace(session, messages=session.messages + len(fresh), window_tokens=tokens)
    if tokens > limit and (sizes := await storage.list_tokens(tx, session, first=session.window_from)):
        first, tokens = slid_to(sizes, limit)
        session = replace(session, window_from=first, window_tokens=tokens)
    return await _with_tail(tx, session, length=TAIL, compressed=False) if tail_must_move(session) else session


async def _with_tail(tx: Transaction, session: Session, *, length: int, compressed: bool) -> Session:
    sizes = await storage.list_tokens(tx, session, first=session.epoch_from or 1)
    return with_tail(session, sizes, length=length, compressed=compressed)


async def with_usage(resources: Resources, tx: Transaction, current: SessionWithModel, prompt_tokens: int) -> Session:
    """The session after a turn reported its prompt: above 80 % of the model's context a new epoch begins (W5)."""
    before, last = current.session, await storage.last_position(tx, current.session)
    session = replace(before, prompt_tokens=checked_usage(prompt_tokens))
    model_tokens = model_tokens_of(resources, current)
    if not compresses(before, prompt_tokens=prompt_tokens, model_tokens=model_tokens, last=last):
        return session
    session = await _with_tail(tx, session, length=COMPRESSED_TAIL, compressed=True)
    return replace(session, epoch=session.epoch + 1, epoch_to=last)


def _summary_due(before: Session, after: Session) -> bool:
    renewed = before.messages // SUMMARY_EVERY != after.messages // SUMMARY_EVERY
    return renewed or after.window_from != before.window_from


async def report_usage(resources: Resources, identity: Identity, session_id: str, prompt_tokens: int) -> WindowState:
    """Report how many tokens the last turn's prompt had; returns the state of the window after that."""
    async with entered(resources, identity, session_id, create=False) as (tx, current, _):
        session = await with_usage(resources, tx, current, prompt_tokens)
        await storage.save_window(tx, session, now=resources.clock())
    return state_of(session, limit=limit_of(resources, current))


async def get_window(resources: Resources, identity: Identity, session_id: str) -> Window:
    """The current window of a session; reading it does not count as activity."""
    async with resources.database.transaction(identity) as tx:
        return await read_window(resources, tx, await find_newest(tx, session_id))


async def list_messages(
    resources: Resources,
    identity: Identity,
    session_id: str,
    *,
    after: int = 0,
    until: int | None = None,
    limit: int = 50,
) -> list[Message]:
    """Messages of a session in order, after one position and up to another; each with the summary that covers it."""
    async with resources.database.transaction(identity) as tx:
        session = await find_session(tx, session_id)
        return await storage.list_messages(tx, session, first=after + 1, last=until, limit=page_size(limit))
