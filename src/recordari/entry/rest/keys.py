"""API keys: made here, shown once, revoked at once."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field

from recordari.core.identity import Role
from recordari.domain.tenants import ApiKey
from recordari.entry.auth import Authenticator
from recordari.kit.rest import PROBLEMS, AdminMemory, Moment, Page, Shown, Strict

router = APIRouter(prefix="/v1/keys", tags=["keys"], responses=PROBLEMS)


class KeyShown(Shown):
    """A key as it can be seen later, without its secret."""

    key_id: UUID
    name: str = Field(examples=["support agent"])
    role: Role
    user_id: str | None
    agent_id: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class KeyRequest(Strict):
    """The key to make. One bound to a user or agent can act for no other."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "support agent", "agent_id": "support"}]})

    name: str = Field(min_length=1, max_length=200)
    role: Annotated[Role, Field(strict=False)] = Role.AGENT
    user_id: str | None = Field(default=None, min_length=1, max_length=200)
    agent_id: str | None = Field(default=None, min_length=1, max_length=200)
    expires_at: Moment | None = None


class NewKeyShown(Shown):
    """A key just made."""

    key: KeyShown
    text: str = Field(description="The key itself. It is shown this once; keep it safe.")


@router.post("", operation_id="create_key", response_model=NewKeyShown, status_code=201)
async def create_key(memory: AdminMemory, wanted: KeyRequest) -> object:
    """Make an API key; its text is in this answer and nowhere else."""
    return await memory.create_key(
        wanted.name,
        role=wanted.role,
        user_id=wanted.user_id,
        agent_id=wanted.agent_id,
        expires_at=wanted.expires_at,
    )


@router.get("", operation_id="list_keys", response_model=Page[KeyShown])
async def list_keys(memory: AdminMemory) -> object:
    """The tenant's keys, newest first, revoked ones too."""
    return {"items": await memory.list_keys(), "next_cursor": None}


@router.delete("/{key_id}", operation_id="revoke_key", response_model=KeyShown)
async def revoke_key(memory: AdminMemory, key_id: UUID, request: Request) -> ApiKey:
    """Close a key: at once in this process, within `key_cache_seconds` in others."""
    key = await memory.revoke_key(key_id)
    authenticator: Authenticator = request.app.state.authenticator
    authenticator.forget_key(key_id)
    return key
