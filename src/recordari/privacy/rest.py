"""Sources that no fact may copy (the leak guard), and what is done with personal data and secrets."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from recordari.kit.rest import PROBLEMS, AdminCaller, Strict, client
from recordari.privacy import sanitise
from recordari.privacy.rules.findings import DataType
from recordari.privacy.rules.masking import Action, PrivacyPolicy
from recordari.tenants.rules import ProtectedSource

router = APIRouter(prefix="/v1/protected_sources", tags=["protection"], responses=PROBLEMS)
privacy_router = APIRouter(prefix="/v1/privacy", tags=["protection"], responses=PROBLEMS)

DataTypeName = Annotated[DataType, Field(strict=False)]
ActionName = Annotated[Action, Field(strict=False)]


class Guarded(BaseModel):
    """What came under guard."""

    source_id: UUID
    texts: int = Field(description="Texts that came under guard just now; those to come do too.")


class PrivacyRequest(Strict):
    """The whole policy; a type that is not named is at `default`, or at its own default without one."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"enabled": True, "default": "mask", "actions": {"email": "keep"}}]}
    )

    enabled: bool = True
    default: ActionName | None = None
    actions: dict[DataTypeName, ActionName] = Field(default_factory=dict)


@router.get("", operation_id="list_protected_sources")
async def list_protected_sources(caller: AdminCaller) -> list[ProtectedSource]:
    """The sources that no fact may copy."""
    return await sanitise.list_protected_sources(*caller)


@router.put("/{source_id}", operation_id="protect_source", openapi_extra=client(part="texts"))
async def protect_source(caller: AdminCaller, source_id: UUID) -> Guarded:
    """Let no fact copy the documents of a source, those to come included."""
    return Guarded(source_id=source_id, texts=await sanitise.protect_source(*caller, source_id))


@router.delete("/{source_id}", operation_id="unprotect_source", status_code=204)
async def unprotect_source(caller: AdminCaller, source_id: UUID) -> None:
    """Let facts say what they like of a source."""
    await sanitise.unprotect_source(*caller, source_id)


@privacy_router.get("", operation_id="get_privacy_policy")
async def get_privacy_policy(caller: AdminCaller) -> PrivacyPolicy:
    """What the tenant wants done with personal data and secrets."""
    return await sanitise.get_privacy_policy(*caller)


@privacy_router.put("", operation_id="set_privacy_policy")
async def set_privacy_policy(caller: AdminCaller, wanted: PrivacyRequest) -> PrivacyPolicy:
    """Replace what the tenant wants done with personal data and secrets; it binds every later write."""
    setting = {"enabled": wanted.enabled, **{str(name): str(action) for name, action in wanted.actions.items()}}
    if wanted.default is not None:
        setting["default"] = str(wanted.default)
    return await sanitise.set_privacy_policy(*caller, setting)
