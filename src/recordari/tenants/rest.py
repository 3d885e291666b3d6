"""The tenant of the credential: what it is, and its settings."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import ConfigDict, Field

from recordari.core.identity import Identity, Role
from recordari.errors import InvalidInput
from recordari.kit.rest import (
    PROBLEMS,
    AdminCaller,
    AgentCaller,
    Cursor,
    Limit,
    Moment,
    Page,
    Shown,
    Strict,
    client,
    id_position,
    page_of,
    position,
)
from recordari.tenants import tenants
from recordari.tenants.auth import Authenticator
from recordari.tenants.rules import ApiKey, Tenant, User

tenants_router = APIRouter(prefix="/v1", tags=["tenant"], responses=PROBLEMS)


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


@tenants_router.get("/tenant", operation_id="get_tenant", response_model=TenantShown)
async def get_tenant(caller: AgentCaller) -> Tenant:
    """The tenant of the credential."""
    return await tenants.get_tenant(*caller)


@tenants_router.patch("/tenant", operation_id="update_tenant", response_model=TenantShown)
async def update_tenant(caller: AdminCaller, change: TenantChange) -> Tenant:
    """Change the tenant's language or settings. Its plan is the operator's to set."""
    return await tenants.update_tenant(*caller, language=change.language, settings=change.settings)


@tenants_router.get("/whoami", operation_id="whoami", response_model=IdentityShown)
async def whoami(caller: AgentCaller) -> Identity:
    """Who this request acts as: the credential, narrowed by the request's headers."""
    return caller.identity


users_router = APIRouter(prefix="/v1/users", tags=["users"], responses=PROBLEMS)


class UserShown(Shown):
    """A user."""

    user_id: str = Field(examples=["jane"])
    display_name: str | None = Field(examples=["Jane"])
    time_zone: str = Field(examples=["Europe/Stockholm"])
    created_at: datetime


class UserChange(Strict):
    """What to say of a user; what is left out stays."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"display_name": "Jane", "time_zone": "Europe/Stockholm"}]}
    )

    display_name: str | None = Field(default=None, max_length=200)
    time_zone: str | None = Field(default=None, max_length=64, description="An IANA name.")


@users_router.get(
    "", operation_id="list_users", openapi_extra=client(part="items", cursor="after"), response_model=Page[UserShown]
)
async def list_users(caller: AdminCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """Users by id."""
    return page_of(
        await tenants.list_users(*caller, after=position(cursor) or "", limit=limit + 1),
        limit,
        lambda user: user.user_id,
    )


@users_router.get("/{user_id}", operation_id="get_user", response_model=UserShown)
async def get_user(caller: AgentCaller, user_id: str) -> User:
    """One user."""
    return await tenants.get_user(*caller, user_id)


@users_router.put("/{user_id}", operation_id="save_user", response_model=UserShown)
async def save_user(caller: AgentCaller, user_id: str, change: UserChange) -> User:
    """Create or change a user: an administrator any, another key only the user it acts for."""
    return await tenants.save_user(*caller, user_id, display_name=change.display_name, time_zone=change.time_zone)


audit_router = APIRouter(prefix="/v1/audit", tags=["audit"], responses=PROBLEMS)


class AuditShown(Shown):
    """One line of the audit."""

    audit_id: UUID
    at: datetime
    actor: str
    action: str = Field(examples=["key.create"])
    subject_kind: str = Field(examples=["key"])
    subject_id: str
    reason: str | None
    details: dict[str, Any]


SubjectKind = Annotated[str | None, Query(max_length=100, description="With `subject_id`: only of that subject.")]
SubjectId = Annotated[str | None, Query(max_length=200)]


@audit_router.get(
    "", operation_id="list_audit", openapi_extra=client(part="items", cursor="before"), response_model=Page[AuditShown]
)
async def list_audit(
    caller: AdminCaller,
    subject_kind: SubjectKind = None,
    subject_id: SubjectId = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """The audit, newest first."""
    if (subject_kind is None) != (subject_id is None):
        raise InvalidInput("give subject_kind and subject_id together", field="subject_id")
    rows = await tenants.list_audit(
        *caller, subject_kind=subject_kind, subject_id=subject_id, before=id_position(cursor), limit=limit + 1
    )
    return page_of(rows, limit, lambda entry: entry.audit_id)


keys_router = APIRouter(prefix="/v1/keys", tags=["keys"], responses=PROBLEMS)


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


@keys_router.post("", operation_id="create_key", response_model=NewKeyShown, status_code=201)
async def create_key(caller: AdminCaller, wanted: KeyRequest) -> object:
    """Make an API key; its text is in this answer and nowhere else."""
    return await tenants.create_key(
        *caller,
        wanted.name,
        role=wanted.role,
        user_id=wanted.user_id,
        agent_id=wanted.agent_id,
        expires_at=wanted.expires_at,
    )


@keys_router.get("", operation_id="list_keys", openapi_extra=client(part="items"), response_model=Page[KeyShown])
async def list_keys(caller: AdminCaller) -> object:
    """The tenant's keys, newest first, revoked ones too."""
    return {"items": await tenants.list_keys(*caller), "next_cursor": None}


@keys_router.delete("/{key_id}", operation_id="revoke_key", response_model=KeyShown)
async def revoke_key(caller: AdminCaller, key_id: UUID, request: Request) -> ApiKey:
    """Close a key: at once in this process, within five seconds in others."""
    key = await tenants.revoke_key(*caller, key_id)
    authenticator: Authenticator = request.app.state.authenticator
    authenticator.forget_key(key_id)
    return key
