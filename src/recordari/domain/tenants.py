"""Tenants, their users and agents, and the keys they hand out."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.identity import AgentId, Role, TenantId, UserId

KEY_PREFIX = "rcd"
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One customer or workspace; nothing crosses from one to another unless shared on purpose."""

    tenant_id: TenantId
    name: str
    language: str
    plan: str
    settings: dict[str, Any]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A person that a tenant's agents talk with."""

    user_id: UserId
    display_name: str | None
    time_zone: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent's definition: the texts that never change during a conversation, its model and its window."""

    agent_id: AgentId
    display_name: str | None
    core: str
    characteristics: str
    model: str | None
    window_tokens: int
    version: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefinition:
    """What a caller says of an agent."""

    display_name: str | None = None
    core: str = ""
    characteristics: str = ""
    model: str | None = None
    window_tokens: int = 128_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it can be seen later: never the secret, which is shown once."""

    key_id: UUID
    name: str
    role: Role
    user_id: UserId | None
    agent_id: AgentId | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    key_hash: bytes = field(default=b"", repr=False)
    """Empty where the key was seen through a door, which shows no hash."""

    def valid_at(self, moment: datetime) -> bool:
        """Whether the key opens anything at that moment."""
        return self.revoked_at is None and (self.expires_at is None or moment < self.expires_at)


def written_key(tenant_id: TenantId, key_id: UUID, secret: bytes) -> str:
    """The key as its owner sees it. Tenant and key id stand in it in clear, so that one indexed read finds its row."""
    name = base64.b32encode(tenant_id.bytes + key_id.bytes).decode().rstrip("=").lower()
    return f"{KEY_PREFIX}_{name}_{base64.urlsafe_b64encode(secret).decode().rstrip('=')}"


def read_key(text: str) -> tuple[TenantId, UUID, bytes] | None:
    """Tenant, key id and secret of a written key; None when it is not one."""
    prefix, _, rest = text.partition("_")
    name, _, secret = rest.partition("_")
    if prefix != KEY_PREFIX or len(name) != 52:
        return None
    try:
        ids = base64.b32decode(name.upper() + "====")
        secret_bytes = base64.b64decode(secret + "=" * (-len(secret) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    if len(secret_bytes) != SECRET_BYTES:
        return None
    return TenantId(UUID(bytes=ids[:16])), UUID(bytes=ids[16:]), secret_bytes


def key_hash(secret: bytes) -> bytes:
    """What is stored of a secret. It has 256 random bits, so that a plain hash cannot be guessed back."""
    return hashlib.sha256(secret).digest()


def same_hash(one: bytes, other: bytes) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one, other)
