"""Rows of entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from pgvector import HalfVector
from psycopg.types.json import Jsonb

from recordari.core.text import tsquery_literal
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.entries.rules import Entry, EntryName, FoundEntry
from recordari.errors import Conflict
from recordari.recall.storage import NO_VECTOR

queries = Queries(__name__)


def _named(name: EntryName) -> dict[str, Any]:
    return {"scope": name.scope, "owner_id": name.owner_id, "path": name.path, "key": name.key}


async def lock_entry(tx: Transaction, name: EntryName) -> Entry | None:
    """One entry, expired or not, that only this transaction changes."""
    return await tx.maybe(queries.lock_entry, Entry, **_named(name))


async def save_entry(
    tx: Transaction,
    name: EntryName,
    entry_id: UUID,
    text: str,
    *,
    ttl: timedelta | None,
    if_version: int | None,
    now: datetime,
) -> Entry | None:
    """Create an entry or give it another value; None when it is not at the version named."""
    return await tx.maybe(
        queries.save_entry,
        Entry,
        **_named(name),
        entry_id=entry_id,
        namespace=list(name.namespace),
        value=text,
        ttl_seconds=int(ttl.total_seconds()) if ttl is not None else None,
        expires_at=now + ttl if ttl is not None else None,
        if_version=if_version,
        now=now,
    )


async def link_item(tx: Transaction, entry_id: UUID, item_id: UUID | None) -> None:
    """Note what recall finds of an entry."""
    await tx.run(queries.link_item, entry_id=entry_id, item_id=item_id)


async def find_entry(tx: Transaction, name: EntryName, *, now: datetime) -> Entry | None:
    """One entry that has not expired."""
    return await tx.maybe(queries.find_entry, Entry, **_named(name), now=now)


async def refresh_entries(tx: Transaction, entry_ids: Sequence[UUID], *, now: datetime) -> None:
    """Let entries that were read live on for their whole time."""
    await tx.run(queries.refresh_entries, entry_ids=list(entry_ids), now=now)


async def delete_entries(tx: Transaction, entry_ids: Sequence[UUID]) -> None:
    """Remove entries and what recall finds of them; `Conflict` while an action rests on one."""
    try:
        await tx.run(queries.delete_entries, entry_ids=list(entry_ids))
    except psycopg.errors.ForeignKeyViolation:
        raise Conflict("an action rests on this memory; release the hold first") from None


async def delete_item(tx: Transaction, item_id: UUID) -> None:
    """Remove what recall finds of an entry that is not indexed any more."""
    await tx.run(queries.delete_item, item_id=item_id)


async def expired_entries(tx: Transaction, *, now: datetime, limit: int) -> list[UUID]:
    """Some entries whose time has passed."""
    return [row["entry_id"] for row in await tx.dicts(queries.expired_entries, now=now, limit=limit)]


async def find_entries(
    tx: Transaction,
    name: EntryName,
    *,
    fitting: tuple[str, Mapping[str, Any]],
    asked: tuple[Sequence[str], np.ndarray | None, str] | None,
    offset: int,
    limit: int,
    now: datetime,
) -> list[FoundEntry]:
    """Entries below a namespace that fit a filter; with a question (its terms, vector and model) the best answers first."""
    path, values = fitting
    given = {
        **_named(name),
        "path_end": name.path + "\U0010ffff",
        "filter": path,
        "values": Jsonb(dict(values)),
        "offset": offset,
        "limit": limit,
        "now": now,
    }
    given.pop("key")
    if asked is None:
        return await tx.all(queries.list_entries, FoundEntry, **given)
    terms, vector, model_id = asked
    return await tx.all(
        queries.search_entries,
        FoundEntry,
        **given,
        queries=[tsquery_literal([term]) for term in terms],
        vector=HalfVector(NO_VECTOR if vector is None else vector),
        model_id=model_id,
    )


async def list_namespaces(tx: Transaction, name: EntryName, *, now: datetime) -> list[tuple[str, ...]]:
    """The namespaces of an owner that have entries, in order."""
    rows = await tx.dicts(queries.list_namespaces, scope=name.scope, owner_id=name.owner_id, now=now)
    return [tuple(row["namespace"]) for row in rows]
