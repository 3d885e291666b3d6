"""Workflows: save a version, choose one by what came of them, reward it, retire it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity, checked_id
from recordari.core.ids import new_id
from recordari.core.telemetry import measured
from recordari.db import audit
from recordari.errors import Conflict, NotFound, PreconditionFailed
from recordari.kit.resources import Resources
from recordari.learning import workflow_storage
from recordari.learning.rules.bandit import Posterior, checked_prior, checked_score, thompson
from recordari.learning.rules.workflows import Choice, Outcome, Workflow, spec_text
from recordari.learning.workflow_storage import Named
from recordari.tenants.tenants import MAX_PAGE, require_admin

CHOICES_KEPT = timedelta(days=90)  # as long as the episodes they belong to (E3)
SWEEP_BATCH = 5_000
NO_SUCH_WORKFLOW = "there is no such workflow"
_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWorkflow:
    """The active version, and whether it was made just now."""

    workflow: Workflow
    was_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded:
    """The workflow after an outcome, and whether that outcome was new."""

    workflow: Workflow
    outcome_id: str
    was_new: bool


async def save_workflow(
    resources: Resources,
    identity: Identity,
    name: str,
    spec: dict[str, Any],
    *,
    agent_type: str,
    task_type: str,
    prior: Posterior | None = None,
    expected_version: int | None = None,
) -> SavedWorkflow:
    """Make this spec the active version of a workflow; another spec before it is superseded by it.

    The same spec again finds the same version. A new version begins with `prior`, because what came of another
    spec says nothing certain of this one. With `expected_version` (0: none active) only if that one is active.
    """
    require_admin(identity)
    named = Named(
        agent_type=checked_id("agent_type", agent_type),
        task_type=checked_id("task_type", task_type),
        name=checked_id("name", name),
    )
    text, spec_hash = spec_text(spec)
    begins_with, now, workflow_id = checked_prior(prior or Posterior()), resources.clock(), new_id()
    async with resources.database.transaction(identity) as tx:
        current = await workflow_storage.lock_current(tx, named)
        if expected_version is not None and expected_version != (current.version if current else 0):
            raise PreconditionFailed
        if current is not None and current.spec_hash == spec_hash:
            found = await workflow_storage.find_workflow(tx, current.workflow_id)
            assert found is not None
            return SavedWorkflow(workflow=found, was_new=False)
        if current is not None:
            await workflow_storage.end_workflow(tx, current.workflow_id, superseded_by=workflow_id, now=now)
            await audit.record(tx, "workflow.supersede", "workflow", current.workflow_id, successor=str(workflow_id))
        workflow = await workflow_storage.insert_workflow(
            tx,
            workflow_id,
            named,
            version=await workflow_storage.last_version(tx, named) + 1,
            spec=text,
            spec_hash=spec_hash,
            prior=begins_with,
            now=now,
        )
        await audit.record(tx, "workflow.save", "workflow", workflow_id, version=workflow.version)
    return SavedWorkflow(workflow=workflow, was_new=True)


async def retire_workflow(
    resources: Resources, identity: Identity, workflow_id: UUID, *, reason: str | None = None
) -> Workflow:
    """Never choose this version again; it stays readable, and nothing takes its place."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        ended = await workflow_storage.end_workflow(tx, workflow_id, superseded_by=None, now=resources.clock())
        found = await workflow_storage.find_workflow(tx, workflow_id)
        if found is None:
            raise NotFound(NO_SUCH_WORKFLOW)
        if ended:
            await audit.record(tx, "workflow.retire", "workflow", workflow_id, reason=reason)
        elif found.superseded_by is not None:
            raise Conflict("this version was superseded; retire the one that took its place")
    return found


@measured("choose")
async def choose(
    resources: Resources,
    identity: Identity,
    agent_type: str,
    task_type: str,
    *,
    seed: int | str | None = None,
) -> Choice:
    """Draw one of the active workflows of a task, each as often as it is likely to be the best.

    The same seed draws the same from the same posteriors.
    """
    chance = random.Random(seed)  # noqa: S311 - a draw that can be repeated, not a secret
    async with resources.database.transaction(identity) as tx:
        active = await workflow_storage.list_active(tx, agent_type=agent_type, task_type=task_type)
        if not active:
            raise NotFound("there is no active workflow for this agent type and task type; save one first")
        place, sample = thompson([each.posterior for each in active], chance)
        choice = Choice(
            choice_id=new_id(),
            workflow=active[place],
            sample=sample,
            candidates=len(active),
            chosen_at=resources.clock(),
        )
        await workflow_storage.insert_choice(tx, choice)
    return choice


