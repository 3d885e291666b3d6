"""Proposals: what the weekly consolidation would change, decided by an administrator."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from recordari.kit.problems import Problem
from recordari.kit.rest import (
    PROBLEMS,
    AdminCaller,
    Cursor,
    Limit,
    Page,
    Shown,
    Strict,
    client,
    id_position,
    page_of,
)
from recordari.learning import consolidate, proposals
from recordari.learning.rules.proposals import ProposalKind, ProposalStatus

sessions_router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=PROBLEMS)
router = APIRouter(prefix="/v1/proposals", tags=["proposals"], responses=PROBLEMS)
VOID: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "It is decided already, or void: what it is about has changed."}
}


class ProposalShown(Shown):
    """A change that waits for somebody's word, or had it."""

    proposal_id: UUID
    kind: ProposalKind
    status: ProposalStatus
    rule: str = Field(description="Why: same, doubted, unused, contradicted, carrier, uncorroborated.")
    item_ids: list[UUID] = Field(description="What ends by it, or lasts by it.")
    successor_id: UUID | None = Field(description="What stays in the place of what ends.")
    proposed_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None


class DreamtShown(Shown):
    """What came of comparing memory with itself."""

    examined: int
    proposed: int
    accepted: int = Field(description="By the tenant's policy.")
    voided: int = Field(description="Older ones that fell, because what they were about has changed.")


class DecisionRequest(Strict):
    """Why it is decided so."""

    reason: str | None = Field(default=None, max_length=500)


class PolicyRequest(Strict):
    """Which proposals are accepted as soon as they are made."""

    accept: list[Annotated[ProposalKind, Field(strict=False)]] = Field(description="`merge`, `retire`, both or none.")


class PolicyShown(Shown):
    """Which proposals the tenant accepts by itself."""

    accept: list[ProposalKind]


Status = Annotated[ProposalStatus | None, Query(description="Only these; all, if left out.")]
Kinds = Annotated[ProposalKind | None, Query(description="Only this kind.")]


@router.get(
    "",
    operation_id="list_proposals",
    openapi_extra=client(part="items", cursor="before"),
    response_model=Page[ProposalShown],
)
async def list_proposals(
    caller: AdminCaller, status: Status = None, kind: Kinds = None, limit: Limit = 50, cursor: Cursor = None
) -> object:
    """Proposals, newest first."""
    found = await proposals.list_proposals(
        *caller, status=status, kind=kind, before=id_position(cursor), limit=limit + 1
    )
    return page_of(found, limit, lambda proposal: proposal.proposal_id)


@router.post("/review", operation_id="review_memory", response_model=DreamtShown)
async def dream(caller: AdminCaller) -> object:
    """Compare memory with itself now instead of once a week."""
    return await proposals.review_memory(*caller)


@router.get("/policy", operation_id="get_proposal_policy", response_model=PolicyShown)
async def get_proposal_policy(caller: AdminCaller) -> object:
    """Which proposals the tenant accepts by itself."""
    return {"accept": sorted((await proposals.get_proposal_policy(*caller)).accept)}


@router.put("/policy", operation_id="set_proposal_policy", response_model=PolicyShown)
async def set_proposal_policy(caller: AdminCaller, wanted: PolicyRequest) -> object:
    """Accept some kinds as soon as they are made."""
    return {"accept": sorted((await proposals.set_proposal_policy(*caller, wanted.accept)).accept)}


@router.get("/{proposal_id}", operation_id="get_proposal", response_model=ProposalShown)
async def get_proposal(caller: AdminCaller, proposal_id: UUID) -> object:
    """One proposal."""
    return await proposals.get_proposal(*caller, proposal_id)


@router.post("/{proposal_id}/accept", operation_id="accept_proposal", response_model=ProposalShown, responses=VOID)
async def accept_proposal(caller: AdminCaller, proposal_id: UUID, wanted: DecisionRequest) -> object:
    """Carry it out, whole or not at all."""
    return await proposals.accept_proposal(*caller, proposal_id, reason=wanted.reason)


@router.post("/{proposal_id}/reject", operation_id="reject_proposal", response_model=ProposalShown, responses=VOID)
async def reject_proposal(caller: AdminCaller, proposal_id: UUID, wanted: DecisionRequest) -> object:
    """Leave everything as it is; the same is not proposed again."""
    return await proposals.reject_proposal(*caller, proposal_id, reason=wanted.reason)


@router.post("/{proposal_id}/undo", operation_id="undo_proposal", response_model=ProposalShown, responses=VOID)
async def undo_proposal(caller: AdminCaller, proposal_id: UUID, wanted: DecisionRequest) -> object:
    """Take back what accepting it did, while nothing else was done to its items."""
    return await proposals.undo_proposal(*caller, proposal_id, reason=wanted.reason)


class ConsolidatedShown(Shown):
    """What a closed session left behind."""

    session_id: str
    patterns: list[UUID] = Field(description="Procedures that were learned or borne out.")
    superseded: int = Field(description="Older ones whose place they took.")
    archived: int = Field(description="Episodes that left recall, because something lasting rests on them.")
    summaries: int = Field(description="Summaries that last from now on.")
    facts: int = Field(description="Corroborated facts that last from now on.")
    was_new: bool = Field(description="False: it was consolidated before, and nothing was done.")


@sessions_router.post("/{session_id}/consolidate", operation_id="consolidate_session", response_model=ConsolidatedShown)
async def consolidate_session(caller: AdminCaller, session_id: str) -> object:
    """Let what a closed session taught outlive it, now instead of within the hour."""
    return await consolidate.consolidate_session(*caller, session_id)
