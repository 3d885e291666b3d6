"""State: JSON by key that belongs to a run or session, with a budget and a lifetime."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from recordari.core.identity import Identity, Owner, RunId, SessionId, checked_choice
from recordari.core.telemetry import measured
from recordari.db.database import Transaction
from recordari.errors import NotFound
from recordari.kit.resources import Resources
from recordari.sessions import run_storage
from recordari.sessions.cache import SessionCache
from recordari.sessions.rules.sessions import sole_owner
from recordari.sessions.rules.state import (
    DEFAULT_TTL,
    DELEGATED_PREFIX,
    OWNERS_KEPT,
    NewState,
    OwnerKind,
    StateEntry,
    StateOwner,
    live,
    new_delegated,
    new_state,
    owner_of,
    read_snapshot,
    require_version,
    require_write,
    snapshot_text,
)

SWEEP_BATCH = 5_000
NO_SUCH_KEY = "there is no such key; it was never set, or it has expired"


@measured("set_state")
async def set_state(
    resources: Resources,
    identity: Identity,
    key: str,
    value: object,
    *,
    owner: OwnerKind | str = OwnerKind.SESSION,
    owner_id: str | None = None,
    ttl: timedelta | None = None,
    if_version: int | None = None,
) -> StateEntry:
    """Store a value under a key; with `if_version` (0: no such key yet) only if the key has that version.

    Without `ttl` it expires after an hour.
    """
    new = new_state(key, value, now=resources.clock(), ttl=DEFAULT_TTL if ttl is None else ttl)
    state_owner = await _owner(resources, identity, owner, owner_id)
    return await _write(resources, identity, state_owner, new, if_version=if_version)


async def delegate(
    resources: Resources, identity: Identity, name: str, value: object, *, run_id: str | None = None
) -> StateEntry:
    """Hand a value to a run; it stays until the run ends."""
    owner = await _owner(resources, identity, OwnerKind.RUN, run_id)
    return await _write(resources, identity, owner, new_delegated(name, value), if_version=None)


async def delegated(resources: Resources, identity: Identity, *, run_id: str | None = None) -> dict[str, Any]:
    """All values that were handed to a run, by name."""
    owner = await _owner(resources, identity, OwnerKind.RUN, run_id)
    async with resources.database.transaction(identity) as tx:
        entries = await run_storage.list_entries(tx, owner, prefix=DELEGATED_PREFIX, now=resources.clock())
    return {entry.key.removeprefix(DELEGATED_PREFIX): entry.value for entry in entries}


@measured("get_state")
async def get_state(
    resources: Resources,
    identity: Identity,
    key: str,
    *,
    owner: OwnerKind | str = OwnerKind.SESSION,
    owner_id: str | None = None,
) -> StateEntry:
    """Read one key that has not expired."""
    state_owner = await _owner(resources, identity, owner, owner_id)
    if _is_cached(resources, state_owner):
        entries = await _cached(resources, identity, state_owner)
        entry = next((entry for entry in entries if entry.key == key), None)
    else:
        async with resources.database.transaction(identity) as tx:
            entry = await run_storage.find_entry(tx, state_owner, key, now=resources.clock())
    if entry is None:
        raise NotFound(NO_SUCH_KEY)
    return entry


async def list_state(
    resources: Resources,
    identity: Identity,
    *,
    owner: OwnerKind | str = OwnerKind.SESSION,
    owner_id: str | None = None,
    prefix: str = "",
) -> list[StateEntry]:
    """Every key that begins with `prefix`, in order of the keys; there is no paging, since state has a budget."""
    state_owner = await _owner(resources, identity, owner, owner_id)
    if _is_cached(resources, state_owner):
        entries = await _cached(resources, identity, state_owner)
        return [entry for entry in entries if entry.key.startswith(prefix)]
    async with resources.database.transaction(identity) as tx:
        return await run_storage.list_entries(tx, state_owner, prefix=prefix, now=resources.clock())


async def delete_state(
    resources: Resources,
    identity: Identity,
    key: str,
    *,
    owner: OwnerKind | str = OwnerKind.SESSION,
    owner_id: str | None = None,
    if_version: int | None = None,
) -> None:
    """Remove one key; with `if_version` only if it has that version."""
    state_owner, now = await _owner(resources, identity, owner, owner_id), resources.clock()
    async with resources.database.transaction(identity) as tx:
        await run_storage.lock_owner(tx, state_owner, now=now)
        holdings = await run_storage.weigh_owner(tx, state_owner, key, now=now)
        if holdings.version == 0:
            raise NotFound(NO_SUCH_KEY)
        require_version(holdings.version, if_version)
        await run_storage.delete_entry(tx, state_owner, key)
    if _is_cached(resources, state_owner):
        await resources.get(SessionCache).drop(
            identity.tenant_id, state_owner.owned_by, SessionId(state_owner.owner_id)
        )


async def _owner(resources: Resources, identity: Identity, kind: OwnerKind | str, owner_id: str | None) -> StateOwner:
    owner = owner_of(identity, checked_choice("owner", OwnerKind, kind), owner_id)
    if not identity.spans_users:
        return owner
    async with resources.database.transaction(identity) as tx:
        owners = await run_storage.list_state_owners(tx, owner)
    return replace(owner, owned_by=sole_owner(owner.owned_by, owners, noun=owner.kind))


async def drop_state_of_run(tx: Transaction, resources: Resources, owned_by: Owner, run_id: RunId) -> None:
    """Remove the state of a run and its delegated values, and refuse later writes; part of ending the run."""
    owner = StateOwner(kind=OwnerKind.RUN, owner_id=run_id, owned_by=owned_by)
    await run_storage.close_owner(tx, owner, now=resources.clock())
    await run_storage.delete_entries(tx, owner)


async def drop_state_of_session(tx: Transaction, owned_by: Owner, session_id: SessionId) -> None:
    """Remove the state of a session; call `SessionCache.drop` after the commit."""
    owner = StateOwner(kind=OwnerKind.SESSION, owner_id=session_id, owned_by=owned_by)
    await run_storage.renew_owner(tx, owner)
    await run_storage.delete_entries(tx, owner)


async def sweep(resources: Resources, identity: Identity, **_: Any) -> None:
    """Remove the tenant's expired keys, and owners long without keys. Reads hide expired keys before that. An hourly job."""
    now = resources.clock()
    while True:
        async with resources.database.transaction(identity) as tx:
            if await run_storage.delete_expired(tx, now=now, limit=SWEEP_BATCH) < SWEEP_BATCH:
                break
    while True:
        async with resources.database.transaction(identity) as tx:
            if await run_storage.delete_idle_owners(tx, before=now - OWNERS_KEPT, limit=SWEEP_BATCH) < SWEEP_BATCH:
                break


