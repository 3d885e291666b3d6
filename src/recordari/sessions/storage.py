"""Rows of sessions, their messages and their notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.checks import BEGINNING, END
from recordari.core.identity import AgentId, Identity, Owner, RunId, SessionId, UserId, owned_by, session_thread
from recordari.core.ids import LAST
from recordari.core.items import Trust
from recordari.core.tokens import message_tokens
from recordari.db.database import BatchedQuery, Database, Transaction
from recordari.db.pipeline import Part
from recordari.db.queries import Queries, Record, all_as, columns_of, delegated, reader
from recordari.memory import storage as memory_storage
from recordari.memory.storage import Row
from recordari.sessions.rules.runs import ABANDONED
from recordari.sessions.rules.sessions import MAX_NOTES, CloseReason, Fold, Session, SessionNote
from recordari.sessions.rules.window import Message, role_of

queries = Queries(__name__)

# What a recall or a context asks each time.
_FIND_NEWEST = delegated(queries.find_newest)
_LIST_NEWEST_NOTES = delegated(queries.list_newest_notes)
_LIST_TAIL = delegated(queries.list_tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    session_id: SessionId
    session_ref: UUID
    root_id: SessionId
    continues: SessionId | None
    user_id: UserId | None
    agent_id: AgentId | None
    idle_seconds: int
    notes_seconds: int
    window_share: float
    metadata: dict[str, Any]

    @property
    def owned_by(self) -> Owner:
        return owned_by(self.user_id, self.agent_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSession:
    session_id: SessionId
    owned_by: Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWithModel:
    """A session, and the context size of its agent's model, if it is known."""

    session: Session
    model_tokens: int | None


def arrays_of(row_type: type, rows: Sequence[Any], **others: Any) -> dict[str, Any]:
    """One array for each field of a dataclass, as the parameters of an `unnest`."""
    return {column.name: [getattr(row, column.name) for row in rows] for column in fields(row_type)} | others


def _session(row: Record) -> Session:
    return reader(Session)(**{**row, "folds": _folds(row["folds"])})


def _folds(stored: Sequence[Mapping[str, Any]]) -> tuple[Fold, ...]:
    return tuple(Fold(**{**fold, "summary_id": UUID(fold["summary_id"])}) for fold in stored)


def _first(rows: Sequence[Record]) -> Session | None:
    return _session(rows[0]) if rows else None


def _first_with_model(rows: Sequence[Record]) -> SessionWithModel | None:
    if not rows:
        return None
    columns = dict(rows[0])
    model_tokens = columns.pop("model_tokens")
    return SessionWithModel(session=_session(columns), model_tokens=model_tokens)


async def lock_open(tx: Transaction, owner: Owner, session_id: SessionId) -> SessionWithModel | None:
    return _first_with_model(await tx.dicts(queries.lock_open, owned_by=owner, session_id=session_id))


async def find_newest(tx: Transaction, owner: Owner, session_id: SessionId) -> SessionWithModel | None:
    return _first_with_model(await tx.dicts(queries.find_newest, owned_by=owner, session_id=session_id))


def ask_newest(owner: Owner, session_id: SessionId) -> BatchedQuery[SessionWithModel | None]:
    return BatchedQuery(_FIND_NEWEST, _first_with_model, owned_by=owner, session_id=session_id)


async def find_session(tx: Transaction, owner: Owner, session_id: SessionId) -> Session | None:
    return _first(await tx.dicts(queries.find_session, owned_by=owner, session_id=session_id))


def ask_session(owner: Owner, session_id: SessionId) -> BatchedQuery[Session | None]:
    return BatchedQuery(queries.find_session, _first, owned_by=owner, session_id=session_id)


async def list_session_owners(tx: Transaction, session_id: SessionId) -> list[Owner]:
    """Owners of sessions with this id: the identity's own first, and at most two."""
    rows = await tx.dicts(queries.list_session_owners, own=tx.identity.owned_by, session_id=session_id)
    return [row["owned_by"] for row in rows]


async def find_by_refs(tx: Transaction, session_refs: Sequence[UUID]) -> list[Session]:
    return [_session(row) for row in await tx.dicts(queries.find_by_refs, session_refs=list(session_refs))]


async def insert_session(tx: Transaction, new: NewSession, *, now: datetime) -> bool:
    """Open a session; False when its id is taken or its line has an open one."""
    columns = columns_of(new, owned_by=new.owned_by, metadata=Jsonb(new.metadata), now=now)
    return await tx.run(queries.insert_session, **columns) == 1


async def list_sessions(
    tx: Transaction, *, since: datetime | None, until: datetime | None, before: UUID | None, **filters: object
) -> list[Session]:
    rows = await tx.dicts(
        queries.list_sessions, since=since or BEGINNING, until=until or END, before=before or LAST, **filters
    )
    return [_session(row) for row in rows]


