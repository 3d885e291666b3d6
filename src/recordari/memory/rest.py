"""What is remembered: one item, many at once, facts, and whole histories line by line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from recordari.errors import RecordariError
from recordari.kit.problems import Problem
from recordari.kit.rest import PROBLEMS, AgentCaller, Strict, client
from recordari.memory import remember as remember_verbs
from recordari.memory.bodies import (
    ITEM_EXAMPLE,
    FactRequest,
    FactShown,
    ImportedItem,
    ImportSummary,
    ItemRequest,
    RememberedShown,
)
from recordari.memory.lines import Lines
from recordari.memory.remember import MAX_BATCH, Remembered

CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "Its `source_ref` stands for another text already."}
}
LINE_SCHEMA = ImportedItem.model_json_schema(ref_template="#/components/schemas/{model}")
del LINE_SCHEMA["$defs"]  # they stand among the components

router = APIRouter(prefix="/v1", tags=["items"], responses=PROBLEMS)


class ItemBatch(Strict):
    """Items to remember together."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [ITEM_EXAMPLE]}]})

    items: list[ItemRequest] = Field(min_length=1, max_length=MAX_BATCH)


class BatchShown(BaseModel):
    """The answer for each item, in the order given."""

    items: list[RememberedShown]


@router.post(
    "/items",
    operation_id="remember",
    response_model=RememberedShown,
    status_code=201,
    responses={200: {"model": RememberedShown, "description": "It was here already."}, **CONFLICT},
)
async def remember(caller: AgentCaller, item: ItemRequest, response: Response) -> Remembered:
    """Remember one item of any kind. It can be found by keyword at once, and by meaning moments later."""
    (remembered,) = await remember_verbs.remember_many(*caller, [item.new_item()])
    return _answered(remembered, response)


@router.post(
    "/items/batch",
    operation_id="remember_many",
    openapi_extra=client(part="items"),
    response_model=BatchShown,
    responses=CONFLICT,
)
async def remember_many(caller: AgentCaller, batch: ItemBatch) -> object:
    """Remember up to 1,000 items in the order given, all of them or none."""
    with _named_by_place():
        return {"items": await remember_verbs.remember_many(*caller, [item.new_item() for item in batch.items])}


@router.post(
    "/remember_fact",
    operation_id="remember_fact",
    response_model=FactShown,
    status_code=201,
    responses={200: {"model": FactShown, "description": "It was known already."}},
)
async def remember_fact(caller: AgentCaller, fact: FactRequest, response: Response) -> Remembered:
    """Keep a fact of a user or an agent across sessions; stating it again finds the same item."""
    remembered = await remember_verbs.remember_fact(*caller, fact.content, scope=fact.scope, metadata=fact.metadata)
    return _answered(remembered, response)


@router.post(
    "/import",
    operation_id="import_items",
    response_model=ImportSummary,
    responses=CONFLICT,
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "One item per line, in the form of `ImportedItem`; `source_ref` is required.",
            "content": {"application/x-ndjson": {"schema": LINE_SCHEMA}},
        }
    },
)
async def import_items(caller: AgentCaller, request: Request) -> ImportSummary:
    """Remember any number of items while they arrive, one JSON object per line.

    An error names its line, and what stands before that line stays. The whole can be sent again at any time: what is
    here already is passed over.
    """
    lines = Lines()
    items = lines.read_stream(request.stream(), max_bytes=caller.resources.settings.max_body_bytes)
    async with aclosing(items):
        return await lines.summed(remember_verbs.import_items(*caller, items))


def _answered(remembered: Remembered, response: Response) -> Remembered:
    if not remembered.was_new:
        response.status_code = 200
    return remembered


@contextmanager
def _named_by_place() -> Iterator[None]:
    """Say which item of the body an error is about."""
    try:
        yield
    except RecordariError as error:
        index = error.details.pop("index", None)
        if index is None:
            raise
        place = f"items.{index}"
        field = error.details.get("field")
        raise type(error)(f"{place}: {error.message}", field=f"{place}.{field}" if field else place) from error
