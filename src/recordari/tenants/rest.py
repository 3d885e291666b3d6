"""The tenant of the credential, its users, keys and audit."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import AwareDatetime, ConfigDict, Field

from recordari.core.identity import Identity, Role
from recordari.db.audit import AuditEntry
from recordari.errors import InvalidInput
from recordari.kit.rest import (
    PROBLEMS,
    AdminCaller,
    AgentCaller,
    Cursor,
    Limit,
    Moment,
    Strict,
    id_position,
    page_of,
    paged,
    position,
)
from recordari.tenants import tenants
from recordari.tenants.auth import Authenticator
from recordari.tenants.rules import MOST_USERS_OF_A_KEY, ApiKey, Tenant, User
from recordari.tenants.tenants import NewKey

tenants_router = APIRouter(prefix="/v1", tags=["tenant"], responses=PROBLEMS)


class TenantChange(Strict):
    """Changes of a tenant; omitted fields stay as they are."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"language": "german", "settings": {"retention": 30}}]})

    language: str | None = Field(
        default=None, min_length=1, max_length=63, description="A text search configuration of the database."
    )
    settings: dict[str, Any] | None = Field(default=None, max_length=100, description="Merged key by key.")


@tenants_router.get("/tenant", operation_id="get_tenant")
async def get_tenant(caller: AgentCaller) -> Tenant:
    """Return the tenant of the credential."""
    return await tenants.get_tenant(*caller)


@tenants_router.patch("/tenant", operation_id="update_tenant")
async def update_tenant(caller: AdminCaller, change: TenantChange) -> Tenant:
    """Change the tenant's language or settings. Only the operator changes its plan and `quotas`."""
    return await tenants.update_tenant(*caller, **change.model_dump())


@tenants_router.get("/whoami", operation_id="whoami")
async def whoami(caller: AgentCaller) -> Identity:
    """Return the identity of this request: the credential, narrowed by the headers."""
    return caller.identity


users_router = APIRouter(prefix="/v1/users", tags=["users"], responses=PROBLEMS)


class UserChange(Strict):
    """Changes of a user; omitted fields stay as they are."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"display_name": "Jane", "time_zone": "Europe/Stockholm"}]}
    )

    display_name: str | None = Field(default=None, max_length=200)
    time_zone: str | None = Field(default=None, max_length=64, description="An IANA name.")


@users_router.get("", operation_id="list_users", **paged(User, cursor="after"))
async def list_users(caller: AdminCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """List users by id."""
    users = await tenants.list_users(*caller, after=position(cursor) or "", limit=limit + 1)
    return page_of(users, limit, lambda user: user.user_id)


@users_router.get("/{user_id}", operation_id="get_user")
async def get_user(caller: AgentCaller, user_id: str) -> User:
    """Return a user."""
    return await tenants.get_user(*caller, user_id)


@users_router.put("/{user_id}", operation_id="save_user")
async def save_user(caller: AgentCaller, user_id: str, change: UserChange) -> User:
    """Create or change a user: an administrator any user, another key only the user it acts for."""
    return await tenants.save_user(*caller, user_id, **change.model_dump())


audit_router = APIRouter(prefix="/v1/audit", tags=["audit"], responses=PROBLEMS)


SubjectKind = Annotated[
    str | None, Query(max_length=100, description="With `subject_id`: only entries of that subject.")
]
SubjectId = Annotated[str | None, Query(max_length=200)]
Then = Annotated[AwareDatetime | None, Query(description="By the time of the entry.")]
Actor = Annotated[str | None, Query(max_length=300, description="Only what this actor did, such as `job:decay`.")]
AuditedAction = Annotated[
    str | None, Query(max_length=100, description="Only this action (`item.forget`) or group of actions (`item`).")
]


@audit_router.get("", operation_id="list_audit", **paged(AuditEntry, cursor="before"))
async def list_audit(
    caller: AdminCaller,
    subject_kind: SubjectKind = None,
    subject_id: SubjectId = None,
    actor: Actor = None,
    action: AuditedAction = None,
    since: Then = None,
    until: Then = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """List the audit, newest first."""
    if (subject_kind is None) != (subject_id is None):
        raise InvalidInput("give subject_kind and subject_id together", field="subject_id")
    if subject_kind is not None and any(each is not None for each in (actor, action, since, until)):
        raise InvalidInput("ask for one subject, or filter by actor, action and time", field="subject_id")
    rows = await tenants.list_audit(
        *caller,
        subject_kind=subject_kind,
        subject_id=subject_id,
        actor=actor,
        action=action,
        since=since,
        until=until,
        before=id_position(cursor),
        limit=limit + 1,
    )
    return page_of(rows, limit, lambda entry: entry.audit_id)


keys_router = APIRouter(prefix="/v1/keys", tags=["keys"], responses=PROBLEMS)


class KeyRequest(Strict):
    """A new key. A key that is bound to a user or agent acts for no other."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "support agent", "agent_id": "support"}]})

    name: str = Field(min_length=1, max_length=200)
    role: Annotated[Role, Field(strict=False)] = Role.AGENT
    user_id: str | None = Field(default=None, min_length=1, max_length=200)
    users: list[str] | None = Field(
        default=None,
        max_length=MOST_USERS_OF_A_KEY,
        description="The users that it may act for; empty: none, only what belongs to no user. Left out: any user.",
    )
    agent_id: str | None = Field(default=None, min_length=1, max_length=200)
    expires_at: Moment | None = None


@keys_router.post("", operation_id="create_key", status_code=201)
async def create_key(caller: AdminCaller, request: KeyRequest) -> NewKey:
    """Create an API key; only this answer contains its text."""
    return await tenants.create_key(*caller, **request.model_dump())


@keys_router.get("", operation_id="list_keys", **paged(ApiKey))
async def list_keys(caller: AdminCaller) -> object:
    """List the keys of the tenant, newest first, revoked ones included."""
    return {"items": await tenants.list_keys(*caller), "next_cursor": None}


@keys_router.delete("/{key_id}", operation_id="revoke_key")
async def revoke_key(caller: AdminCaller, key_id: UUID, request: Request) -> ApiKey:
    """Revoke a key: at once in this process, within five seconds in others."""
    key = await tenants.revoke_key(*caller, key_id)
    authenticator: Authenticator = request.app.state.authenticator
    authenticator.forget_key(key_id)
    return key
