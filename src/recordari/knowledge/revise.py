"""A revision of a document: prepared with no transaction open, then written in one (K1).

Recall never sees half of a revision. A chunk whose text and headings have not changed keeps its row and its vector.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from recordari.core.checks import Progress
from recordari.core.identity import Identity, Scope
from recordari.core.ids import new_id
from recordari.core.items import Kind, NewItem
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.kit.resources import Resources
from recordari.knowledge import storage
from recordari.knowledge.reader import BINARY
from recordari.knowledge.rules.chunks import SEPARATOR, Chunk, DocumentChunk, context_of
from recordari.knowledge.rules.knowledge_map import Source
from recordari.knowledge.storage import CurrentRevision, KeptChunk, Original
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC
from recordari.memory.objects import Objects
from recordari.memory.remember import OBJECT_BYTES, make_ready, save_names
from recordari.memory.storage import Row

AT_ONCE = 500  # chunks prepared or written together


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenDocument:
    """A document as its sender gave it, checked."""

    name: str
    body: bytes
    media_type: str
    declared_type: str | None
    """The media type with its charset, as the sender gave it."""
    metadata: dict[str, Any]
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDocument:
    """A document that is read, cut into chunks and masked."""

    given: GivenDocument
    title: str
    metadata: dict[str, Any]
    chunks: tuple[Chunk, ...]
    pages: int | None
    masked: Counter[str]

    def context(self, chunk: Chunk) -> str:
        """The path that is embedded and searched with a chunk."""
        return context_of(self.title, chunk.heading)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision that is ready to be written."""

    document_id: UUID
    number: int
    source: Source
    before: int
    """The number of chunks of the revision before it."""
    matched: Mapping[int, KeptChunk]
    """Chunks that are stored already, by position."""
    ended: Sequence[UUID]
    rows: Mapping[int, Row]
    original: Original


async def prepare_revision(
    resources: Resources,
    identity: Identity,
    source: Source,
    current: CurrentRevision | None,
    read: ReadDocument,
    progress: Progress | None,
) -> Revision:
    """Do everything that needs no transaction: match stored chunks, prepare the new ones, store a large file."""
    document_id = current.document_id if current is not None else new_id()
    number = current.revision + 1 if current is not None else 1
    stored: list[KeptChunk] = []
    if current is not None:
        async with resources.database.transaction(identity) as tx:
            stored = await storage.list_kept(tx, document_id)
    matched, ended = _matched(read, stored)
    return Revision(
        document_id=document_id,
        number=number,
        source=source,
        before=current.chunks if current is not None else 0,
        matched=matched,
        ended=ended,
        rows=await _rows(resources, identity, read, matched, source, f"{document_id}:{number}", progress),
        original=await _original(resources, identity, read, document_id),
    )


async def write_revision(tx: Transaction, read: ReadDocument, revision: Revision, *, now: datetime) -> int:
    """Write a revision in place of the one before, and return the number of new chunks."""
    document_id, source_id = revision.document_id, revision.source.source_id
    await storage.end_chunks(tx, revision.ended, now=now)
    added = await _insert(tx, revision.rows)
    chunks = _chunks(read, added | {ordinal: chunk.item_id for ordinal, chunk in revision.matched.items()})
    await storage.save_document(
        tx,
        document_id=document_id,
        source_id=source_id,
        name=read.given.name,
        title=read.title,
        media_type=read.given.media_type,
        revision=revision.number,
        sha256=read.given.sha256,
        bytes=len(read.given.body),
        characters=chunks[-1].past if chunks else 0,
        chunks=len(chunks),
        pages=read.pages,
        metadata=read.metadata,
        now=now,
    )
    await storage.place_chunks(tx, document_id, chunks)
    # The file would bring back text that was forgotten or masked.
    is_whole = len(chunks) == len(read.chunks) and not read.masked
    await _keep_original(tx, document_id, read.given, revision.original, is_whole=is_whole)
    is_new = revision.number == 1
    await storage.count_change(tx, source_id, documents=1 if is_new else 0, chunks=len(chunks) - revision.before)
    action = "document.add" if is_new else "document.revise"
    await audit.record(tx, action, "document", document_id, revision=revision.number, chunks=len(chunks))
    return len(added)


