"""Answers to requests with an `Idempotency-Key`: kept encrypted for a day by the transaction that writes, and sent again."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from recordari.core.identity import Identity
from recordari.core.secrets import open_with, seal_with
from recordari.db.held import HeldWrites
from recordari.errors import Conflict, RecordariError
from recordari.kit.resources import Resources
from recordari.operations import storage
from recordari.operations.storage import NewAnswer

LIFETIME = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentRequest:
    """A request with a key: hashes that identify both, the key that decrypts the answer, and the ids that it names."""

    key_hash: bytes
    request_hash: bytes
    opener: bytes
    names: frozenset[str]

    @classmethod
    def of(cls, identity: Identity, key: str, request: Sequence[bytes], names: Sequence[str]) -> IdempotentRequest:
        """Hash a request and its key; the key belongs to the credential that sent it."""
        owners = (identity.user_id, identity.session_id, identity.run_id)
        return cls(
            key_hash=_hash(b"key", identity.actor.encode(), key.encode()),
            request_hash=_hash(b"request", *request),
            opener=_hash(b"opener", key.encode(), *request),
            names=frozenset([*names, *(str(owner) for owner in owners if owner is not None)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAnswer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


async def find(resources: Resources, identity: Identity, request: IdempotentRequest) -> SentAnswer | None:
    """Return the earlier answer to a request, if there is one.

    `Conflict` if the key was used for another request, or if the answer showed something that was forgotten since.
    """
    stored = await storage.find_answer(resources.database, identity, request.key_hash, now=resources.clock())
    if stored is None:
        return None
    if stored.request_hash != request.request_hash:
        raise another_request()
    if stored.sealed is None:
        raise Conflict("this request was done, and what its answer showed was forgotten since; do not send it again")
    return _decrypted(request, stored.sealed)


def another_request() -> RecordariError:
    return Conflict("this Idempotency-Key was used for another request; use a new key for each")


async def keep(
    resources: Resources, held: HeldWrites, identity: Identity, request: IdempotentRequest, answer: SentAnswer
) -> bool:
    """Commit what the request wrote together with its answer; False if it wrote nothing, and no answer is kept.

    `Conflict` if another copy of the request was faster; then nothing of this one is left.
    """
    content = {"status": answer.status, "headers": answer.headers, "body": base64.b64encode(answer.body).decode()}
    now = resources.clock()
    new = NewAnswer(
        key_hash=request.key_hash,
        request_hash=request.request_hash,
        sealed=seal_with(request.opener, json.dumps(content).encode()),
        shows=sorted(request.names | ids_in(answer.body)),
        expires_at=now + LIFETIME,
    )
    return await held.keep(identity, storage.parts_of_answer(new, now=now))


async def sweep_answers(resources: Resources, identity: Identity, **_: Any) -> int:
    """Delete answers after 24 hours; return how many. An hourly job."""
    async with resources.database.transaction(identity) as tx:
        return await storage.delete_expired(tx, now=resources.clock())


def ids_in(body: bytes) -> frozenset[str]:
    """Every id in a JSON body: the texts in fields named `id`, `…_id`, `ids` or `…_ids`."""
    try:
        return frozenset(_ids(json.loads(body))) if body else frozenset()
    except ValueError:
        return frozenset()


def _ids(value: Any, *, is_id: bool = False) -> Iterator[str]:
    if isinstance(value, str):
        if is_id:
            yield value
    elif isinstance(value, list):
        for member in value:
            yield from _ids(member, is_id=is_id)
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _ids(member, is_id=name in {"id", "ids"} or name.endswith(("_id", "_ids")))


def _decrypted(request: IdempotentRequest, sealed: bytes) -> SentAnswer:
    content = json.loads(open_with(request.opener, sealed))
    headers = tuple((name, value) for name, value in content["headers"])
    return SentAnswer(status=content["status"], headers=headers, body=base64.b64decode(content["body"]))


def _hash(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in parts)).digest()
