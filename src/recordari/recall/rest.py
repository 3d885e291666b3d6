"""Recalling: what memory answers to a question, and the whole body behind a preview."""

from __future__ import annotations

from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query

from recordari.kit.rest import PROBLEMS, AgentCaller
from recordari.knowledge import search
from recordari.memory import items
from recordari.memory.bodies import (
    ExplainedRecallShown,
    KnowledgeRequest,
    KnowledgeShown,
    RecallRequestBody,
    RecallShown,
    ToolOutputShown,
)
from recordari.memory.items import ToolOutput
from recordari.recall import recall as recall_verbs
from recordari.recall.request import RecallAnswer

Answer = TypeVar("Answer", bound=ExplainedRecallShown)

router = APIRouter(prefix="/v1", tags=["recall"], responses=PROBLEMS)

Key = Annotated[str, Path(max_length=200, description="`payload_key` of an item.")]
Start = Annotated[int, Query(ge=0, le=2**53, description="First byte.")]
Length = Annotated[int | None, Query(ge=1, le=2**53, description="Most bytes; all, if left out.")]


@router.post("/recall", operation_id="recall", response_model=ExplainedRecallShown, response_model_exclude_unset=True)
async def recall(caller: AgentCaller, asked: RecallRequestBody) -> ExplainedRecallShown:
    """What memory holds on a question, best first, by keyword and by meaning.

    `user` without a user and `agent` without an agent are refused with 401; `any` takes the scopes that there are.
    """
    return _shown(
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


@router.post(
    "/search_knowledge",
    operation_id="search_knowledge",
    response_model=KnowledgeShown,
    response_model_exclude_unset=True,
)
async def search_knowledge(caller: AgentCaller, asked: KnowledgeRequest) -> KnowledgeShown:
    """What the documents say on a question, each with where it stands."""
    return _shown(
        await search.search_knowledge(
            *caller,
            asked.query,
            top_k=asked.top_k,
            source=asked.source,
            enable_rerank=asked.enable_rerank,
            since=asked.since,
            until=asked.until,
            as_of=asked.as_of,
            explain=asked.explain,
        ),
        KnowledgeShown,
    )


@router.get("/tool_outputs/{key}", operation_id="read_tool_output", response_model=ToolOutputShown)
async def read_tool_output(caller: AgentCaller, key: Key, start: Start = 0, length: Length = None) -> ToolOutput:
    """The whole body behind a preview, or a range of its bytes."""
    return await items.read_tool_output(*caller, key, start=start, length=length)


def _shown(answer: RecallAnswer, kind: type[Answer]) -> Answer:
    """The answer; without a trace that nobody asked for, which is why unset fields are left out."""
    said = {name: getattr(answer, name) for name in RecallShown.model_fields}
    if answer.trace is not None:
        said["trace"] = answer.trace
    return kind.model_validate(said)