def ask_earlier(owner: Owner, *, limit: int) -> BatchedQuery[list[Session]]:
    """The newest sessions of an owner."""
    every = {"agent_id": None, "user_id": None, "status": None, "since": BEGINNING, "until": END, "before": LAST}
    read = lambda rows: [_session(row) for row in rows]  # noqa: E731
    return BatchedQuery(queries.list_sessions, read, owned_by=owner, limit=limit, **every)


async def touch(tx: Transaction, owner: Owner, session_id: SessionId, *, now: datetime) -> None:
    """Note that there was activity in a session."""
    await tx.run(queries.touch, owned_by=owner, session_id=session_id, now=now)


async def save_window(tx: Transaction, session: Session, *, now: datetime) -> None:
    await tx.run(queries.save_window, **columns_of(session, owned_by=session.owned_by, now=now))


ENTER_OPEN = delegated(queries.enter_open)
ADD_MESSAGES = delegated(queries.add_messages.filled(new_items=memory_storage.NEW_ITEMS))


async def add_rows(
    database: Database,
    identity: Identity,
    session: Session,
    rows: Sequence[Row],
    *,
    tokens: int,
    limit: int,
    embed_topic: str,
    summary_topic: str,
    every: int,
    now: datetime,
) -> tuple[Session, set[str]]:
    """Write messages with their meanings and the session's window, in one round trip.

    Returns the session after it and the topics with work. `Conflict` if the session is not as it was: nothing is written.
    """
    expected = {"session_id": session.session_id, "owned_by": session.owned_by, "root_id": session.root_id}
    room = {"tokens": tokens, "limit": limit, "thread": session.thread, "now": now}

    def following() -> Iterator[Part]:
        yield (
            ADD_MESSAGES,
            {
                **memory_storage.insert_values(rows, topic=embed_topic),
                "of_session": session.session_id,
                "of_owner": session.owned_by,
                "tokens_added": tokens,
                "now": now,
                "many": len(rows),
                "every": every,
                "summary_topic": summary_topic,
            },
        )

    _, written = await database.pipeline(identity, ENTER_OPEN, expected | room, following)
    _, _, messages, first, window_tokens, epoch, folds = written[0]
    topics = {topic for _, topic, *_ in written if topic is not None}
    if messages // every != (messages - len(rows)) // every:
        topics.add(summary_topic)
    window = {"messages": messages, "window_from": first, "window_tokens": window_tokens, "epoch": epoch}
    return replace(session, **window, folds=_folds(folds)), topics


async def save_summary(
    tx: Transaction, session: Session, *, summary: str, summary_id: UUID | None, trust: Trust, summarised_to: int
) -> bool:
    """Save a renewed summary; False when another worker has covered more messages."""
    changed = await tx.run(
        queries.save_summary,
        session_id=session.session_id,
        owned_by=session.owned_by,
        summary=summary,
        summary_id=summary_id,
        summary_trust=trust,
        summarised_to=summarised_to,
        was=session.summarised_to,
    )
    return changed == 1


async def list_resting_summaries(tx: Transaction, *, before: datetime) -> list[UUID]:
    return [row["summary_id"] for row in await tx.dicts(queries.list_resting_summaries, before=before)]


async def save_fold(tx: Transaction, session: Session, fold: Fold) -> bool:
    """Save the pointer to a lasting summary; False when another worker made it."""
    pointer = columns_of(fold, summary_id=str(fold.summary_id))
    changed = await tx.run(
        queries.save_fold,
        session_id=session.session_id,
        owned_by=session.owned_by,
        fold=Jsonb([pointer]),
        folded_to=fold.last,
        was=session.folded_to,
    )
    return changed == 1


async def close_session(
    tx: Transaction, owner: Owner, session_id: SessionId, reason: CloseReason, *, now: datetime
) -> list[RunId] | None:
    """Close a session and abandon its running runs: their ids, or None when it was closed before."""
    abandoned: list[RunId] | None = await tx.value(
        queries.close_session, owned_by=owner, session_id=session_id, reason=reason, now=now, error=ABANDONED
    )
    return abandoned


async def list_idle(tx: Transaction, *, now: datetime, limit: int) -> list[IdleSession]:
    return await tx.all(queries.list_idle, IdleSession, now=now, limit=limit)


async def last_position(tx: Transaction, session: Session) -> int:
    """The last position in a session's thread; 0 when it has no message."""
    return int(await tx.value(queries.last_position, thread=session.thread))


async def list_tokens(tx: Transaction, session: Session, *, first: int) -> list[tuple[int, int]]:
    """The position of every message from one on with its tokens, oldest first."""
    rows = await tx.dicts(queries.list_tokens, thread=session.thread, first=first)
    return [
        (row["position"], row["tokens"] if row["content"] is None else message_tokens(row["content"])) for row in rows
    ]


async def list_messages(
    tx: Transaction, session: Session, *, first: int, last: int | None = None, limit: int
) -> list[Message]:
    thread, end = session.thread, 2**31 - 1 if last is None else last
    return _messages(session, await tx.dicts(queries.list_messages, thread=thread, first=first, last=end, limit=limit))


