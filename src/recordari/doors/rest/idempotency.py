"""`Idempotency-Key`: a POST that is sent again gets the same answer and is done once."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recordari.core.identity import Identity
from recordari.db.held import HeldWrites
from recordari.doors.rest.limits import STREAMED, replayed
from recordari.errors import Conflict, DatabaseUnavailable, InvalidInput, RecordariError
from recordari.kit.resources import Resources
from recordari.operations.answers import IdempotentRequest, SentAnswer, another_request, find, keep

KEY = re.compile(r"[\x21-\x7e]{1,200}")
KEY_PARAMETER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A key of your own for this request. Sent again with it, the request gets the same answer and is done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
KEPT_HEADERS = frozenset({"content-type", "etag", "location"})

Running: TypeAlias = "asyncio.Future[SentAnswer | None]"


class Idempotent:
    """Keeps the answers of requests that carry a key, and sends them again.

    What a request writes is committed together with its answer, so that no crash can separate the two. A copy of it in
    this process waits for the first one's answer; a copy in another process finds the answer in the database, or is
    rolled back when it comes to keep its own.
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
        request = IdempotentRequest.of(identity, key, parts, _names(scope, acting))
        answer = await self._answer(scope, replayed(message, receive), send, identity, request)
        if answer is not None:
            await _send(answer, send)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, identity: Identity, request: IdempotentRequest
    ) -> SentAnswer | None:
        """The answer of an earlier request; None if this request was served itself."""
        running_key = (identity, request.key_hash)
        while (running := self._running.get(running_key)) is not None:
            request_hash, first = running
            if request_hash != request.request_hash:
                raise another_request()
            if (answer := await asyncio.shield(first)) is not None:
                return answer
        done: Running = asyncio.get_running_loop().create_future()
        self._running[running_key] = request.request_hash, done
        kept: SentAnswer | None = None
        try:
            resources: Resources = scope["app"].state.resources
            if (kept := await find(resources, identity, request)) is not None:
                return kept
            kept, is_ours = await self._serve(scope, receive, send, identity, request)
            return None if is_ours else kept
        finally:
            del self._running[running_key]
            done.set_result(kept)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, identity: Identity, request: IdempotentRequest
    ) -> tuple[SentAnswer | None, bool]:
        """Serve the request, and commit with its answer before that is sent.

        Returns the kept answer, and whether it is that of this request, which is then sent. It is another's if a copy of
        the request was faster, or if the connection was lost in the commit, which may have happened.
        """
        resources: Resources = scope["app"].state.resources
        held = HeldWrites(resources.database)
        scope["state"]["held"] = replace(resources, database=held)
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        answer, is_kept = None, False
        try:
            await self._app(scope, receive, collect)
            answer = _sent_answer(messages)
            if answer is not None and 200 <= answer.status < 300:
                is_kept = await keep(resources, held, identity, request, answer)
            elif (earlier := await _found(resources, identity, request)) is not None:
                return earlier, False
        except (Conflict, DatabaseUnavailable):
            if (earlier := await _found(resources, identity, request)) is not None:
                return earlier, False
            raise
        finally:
            await asyncio.shield(held.roll_back())
        for message in messages:
            await send(message)
        return (answer if is_kept else None), True


async def _found(resources: Resources, identity: Identity, request: IdempotentRequest) -> SentAnswer | None:
    """The answer of a copy that was faster, or of a commit whose end was not seen."""
    try:
        return await find(resources, identity, request)
    except RecordariError:
        return None


def _names(scope: Scope, acting: list[bytes]) -> list[str]:
    """The ids in the path and in the headers of a request: if one of them is erased, so is the answer."""
    return [*scope["path"].split("/")[3:], *(value.decode("utf-8", "replace") for value in acting)]


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
