"""The limits of a request before its route runs: host name, size, depth, rate, time, and a place to run in.

All are plain ASGI layers that raise our errors; `RequestContext`, the outermost layer, answers them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recordari.core.checks import check_json
from recordari.doors.rest.admission import Admission
from recordari.doors.rest.remote_counts import RemoteCounts
from recordari.doors.rest.shared_counts import SharedCounts
from recordari.errors import ConfigurationError, Forbidden, RateLimited, TimedOut, TooLarge
from recordari.kit.rest import host_name

# An orchestrator may send probes to any address; their answers are of no use to a foreign page.
PROBES = frozenset({"/healthz", "/readyz"})

# Their routes read the body in pieces and limit it themselves.
STREAMED = frozenset({"/v1/import", "/v1/import_export", "/v1/documents"})
MAX_JSON_DEPTH = 32
SLOWEST_UPLOAD = 4096  # bytes a second; every byte of a streamed body extends its time


class Timeout:
    """Stops a request that takes too long.

    A stream of events may stay open once it has begun. A streamed body may take longer while bytes arrive.
    """

    def __init__(self, app: ASGIApp, *, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._seconds) as deadline:

                async def watched(message: Message) -> None:
                    if starts_event_stream(message):
                        deadline.reschedule(None)
                    await send(message)
                    if message.get("more_body") and deadline.when() is not None:
                        # A download may take as long as it makes progress.
                        deadline.reschedule(asyncio.get_running_loop().time() + self._seconds)

                async def counted() -> Message:
                    message = await receive()
                    if (when := deadline.when()) is not None:
                        deadline.reschedule(when + len(message.get("body", b"")) / SLOWEST_UPLOAD)
                    return message

                await self._app(scope, counted if scope["path"] in STREAMED else receive, watched)
        except TimeoutError:
            if deadline.expired():
                raise TimedOut from None
            raise


class Hosts:
    """Answers only to allowed host names, so that a page of another site cannot reach us under its own name."""

    def __init__(self, app: ASGIApp, *, allowed: Sequence[str]) -> None:
        self._app = app
        self._any = "*" in allowed
        self._exact = frozenset(name.lower() for name in allowed)
        self._suffixes = tuple(name[1:].lower() for name in allowed if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PROBES and not self.knows(host_name(scope)):
            raise Forbidden("this server does not answer to that host name; see RECORDARI_ALLOWED_HOSTS")
        await self._app(scope, receive, send)

    def knows(self, host: str) -> bool:
        """Whether the host name, without a port, is allowed."""
        return self._any or host in self._exact or host.endswith(self._suffixes or ("\0",))


class RateLimit:
    """Limits the requests of a key in a sliding window, over all processes and servers that share their counts."""

    def __init__(self, rule: str, *, shared: SharedCounts | None = None, remote: RemoteCounts | None = None) -> None:
        from limits import parse
        from limits.aio.storage import MemoryStorage
        from limits.aio.strategies import SlidingWindowCounterRateLimiter

        try:
            self._rule = parse(rule)
        except ValueError:
            raise ConfigurationError("RECORDARI_RATE_LIMIT must read like `100/second` or `6000/minute`") from None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._shared = shared
        self._remote = remote

    async def hit(self, key: str) -> None:
        """Count one request; raise `RateLimited` if it exceeds the limit."""
        counts = self._remote if self._remote is not None and self._remote.is_shared else self._shared
        if counts is not None:
            wait = counts.hit(key, most=self._rule.amount, seconds=self._rule.get_expiry())
            if wait is not None:
                raise RateLimited(retry_after=max(1.0, wait))
        elif not await self._limiter.hit(self._rule, key):
            window = await self._limiter.get_window_stats(self._rule, key)
            raise RateLimited(retry_after=max(1.0, window.reset_time - time.time()))


class RequestBody:
    """Reads the body up to the limit, and refuses JSON that a parser or the database cannot handle."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, max_depth: int = MAX_JSON_DEPTH) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_depth = max_depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in STREAMED:
            await self._app(scope, receive, send)
            return
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value[:18]) > self._max_bytes:
                raise self._too_large()
        body = await self._read(receive)
        if body is None:
            return
        # Any such header counts: of two, the framework might read the other.
        if body and any(name == b"content-type" and b"json" in value.lower() for name, value in scope["headers"]):
            check_json(body, max_depth=self._max_depth)
        await self._app(scope, replayed({"type": "http.request", "body": body, "more_body": False}, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body; None if the client disconnects before its end."""
        chunks, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self._max_bytes:
                raise self._too_large()
            more = message.get("more_body", False)
        return b"".join(chunks)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"a request may have at most {self._max_bytes} bytes")


class Admitted:
    """Holds a place for each authenticated request."""

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        identity = scope.get("state", {}).get("identity")
        if scope["type"] != "http" or identity is None:
            await self._app(scope, receive, send)
            return
        async with self._admission.place(identity.tenant_id) as place:

            async def watched(message: Message) -> None:
                if starts_event_stream(message):
                    place.close()  # an open stream is almost always idle
                await send(message)

            await self._app(scope, receive, watched)


def replayed(message: Message, receive: Receive) -> Receive:
    """A `receive` that gives a message again that was received before, then those that follow it."""
    waiting = [message]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def starts_event_stream(message: Message) -> bool:
    """Whether a message begins a response that stays open for events."""
    return message["type"] == "http.response.start" and any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )
