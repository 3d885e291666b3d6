"""What bounds a request before a route sees it: host name, size, depth, rate, time, and a place to run in.

All are plain ASGI layers that raise our errors; `RequestContext`, the outermost, answers them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recordari.doors.rest.admission import Admission
from recordari.errors import ConfigurationError, Forbidden, InvalidInput, RateLimited, TimedOut, TooLarge

# Probes come under whatever address the orchestrator uses, and say nothing that a foreign page could use.
PROBES = frozenset({"/healthz", "/readyz"})

# Their routes read the body piece by piece and bound what they keep of it.
STREAMED = frozenset({"/v1/import", "/v1/import_export", "/v1/documents"})
SLOWEST_UPLOAD = 4096  # bytes a second by which a streamed body earns its time

# Every pattern here is possessive or anchored, so that it runs in linear time on any input.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SOUND_ESCAPES = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+",
    re.DOTALL,
)
_RISKY_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# More than 100 digits, or an exponent of 200 or more: together they keep every number within a double.
_HUGE_NUMBER = re.compile(rb"[0-9](?:[eE]\+?0*+(?:[2-9][0-9]{2}|[1-9][0-9]{3})|(?<![0-9][0-9])[0-9]{100})")
_SAME_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class Timeout:
    """Stops a request that takes longer than it may.

    A stream of events may stay open once it has begun, and a body that is streamed may last as long as it moves.
    """

    def __init__(self, app: ASGIApp, *, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or raise `TimedOut`."""
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
                        # A download lasts as long as it moves.
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
    """Answers only to known host names, so that another site's page cannot reach us by its own name."""

    def __init__(self, app: ASGIApp, *, allowed: Sequence[str]) -> None:
        self._app = app
        self._any = "*" in allowed
        self._exact = frozenset(name.lower() for name in allowed)
        self._suffixes = tuple(name[1:].lower() for name in allowed if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or raise `Forbidden`."""
        if scope["type"] == "http" and scope["path"] not in PROBES and not self.knows(host_name(scope)):
            raise Forbidden("this server does not answer to that host name; see RECORDARI_ALLOWED_HOSTS")
        await self._app(scope, receive, send)

    def knows(self, host: str) -> bool:
        """Whether the host name, without a port, is one of those allowed."""
        return self._any or host in self._exact or host.endswith(self._suffixes or ("\0",))


class RateLimit:
    """At most so many requests of a key in a sliding window; each process counts for itself."""

    def __init__(self, rule: str) -> None:
        from limits import parse
        from limits.aio.storage import MemoryStorage
        from limits.aio.strategies import SlidingWindowCounterRateLimiter

        try:
            self._rule = parse(rule)
        except ValueError:
            raise ConfigurationError("RECORDARI_RATE_LIMIT must read like `100/second` or `6000/minute`") from None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def hit(self, key: str) -> None:
        """Count one request; `RateLimited` when it is one too many."""
        if not await self._limiter.hit(self._rule, key):
            window = await self._limiter.get_window_stats(self._rule, key)
            raise RateLimited(retry_after=max(1.0, window.reset_time - time.time()))


class Body:
    """Reads the body, up to the limit, and refuses JSON that a parser or the database would choke on."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, max_depth: int) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_depth = max_depth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or raise `TooLarge` or `InvalidInput`."""
        if scope["type"] != "http" or scope["path"] in STREAMED:
            await self._app(scope, receive, send)
            return
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value[:18]) > self._max_bytes:
                raise self._too_large()
        body = await self._read(receive)
        if body is None:
            return
        # Any such header counts: of two, the framework might read the other one.
        if body and any(name == b"content-type" and b"json" in value.lower() for name, value in scope["headers"]):
            check_json(body, max_depth=self._max_depth)
        replayed = False

        async def replay() -> Message:
            nonlocal replayed
            if replayed:
                return await receive()
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body; None when the client left before its end."""
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
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"a request may have at most {self._max_bytes} bytes")


class Admitted:
    """Lets a request of a tenant in when there is a place for it."""

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or raise `Overloaded`."""
        identity = scope.get("state", {}).get("identity")
        if scope["type"] != "http" or identity is None:
            await self._app(scope, receive, send)
            return
        async with self._admission.place(identity.tenant_id) as place:

            async def watched(message: Message) -> None:
                if starts_event_stream(message):
                    place.release()  # an open stream is idle almost always
                await send(message)

            await self._app(scope, receive, watched)


def starts_event_stream(message: Message) -> bool:
    """Whether a response begins that stays open for events."""
    return message["type"] == "http.response.start" and any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )


def host_name(scope: Scope) -> str:
    """The `Host` header without its port, in lower case; empty when there is not exactly one."""
    found: list[str] = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
    return without_port(found[0]) if len(found) == 1 else ""


def without_port(host: str) -> str:
    """A host name without the port that may follow it."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


def check_json(body: bytes, *, max_depth: int) -> None:
    """Raise `InvalidInput` unless the text is UTF-8, not too deep, and of storable characters and numbers."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("the body must be UTF-8") from None
    if b"\0" in body:
        raise InvalidInput("text must not contain the character U+0000")
    if _RISKY_ESCAPE.search(body) is not None and _SOUND_ESCAPES.fullmatch(body) is None:
        raise InvalidInput("text must not contain U+0000, half of a surrogate pair, or a broken escape")
    deep = body.count(b"[") + body.count(b"{") > max_depth
    odd = b"NaN" in body or b"Infinity" in body or _HUGE_NUMBER.search(body) is not None
    if deep or odd:
        skeleton = _STRING.sub(b'""', body)
        if deep:
            _check_depth(skeleton, max_depth)
        if odd:
            _check_numbers(skeleton)


def _check_depth(skeleton: bytes, max_depth: int) -> None:
    # Each pass takes the innermost brackets away, at the speed of bytes.replace.
    brackets = skeleton.translate(_SAME_BRACKETS, _NOT_BRACKETS)
    if b"[" * (max_depth + 1) not in brackets:
        for _ in range(max_depth):
            brackets = brackets.replace(b"[]", b"")
    if brackets:
        raise InvalidInput(f"JSON may be nested at most {max_depth} levels deep")


def _check_numbers(skeleton: bytes) -> None:
    if b"NaN" in skeleton or b"Infinity" in skeleton:
        raise InvalidInput("JSON has no NaN or Infinity")
    if _HUGE_NUMBER.search(skeleton) is not None:
        raise InvalidInput("a number in the body is too large")
