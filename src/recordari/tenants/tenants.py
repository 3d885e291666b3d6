"""Tenants, users, agents, API keys and the audit."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from recordari.core.cache import BoundedMap
from recordari.core.identity import AgentId, Identity, Role, TenantId, UserId, checked_choice, checked_id, tenant_id_of
from recordari.core.ids import new_id
from recordari.db import audit, jobs
from recordari.db.audit import AuditEntry
from recordari.db.database import BatchedQuery, Database, Transaction
from recordari.db.jobs import next_run
from recordari.db.pipeline import TENANT_ROLE
from recordari.errors import Forbidden, InvalidInput, PreconditionFailed, Unauthenticated
from recordari.kit.resources import Resources
from recordari.kit.verbs import existing
from recordari.tenants import storage
from recordari.tenants.rules import (
    SECRET_BYTES,
    SETTING,
    Agent,
    AgentDefinition,
    ApiKey,
    Tenant,
    User,
    check_plan,
    check_quotas,
    checked_users,
    key_hash,
    read_key,
    written_key,
)

MAX_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey(ApiKey):
    """A new key: the only answer that contains its text."""

    key: str = field(repr=False)
    """The key itself. It is shown this once; keep it safe."""


def require_admin(identity: Identity) -> None:
    """Raise `Forbidden` unless the identity is an administrator of its tenant."""
    if identity.role is not Role.ADMIN:
        raise Forbidden("this needs a key with the role admin")


def _across_users(identity: Identity) -> str | None:
    """The database role for users and keys: an administrator governs all of them, also while acting for one user."""
    return TENANT_ROLE if identity.role is Role.ADMIN else None


def page_size(limit: int) -> int:
    if limit < 1:
        raise InvalidInput("limit must be at least 1", field="limit")
    return min(limit, MAX_PAGE)


async def ensure_tenant(
    resources: Resources, name: str, *, language: str = "english", plan: str = "standard", actor: str = "library"
) -> Tenant:
    """Return the tenant called `name`; it is created if it is missing."""
    check_plan(plan)
    identity = Identity(tenant_id=tenant_id_of(name), role=Role.ADMIN, actor=actor)
    async with resources.database.transaction(identity) as tx:
        tenant = await storage.find_tenant(tx)
        if tenant is not None:
            return tenant
        await _check_language(tx, language)
        if await storage.insert_tenant(tx, name=name, language=language, plan=plan):
            now = resources.clock()
            await jobs.insert(tx, [(each.job, next_run(each, identity.tenant_id, now)) for each in resources.schedules])
            await audit.record(tx, "tenant.create", "tenant", identity.tenant_id)
        return existing(await storage.find_tenant(tx), "tenant")


async def _check_language(tx: Transaction, language: str) -> None:
    if not await storage.has_language(tx, language):
        raise InvalidInput("the database has no text search configuration of that name", field="language")


async def get_tenant(resources: Resources, identity: Identity) -> Tenant:
    """Return the tenant of the identity."""
    async with resources.database.transaction(identity) as tx:
        return existing(await storage.find_tenant(tx), "tenant")


async def update_tenant(
    resources: Resources,
    identity: Identity,
    *,
    language: str | None = None,
    plan: str | None = None,
    settings: dict[str, Any] | None = None,
) -> Tenant:
    """Change the tenant's language or settings (merged key by key), and as the operator its plan and quotas."""
    require_admin(identity)
    if (plan is not None or SETTING in (settings or {})) and not identity.is_operator:
        raise Forbidden("the operator sets plans and quotas, with `recordari tenant set`")
    if plan is not None:
        check_plan(plan)
    check_quotas((settings or {}).get(SETTING))
    for name, read in resources.tenant_settings.items():
        read((settings or {}).get(name))
    async with resources.database.transaction(identity) as tx:
        if language is not None:
            await _check_language(tx, language)
        row = await storage.update_tenant(tx, language=language, plan=plan, settings=settings)
        tenant = existing(row, "tenant")
        await audit.record(tx, "tenant.update", "tenant", identity.tenant_id, keys=sorted(settings or {}))
    resources.forget_tenant(identity.tenant_id)
    return tenant


async def save_user(
    resources: Resources,
    identity: Identity,
    user_id: str,
    *,
    display_name: str | None = None,
    time_zone: str | None = None,
) -> User:
    """Create or change a user of the tenant."""
    if identity.user_id != user_id:
        require_admin(identity)
    try:
        ZoneInfo("UTC" if time_zone is None else time_zone)
    except (KeyError, ValueError, OSError):
        raise InvalidInput("this is not a time zone; use a name such as Europe/Stockholm", field="time_zone") from None
    async with resources.database.transaction(identity, role=_across_users(identity)) as tx:
        user = await storage.save_user(
            tx, UserId(checked_id("user_id", user_id)), display_name=display_name, time_zone=time_zone
        )
        await audit.record(tx, "user.save", "user", user_id)
    resources.forget_tenant(identity.tenant_id)
    return user


