"""Rows of sessions, and the messages of their threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.checks import BEGINNING, END
from recordari.core.identity import AgentId, RunId, Scope, SessionId, UserId
from recordari.core.ids import LAST
from recordari.core.items import Trust
from recordari.core.tokens import message_tokens
from recordari.db.database import BatchedQuery, Record, Transaction
from recordari.db.queries import Queries, columns_of
from recordari.memory.storage import thread_of
from recordari.sessions.rules.runs import ABANDONED
from recordari.sessions.rules.sessions import MAX_NOTES, CloseReason, Fold, Note, NoteKind, Session, SessionStatus
from recordari.sessions.rules.window import Message, role_of

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A session to insert."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionWithModel:
    """A session, and the tokens of its agent's model where that is known."""

    session: Session
    model_tokens: int | None


def _session(row: dict[str, Any]) -> Session:
    folds = tuple(
        Fold(summary_id=UUID(one["summary_id"]), first=one["first"], last=one["last"]) for one in row["folds"]
    )
    reason = row["close_reason"]
    return Session(
        **{
            **row,
            "status": SessionStatus(row["status"]),
            "close_reason": CloseReason(reason) if reason else None,
            "folds": folds,
        }
    )


def _standing(row: dict[str, Any]) -> SessionWithModel:
    session = {name: value for name, value in row.items() if name != "model_tokens"}
    return SessionWithModel(session=_session(session), model_tokens=row["model_tokens"])


async def lock_open(tx: Transaction, session_id: SessionId) -> SessionWithModel | None:
    """Lock the open session of the line that the id belongs to."""
    rows = await tx.dicts(queries.lock_open, session_id=session_id)
    return _standing(rows[0]) if rows else None


async def find_newest(tx: Transaction, session_id: SessionId) -> SessionWithModel | None:
    """Find the newest session of the line that the id belongs to."""
    rows = await tx.dicts(queries.find_newest, session_id=session_id)
    return _standing(rows[0]) if rows else None


def ask_newest(session_id: SessionId) -> BatchedQuery[SessionWithModel | None]:
    """The same, sent along with others."""
    return BatchedQuery(queries.find_newest, lambda rows: _standing(rows[0]) if rows else None, session_id=session_id)


async def find_session(tx: Transaction, session_id: SessionId) -> Session | None:
    """One session by its own id."""
    rows = await tx.dicts(queries.find_session, session_id=session_id)
    return _session(rows[0]) if rows else None


def ask_session(session_id: SessionId) -> BatchedQuery[Session | None]:
    """The same, sent along with others."""
    return BatchedQuery(queries.find_session, lambda rows: _session(rows[0]) if rows else None, session_id=session_id)


async def find_by_ref(tx: Transaction, session_ref: UUID) -> SessionWithModel | None:
    """One session by its reference."""
    rows = await tx.dicts(queries.find_by_ref, session_ref=session_ref)
    return _standing(rows[0]) if rows else None


async def insert_session(tx: Transaction, new: NewSession, *, now: datetime) -> bool:
    """Open a session; False when its id is taken or its line has an open one."""
    changed = await tx.run(queries.insert_session, **columns_of(new, metadata=Jsonb(new.metadata), now=now))
    return changed == 1


async def list_sessions(
    tx: Transaction,
    *,
    agent_id: str | None,
    user_id: str | None,
    status: SessionStatus | None,
    since: datetime | None,
    until: datetime | None,
    before: UUID | None,
    limit: int,
) -> list[Session]:
    """Sessions that fit, newest first."""
    rows = await tx.dicts(
        queries.list_sessions,
        agent_id=agent_id,
        user_id=user_id,
        status=status,
        since=since or BEGINNING,
        until=until or END,
        before=before or LAST,
        limit=limit,
    )
    return [_session(row) for row in rows]


async def touch(tx: Transaction, session_id: SessionId, *, now: datetime) -> None:
    """Note that something happened in a session."""
    await tx.run(queries.touch, session_id=session_id, now=now)


async def save_window(tx: Transaction, session: Session, *, now: datetime) -> None:
    """Save what messages and reported usage changed."""
    await tx.run(queries.save_window, **columns_of(session, now=now))


async def save_summary(
    tx: Transaction, session: Session, *, summary: str, summary_id: UUID | None, summarised_to: int
) -> bool:
    """Save a renewed summary; False when another worker came further."""
    changed = await tx.run(
        queries.save_summary,
        session_id=session.session_id,
        summary=summary,
        summary_id=summary_id,
        summarised_to=summarised_to,
        was=session.summarised_to,
    )
    return changed == 1


async def save_fold(tx: Transaction, session: Session, fold: Fold) -> bool:
    """Save the pointer to a lasting summary; False when another worker made it."""
    pointer = {"summary_id": str(fold.summary_id), "first": fold.first, "last": fold.last}
    changed = await tx.run(
        queries.save_fold,
        session_id=session.session_id,
        fold=Jsonb([pointer]),
        folded_to=fold.last,
        was=session.folded_to,
    )
    return changed == 1


