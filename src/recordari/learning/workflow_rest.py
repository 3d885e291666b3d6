"""Procedures: ways of doing a task, chosen by what came of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from recordari.kit.rest import (
    MISMATCH,
    PROBLEMS,
    AdminCaller,
    AgentCaller,
    Cursor,
    Limit,
    Page,
    Shown,
    Strict,
    client,
    id_position,
    page_of,
    position,
)
from recordari.learning import workflows
from recordari.learning.rules.bandit import Posterior
from recordari.learning.rules.workflows import Procedure

router = APIRouter(prefix="/v1/procedures", tags=["procedures"], responses=PROBLEMS)


class ProcedureShown(Shown):
    """One version of a procedure, and what is believed of its worth."""

    procedure_id: UUID
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


class SavedShown(Shown):
    """The active version, and whether it was made just now."""

    procedure: ProcedureShown
    was_new: bool


class ChoiceShown(Shown):
    """One draw."""

    choice_id: UUID
    procedure: ProcedureShown
    sample: float
    candidates: int
    chosen_at: datetime


class RewardedShown(Shown):
    """The procedure after an outcome, and whether that outcome was new."""

    procedure: ProcedureShown
    outcome_id: str
    was_new: bool


class OutcomeShown(Shown):
    """What came of a procedure once."""

    outcome_id: str
    procedure_id: UUID
    choice_id: UUID | None
    score: float
    rewarded_at: datetime


class ProcedureRequest(Strict):
    """A procedure to keep; another `spec` under the same name is a new version."""

    agent_type: str = Field(min_length=1, max_length=200)
    task_type: str = Field(min_length=1, max_length=200)
    name: str = Field(min_length=1, max_length=200)
    spec: dict[str, Any]
    alpha: float | None = Field(default=None, gt=0)
    beta: float | None = Field(default=None, gt=0)
    expected_version: int | None = Field(default=None, ge=0)


class ChoiceRequest(Strict):
    """What to choose for."""

    agent_type: str = Field(min_length=1, max_length=200)
    task_type: str = Field(min_length=1, max_length=200)
    seed: int | str | None = Field(default=None, description="The same seed and posteriors give the same choice.")


class RewardRequest(Strict):
    """How well a choice or a procedure did, from 0 to 1."""

    target_id: UUID = Field(strict=False, description="A `choice_id` or a `procedure_id`.")
    score: float = Field(ge=0, le=1)
    outcome_id: str | None = Field(default=None, max_length=200)


class RetireRequest(Strict):
    """Why a procedure is no longer to be chosen."""

    reason: str | None = Field(default=None, max_length=500)


Name = Annotated[str, Query(min_length=1, max_length=200)]


@router.put(
    "",
    operation_id="save_procedure",
    response_model=SavedShown,
    responses={201: {"model": SavedShown, "description": "A new version."}, **MISMATCH},
)
async def save_procedure(caller: AdminCaller, wanted: ProcedureRequest, response: Response) -> object:
    """Keep a procedure; a changed one supersedes its old version."""
    prior = Posterior(alpha=wanted.alpha or 1.0, beta=wanted.beta or 1.0) if wanted.alpha or wanted.beta else None
    saved = await workflows.save_procedure(
        *caller,
        wanted.name,
        wanted.spec,
        agent_type=wanted.agent_type,
        task_type=wanted.task_type,
        prior=prior,
        expected_version=wanted.expected_version,
    )
    if saved.was_new:
        response.status_code = 201
    return saved


@router.get(
    "",
    operation_id="list_procedures",
    openapi_extra=client(part="items", cursor="after"),
    response_model=Page[ProcedureShown],
)
async def list_procedures(
    caller: AgentCaller, also_ended: bool = False, limit: Limit = 50, cursor: Cursor = None
) -> object:
    """Versions of all tasks, oldest first."""
    found = await workflows.list_procedures(*caller, also_ended=also_ended, after=id_position(cursor), limit=limit + 1)
    return page_of(found, limit, lambda procedure: procedure.procedure_id)


@router.get("/active", operation_id="active_procedures", response_model=list[ProcedureShown])
async def active_procedures(caller: AgentCaller, agent_type: Name, task_type: Name) -> object:
    """What is neither superseded nor retired."""
    return await workflows.active_procedures(*caller, agent_type, task_type)


@router.get("/history", operation_id="procedure_history", response_model=list[ProcedureShown])
async def procedure_history(caller: AgentCaller, agent_type: Name, task_type: Name, name: Name) -> object:
    """Every version of a procedure, newest first."""
    return await workflows.procedure_history(*caller, agent_type, task_type, name)


@router.post("/choose", operation_id="choose", response_model=ChoiceShown)
async def choose(caller: AgentCaller, wanted: ChoiceRequest) -> object:
    """Choose by Thompson sampling among the active ones, and record the choice."""
    return await workflows.choose(*caller, wanted.agent_type, wanted.task_type, seed=wanted.seed)


@router.post("/reward", operation_id="reward", response_model=RewardedShown)
async def reward(caller: AgentCaller, wanted: RewardRequest) -> object:
    """Say how well it did; the same outcome again changes nothing."""
    return await workflows.reward(*caller, wanted.target_id, wanted.score, outcome_id=wanted.outcome_id)


@router.get("/{procedure_id}", operation_id="get_procedure", response_model=ProcedureShown)
async def get_procedure(caller: AgentCaller, procedure_id: UUID) -> Procedure:
    """One version with its posterior."""
    return await workflows.get_procedure(*caller, procedure_id)


@router.post("/{procedure_id}/retire", operation_id="retire_procedure", response_model=ProcedureShown)
async def retire_procedure(caller: AdminCaller, procedure_id: UUID, wanted: RetireRequest) -> Procedure:
    """Never choose it again; it stays for the record."""
    return await workflows.retire_procedure(*caller, procedure_id, reason=wanted.reason)


@router.get(
    "/{procedure_id}/outcomes",
    operation_id="list_outcomes",
    openapi_extra=client(part="items", cursor="before"),
    response_model=Page[OutcomeShown],
)
async def list_outcomes(caller: AgentCaller, procedure_id: UUID, limit: Limit = 50, cursor: Cursor = None) -> object:
    """What came of it, newest first."""
    found = await workflows.list_outcomes(*caller, procedure_id, before=position(cursor), limit=limit + 1)
    return page_of(found, limit, lambda outcome: outcome.outcome_id)
