"""Procedures: save a version, choose one by what came of them, reward it, retire it."""

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
from recordari.learning.rules.workflows import Choice, Outcome, Procedure, spec_text
from recordari.learning.workflow_storage import Named
from recordari.tenants.tenants import MAX_PAGE, require_admin

CHOICES_KEPT = timedelta(days=90)  # as long as the episodes they belong to (E3)
SWEEP_BATCH = 5_000
NO_SUCH_PROCEDURE = "there is no such procedure"
_FIRST = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedProcedure:
    """The active version, and whether it was made just now."""

    procedure: Procedure
    was_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded:
    """The procedure after an outcome, and whether that outcome was new."""

    procedure: Procedure
    outcome_id: str
    was_new: bool


async def save_procedure(
    resources: Resources,
    identity: Identity,
    name: str,
    spec: dict[str, Any],
    *,
    agent_type: str,
    task_type: str,
    prior: Posterior | None = None,
    expected_version: int | None = None,
) -> SavedProcedure:
    """Make this spec the active version of a procedure; another spec before it is superseded by it.

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
    begins_with, now, procedure_id = checked_prior(prior or Posterior()), resources.clock(), new_id()
    async with resources.database.transaction(identity) as tx:
        current = await workflow_storage.lock_current(tx, named)
        if expected_version is not None and expected_version != (current.version if current else 0):
            raise PreconditionFailed
        if current is not None and current.spec_hash == spec_hash:
            found = await workflow_storage.find_procedure(tx, current.procedure_id)
            assert found is not None
            return SavedProcedure(procedure=found, was_new=False)
        if current is not None:
            await workflow_storage.end_procedure(tx, current.procedure_id, superseded_by=procedure_id, now=now)
            await audit.record(
                tx, "procedure.supersede", "procedure", current.procedure_id, successor=str(procedure_id)
            )
        procedure = await workflow_storage.insert_procedure(
            tx,
            procedure_id,
            named,
            version=await workflow_storage.last_version(tx, named) + 1,
            spec=text,
            spec_hash=spec_hash,
            prior=begins_with,
            now=now,
        )
        await audit.record(tx, "procedure.save", "procedure", procedure_id, version=procedure.version)
    return SavedProcedure(procedure=procedure, was_new=True)


async def retire_procedure(
    resources: Resources, identity: Identity, procedure_id: UUID, *, reason: str | None = None
) -> Procedure:
    """Never choose this version again; it stays readable, and nothing takes its place."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        ended = await workflow_storage.end_procedure(tx, procedure_id, superseded_by=None, now=resources.clock())
        found = await workflow_storage.find_procedure(tx, procedure_id)
        if found is None:
            raise NotFound(NO_SUCH_PROCEDURE)
        if ended:
            await audit.record(tx, "procedure.retire", "procedure", procedure_id, reason=reason)
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
    """Draw one of the active procedures of a task, each as often as it is likely to be the best.

    The same seed draws the same from the same posteriors.
    """
    chance = random.Random(seed)  # noqa: S311 - a draw that can be repeated, not a secret
    async with resources.database.transaction(identity) as tx:
        active = await workflow_storage.list_active(tx, agent_type=agent_type, task_type=task_type)
        if not active:
            raise NotFound("there is no active procedure for this agent type and task type; save one first")
        place, sample = thompson([each.posterior for each in active], chance)
        choice = Choice(
            choice_id=new_id(),
            procedure=active[place],
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
    target: Choice | Procedure | UUID,
    score: float,
    *,
    outcome_id: str | None = None,
) -> Rewarded:
    """Say how well a choice, or a procedure, did: from 0 to 1. The same outcome again changes nothing.

    A choice has one outcome unless `outcome_id` names others; for a procedure, `outcome_id` makes a repeated
    call harmless and a new one is made up where it is left out. Versions that have ended still learn.
    """
    match target:
        case Choice():
            target = target.choice_id
        case Procedure():
            target = target.procedure_id
    kept = checked_score(score)
    async with resources.database.transaction(identity) as tx:
        choice = await workflow_storage.find_choice(tx, target)
        given = outcome_id or str(target if choice is not None else new_id())
        outcome = Outcome(
            outcome_id=checked_id("outcome_id", given),
            procedure_id=choice.procedure_id if choice is not None else target,
            choice_id=choice.choice_id if choice is not None else None,
            score=kept,
            rewarded_at=resources.clock(),
        )
        if choice is None and await workflow_storage.find_procedure(tx, target) is None:
            raise NotFound("there is no such choice or procedure")
        was_new = await workflow_storage.reward(tx, outcome)
        if not was_new:
            known = await workflow_storage.find_outcome(tx, outcome.outcome_id)
            if known is None or (known.procedure_id, known.score) != (outcome.procedure_id, outcome.score):
                raise Conflict(
                    "this outcome_id already stands for another outcome; use another one", field="outcome_id"
                )
        procedure = await workflow_storage.find_procedure(tx, outcome.procedure_id)
    assert procedure is not None
    return Rewarded(procedure=procedure, outcome_id=outcome.outcome_id, was_new=was_new)


async def get_procedure(resources: Resources, identity: Identity, procedure_id: UUID) -> Procedure:
    """One version, with its posterior."""
    async with resources.database.transaction(identity) as tx:
        found = await workflow_storage.find_procedure(tx, procedure_id)
    if found is None:
        raise NotFound(NO_SUCH_PROCEDURE)
    return found


async def active_procedures(
    resources: Resources,
    identity: Identity,
    agent_type: str,
    task_type: str,
) -> list[Procedure]:
    """The active set of a task: what is neither superseded nor retired."""
    async with resources.database.transaction(identity) as tx:
        return await workflow_storage.list_active(tx, agent_type=agent_type, task_type=task_type)


async def list_procedures(
    resources: Resources,
    identity: Identity,
    *,
    also_ended: bool = False,
    after: UUID | None = None,
    limit: int = 50,
) -> list[Procedure]:
    """Versions of all tasks, oldest first, after the one given."""
    async with resources.database.transaction(identity) as tx:
        return await workflow_storage.list_procedures(
            tx, also_ended=also_ended, after=after or _FIRST, limit=min(limit, MAX_PAGE)
        )


async def procedure_history(
    resources: Resources,
    identity: Identity,
    agent_type: str,
    task_type: str,
    name: str,
) -> list[Procedure]:
    """Every version of a procedure, newest first."""
    async with resources.database.transaction(identity) as tx:
        return await workflow_storage.list_history(tx, Named(agent_type=agent_type, task_type=task_type, name=name))


async def list_outcomes(
    resources: Resources,
    identity: Identity,
    procedure_id: UUID,
    *,
    before: str | None = None,
    limit: int = 50,
) -> list[Outcome]:
    """What came of a procedure, newest first, before the outcome given."""
    async with resources.database.transaction(identity) as tx:
        place = await workflow_storage.find_outcome(tx, before) if before is not None else None
        if before is not None and place is None:
            raise NotFound("there is no such outcome")
        return await workflow_storage.list_outcomes(tx, procedure_id, before=place, limit=min(limit, MAX_PAGE))


async def sweep_choices(resources: Resources, identity: Identity, **_: Any) -> None:
    """Forget the tenant's choices of long ago; what came of them stays in outcomes and posteriors."""
    before = resources.clock() - CHOICES_KEPT
    while True:
        async with resources.database.transaction(identity) as tx:
            if await workflow_storage.delete_choices(tx, before=before, limit=SWEEP_BATCH) < SWEEP_BATCH:
                break