def _matched(read: ReadDocument, stored: Sequence[KeptChunk]) -> tuple[dict[int, KeptChunk], list[UUID]]:
    """Match chunks with stored ones by text and headings. The second result are stored chunks without a match."""
    known: dict[tuple[bytes, str | None], list[KeptChunk]] = {}
    for chunk in stored:
        known.setdefault((chunk.content_hash, chunk.title), []).append(chunk)
    matched: dict[int, KeptChunk] = {}
    for ordinal, new in enumerate(read.chunks):
        key = hashlib.sha256(new.content.encode()).digest(), read.context(new)
        if same := known.get(key):
            matched[ordinal] = same.pop(0)
    return matched, [chunk.item_id for unmatched in known.values() for chunk in unmatched]


async def _rows(
    resources: Resources,
    identity: Identity,
    read: ReadDocument,
    matched: Mapping[int, KeptChunk],
    source: Source,
    ref: str,
    progress: Progress | None,
) -> dict[int, Row]:
    owner = replace(identity, user_id=None, agent_id=None, session_id=None, run_id=None)  # chunks belong to the tenant
    fresh = [ordinal for ordinal in range(len(read.chunks)) if ordinal not in matched]
    rows: dict[int, Row] = {}
    for start in range(0, len(fresh), AT_ONCE):
        ordinals = fresh[start : start + AT_ONCE]
        news = [
            NewItem(
                content=read.chunks[ordinal].content,
                kind=Kind.DOCUMENT_CHUNK,
                scope=Scope.TENANT,
                source_ref=f"document:{ref}:{ordinal}",
                metadata=_about(read, read.chunks[ordinal]),
            )
            for ordinal in ordinals
        ]
        ready = await make_ready(resources, owner, news)
        rows |= {
            ordinal: replace(row, source_id=source.source_id) for ordinal, row in zip(ordinals, ready.rows, strict=True)
        }
        if progress is not None:
            progress(len(rows), len(fresh))
    return rows


def _about(read: ReadDocument, chunk: Chunk) -> dict[str, Any]:
    about: dict[str, Any] = {"title": read.context(chunk), "document": read.given.name}
    return about if chunk.page is None else {**about, "page": chunk.page}


async def _original(resources: Resources, identity: Identity, read: ReadDocument, document_id: UUID) -> Original:
    """Put a large or binary file into the object store, before any transaction is open (S4)."""
    given = read.given
    if read.masked or (given.media_type not in BINARY and len(given.body) <= OBJECT_BYTES):
        return Original(media_type=given.media_type, body=None if read.masked else given.body, object_key=None)
    owner = f"{identity.tenant_id}/{storage.payload_key_of(document_id)}"
    return Original(
        media_type=given.media_type, body=None, object_key=await resources.get(Objects).put(given.body, owner=owner)
    )


async def _keep_original(
    tx: Transaction, document_id: UUID, given: GivenDocument, original: Original, *, is_whole: bool
) -> None:
    if not is_whole:
        await storage.delete_original(tx, document_id)
        await memory_storage.discard_object(tx, original.object_key)
        return
    await storage.save_original(
        tx,
        document_id,
        media_type=given.media_type,
        size=len(given.body),
        sha256=hashlib.sha256(given.body).digest(),
        original=original,
    )


async def _insert(tx: Transaction, rows: Mapping[int, Row]) -> dict[int, UUID]:
    """Write new chunks. The database leaves out those that were forgotten before."""
    added: dict[int, UUID] = {}
    ordinals = list(rows)
    for start in range(0, len(ordinals), AT_ONCE):
        batch = ordinals[start : start + AT_ONCE]
        chunks = [rows[ordinal] for ordinal in batch]
        inserted = await memory_storage.insert_items(tx, chunks, topic=EMBED_TOPIC)
        await save_names(tx, chunks, inserted, [row.item_id for row in chunks])
        added |= {ordinal: rows[ordinal].item_id for ordinal in batch if rows[ordinal].item_id in inserted}
    return added


def _chunks(read: ReadDocument, item_ids: Mapping[int, UUID]) -> list[DocumentChunk]:
    """The chunks that have an item, each with its position in the text."""
    chunks: list[DocumentChunk] = []
    first = 0
    for ordinal in sorted(item_ids):
        chunk = read.chunks[ordinal]
        past = first + len(chunk.content)
        chunks.append(
            DocumentChunk(
                ordinal=len(chunks),
                item_id=item_ids[ordinal],
                heading=chunk.heading,
                page=chunk.page,
                first=first,
                past=past,
                content=chunk.content,
            )
        )
        first = past + len(SEPARATOR)
    return chunks
