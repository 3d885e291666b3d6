"""Rows of sources: what can be looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.db.database import Asked, Record, Transaction
from recordari.db.queries import Queries
from recordari.domain.knowledge import Entry, Source, SourceKind

queries = Queries(__name__)


async def insert_source(
    tx: Transaction,
    source_id: UUID,
    *,
    name: str,
    kind: SourceKind,
    description: str = "",
    tool: str | None = None,
    folder: str | None = None,
) -> Source | None:
    """Register a source; None when its name is taken."""
    return _read(
        await tx.dicts(
            queries.insert_source,
            source_id=source_id,
            name=name,
            kind=kind,
            description=description,
            tool=tool,
            folder=folder,
        )
    )


async def update_source(
    tx: Transaction, source_id: UUID, *, name: str | None, description: str | None, tool: str | None
) -> Source | None:
    """Say something else of a source; what is None stays."""
    return _read(
        await tx.dicts(queries.update_source, source_id=source_id, name=name, description=description, tool=tool)
    )


async def find_source(tx: Transaction, source_id: UUID) -> Source | None:
    """One source."""
    return _read(await tx.dicts(queries.find_source, source_id=source_id))


async def find_source_by_name(tx: Transaction, name: str) -> Source | None:
    """The source of that name."""
    return _read(await tx.dicts(queries.find_source_by_name, name=name))


async def list_sources(tx: Transaction, *, after: str, limit: int) -> list[Source]:
    """Sources by name."""
    return [_source(row) for row in await tx.dicts(queries.list_sources, after=after, limit=limit)]


async def list_entries(tx: Transaction) -> list[Entry]:
    """What the map says of every source."""
    return _entries(await tx.dicts(queries.list_entries))


def ask_entries() -> Asked[list[Entry]]:
    """The same, sent along with others."""
    return Asked(queries.list_entries, _entries)


async def count_change(tx: Transaction, source_id: UUID, *, documents: int, chunks: int) -> None:
    """Note that a source has so many documents and chunks more."""
    await tx.run(queries.count_change, source_id=source_id, documents=documents, chunks=chunks)


async def save_sync(tx: Transaction, source_id: UUID, sync: dict[str, Any]) -> None:
    """Note how far a synchronisation has come."""
    await tx.run(queries.save_sync, source_id=source_id, sync=Jsonb(sync))


async def delete_source(tx: Transaction, source_id: UUID) -> bool:
    """Remove a source without documents; False when there is none of that id."""
    return await tx.run(queries.delete_source, source_id=source_id) == 1


def _entries(rows: Sequence[Record]) -> list[Entry]:
    return [Entry(**{**row, "kind": SourceKind(row["kind"])}) for row in rows]


def _read(rows: list[dict[str, Any]]) -> Source | None:
    return _source(rows[0]) if rows else None


def _source(row: dict[str, Any]) -> Source:
    return Source(**{**row, "kind": SourceKind(row["kind"])})
