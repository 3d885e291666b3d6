"""Rows of state and of what owns it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import psycopg

from recordari.db.database import Asked, Transaction, all_as
from recordari.db.queries import Queries
from recordari.domain.state import Holdings, NewState, Owner, StateEntry
from recordari.errors import NotFound

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedOwner:
    """An owner that only this transaction writes to; `version` is the one for what it writes now."""

    version: int
    user_id: str | None
    closed_at: datetime | None


async def lock_owner(tx: Transaction, owner: Owner, *, now: datetime) -> LockedOwner:
    """Lock the owner until the end of the transaction; raise `NotFound` when it is another user's."""
    try:
        (locked,) = await tx.all(
            queries.lock_owner,
            LockedOwner,
            owner_kind=owner.kind,
            owner_id=owner.owner_id,
            user_id=tx.identity.user_id,
            now=now,
        )
    except psycopg.errors.InsufficientPrivilege:
        # Row-level security hides the row that stands in the way.
        raise NotFound(f"there is no such {owner.kind}") from None
    return locked


async def weigh_owner(tx: Transaction, owner: Owner, key: str, *, now: datetime) -> Holdings:
    """What the owner holds, seen from one key."""
    (held,) = await tx.all(
        queries.weigh_owner, Holdings, owner_kind=owner.kind, owner_id=owner.owner_id, key=key, now=now
    )
    return held


async def save_entry(tx: Transaction, owner: Owner, locked: LockedOwner, new: NewState, *, now: datetime) -> StateEntry:
    """Create or replace one key."""
    (entry,) = await tx.all(
        queries.save_entry,
        StateEntry,
        owner_kind=owner.kind,
        owner_id=owner.owner_id,
        key=new.key,
        user_id=locked.user_id,
        value=new.text,
        bytes=new.bytes,
        version=locked.version,
        now=now,
        expires_at=new.expires_at,
    )
    return entry


async def find_entry(tx: Transaction, owner: Owner, key: str, *, now: datetime) -> StateEntry | None:
    """One live key."""
    return await tx.maybe(
        queries.find_entry, StateEntry, owner_kind=owner.kind, owner_id=owner.owner_id, key=key, now=now
    )


async def list_entries(tx: Transaction, owner: Owner, *, prefix: str = "", now: datetime) -> list[StateEntry]:
    """Every live key that begins with `prefix`."""
    return await tx.all(
        queries.list_entries,
        StateEntry,
        owner_kind=owner.kind,
        owner_id=owner.owner_id,
        prefix=prefix,
        now=now,
    )


def ask_entries(owner: Owner, *, prefix: str = "", now: datetime) -> Asked[list[StateEntry]]:
    """The same, sent along with others."""
    return Asked(
        queries.list_entries,
        all_as(StateEntry),
        owner_kind=owner.kind,
        owner_id=owner.owner_id,
        prefix=prefix,
        now=now,
    )


async def delete_entry(tx: Transaction, owner: Owner, key: str) -> bool:
    """Remove one key; False when there was none."""
    return (await tx.run(queries.delete_entry, owner_kind=owner.kind, owner_id=owner.owner_id, key=key)) == 1


async def delete_entries(tx: Transaction, owner: Owner) -> int:
    """Remove every key of an owner; how many there were."""
    return await tx.run(queries.delete_entries, owner_kind=owner.kind, owner_id=owner.owner_id)


async def close_owner(tx: Transaction, owner: Owner, *, now: datetime) -> None:
    """Refuse later writes for this owner."""
    await tx.run(
        queries.close_owner,
        owner_kind=owner.kind,
        owner_id=owner.owner_id,
        user_id=tx.identity.user_id,
        now=now,
    )


async def delete_expired(tx: Transaction, *, now: datetime, limit: int) -> int:
    """Remove some keys that have expired; how many."""
    return await tx.run(queries.delete_expired, now=now, limit=limit)


async def delete_idle_owners(tx: Transaction, *, before: datetime, limit: int) -> int:
    """Forget some owners without keys that were last written to before that; how many."""
    return await tx.run(queries.delete_idle_owners, before=before, limit=limit)