async def list_spans(
    tx: Transaction, spans: Sequence[tuple[Session, int, int | None]], *, limit: int
) -> list[list[Message]]:
    """For each session, the messages from one position to another, or to the last; at most so many of each."""
    rows = await tx.dicts(
        queries.list_spans,
        threads=[session.thread for session, _, _ in spans],
        firsts=[first for _, first, _ in spans],
        lasts=[2**31 - 1 if last is None else last for _, _, last in spans],
        limit=limit,
    )
    by_span: list[list[Record]] = [[] for _ in spans]
    for row in rows:
        by_span[row.pop("span") - 1].append(row)
    return [_messages(session, of_span) for (session, _, _), of_span in zip(spans, by_span, strict=True)]


async def list_newest_messages(tx: Transaction, session: Session, *, first: int, limit: int) -> list[Message]:
    """The newest messages of a session from a position on, oldest first."""
    rows = await tx.dicts(queries.list_newest_messages, thread=session.thread, first=first, limit=limit)
    return _messages(session, rows[::-1])


def ask_newest_messages(session: Session, *, first: int, limit: int) -> BatchedQuery[list[Record]]:
    """Rows for `messages_of`."""
    return BatchedQuery(queries.list_newest_messages, list, thread=session.thread, first=first, limit=limit)


def ask_tail(owner: Owner, session_id: SessionId, *, of_epoch: bool, limit: int) -> BatchedQuery[list[Record]]:
    """The same for the window of the newest session of a line, or for its epoch, before the session is known."""
    ids = {"owned_by": owner, "session_id": session_id}
    return BatchedQuery(_LIST_TAIL, list, of_epoch=of_epoch, limit=limit, **ids)


def messages_of(session: Session, rows: Sequence[Record]) -> list[Message]:
    """The messages of a session from rows that are newest first; oldest first."""
    return _messages(session, rows[::-1])


async def list_unsummarised(tx: Transaction, session: Session, *, before: int | None, limit: int) -> list[Message]:
    """The newest messages of a session that its summary does not cover, oldest first."""
    columns = _unsummarised(session.owned_by, session.session_id, before=before, limit=limit)
    return _messages(session, (await tx.dicts(queries.list_unsummarised, **columns))[::-1])


def ask_unsummarised(
    owner: Owner, session_id: SessionId, *, before: int | None = None, limit: int
) -> BatchedQuery[list[Message]]:
    columns = _unsummarised(owner, session_id, before=before, limit=limit)
    return BatchedQuery(queries.list_unsummarised, lambda rows: _messages(None, rows[::-1]), **columns)


def _unsummarised(owner: Owner, session_id: SessionId, *, before: int | None, limit: int) -> dict[str, Any]:
    return {
        "thread": session_thread(owner, session_id),
        "session_id": session_id,
        "owned_by": owner,
        "before": 2**31 - 1 if before is None else before,
        "limit": limit,
    }


def _messages(session: Session | None, rows: Sequence[Record]) -> list[Message]:
    read = reader(Message)
    return [
        read(
            **row,
            role=role_of(row["trust"], row["metadata"]),
            tokens=message_tokens(row["content"]),
            message_id=row["metadata"].get("message_id"),
            summary_id=session.fold_of(row["position"]) if session is not None else None,
        )
        for row in rows
    ]


async def insert_notes(tx: Transaction, session: Session, notes: Sequence[SessionNote], *, now: datetime) -> None:
    """Add notes; above the maximum of a session the least important go. The session must be locked."""
    arrays = arrays_of(SessionNote, notes, kind=[str(note.kind) for note in notes])
    surplus = await tx.dicts(queries.insert_notes, **arrays, **_key(session), now=now, most=MAX_NOTES)
    if surplus:
        await delete_notes(tx, session, [row["note_id"] for row in surplus])


def _key(session: Session) -> dict[str, str]:
    return {"session_id": session.session_id, "owned_by": session.owned_by}


async def empty_answer_of_note(tx: Transaction, note_id: UUID) -> None:
    await tx.run(queries.empty_answer_of_note, note_id=note_id)


async def delete_notes(tx: Transaction, session: Session, note_ids: Sequence[UUID]) -> int:
    return await tx.run(queries.delete_notes, **_key(session), note_ids=list(note_ids))


async def list_notes(tx: Transaction, session: Session) -> list[SessionNote]:
    return await tx.all(queries.list_notes, SessionNote, **_key(session))


def ask_newest_notes(owner: Owner, session_id: SessionId) -> BatchedQuery[list[SessionNote]]:
    """The notes of the newest session of a line."""
    return BatchedQuery(_LIST_NEWEST_NOTES, all_as(SessionNote), owned_by=owner, session_id=session_id)


async def delete_expired(tx: Transaction, *, now: datetime) -> int:
    return await tx.run(queries.delete_expired, now=now)
