"""Episodes, the record of what an agent did: append them, read the last ones, prune them by age and number."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from recordari.core.identity import Identity, Scope, checked_id, optional_choice
from recordari.core.ids import new_id
from recordari.core.items import Item, Kind, NewItem
from recordari.core.telemetry import get_log
from recordari.db import audit, outbox
from recordari.db.database import RETENTION_ROLE
from recordari.db.outbox import Batch
from recordari.errors import InvalidInput, Unauthenticated
from recordari.kit.resources import Resources
from recordari.memory import remember
from recordari.memory.remember import Remembered
from recordari.sessions import run_storage
from recordari.sessions.rules.runs import EPISODE_DAYS, EPISODES_GIVEN, MAX_EPISODES, MOST_EPISODES_GIVEN, checked_json
from recordari.tenants.tenants import require_admin

log = get_log(__name__)

TRIM_TOPIC = "trim_episodes"
TRIM_EVERY = 64
"""One append in so many, chosen by its random id, queues a check of the cap; so no append has to count."""
TRIM_TO = MAX_EPISODES - 1_000
"""Trimming leaves room for the appends before the next check."""
DELETED_AT_ONCE = 1_000


async def append_episode(
    resources: Resources,
    identity: Identity,
    content: str,
    *,
    run_id: str | None = None,
    session_id: str | None = None,
    episode_id: str | None = None,
    scope: Scope | str | None = None,
    event_time: datetime | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Remembered:
    """Record something that the agent did; the same episode id again is the same episode."""
    scope = optional_choice("scope", Scope, scope)
    identity = identity.narrowed(run_id=run_id, session_id=session_id)
    if identity.agent_id is None:
        raise Unauthenticated("an episode belongs to an agent; name the agent that acts")
    ref = checked_id("episode_id", episode_id) if episode_id is not None else str(new_id())
    new = NewItem(
        content=content,
        kind=Kind.EPISODE,
        scope=scope,
        source_ref=f"episode:{identity.agent_id}:{ref}",
        event_time=event_time,
        metadata=checked_json("metadata", dict(metadata or {})),
    )
    with resources.telemetry.measured("append_episode"):
        ready = await remember.make_ready(resources, identity, [new])
        async with resources.database.transaction(identity) as tx:
            (remembered,), changes = await remember.save_ready(tx, ready)
            sampled = [item_id for item_id in changes.item_ids if item_id.int % TRIM_EVERY == 0]
            await outbox.add(tx, TRIM_TOPIC, sampled)
    changes.wake(resources)
    if sampled:
        resources.wake(TRIM_TOPIC)
    return remembered


async def last_episodes(resources: Resources, identity: Identity, *, limit: int = EPISODES_GIVEN) -> list[Item]:
    """The last episodes of the identity's agent that it may see, oldest first."""
    if identity.agent_id is None:
        raise Unauthenticated("episodes belong to an agent; name the agent that asks")
    if not 1 <= limit <= MOST_EPISODES_GIVEN:
        raise InvalidInput(f"limit must lie between 1 and {MOST_EPISODES_GIVEN}", field="limit")
    async with resources.database.transaction(identity) as tx:
        return (await run_storage.newest_episodes(tx, identity.session_id, limit=limit))[::-1]


async def prune_episodes(resources: Resources, identity: Identity, **_: Any) -> None:
    """Remove the tenant's episodes older than 90 days, and the oldest above the cap. A weekly job (E3)."""
    require_admin(identity)
    before = resources.clock() - timedelta(days=EPISODE_DAYS)
    old = 0
    while True:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            deleted = await run_storage.delete_old_episodes(tx, before=before, limit=DELETED_AT_ONCE)
        old += deleted
        if deleted < DELETED_AT_ONCE:
            break
    await _audit(resources, identity, "older than 90 days", old)
    await trim(resources, identity)


async def trim_episodes(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Enforce the cap between two prunings. A job of the outbox."""
    await trim(resources, identity)


async def trim(resources: Resources, identity: Identity, *, most: int = MAX_EPISODES, keep: int = TRIM_TO) -> int:
    """Remove the oldest episodes of a tenant that has `most` or more, until `keep` remain; returns how many."""
    async with resources.database.transaction(identity) as tx:
        surplus = await run_storage.count_episodes(tx) - keep
    if surplus < most - keep:
        return 0
    removed = 0
    while removed < surplus:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            deleted = await run_storage.delete_oldest_episodes(tx, limit=min(DELETED_AT_ONCE, surplus - removed))
        removed += deleted
        if deleted == 0:
            break
    log.warning("episodes_over_the_cap", removed=removed)
    await _audit(resources, identity, "past the cap", removed)
    return removed


async def _audit(resources: Resources, identity: Identity, reason: str, removed: int) -> None:
    if removed:
        async with resources.database.transaction(identity) as tx:
            await audit.record(tx, "episode.prune", "tenant", identity.tenant_id, reason=reason, removed=removed)
