"""Rows of closed sessions, proposals, workflows, choices and outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.checks import BEGINNING, END
from recordari.core.identity import AgentId, Owner, SessionId, UserId, owned_by, session_thread
from recordari.core.ids import FIRST, LAST, new_id
from recordari.core.items import Kind
from recordari.db.database import Transaction
from recordari.db.queries import Queries, Query, columns_of
from recordari.learning.rules.patterns import Observed
from recordari.learning.rules.proposals import (
    Input,
    InputNow,
    NewProposal,
    Proposal,
    ProposalKind,
    ProposalSource,
    ProposalStatus,
    ReviewedItem,
)
from recordari.learning.rules.work import RunOfSession
from recordari.learning.rules.workflows import Choice, ChoiceRow, Outcome, PastChoice, Posterior, Workflow

queries = Queries(__name__)

SHOWN_SOURCES = 5  # of an item of a proposal


async def _item_ids(tx: Transaction, query: Query, **parameters: Any) -> list[UUID]:
    return [row["item_id"] for row in await tx.dicts(query, **parameters)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    session_ref: UUID
    closed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A closed session to learn from, locked."""

    session_id: SessionId
    user_id: UserId | None
    agent_id: AgentId | None
    summary_id: UUID | None
    """Its rolling summary."""
    summary_ids: tuple[UUID, ...]
    """Its lasting summaries."""

    @property
    def owned_by(self) -> Owner:
        return owned_by(self.user_id, self.agent_id)

    @property
    def thread(self) -> str:
        return session_thread(self.owned_by, self.session_id)


async def list_due(tx: Transaction, *, before: datetime, after: Due | None, limit: int) -> list[Due]:
    """Sessions that were closed before `before` and are not consolidated, after the session `after`."""
    position = after or Due(session_ref=FIRST, closed_at=BEGINNING)
    return await tx.all(
        queries.list_due, Due, before=before, after=position.closed_at, after_ref=position.session_ref, limit=limit
    )


async def lock_closed(tx: Transaction, session_ref: UUID) -> Closed | None:
    """Lock a closed session; None when it is open or consolidated."""
    rows = await tx.dicts(queries.lock_closed, session_ref=session_ref)
    if not rows:
        return None
    folds = rows[0].pop("folds")
    return Closed(**rows[0], summary_ids=tuple(UUID(fold["summary_id"]) for fold in folds))


async def list_observed(tx: Transaction, closed: Closed, *, limit: int) -> list[Observed]:
    return await tx.all(queries.list_observed, Observed, thread=closed.thread, limit=limit)


