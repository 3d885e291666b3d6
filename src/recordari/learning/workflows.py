"""Workflows: save a version, choose one by its outcomes, reward it, retire it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity, Role, checked_id
from recordari.core.ids import LAST, new_id
from recordari.core.telemetry import measured
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import Conflict, NotFound, PreconditionFailed
from recordari.kit.resources import Resources
from recordari.learning import storage
from recordari.learning.rules.workflows import (
    Choice,
    Outcome,
    PastChoice,
    Posterior,
    Workflow,
    checked_prior,
    checked_score,
    spec_text,
    thompson,
)
from recordari.learning.storage import Named
from recordari.privacy.sanitise import sanitise_json
from recordari.tenants.tenants import page_size, require_admin

CHOICES_KEPT = timedelta(days=90)  # as long as their episodes (E3)
SWEEP_BATCH = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWorkflow:
    """The active version, and whether this call made it."""

    workflow: Workflow
    was_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded:
    """The workflow after a reward, and whether the outcome was new."""

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
    """Make this spec the active version of a workflow. It supersedes the version before.

    The same spec again finds the same version. A new version starts with `prior`, because the outcomes of another spec
    say nothing certain about this one. With `expected_version` (0: none), that version must be the active one.
    """
    require_admin(identity)
    named = Named(
        agent_type=checked_id("agent_type", agent_type),
        task_type=checked_id("task_type", task_type),
        name=checked_id("name", name),
    )
    text, spec_hash = spec_text(await sanitise_json(resources, identity, spec))
    prior, now, workflow_id = checked_prior(prior or Posterior()), resources.clock(), new_id()
    async with resources.database.transaction(identity) as tx:
        current = await storage.lock_current(tx, named)
        if expected_version is not None and expected_version != (current.version if current else 0):
            raise PreconditionFailed
        if current is not None and current.spec_hash == spec_hash:
            return SavedWorkflow(workflow=await _find(tx, current.workflow_id), was_new=False)
        if current is not None:
            await storage.end_workflow(tx, current.workflow_id, superseded_by=workflow_id, now=now)
            await audit.record(tx, "workflow.supersede", "workflow", current.workflow_id, successor=str(workflow_id))
        workflow = await storage.insert_workflow(
            tx,
            workflow_id,
            named,
            version=await storage.last_version(tx, named) + 1,
            spec=text,
            spec_hash=spec_hash,
            prior=prior,
            now=now,
        )
        await audit.record(tx, "workflow.save", "workflow", workflow_id, version=workflow.version)
    return SavedWorkflow(workflow=workflow, was_new=True)


async def retire_workflow(
    resources: Resources, identity: Identity, workflow_id: UUID, *, reason: str | None = None
) -> Workflow:
    """Never choose this version again. It stays readable, and nothing takes its place."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        ended = await storage.end_workflow(tx, workflow_id, superseded_by=None, now=resources.clock())
        workflow = await _find(tx, workflow_id)
        if ended:
            await audit.record(tx, "workflow.retire", "workflow", workflow_id, reason=reason)
        elif workflow.superseded_by is not None:
            raise Conflict("this version was superseded; retire its successor")
    return workflow


async def _find(tx: Transaction, workflow_id: UUID, message: str = "there is no such workflow") -> Workflow:
    workflow = await storage.find_workflow(tx, workflow_id)
    if workflow is None:
        raise NotFound(message)
    return workflow


