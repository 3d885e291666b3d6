"""What ends memory: the retention policy and its sweeps, decay, and the erasing of users."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Response
from pydantic import ConfigDict, Field

from recordari.facts.rest import Reason
from recordari.kit.problems import Problem
from recordari.kit.rest import (
    MISMATCH,
    PROBLEMS,
    AdminCaller,
    AgentCaller,
    IfMatch,
    Shown,
    Strict,
    etag_of,
    require_match,
)
from recordari.lifetime import decay, erase, retain
from recordari.lifetime import forget as forget_verbs
from recordari.lifetime.forget import Forgotten
from recordari.lifetime.rules import MOST_DAYS, DecayOutcome, RetentionPolicy

router = APIRouter(prefix="/v1/retention", tags=["retention"], responses=PROBLEMS)
items_router = APIRouter(prefix="/v1/items", tags=["items"], responses=PROBLEMS)
decay_router = APIRouter(prefix="/v1/decay", tags=["retention"], responses=PROBLEMS)
erasures_router = APIRouter(prefix="/v1/erasures", tags=["erasures"], responses=PROBLEMS)

TOO_MUCH: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "It would end more at once than the policy's `safety_share` allows."}
}
HELD: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "Actions rest on memories of this user; release the holds first."}
}

Days = Annotated[int, Field(ge=0, le=MOST_DAYS)]


class RetentionShown(Shown):
    """How long the tenant keeps what it has ended."""

    deleted_days: int
    superseded_days: int
    archived_days: int | None = Field(description="Null: archived memory stays.")
    transient_days: int
    batch_size: int
    safety_share: float
    dry_run: bool


class RetentionChange(Strict):
    """What to change of the policy; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"deleted_days": 7, "superseded_days": 30}]})

    deleted_days: Days = 30
    superseded_days: Days = 90
    archived_days: Days | None = None
    transient_days: Days = 30
    batch_size: int = Field(default=100, ge=1, le=10_000)
    safety_share: float = Field(default=0.25, gt=0, le=1)
    dry_run: bool = False


class SweepRequest(Strict):
    """How to carry the policy out."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"dry_run": True}]})

    dry_run: bool | None = Field(
        default=None, description="Only say what it would do; the policy decides, if left out."
    )
    force: bool = Field(default=False, description="Pass over the safety floor.")


class SweepShown(Shown):
    """What a sweep did, or would do: how many items had each verdict, and the first of them."""

    dry_run: bool
    counts: dict[DecayOutcome, int]
    item_ids: dict[DecayOutcome, list[UUID]]


class FadedShown(Shown):
    """What a pass over recent memory did."""

    examined: int
    archived: int
    promoted: int


class ErasureRequest(Strict):
    """Whom to erase."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"user_id": "jane"}]})

    user_id: str = Field(min_length=1, max_length=200)


class ErasureShown(Shown):
    """How far the erasing of a user has come; whom it is about is known only while it runs."""

    erasure_id: UUID
    user_id: str | None
    requested_at: datetime
    items: int = Field(description="Items erased so far.")
    sessions: int = Field(description="Sessions erased so far.")
    finished_at: datetime | None = Field(description="Null while it runs.")


class ReappliedShown(Shown):
    """What a journal of erasures did to a restored database."""

    tombstones: int
    items: int
    users: int


@router.get("", operation_id="get_retention_policy", response_model=RetentionShown)
async def get_retention_policy(caller: AdminCaller, response: Response) -> RetentionPolicy:
    """The tenant's retention policy."""
    return _tagged(await retain.get_retention_policy(*caller), response)


@router.patch("", operation_id="set_retention_policy", response_model=RetentionShown, responses=MISMATCH)
async def set_retention_policy(
    caller: AdminCaller, change: RetentionChange, response: Response, if_match: IfMatch = None
) -> RetentionPolicy:
    """Change how long the tenant keeps what it has ended."""
    if if_match is not None:
        require_match(if_match, _tag(await retain.get_retention_policy(*caller)))
    changed = await retain.set_retention_policy(*caller, **change.model_dump(exclude_unset=True))
    return _tagged(changed, response)


