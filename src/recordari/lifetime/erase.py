"""Erases a user everywhere: rows, vectors, bodies, sessions, state, keys, pending work (T6).

It runs in short transactions, each of which reads what is still to do. If the process or the machine stops, the next worker
continues and the result is the same. Messages from after the request are not touched. Rows of items stay as empty shells,
so that chains hold; the audit keeps a salted hash of the user's id.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from recordari.core.identity import AgentId, Identity, UserId, checked_id, owned_by
from recordari.core.ids import LAST, new_id
from recordari.core.telemetry import get_log
from recordari.db import audit, jobs
from recordari.db.database import RETENTION_ROLE
from recordari.errors import Conflict, DatabaseUnavailable, NotFound
from recordari.kit.resources import Resources
from recordari.lifetime import storage
from recordari.lifetime.forget import follow_up, forget_items, redact, remove_discarded
from recordari.lifetime.journal import complete_journal, restore_tombstones
from recordari.lifetime.rules import Erasure
from recordari.sessions.cache import SessionCache
from recordari.tenants import storage as tenants_storage
from recordari.tenants.tenants import page_size, require_admin

log = get_log(__name__)

JOB = "erase_user"
ITEMS_AT_ONCE = 200
SESSIONS_AT_ONCE = 50
WRITERS_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Reapplied:
    """The effect of a journal of erasures on a restored database."""

    tombstones: int
    items: int
    users: int


async def start_erasing_user(resources: Resources, identity: Identity, user_id: str) -> Erasure:
    """Start to erase a user in the background; from now on nothing older of that user is written."""
    require_admin(identity)
    erased_id = UserId(checked_id("user_id", user_id))
    identity = replace(identity, user_id=None)  # an administrator who acts for a user would see that user's rows only
    async with resources.database.transaction(identity) as tx:
        if held := await storage.count_held(tx, erased_id):
            raise Conflict(f"actions rest on {held} memories of this user; release the holds first")
        erasure = await storage.start_erasure(tx, new_id(), erased_id)
        name = f"{JOB}:{erasure.erasure_id}"
        await jobs.defer(tx, JOB, args={"erasure_id": str(erasure.erasure_id)}, queueing_lock=name, lock=name)
        await audit.record(tx, "user.erase.start", "erasure", erasure.erasure_id)
    return erasure


async def erase_user(resources: Resources, identity: Identity, user_id: str) -> Erasure:
    """Erase a user and return when it is done; if this process dies, a worker completes it."""
    erasure = await start_erasing_user(resources, identity, user_id)
    return await run_erasure(resources, identity, erasure_id=str(erasure.erasure_id))


async def get_erasure(resources: Resources, identity: Identity, erasure_id: UUID) -> Erasure:
    """The progress of an erasure."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        erasure = await storage.find_erasure(tx, erasure_id)
    if erasure is None:
        raise NotFound("there is no such erasure")
    return erasure


async def list_erasures(
    resources: Resources, identity: Identity, *, before: UUID | None = None, limit: int = 50
) -> list[Erasure]:
    """Erasures of the tenant, newest first; `before` is the id of the last one seen."""
    require_admin(identity)
    identity = replace(identity, user_id=None)
    async with resources.database.transaction(identity) as tx:
        return await storage.list_erasures(tx, before=before or LAST, limit=page_size(limit))


async def run_erasure(resources: Resources, identity: Identity, *, erasure_id: str, **_: Any) -> Erasure:
    """Complete an erasure. A job; you can run it again without harm."""
    erasure = await get_erasure(resources, identity, UUID(erasure_id))
    if erasure.user_id is None:
        return erasure
    await _wait_for_writers(resources, identity, erasure)
    while await _erase_items(resources, identity, erasure):
        pass
    while await _erase_sessions(resources, identity, erasure):
        pass
    return await _finish(resources, identity, erasure)


async def _wait_for_writers(resources: Resources, identity: Identity, erasure: Erasure) -> None:
    """Wait for transactions that began before the erasure: their rows are visible only once they end."""
    while True:
        async with resources.database.transaction(identity) as tx:
            if not await storage.has_older_writers(tx, erasure.erasure_id):
                return
        await asyncio.sleep(WRITERS_SECONDS)


async def _erase_items(resources: Resources, identity: Identity, erasure: Erasure) -> bool:
    """Redact a batch of the user's items; False if there are none."""
    assert erasure.user_id is not None
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        item_ids = await storage.list_items(tx, erasure.user_id, before=erasure.requested_at, limit=ITEMS_AT_ONCE)
        if not item_ids:
            return False
        redaction = await redact(tx, item_ids, now=resources.clock(), of_erased_user=True)
        await storage.progress(tx, erasure.erasure_id, items=len(redaction.forgotten.item_ids))
    await follow_up(resources, identity, redaction)
    return True


async def _erase_sessions(resources: Resources, identity: Identity, erasure: Erasure) -> bool:
    """Remove a batch of the user's sessions with everything in them; False if there are none."""
    assert erasure.user_id is not None
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        sessions = await storage.list_sessions(tx, erasure.user_id, before=erasure.requested_at, limit=SESSIONS_AT_ONCE)
        if not sessions:
            return False
        run_ids = [run_id for session in sessions for run_id in session.run_ids]
        await storage.pseudonymise_audit(tx, [*(session.session_id for session in sessions), *run_ids])
        await storage.empty_answers(tx, [*(session.session_id for session in sessions), *run_ids])
        await storage.delete_sessions(tx, owned_by(erasure.user_id, None), sessions)
        await storage.progress(tx, erasure.erasure_id, sessions=len(sessions))
    for session in sessions:
        await resources.get(SessionCache).drop(identity.tenant_id, owned_by(erasure.user_id, None), session.session_id)
    return True


