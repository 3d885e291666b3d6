"""Workflows: how an agent does a task, in versions, each with what is believed of its worth."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.checks import json_text
from recordari.core.identity import AgentId, RunId, SessionId
from recordari.errors import InvalidInput
from recordari.learning.rules.bandit import Posterior

MAX_SPEC_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One version of a workflow, with the posterior Beta(alpha, beta) of its worth."""

    workflow_id: UUID
    agent_type: str
    task_type: str
    name: str
    version: int
    spec: dict[str, Any]
    alpha: float
    beta: float
    rewards: int
    valid_at: datetime
    invalid_at: datetime | None
    superseded_by: UUID | None

    @property
    def posterior(self) -> Posterior:
        """What is believed of its worth."""
        return Posterior(alpha=self.alpha, beta=self.beta)

    @property
    def is_active(self) -> bool:
        """Whether it can be chosen."""
        return self.invalid_at is None

    @property
    def superseded_at(self) -> datetime | None:
        """When another version took its place; None for one that is active or was retired."""
        return self.invalid_at if self.superseded_by is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One draw: which workflow, by which number, among how many."""

    choice_id: UUID
    workflow: Workflow
    sample: float
    candidates: int
    chosen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRow:
    """A choice as it was recorded."""

    choice_id: UUID
    workflow_id: UUID
    agent_id: AgentId | None
    session_id: SessionId | None
    run_id: RunId | None
    sample: float
    candidates: int
    chosen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a workflow once."""

    outcome_id: str
    workflow_id: UUID
    choice_id: UUID | None
    score: float
    rewarded_at: datetime


def spec_text(spec: object) -> tuple[str, bytes]:
    """Check a spec; its text as it is kept, and the hash by which the same spec is recognised."""
    if not isinstance(spec, dict):
        raise InvalidInput("spec must be a JSON object", field="spec")
    text = json_text(spec, field="spec")
    if len(text.encode()) > MAX_SPEC_BYTES:
        raise InvalidInput(f"spec must not be larger than {MAX_SPEC_BYTES} bytes", field="spec")
    return text, hashlib.sha256(json_text(spec, field="spec", sort_keys=True).encode()).digest()
