"""Rows of documents: their revisions, the places of their chunks, their files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.ids import FIRST
from recordari.db.database import BatchedQuery, Record, Transaction
from recordari.db.queries import Queries, columns_of
from recordari.knowledge.rules.chunks import Document, DocumentChunk
from recordari.knowledge.rules.knowledge_map import MapEntry, Source, SourceKind
from recordari.recall.request import Citation

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRevision:
    """At which revision a document is, and what it was made from."""

    document_id: UUID
    revision: int
    sha256: bytes
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptChunk:
    """A chunk that is here already."""

    item_id: UUID
    content_hash: bytes
    title: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """A document to write."""

    document_id: UUID
    source_id: UUID
    name: str
    title: str
    media_type: str
    revision: int
    sha256: bytes
    bytes: int
    characters: int
    chunks: int
    pages: int | None
    metadata: dict[str, Any]
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlace:
    """Where a chunk stands in its document."""

    ordinal: int
    item_id: UUID
    heading: Sequence[str]
    page: int | None
    first: int
    past: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A file: in the row, or in the object store."""

    media_type: str
    body: bytes | None
    object_key: str | None


def thread_of(document_id: UUID) -> str:
    """What the chunks of a document stand in line with."""
    return f"document:{document_id}"


def payload_key_of(document_id: UUID) -> str:
    """Under which key a document's file is kept."""
    return "doc_" + hashlib.sha256(document_id.bytes).hexdigest()[:32]


async def find_document(tx: Transaction, document_id: UUID) -> Document | None:
    """One document."""
    return await tx.maybe(queries.find_document, Document, document_id=document_id)


async def list_documents(tx: Transaction, *, source_id: UUID | None, after: UUID | None, limit: int) -> list[Document]:
    """Documents, oldest first."""
    return await tx.all(queries.list_documents, Document, source_id=source_id, after=after or FIRST, limit=limit)


async def find_standing(tx: Transaction, source_id: UUID, name: str, *, lock: bool = False) -> CurrentRevision | None:
    """How the document of that name stands."""
    query = queries.lock_standing if lock else queries.find_standing
    return await tx.maybe(query, CurrentRevision, source_id=source_id, name=name)


async def list_names(tx: Transaction, source_id: UUID) -> dict[str, UUID]:
    """The documents of a source by name."""
    return {row["name"]: row["document_id"] for row in await tx.dicts(queries.list_names, source_id=source_id)}


async def save_document(tx: Transaction, row: DocumentRow) -> None:
    """Write a document at its revision."""
    await tx.run(queries.save_document, **columns_of(row, metadata=Jsonb(row.metadata)))


async def list_kept(tx: Transaction, document_id: UUID) -> list[KeptChunk]:
    """The chunks of the present revision."""
    return await tx.all(queries.list_kept, KeptChunk, document_id=document_id)


async def end_chunks(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime) -> None:
    """Take chunks out of recall that the next revision has no longer."""
    if item_ids:
        await tx.run(queries.end_chunks, item_ids=list(item_ids), now=now)


async def place_chunks(tx: Transaction, document_id: UUID, places: Sequence[ChunkPlace]) -> None:
    """Say where the chunks of the revision stand, instead of those of the one before."""
    await tx.run(queries.clear_chunks, document_id=document_id)
    await tx.run(
        queries.insert_chunks,
        document_id=document_id,
        thread=thread_of(document_id),
        ordinals=[one.ordinal for one in places],
        item_ids=[one.item_id for one in places],
        headings=[Jsonb(list(one.heading)) for one in places],
        pages=[one.page for one in places],
        firsts=[one.first for one in places],
        pasts=[one.past for one in places],
    )


async def save_original(
    tx: Transaction, document_id: UUID, *, media_type: str, size: int, sha256: bytes, original: Original
) -> None:
    """Keep the file of a document."""
    await tx.run(
        queries.save_original,
        document_id=document_id,
        payload_key=payload_key_of(document_id),
        media_type=media_type,
        bytes=size,
        sha256=sha256,
        body=original.body,
        object_key=original.object_key,
    )


async def delete_original(tx: Transaction, document_id: UUID) -> None:
    """Keep the file no longer."""
    await tx.run(queries.delete_original, document_id=document_id)


async def find_original(tx: Transaction, document_id: UUID) -> Original | None:
    """The file of a document, where it is kept."""
    return await tx.maybe(queries.find_original, Original, document_id=document_id)


async def read_chunks(tx: Transaction, document_id: UUID, *, first: int, limit: int) -> list[DocumentChunk]:
    """Chunks of a document in order."""
    rows = await tx.dicts(queries.read_chunks, document_id=document_id, first=first, limit=limit)
    return [DocumentChunk(**{**row, "heading": tuple(row["heading"])}) for row in rows]


async def citations(tx: Transaction, item_ids: Sequence[UUID]) -> dict[UUID, Citation]:
    """Where chunks stand, by item."""
    rows = await tx.dicts(queries.citations, item_ids=list(item_ids))
    return {row.pop("item_id"): Citation(**{**row, "heading": tuple(row["heading"])}) for row in rows}


async def delete_document(tx: Transaction, document_id: UUID, *, now: datetime) -> int | None:
    """Remove a document; how many chunks it had, None when there is none of that id."""
    found: int | None = await tx.value(queries.delete_document, document_id=document_id, now=now)
    return found


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


async def list_entries(tx: Transaction) -> list[MapEntry]:
    """What the map says of every source."""
    return _entries(await tx.dicts(queries.list_entries))


def ask_entries() -> BatchedQuery[list[MapEntry]]:
    """The same, sent along with others."""
    return BatchedQuery(queries.list_entries, _entries)


async def count_change(tx: Transaction, source_id: UUID, *, documents: int, chunks: int) -> None:
    """Note that a source has so many documents and chunks more."""
    await tx.run(queries.count_change, source_id=source_id, documents=documents, chunks=chunks)


async def save_sync(tx: Transaction, source_id: UUID, sync: dict[str, Any]) -> None:
    """Note how far a synchronisation has come."""
    await tx.run(queries.save_sync, source_id=source_id, sync=Jsonb(sync))


async def delete_source(tx: Transaction, source_id: UUID) -> bool:
    """Remove a source without documents; False when there is none of that id."""
    return await tx.run(queries.delete_source, source_id=source_id) == 1


def _entries(rows: Sequence[Record]) -> list[MapEntry]:
    return [MapEntry(**{**row, "kind": SourceKind(row["kind"])}) for row in rows]


def _read(rows: list[dict[str, Any]]) -> Source | None:
    return _source(rows[0]) if rows else None


def _source(row: dict[str, Any]) -> Source:
    return Source(**{**row, "kind": SourceKind(row["kind"])})
