"""Rows of closed sessions as something to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from recordari.core.identity import AgentId, Scope, SessionId, UserId
from recordari.core.items import Kind, Trust
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.domain.patterns import Observed
from recordari.sessions.storage import thread_of

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A session that is to be consolidated."""

    session_ref: UUID
    closed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A closed session to learn from, locked."""

    session_id: SessionId
    user_id: UserId | None
    agent_id: AgentId | None
    summary_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SameTopic:
    """A pattern about the same thing, and since when it holds."""

    item_id: UUID
    valid_at: datetime


async def list_due(tx: Transaction, *, before: datetime, after: Due | None, limit: int) -> list[Due]:
    """Sessions that were closed before a moment and not consolidated yet, after the one given."""
    place = after or Due(session_ref=UUID(int=0), closed_at=datetime(1, 1, 1, tzinfo=UTC))
    return await tx.all(
        queries.list_due, Due, before=before, after=place.closed_at, after_ref=place.session_ref, limit=limit
    )


async def lock_closed(tx: Transaction, session_ref: UUID) -> Closed | None:
    """Lock a closed session; None when it is not closed, or was consolidated."""
    rows = await tx.dicts(queries.lock_closed, session_ref=session_ref)
    if not rows:
        return None
    row = rows[0]
    folds = row.pop("folds")
    return Closed(**row, summary_ids=tuple(UUID(one["summary_id"]) for one in folds))


def _observed(rows: Sequence[dict[str, Any]]) -> list[Observed]:
    return [
        Observed(**{**row, "kind": Kind(row["kind"]), "scope": Scope(row["scope"]), "trust": Trust(row["trust"])})
        for row in rows
    ]


async def list_observed(tx: Transaction, session_id: SessionId, *, limit: int) -> list[Observed]:
    """What was said and done in a session, as far as it may be learned from."""
    return _observed(await tx.dicts(queries.list_observed, thread=thread_of(session_id), limit=limit))


async def list_earlier(tx: Transaction, closed: Closed, *, limit: int) -> list[Observed]:
    """What the session's agent did before it."""
    rows = await tx.dicts(
        queries.list_earlier,
        agent_id=closed.agent_id,
        user_id=closed.user_id,
        session_id=closed.session_id,
        limit=limit,
    )
    return _observed(rows)


async def same_topic(tx: Transaction, item_id: UUID) -> list[SameTopic]:
    """Live patterns of the same owner about the same thing."""
    return await tx.all(queries.same_topic, SameTopic, item_id=item_id)


async def archive_sources(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime) -> list[UUID]:
    """Take episodes out of recall; which those were."""
    return [row["item_id"] for row in await tx.dicts(queries.archive_sources, item_ids=list(item_ids), now=now)]


async def promote_summaries(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    """Let summaries last that tell nothing from untrusted carriers; which those were."""
    return [row["item_id"] for row in await tx.dicts(queries.promote_summaries, item_ids=list(item_ids))]


async def promote_session_facts(tx: Transaction, session_id: SessionId, *, sources: int) -> list[UUID]:
    """Let facts of a session last that so many separate sources bear out; which those were."""
    rows = await tx.dicts(queries.promote_session_facts, session_id=session_id, sources=sources)
    return [row["item_id"] for row in rows]


async def mark_consolidated(tx: Transaction, session_ref: UUID, *, now: datetime) -> None:
    """Note that what is worth keeping was taken from a session."""
    await tx.run(queries.mark_consolidated, session_ref=session_ref, now=now)
