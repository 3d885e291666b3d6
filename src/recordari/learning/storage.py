"""Rows of closed sessions as something to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from recordari.core.identity import AgentId, Scope, SessionId, UserId
from recordari.core.ids import new_id
from recordari.core.items import Kind, Trust
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.learning.rules.patterns import Observed
from recordari.learning.rules.proposals import (
    Input,
    InputNow,
    NewProposal,
    Proposal,
    ProposalKind,
    ProposalStatus,
    ReviewedItem,
)
from recordari.memory.storage import thread_of

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


FIRST, LAST = UUID(int=0), UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedProposal:
    """A proposal that nobody else decides meanwhile."""

    inputs: int
    links_made: list[UUID]


async def find_mark(tx: Transaction) -> UUID:
    """The last item that was compared with the others."""
    found: UUID | None = await tx.value(queries.find_mark)
    return found or FIRST


async def save_mark(tx: Transaction, examined_to: UUID, *, now: datetime) -> None:
    """Note the last item that was compared with the others."""
    await tx.run(queries.save_mark, examined_to=examined_to, now=now)


async def list_lasting(tx: Transaction, *, after: UUID, limit: int) -> list[UUID]:
    """Live facts and procedures by id, after the one given."""
    return [row["item_id"] for row in await tx.dicts(queries.list_lasting, after=after, limit=limit)]


async def weigh(tx: Transaction, item_ids: Sequence[UUID]) -> dict[UUID, ReviewedItem]:
    """Items as they are weighed against each other."""
    rows = await tx.dicts(queries.weigh, item_ids=list(item_ids))
    return {row["item_id"]: ReviewedItem(**{**row, "trust": Trust(row["trust"])}) for row in rows}


async def insert_proposal(tx: Transaction, new: NewProposal, *, now: datetime) -> UUID | None:
    """Make a proposal; None when the same is open or was rejected, or when an input is gone."""
    proposal_id = new_id()
    inputs = sorted({*new.item_ids, *([new.successor_id] if new.successor_id is not None else [])})
    made = await tx.run(
        queries.insert_proposal,
        proposal_id=proposal_id,
        kind=str(new.kind),
        rule=new.rule,
        key=new.key,
        successor_id=new.successor_id,
        inputs=inputs,
        now=now,
    )
    return proposal_id if made else None


def _proposal(row: dict[str, Any]) -> Proposal:
    return Proposal(
        **{
            **row,
            "kind": ProposalKind(row["kind"]),
            "status": ProposalStatus(row["status"]),
            "item_ids": tuple(row["item_ids"]),
        }
    )


async def find_proposal(tx: Transaction, proposal_id: UUID) -> Proposal | None:
    """One proposal."""
    rows = await tx.dicts(queries.find_proposal, proposal_id=proposal_id)
    return _proposal(rows[0]) if rows else None


async def lock_proposal(tx: Transaction, proposal_id: UUID) -> LockedProposal | None:
    """Lock a proposal until the transaction ends."""
    return await tx.maybe(queries.lock_proposal, LockedProposal, proposal_id=proposal_id)


async def list_proposals(
    tx: Transaction, *, status: ProposalStatus | None, kind: ProposalKind | None, before: UUID | None, limit: int
) -> list[Proposal]:
    """Proposals, newest first."""
    rows = await tx.dicts(
        queries.list_proposals,
        status=str(status) if status is not None else None,
        kind=str(kind) if kind is not None else None,
        before=before or LAST,
        limit=limit,
    )
    return [_proposal(row) for row in rows]


async def inputs_of(tx: Transaction, proposal_id: UUID) -> list[Input]:
    """The inputs of a proposal as they stood."""
    return await tx.all(queries.inputs_of, Input, proposal_id=proposal_id)


async def inputs_now(tx: Transaction, item_ids: Sequence[UUID]) -> list[InputNow]:
    """How items stand now."""
    return await tx.all(queries.inputs_now, InputNow, item_ids=list(item_ids))


async def decide(
    tx: Transaction,
    proposal_id: UUID,
    status: ProposalStatus,
    *,
    now: datetime,
    reason: str | None,
    links_made: Sequence[UUID] = (),
) -> None:
    """Note what became of a proposal."""
    await tx.run(
        queries.decide,
        proposal_id=proposal_id,
        status=str(status),
        now=now,
        decided_by=tx.identity.actor,
        reason=reason,
        links_made=list(links_made),
    )


async def lend_links(tx: Transaction, item_ids: Sequence[UUID], *, successor_id: UUID) -> list[UUID]:
    """Let an item rest on what others rested on; the sources that are new to it."""
    rows = await tx.dicts(queries.lend_links, item_ids=list(item_ids), successor_id=successor_id)
    return [row["source_item_id"] for row in rows]


async def return_links(tx: Transaction, source_ids: Sequence[UUID], *, successor_id: UUID) -> None:
    """Let an item no longer rest on what it was lent."""
    await tx.run(queries.return_links, source_ids=list(source_ids), successor_id=successor_id)


async def set_tier(tx: Transaction, item_ids: Sequence[UUID], *, was: str, tier: str) -> list[UUID]:
    """Move items from one tier to another; which those were."""
    rows = await tx.dicts(queries.set_tier, item_ids=list(item_ids), was=was, tier=tier)
    return [row["item_id"] for row in rows]
