"""Rows of a user's erasure, and the tombstones that a journal carries over a restore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.identity import RunId, SessionId, UserId
from recordari.core.items import REDACTED
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.lifetime.rules import Erasure
from recordari.lifetime.storage import Tombstone

queries = Queries(__name__)

ERASED_TABLES = frozenset(
    {"api_keys", "erasures", "items", "profiles", "runs", "sessions", "state", "state_owners", "users", "vectors"}
)
"""Every table with a column `user_id`; a test compares it with the schema, so that no new one is overlooked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOfUser:
    """A session to erase, with the runs in it."""

    session_id: SessionId
    session_ref: UUID
    run_ids: list[RunId]


async def start_erasure(tx: Transaction, erasure_id: UUID, user_id: UserId) -> Erasure:
    """Start to erase a user, or return the erasure that is running."""
    (erasure,) = await tx.all(queries.start_erasure, Erasure, erasure_id=erasure_id, user_id=user_id)
    return erasure


async def find_erasure(tx: Transaction, erasure_id: UUID) -> Erasure | None:
    return await tx.maybe(queries.find_erasure, Erasure, erasure_id=erasure_id)


async def count_held(tx: Transaction, user_id: UserId) -> int:
    return int(await tx.value(queries.count_held, user_id=user_id))


async def has_older_writers(tx: Transaction, erasure_id: UUID) -> bool:
    return bool(await tx.value(queries.has_older_writers, erasure_id=erasure_id))


async def list_items(tx: Transaction, user_id: UserId, *, before: datetime, limit: int) -> list[UUID]:
    rows = await tx.dicts(queries.list_items, user_id=user_id, before=before, limit=limit)
    return [row["item_id"] for row in rows]


async def unplace_items(tx: Transaction, user_id: UserId, *, before: datetime) -> None:
    await tx.run(queries.unplace_items, user_id=user_id, before=before)


async def list_sessions(tx: Transaction, user_id: UserId, *, before: datetime, limit: int) -> list[SessionOfUser]:
    return await tx.all(queries.list_sessions, SessionOfUser, user_id=user_id, before=before, limit=limit)


async def list_runs(tx: Transaction, user_id: UserId, *, before: datetime) -> list[RunId]:
    return [row["run_id"] for row in await tx.dicts(queries.list_runs, user_id=user_id, before=before)]


async def delete_runs(tx: Transaction, run_ids: Sequence[RunId]) -> None:
    await tx.run(queries.delete_runs, run_ids=list(run_ids))


async def delete_sessions(tx: Transaction, sessions: Sequence[SessionOfUser]) -> None:
    await tx.run(
        queries.delete_sessions,
        session_ids=[session.session_id for session in sessions],
        session_refs=[session.session_ref for session in sessions],
    )


async def list_state_sessions(tx: Transaction, user_id: UserId, *, before: datetime) -> list[SessionId]:
    rows = await tx.dicts(queries.list_state_sessions, user_id=user_id, before=before)
    return [SessionId(row["owner_id"]) for row in rows]


async def delete_user(tx: Transaction, user_id: UserId, *, before: datetime) -> None:
    await tx.run(queries.delete_user, user_id=user_id, before=before, redacted=REDACTED)


async def delete_jobs(tx: Transaction, user_id: UserId) -> None:
    """Delete finished jobs that name the user; the application's role may do that, the retention role may not."""
    await tx.run(queries.delete_jobs, user_id=user_id)


async def pseudonymise_audit(tx: Transaction, ids: Sequence[str]) -> None:
    if ids:
        await tx.value(queries.pseudonymise_audit, ids=list(ids))


async def progress(tx: Transaction, erasure_id: UUID, *, items: int = 0, sessions: int = 0) -> None:
    await tx.run(queries.progress, erasure_id=erasure_id, items=items, sessions=sessions)


async def finish_erasure(tx: Transaction, erasure_id: UUID) -> Erasure | None:
    """Close an erasure; None if it was closed already."""
    return await tx.maybe(queries.finish_erasure, Erasure, erasure_id=erasure_id)


async def find_salt(tx: Transaction) -> bytes:
    return bytes(await tx.value(queries.find_salt))


async def set_salt(tx: Transaction, salt: bytes) -> None:
    await tx.run(queries.set_salt, salt=salt)


async def list_tombstones(tx: Transaction, *, after: bytes, limit: int) -> list[Tombstone]:
    return await tx.all(queries.list_tombstones, Tombstone, after=after, limit=limit)


async def insert_tombstones(tx: Transaction, tombstones: Sequence[Tombstone]) -> None:
    await tx.run(
        queries.insert_tombstones,
        hashes=[stone.hash for stone in tombstones],
        subjects=[stone.subject for stone in tombstones],
        item_ids=[stone.item_id for stone in tombstones],
        finals=[stone.is_final for stone in tombstones],
        ats=[stone.forgotten_at for stone in tombstones],
    )


async def find_returned_items(tx: Transaction) -> list[UUID]:
    return [row["item_id"] for row in await tx.dicts(queries.find_returned_items)]


async def find_returned_users(tx: Transaction) -> list[UserId]:
    return [row["user_id"] for row in await tx.dicts(queries.find_returned_users)]
