"""The definitions of a tenant's agents, versioned: `ETag` is the version, `If-Match` guards a change."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response
from pydantic import ConfigDict, Field

from recordari.errors import PreconditionFailed
from recordari.kit.problems import Problem
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
from recordari.sharing import share
from recordari.sharing.share import Copied
from recordari.tenants import tenants
from recordari.tenants.rules import Agent, AgentDefinition

router = APIRouter(prefix="/v1/agents", tags=["agents"], responses=PROBLEMS)


class AgentChange(Strict):
    """The whole definition of an agent; what is left out becomes empty."""

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
    """Whose memories to copy."""

    template: str = Field(min_length=1, max_length=200)


IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", max_length=100, description="Save only over this version (the ETag)."),
]
IfNoneMatch = Annotated[
    str | None,
    Header(alias="If-None-Match", max_length=100, description="`*`: save only if there is none yet."),
]


@router.get(
    "", operation_id="list_agents", openapi_extra=client(part="items", cursor="after"), response_model=Page[Agent]
)
async def list_agents(caller: AgentCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """Definitions by id."""
    return page_of(
        await tenants.list_agents(*caller, after=position(cursor) or "", limit=limit + 1),
        limit,
        lambda agent: agent.agent_id,
    )


@router.get("/{agent_id}", operation_id="get_agent")
async def get_agent(caller: AgentCaller, agent_id: str, response: Response) -> Agent:
    """One agent's definition."""
    return _tagged(await tenants.get_agent(*caller, agent_id), response)


@router.put(
    "/{agent_id}",
    operation_id="save_agent",
    responses={412: {"model": Problem, "description": "Not at the version named."}},
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
    definition = AgentDefinition(
        display_name=change.display_name,
        core=change.core,
        characteristics=change.characteristics,
        model=change.model,
        window_tokens=change.window_tokens,
    )
    expected = _expected_version(if_match, if_none_match)
    agent = await share.save_agent(*caller, agent_id, definition, expected_version=expected, template=change.template)
    return _tagged(agent, response)


@router.post("/{agent_id}/copy", operation_id="copy_memories")
async def copy_memories(caller: AdminCaller, agent_id: str, wanted: CopyRequest) -> Copied:
    """Give an agent what another one knows for good; done again, only what is new."""
    return await share.copy_memories(*caller, wanted.template, agent_id)


@router.delete("/{agent_id}", operation_id="delete_agent", status_code=204)
async def delete_agent(caller: AdminCaller, agent_id: str) -> None:
    """Remove an agent's definition; what it remembered stays."""
    await tenants.delete_agent(*caller, agent_id)


def _tagged(agent: Agent, response: Response) -> Agent:
    response.headers["ETag"] = f'"{agent.version}"'
    return agent


def _expected_version(if_match: str | None, if_none_match: str | None) -> int | None:
    if if_none_match is not None and if_none_match.strip() == "*":
        return 0
    if if_match is None:
        return None
    tag = if_match.strip().strip('"')
    # A tag that we never gave matches nothing.
    if not tag.isascii() or not tag.isdigit() or len(tag) > 9:
        raise PreconditionFailed
    return int(tag)
