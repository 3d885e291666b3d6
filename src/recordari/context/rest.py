"""Routes of contexts and profiles."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field

from recordari.context import assemble, profiles, questions
from recordari.context.assemble import Context
from recordari.context.rules.context import LEAST_BUDGET, MOST_BUDGET, Iteration, Rendering
from recordari.context.rules.profiles import Profile
from recordari.context.rules.questions import LONGEST_QUESTION, StandingAnswer, StandingQuestion
from recordari.kit.rest import PROBLEMS, AdminCaller, AgentCaller, Moment, Strict, client, paged
from recordari.recall.rest import Question

profiles_router = APIRouter(prefix="/v1", tags=["context"], responses=PROBLEMS)
questions_router = APIRouter(prefix="/v1/questions", tags=["questions"], responses=PROBLEMS)
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


class QuestionRequest(Strict):
    """A standing question."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"question": "What does this customer care about?"}]})

    question: str = Field(min_length=1, max_length=LONGEST_QUESTION)
    agent: str | None = Field(
        default=None, min_length=1, max_length=200, description="Only this agent asks it; left out: all do."
    )


AskingAgent = Annotated[str | None, Query(min_length=1, max_length=200, description="The agent that it belongs to.")]
AskedUser = Annotated[
    str | None, Query(min_length=1, max_length=200, description="The user; left out: the one of the request.")
]


@questions_router.put("/{name}", operation_id="save_question")
async def save_question(caller: AdminCaller, name: str, body: QuestionRequest) -> StandingQuestion:
    """Ask a standing question; its answer is kept up to date for every user."""
    return await questions.save_question(*caller, name, body.question, agent=body.agent)


@questions_router.get("", operation_id="list_questions", **paged(StandingQuestion))
async def list_questions(caller: AgentCaller) -> object:
    """List the standing questions, by name."""
    return {"items": await questions.list_questions(*caller), "next_cursor": None}


@questions_router.delete("/{name}", operation_id="delete_question", status_code=204)
async def delete_question(caller: AdminCaller, name: str, agent: AskingAgent = None) -> None:
    """Remove a standing question with its answers."""
    await questions.delete_question(*caller, name, agent=agent)


@questions_router.get("/{name}/answer", operation_id="standing_answer")
async def standing_answer(caller: AgentCaller, name: str, user: AskedUser = None) -> StandingAnswer:
    """The answer to a standing question for a user, with its sources; empty if nothing of the user answers."""
    return await questions.standing_answer(*caller, name, user=user)