async def close_session(
    tx: Transaction, session_id: SessionId, reason: CloseReason, *, now: datetime
) -> list[RunId] | None:
    """Close a session and abandon what still runs in it: those runs, or None when it was closed before."""
    abandoned: list[RunId] | None = await tx.value(
        queries.close_session, session_id=session_id, reason=reason, now=now, error=ABANDONED
    )
    return abandoned


async def list_idle(tx: Transaction, *, now: datetime, limit: int) -> list[SessionId]:
    """Lock and list open sessions whose idle limit has passed."""
    return [row["session_id"] for row in await tx.dicts(queries.list_idle, now=now, limit=limit)]


async def last_position(tx: Transaction, session_id: SessionId) -> int:
    """The last place in a session's thread; 0 when nothing was said."""
    return int(await tx.value(queries.last_position, thread=thread_of(session_id)))


async def window_tokens(tx: Transaction, session_id: SessionId, *, first: int) -> list[tuple[int, int]]:
    """Every place in the window with its tokens, oldest first."""
    rows = await tx.dicts(queries.window_tokens, thread=thread_of(session_id), first=first)
    return [
        (row["position"], row["tokens"] if row["content"] is None else message_tokens(row["content"])) for row in rows
    ]


async def tail_position(tx: Transaction, session_id: SessionId, *, length: int) -> int | None:
    """Where a tail of so many messages begins; None when there are fewer."""
    position: int | None = await tx.value(queries.tail_position, thread=thread_of(session_id), before_last=length - 1)
    return position


async def list_messages(
    tx: Transaction, session: Session, *, first: int, last: int | None = None, limit: int
) -> list[Message]:
    """Messages of a session between two places, oldest first."""
    rows = await tx.dicts(
        queries.list_messages,
        thread=thread_of(session.session_id),
        first=first,
        last=2**31 - 1 if last is None else last,
        limit=limit,
    )
    return _messages(session, rows)


async def list_newest_messages(tx: Transaction, session: Session, *, first: int, limit: int) -> list[Message]:
    """The newest messages of a session from a place on, oldest first."""
    rows = await tx.dicts(queries.list_newest_messages, thread=thread_of(session.session_id), first=first, limit=limit)
    return _messages(session, rows[::-1])


def ask_newest_messages(session: Session, *, first: int, limit: int) -> BatchedQuery[list[Message]]:
    """The same, sent along with others."""
    return BatchedQuery(
        queries.list_newest_messages,
        lambda rows: _messages(session, rows[::-1]),
        thread=thread_of(session.session_id),
        first=first,
        limit=limit,
    )


def _messages(session: Session, rows: Sequence[dict[str, Any]]) -> list[Message]:
    return [
        Message(
            item_id=row["item_id"],
            position=row["position"],
            role=role_of(row["trust"], row["metadata"]),
            trust=Trust(row["trust"]),
            speaker=row["speaker"],
            content=row["content"],
            tokens=message_tokens(row["content"]),
            scope=Scope(row["scope"]),
            event_time=row["event_time"],
            payload_key=row["payload_key"],
            message_id=row["metadata"].get("message_id"),
            summary_id=session.fold_of(row["position"]),
            metadata=row["metadata"],
        )
        for row in rows
    ]


async def insert_notes(tx: Transaction, session_id: SessionId, notes: Sequence[Note], *, now: datetime) -> None:
    """Add notes; past the most that a session may have, the least important go. The session must be locked."""
    surplus = await tx.dicts(
        queries.insert_notes,
        session_id=session_id,
        note_ids=[note.note_id for note in notes],
        kinds=[str(note.kind) for note in notes],
        contents=[note.content for note in notes],
        importances=[note.importance for note in notes],
        item_ids=[note.item_id for note in notes],
        now=now,
        most=MAX_NOTES,
    )
    if surplus:
        await delete_notes(tx, session_id, [row["note_id"] for row in surplus])


async def delete_notes(tx: Transaction, session_id: SessionId, note_ids: Sequence[UUID]) -> int:
    """Remove notes; how many there were."""
    return await tx.run(queries.delete_notes, session_id=session_id, note_ids=list(note_ids))


async def list_notes(tx: Transaction, session_id: SessionId) -> list[Note]:
    """The notes of a session in the order they were made."""
    return _notes(await tx.dicts(queries.list_notes, session_id=session_id))


def ask_notes(session_id: SessionId) -> BatchedQuery[list[Note]]:
    """The same, sent along with others."""
    return BatchedQuery(queries.list_notes, _notes, session_id=session_id)


async def delete_expired(tx: Transaction, *, now: datetime) -> int:
    """Remove notes that have outlived their sessions' activity; how many there were."""
    return await tx.run(queries.delete_expired, now=now)


def _notes(rows: Sequence[Record]) -> list[Note]:
    return [Note(**{**row, "kind": NoteKind(row["kind"])}) for row in rows]
