"""Answers to requests with an `Idempotency-Key`: stored encrypted for a day, and sent again."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from recordari.core.identity import Identity
from recordari.core.ids import new_id
from recordari.core.secrets import open_with, seal_with
from recordari.errors import Conflict, RecordariError
from recordari.kit.resources import Resources
from recordari.operations import storage
from recordari.operations.storage import AnswerClaim

LIFETIME = timedelta(hours=24)
SILENCE = timedelta(seconds=60)  # longer than any request: the process that had the claim is dead


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """A request with a key: hashes that identify both, and the key that decrypts the answer."""

    key_hash: bytes
    request_hash: bytes
    opener: bytes

    @classmethod
    def of(cls, identity: Identity, key: str, request: Sequence[bytes]) -> IdempotentRequest:
        """Hash a request and its key; the key belongs to the credential that sent it."""
        return cls(
            key_hash=_hash(b"key", identity.actor.encode(), key.encode()),
            request_hash=_hash(b"request", *request),
            opener=_hash(b"opener", key.encode(), *request),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAnswer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


async def claim(
    resources: Resources, identity: Identity, request: IdempotentRequest
) -> AnswerClaim | SentAnswer | None:
    """Return the right to answer, or the earlier answer; None while another request is about to answer.

    `Conflict` if the key was used for another request.
    """
    now = resources.clock()
    new = AnswerClaim(key_hash=request.key_hash, request_hash=request.request_hash, claim=new_id())
    async with resources.database.transaction(identity) as tx:
        if await storage.claim_answer(tx, new, now=now, silent_since=now - SILENCE, expires_at=now + LIFETIME):
            return new
        stored = await storage.find_answer(tx, request.key_hash)
    if stored is None:
        return None
    if stored.request_hash != request.request_hash:
        raise another_request()
    return _decrypted(request, stored.sealed) if stored.sealed is not None else None


def another_request() -> RecordariError:
    return Conflict("this Idempotency-Key was used for another request; use a new key for each")


async def keep(
    resources: Resources, identity: Identity, request: IdempotentRequest, claimed: AnswerClaim, answer: SentAnswer
) -> None:
    content = {"status": answer.status, "headers": answer.headers, "body": base64.b64encode(answer.body).decode()}
    sealed = seal_with(request.opener, json.dumps(content).encode())
    async with resources.database.transaction(identity) as tx:
        await storage.save_answer(tx, claimed, sealed)


async def give_up(resources: Resources, identity: Identity, claimed: AnswerClaim) -> None:
    """Drop the claim: this request changed nothing, so that the next one may run."""
    async with resources.database.transaction(identity) as tx:
        await storage.drop_claim(tx, claimed)


async def sweep_answers(resources: Resources, identity: Identity, **_: Any) -> int:
    """Delete answers after 24 hours; return how many. An hourly job."""
    async with resources.database.transaction(identity) as tx:
        return await storage.delete_expired(tx, now=resources.clock())


def _decrypted(request: IdempotentRequest, sealed: bytes) -> SentAnswer:
    content = json.loads(open_with(request.opener, sealed))
    headers = tuple((name, value) for name, value in content["headers"])
    return SentAnswer(status=content["status"], headers=headers, body=base64.b64decode(content["body"]))


def _hash(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).digest()
