"""The right to answer a request that may come more than once."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who answers under a key: by hashes of the key and of the request, and an id of the claim itself."""

    key_hash: bytes
    request_hash: bytes
    claim: UUID
