"""Routes of exports and imports: JSON Lines, streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from recordari.core.checks import check_json
from recordari.errors import InvalidInput, RecordariError, TooLarge
from recordari.kit.rest import PROBLEMS, AdminCaller, AgentCaller, client
from recordari.transfer import export as export_verbs
from recordari.transfer import import_export as import_export_verbs
from recordari.transfer.import_export import MAX_LINE, Imported

MAX_DEPTH = 64  # a row holds the JSON of an item, which is half as deep
LINES = "application/x-ndjson"
EXPORT: dict[int | str, dict[str, Any]] = {
    200: {"description": "A header line, then one row a line.", "content": {LINES: {"schema": {"type": "string"}}}}
}

UserId = Annotated[
    str | None, Query(min_length=1, max_length=200, description="Only this user's; the whole tenant's, if left out.")
]

router = APIRouter(prefix="/v1", tags=["export"], responses=PROBLEMS)


@router.get("/export", operation_id="export", response_class=StreamingResponse, responses=EXPORT)
async def export(caller: AgentCaller, user_id: UserId = None) -> StreamingResponse:
    """Export the tenant or one user, line by line; without the role admin only your own user."""
    lines = export_verbs.export(*caller, user_id=user_id)
    # The first line is read before the response begins, so that an error has its own status.
    first = await anext(lines)

    async def encoded() -> AsyncIterator[bytes]:
        yield f"{first}\n".encode()
        async for line in lines:
            yield f"{line}\n".encode()

    return StreamingResponse(encoded(), media_type=LINES)


@router.post(
    "/import_export",
    operation_id="import_export",
    openapi_extra={
        **client(not_idempotent=True),
        "requestBody": {
            "required": True,
            "description": "The lines of an export.",
            "content": {LINES: {"schema": {"type": "string"}}},
        },
    },
)
async def import_export(caller: AdminCaller, request: Request) -> Imported:
    """Import an export: write the rows that this tenant does not have. Forgotten items stay forgotten."""
    lines = _text_lines(request.stream(), max_bytes=MAX_LINE)
    try:
        return await import_export_verbs.import_export(*caller, lines)
    except RecordariError as error:
        line = error.details.get("line")
        if line is None:
            raise
        raise type(error)(f"line {line}: {error.message}", field=f"line {line}") from error


async def _text_lines(chunks: AsyncIterable[bytes], *, max_bytes: int) -> AsyncGenerator[str, None]:
    """Checked lines of JSON from chunks; a line may have `max_bytes`."""
    rest, number = bytearray(), 0
    async for chunk in chunks:
        rest += chunk
        *whole, last = bytes(rest).split(b"\n") if b"\n" in chunk else [bytes(rest)]
        for line in whole:
            number += 1
            yield _text(line, number)
        if whole:
            rest = bytearray(last)
        if len(rest) > max_bytes:
            raise TooLarge(f"a line may have at most {max_bytes} bytes", line=number + 1)
    if rest.strip():
        yield _text(bytes(rest), number + 1)


def _text(line: bytes, number: int) -> str:
    try:
        check_json(line, max_depth=MAX_DEPTH)
    except InvalidInput as error:
        raise InvalidInput(error.message, line=number) from error
    return line.decode("utf-8")
