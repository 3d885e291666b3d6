"""Sharing: memories given to tenants of the same organisation, and what is received from them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field

from recordari.errors import InvalidInput
from recordari.kit.rest import PROBLEMS, AdminCaller, Cursor, Limit, Page, Shown, Strict, client, page_of, position
from recordari.sharing import share as share_verbs
from recordari.sharing.rules import LinkStatus, Share

router = APIRouter(prefix="/v1/shares", tags=["sharing"], responses=PROBLEMS)
links_router = APIRouter(prefix="/v1/share_links", tags=["sharing"], responses=PROBLEMS)

TenantName = Annotated[str, Field(min_length=1, max_length=200)]


class OrganisationShown(Shown):
    """The organisation of the tenant."""

    organisation: str = Field(examples=["acme"])
    joined_at: datetime


class ShareRequest(Strict):
    """Memories to give, and to whom."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"item_ids": ["0199a4c0-7e6f-7cc0-8f0a-2f5d8f0c1a2b"], "tenants": ["acme-sales"]}]
        }
    )

    item_ids: list[Annotated[UUID, Field(strict=False)]] = Field(min_length=1, max_length=100)
    tenants: list[TenantName] = Field(min_length=1, max_length=100)


class SharedShown(Shown):
    """What became of one memory given to one tenant."""

    item_id: UUID
    tenant: str
    was_new: bool = Field(description="False: it was shared with that tenant already.")
    delivered: bool = Field(description="False: the receiver has not accepted yet, or cannot take it.")


class ShareShown(Shown):
    """One memory given to one tenant."""

    item_id: UUID
    tenant: str
    shared_by: str
    shared_at: datetime


class WithdrawnShown(Shown):
    """From how many tenants a memory was taken back."""

    tenants: int


class LinkShown(Shown):
    """A tenant that shares with this one."""

    tenant: str
    status: LinkStatus
    offered_at: datetime
    decided_at: datetime | None
    items: int = Field(description="How many memories of it are here.")


@router.get("/organisation", operation_id="get_organisation", response_model=OrganisationShown)
async def get_organisation(caller: AdminCaller) -> object:
    """The organisation that the tenant belongs to; an operator sets it up."""
    return await share_verbs.get_organisation(*caller)


@router.post("", operation_id="share", response_model=list[SharedShown])
async def share(caller: AdminCaller, wanted: ShareRequest) -> object:
    """Give memories to tenants of the organisation; each arrives once its receiver has accepted."""
    return await share_verbs.share(*caller, wanted.item_ids, wanted.tenants)


@router.get(
    "", operation_id="list_shares", openapi_extra=client(part="items", cursor="before"), response_model=Page[ShareShown]
)
async def list_shares(caller: AdminCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """What is shared and with whom, newest items first."""
    found = await share_verbs.list_shares(*caller, before=_place(cursor), limit=limit + 1)
    return page_of(found, limit, _key)


@router.delete(
    "/{item_id}", operation_id="withdraw", openapi_extra=client(part="tenants"), response_model=WithdrawnShown
)
async def withdraw(
    caller: AdminCaller,
    item_id: UUID,
    tenant: Annotated[str | None, Query(min_length=1, max_length=200, description="Only from this one.")] = None,
) -> object:
    """Take a memory back; it is gone there when this answers."""
    return {"tenants": await share_verbs.withdraw(*caller, item_id, tenant=tenant)}


@links_router.get("", operation_id="list_share_links", response_model=list[LinkShown])
async def list_share_links(caller: AdminCaller) -> object:
    """Which tenants share with this one, and whether that was accepted."""
    return await share_verbs.list_share_links(*caller)


@links_router.post("/{tenant_name}/accept", operation_id="accept_share_link", response_model=LinkShown)
async def accept_share_link(caller: AdminCaller, tenant_name: str) -> object:
    """Let arrive what a tenant shares."""
    return await share_verbs.accept_share_link(*caller, tenant_name)


@links_router.post("/{tenant_name}/decline", operation_id="decline_share_link", response_model=LinkShown)
async def decline_share_link(caller: AdminCaller, tenant_name: str) -> object:
    """Take nothing from a tenant, or nothing any more: what came from it is gone when this answers."""
    return await share_verbs.decline_share_link(*caller, tenant_name)


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
