"""Server-sent events: how one is written, who asks for them, and how many may be open."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request

from recordari.errors import Overloaded

STREAM = "text/event-stream"
MOST_STREAMS = 200


class _Open:
    """How many streams this process serves."""

    number = 0


def wants_stream(request: Request) -> bool:
    """Whether the caller asks for server-sent events instead of one answer."""
    return STREAM in request.headers.get("accept", "").lower()


def event_text(data: str, *, event: str, event_id: object | None = None) -> str:
    """One event as it is sent; the data is one line."""
    start = f"id: {event_id}\n" if event_id is not None else ""
    return f"{start}event: {event}\ndata: {data}\n\n"


def streamed(told: AsyncIterator[str]) -> AsyncIterator[str]:
    """The same, counted; `Overloaded` when too many are open."""
    if _Open.number >= MOST_STREAMS:
        raise Overloaded("too many event streams are open; ask page by page, or come back later", retry_after=30)

    async def counted() -> AsyncIterator[str]:
        _Open.number += 1
        try:
            async for text in told:
                yield text
        finally:
            _Open.number -= 1

    return counted()
