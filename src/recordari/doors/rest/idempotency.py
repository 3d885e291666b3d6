"""`Idempotency-Key`: a POST that is sent again is answered again, and done once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recordari.core.identity import Identity
from recordari.core.ids import new_id
from recordari.core.secrets import open_with, seal_with
from recordari.doors.rest import storage
from recordari.doors.rest.limits import STREAMED
from recordari.errors import Conflict, InvalidInput, RecordariError
from recordari.kit.resources import Resources

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

Running: TypeAlias = "asyncio.Future[Answer | None]"


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
        asked = Asked.of(identity, key, _parts(scope, message.get("body", b"")))
        answer = await self._answer(scope, _replayed(message, receive), send, identity, asked)
        if answer is not None:
            await _send(answer, send)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, identity: Identity, asked: Asked
    ) -> Answer | None:
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
                if isinstance(found, Claim):
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
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, asked: Asked, claimed: Claim
) -> Answer | None:
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


def _gathered(messages: list[Message]) -> Answer | None:
    if not messages or messages[0]["type"] != "http.response.start":
        return None
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in messages[0]["headers"]]
    return Answer(
        status=messages[0]["status"],
        headers=tuple((name, value) for name, value in headers if name in KEPT_HEADERS),
        body=b"".join(message.get("body", b"") for message in messages[1:]),
    )


async def _send(answer: Answer, send: Send) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    headers.append((b"idempotency-replayed", b"true"))
    if answer.status != 204:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


KEPT = timedelta(hours=24)
SILENCE = timedelta(seconds=60)  # longer than a request may take: whoever had the claim is dead


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request under its key: by which both are known again, and what opens the answer."""

    key_hash: bytes
    request_hash: bytes
    opener: bytes

    @classmethod
    def of(cls, identity: Identity, key: str, request: Sequence[bytes]) -> Asked:
        """What is known of a request; the key belongs to the credential that sent it."""
        whole = _hash(b"request", *request)
        return cls(
            key_hash=_hash(b"key", identity.actor.encode(), key.encode()),
            request_hash=whole,
            opener=_hash(b"opener", key.encode(), *request),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer as it went out."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


async def claim(resources: Resources, identity: Identity, asked: Asked) -> Claim | Answer | None:
    """The right to answer, or the answer that was given; None while another request is about to give it.

    `Conflict` when the key was used for another request.
    """
    now = resources.clock()
    wanted = Claim(key_hash=asked.key_hash, request_hash=asked.request_hash, claim=new_id())
    async with resources.database.transaction(identity) as tx:
        if await storage.claim_answer(tx, wanted, now=now, silent_since=now - SILENCE, expires_at=now + KEPT):
            return wanted
        found = await storage.find_answer(tx, asked.key_hash)
    if found is None:
        return None
    if found.request_hash != asked.request_hash:
        raise another_request()
    return _opened(asked, found.sealed) if found.sealed is not None else None


def another_request() -> RecordariError:
    """What is said of a key that was used for another request."""
    return Conflict("this Idempotency-Key was used for another request; use a new key for each")


async def keep(resources: Resources, identity: Identity, asked: Asked, claimed: Claim, answer: Answer) -> None:
    """Keep an answer for whoever asks again."""
    written = {
        "status": answer.status,
        "headers": answer.headers,
        "body": base64.b64encode(answer.body).decode(),
    }
    sealed = seal_with(asked.opener, json.dumps(written).encode())
    async with resources.database.transaction(identity) as tx:
        await storage.save_answer(tx, claimed, sealed)


async def give_up(resources: Resources, identity: Identity, claimed: Claim) -> None:
    """Let the next request under the key try again: this one did nothing that lasts."""
    async with resources.database.transaction(identity) as tx:
        await storage.drop_claim(tx, claimed)


async def sweep_answers(resources: Resources, identity: Identity, **_: Any) -> int:
    """Remove answers after their 24 hours; how many. An hourly job."""
    async with resources.database.transaction(identity) as tx:
        return await storage.delete_expired(tx, now=resources.clock())


def _opened(asked: Asked, sealed: bytes) -> Answer:
    said = json.loads(open_with(asked.opener, sealed))
    return Answer(
        status=said["status"],
        headers=tuple((name, value) for name, value in said["headers"]),
        body=base64.b64decode(said["body"]),
    )


def _hash(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8) + part)
    return digest.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who answers under a key: by hashes of the key and of the request, and an id of the claim itself."""

    key_hash: bytes
    request_hash: bytes
    claim: UUID
