"""Routes that end memory: retention policy, sweeps, decay, forgetting, holds, erasures of users."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from recordari.facts.rest import Reason
from recordari.kit.problems import error_responses
from recordari.kit.rest import (
    MISMATCH,
    PROBLEMS,
    AdminCaller,
    AgentCaller,
    Cursor,
    IfMatch,
    Limit,
    Strict,
    client,
    etag_of,
    id_position,
    page_of,
    paged,
    require_match,
)
from recordari.lifetime import erase, retain
from recordari.lifetime import forget as forget_verbs
from recordari.lifetime.erase import DeletedAgent, Reapplied
from recordari.lifetime.forget import Forgotten
from recordari.lifetime.retain import DecayResult, Sweep
from recordari.lifetime.rules import MOST_DAYS, Erasure, Forecast, Hold, RetentionPolicy

router = APIRouter(prefix="/v1/retention", tags=["retention"], responses=PROBLEMS)
items_router = APIRouter(prefix="/v1/items", tags=["items"], responses=PROBLEMS)
decay_router = APIRouter(prefix="/v1/decay", tags=["retention"], responses=PROBLEMS)
agents_router = APIRouter(prefix="/v1/agents", tags=["agents"], responses=PROBLEMS)
erasures_router = APIRouter(prefix="/v1/erasures", tags=["erasures"], responses=PROBLEMS)


TOO_MUCH = error_responses({409: "The sweep would end more items than the policy's `safety_share` allows."})
HELD = error_responses({409: "Actions hold memories of this user; release the holds first."})
HELD_ITEM = error_responses({409: "An action holds it, or another change came first."})
ActionId = Annotated[str, Path(min_length=1, max_length=200, description="Your own id of the action.")]
Days = Annotated[int, Field(ge=0, le=MOST_DAYS)]


class RetentionChange(Strict):
    """Values to change; the others stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"deleted_days": 7, "superseded_days": 30}]})

    deleted_days: Days = 30
    superseded_days: Days = 90
    archived_days: Days | None = None
    transient_days: Days = 30
    batch_size: int = Field(default=100, ge=1, le=10_000)
    safety_share: float = Field(default=0.25, gt=0, le=1)
    dry_run: bool = False


class SweepRequest(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"dry_run": True}]})

    dry_run: bool | None = Field(default=None, description="Only report the effect; by default the policy decides.")
    force: bool = Field(default=False, description="Pass over the safety floor.")


class ErasureRequest(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"user_id": "jane"}]})

    user_id: str = Field(min_length=1, max_length=200)


@router.get("", operation_id="get_retention_policy")
async def get_retention_policy(caller: AdminCaller, response: Response) -> RetentionPolicy:
    """The tenant's retention policy."""
    return _tagged(await retain.get_retention_policy(*caller), response)


@router.patch("", operation_id="set_retention_policy", responses=MISMATCH)
async def set_retention_policy(
    caller: AdminCaller, change: RetentionChange, response: Response, if_match: IfMatch = None
) -> RetentionPolicy:
    """Change how long the tenant keeps ended items."""
    if if_match is not None:
        require_match(if_match, etag_of(await retain.get_retention_policy(*caller)))
    return _tagged(await retain.set_retention_policy(*caller, **change.model_dump(exclude_unset=True)), response)


@router.post("/sweep", operation_id="sweep", responses=TOO_MUCH)
async def sweep(caller: AdminCaller, body: SweepRequest | None = None) -> Sweep:
    """Apply the retention policy now; `dry_run` only reports the effect."""
    body = body or SweepRequest()
    return await retain.sweep(*caller, dry_run=body.dry_run, force=body.force)


@decay_router.post("", operation_id="decay")
async def decay(caller: AdminCaller) -> DecayResult:
    """Archive faded items and promote important ones now."""
    return await retain.decay(*caller)


@erasures_router.post("", operation_id="start_erasing_user", status_code=202, responses=HELD)
async def start_erasing_user(caller: AdminCaller, body: ErasureRequest) -> Erasure:
    """Erase a user everywhere, in the background: rows, vectors, bodies, sessions, state, keys, pending work."""
    return await erase.start_erasing_user(*caller, body.user_id)


@erasures_router.post("/reapply", operation_id="reapply_erasures")
async def reapply_erasures(caller: AdminCaller) -> Reapplied:
    """Apply the tenant's journal of erasures again after an older backup was restored."""
    return await erase.reapply_erasures(*caller)


@erasures_router.get("", operation_id="list_erasures", **paged(Erasure, cursor="before"))
async def list_erasures(caller: AdminCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """Erasures of users, newest first. Once one is finished, nothing in it names the user."""
    rows = await erase.list_erasures(*caller, before=id_position(cursor), limit=limit + 1)
    return page_of(rows, limit, lambda erasure: erasure.erasure_id)


@erasures_router.get("/{erasure_id}", operation_id="get_erasure")
async def get_erasure(caller: AdminCaller, erasure_id: UUID) -> Erasure:
    """The progress of a user's erasure."""
    return await erase.get_erasure(*caller, erasure_id)


def _tagged(policy: RetentionPolicy, response: Response) -> RetentionPolicy:
    response.headers["ETag"] = etag_of(policy)
    return policy


class ForgetRequest(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "asked by the user", "dry_run": True}]})

    reason: Reason
    dry_run: bool = Field(default=False, description="Only report the items that would be redacted.")


class HoldResult(BaseModel):
    was_new: bool


@items_router.post("/{item_id}/forget", operation_id="forget", responses=HELD_ITEM)
async def forget(caller: AgentCaller, item_id: UUID, body: ForgetRequest | None = None) -> Forgotten:
    """Redact an item with everything derived from it, for good. `dry_run` only reports the items."""
    body = body or ForgetRequest(reason=None)
    return await forget_verbs.forget(*caller, item_id, reason=body.reason, dry_run=body.dry_run)


@items_router.get("/{item_id}/forecast", operation_id="item_forecast")
async def item_forecast(caller: AgentCaller, item_id: UUID) -> Forecast:
    """How often an item was used, and how it fades in the next 30 days."""
    return await retain.item_forecast(*caller, item_id)


@items_router.get("/{item_id}/holds", operation_id="list_holds")
async def list_holds(caller: AgentCaller, item_id: UUID) -> list[Hold]:
    """The actions that hold an item."""
    return await forget_verbs.list_holds(*caller, item_id)


@items_router.put(
    "/{item_id}/holds/{action_id}",
    operation_id="hold",
    openapi_extra=client(part="was_new"),
    status_code=201,
    responses={200: {"model": HoldResult, "description": "The action holds it already."}},
)
async def hold(caller: AgentCaller, item_id: UUID, action_id: ActionId, response: Response) -> HoldResult:
    """Hold an item for an action: nothing may remove it until you release it."""
    held = HoldResult(was_new=await forget_verbs.hold(*caller, item_id, action_id))
    if not held.was_new:
        response.status_code = 200
    return held


@items_router.delete("/{item_id}/holds/{action_id}", operation_id="release", status_code=204)
async def release(caller: AdminCaller, item_id: UUID, action_id: ActionId) -> None:
    """Release an item that an action held."""
    await forget_verbs.release(*caller, item_id, action_id)


@agents_router.delete(
    "/{agent_id}",
    operation_id="delete_agent",
    responses=error_responses({409: "Actions hold memories of this agent; release the holds first."}),
)
async def delete_agent(caller: AdminCaller, agent_id: str, memories: bool = False) -> DeletedAgent:
    """Remove an agent's definition; with `memories`, erase what it remembered too."""
    return await erase.delete_agent(*caller, agent_id, memories=memories)
