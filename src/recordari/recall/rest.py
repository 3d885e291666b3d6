"""Recalling: what memory answers to a question, and the whole body behind a preview."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict, Field

from recordari.core.identity import AskedScope, Scope
from recordari.core.items import Kind, Trust
from recordari.kit.rest import PROBLEMS, AgentCaller, Moment, Shown, Strict, client
from recordari.memory import items
from recordari.memory.bodies import KindName, ToolOutputShown
from recordari.memory.items import ToolOutput
from recordari.recall import recall as recall_verbs
from recordari.recall.request import MAX_QUERY_CHARACTERS, MAX_TOP_K, RecallAnswer

AskedScopeName = Annotated[AskedScope, Field(strict=False)]


Question = Annotated[
    str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS, description="The question, in your words.")
]


TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K, description="Most items of the answer.")]


class RecallRequestBody(Strict):
    """A question to memory."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "ANCHOR_TOKEN_7a3f9 metabase order count", "top_k": 5, "source_kinds": ["tool_output"]}
            ]
        }
    )

    query: Question
    top_k: TopK = 5
    source_kinds: list[KindName] | None = Field(
        default=None, min_length=1, max_length=len(Kind), description="Only these kinds; all, if left out."
    )
    scope: AskedScopeName = Field(default=AskedScope.ANY, description="Where to look.")
    enable_rerank: bool = Field(default=True, description="Let a cross-encoder reorder, where one is set up.")
    since: Moment | None = Field(default=None, description="Only what happened then or later.")
    until: Moment | None = Field(default=None, description="Only what happened before then.")
    as_of: Moment | None = Field(default=None, description="What was true at that moment.")
    include_superseded: bool = Field(default=False, description="Retired facts too; needs the role admin.")
    explain: bool = Field(default=False, description="Also say why: arms, ranks, scores, what was left out.")


class RecalledItemShown(Shown):
    """An item of an answer."""

    id: UUID
    source_kind: Kind
    source_ref: str = Field(examples=["tool_call_id_xyz"])
    content: str
    event_time: datetime
    score: float = Field(description="Higher is better; to be compared within one answer only.")
    scope: Scope
    speaker: str | None
    trust: Trust = Field(description="Who carried the text here.")
    session_id: str | None
    payload_key: str | None = Field(
        description="Not null: `content` is a preview; `read_tool_output` gives all of it under this key."
    )
    valid_at: datetime
    invalid_at: datetime | None
    metadata: dict[str, Any]
    shared_from: str | None = Field(default=None, description="The tenant that shares it; null: your own.")
    same_as: list[UUID] = Field(
        description="Items left out because this one says the same: facts taken from this message, equal texts."
    )
    found_by: list[str] = Field(
        description="What found it: `text` its words, `vector` its meaning, `time` the time asked about, `entity` a name; "
        "`beside`: it stands next to such an item."
    )


class RecallShown(Shown):
    """What memory answers."""

    items: list[RecalledItemShown]
    total: int = Field(description="How many items this answer has.")
    degraded: bool = Field(
        description="Something is not embedded yet: keyword recall is complete, recall by meaning is not."
    )
    rerank_used: bool


class ExplainedRecallShown(RecallShown):
    """What memory answers, and why where that was asked for."""

    trace: dict[str, Any] | None = Field(default=None, description="Only with `explain`.")


Answer = TypeVar("Answer", bound=ExplainedRecallShown)

router = APIRouter(prefix="/v1", tags=["recall"], responses=PROBLEMS)

Key = Annotated[str, Path(max_length=200, description="`payload_key` of an item.")]
Start = Annotated[int, Query(ge=0, le=2**53, description="First byte.")]
Length = Annotated[int | None, Query(ge=1, le=2**53, description="Most bytes; all, if left out.")]


@router.post(
    "/recall",
    operation_id="recall",
    openapi_extra=client(reads=True),
    response_model=ExplainedRecallShown,
    response_model_exclude_unset=True,
)
async def recall(caller: AgentCaller, asked: RecallRequestBody) -> ExplainedRecallShown:
    """What memory holds on a question, best first, by keyword and by meaning.

    `user` without a user and `agent` without an agent are refused with 401; `any` takes the scopes that there are.
    """
    return shown(
        await recall_verbs.recall(
            *caller,
            asked.query,
            top_k=asked.top_k,
            source_kinds=asked.source_kinds,
            scope=asked.scope,
            enable_rerank=asked.enable_rerank,
            since=asked.since,
            until=asked.until,
            as_of=asked.as_of,
            include_superseded=asked.include_superseded,
            explain=asked.explain,
        ),
        ExplainedRecallShown,
    )


@router.get("/tool_outputs/{key}", operation_id="read_tool_output", response_model=ToolOutputShown)
async def read_tool_output(caller: AgentCaller, key: Key, start: Start = 0, length: Length = None) -> ToolOutput:
    """The whole body behind a preview, or a range of its bytes."""
    return await items.read_tool_output(*caller, key, start=start, length=length)


def shown(answer: RecallAnswer, kind: type[Answer]) -> Answer:
    """The answer; without a trace that nobody asked for, which is why unset fields are left out."""
    said = {name: getattr(answer, name) for name in RecallShown.model_fields}
    if answer.trace is not None:
        said["trace"] = answer.trace
    return kind.model_validate(said)
