"""The tenant of the credential: what it is, and its settings."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from recordari.core.identity import Identity, Role
from recordari.domain.tenants import Tenant
from recordari.kit.rest import PROBLEMS, AdminMemory, AgentMemory, Shown, Strict

router = APIRouter(prefix="/v1", tags=["tenant"], responses=PROBLEMS)


class TenantShown(Shown):
    """A tenant."""

    tenant_id: UUID
    name: str = Field(examples=["acme"])
    language: str = Field(examples=["english"])
    plan: str = Field(examples=["standard"])
    settings: dict[str, Any]
    created_at: datetime


class TenantChange(Strict):
    """What to change of a tenant; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"language": "german", "settings": {"retention": 30}}]})

    language: str | None = Field(
        default=None, min_length=1, max_length=63, description="A text search configuration of the database."
    )
    settings: dict[str, Any] | None = Field(default=None, max_length=100, description="Merged key by key.")


class IdentityShown(Shown):
    """Who a request acts as."""

    tenant_id: UUID
    user_id: str | None
    agent_id: str | None
    session_id: str | None
    run_id: str | None
    role: Role
    actor: str = Field(description="The credential, as the audit writes it.")


@router.get("/tenant", operation_id="get_tenant", response_model=TenantShown)
async def get_tenant(memory: AgentMemory) -> Tenant:
    """The tenant of the credential."""
    return await memory.get_tenant()


@router.patch("/tenant", operation_id="update_tenant", response_model=TenantShown)
async def update_tenant(memory: AdminMemory, change: TenantChange) -> Tenant:
    """Change the tenant's language or settings. Its plan is the operator's to set."""
    return await memory.update_tenant(language=change.language, settings=change.settings)


@router.get("/whoami", operation_id="whoami", response_model=IdentityShown)
async def whoami(memory: AgentMemory) -> Identity:
    """Who this request acts as: the credential, narrowed by the request's headers."""
    return memory.identity
