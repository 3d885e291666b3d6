"""Sources that no fact may copy (the leak guard), and what is done with personal data and secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from recordari.kit.rest import PROBLEMS, AdminCaller, Shown, Strict, client
from recordari.privacy import sanitise
from recordari.privacy.rules.findings import DataType
from recordari.privacy.rules.masking import Action, PrivacyPolicy

router = APIRouter(prefix="/v1/protected_sources", tags=["protection"], responses=PROBLEMS)
privacy_router = APIRouter(prefix="/v1/privacy", tags=["protection"], responses=PROBLEMS)

DataTypeName = Annotated[DataType, Field(strict=False)]
ActionName = Annotated[Action, Field(strict=False)]


class ProtectedSourceShown(Shown):
    """A source that no fact may copy."""

    source_id: UUID
    protected_at: datetime
    texts: int = Field(description="Texts of it that stand under guard.")


class GuardedShown(BaseModel):
    """What came under guard."""

    source_id: UUID
    texts: int = Field(description="Texts that came under guard just now; those to come do too.")


class PrivacyShown(Shown):
    """What is done with each type of data before anything is written."""

    enabled: bool
    actions: dict[DataType, Action]


class PrivacyRequest(Strict):
    """The whole policy; a type that is not named is at `default`, or at its own default without one."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"enabled": True, "default": "mask", "actions": {"email": "keep"}}]}
    )

    enabled: bool = True
    default: ActionName | None = None
    actions: dict[DataTypeName, ActionName] = Field(default_factory=dict)


@router.get("", operation_id="list_protected_sources", response_model=list[ProtectedSourceShown])
async def list_protected_sources(caller: AdminCaller) -> object:
    """The sources that no fact may copy."""
    return await sanitise.list_protected_sources(*caller)


@router.put(
    "/{source_id}", operation_id="protect_source", openapi_extra=client(part="texts"), response_model=GuardedShown
)
async def protect_source(caller: AdminCaller, source_id: UUID) -> GuardedShown:
    """Let no fact copy the documents of a source, those to come included."""
    return GuardedShown(source_id=source_id, texts=await sanitise.protect_source(*caller, source_id))


@router.delete("/{source_id}", operation_id="unprotect_source", status_code=204)
async def unprotect_source(caller: AdminCaller, source_id: UUID) -> None:
    """Let facts say what they like of a source."""
    await sanitise.unprotect_source(*caller, source_id)


@privacy_router.get("", operation_id="get_privacy_policy", response_model=PrivacyShown)
async def get_privacy_policy(caller: AdminCaller) -> PrivacyPolicy:
    """What the tenant wants done with personal data and secrets."""
    return await sanitise.get_privacy_policy(*caller)


@privacy_router.put("", operation_id="set_privacy_policy", response_model=PrivacyShown)
async def set_privacy_policy(caller: AdminCaller, wanted: PrivacyRequest) -> PrivacyPolicy:
    """Replace what the tenant wants done with personal data and secrets; it binds every later write."""
    setting = {"enabled": wanted.enabled, **{str(name): str(action) for name, action in wanted.actions.items()}}
    if wanted.default is not None:
        setting["default"] = str(wanted.default)
    return await sanitise.set_privacy_policy(*caller, setting)
