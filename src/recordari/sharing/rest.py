"""Routes of shares between tenants of an organisation, and of agents, which may start with a template's memories.

A definition of an agent has a version: it is the `ETag`, and `If-Match` guards a change.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from recordari.errors import InvalidInput, PreconditionFailed
from recordari.kit.problems import error_responses
from recordari.kit.rest import (
    PROBLEMS,
    AdminCaller,
    AgentCaller,
    Cursor,
    Limit,
    Page,
    Strict,
    client,
    page_of,
    position,
)
from recordari.sharing import share as share_verbs
from recordari.sharing.rules import Membership, Share, ShareLink
from recordari.sharing.share import Copied, Shared
from recordari.tenants import tenants
from recordari.tenants.rules import Agent, AgentDefinition

router = APIRouter(prefix="/v1/shares", tags=["sharing"], responses=PROBLEMS)
links_router = APIRouter(prefix="/v1/share_links", tags=["sharing"], responses=PROBLEMS)
agents_router = APIRouter(prefix="/v1/agents", tags=["agents"], responses=PROBLEMS)

TenantName = Annotated[str, Field(min_length=1, max_length=200)]


class ShareRequest(Strict):
    """Memories to share, and the tenants that receive them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"item_ids": ["0199a4c0-7e6f-7cc0-8f0a-2f5d8f0c1a2b"], "tenants": ["acme-sales"]}]
        }
    )

    item_ids: list[Annotated[UUID, Field(strict=False)]] = Field(min_length=1, max_length=100)
    tenants: list[TenantName] = Field(min_length=1, max_length=100)


class Withdrawn(BaseModel):
    tenants: int


@router.get("/organisation", operation_id="get_organisation")
async def get_organisation(caller: AdminCaller) -> Membership:
    """The organisation that the tenant belongs to; an operator sets it up."""
    return await share_verbs.get_organisation(*caller)


@router.post("", operation_id="share")
async def share(caller: AdminCaller, body: ShareRequest) -> list[Shared]:
    """Share memories with tenants of the organisation; each arrives once its receiver has accepted."""
    return await share_verbs.share(*caller, body.item_ids, body.tenants)


@router.get(
    "", operation_id="list_shares", openapi_extra=client(part="items", cursor="before"), response_model=Page[Share]
)
async def list_shares(caller: AdminCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """The tenant's shares, newest items first."""
    shares = await share_verbs.list_shares(*caller, before=_ids_of(cursor), limit=limit + 1)
    return page_of(shares, limit, lambda share: f"{share.item_id} {share.to_tenant_id}")


@router.delete("/{item_id}", operation_id="withdraw", openapi_extra=client(part="tenants"))
async def withdraw(
    caller: AdminCaller,
    item_id: UUID,
    tenant: Annotated[str | None, Query(min_length=1, max_length=200, description="Only from this tenant.")] = None,
) -> Withdrawn:
    """Withdraw a memory; its copies are removed when this answers."""
    return Withdrawn(tenants=await share_verbs.withdraw(*caller, item_id, tenant=tenant))


@links_router.get("", operation_id="list_share_links")
async def list_share_links(caller: AdminCaller) -> list[ShareLink]:
    """The tenants that share with this one, and whether it accepted."""
    return await share_verbs.list_share_links(*caller)


@links_router.post("/{tenant}/accept", operation_id="accept_share_link")
async def accept_share_link(caller: AdminCaller, tenant: str) -> ShareLink:
    """Accept the memories that a tenant shares."""
    return await share_verbs.accept_share_link(*caller, tenant)


@links_router.post("/{tenant}/decline", operation_id="decline_share_link")
async def decline_share_link(caller: AdminCaller, tenant: str) -> ShareLink:
    """Decline a tenant's shares; copies that came from it are removed when this answers."""
    return await share_verbs.decline_share_link(*caller, tenant)


def _ids_of(cursor: str | None) -> tuple[UUID, UUID] | None:
    if (text := position(cursor)) is None:
        return None
    try:
        item_id, tenant_id = text.split(" ")
        return UUID(item_id), UUID(tenant_id)
    except ValueError:
        raise InvalidInput("this is not a cursor; take `next_cursor` of a page", field="cursor") from None


class AgentChange(Strict):
    """The whole definition of an agent; fields that you leave out become empty."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"core": "You are the support agent of Acme.", "characteristics": "Brief and friendly."}]
        }
    )

    display_name: str | None = Field(default=None, max_length=200)
    core: str = Field(default="", max_length=65_536, description="Who the agent is; first in every context.")
    characteristics: str = Field(default="", max_length=65_536, description="How it behaves.")
    model: str | None = Field(default=None, max_length=200)
    window_tokens: int = Field(default=128_000, ge=1, le=100_000_000, description="The model's window.")
    template: str | None = Field(
        default=None, min_length=1, max_length=200, description="An agent whose lasting memories it starts with."
    )


class CopyRequest(Strict):
    template: str = Field(min_length=1, max_length=200)


IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", max_length=100, description="Save only over this version (the ETag)."),
]
IfNoneMatch = Annotated[
    str | None,
    Header(alias="If-None-Match", max_length=100, description="`*`: save only if there is none yet."),
]


@agents_router.get(
    "", operation_id="list_agents", openapi_extra=client(part="items", cursor="after"), response_model=Page[Agent]
)
async def list_agents(caller: AgentCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """The tenant's agents by id."""
    return page_of(
        await tenants.list_agents(*caller, after=position(cursor) or "", limit=limit + 1),
        limit,
        lambda agent: agent.agent_id,
    )


@agents_router.get("/{agent_id}", operation_id="get_agent")
async def get_agent(caller: AgentCaller, agent_id: str, response: Response) -> Agent:
    """One agent's definition."""
    return _tagged(await tenants.get_agent(*caller, agent_id), response)


@agents_router.put(
    "/{agent_id}",
    operation_id="save_agent",
    responses=error_responses({412: "Not at the version named."}),
)
async def save_agent(
    caller: AdminCaller,
    agent_id: str,
    change: AgentChange,
    response: Response,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Agent:
    """Create or replace an agent's definition."""
    definition = AgentDefinition(**change.model_dump(exclude={"template"}))
    expected = _expected_version(if_match, if_none_match)
    agent = await share_verbs.save_agent(
        *caller, agent_id, definition, expected_version=expected, template=change.template
    )
    return _tagged(agent, response)


@agents_router.post("/{agent_id}/copy", operation_id="copy_memories")
async def copy_memories(caller: AdminCaller, agent_id: str, body: CopyRequest) -> Copied:
    """Copy a template's persistent memories to an agent; a second call copies only new ones."""
    return await share_verbs.copy_memories(*caller, body.template, agent_id)


def _tagged(agent: Agent, response: Response) -> Agent:
    response.headers["ETag"] = f'"{agent.version}"'
    return agent


def _expected_version(if_match: str | None, if_none_match: str | None) -> int | None:
    if if_none_match is not None and if_none_match.strip() == "*":
        return 0
    if if_match is None:
        return None
    tag = if_match.strip().strip('"')
    # A tag that this server never sent matches nothing.
    if not tag.isascii() or not tag.isdigit() or len(tag) > 9:
        raise PreconditionFailed
    return int(tag)
