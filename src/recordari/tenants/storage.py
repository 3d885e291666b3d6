"""Rows of tenants, users, agents, API keys, usage and protected sources."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.identity import AgentId, UserId
from recordari.db.backup import list_as_owner
from recordari.db.database import BatchedQuery, Transaction
from recordari.db.queries import Queries, columns_of, first_as
from recordari.tenants.rules import (
    Agent,
    AgentDefinition,
    ApiKey,
    ProtectedSource,
    Quota,
    SignIn,
    Tenant,
    Usage,
    User,
    quota_of,
)

queries = Queries(__name__)

GUARDED_AT_ONCE = 200
"""Texts that one statement protects: their fingerprints take milliseconds each, and a statement has a time limit."""


async def insert_tenant(tx: Transaction, *, name: str, language: str, plan: str) -> bool:
    return await tx.run(queries.insert_tenant, name=name, language=language, plan=plan) == 1


async def find_tenant(tx: Transaction) -> Tenant | None:
    return await tx.maybe(queries.find_tenant, Tenant)


def ask_tenant() -> BatchedQuery[Tenant | None]:
    return BatchedQuery(queries.find_tenant, first_as(Tenant))


async def update_tenant(
    tx: Transaction, *, language: str | None, plan: str | None, settings: dict[str, Any] | None
) -> Tenant | None:
    """Change the values that are not None; settings are merged key by key."""
    return await tx.maybe(
        queries.update_tenant,
        Tenant,
        language=language,
        plan=plan,
        settings=Jsonb(settings) if settings is not None else None,
    )


async def has_language(tx: Transaction, language: str) -> bool:
    return bool(await tx.value(queries.has_language, language=language))


async def insert_user(tx: Transaction, user_id: UserId) -> bool:
    return await tx.run(queries.insert_user, user_id=user_id) == 1


async def save_user(tx: Transaction, user_id: UserId, *, display_name: str | None, time_zone: str | None) -> User:
    """Create or change a user; None leaves a value as it is."""
    (user,) = await tx.all(queries.save_user, User, user_id=user_id, display_name=display_name, time_zone=time_zone)
    return user


async def find_user(tx: Transaction, user_id: UserId) -> User | None:
    return await tx.maybe(queries.find_user, User, user_id=user_id)


def ask_user(user_id: UserId | None) -> BatchedQuery[User | None]:
    """Find a user in a batch of queries; without an id there is none."""
    return BatchedQuery(queries.find_user, first_as(User), user_id=user_id)


async def list_users(tx: Transaction, *, after: str, limit: int) -> list[User]:
    return await tx.all(queries.list_users, User, after=after, limit=limit)


async def save_agent(tx: Transaction, agent_id: AgentId, definition: AgentDefinition) -> Agent:
    (agent,) = await tx.all(queries.save_agent, Agent, **columns_of(definition, agent_id=agent_id))
    return agent


async def find_agent(tx: Transaction, agent_id: AgentId) -> Agent | None:
    return await tx.maybe(queries.find_agent, Agent, agent_id=agent_id)


def ask_agent(agent_id: AgentId) -> BatchedQuery[Agent | None]:
    return BatchedQuery(queries.find_agent, first_as(Agent), agent_id=agent_id)


async def list_agents(tx: Transaction, *, after: str, limit: int) -> list[Agent]:
    return await tx.all(queries.list_agents, Agent, after=after, limit=limit)


async def delete_agent(tx: Transaction, agent_id: AgentId) -> bool:
    return await tx.run(queries.delete_agent, agent_id=agent_id) == 1


async def insert_key(tx: Transaction, key: ApiKey) -> ApiKey:
    users = list(key.users) if key.users is not None else None
    (saved,) = await tx.all(queries.insert_key, ApiKey, **columns_of(key, users=users))
    return saved


async def find_key(tx: Transaction, key_id: UUID) -> ApiKey | None:
    return await tx.maybe(queries.find_key, ApiKey, key_id=key_id)


async def list_keys(tx: Transaction) -> list[ApiKey]:
    return await tx.all(queries.list_keys, ApiKey)


async def revoke_key(tx: Transaction, key_id: UUID) -> ApiKey | None:
    return await tx.maybe(queries.revoke_key, ApiKey, key_id=key_id)


async def insert_sign_in(tx: Transaction, sign_in: SignIn) -> None:
    await tx.run(queries.insert_sign_in, **columns_of(sign_in))


async def find_sign_in(tx: Transaction, sign_in_id: UUID) -> SignIn | None:
    return await tx.maybe(queries.find_sign_in, SignIn, sign_in_id=sign_in_id)


async def delete_sign_in(tx: Transaction, sign_in_id: UUID) -> bool:
    return await tx.run(queries.delete_sign_in, sign_in_id=sign_in_id) == 1


async def delete_old_sign_ins(tx: Transaction, *, now: datetime) -> int:
    return await tx.run(queries.delete_old_sign_ins, now=now)


async def find_usage(tx: Transaction) -> tuple[Quota, Usage | None]:
    """Return the limits of the tenant and its usage; None before the first count."""
    rows = await tx.dicts(queries.find_usage)
    if not rows:
        return quota_of("", {}), None
    (row,) = rows
    quota = quota_of(row["plan"], row["settings"])
    if row["day"] is None:
        return quota, None
    return quota, Usage(items=row["items"], bytes=row["bytes"], writes=row["writes"], day=row["day"])


async def add_usage(tx: Transaction, *, items: int, size: int, day: date) -> None:
    await tx.run(queries.add_usage, items=items, bytes=size, writes=items, day=day)


async def measure_usage(tx: Transaction, *, day: date) -> None:
    await tx.run(queries.measure_usage, day=day)


async def fold_counts(tx: Transaction, *, since: date) -> None:
    await tx.run(queries.fold_counts, since=since)


async def recount_items(tx: Transaction) -> None:
    await tx.run(queries.recount_items)


async def list_tenants(owner_dsn: str) -> list[Tenant]:
    return await list_as_owner(owner_dsn, queries.list_tenants, Tenant)


async def protect_source(tx: Transaction, source_id: UUID) -> int:
    """Protect the texts of a source; return how many were not protected yet."""
    await tx.run(queries.protect_source, source_id=source_id)
    texts = 0
    while added := await tx.run(queries.guard_texts, source_id=source_id, limit=GUARDED_AT_ONCE):
        texts += added
    return texts


async def unprotect_source(tx: Transaction, source_id: UUID) -> bool:
    return await tx.run(queries.unprotect_source, source_id=source_id) == 1


async def list_protected(tx: Transaction) -> list[ProtectedSource]:
    return await tx.all(queries.list_protected, ProtectedSource)
