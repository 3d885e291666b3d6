"""Routes of contexts and profiles."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from recordari.context import assemble, profiles
from recordari.context.assemble import Context
from recordari.context.rules.context import LEAST_BUDGET, MOST_BUDGET, Iteration, Rendering
from recordari.context.rules.profiles import Profile
from recordari.kit.rest import PROBLEMS, AgentCaller, Moment, Strict, client
from recordari.recall.rest import Question

profiles_router = APIRouter(prefix="/v1", tags=["context"], responses=PROBLEMS)
router = APIRouter(prefix="/v1/context", tags=["context"], responses=PROBLEMS)

RenderingName = Annotated[Rendering, Field(strict=False)]
IterationName = Annotated[Iteration, Field(strict=False)]


class ContextRequestBody(Strict):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": "What did we decide about the launch last week?", "budget": 4000}]}
    )

    question: Question | None = Field(
        default=None, description="The user's question; without one, nothing is recalled."
    )
    profile: str | None = Field(
        default=None,
        max_length=40,
        description="`router`, `stable`, `start`, or one of the tenant's own; by default the tenant's default.",
    )
    budget: int | None = Field(
        default=None, ge=LEAST_BUDGET, le=MOST_BUDGET, description="Maximum tokens; by default the profile's."
    )
    project: str | None = Field(
        default=None, min_length=1, max_length=200, description="The piece of work; what was said in it comes first."
    )
    render: RenderingName = Field(default=Rendering.TEXT, description="As text, as chat messages, or sections only.")
    as_of: Moment | None = Field(default=None, description="What was true at that moment.")
    known_at: Moment | None = Field(default=None, description="What was recorded by that moment.")
    iterate: IterationName = Field(
        default=Iteration.AUTO, description="Recall in several rounds: always, never, or when the question needs it."
    )
    enable_rerank: bool = Field(default=False, description="Reorder by a cross-encoder, if one is configured.")
    explain: bool = Field(default=False, description="Add a trace of what was considered, cut and left out.")


@router.post("", operation_id="get_context", openapi_extra=client(reads=True))
async def get_context(caller: AgentCaller, body: ContextRequestBody) -> Context:
    """Assemble the context for a question: the agent's definition, the session and memory, within a budget.

    All but the agent's own definition is data, in blocks that no content can close.
    """
    return await assemble.get_context(*caller, **dict(body))


@profiles_router.get("/agents/{agent_id}/profile", operation_id="agent_profile")
async def agent_profile(caller: AgentCaller, agent_id: str) -> Profile:
    """The facts of an agent in a few hundred tokens; empty if there are none."""
    return await profiles.profile(*caller, agent=agent_id)


@profiles_router.get("/users/{user_id}/profile", operation_id="user_profile")
async def user_profile(caller: AgentCaller, user_id: str) -> Profile:
    """The facts about a user in a few hundred tokens; empty if there are none."""
    return await profiles.profile(*caller, user=user_id)
