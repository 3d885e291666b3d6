"""Routes: recall, and the whole body behind a preview."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query
from pydantic import ConfigDict, Field

from recordari.core.identity import AskedScope
from recordari.core.items import Kind
from recordari.kit.rest import PROBLEMS, AgentCaller, Moment, Strict, client
from recordari.memory import items
from recordari.memory.items import ToolOutput
from recordari.memory.rest import KindName
from recordari.recall import accesses
from recordari.recall import ask as ask_verbs
from recordari.recall import recall as recall_verbs
from recordari.recall.ask import AskedAnswer
from recordari.recall.request import MAX_QUERY_CHARACTERS, MAX_TOP_K, ItemUse, RecallAnswer
from recordari.recall.rules.confidence import UNLIKELY

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
    known_at: Moment | None = Field(default=None, description="What was recorded by that moment.")
    project: str | None = Field(
        default=None, min_length=1, max_length=200, description="The piece of work; what was said in it is preferred."
    )
    include_superseded: bool = Field(default=False, description="Retired facts too; needs the role admin.")
    min_confidence: float = Field(default=0.0, ge=0, le=1, description="Below it the answer has no items.")
    explain: bool = Field(default=False, description="Also say why: arms, ranks, scores, items left out.")


class AskRequestBody(Strict):
    """A question that is answered, not only searched for."""

    question: Question
    source_kinds: list[KindName] | None = Field(
        default=None, min_length=1, max_length=len(Kind), description="Only these kinds; all, if left out."
    )
    scope: AskedScopeName = Field(default=AskedScope.ANY, description="Where to look.")
    since: Moment | None = Field(default=None, description="Only what happened then or later.")
    until: Moment | None = Field(default=None, description="Only what happened before then.")
    as_of: Moment | None = Field(default=None, description="What was true at that moment.")
    min_confidence: float = Field(
        default=UNLIKELY, ge=0, le=1, description="Below it the answer is that nothing relevant is known."
    )


router = APIRouter(prefix="/v1", tags=["recall"], responses=PROBLEMS)

Key = Annotated[str, Path(max_length=200, description="`payload_key` of an item.")]
Start = Annotated[int, Query(ge=0, le=2**53, description="First byte.")]
Length = Annotated[int | None, Query(ge=1, le=2**53, description="Most bytes; all, if left out.")]


@router.post("/recall", operation_id="recall", openapi_extra=client(reads=True))
async def recall(caller: AgentCaller, body: RecallRequestBody) -> RecallAnswer:
    """The items that answer a question, best first, by words and by meaning.

    `user` and `history` without a user and `agent` without an agent are refused with 401; `any` takes all that have an owner.
    """
    return await recall_verbs.recall(*caller, **dict(body))


@router.post("/ask", operation_id="ask", openapi_extra=client(reads=True))
async def ask(caller: AgentCaller, body: AskRequestBody) -> AskedAnswer:
    """An answer from memory: the sentences that answer, quoted with their sources; or that nothing relevant is known."""
    return await ask_verbs.ask(*caller, **dict(body))


@router.get("/items/{item_id}/uses", operation_id="item_uses")
async def item_uses(caller: AgentCaller, item_id: UUID) -> list[ItemUse]:
    """Who saw an item last, and where, newest first: at most 16. An administrator sees all, others their own."""
    return await accesses.item_uses(*caller, item_id)


@router.get("/tool_outputs/{key}", operation_id="read_tool_output")
async def read_tool_output(caller: AgentCaller, key: Key, start: Start = 0, length: Length = None) -> ToolOutput:
    """The whole body behind a preview, or a range of its bytes."""
    return await items.read_tool_output(*caller, key, start=start, length=length)