async def get_user(resources: Resources, identity: Identity, user_id: str) -> User:
    """Return a user of the tenant: an administrator any, another caller the user it acts for."""
    is_another = identity.role is not Role.ADMIN and identity.user_id != user_id
    async with resources.database.transaction(identity, role=_across_users(identity)) as tx:
        return existing(None if is_another else await storage.find_user(tx, UserId(user_id)), "user")


async def list_users(resources: Resources, identity: Identity, *, after: str = "", limit: int = 50) -> list[User]:
    """List users by id, after the given id."""
    require_admin(identity)
    async with resources.database.transaction(identity, role=_across_users(identity)) as tx:
        return await storage.list_users(tx, after=after, limit=page_size(limit))


async def save_agent(
    resources: Resources,
    identity: Identity,
    agent_id: str,
    definition: AgentDefinition,
    *,
    expected_version: int | None = None,
) -> Agent:
    """Create or replace a definition; with `expected_version` (0: none yet) only over that version."""
    require_admin(identity)
    if definition.window_tokens < 1:
        raise InvalidInput("window_tokens must be at least 1", field="window_tokens")
    async with resources.database.transaction(identity) as tx:
        agent = await storage.save_agent(tx, AgentId(checked_id("agent_id", agent_id)), definition)
        if expected_version is not None and agent.version != expected_version + 1:
            raise PreconditionFailed
        await audit.record(tx, "agent.save", "agent", agent_id, version=agent.version)
        return agent


async def get_agent(resources: Resources, identity: Identity, agent_id: str) -> Agent:
    """Return the definition of an agent."""
    async with resources.database.transaction(identity) as tx:
        return existing(await storage.find_agent(tx, AgentId(agent_id)), "agent")


async def list_agents(resources: Resources, identity: Identity, *, after: str = "", limit: int = 50) -> list[Agent]:
    """List definitions by id, after the given id."""
    async with resources.database.transaction(identity) as tx:
        return await storage.list_agents(tx, after=after, limit=page_size(limit))


async def create_key(
    resources: Resources,
    identity: Identity,
    name: str,
    *,
    role: Role | str = Role.AGENT,
    user_id: str | None = None,
    users: Sequence[str] | None = None,
    agent_id: str | None = None,
    expires_at: datetime | None = None,
) -> NewKey:
    """Create an API key; only this answer contains its text.

    It acts for any user of the tenant, unless you bind it to one (`user_id`) or limit it to some (`users`; empty: none).
    """
    role = checked_choice("role", Role, role)
    require_admin(identity)
    checked_id("name", name)
    bound = identity.narrowed(user_id=user_id, agent_id=agent_id)
    now = resources.clock()
    if expires_at is not None and (expires_at.tzinfo is None or expires_at <= now):
        raise InvalidInput("expires_at must lie in the future and carry a time zone", field="expires_at")
    key_id, secret = new_id(), secrets.token_bytes(SECRET_BYTES)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        new = ApiKey(
            key_id=key_id,
            name=name,
            role=role,
            user_id=bound.user_id if user_id else None,
            users=checked_users(users, role=role, user_id=user_id) if users is not None else None,
            agent_id=bound.agent_id if agent_id else None,
            created_at=now,
            expires_at=expires_at,
            revoked_at=None,
            key_hash=key_hash(secret),
        )
        key = await storage.insert_key(tx, new)
        await audit.record(tx, "key.create", "key", key_id, role=role)
    return NewKey(**asdict(key), key=written_key(identity.tenant_id, key_id, secret))


async def list_keys(resources: Resources, identity: Identity) -> list[ApiKey]:
    """List the keys of the tenant, revoked ones included."""
    require_admin(identity)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        return await storage.list_keys(tx)


async def revoke_key(resources: Resources, identity: Identity, key_id: UUID) -> ApiKey:
    """Revoke a key at once."""
    require_admin(identity)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        key = existing(await storage.revoke_key(tx, key_id), "key")
        await audit.record(tx, "key.revoke", "key", key_id)
        return key


async def authenticate_key(resources: Resources, text: str) -> Identity:
    """Return the identity of a key; the error is the same for every wrong key."""
    parts = read_key(text)
    if parts is None:
        raise Unauthenticated("this key is not valid")
    tenant_id, key_id, secret = parts
    # Whose key it is, is known only when it was found.
    finding = Identity(tenant_id=tenant_id, role=Role.ADMIN, actor="authentication")
    async with resources.database.transaction(finding) as tx:
        key = await storage.find_key(tx, key_id)
    if key is None or not hmac.compare_digest(key.key_hash, key_hash(secret)):
        raise Unauthenticated("this key is not valid")
    return _acting_by(key, tenant_id, resources.clock())


