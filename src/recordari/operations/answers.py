"""Answers to requests that carry an `Idempotency-Key`: claimed, kept sealed for a day, given again."""

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

KEPT = timedelta(hours=24)


SILENCE = timedelta(seconds=60)  # longer than a request may take: whoever had the claim is dead


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """A request under its key: by which both are known again, and what opens the answer."""

    key_hash: bytes
    request_hash: bytes
    opener: bytes

    @classmethod
    def of(cls, identity: Identity, key: str, request: Sequence[bytes]) -> IdempotentRequest:
        """What is known of a request; the key belongs to the credential that sent it."""
        whole = _hash(b"request", *request)
        return cls(
            key_hash=_hash(b"key", identity.actor.encode(), key.encode()),
            request_hash=whole,
            opener=_hash(b"opener", key.encode(), *request),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAnswer:
    """An answer as it went out."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


async def claim(resources: Resources, identity: Identity, asked: IdempotentRequest) -> AnswerClaim | SentAnswer | None:
    """The right to answer, or the answer that was given; None while another request is about to give it.

    `Conflict` when the key was used for another request.
    """
    now = resources.clock()
    wanted = AnswerClaim(key_hash=asked.key_hash, request_hash=asked.request_hash, claim=new_id())
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


async def keep(
    resources: Resources, identity: Identity, asked: IdempotentRequest, claimed: AnswerClaim, answer: SentAnswer
) -> None:
    """Keep an answer for whoever asks again."""
    written = {
        "status": answer.status,
        "headers": answer.headers,
        "body": base64.b64encode(answer.body).decode(),
    }
    sealed = seal_with(asked.opener, json.dumps(written).encode())
    async with resources.database.transaction(identity) as tx:
        await storage.save_answer(tx, claimed, sealed)


async def give_up(resources: Resources, identity: Identity, claimed: AnswerClaim) -> None:
    """Let the next request under the key try again: this one did nothing that lasts."""
    async with resources.database.transaction(identity) as tx:
        await storage.drop_claim(tx, claimed)


async def sweep_answers(resources: Resources, identity: Identity, **_: Any) -> int:
    """Remove answers after their 24 hours; how many. An hourly job."""
    async with resources.database.transaction(identity) as tx:
        return await storage.delete_expired(tx, now=resources.clock())


def _opened(asked: IdempotentRequest, sealed: bytes) -> SentAnswer:
    said = json.loads(open_with(asked.opener, sealed))
    return SentAnswer(
        status=said["status"],
        headers=tuple((name, value) for name, value in said["headers"]),
        body=base64.b64decode(said["body"]),
    )


def _hash(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8) + part)
    return digest.digest()
