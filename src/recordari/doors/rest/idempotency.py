"""`Idempotency-Key`: a POST that is sent again is answered again, and done once."""

from __future__ import annotations

import asyncio
import re
from typing import Any, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recordari.core.identity import Identity
from recordari.doors.rest.limits import STREAMED
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources
from recordari.operations.answers import IdempotentRequest, SentAnswer, another_request, claim, give_up, keep
from recordari.operations.storage import AnswerClaim

KEY = re.compile(r"[\x21-\x7e]{1,200}")
KEY_PARAMETER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A key of your own for this request: sent again under it, it is answered alike and done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
KEPT_HEADERS = frozenset({"content-type", "etag", "location"})
LOOK_SECONDS = 0.1  # how soon an answer that another process is about to give is found

Running: TypeAlias = "asyncio.Future[SentAnswer | None]"


class Idempotent:
    """Keeps the answers of requests that carry a key, and gives them again.

    Requests of this process that wait for the same answer are told when it is there; those of others look for it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._running: dict[tuple[Identity, bytes], tuple[bytes, Running]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or raise `InvalidInput` or `Conflict`."""
        key = _key(scope)
        identity: Identity | None = scope.get("state", {}).get("identity")
        if key is None or identity is None:
            await self._app(scope, receive, send)
            return
        message = await receive()
        if message["type"] != "http.request":
            return
        asked = IdempotentRequest.of(identity, key, _parts(scope, message.get("body", b"")))
        answer = await self._answer(scope, _replayed(message, receive), send, identity, asked)
        if answer is not None:
            await _send(answer, send)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, identity: Identity, asked: IdempotentRequest
    ) -> SentAnswer | None:
        """The answer that was given already; None when this request gave one itself."""
        resources: Resources = scope["app"].state.resources
        place = (identity, asked.key_hash)
        while True:
            if (running := self._running.get(place)) is not None:
                request_hash, told = running
                if request_hash != asked.request_hash:
                    raise another_request()
                if (answer := await asyncio.shield(told)) is not None:
                    return answer
                continue
            done: Running = asyncio.get_running_loop().create_future()
            self._running[place] = asked.request_hash, done
            try:
                found = await claim(resources, identity, asked)
                if isinstance(found, AnswerClaim):
                    answer = await _lead(self._app, scope, receive, send, asked=asked, claimed=found)
                    done.set_result(answer)
                    return None
                if found is not None:
                    done.set_result(found)
                    return found
            finally:
                del self._running[place]
                if not done.done():
                    done.set_result(None)
            await asyncio.sleep(LOOK_SECONDS)


async def _lead(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, asked: IdempotentRequest, claimed: AnswerClaim
) -> SentAnswer | None:
    """Serve the request and keep its answer, before it goes out, if it did something; else leave the key free."""
    resources: Resources = scope["app"].state.resources
    identity: Identity = scope["state"]["identity"]
    messages: list[Message] = []

    async def gathered(message: Message) -> None:
        messages.append(message)

    kept = False
    try:
        await app(scope, receive, gathered)
        answer = _gathered(messages)
        if answer is not None and 200 <= answer.status < 300:
            await keep(resources, identity, asked, claimed, answer)
            kept = True
    finally:
        if not kept:
            await asyncio.shield(give_up(resources, identity, claimed))
    for message in messages:
        await send(message)
    return answer if kept else None


def _key(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] in STREAMED:
        return None
    found: list[str] = [value.decode("latin-1") for name, value in scope["headers"] if name == b"idempotency-key"]
    if not found:
        return None
    if len(found) > 1 or KEY.fullmatch(found[0]) is None:
        raise InvalidInput("Idempotency-Key must be one text of 1 to 200 visible ASCII characters")
    return found[0]


def _parts(scope: Scope, body: bytes) -> list[bytes]:
    """What makes two requests the same one."""
    acting = sorted(value for name, value in scope["headers"] if name.startswith(b"recordari-"))
    return [scope["path"].encode(), scope["query_string"], *acting, body]


def _replayed(message: Message, receive: Receive) -> Receive:
    waiting = [message]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def _gathered(messages: list[Message]) -> SentAnswer | None:
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