async def identity_of_key(resources: Resources, tenant_id: TenantId, key_id: UUID) -> Identity:
    """Return the identity of a key that was shown before; the same error if it is no longer valid."""
    finding = Identity(tenant_id=tenant_id, role=Role.ADMIN, actor="authentication")
    async with resources.database.transaction(finding) as tx:
        key = await storage.find_key(tx, key_id)
    if key is None:
        raise Unauthenticated("this key is not valid")
    return _acting_by(key, tenant_id, resources.clock())


def _acting_by(key: ApiKey, tenant_id: TenantId, now: datetime) -> Identity:
    if not key.valid_at(now):
        raise Unauthenticated("this key is not valid")
    return Identity(
        tenant_id=tenant_id,
        user_id=key.user_id,
        agent_id=key.agent_id,
        role=Role(key.role),
        users=frozenset(key.users) if key.users is not None else None,
        actor=f"key:{key.key_id}",
    )


async def list_audit(
    resources: Resources,
    identity: Identity,
    *,
    subject_kind: str | None = None,
    subject_id: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: UUID | None = None,
    limit: int = 50,
) -> list[AuditEntry]:
    """List the audit, newest first; of one subject if you name its kind and id.

    `action` is a whole action (`item.forget`) or the group before its dot (`item`).
    """
    require_admin(identity)
    limit = page_size(limit)
    async with resources.database.transaction(identity, role=TENANT_ROLE) as tx:
        if subject_kind is not None and subject_id is not None:
            return await audit.list_entries_of(
                tx, subject_kind=subject_kind, subject_id=subject_id, before=before, limit=limit
            )
        return await audit.list_entries(
            tx, actor=actor, action=action, since=since, until=until, before=before, limit=limit
        )


async def list_tenants(owner_dsn: str) -> list[Tenant]:
    """List every tenant, with the connection of the owner of the database."""
    return await storage.list_tenants(owner_dsn)


MOST_TENANTS = 10_000
SECONDS = 2.0
ASSUMED_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPreferences:
    settings: Mapping[str, Any]
    zone: ZoneInfo


class AskedPreferences:
    """Two queries for a batch, and what they answer."""

    def __init__(self, cache: TenantCache, identity: Identity) -> None:
        self._cache = cache
        self._identity = identity
        self._tenant, self._user = storage.ask_tenant(), storage.ask_user(identity.user_id)
        self.batch: list[BatchedQuery[Any]] = [self._tenant, self._user]

    def take(self) -> TenantPreferences:
        """The preferences, after the batch was sent; the cache has them too."""
        tenant, user = self._tenant.answer, self._user.answer
        preferences = TenantPreferences(
            settings=tenant.settings if tenant is not None else {},
            zone=ZoneInfo(user.time_zone if user is not None else "UTC"),
        )
        self._cache.note(self._identity, preferences)
        return preferences


class TenantCache:
    def __init__(self) -> None:
        self._cached: BoundedMap[tuple[TenantId, UserId | None], TenantPreferences]
        self._cached = BoundedMap(MOST_TENANTS, seconds=SECONDS)
        self._before: BoundedMap[tuple[TenantId, UserId | None], TenantPreferences]
        self._before = BoundedMap(MOST_TENANTS, seconds=ASSUMED_SECONDS)
        self._settings: BoundedMap[TenantId, Mapping[str, Any]] = BoundedMap(MOST_TENANTS, seconds=SECONDS)

    async def settings(self, database: Database, identity: Identity) -> Mapping[str, Any]:
        """The settings of the tenant alone, which all its users share."""
        settings = self._settings.get(identity.tenant_id)
        if settings is None:
            tenant = storage.ask_tenant()
            await database.read_batch(identity, [tenant])
            settings = self._settings.put(
                identity.tenant_id, tenant.answer.settings if tenant.answer is not None else {}
            )
        return settings

    async def get(self, database: Database, identity: Identity) -> TenantPreferences:
        preferences = self._cached.get((identity.tenant_id, identity.user_id))
        if preferences is None:
            asked = AskedPreferences(self, identity)
            await database.read_batch(identity, asked.batch)
            preferences = asked.take()
        return preferences

    async def assumed(
        self, database: Database, identity: Identity
    ) -> tuple[TenantPreferences, AskedPreferences | None]:
        """The preferences as they were minutes ago, and what to ask in a later batch to see whether they still are.

        None: they are known. So the first statement of a request need not wait for an answer that almost never changes.
        """
        key = (identity.tenant_id, identity.user_id)
        if (preferences := self._cached.get(key)) is not None:
            return preferences, None
        if (preferences := self._before.get(key)) is not None:
            return preferences, AskedPreferences(self, identity)
        return await self.get(database, identity), None

    def note(self, identity: Identity, preferences: TenantPreferences) -> None:
        for cache in (self._cached, self._before):
            cache.put((identity.tenant_id, identity.user_id), preferences)
        self._settings.put(identity.tenant_id, preferences.settings)

    def forget_tenant(self, tenant_id: TenantId) -> None:
        for cache in (self._cached, self._before):
            cache.drop(lambda key, _: key[0] == tenant_id)
        self._settings.pop(tenant_id)
