"""Tenants, users, agents, API keys, quotas and protected sources."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from recordari.core.described import DESCRIBED
from recordari.core.identity import AgentId, Role, TenantId, UserId, checked_id
from recordari.errors import InvalidInput, QuotaExceeded

KEY_PREFIX = "rcd"
SIGN_IN_PREFIX = "rcs"
"""Begins the token that a signed-in browser holds."""
CODE_PREFIX = "rcc"
"""Begins a code that signs in once."""
SECRET_BYTES = 32
MOST_USERS_OF_A_KEY = 1_000


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
    """The definition of an agent: its fixed texts, its model and the size of its window."""

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
    display_name: str | None = None
    core: str = ""
    characteristics: str = ""
    model: str | None = None
    window_tokens: int = 128_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key without its secret, which is shown once only."""

    __pydantic_config__ = DESCRIBED

    key_id: UUID
    name: str
    role: Role
    user_id: UserId | None
    """The one user it always acts for; null: it may name one."""
    users: tuple[UserId, ...] | None
    """The users that it may name; empty: none at all, null: any of the tenant."""
    agent_id: AgentId | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    key_hash: Annotated[bytes, Field(exclude=True)] = field(default=b"", repr=False)
    """No door shows it."""

    def valid_at(self, moment: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or moment < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """Somebody who is signed in to the dashboard, or a code that signs in once."""

    sign_in_id: UUID
    secret_hash: bytes = field(repr=False)
    is_code: bool
    actor: str
    role: Role
    user_id: UserId | None
    key_id: UUID | None
    """The key it was opened with: it ends with that key, and may do what the key may do."""
    expires_at: datetime


def checked_users(users: Sequence[str], *, role: Role, user_id: str | None) -> tuple[UserId, ...]:
    """The users that a new key is limited to."""
    if role is Role.ADMIN or user_id is not None:
        raise InvalidInput(
            "users limits a key with the role agent that is bound to no user; leave out users, or the other",
            field="users",
        )
    if len(users) > MOST_USERS_OF_A_KEY:
        raise InvalidInput(f"a key can be limited to at most {MOST_USERS_OF_A_KEY} users", field="users")
    return tuple(sorted({UserId(checked_id("users", user)) for user in users}))


def written_key(tenant_id: TenantId, key_id: UUID, secret: bytes, *, prefix: str = KEY_PREFIX) -> str:
    """Write a key for its owner. It contains the tenant and the key id in clear, so that one indexed read finds the row."""
    name = base64.b32encode(tenant_id.bytes + key_id.bytes).decode().rstrip("=").lower()
    return f"{prefix}_{name}_{base64.urlsafe_b64encode(secret).decode().rstrip('=')}"


def read_key(text: str, *, prefix: str = KEY_PREFIX) -> tuple[TenantId, UUID, bytes] | None:
    """Read the tenant, the key id and the secret of a key; None when the text is not a key."""
    found, _, rest = text.partition("_")
    name, _, secret = rest.partition("_")
    if found != prefix or len(name) != 52:
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
    """Hash a secret for storage. It has 256 random bits, so that a plain hash is safe."""
    return hashlib.sha256(secret).digest()


SETTING = "quotas"
"""The key of a tenant's settings that raises or lowers single limits of its plan."""
WARN_FROM = 0.8
DEFAULT_PLAN = "standard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of a plan; None: without a limit."""

    items: int | None
    bytes: int | None
    writes_per_day: int | None


PLANS: dict[str, Quota] = {
    "free": Quota(items=10_000, bytes=100 * 2**20, writes_per_day=5_000),
    "standard": Quota(items=2_000_000, bytes=20 * 2**30, writes_per_day=2_000_000),
    "unlimited": Quota(items=None, bytes=None, writes_per_day=None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tenant stores, and how much it wrote on a day."""

    items: int = 0
    bytes: int = 0
    writes: int = 0
    day: date = date.min

    def grown(self, *, items: int, bytes: int, day: date) -> Usage:  # noqa: A002 - the name of the limit
        return Usage(
            items=self.items + items,
            bytes=self.bytes + bytes,
            writes=items + (self.writes if self.day == day else 0),
            day=day,
        )


def check_plan(plan: str) -> None:
    """Raise `InvalidInput` unless there is such a plan."""
    if plan not in PLANS:
        raise InvalidInput(f"there is no such plan; it must be one of {', '.join(PLANS)}", field="plan")


def check_quotas(overrides: object) -> None:
    """Raise `InvalidInput` unless these are limits: whole numbers, or null for no limit; null alone removes them all."""
    names = [field.name for field in fields(Quota)]
    if overrides is None:
        return
    if not isinstance(overrides, Mapping) or not overrides.keys() <= set(names):
        raise InvalidInput(f"{SETTING} must be an object with {', '.join(names)}, or null", field=SETTING)
    if not all(limit is None or _is_limit(limit) for limit in overrides.values()):
        raise InvalidInput(f"each limit in {SETTING} must be a whole number from 0, or null for none", field=SETTING)


def quota_of(plan: str, settings: Mapping[str, Any]) -> Quota:
    """Return the limits of a plan with the overrides of the tenant's settings; invalid overrides are ignored."""
    quota = PLANS.get(plan, PLANS[DEFAULT_PLAN])
    overrides = settings.get(SETTING)
    if not isinstance(overrides, Mapping):
        return quota
    limits = {field.name: overrides[field.name] for field in fields(Quota) if field.name in overrides}
    return replace(quota, **{name: limit for name, limit in limits.items() if limit is None or _is_limit(limit)})


def _is_limit(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def shares(quota: Quota, usage: Usage, *, day: date) -> dict[str, float]:
    used = {"items": usage.items, "bytes": usage.bytes, "writes_per_day": usage.writes if usage.day == day else 0}
    limits = {name: getattr(quota, name) for name in used}
    return {
        name: (used[name] / limit if limit else float(used[name] > 0) + 1)
        for name, limit in limits.items()
        if limit is not None
    }


def warnings_of(quota: Quota, usage: Usage, *, day: date) -> list[str]:
    return [
        f"{share:.0%} of the quota of {name.replace('_', ' ')} is used"
        for name, share in shares(quota, usage, day=day).items()
        if share >= WARN_FROM
    ]


def require_room(quota: Quota, after: Usage, *, now: datetime) -> None:
    """Raise `QuotaExceeded` if the usage after a write would exceed a limit."""
    for name, share in shares(quota, after, day=now.date()).items():
        if share > 1:
            limit = getattr(quota, name)
            is_daily = name == "writes_per_day"
            advice = "it is free again tomorrow (UTC)" if is_daily else "forget something"
            raise QuotaExceeded(
                f"the quota of {limit:,} {name.replace('_', ' ')} is used up; {advice}, or ask for another plan",
                retry_after=_rest_of_day(now) if is_daily else None,
                quota=name,
                limit=limit,
            )


def _rest_of_day(now: datetime) -> float:
    midnight = datetime.combine(now.date() + timedelta(days=1), time.min, tzinfo=now.tzinfo or UTC)
    return (midnight - now).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedSource:
    __pydantic_config__ = DESCRIBED

    source_id: UUID
    protected_at: datetime
    texts: int
    """Protected texts of the source."""
