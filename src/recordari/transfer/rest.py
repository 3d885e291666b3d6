"""Everything of a tenant or of one user as JSON Lines, out and in, while it moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from recordari.errors import RecordariError
from recordari.kit.rest import PROBLEMS, AdminCaller, AgentCaller, Shown, client
from recordari.memory.lines import text_lines
from recordari.transfer import export as export_verbs
from recordari.transfer import import_export as import_export_verbs
from recordari.transfer.import_export import MAX_LINE

LINES = "application/x-ndjson"
EXPORT: dict[int | str, dict[str, Any]] = {
    200: {"description": "A header line, then one row a line.", "content": {LINES: {"schema": {"type": "string"}}}}
}

UserId = Annotated[
    str | None, Query(min_length=1, max_length=200, description="Only this user's; the whole tenant's, if left out.")
]

router = APIRouter(prefix="/v1", tags=["export"], responses=PROBLEMS)


class ImportedShown(Shown):
    """How much an import wrote, by type."""

    written: dict[str, int] = Field(examples=[{"user": 1, "item": 120}])
    known_items: int = Field(description="Items that were here already.")
    forgotten_items: int = Field(description="Items that were forgotten here, and stay so.")


@router.get("/export", operation_id="export", response_class=StreamingResponse, responses=EXPORT)
async def export(caller: AgentCaller, user_id: UserId = None) -> StreamingResponse:
    """Everything of the tenant, or of one user, line by line; without the role admin only of the user it acts for."""
    return await _streamed(export_verbs.export(*caller, user_id=user_id))


@router.post(
    "/import_export",
    operation_id="import_export",
    response_model=ImportedShown,
    openapi_extra={
        **client(not_idempotent=True),
        "requestBody": {
            "required": True,
            "description": "The lines of an export.",
            "content": {LINES: {"schema": {"type": "string"}}},
        },
    },
)
async def import_export(caller: AdminCaller, request: Request) -> object:
    """Write what an export holds and this tenant does not; what was forgotten here stays forgotten."""
    lines = text_lines(request.stream(), max_bytes=MAX_LINE)
    try:
        return await import_export_verbs.import_export(*caller, lines)
    except RecordariError as error:
        line = error.details.get("line")
        if line is None:
            raise
        raise type(error)(f"line {line}: {error.message}", field=f"line {line}") from error


async def _streamed(lines: AsyncIterator[str]) -> StreamingResponse:
    # The first line is made before the answer begins, so that a refusal is one.
    first = await anext(lines)

    async def written() -> AsyncIterator[bytes]:
        yield f"{first}\n".encode()
        async for line in lines:
            yield f"{line}\n".encode()

    return StreamingResponse(written(), media_type=LINES)