@measured("choose")
async def choose(
    resources: Resources, identity: Identity, agent_type: str, task_type: str, *, seed: int | str | None = None
) -> Choice:
    """Draw one of the active workflows of a task, each as often as it is likely to be the best.

    The same seed and the same posteriors give the same choice.
    """
    chance = random.Random(seed)  # noqa: S311 - a draw that can be repeated, not a secret
    async with resources.database.transaction(identity) as tx:
        active = await storage.list_active(tx, agent_type=agent_type, task_type=task_type)
        if not active:
            raise NotFound("there is no active workflow for this agent type and task type; save one first")
        index, sample = thompson([workflow.posterior for workflow in active], chance)
        choice = Choice(
            choice_id=new_id(),
            workflow=active[index],
            sample=sample,
            candidates=len(active),
            chosen_at=resources.clock(),
        )
        await storage.insert_choice(tx, choice)
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
    """Score a choice or a workflow from 0 to 1. The same outcome again changes nothing.

    A choice has one outcome, unless you name others by `outcome_id`. For a workflow, `outcome_id` makes a repeated call
    harmless; without it each call is a new outcome. Ended versions still learn.
    """
    match target:
        case Choice():
            target = target.choice_id
        case Workflow():
            target = target.workflow_id
    score = checked_score(score)
    async with resources.database.transaction(identity) as tx:
        choice = await storage.find_choice(tx, target)
        outcome = Outcome(
            outcome_id=checked_id("outcome_id", outcome_id or str(target if choice is not None else new_id())),
            workflow_id=choice.workflow_id if choice is not None else target,
            choice_id=choice.choice_id if choice is not None else None,
            score=score,
            rewarded_at=resources.clock(),
        )
        await _find(tx, outcome.workflow_id, "there is no such choice or workflow")
        # Whoever scores a choice gives the outcome of the one who drew it: a choice has one.
        owner = choice.owned_by if choice is not None else identity.owned_by
        was_new = await storage.reward(tx, owner, outcome)
        if not was_new:
            known = await storage.find_outcome(tx, owner, outcome.outcome_id)
            if known is None or (known.workflow_id, known.score) != (outcome.workflow_id, outcome.score):
                raise Conflict("this outcome_id belongs to another outcome; use another one", field="outcome_id")
        workflow = await _find(tx, outcome.workflow_id)
    return Rewarded(workflow=workflow, outcome_id=outcome.outcome_id, was_new=was_new)


async def get_workflow(resources: Resources, identity: Identity, workflow_id: UUID) -> Workflow:
    """One version, with its posterior."""
    async with resources.database.transaction(identity) as tx:
        return await _find(tx, workflow_id)


async def active_workflows(resources: Resources, identity: Identity, agent_type: str, task_type: str) -> list[Workflow]:
    """The active workflows of a task: neither superseded nor retired."""
    async with resources.database.transaction(identity) as tx:
        return await storage.list_active(tx, agent_type=agent_type, task_type=task_type)


async def list_workflows(
    resources: Resources,
    identity: Identity,
    *,
    also_ended: bool = False,
    after: UUID | None = None,
    limit: int = 50,
) -> list[Workflow]:
    """Versions of all tasks, oldest first; `after` is the id of the last one seen."""
    async with resources.database.transaction(identity) as tx:
        return await storage.list_workflows(tx, also_ended=also_ended, after=after, limit=page_size(limit))


async def workflow_history(
    resources: Resources, identity: Identity, agent_type: str, task_type: str, name: str
) -> list[Workflow]:
    """Every version of a workflow, newest first."""
    async with resources.database.transaction(identity) as tx:
        return await storage.list_history(tx, Named(agent_type=agent_type, task_type=task_type, name=name))


async def list_outcomes(
    resources: Resources,
    identity: Identity,
    workflow_id: UUID,
    *,
    before: str | None = None,
    limit: int = 50,
) -> list[Outcome]:
    """Your outcomes of a workflow, newest first; `before` is the id of the last one seen. An administrator sees all."""
    owner = None if identity.role is Role.ADMIN else identity.owned_by
    async with resources.database.transaction(identity) as tx:
        position = await storage.find_outcome(tx, owner, before) if before is not None else None
        if before is not None and position is None:
            raise NotFound("there is no such outcome")
        return await storage.list_outcomes(tx, owner, workflow_id, before=position, limit=page_size(limit))


async def list_choices(
    resources: Resources,
    identity: Identity,
    workflow_id: UUID,
    *,
    before: UUID | None = None,
    limit: int = 50,
) -> list[PastChoice]:
    """Your choices of a workflow, newest first, with their scores; `before` is the id of the last one seen.

    An administrator sees all. Choices are kept for 90 days, and their outcomes for good.
    """
    owner = None if identity.role is Role.ADMIN else identity.owned_by
    async with resources.database.transaction(identity) as tx:
        return await storage.list_choices(tx, owner, workflow_id, before=before or LAST, limit=page_size(limit))


async def sweep_choices(resources: Resources, identity: Identity, **_: Any) -> None:
    """Delete the tenant's old choices. Their outcomes stay."""
    before = resources.clock() - CHOICES_KEPT
    while True:
        async with resources.database.transaction(identity) as tx:
            if await storage.delete_choices(tx, before=before, limit=SWEEP_BATCH) < SWEEP_BATCH:
                break
