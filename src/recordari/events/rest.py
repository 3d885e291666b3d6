"""The change feed, as pages or as server-sent events; and webhooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from recordari.core.identity import TenantId
from recordari.errors import InvalidInput, Overloaded
from recordari.events import follow, webhooks
from recordari.events.rules import MAX_URL, Event, EventType, Webhook
from recordari.events.webhooks import NewWebhook
from recordari.kit.problems import error_responses
from recordari.kit.rest import (
    PROBLEMS,
    AdminCaller,
    Cursor,
    Limit,
    Strict,
    feed_number,
    number_position,
    page_of,
    paged,
)

STREAM = "text/event-stream"
END = "end"  # the event that tells a listener why its stream ends early
MOST_STREAMS = 2000
MOST_STREAMS_OF_TENANT = 1000

_open_streams: Counter[TenantId] = Counter()


def wants_stream(request: Request) -> bool:
    return STREAM in request.headers.get("accept", "").lower()


def event_text(data: str, *, event: str, event_id: object | None = None) -> str:
    """Write a server-sent event; the data is one line."""
    start = f"id: {event_id}\n" if event_id is not None else ""
    return f"{start}event: {event}\ndata: {data}\n\n"


def stream_response(texts: AsyncGenerator[str, None], tenant_id: TenantId) -> StreamingResponse:
    """Answer with a stream of events; `Overloaded` when too many streams are open."""
    if _open_streams[tenant_id] >= MOST_STREAMS_OF_TENANT or _open_streams.total() >= MOST_STREAMS:
        raise Overloaded("too many event streams are open; read page by page, or try again later", retry_after=30)
    return EventStream(texts, tenant_id)


class EventStream(StreamingResponse):
    """A counted stream, whose source is closed as soon as the client has gone."""

    def __init__(self, texts: AsyncGenerator[str, None], tenant_id: TenantId) -> None:
        super().__init__(texts, media_type=STREAM, headers={"Cache-Control": "no-store"})
        self._texts = texts
        self._tenant_id = tenant_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _open_streams[self._tenant_id] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            _open_streams[self._tenant_id] -= 1
            await self._texts.aclose()


router = APIRouter(prefix="/v1/events", tags=["events"], responses=PROBLEMS)
webhooks_router = APIRouter(prefix="/v1/webhooks", tags=["events"], responses=PROBLEMS)

FULL = error_responses({409: "The tenant has the most webhooks already."})
HEARTBEAT_SECONDS = 15.0

After = Annotated[int | None, Query(ge=0, le=2**62, description="Events after this `position`.")]
Types = Annotated[list[EventType] | None, Query(description="Only these types; all by default.")]
LastEventId = Annotated[
    str | None, Header(alias="Last-Event-ID", max_length=100, description="Of a stream: the last event that you saw.")
]


class WebhookRequest(Strict):
    """A new webhook."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.org/hooks/memory", "types": ["item.forgotten"]}]}
    )

    url: str = Field(min_length=1, max_length=MAX_URL)
    types: list[Annotated[EventType, Field(strict=False)]] = Field(
        default_factory=list, max_length=len(EventType), description="Only these types; all by default."
    )


class WebhookChange(Strict):
    """A change of a webhook."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"is_active": False}]})

    is_active: bool


@router.get("", operation_id="list_events", responses={200: {"content": {STREAM: {}}}}, **paged(Event))
async def list_events(
    request: Request,
    caller: AdminCaller,
    types: Types = None,
    after: After = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    last_event_id: LastEventId = None,
) -> object:
    """List changes, oldest first, as far back as the feed reaches.

    With `Accept: text/event-stream` the answer is a stream of events from now on, or after `Last-Event-ID` or `after`.
    It ends after some minutes, and earlier with the event `end` if you read too slowly; reconnect with the last id that
    you saw.
    """
    if wants_stream(request):
        return await _stream(caller, types or [], _last_seen(last_event_id) if last_event_id else after)
    start = number_position(cursor) if cursor is not None else after
    events = await follow.list_events(*caller, after=start or 0, types=types or [], limit=limit + 1)
    return page_of(events, limit, lambda event: event.position)


@webhooks_router.post("", operation_id="create_webhook", status_code=201, responses=FULL)
async def create_webhook(caller: AdminCaller, request: WebhookRequest) -> NewWebhook:
    """Post events, signed, to an address from now on. Only this answer contains the secret."""
    return await webhooks.create_webhook(*caller, request.url, types=request.types)


@webhooks_router.get("", operation_id="list_webhooks")
async def list_webhooks(caller: AdminCaller) -> list[Webhook]:
    """List the webhooks of the tenant with the state of their deliveries."""
    return await webhooks.list_webhooks(*caller)


@webhooks_router.get("/{webhook_id}", operation_id="get_webhook")
async def get_webhook(caller: AdminCaller, webhook_id: UUID) -> Webhook:
    """Return a webhook with the state of its deliveries."""
    return await webhooks.get_webhook(*caller, webhook_id)


@webhooks_router.patch("/{webhook_id}", operation_id="set_webhook_active")
async def set_webhook_active(caller: AdminCaller, webhook_id: UUID, change: WebhookChange) -> Webhook:
    """Switch a webhook off, or on again: then it receives the events since."""
    return await webhooks.set_webhook_active(*caller, webhook_id, is_active=change.is_active)


@webhooks_router.delete("/{webhook_id}", operation_id="delete_webhook", status_code=204)
async def delete_webhook(caller: AdminCaller, webhook_id: UUID) -> None:
    """Delete a webhook; nothing more is posted to it."""
    await webhooks.delete_webhook(*caller, webhook_id)


async def _stream(caller: AdminCaller, types: list[EventType], after: int | None) -> Response:
    events = follow.listen(*caller, after=after, types=types, pause=HEARTBEAT_SECONDS)
    await anext(events)  # so that a refusal is an answer and not a broken stream

    async def texts() -> AsyncGenerator[str, None]:
        yield ": recordari\n\n"
        async with aclosing(events):
            try:
                async for event in events:
                    yield _text_of(event)
            except Overloaded as error:
                yield event_text(to_json({"code": error.code, "detail": error.message}).decode(), event=END)

    return stream_response(texts(), caller.identity.tenant_id)


def _text_of(event: Event | None) -> str:
    if event is None:
        return ": still here\n\n"
    return event_text(to_json(event).decode(), event=event.type, event_id=event.position)


def _last_seen(last_event_id: str) -> int:
    try:
        return feed_number(last_event_id)
    except ValueError:
        raise InvalidInput("Last-Event-ID must be the id of an event of this feed") from None
