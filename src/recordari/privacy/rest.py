"""Protected sources, which no fact may copy, and the privacy policy."""

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
    """A protected source."""

    source_id: UUID
    texts: int = Field(description="Newly protected texts; future ones are protected too.")


class PrivacyRequest(Strict):
    """The whole policy; types that are not named have the action `default`, or their own default."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"enabled": True, "default": "mask", "actions": {"email": "keep"}}]}
    )

    enabled: bool = True
    default: ActionName | None = None
    actions: dict[DataTypeName, ActionName] = Field(default_factory=dict)


@router.get("", operation_id="list_protected_sources")
async def list_protected_sources(caller: AdminCaller) -> list[ProtectedSource]:
    """List the sources that no fact may copy."""
    return await sanitise.list_protected_sources(*caller)


@router.put("/{source_id}", operation_id="protect_source", openapi_extra=client(part="texts"))
async def protect_source(caller: AdminCaller, source_id: UUID) -> Guarded:
    """Let no fact copy the documents of a source, future ones included."""
    return Guarded(source_id=source_id, texts=await sanitise.protect_source(*caller, source_id))


@router.delete("/{source_id}", operation_id="unprotect_source", status_code=204)
async def unprotect_source(caller: AdminCaller, source_id: UUID) -> None:
    """End the protection of a source: facts may copy it."""
    await sanitise.unprotect_source(*caller, source_id)


@privacy_router.get("", operation_id="get_privacy_policy")
async def get_privacy_policy(caller: AdminCaller) -> PrivacyPolicy:
    """Return the privacy policy of the tenant."""
    return await sanitise.get_privacy_policy(*caller)


@privacy_router.put("", operation_id="set_privacy_policy")
async def set_privacy_policy(caller: AdminCaller, request: PrivacyRequest) -> PrivacyPolicy:
    """Replace the privacy policy of the tenant; it applies to every later write."""
    setting = {"enabled": request.enabled, **{str(name): str(action) for name, action in request.actions.items()}}
    if request.default is not None:
        setting["default"] = str(request.default)
    return await sanitise.set_privacy_policy(*caller, setting)
