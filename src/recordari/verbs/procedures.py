"""Ways of doing a task, chosen by what came of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from recordari.learning import workflows
from recordari.learning.rules.bandit import Posterior
from recordari.learning.rules.workflows import Choice, Outcome, Procedure
from recordari.learning.workflows import Rewarded, SavedProcedure
from recordari.verbs.bound import Bound


class ProcedureVerbs(Bound):
    """The verbs of procedures."""

    async def save_procedure(
        self,
        name: str,
        spec: dict[str, Any],
        *,
        agent_type: str,
        task_type: str,
        prior: Posterior | None = None,
        expected_version: int | None = None,
    ) -> SavedProcedure:
        """Make this spec the active version of a procedure; another one before it is superseded."""
        return await workflows.save_procedure(
            self.resources,
            self.identity,
            agent_type=agent_type,
            task_type=task_type,
            name=name,
            spec=spec,
            prior=prior,
            expected_version=expected_version,
        )

    async def choose(self, agent_type: str, task_type: str, *, seed: int | str | None = None) -> Choice:
        """Draw one of the active procedures, each as often as it is likely to be the best."""
        return await workflows.choose(
            self.resources, self.identity, agent_type=agent_type, task_type=task_type, seed=seed
        )

    async def reward(
        self, target: Choice | Procedure | UUID, score: float, *, outcome_id: str | None = None
    ) -> Rewarded:
        """Say how well a choice or a procedure did, from 0 to 1; the same outcome again changes nothing."""
        match target:
            case Choice():
                target_id = target.choice_id
            case Procedure():
                target_id = target.procedure_id
            case _:
                target_id = target
        return await workflows.reward(self.resources, self.identity, target_id, score, outcome_id=outcome_id)

    async def retire_procedure(self, procedure_id: UUID, *, reason: str | None = None) -> Procedure:
        """Never choose this version again."""
        return await workflows.retire_procedure(self.resources, self.identity, procedure_id, reason=reason)

    async def get_procedure(self, procedure_id: UUID) -> Procedure:
        """One version, with its posterior."""
        return await workflows.get_procedure(self.resources, self.identity, procedure_id)

    async def active_procedures(self, agent_type: str, task_type: str) -> list[Procedure]:
        """What is neither superseded nor retired."""
        return await workflows.active_procedures(
            self.resources, self.identity, agent_type=agent_type, task_type=task_type
        )

    async def list_procedures(
        self, *, also_ended: bool = False, after: UUID | None = None, limit: int = 50
    ) -> list[Procedure]:
        """Versions of all tasks, oldest first."""
        return await workflows.list_procedures(
            self.resources, self.identity, also_ended=also_ended, after=after, limit=limit
        )

    async def procedure_history(self, agent_type: str, task_type: str, name: str) -> list[Procedure]:
        """Every version of a procedure, newest first."""
        return await workflows.procedure_history(
            self.resources, self.identity, agent_type=agent_type, task_type=task_type, name=name
        )

    async def list_outcomes(self, procedure_id: UUID, *, before: str | None = None, limit: int = 50) -> list[Outcome]:
        """What came of a procedure, newest first."""
        return await workflows.list_outcomes(self.resources, self.identity, procedure_id, before=before, limit=limit)
