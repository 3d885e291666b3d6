"""State: JSON by key of a run or session."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from recordari.domain.state import LONGEST_TTL, OwnerKind
from recordari.kit.rest import MISMATCH, PROBLEMS, AgentMemory, Shown, Strict

router = APIRouter(prefix="/v1/state", tags=["state"], responses=PROBLEMS)


class StateShown(Shown):
    """One key and its value."""

    key: str
    value: Any
    version: int
    updated_at: datetime
    expires_at: datetime | None


class StateRequest(Strict):
    """A value to keep; `if_version` 0 writes only where there is no such key yet."""

    value: Any
    ttl_seconds: int | None = Field(default=None, ge=1, le=int(LONGEST_TTL.total_seconds()))
    if_version: int | None = Field(default=None, ge=0)


Version = Annotated[int | None, Query(ge=0)]
Prefix = Annotated[str, Query(max_length=200)]


@router.put(
    "/{owner}/{owner_id}/{state_key:path}", operation_id="set_state", response_model=StateShown, responses=MISMATCH
)
async def set_state(
    memory: AgentMemory, owner: OwnerKind, owner_id: str, state_key: str, wanted: StateRequest
) -> object:
    """Keep JSON under a key; all keys of one owner have 128 KiB together."""
    ttl = timedelta(seconds=wanted.ttl_seconds) if wanted.ttl_seconds is not None else None
    return await memory.set_state(
        state_key, wanted.value, owner=owner, owner_id=owner_id, ttl=ttl, if_version=wanted.if_version
    )


@router.get("/{owner}/{owner_id}", operation_id="list_state", response_model=list[StateShown])
async def list_state(memory: AgentMemory, owner: OwnerKind, owner_id: str, prefix: Prefix = "") -> object:
    """Every key that has not expired."""
    return await memory.list_state(owner=owner, owner_id=owner_id, prefix=prefix)


@router.get("/{owner}/{owner_id}/{state_key:path}", operation_id="get_state", response_model=StateShown)
async def get_state(memory: AgentMemory, owner: OwnerKind, owner_id: str, state_key: str) -> object:
    """One key that has not expired."""
    return await memory.get_state(state_key, owner=owner, owner_id=owner_id)


@router.delete("/{owner}/{owner_id}/{state_key:path}", operation_id="delete_state", status_code=204, responses=MISMATCH)
async def delete_state(
    memory: AgentMemory, owner: OwnerKind, owner_id: str, state_key: str, if_version: Version = None
) -> None:
    """Remove one key."""
    await memory.delete_state(state_key, owner=owner, owner_id=owner_id, if_version=if_version)
