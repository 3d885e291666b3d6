"""A revision of a document: made ready with no transaction open, then written in one (K1).

Recall never sees half of a revision. A chunk whose words and place have not changed keeps its row, and with it its vector.
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
from recordari.knowledge.reading.reader import BINARY
from recordari.knowledge.rules.chunks import SEPARATOR, Chunk, context_of
from recordari.knowledge.rules.knowledge_map import Source
from recordari.knowledge.storage import ChunkPlace, CurrentRevision, DocumentRow, KeptChunk, Original
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC
from recordari.memory.objects import Objects
from recordari.memory.remember import OBJECT_BYTES, make_ready
from recordari.memory.storage import Row

AT_ONCE = 500  # chunks made ready or written together


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenDocument:
    """A document as it was handed in, checked."""

    name: str
    body: bytes
    media_type: str
    said_type: str | None
    metadata: dict[str, Any]
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDocument:
    """A document read, cut and cleaned: only its revision is missing."""

    given: GivenDocument
    title: str
    metadata: dict[str, Any]
    chunks: tuple[Chunk, ...]
    pages: int | None
    masked: Counter[str]

    def context(self, chunk: Chunk) -> str:
        """The line that is found and embedded with a chunk."""
        return context_of(self.title, chunk.heading)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision ready to be written: only the transaction is missing."""

    document_id: UUID
    number: int
    source: Source
    before: int
    """How many chunks the revision before it has."""
    matched: Mapping[int, KeptChunk]
    """Chunks that are here already, by their place."""
    ended: Sequence[UUID]
    rows: Mapping[int, Row]
    original: Original


async def prepare_revision(
    resources: Resources,
    identity: Identity,
    source: Source,
    standing: CurrentRevision | None,
    read: ReadDocument,
    progress: Progress | None,
) -> Revision:
    """Do everything that needs no transaction: find what is here already, make the rest ready, store the file."""
    document_id = standing.document_id if standing is not None else new_id()
    number = standing.revision + 1 if standing is not None else 1
    here: list[KeptChunk] = []
    if standing is not None:
        async with resources.database.transaction(identity) as tx:
            here = await storage.list_kept(tx, document_id)
    matched, ended = _matched(read, here)
    return Revision(
        document_id=document_id,
        number=number,
        source=source,
        before=standing.chunks if standing is not None else 0,
        matched=matched,
        ended=ended,
        rows=await _rows(resources, identity, read, matched, source, f"{document_id}:{number}", progress),
        original=await _original(resources, identity, read, document_id),
    )


async def write_revision(tx: Transaction, read: ReadDocument, revision: Revision, *, now: datetime) -> int:
    """Write a revision in place of the one before; how many chunks are new."""
    document_id, source_id = revision.document_id, revision.source.source_id
    await storage.end_chunks(tx, revision.ended, now=now)
    added = await _insert(tx, revision.rows)
    held = {**{ordinal: one.item_id for ordinal, one in revision.matched.items()}, **added}
    places, characters = _places(read, held)
    await storage.save_document(tx, _row(read, revision, chunks=len(places), characters=characters, now=now))
    await storage.place_chunks(tx, document_id, places)
    # What was forgotten does not come back with its file, nor what was masked.
    is_whole = len(held) == len(read.chunks) and not read.masked
    await _keep_original(tx, document_id, read.given, revision.original, is_whole=is_whole)
    is_new = revision.number == 1
    await storage.count_change(tx, source_id, documents=1 if is_new else 0, chunks=len(places) - revision.before)
    action = "document.add" if is_new else "document.revise"
    await audit.record(tx, action, "document", document_id, revision=revision.number, chunks=len(places))
    return len(added)


def _matched(read: ReadDocument, here: Sequence[KeptChunk]) -> tuple[dict[int, KeptChunk], list[UUID]]:
    """Which chunks are here already, by their words and their place; and which of those here are no longer wanted."""
    known: dict[tuple[bytes, str | None], list[KeptChunk]] = {}
    for one in here:
        known.setdefault((one.content_hash, one.title), []).append(one)
    matched: dict[int, KeptChunk] = {}
    for ordinal, chunk in enumerate(read.chunks):
        key = hashlib.sha256(chunk.content.encode()).digest(), read.context(chunk)
        if same := known.get(key):
            matched[ordinal] = same.pop(0)
    return matched, [one.item_id for left in known.values() for one in left]


async def _rows(
    resources: Resources,
    identity: Identity,
    read: ReadDocument,
    matched: Mapping[int, KeptChunk],
    source: Source,
    ref: str,
    progress: Progress | None,
) -> dict[int, Row]:
    """The chunks that are new, ready to be written."""
    owner = replace(identity, user_id=None, agent_id=None, session_id=None, run_id=None)  # nobody's but the tenant's
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
    """The file where it will be kept: large or binary ones in the object store, before any transaction is open (S4)."""
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
    """Write new chunks; those that were forgotten before are left out by the database."""
    added: dict[int, UUID] = {}
    ordinals = list(rows)
    for start in range(0, len(ordinals), AT_ONCE):
        some = ordinals[start : start + AT_ONCE]
        inserted = await memory_storage.insert_items(tx, [rows[ordinal] for ordinal in some], topic=EMBED_TOPIC)
        added |= {ordinal: rows[ordinal].item_id for ordinal in some if rows[ordinal].item_id in inserted}
    return added


def _places(read: ReadDocument, held: Mapping[int, UUID]) -> tuple[list[ChunkPlace], int]:
    """Where each chunk stands; and how many characters the document has."""
    places: list[ChunkPlace] = []
    first = 0
    for number, ordinal in enumerate(sorted(held)):
        chunk = read.chunks[ordinal]
        past = first + len(chunk.content)
        places.append(
            ChunkPlace(
                ordinal=number,
                item_id=held[ordinal],
                heading=chunk.heading,
                page=chunk.page,
                first=first,
                past=past,
            )
        )
        first = past + len(SEPARATOR)
    return places, max(0, first - len(SEPARATOR))


def _row(read: ReadDocument, revision: Revision, *, chunks: int, characters: int, now: datetime) -> DocumentRow:
    return DocumentRow(
        document_id=revision.document_id,
        source_id=revision.source.source_id,
        name=read.given.name,
        title=read.title,
        media_type=read.given.media_type,
        revision=revision.number,
        sha256=read.given.sha256,
        bytes=len(read.given.body),
        characters=characters,
        chunks=chunks,
        pages=read.pages,
        metadata=read.metadata,
        now=now,
    )