async def _finish(resources: Resources, identity: Identity, erasure: Erasure) -> Erasure:
    """Remove the user's own row and keys, and close the erasure."""
    assert erasure.user_id is not None
    async with resources.database.transaction(identity) as tx:
        await storage.delete_jobs(tx, erasure.user_id)
    await remove_discarded(resources, identity)
    await _renew_samples(resources, identity)
    await complete_journal(resources, identity)  # before it is closed: nobody continues a closed one
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        await storage.unplace_items(tx, erasure.user_id, before=erasure.requested_at)
        cached = await storage.list_state_sessions(tx, erasure.user_id, before=erasure.requested_at)
        await storage.delete_user(tx, erasure.user_id, before=erasure.requested_at, token=secrets.token_hex(16))
        await storage.empty_answers(tx, [erasure.user_id])
        await storage.pseudonymise_audit(tx, [erasure.user_id])
        finished = await storage.finish_erasure(tx, erasure.erasure_id)
        if finished is not None:
            await audit.record(
                tx, "user.erase", "erasure", erasure.erasure_id, items=finished.items, sessions=finished.sessions
            )
    for session_id in cached:
        await resources.get(SessionCache).drop(identity.tenant_id, owned_by(erasure.user_id, None), session_id)
    resources.forget_tenant(identity.tenant_id)
    return finished or await get_erasure(resources, identity, erasure.erasure_id)


async def _renew_samples(resources: Resources, identity: Identity) -> None:
    """Take the user out of the planner's samples; if that takes too long, the database's own upkeep does it later."""
    try:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            await storage.renew_samples(tx)
    except DatabaseUnavailable as error:
        log.warning("samples_left_for_upkeep", error=type(error).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedAgent:
    """The memories that were erased with an agent."""

    items: int = 0
    sessions: int = 0


async def delete_agent(
    resources: Resources, identity: Identity, agent_id: str, *, memories: bool = False
) -> DeletedAgent:
    """Remove the definition of an agent; with `memories`, erase what it remembered too.

    Its memories are those with the scope agent, and its own sessions without a user. What users said to it stays theirs.
    If it stops on the way, call it again.
    """
    require_admin(identity)
    erased_id, resources = AgentId(checked_id("agent_id", agent_id)), resources.in_steps()
    identity = replace(identity, user_id=None, agent_id=None)
    deleted = DeletedAgent()
    if memories:
        async with resources.database.transaction(identity) as tx:
            if held := await storage.count_held_of_agent(tx, erased_id):
                raise Conflict(f"actions rest on {held} memories of this agent; release the holds first")
        deleted = await _erase_agent(resources, identity, erased_id)
    async with resources.database.transaction(identity) as tx:
        if not await tenants_storage.delete_agent(tx, erased_id) and deleted == DeletedAgent():
            raise NotFound("there is no such agent")
        await audit.record(tx, "agent.delete", "agent", agent_id, items=deleted.items, sessions=deleted.sessions)
    return deleted


async def _erase_agent(resources: Resources, identity: Identity, agent_id: AgentId) -> DeletedAgent:
    items = sessions = 0
    while True:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            item_ids = await storage.list_items_of_agent(tx, agent_id, limit=ITEMS_AT_ONCE)
        if not item_ids:
            break
        items += len((await forget_items(resources, identity, item_ids, reason="agent deleted")).item_ids)
    owner = owned_by(None, agent_id)
    while True:
        async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
            batch = await storage.list_sessions_of_agent(tx, agent_id, limit=SESSIONS_AT_ONCE)
            await storage.delete_sessions(tx, owner, batch)
        for session in batch:
            await resources.get(SessionCache).drop(identity.tenant_id, owner, session.session_id)
        sessions += len(batch)
        if not batch:
            break
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        await storage.delete_state_of_agent(tx, agent_id)
    await remove_discarded(resources, identity)
    return DeletedAgent(items=items, sessions=sessions)


async def reapply_erasures(resources: Resources, identity: Identity, *, file: Path | None = None) -> Reapplied:
    """Apply the journal of erasures again after you restored an older backup; you can repeat it without harm.

    `file` is the journal to use; the default is the tenant's own, beside the database.
    """
    require_admin(identity)
    resources = resources.in_steps()
    restored = await restore_tombstones(resources, identity, file)
    async with resources.database.transaction(identity, role=RETENTION_ROLE) as tx:
        items = await storage.find_returned_items(tx)
        users = await storage.find_returned_users(tx)
    for start in range(0, len(items), ITEMS_AT_ONCE):
        try:
            batch = items[start : start + ITEMS_AT_ONCE]
            await forget_items(resources, identity, batch, reason="forgotten before a restore")
        except NotFound:
            continue  # an earlier batch redacted them as derived items
    for user_id in users:
        await erase_user(resources, identity, user_id)
    return Reapplied(tombstones=restored, items=len(items), users=len(users))