@router.post("/sweep", operation_id="sweep", response_model=SweepShown, responses=TOO_MUCH)
async def sweep(caller: AdminCaller, wanted: SweepRequest | None = None) -> object:
    """Carry the policy out now instead of at its time; `dry_run` only says what that would be."""
    wanted = wanted or SweepRequest()
    return await retain.sweep(*caller, dry_run=wanted.dry_run, force=wanted.force)


@decay_router.post("", operation_id="fade", response_model=FadedShown)
async def fade(caller: AdminCaller) -> object:
    """Archive recent memory that has faded and promote what matters, now instead of at its time."""
    return await decay.decay(*caller)


@erasures_router.post(
    "", operation_id="start_erasing_user", response_model=ErasureShown, status_code=202, responses=HELD
)
async def start_erasing_user(caller: AdminCaller, wanted: ErasureRequest) -> object:
    """Erase a user everywhere, in the background: rows, vectors, bodies, sessions, state, keys, work that waits."""
    return await erase.start_erasing_user(*caller, wanted.user_id)


@erasures_router.post("/reapply", operation_id="reapply_erasures", response_model=ReappliedShown)
async def reapply_erasures(caller: AdminCaller) -> object:
    """Forget again what was forgotten before an older backup was restored, by the tenant's journal."""
    return await erase.reapply_erasures(*caller)


@erasures_router.get("/{erasure_id}", operation_id="get_erasure", response_model=ErasureShown)
async def get_erasure(caller: AdminCaller, erasure_id: UUID) -> object:
    """How far the erasing of a user has come."""
    return await erase.get_erasure(*caller, erasure_id)


def _tag(policy: RetentionPolicy) -> str:
    return etag_of(RetentionShown.model_validate(policy))


def _tagged(policy: RetentionPolicy, response: Response) -> RetentionPolicy:
    response.headers["ETag"] = _tag(policy)
    return policy


HELD_ITEM: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "An action rests on it, or another change came first."}
}


ActionId = Annotated[str, Path(min_length=1, max_length=200, description="Your own id of the action.")]


class ForgetRequest(Strict):
    """How to forget an item."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "asked by the user", "dry_run": True}]})

    reason: Reason
    dry_run: bool = Field(default=False, description="Only say what would go.")


class ForgottenShown(Shown):
    """What is redacted: the item and everything derived from it; and what is made again without them."""

    item_ids: list[UUID]
    reembedded: list[UUID]
    summaries_renewed: int


class HoldShown(Shown):
    """An action that rests on an item."""

    item_id: UUID
    action_id: str
    created_at: datetime


@items_router.post("/{item_id}/forget", operation_id="forget", response_model=ForgottenShown, responses=HELD_ITEM)
async def forget(caller: AgentCaller, item_id: UUID, wanted: ForgetRequest | None = None) -> Forgotten:
    """Redact an item with everything derived from it; it does not come back. `dry_run` says what would go."""
    wanted = wanted or ForgetRequest(reason=None)
    return await forget_verbs.forget(*caller, item_id, reason=wanted.reason, dry_run=wanted.dry_run)


@items_router.get("/{item_id}/holds", operation_id="list_holds", response_model=list[HoldShown])
async def list_holds(caller: AgentCaller, item_id: UUID) -> object:
    """The actions that rest on an item."""
    return await forget_verbs.list_holds(*caller, item_id)


@items_router.put(
    "/{item_id}/holds/{action_id}",
    operation_id="hold",
    status_code=201,
    response_model=None,
    responses={200: {"description": "It was noted before."}},
)
async def hold(caller: AgentCaller, item_id: UUID, action_id: ActionId) -> Response:
    """Note that an action rests on an item: nothing may remove it from then on."""
    return Response(status_code=201 if await forget_verbs.hold(*caller, item_id, action_id) else 200)


@items_router.delete("/{item_id}/holds/{action_id}", operation_id="release", status_code=204)
async def release(caller: AdminCaller, item_id: UUID, action_id: ActionId) -> None:
    """Note that an action rests on an item no longer."""
    await forget_verbs.release(*caller, item_id, action_id)
