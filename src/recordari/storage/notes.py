"""Rows of the notes of a session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from recordari.core.identity import SessionId
from recordari.db.database import Asked, Record, Transaction
from recordari.db.queries import Queries
from recordari.domain.sessions import MAX_NOTES, Note, NoteKind

queries = Queries(__name__)


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


def ask_notes(session_id: SessionId) -> Asked[list[Note]]:
    """The same, sent along with others."""
    return Asked(queries.list_notes, _notes, session_id=session_id)


async def delete_expired(tx: Transaction, *, now: datetime) -> int:
    """Remove notes that have outlived their sessions' activity; how many there were."""
    return await tx.run(queries.delete_expired, now=now)


def _notes(rows: Sequence[Record]) -> list[Note]:
    return [Note(**{**row, "kind": NoteKind(row["kind"])}) for row in rows]
