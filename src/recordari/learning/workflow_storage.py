"""Rows of workflows, of choices among them and of what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.learning.rules.bandit import Posterior
from recordari.learning.rules.workflows import Choice, ChoiceRow, Outcome, Workflow

queries = Queries(__name__)
_LAST = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """By what a workflow goes through its versions."""

    agent_type: str
    task_type: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The active version, and what its spec hashes to."""

    workflow_id: UUID
    version: int
    spec_hash: bytes


async def lock_current(tx: Transaction, named: Named) -> Current | None:
    """The active version; no other version is made until the end of the transaction."""
    by = {"agent_type": named.agent_type, "task_type": named.task_type, "name": named.name}
    await tx.value(queries.lock_name, **by)
    # A statement of its own: one that waited for the lock would not see the version made meanwhile.
    return await tx.maybe(queries.find_current, Current, **by)


async def last_version(tx: Transaction, named: Named) -> int:
    """The highest version there ever was; 0 when there was none."""
    return int(
        await tx.value(queries.last_version, agent_type=named.agent_type, task_type=named.task_type, name=named.name)
    )


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
    """Write a new version."""
    (workflow,) = await tx.all(
        queries.insert_workflow,
        Workflow,
        workflow_id=workflow_id,
        agent_type=named.agent_type,
        task_type=named.task_type,
        name=named.name,
        version=version,
        spec=spec,
        spec_hash=spec_hash,
        alpha=prior.alpha,
        beta=prior.beta,
        now=now,
    )
    return workflow


async def end_workflow(tx: Transaction, workflow_id: UUID, *, superseded_by: UUID | None, now: datetime) -> bool:
    """End an active version; False when it is not active."""
    ended = await tx.run(queries.end_workflow, workflow_id=workflow_id, superseded_by=superseded_by, now=now)
    return ended == 1


async def find_workflow(tx: Transaction, workflow_id: UUID) -> Workflow | None:
    """One version."""
    return await tx.maybe(queries.find_workflow, Workflow, workflow_id=workflow_id)


async def list_active(tx: Transaction, *, agent_type: str, task_type: str) -> list[Workflow]:
    """The versions that can be chosen for a task."""
    return await tx.all(queries.list_active, Workflow, agent_type=agent_type, task_type=task_type)


async def list_history(tx: Transaction, named: Named) -> list[Workflow]:
    """Every version of one workflow, newest first."""
    return await tx.all(
        queries.list_history,
        Workflow,
        agent_type=named.agent_type,
        task_type=named.task_type,
        name=named.name,
    )


async def list_workflows(tx: Transaction, *, also_ended: bool, after: UUID, limit: int) -> list[Workflow]:
    """Versions of all tasks, oldest first."""
    return await tx.all(queries.list_workflows, Workflow, also_ended=also_ended, after=after, limit=limit)


async def insert_choice(tx: Transaction, choice: Choice) -> None:
    """Record a choice, for the identity of the transaction."""
    who = tx.identity
    await tx.run(
        queries.insert_choice,
        choice_id=choice.choice_id,
        workflow_id=choice.workflow.workflow_id,
        agent_id=who.agent_id,
        session_id=who.session_id,
        run_id=who.run_id,
        sample=choice.sample,
        candidates=choice.candidates,
        now=choice.chosen_at,
    )


async def find_choice(tx: Transaction, choice_id: UUID) -> ChoiceRow | None:
    """One choice."""
    return await tx.maybe(queries.find_choice, ChoiceRow, choice_id=choice_id)


async def reward(tx: Transaction, outcome: Outcome) -> bool:
    """Note an outcome and move the posterior by it; False when there is an outcome of that id already."""
    moved = await tx.run(
        queries.reward,
        outcome_id=outcome.outcome_id,
        workflow_id=outcome.workflow_id,
        choice_id=outcome.choice_id,
        score=outcome.score,
        now=outcome.rewarded_at,
    )
    return moved == 1


async def find_outcome(tx: Transaction, outcome_id: str) -> Outcome | None:
    """One outcome."""
    return await tx.maybe(queries.find_outcome, Outcome, outcome_id=outcome_id)


async def list_outcomes(tx: Transaction, workflow_id: UUID, *, before: Outcome | None, limit: int) -> list[Outcome]:
    """What came of a workflow, newest first."""
    return await tx.all(
        queries.list_outcomes,
        Outcome,
        workflow_id=workflow_id,
        before_at=before.rewarded_at if before else _LAST,
        before_id=before.outcome_id if before else "",
        limit=limit,
    )


async def delete_choices(tx: Transaction, *, before: datetime, limit: int) -> int:
    """Forget some choices made before that; how many."""
    return await tx.run(queries.delete_choices, before=before, limit=limit)
