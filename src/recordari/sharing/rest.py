"""Sharing: memories given to tenants of the same organisation, and what is received from them."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from recordari.errors import InvalidInput
from recordari.kit.rest import PROBLEMS, AdminCaller, Cursor, Limit, Page, Strict, client, page_of, position
from recordari.sharing import share as share_verbs
from recordari.sharing.rules import Membership, Share, ShareLink
from recordari.sharing.share import Shared

router = APIRouter(prefix="/v1/shares", tags=["sharing"], responses=PROBLEMS)
links_router = APIRouter(prefix="/v1/share_links", tags=["sharing"], responses=PROBLEMS)

TenantName = Annotated[str, Field(min_length=1, max_length=200)]


class ShareRequest(Strict):
    """Memories to give, and to whom."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"item_ids": ["0199a4c0-7e6f-7cc0-8f0a-2f5d8f0c1a2b"], "tenants": ["acme-sales"]}]
        }
    )

    item_ids: list[Annotated[UUID, Field(strict=False)]] = Field(min_length=1, max_length=100)
    tenants: list[TenantName] = Field(min_length=1, max_length=100)


class Withdrawn(BaseModel):
    """From how many tenants a memory was taken back."""

    tenants: int


@router.get("/organisation", operation_id="get_organisation")
async def get_organisation(caller: AdminCaller) -> Membership:
    """The organisation that the tenant belongs to; an operator sets it up."""
    return await share_verbs.get_organisation(*caller)


@router.post("", operation_id="share")
async def share(caller: AdminCaller, wanted: ShareRequest) -> list[Shared]:
    """Give memories to tenants of the organisation; each arrives once its receiver has accepted."""
    return await share_verbs.share(*caller, wanted.item_ids, wanted.tenants)


@router.get(
    "", operation_id="list_shares", openapi_extra=client(part="items", cursor="before"), response_model=Page[Share]
)
async def list_shares(caller: AdminCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """What is shared and with whom, newest items first."""
    found = await share_verbs.list_shares(*caller, before=_place(cursor), limit=limit + 1)
    return page_of(found, limit, _key)


@router.delete("/{item_id}", operation_id="withdraw", openapi_extra=client(part="tenants"))
async def withdraw(
    caller: AdminCaller,
    item_id: UUID,
    tenant: Annotated[str | None, Query(min_length=1, max_length=200, description="Only from this one.")] = None,
) -> Withdrawn:
    """Take a memory back; it is gone there when this answers."""
    return Withdrawn(tenants=await share_verbs.withdraw(*caller, item_id, tenant=tenant))


@links_router.get("", operation_id="list_share_links")
async def list_share_links(caller: AdminCaller) -> list[ShareLink]:
    """Which tenants share with this one, and whether that was accepted."""
    return await share_verbs.list_share_links(*caller)


@links_router.post("/{tenant}/accept", operation_id="accept_share_link")
async def accept_share_link(caller: AdminCaller, tenant: str) -> ShareLink:
    """Let arrive what a tenant shares."""
    return await share_verbs.accept_share_link(*caller, tenant)


@links_router.post("/{tenant}/decline", operation_id="decline_share_link")
async def decline_share_link(caller: AdminCaller, tenant: str) -> ShareLink:
    """Take nothing from a tenant, or nothing any more: what came from it is gone when this answers."""
    return await share_verbs.decline_share_link(*caller, tenant)


def _key(share: Share) -> str:
    return f"{share.item_id} {share.to_tenant_id}"


def _place(cursor: str | None) -> tuple[UUID, UUID] | None:
    written = position(cursor)
    if written is None:
        return None
    try:
        item_id, tenant_id = written.split(" ")
        return UUID(item_id), UUID(tenant_id)
    except ValueError:
        raise InvalidInput("this is not a cursor; take `next_cursor` of a page", field="cursor") from None
