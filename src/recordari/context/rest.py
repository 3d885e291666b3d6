"""The context of a question: what an agent is to see, within its budget."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from recordari.context import assemble, profiles
from recordari.context.assemble import Context
from recordari.context.rules.context import LEAST_BUDGET, MOST_BUDGET, Iteration, Rendering
from recordari.context.rules.profiles import Profile
from recordari.kit.rest import (
    PROBLEMS,
    AgentCaller,
    Moment,
    Strict,
    client,
)
from recordari.recall.rest import Question

profiles_router = APIRouter(prefix="/v1", tags=["context"], responses=PROBLEMS)
router = APIRouter(prefix="/v1/context", tags=["context"], responses=PROBLEMS)

RenderingName = Annotated[Rendering, Field(strict=False)]
IterationName = Annotated[Iteration, Field(strict=False)]


class ContextRequestBody(Strict):
    """What the context is for."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": "What did we decide about the launch last week?", "budget": 4000}]}
    )

    question: Question | None = Field(default=None, description="What the user asks; without one, nothing is recalled.")
    profile: str | None = Field(
        default=None, max_length=40, description="`router`, `stable`, or one of the tenant's own; else its default."
    )
    budget: int | None = Field(
        default=None, ge=LEAST_BUDGET, le=MOST_BUDGET, description="Most tokens; the profile's, if left out."
    )
    render: RenderingName = Field(default=Rendering.TEXT, description="As text, as chat messages, or sections alone.")
    as_of: Moment | None = Field(default=None, description="What would have been shown at that moment.")
    iterate: IterationName = Field(
        default=Iteration.AUTO, description="Ask in several rounds: when it needs it, or not."
    )
    enable_rerank: bool = Field(default=False, description="Let a cross-encoder reorder, where one is set up.")
    explain: bool = Field(default=False, description="Also say why: what was considered, cut and left out.")


@router.post("", operation_id="get_context", openapi_extra=client(reads=True))
async def get_context(caller: AgentCaller, asked: ContextRequestBody) -> Context:
    """What the agent is to see for a question: its definition, the session, and what memory holds, within a budget.

    Everything but the agent's own definition stands as data in blocks that no content can close.
    """
    return await assemble.get_context(*caller, **dict(asked))


@profiles_router.get("/agents/{agent_id}/profile", operation_id="agent_profile")
async def agent_profile(caller: AgentCaller, agent_id: str) -> Profile:
    """What an agent knows, in a few hundred tokens; empty where that is nothing."""
    return await profiles.profile(*caller, agent=agent_id)


@profiles_router.get("/users/{user_id}/profile", operation_id="user_profile")
async def user_profile(caller: AgentCaller, user_id: str) -> Profile:
    """What is known of a user, in a few hundred tokens; empty where nothing is."""
    return await profiles.profile(*caller, user=user_id)
