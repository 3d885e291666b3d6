"""The context of a question: what an agent is to see, within its budget."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import ConfigDict, Field

from recordari.context import assemble, profiles
from recordari.context.assemble import Context
from recordari.context.rules.context import LEAST_BUDGET, MOST_BUDGET, Iteration, Layer, Rendering, SectionName
from recordari.context.rules.profiles import Profile
from recordari.kit.rest import (
    PROBLEMS,
    AgentCaller,
    Moment,
    Shown,
    Strict,
    client,
)
from recordari.recall.rest import Question
from recordari.sessions.rules.window import MessageRole

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


class ContextItemShown(Shown):
    """One text with where it comes from and who vouches for it."""

    ref: str = Field(description="What it is called in the text.", examples=["L1"])
    content: str
    is_cut: bool = Field(description="It ends with a sentence, but before its end.")
    kind: str
    trust: str
    source_ref: str
    item_id: UUID | None
    when: datetime | None
    who: str | None
    scope: str | None
    session_id: str | None
    payload_key: str | None
    score: float | None
    tokens: int


class SectionShown(Shown):
    """What one section shows."""

    name: SectionName
    layer: Layer
    budget: int
    items: list[ContextItemShown]


class ChatMessageShown(Shown):
    """One message for a chat model."""

    role: MessageRole
    content: str


class ContextShown(Shown):
    """What the agent is to see."""

    profile: str
    budget: int
    tokens: int
    left: int = Field(description="Tokens of the budget that are free for the results of tools.")
    epoch: int = Field(description="How often the session was compressed; `stable` changes its beginning only then.")
    degraded: bool
    sections: list[SectionShown]
    text: str | None
    messages: list[ChatMessageShown] | None
    trace: dict[str, Any] | None


@router.post("", operation_id="get_context", openapi_extra=client(reads=True), response_model=ContextShown)
async def get_context(caller: AgentCaller, asked: ContextRequestBody) -> ContextShown:
    """What the agent is to see for a question: its definition, the session, and what memory holds, within a budget.

    Everything but the agent's own definition stands as data in blocks that no content can close.
    """
    return shown(
        await assemble.get_context(
            *caller,
            asked.question,
            profile=asked.profile,
            budget=asked.budget,
            render=asked.render,
            as_of=asked.as_of,
            iterate=asked.iterate,
            enable_rerank=asked.enable_rerank,
            explain=asked.explain,
        )
    )


def shown(context: Context) -> ContextShown:
    """A context as callers see it."""
    return ContextShown(
        profile=context.profile,
        budget=context.budget,
        tokens=context.tokens,
        left=context.left,
        epoch=context.epoch,
        degraded=context.degraded,
        sections=[
            SectionShown(
                name=section.name,
                layer=section.layer,
                budget=section.budget,
                items=[
                    ContextItemShown(
                        ref=ref,
                        content=kept.content,
                        is_cut=kept.is_cut,
                        kind=kept.item.kind,
                        trust=kept.item.trust,
                        source_ref=kept.item.source_ref,
                        item_id=kept.item.item_id,
                        when=kept.item.when,
                        who=kept.item.who,
                        scope=kept.item.scope,
                        session_id=kept.item.session_id,
                        payload_key=kept.item.payload_key,
                        score=kept.item.score,
                        tokens=kept.tokens,
                    )
                    for ref, kept in zip(section.handles, section.items, strict=True)
                ],
            )
            for section in context.sections
        ],
        text=context.text,
        messages=[ChatMessageShown.model_validate(message) for message in context.messages]
        if context.messages is not None
        else None,
        trace=context.trace,
    )


class ProfileShown(Shown):
    """What is known of a user or an agent."""

    content: str = Field(examples=["Preferences: Ana prefers tea."])
    facts: int = Field(description="How many facts it tells.")
    writer: str = Field(description="The offline rules, or the model that wrote it.")
    made_at: datetime | None


@profiles_router.get("/agents/{agent_id}/profile", operation_id="agent_profile", response_model=ProfileShown)
async def agent_profile(caller: AgentCaller, agent_id: str) -> Profile:
    """What an agent knows, in a few hundred tokens; empty where that is nothing."""
    return await profiles.profile(*caller, agent=agent_id)


@profiles_router.get("/users/{user_id}/profile", operation_id="user_profile", response_model=ProfileShown)
async def user_profile(caller: AgentCaller, user_id: str) -> Profile:
    """What is known of a user, in a few hundred tokens; empty where nothing is."""
    return await profiles.profile(*caller, user=user_id)