async def list_earlier(tx: Transaction, closed: Closed, *, limit: int) -> list[Observed]:
    return await tx.all(queries.list_earlier, Observed, **columns_of(closed), thread=closed.thread, limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    item_id: UUID
    content: str
    valid_at: datetime


async def list_runs_of_session(tx: Transaction, closed: Closed, *, limit: int) -> list[RunOfSession]:
    return await tx.all(
        queries.list_runs_of_session,
        RunOfSession,
        session_id=closed.session_id,
        owned_by=closed.owned_by,
        limit=limit,
    )


async def list_wishes(tx: Transaction, user_id: UserId, *, limit: int) -> list[Wish]:
    return await tx.all(queries.list_wishes, Wish, user_id=user_id, limit=limit)


async def same_topic(tx: Transaction, item_id: UUID) -> dict[UUID, datetime]:
    """Since when each live pattern of the same owner about the same topic holds."""
    return {row["item_id"]: row["valid_at"] for row in await tx.dicts(queries.same_topic, item_id=item_id)}


async def archive_items(tx: Transaction, item_ids: Sequence[UUID], *, kind: Kind, now: datetime) -> list[UUID]:
    """Take those of the items that are of a kind out of recall. Return their ids."""
    return await _item_ids(tx, queries.archive_items, item_ids=list(item_ids), kind=kind, now=now)


async def promote_summaries(tx: Transaction, item_ids: Sequence[UUID]) -> list[UUID]:
    """Make summaries of trusted sources persistent. Return their ids."""
    return await _item_ids(tx, queries.promote_summaries, item_ids=list(item_ids))


async def promote_session_facts(tx: Transaction, closed: Closed, *, sources: int) -> list[UUID]:
    """Make facts of a session persistent that have at least `sources` separate sources. Return their ids."""
    owner = {"session_id": closed.session_id, "owned_by": closed.owned_by}
    return await _item_ids(tx, queries.promote_session_facts, **owner, sources=sources)


async def mark_consolidated(tx: Transaction, session_ref: UUID, *, now: datetime) -> None:
    await tx.run(queries.mark_consolidated, session_ref=session_ref, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedProposal:
    inputs: int
    links_made: tuple[UUID, ...]


async def find_mark(tx: Transaction) -> UUID:
    mark: UUID | None = await tx.value(queries.find_mark)
    return mark or FIRST


async def save_mark(tx: Transaction, examined_to: UUID, *, now: datetime) -> None:
    await tx.run(queries.save_mark, examined_to=examined_to, now=now)


async def list_lasting(tx: Transaction, *, after: UUID, limit: int) -> list[UUID]:
    return await _item_ids(tx, queries.list_lasting, after=after, limit=limit)


async def list_reviewed(tx: Transaction, item_ids: Sequence[UUID]) -> dict[UUID, ReviewedItem]:
    items = await tx.all(queries.list_reviewed, ReviewedItem, item_ids=list(item_ids))
    return {item.item_id: item for item in items}


async def insert_proposal(tx: Transaction, new: NewProposal, *, now: datetime) -> UUID | None:
    """Make a proposal; None when the same one is open or was rejected, or when an input is gone."""
    proposal_id = new_id()
    count = await tx.run(
        queries.insert_proposal,
        proposal_id=proposal_id,
        kind=str(new.kind),
        rule=new.rule,
        key=new.key,
        successor_id=new.successor_id,
        inputs=sorted(new.inputs),
        now=now,
    )
    return proposal_id if count else None


async def find_proposal(tx: Transaction, proposal_id: UUID) -> Proposal | None:
    return await tx.maybe(queries.find_proposal, Proposal, proposal_id=proposal_id)


async def lock_proposal(tx: Transaction, proposal_id: UUID) -> LockedProposal | None:
    return await tx.maybe(queries.lock_proposal, LockedProposal, proposal_id=proposal_id)


async def list_proposals(
    tx: Transaction, *, status: ProposalStatus | None, kind: ProposalKind | None, before: UUID | None, limit: int
) -> list[Proposal]:
    return await tx.all(queries.list_proposals, Proposal, status=status, kind=kind, before=before or LAST, limit=limit)


async def proposed_items(
    tx: Transaction, item_ids: Sequence[UUID]
) -> dict[UUID, tuple[str | None, list[ProposalSource]]]:
    """The text of each item, and the first of its sources."""
    found: dict[UUID, tuple[str | None, list[ProposalSource]]] = {}
    for row in await tx.dicts(queries.proposed_items, item_ids=list(item_ids), sources=SHOWN_SOURCES):
        _, sources = found.setdefault(row["item_id"], (row["content"], []))
        if row["source_id"] is not None:
            sources.append(
                ProposalSource(
                    item_id=row["source_id"],
                    content=row["source_content"],
                    event_time=row["event_time"],
                    session_id=row["session_id"],
                )
            )
    return found


async def inputs_of(tx: Transaction, proposal_id: UUID) -> list[Input]:
    return await tx.all(queries.inputs_of, Input, proposal_id=proposal_id)


async def inputs_now(tx: Transaction, item_ids: Sequence[UUID]) -> list[InputNow]:
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
    """Give the sources of some items to their successor. Return the sources that are new to it."""
    rows = await tx.dicts(queries.lend_links, item_ids=list(item_ids), successor_id=successor_id)
    return [row["source_item_id"] for row in rows]


async def return_links(tx: Transaction, source_ids: Sequence[UUID], *, successor_id: UUID) -> None:
    await tx.run(queries.return_links, source_ids=list(source_ids), successor_id=successor_id)


async def set_tier(tx: Transaction, item_ids: Sequence[UUID], *, was: str, tier: str) -> list[UUID]:
    """Move items from one tier to another. Return the ids of those that moved."""
    return await _item_ids(tx, queries.set_tier, item_ids=list(item_ids), was=was, tier=tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The name that all versions of a workflow share."""

    agent_type: str
    task_type: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The active version of a workflow."""

    workflow_id: UUID
    version: int
    spec_hash: bytes


async def lock_current(tx: Transaction, named: Named) -> Current | None:
    """The active version; nobody else makes a version until the transaction ends."""
    await tx.value(queries.lock_name, **columns_of(named))
    # A statement of its own: one that waited for the lock would not see the version made meanwhile.
    return await tx.maybe(queries.find_current, Current, **columns_of(named))


async def last_version(tx: Transaction, named: Named) -> int:
    """The highest version that ever was; 0 when there was none."""
    return int(await tx.value(queries.last_version, **columns_of(named)))


async def insert_workflow(
    tx: Transaction,
    workflow_id: UUID,
    named: Named,
    *,
    version: int,
    spec: str,
    spec_hash: bytes,
    prior: Posterior,
    now: datetime,
) -> Workflow:
    (workflow,) = await tx.all(
        queries.insert_workflow,
        Workflow,
        workflow_id=workflow_id,
        version=version,
        spec=spec,
        spec_hash=spec_hash,
        now=now,
        **columns_of(named),
        **columns_of(prior),
    )
    return workflow


async def end_workflow(tx: Transaction, workflow_id: UUID, *, superseded_by: UUID | None, now: datetime) -> bool:
    """End an active version; False when it is not active."""
    return await tx.run(queries.end_workflow, workflow_id=workflow_id, superseded_by=superseded_by, now=now) == 1


async def find_workflow(tx: Transaction, workflow_id: UUID) -> Workflow | None:
    return await tx.maybe(queries.find_workflow, Workflow, workflow_id=workflow_id)


async def list_active(tx: Transaction, *, agent_type: str, task_type: str) -> list[Workflow]:
    return await tx.all(queries.list_active, Workflow, agent_type=agent_type, task_type=task_type)


async def list_history(tx: Transaction, named: Named) -> list[Workflow]:
    return await tx.all(queries.list_history, Workflow, **columns_of(named))


async def list_workflows(tx: Transaction, *, also_ended: bool, after: UUID | None, limit: int) -> list[Workflow]:
    return await tx.all(queries.list_workflows, Workflow, also_ended=also_ended, after=after or FIRST, limit=limit)


async def insert_choice(tx: Transaction, choice: Choice) -> None:
    caller = tx.identity
    await tx.run(
        queries.insert_choice,
        choice_id=choice.choice_id,
        workflow_id=choice.workflow.workflow_id,
        owned_by=caller.owned_by,
        agent_id=caller.agent_id,
        session_id=caller.session_id,
        run_id=caller.run_id,
        sample=choice.sample,
        candidates=choice.candidates,
        chosen_at=choice.chosen_at,
    )


async def find_choice(tx: Transaction, choice_id: UUID) -> ChoiceRow | None:
    return await tx.maybe(queries.find_choice, ChoiceRow, choice_id=choice_id)


async def reward(tx: Transaction, owner: Owner, outcome: Outcome) -> bool:
    """Record an outcome and update the posterior; False when the owner has an outcome of that id."""
    return await tx.run(queries.reward, **columns_of(outcome), owned_by=owner) == 1


async def find_outcome(tx: Transaction, owner: Owner | None, outcome_id: str) -> Outcome | None:
    return await tx.maybe(queries.find_outcome, Outcome, owned_by=owner, outcome_id=outcome_id)


async def list_outcomes(
    tx: Transaction, owner: Owner | None, workflow_id: UUID, *, before: Outcome | None, limit: int
) -> list[Outcome]:
    before_at, before_id = (before.rewarded_at, before.outcome_id) if before else (END, "")
    position = {"before_at": before_at, "before_id": before_id}
    return await tx.all(
        queries.list_outcomes, Outcome, owned_by=owner, workflow_id=workflow_id, **position, limit=limit
    )


async def list_choices(
    tx: Transaction, owner: Owner | None, workflow_id: UUID, *, before: UUID, limit: int
) -> list[PastChoice]:
    return await tx.all(
        queries.list_choices, PastChoice, owned_by=owner, workflow_id=workflow_id, before=before, limit=limit
    )


async def delete_choices(tx: Transaction, *, before: datetime, limit: int) -> int:
    return await tx.run(queries.delete_choices, before=before, limit=limit)
