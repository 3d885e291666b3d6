"""Routes of learning: proposals of the weekly review, the consolidation of a session, and workflows."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from recordari.kit.problems import error_responses
from recordari.kit.rest import (
    MISMATCH,
    PROBLEMS,
    AdminCaller,
    AgentCaller,
    Cursor,
    Limit,
    Page,
    Strict,
    client,
    id_position,
    page_of,
    paged,
    position,
)
from recordari.learning import consolidate, proposals, workflows
from recordari.learning.consolidate import Consolidated
from recordari.learning.proposals import ReviewResult
from recordari.learning.rules.proposals import Proposal, ProposalKind, ProposalPolicy, ProposalStatus
from recordari.learning.rules.workflows import Choice, Outcome, PastChoice, Posterior, Workflow
from recordari.learning.workflows import Rewarded, SavedWorkflow

router = APIRouter(prefix="/v1/proposals", tags=["proposals"], responses=PROBLEMS)
sessions_router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=PROBLEMS)
workflows_router = APIRouter(prefix="/v1/workflows", tags=["workflows"], responses=PROBLEMS)
VOID = error_responses({409: "It is decided already, or void because an item of it changed."})
Status = Annotated[ProposalStatus | None, Query(description="Only these; all, if left out.")]
Kinds = Annotated[ProposalKind | None, Query(description="Only this kind.")]
Name = Annotated[str, Query(min_length=1, max_length=200)]
Label = Annotated[str, Field(min_length=1, max_length=200)]


class DecisionRequest(Strict):
    """The reason of a decision."""

    reason: str | None = Field(default=None, max_length=500)


class PolicyRequest(Strict):
    """The kinds of proposals that are accepted at once."""

    accept: list[Annotated[ProposalKind, Field(strict=False)]] = Field(description="`merge`, `retire`, both or none.")


@router.get(
    "",
    operation_id="list_proposals",
    openapi_extra=client(part="items", cursor="before"),
    response_model=Page[Proposal],
)
async def list_proposals(
    caller: AdminCaller, status: Status = None, kind: Kinds = None, limit: Limit = 50, cursor: Cursor = None
) -> object:
    """Proposals, newest first."""
    rows = await proposals.list_proposals(
        *caller, status=status, kind=kind, before=id_position(cursor), limit=limit + 1
    )
    return page_of(rows, limit, lambda proposal: proposal.proposal_id)


@router.post("/review", operation_id="review_memory")
async def review_memory(caller: AdminCaller) -> ReviewResult:
    """Compare memory with itself now instead of once a week."""
    return await proposals.review_memory(*caller)


@router.get("/policy", operation_id="get_proposal_policy")
async def get_proposal_policy(caller: AdminCaller) -> ProposalPolicy:
    """The kinds of proposals that the tenant accepts at once."""
    return await proposals.get_proposal_policy(*caller)


@router.put("/policy", operation_id="set_proposal_policy")
async def set_proposal_policy(caller: AdminCaller, body: PolicyRequest) -> ProposalPolicy:
    """Set the kinds of proposals that are accepted at once."""
    return await proposals.set_proposal_policy(*caller, body.accept)


@router.get("/{proposal_id}", operation_id="get_proposal")
async def get_proposal(caller: AdminCaller, proposal_id: UUID) -> Proposal:
    """One proposal."""
    return await proposals.get_proposal(*caller, proposal_id)


@router.post("/{proposal_id}/accept", operation_id="accept_proposal", responses=VOID)
async def accept_proposal(caller: AdminCaller, proposal_id: UUID, body: DecisionRequest) -> Proposal:
    """Carry out a proposal."""
    return await proposals.accept_proposal(*caller, proposal_id, reason=body.reason)


@router.post("/{proposal_id}/reject", operation_id="reject_proposal", responses=VOID)
async def reject_proposal(caller: AdminCaller, proposal_id: UUID, body: DecisionRequest) -> Proposal:
    """Reject a proposal; the same is not proposed again."""
    return await proposals.reject_proposal(*caller, proposal_id, reason=body.reason)


@router.post("/{proposal_id}/undo", operation_id="undo_proposal", responses=VOID)
async def undo_proposal(caller: AdminCaller, proposal_id: UUID, body: DecisionRequest) -> Proposal:
    """Undo an accepted proposal, unless its items changed since."""
    return await proposals.undo_proposal(*caller, proposal_id, reason=body.reason)


@sessions_router.post("/{session_id}/consolidate", operation_id="consolidate_session")
async def consolidate_session(caller: AdminCaller, session_id: str) -> Consolidated:
    """Learn from a closed session now instead of within the hour."""
    return await consolidate.consolidate_session(*caller, session_id)


class WorkflowRequest(Strict):
    """A workflow to keep; another `spec` under the same name is a new version."""

    agent_type: Label
    task_type: Label
    name: Label
    spec: dict[str, Any]
    alpha: float | None = Field(default=None, gt=0)
    beta: float | None = Field(default=None, gt=0)
    expected_version: int | None = Field(default=None, ge=0)


class ChoiceRequest(Strict):
    """The task to choose a workflow for."""

    agent_type: Label
    task_type: Label
    seed: int | str | None = Field(default=None, description="The same seed and posteriors give the same choice.")


class RewardRequest(Strict):
    """The score of a choice or a workflow."""

    target_id: UUID = Field(strict=False, description="A `choice_id` or a `workflow_id`.")
    score: float = Field(ge=0, le=1)
    outcome_id: str | None = Field(default=None, max_length=200)


@workflows_router.put(
    "",
    operation_id="save_workflow",
    responses={201: {"model": SavedWorkflow, "description": "A new version."}, **MISMATCH},
)
async def save_workflow(caller: AdminCaller, body: WorkflowRequest, response: Response) -> SavedWorkflow:
    """Keep a workflow; a changed one supersedes its old version."""
    prior = Posterior(alpha=body.alpha or 1.0, beta=body.beta or 1.0)
    arguments = body.model_dump(exclude={"alpha", "beta"})
    saved = await workflows.save_workflow(*caller, **arguments, prior=prior)
    if saved.was_new:
        response.status_code = 201
    return saved


@workflows_router.get(
    "",
    operation_id="list_workflows",
    openapi_extra=client(part="items", cursor="after"),
    response_model=Page[Workflow],
)
async def list_workflows(
    caller: AgentCaller, also_ended: bool = False, limit: Limit = 50, cursor: Cursor = None
) -> object:
    """Versions of all tasks, oldest first."""
    rows = await workflows.list_workflows(*caller, also_ended=also_ended, after=id_position(cursor), limit=limit + 1)
    return page_of(rows, limit, lambda workflow: workflow.workflow_id)


@workflows_router.get("/active", operation_id="active_workflows")
async def active_workflows(caller: AgentCaller, agent_type: Name, task_type: Name) -> list[Workflow]:
    """The versions that can be chosen: neither superseded nor retired."""
    return await workflows.active_workflows(*caller, agent_type, task_type)


@workflows_router.get("/history", operation_id="workflow_history")
async def workflow_history(caller: AgentCaller, agent_type: Name, task_type: Name, name: Name) -> list[Workflow]:
    """Every version of a workflow, newest first."""
    return await workflows.workflow_history(*caller, agent_type, task_type, name)


@workflows_router.post("/choose", operation_id="choose")
async def choose(caller: AgentCaller, body: ChoiceRequest) -> Choice:
    """Draw one of the active workflows, and record the choice."""
    return await workflows.choose(*caller, body.agent_type, body.task_type, seed=body.seed)


@workflows_router.post("/reward", operation_id="reward")
async def reward(caller: AgentCaller, body: RewardRequest) -> Rewarded:
    """Score a choice or a workflow; the same outcome again changes nothing."""
    return await workflows.reward(*caller, body.target_id, body.score, outcome_id=body.outcome_id)


@workflows_router.get("/{workflow_id}", operation_id="get_workflow")
async def get_workflow(caller: AgentCaller, workflow_id: UUID) -> Workflow:
    """One version with its posterior."""
    return await workflows.get_workflow(*caller, workflow_id)


@workflows_router.post("/{workflow_id}/retire", operation_id="retire_workflow")
async def retire_workflow(caller: AdminCaller, workflow_id: UUID, body: DecisionRequest) -> Workflow:
    """Never choose this version again; it stays readable."""
    return await workflows.retire_workflow(*caller, workflow_id, reason=body.reason)


@workflows_router.get("/{workflow_id}/choices", operation_id="list_choices", **paged(PastChoice, cursor="before"))
async def list_choices(caller: AgentCaller, workflow_id: UUID, limit: Limit = 50, cursor: Cursor = None) -> object:
    """Choices of a workflow in the last 90 days, newest first, with their scores."""
    rows = await workflows.list_choices(*caller, workflow_id, before=id_position(cursor), limit=limit + 1)
    return page_of(rows, limit, lambda choice: choice.choice_id)


@workflows_router.get(
    "/{workflow_id}/outcomes",
    operation_id="list_outcomes",
    openapi_extra=client(part="items", cursor="before"),
    response_model=Page[Outcome],
)
async def list_outcomes(caller: AgentCaller, workflow_id: UUID, limit: Limit = 50, cursor: Cursor = None) -> object:
    """Outcomes of a workflow, newest first."""
    rows = await workflows.list_outcomes(*caller, workflow_id, before=position(cursor), limit=limit + 1)
    return page_of(rows, limit, lambda outcome: outcome.outcome_id)
