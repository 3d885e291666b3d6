"""Rows of answers to requests that carry an idempotency key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.db.database import Transaction
from recordari.db.queries import Queries

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """What stands under a key: the request it is for, and the encrypted answer once there is one."""

    request_hash: bytes
    sealed: bytes | None


async def claim_answer(
    tx: Transaction, claim: Claim, *, now: datetime, silent_since: datetime, expires_at: datetime
) -> bool:
    """Take the right to answer; False when somebody answered or is about to."""
    taken = await tx.value(
        queries.claim_answer,
        key_hash=claim.key_hash,
        request_hash=claim.request_hash,
        claim=claim.claim,
        now=now,
        silent_since=silent_since,
        expires_at=expires_at,
    )
    return taken is not None


async def find_answer(tx: Transaction, key_hash: bytes) -> StoredAnswer | None:
    """What stands under a key."""
    return await tx.maybe(queries.find_answer, StoredAnswer, key_hash=key_hash)


async def save_answer(tx: Transaction, claim: Claim, sealed: bytes) -> None:
    """Keep an answer."""
    await tx.run(queries.save_answer, key_hash=claim.key_hash, claim=claim.claim, sealed=sealed)


async def drop_claim(tx: Transaction, claim: Claim) -> None:
    """Give the right to answer up."""
    await tx.run(queries.drop_claim, key_hash=claim.key_hash, claim=claim.claim)


async def delete_expired(tx: Transaction, *, now: datetime) -> int:
    """Remove answers whose time is over; how many."""
    return await tx.run(queries.delete_expired, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who answers under a key: by hashes of the key and of the request, and an id of the claim itself."""

    key_hash: bytes
    request_hash: bytes
    claim: UUID
