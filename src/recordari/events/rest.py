"""What changes in memory: page by page, or as server-sent events; and webhooks that carry it on."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field
from pydantic_core import to_json

from recordari.errors import InvalidInput, Overloaded
from recordari.events import follow, webhooks
from recordari.events.rules import MAX_URL, Event, EventType, Webhook
from recordari.events.webhooks import NewWebhook
from recordari.kit.problems import Problem
from recordari.kit.rest import (
    PROBLEMS,
    AdminCaller,
    Cursor,
    Limit,
    Page,
    Strict,
    client,
    cursor_of,
    number_position,
)

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


router = APIRouter(prefix="/v1/events", tags=["events"], responses=PROBLEMS)
webhooks_router = APIRouter(prefix="/v1/webhooks", tags=["events"], responses=PROBLEMS)

FULL: dict[int | str, dict[str, Any]] = {409: {"model": Problem, "description": "The tenant has as many as it may."}}
HEARTBEAT_SECONDS = 15.0

After = Annotated[int | None, Query(ge=0, le=2**62, description="Events after this `position`.")]
Types = Annotated[list[EventType] | None, Query(description="Only these types; all, if left out.")]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=100, description="Of a stream: the last event that was seen.")
]


class WebhookRequest(Strict):
    """Where to send events."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.org/hooks/memory", "types": ["item.forgotten"]}]}
    )

    url: str = Field(min_length=1, max_length=MAX_URL)
    types: list[Annotated[EventType, Field(strict=False)]] = Field(
        default_factory=list, max_length=len(EventType), description="Only these types; all, if left out."
    )


class WebhookChange(Strict):
    """What to change of a webhook."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"is_active": False}]})

    is_active: bool


@router.get(
    "",
    operation_id="list_events",
    openapi_extra=client(part="items"),
    response_model=Page[Event],
    responses={200: {"content": {STREAM: {}}}},
)
async def list_events(
    request: Request,
    caller: AdminCaller,
    types: Types = None,
    after: After = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    last_event_id: LastEventId = None,
) -> object:
    """What changed, oldest first, as far back as the feed reaches.

    With `Accept: text/event-stream` the answer stays open and tells what happens from now on, or from after
    `Last-Event-ID` or `after` on. It ends after some minutes; a client comes back with the last id that it saw.
    """
    if wants_stream(request):
        return await _stream(caller, types or [], _seen(last_event_id) if last_event_id else after)
    start = number_position(cursor) if cursor is not None else after
    found = await follow.list_events(*caller, after=start or 0, types=types or [], limit=limit + 1)
    more = cursor_of(found[limit - 1].position) if len(found) > limit else None
    return {"items": found[:limit], "next_cursor": more}


@webhooks_router.post("", operation_id="create_webhook", status_code=201, responses=FULL)
async def create_webhook(caller: AdminCaller, wanted: WebhookRequest) -> NewWebhook:
    """Send what happens from now on to an address, signed. The secret is in this answer and nowhere else."""
    return await webhooks.create_webhook(*caller, wanted.url, types=wanted.types)


@webhooks_router.get("", operation_id="list_webhooks")
async def list_webhooks(caller: AdminCaller) -> list[Webhook]:
    """The tenant's webhooks, and how each fares."""
    return await webhooks.list_webhooks(*caller)


@webhooks_router.get("/{webhook_id}", operation_id="get_webhook")
async def get_webhook(caller: AdminCaller, webhook_id: UUID) -> Webhook:
    """One webhook."""
    return await webhooks.get_webhook(*caller, webhook_id)


@webhooks_router.patch("/{webhook_id}", operation_id="set_webhook_active")
async def set_webhook_active(caller: AdminCaller, webhook_id: UUID, change: WebhookChange) -> Webhook:
    """Switch a webhook off, or on again: then it hears of everything since."""
    return await webhooks.set_webhook_active(*caller, webhook_id, is_active=change.is_active)


@webhooks_router.delete("/{webhook_id}", operation_id="delete_webhook", status_code=204)
async def delete_webhook(caller: AdminCaller, webhook_id: UUID) -> None:
    """Tell an address nothing more."""
    await webhooks.delete_webhook(*caller, webhook_id)


async def _stream(caller: AdminCaller, types: list[EventType], after: int | None) -> Response:
    events = follow.follow_events(*caller, after=after, types=types)
    event = await anext(events, None)  # so that a refusal is an answer and not a broken stream

    async def told() -> AsyncIterator[str]:
        yield ": recordari\n\n"
        yield _told(event)
        quiet_since = time.monotonic()
        async with aclosing(events):
            async for each in events:
                if each is not None or time.monotonic() - quiet_since > HEARTBEAT_SECONDS:
                    yield _told(each)
                    quiet_since = time.monotonic()

    return StreamingResponse(streamed(told()), media_type=STREAM, headers={"Cache-Control": "no-store"})


def _told(event: Event | None) -> str:
    if event is None:
        return ": still here\n\n"
    return event_text(to_json(event).decode(), event=event.type, event_id=event.position)


def _seen(last_event_id: str) -> int:
    if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 18:
        raise InvalidInput("Last-Event-ID must be the id of an event of this feed")
    return int(last_event_id)
