"""Rows that end: redacted with everything derived from them, archived or purged; tombstones; erasures of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.identity import AgentId, Owner, RunId, Scope, SessionId, UserId, owned_by
from recordari.core.items import REDACTED, Kind
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.lifetime.rules import Ended, Erasure, Hold, Trace
from recordari.sessions.rules.sessions import Fold

queries = Queries(__name__)

ERASED_TABLES = frozenset(
    {"api_keys", "erasures", "items", "mentions", "profiles", "runs", "sessions", "sign_ins", "users"}
    | {"choices", "notes", "outcomes", "payloads", "state", "state_owners", "tool_calls", "turn_states", "turns"}
    | {"question_answers", "uses", "vectors"}
)
"""Every table with a column `user_id` or `owned_by`; a test compares it with the schema: no new one is overlooked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionTarget:
    """An item to forget: its position in its thread, and whether a hold forbids it."""

    item_id: UUID
    kind: Kind
    scope: Scope
    session_id: SessionId | None
    session_owner: Owner
    thread: str | None
    position: int | None
    is_held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The trace of a forgotten item: enough to recognise it again, not enough to restore it."""

    hash: bytes
    subject: str
    item_id: UUID | None
    is_final: bool
    forgotten_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Summaries:
    session_id: SessionId
    owned_by: Owner
    session_ref: UUID
    summary_id: UUID | None
    summarised_to: int
    folded_to: int
    folds: tuple[Fold, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedObject:
    """An object whose row is gone; `is_used` when another row points to the same."""

    object_key: str
    is_used: bool


async def lock_items(tx: Transaction, item_ids: Sequence[UUID]) -> list[RedactionTarget]:
    return await tx.all(queries.lock_items, RedactionTarget, item_ids=list(item_ids))


async def resting_only_on(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    return [row["item_id"] for row in await tx.dicts(queries.resting_only_on, item_ids=list(item_ids))]


async def bury(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime) -> list[Tombstone]:
    return await tx.all(queries.bury, Tombstone, item_ids=list(item_ids), now=now)


async def redact(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime, keep_place: bool = True) -> int:
    """Remove the content of items and of everything derived from them; returns the number of rows.

    `keep_place` keeps their position in their thread, by which their neighbours count.
    """
    await tx.run(queries.forget_reasons, item_ids=list(item_ids))
    await tx.run(queries.forget_proposal_reasons, item_ids=list(item_ids))
    entities = await tx.dicts(queries.delete_derived, item_ids=list(item_ids))
    await tx.run(queries.delete_unmentioned, entity_ids=[row["entity_id"] for row in entities])
    return await tx.run(queries.redact, item_ids=list(item_ids), redacted=REDACTED, now=now, keep_place=keep_place)


async def empty_answers(tx: Transaction, ids: Sequence[str]) -> int:
    """Take the text out of kept answers that show one of these ids; returns their number."""
    return await tx.run(queries.empty_answers, ids=list(ids))


async def renew_samples(tx: Transaction) -> None:
    await tx.run(queries.renew_samples)


async def unembed_followers(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    return [row["item_id"] for row in await tx.dicts(queries.unembed_followers, item_ids=list(item_ids))]


async def lock_sessions(tx: Transaction, keys: Sequence[tuple[Owner, SessionId]]) -> list[Summaries]:
    owners, session_ids = [owner for owner, _ in keys], [session_id for _, session_id in keys]
    rows = await tx.dicts(queries.lock_sessions, owners=owners, session_ids=session_ids)
    for row in rows:
        row["folds"] = tuple(Fold(**fold | {"summary_id": UUID(fold["summary_id"])}) for fold in row["folds"])
    return [Summaries(**row) for row in rows]


async def reset_summary(tx: Transaction, session: Summaries) -> None:
    """Keep only these summaries of a session; without a `summary_id` its rolling summary begins again."""
    await tx.run(
        queries.reset_summary,
        session_id=session.session_id,
        owned_by=session.owned_by,
        summary_id=session.summary_id,
        summarised_to=session.summarised_to,
        folded_to=session.folded_to,
        folds=Jsonb([asdict(fold) | {"summary_id": str(fold.summary_id)} for fold in session.folds]),
    )


async def list_discarded(tx: Transaction, *, limit: int) -> list[DiscardedObject]:
    return await tx.all(queries.list_discarded, DiscardedObject, limit=limit)


async def delete_discarded(tx: Transaction, object_keys: Sequence[str]) -> None:
    await tx.run(queries.delete_discarded, object_keys=list(object_keys))


async def list_ended(tx: Transaction, *, after: UUID, limit: int) -> list[Ended]:
    return await tx.all(queries.list_ended, Ended, after=after, limit=limit)


async def count_kept(tx: Transaction) -> int:
    return int(await tx.value(queries.count_kept))


async def archive_items(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime) -> int:
    return len(await tx.dicts(queries.archive_items, item_ids=list(item_ids), now=now))


async def purge_items(tx: Transaction, item_ids: Sequence[UUID]) -> int:
    return len(await tx.dicts(queries.purge_items, item_ids=list(item_ids)))


async def list_used_objects(tx: Transaction, object_keys: Sequence[str]) -> set[str]:
    rows = await tx.dicts(queries.list_used_objects, object_keys=list(object_keys))
    return {row["object_key"] for row in rows}


async def find_trace(tx: Transaction, item_id: UUID) -> Trace | None:
    """How an item was used; its sources are not counted."""
    return await tx.maybe(queries.find_trace, Trace, item_id=item_id)


async def list_recent(tx: Transaction, *, after: UUID, limit: int) -> list[Trace]:
    return await tx.all(queries.list_recent, Trace, after=after, limit=limit)


async def archive_faded(
    tx: Transaction, item_ids: Sequence[UUID], *, now: datetime, recalled_since: datetime
) -> list[UUID]:
    rows = await tx.dicts(queries.archive_faded, item_ids=list(item_ids), now=now, recalled_since=recalled_since)
    return [row["item_id"] for row in rows]


async def promote_items(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    return [row["item_id"] for row in await tx.dicts(queries.promote_items, item_ids=list(item_ids))]


async def insert_hold(tx: Transaction, item_id: UUID, action_id: str) -> bool:
    return await tx.run(queries.insert_hold, item_id=item_id, action_id=action_id) == 1


async def delete_hold(tx: Transaction, item_id: UUID, action_id: str) -> bool:
    return await tx.run(queries.delete_hold, item_id=item_id, action_id=action_id) == 1


async def list_holds(tx: Transaction, item_id: UUID) -> list[Hold]:
    return await tx.all(queries.list_holds, Hold, item_id=item_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedSession:
    session_id: SessionId
    session_ref: UUID
    run_ids: list[RunId]


async def start_erasure(tx: Transaction, erasure_id: UUID, user_id: UserId) -> Erasure:
    (erasure,) = await tx.all(queries.start_erasure, Erasure, erasure_id=erasure_id, user_id=user_id)
    return erasure


async def list_erasures(tx: Transaction, *, before: UUID, limit: int) -> list[Erasure]:
    return await tx.all(queries.list_erasures, Erasure, before=before, limit=limit)


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
    await tx.run(queries.unplace_items, owned_by=owned_by(user_id, None), before=before)


async def list_sessions(tx: Transaction, user_id: UserId, *, before: datetime, limit: int) -> list[OwnedSession]:
    return await tx.all(queries.list_sessions, OwnedSession, user_id=user_id, before=before, limit=limit)


async def delete_sessions(tx: Transaction, owner: Owner, sessions: Sequence[OwnedSession]) -> None:
    await tx.run(
        queries.delete_sessions,
        owned_by=owner,
        run_ids=[run_id for session in sessions for run_id in session.run_ids],
        session_ids=[session.session_id for session in sessions],
        session_refs=[session.session_ref for session in sessions],
    )


async def count_held_of_agent(tx: Transaction, agent_id: AgentId) -> int:
    return int(await tx.value(queries.count_held_of_agent, agent_id=agent_id))


async def list_items_of_agent(tx: Transaction, agent_id: AgentId, *, limit: int) -> list[UUID]:
    rows = await tx.dicts(queries.list_items_of_agent, agent_id=agent_id, limit=limit)
    return [row["item_id"] for row in rows]


async def list_sessions_of_agent(tx: Transaction, agent_id: AgentId, *, limit: int) -> list[OwnedSession]:
    owner = owned_by(None, agent_id)
    return await tx.all(queries.list_sessions_of_agent, OwnedSession, owned_by=owner, limit=limit)


async def delete_state_of_agent(tx: Transaction, agent_id: AgentId) -> None:
    await tx.run(queries.delete_state_of_agent, agent_id=agent_id, owned_by=owned_by(None, agent_id))


async def list_state_sessions(tx: Transaction, user_id: UserId, *, before: datetime) -> list[SessionId]:
    rows = await tx.dicts(queries.list_state_sessions, owned_by=owned_by(user_id, None), before=before)
    return [SessionId(row["owner_id"]) for row in rows]


async def delete_user(tx: Transaction, user_id: UserId, *, before: datetime, token: str) -> None:
    """Delete what names the user; a `token` that nobody keeps makes an owner of its own for each outcome that stays."""
    owner = owned_by(user_id, None)
    await tx.run(queries.delete_user, user_id=user_id, owned_by=owner, before=before, redacted=REDACTED, token=token)


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