async def _write(
    resources: Resources, identity: Identity, owner: StateOwner, new: NewState, *, if_version: int | None
) -> StateEntry:
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        # A statement of its own: only one that begins under the lock sees the last writer's commit.
        locked = await run_storage.lock_owner(tx, owner, now=now)
        holdings = await run_storage.weigh_owner(tx, owner, new.key, now=now)
        require_write(new, holdings, owner, is_closed=locked.closed_at is not None, if_version=if_version)
        return await run_storage.save_entry(tx, owner, locked, new, now=now)


def _is_cached(resources: Resources, owner: StateOwner) -> bool:
    return owner.kind is OwnerKind.SESSION and resources.get(SessionCache).is_on


async def _cached(resources: Resources, identity: Identity, owner: StateOwner) -> list[StateEntry]:
    """The live state of a session, through the cache."""
    async with resources.database.transaction(identity) as tx:
        version = await run_storage.find_owner_version(tx, owner)
    if version is None:
        return []

    async def load() -> str:
        async with resources.database.transaction(identity) as tx:
            return snapshot_text(await run_storage.list_entries(tx, owner, now=resources.clock()))

    text = await resources.get(SessionCache).read(
        identity.tenant_id, owner.owned_by, SessionId(owner.owner_id), version=version, load=load
    )
    return live(read_snapshot(text), resources.clock())
