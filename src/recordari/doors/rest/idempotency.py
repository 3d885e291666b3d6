"""`Idempotency-Key`: a POST that is sent again gets the same answer and is done once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recordari.core.identity import Identity
from recordari.doors.rest.limits import STREAMED, replayed
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources
from recordari.operations.answers import IdempotentRequest, SentAnswer, another_request, claim, give_up, keep

KEY = re.compile(r"[\x21-\x7e]{1,200}")
KEY_PARAMETER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A key of your own for this request. Sent again with it, the request gets the same answer and is done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
KEPT_HEADERS = frozenset({"content-type", "etag", "location"})
LOOK_SECONDS = 0.1  # pause between looks for the answer of another process

Running: TypeAlias = "asyncio.Future[SentAnswer | None]"


class Idempotent:
    """Stores the answers of requests that carry a key, and sends them again.

    A second request in this process waits for the first one's answer; one in another process looks for it in the
    database.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: dict[tuple[Identity, bytes], tuple[bytes, Running]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key(scope)
        identity: Identity | None = scope.get("state", {}).get("identity")
        if key is None or identity is None:
            await self._app(scope, receive, send)
            return
        message = await receive()
        if message["type"] != "http.request":
            return
        acting = sorted(value for name, value in scope["headers"] if name.startswith(b"recordari-"))
        parts = [scope["path"].encode(), scope["query_string"], *acting, message.get("body", b"")]
        request = IdempotentRequest.of(identity, key, parts)
        answer = await self._answer(scope, replayed(message, receive), send, identity, request)
        if answer is not None:
            await _send(answer, send)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, identity: Identity, request: IdempotentRequest
    ) -> SentAnswer | None:
        """The answer of an earlier request; None if this request was served itself."""
        resources: Resources = scope["app"].state.resources
        running_key = (identity, request.key_hash)
        while True:
            if (running := self._running.get(running_key)) is not None:
                request_hash, first = running
                if request_hash != request.request_hash:
                    raise another_request()
                if (answer := await asyncio.shield(first)) is not None:
                    return answer
                continue
            done: Running = asyncio.get_running_loop().create_future()
            self._running[running_key] = request.request_hash, done
            try:
                claimed = await claim(resources, identity, request)
                if isinstance(claimed, SentAnswer):
                    done.set_result(claimed)
                    return claimed
                if claimed is not None:
                    save = partial(keep, resources, identity, request, claimed)
                    release = partial(give_up, resources, identity, claimed)
                    done.set_result(await _serve(partial(self._app, scope, receive), send, save, release))
                    return None
            finally:
                del self._running[running_key]
                if not done.done():
                    done.set_result(None)
            await asyncio.sleep(LOOK_SECONDS)


async def _serve(
    app: Callable[[Send], Awaitable[None]],
    send: Send,
    save: Callable[[SentAnswer], Awaitable[None]],
    release: Callable[[], Awaitable[None]],
) -> SentAnswer | None:
    """Serve the request and save a successful answer before it is sent; release the key after any other."""
    messages: list[Message] = []

    async def collect(message: Message) -> None:
        messages.append(message)

    saved = False
    try:
        await app(collect)
        answer = _sent_answer(messages)
        if answer is not None and 200 <= answer.status < 300:
            await save(answer)
            saved = True
    finally:
        if not saved:
            await asyncio.shield(release())
    for message in messages:
        await send(message)
    return answer if saved else None


def _key(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] in STREAMED:
        return None
    keys: list[str] = [value.decode("latin-1") for name, value in scope["headers"] if name == b"idempotency-key"]
    if not keys:
        return None
    if len(keys) > 1 or KEY.fullmatch(keys[0]) is None:
        raise InvalidInput("Idempotency-Key must be one text of 1 to 200 visible ASCII characters")
    return keys[0]


def _sent_answer(messages: list[Message]) -> SentAnswer | None:
    if not messages or messages[0]["type"] != "http.response.start":
        return None
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in messages[0]["headers"]]
    return SentAnswer(
        status=messages[0]["status"],
        headers=tuple((name, value) for name, value in headers if name in KEPT_HEADERS),
        body=b"".join(message.get("body", b"") for message in messages[1:]),
    )


async def _send(answer: SentAnswer, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((b"idempotency-replayed", b"true"))
    if answer.status != 204:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
