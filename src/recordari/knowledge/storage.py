"""Rows of documents and sources: revisions, positions of chunks, files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.ids import FIRST
from recordari.db.database import BatchedQuery, Transaction
from recordari.db.queries import Queries, reader
from recordari.knowledge.rules.chunks import Document, DocumentChunk
from recordari.knowledge.rules.knowledge_map import MapEntry, Source, SourceKind
from recordari.recall.request import Citation

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRevision:
    document_id: UUID
    revision: int
    sha256: bytes
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptChunk:
    item_id: UUID
    content_hash: bytes
    title: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A file, in the row or in the object store."""

    media_type: str
    body: bytes | None
    object_key: str | None


def thread_of(document_id: UUID) -> str:
    """The thread that the chunks of a document belong to, in order."""
    return f"document:{document_id}"


def payload_key_of(document_id: UUID) -> str:
    return "doc_" + hashlib.sha256(document_id.bytes).hexdigest()[:32]


async def find_document(tx: Transaction, document_id: UUID) -> Document | None:
    return await tx.maybe(queries.find_document, Document, document_id=document_id)


async def list_documents(tx: Transaction, *, source_id: UUID | None, after: UUID | None, limit: int) -> list[Document]:
    return await tx.all(queries.list_documents, Document, source_id=source_id, after=after or FIRST, limit=limit)


async def find_current(tx: Transaction, source_id: UUID, name: str, *, lock: bool = False) -> CurrentRevision | None:
    query = queries.lock_current if lock else queries.find_current
    return await tx.maybe(query, CurrentRevision, source_id=source_id, name=name)


async def list_names(tx: Transaction, source_id: UUID) -> dict[str, UUID]:
    return {row["name"]: row["document_id"] for row in await tx.dicts(queries.list_names, source_id=source_id)}


async def save_document(tx: Transaction, *, metadata: dict[str, Any], **columns: Any) -> None:
    await tx.run(queries.save_document, metadata=Jsonb(metadata), **columns)


async def list_kept(tx: Transaction, document_id: UUID) -> list[KeptChunk]:
    return await tx.all(queries.list_kept, KeptChunk, document_id=document_id)


async def end_chunks(tx: Transaction, item_ids: Sequence[UUID], *, now: datetime) -> None:
    if item_ids:
        await tx.run(queries.end_chunks, item_ids=list(item_ids), now=now)


async def place_chunks(tx: Transaction, document_id: UUID, chunks: Sequence[DocumentChunk]) -> None:
    """Replace the positions of the last revision's chunks by those of this one."""
    await tx.run(queries.clear_chunks, document_id=document_id)
    await tx.run(
        queries.insert_chunks,
        document_id=document_id,
        thread=thread_of(document_id),
        ordinals=[chunk.ordinal for chunk in chunks],
        item_ids=[chunk.item_id for chunk in chunks],
        headings=[Jsonb(chunk.heading) for chunk in chunks],
        pages=[chunk.page for chunk in chunks],
        firsts=[chunk.first for chunk in chunks],
        pasts=[chunk.past for chunk in chunks],
    )


async def save_original(
    tx: Transaction, document_id: UUID, *, media_type: str, size: int, sha256: bytes, original: Original
) -> None:
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
    await tx.run(queries.delete_original, document_id=document_id)


async def find_original(tx: Transaction, document_id: UUID) -> Original | None:
    return await tx.maybe(queries.find_original, Original, document_id=document_id)


async def read_chunks(tx: Transaction, document_id: UUID, *, first: int, limit: int) -> list[DocumentChunk]:
    return await tx.all(queries.read_chunks, DocumentChunk, document_id=document_id, first=first, limit=limit)


async def citations(tx: Transaction, item_ids: Sequence[UUID]) -> dict[UUID, Citation]:
    rows = await tx.dicts(queries.citations, item_ids=list(item_ids))
    return {row.pop("item_id"): Citation(**{**row, "heading": tuple(row["heading"])}) for row in rows}


async def delete_document(tx: Transaction, document_id: UUID, *, now: datetime) -> int | None:
    """Remove a document and return the number of its chunks, or None if there is no such document."""
    chunks: int | None = await tx.value(queries.delete_document, document_id=document_id, now=now)
    return chunks


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
    """Register a source; None if its name is taken."""
    return await tx.maybe(
        queries.insert_source,
        Source,
        source_id=source_id,
        name=name,
        kind=kind,
        description=description,
        tool=tool,
        folder=folder,
    )


async def update_source(
    tx: Transaction, source_id: UUID, *, name: str | None, description: str | None, tool: str | None
) -> Source | None:
    return await tx.maybe(
        queries.update_source, Source, source_id=source_id, name=name, description=description, tool=tool
    )


async def find_source(tx: Transaction, source: UUID | str) -> Source | None:
    """The source of that id or name."""
    if isinstance(source, UUID):
        return await tx.maybe(queries.find_source, Source, source_id=source)
    return await tx.maybe(queries.find_source_by_name, Source, name=source)


async def list_sources(tx: Transaction, *, after: str, limit: int) -> list[Source]:
    return await tx.all(queries.list_sources, Source, after=after, limit=limit)


async def list_entries(tx: Transaction) -> list[MapEntry]:
    return await tx.all(queries.list_entries, MapEntry)


def ask_entries() -> BatchedQuery[list[MapEntry]]:
    """The same as part of a batch."""
    return BatchedQuery(queries.list_entries, lambda rows: [reader(MapEntry)(**row) for row in rows])


async def count_change(tx: Transaction, source_id: UUID, *, documents: int, chunks: int) -> None:
    """Add to the counts of a source; negative numbers take away."""
    await tx.run(queries.count_change, source_id=source_id, documents=documents, chunks=chunks)


async def save_sync(tx: Transaction, source_id: UUID, sync: dict[str, Any]) -> None:
    await tx.run(queries.save_sync, source_id=source_id, sync=Jsonb(sync))


async def delete_source(tx: Transaction, source_id: UUID) -> bool:
    """Remove a source without documents; False if there is no such source."""
    return await tx.run(queries.delete_source, source_id=source_id) == 1