@measured("reward")
async def reward(
    resources: Resources,
    identity: Identity,
    target: Choice | Workflow | UUID,
    score: float,
    *,
    outcome_id: str | None = None,
) -> Rewarded:
    """Say how well a choice, or a workflow, did: from 0 to 1. The same outcome again changes nothing.

    A choice has one outcome unless `outcome_id` names others; for a workflow, `outcome_id` makes a repeated
    call harmless and a new one is made up where it is left out. Versions that have ended still learn.
    """
    match target:
        case Choice():
            target = target.choice_id
        case Workflow():
            target = target.workflow_id
    kept = checked_score(score)
    async with resources.database.transaction(identity) as tx:
        choice = await workflow_storage.find_choice(tx, target)
        given = outcome_id or str(target if choice is not None else new_id())
        outcome = Outcome(
            outcome_id=checked_id("outcome_id", given),
            workflow_id=choice.workflow_id if choice is not None else target,
            choice_id=choice.choice_id if choice is not None else None,
            score=kept,
            rewarded_at=resources.clock(),
        )
        if choice is None and await workflow_storage.find_workflow(tx, target) is None:
            raise NotFound("there is no such choice or workflow")
        was_new = await workflow_storage.reward(tx, outcome)
        if not was_new:
            known = await workflow_storage.find_outcome(tx, outcome.outcome_id)
            if known is None or (known.workflow_id, known.score) != (outcome.workflow_id, outcome.score):
                raise Conflict(
                    "this outcome_id already stands for another outcome; use another one", field="outcome_id"
                )
        workflow = await workflow_storage.find_workflow(tx, outcome.workflow_id)
    assert workflow is not None
    return Rewarded(workflow=workflow, outcome_id=outcome.outcome_id, was_new=was_new)


async def get_workflow(resources: Resources, identity: Identity, workflow_id: UUID) -> Workflow:
    """One version, with its posterior."""
    async with resources.database.transaction(identity) as tx:
        found = await workflow_storage.find_workflow(tx, workflow_id)
    if found is None:
        raise NotFound(NO_SUCH_WORKFLOW)
    return found


async def active_workflows(
    resources: Resources,
    identity: Identity,
    agent_type: str,
    task_type: str,
) -> list[Workflow]:
    """The active set of a task: what is neither superseded nor retired."""
    async with resources.database.transaction(identity) as tx:
        return await workflow_storage.list_active(tx, agent_type=agent_type, task_type=task_type)


async def list_workflows(
    resources: Resources,
    identity: Identity,
    *,
    also_ended: bool = False,
    after: UUID | None = None,
    limit: int = 50,
) -> list[Workflow]:
    """Versions of all tasks, oldest first, after the one given."""
    async with resources.database.transaction(identity) as tx:
        return await workflow_storage.list_workflows(
            tx, also_ended=also_ended, after=after or _FIRST, limit=min(limit, MAX_PAGE)
        )


async def workflow_history(
    resources: Resources,
    identity: Identity,
    agent_type: str,
    task_type: str,
    name: str,
) -> list[Workflow]:
    """Every version of a workflow, newest first."""
    async with resources.database.transaction(identity) as tx:
        return await workflow_storage.list_history(tx, Named(agent_type=agent_type, task_type=task_type, name=name))


async def list_outcomes(
    resources: Resources,
    identity: Identity,
    workflow_id: UUID,
    *,
    before: str | None = None,
    limit: int = 50,
) -> list[Outcome]:
    """What came of a workflow, newest first, before the outcome given."""
    async with resources.database.transaction(identity) as tx:
        place = await workflow_storage.find_outcome(tx, before) if before is not None else None
        if before is not None and place is None:
            raise NotFound("there is no such outcome")
        return await workflow_storage.list_outcomes(tx, workflow_id, before=place, limit=min(limit, MAX_PAGE))


async def sweep_choices(resources: Resources, identity: Identity, **_: Any) -> None:
    """Forget the tenant's choices of long ago; what came of them stays in outcomes and posteriors."""
    before = resources.clock() - CHOICES_KEPT
    while True:
        async with resources.database.transaction(identity) as tx:
            if await workflow_storage.delete_choices(tx, before=before, limit=SWEEP_BATCH) < SWEEP_BATCH:
                break
