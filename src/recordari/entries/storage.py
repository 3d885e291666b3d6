"""Rows of entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    """Create or replace an entry; None when it is not at version `if_version`."""
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
    await tx.run(queries.link_item, entry_id=entry_id, item_id=item_id)


async def find_entry(tx: Transaction, name: EntryName, *, now: datetime) -> Entry | None:
    return await tx.maybe(queries.find_entry, Entry, **_named(name), now=now)


async def refresh_entries(tx: Transaction, entry_ids: Sequence[UUID], *, now: datetime) -> None:
    await tx.run(queries.refresh_entries, entry_ids=list(entry_ids), now=now)


async def delete_entries(tx: Transaction, entry_ids: Sequence[UUID]) -> None:
    """Delete entries with their items; `Conflict` while an action holds one."""
    with _unless_held():
        await tx.run(queries.delete_entries, entry_ids=list(entry_ids))


async def delete_item(tx: Transaction, item_id: UUID) -> None:
    """Delete the item of an entry; `Conflict` while an action holds it."""
    with _unless_held():
        await tx.run(queries.delete_item, item_id=item_id)


@contextmanager
def _unless_held() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.ForeignKeyViolation:
        raise Conflict("an action rests on this memory; release the hold first") from None


async def expired_entries(tx: Transaction, *, now: datetime, limit: int) -> list[UUID]:
    return [row["entry_id"] for row in await tx.dicts(queries.expired_entries, now=now, limit=limit)]


async def find_entries(
    tx: Transaction,
    name: EntryName,
    *,
    condition: tuple[str, Mapping[str, Any]],
    question: tuple[Sequence[str], np.ndarray | None, str] | None,
    offset: int,
    limit: int,
    now: datetime,
) -> list[FoundEntry]:
    """Find entries below a namespace by a filter; with a question (terms, vector, model) the best answers first."""
    path, values = condition
    arguments = {
        **_named(name),
        "path_end": name.path + "\U0010ffff",
        "filter": path,
        "values": Jsonb(dict(values)),
        "offset": offset,
        "limit": limit,
        "now": now,
    }
    del arguments["key"]
    if question is None:
        return await tx.all(queries.list_entries, FoundEntry, **arguments)
    terms, vector, model_id = question
    return await tx.all(
        queries.search_entries,
        FoundEntry,
        **arguments,
        queries=[tsquery_literal([term]) for term in terms],
        vector=HalfVector(NO_VECTOR if vector is None else vector),
        model_id=model_id,
    )


async def list_namespaces(tx: Transaction, name: EntryName, *, now: datetime) -> list[tuple[str, ...]]:
    rows = await tx.dicts(queries.list_namespaces, scope=name.scope, owner_id=name.owner_id, now=now)
    return [tuple(row["namespace"]) for row in rows]
