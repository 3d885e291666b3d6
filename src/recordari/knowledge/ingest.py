"""Adds a document, or its next revision (K1).

A process of its own reads the file, its text is cut into chunks and masked, and one transaction replaces the last revision
(`revise`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from recordari.core.checks import Progress, json_text
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.core.ids import new_id
from recordari.core.items import Kind, NewItem
from recordari.errors import Conflict, InvalidInput, NotFound, TooLarge
from recordari.kit.resources import Resources
from recordari.knowledge import storage
from recordari.knowledge.documents import get_document
from recordari.knowledge.reader import (
    IMAGES,
    ExtractedDocument,
    Extractor,
    ReadingLimits,
    media_type_of,
    recognises_text,
)
from recordari.knowledge.revise import GivenDocument, ReadDocument, prepare_revision, write_revision
from recordari.knowledge.rules.chunks import Chunk, Document, chunked, title_of
from recordari.knowledge.rules.knowledge_map import Source, SourceKind, checked_text
from recordari.knowledge.rules.markup import blocks_of_text
from recordari.knowledge.sources import DEFAULT_SOURCE, NO_SUCH_SOURCE
from recordari.knowledge.storage import CurrentRevision
from recordari.lifetime import forget
from recordari.memory.index import EMBED_TOPIC
from recordari.privacy.sanitise import sanitise_items
from recordari.tenants.tenants import require_admin

READING = "3"  # version of reading and chunking; another one makes a new revision of the same file
MAX_NAME = 400
MAX_TITLE = 300
TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedDocument:
    """The result of adding a document."""

    __pydantic_config__ = DESCRIBED

    document: Document
    was_new: bool
    changed: bool
    """False: the same file is stored already, and nothing was done."""
    chunks_added: int = 0
    chunks_kept: int = 0
    chunks_ended: int = 0
    masked: Mapping[str, int] = field(default_factory=dict)
    """How often each type of personal data and secrets was masked."""


async def add_document(
    resources: Resources,
    identity: Identity,
    name: str,
    data: bytes | None = None,
    *,
    text: str | None = None,
    media_type: str | None = None,
    source: str | UUID | None = None,
    metadata: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> AddedDocument:
    """Add a document, or its next revision; the same file again changes nothing.

    `name` is its key within its source. `source` is the name or id of that source, by default `documents`. `title` in
    `metadata` is the title of the document, and `caption` says what an image shows. `progress` counts pages while the
    file is read, then chunks while they are prepared.
    """
    require_admin(identity)
    given = _checked(resources, name, *file_of(name, data, text, media_type), dict(metadata or {}))
    target, current = await _find(resources, identity, source, given.name)
    if current is not None and current.sha256 == given.sha256:
        document = await get_document(resources, identity, current.document_id)
        return AddedDocument(document=document, was_new=False, changed=False, chunks_kept=current.chunks)
    read = await _read(resources, identity, given, progress)
    for attempt in range(TRIES):
        try:
            return await _save(resources, identity, target, current, read, progress)
        except Conflict:
            # Another revision came first: this one follows it.
            if attempt == TRIES - 1:
                raise
            target, current = await _find(resources, identity, target.source_id, given.name)
    raise AssertionError("unreachable")


def file_of(name: str, data: bytes | None, text: str | None, media_type: str | None) -> tuple[bytes, str | None]:
    """The bytes of a document that is given as a file or as text, and its media type if that is known."""
    if data is not None and text is None:
        return data, media_type
    if text is not None and data is None:
        return text.encode(errors="surrogatepass"), media_type or ("text/plain" if "." not in name else None)
    raise InvalidInput("give the document's file as `data`, or its text as `text`")


def _checked(
    resources: Resources, name: str, body: bytes, declared_type: str | None, metadata: dict[str, Any]
) -> GivenDocument:
    name = checked_text("name", name, most=MAX_NAME, least=1)
    json_text(metadata, field="metadata")
    check_bytes(len(body), resources.settings.document_max_bytes)
    if not body.strip():
        raise InvalidInput("the document is empty")
    media_type = media_type_of(name, body, declared_type)
    digest = hashlib.sha256()
    for part in (READING, media_type, json.dumps(metadata, sort_keys=True, default=str)):
        digest.update(part.encode(errors="surrogatepass") + b"\x00")
    digest.update(body)
    return GivenDocument(
        name=name,
        body=body,
        media_type=media_type,
        declared_type=declared_type,
        metadata=metadata,
        sha256=digest.digest(),
    )


def check_bytes(size: int, most: int) -> None:
    """Raise `TooLarge` for a document with more than `most` bytes."""
    if size > most:
        raise TooLarge(f"a document may have at most {most:,} bytes; split it")


async def _find(
    resources: Resources, identity: Identity, named: str | UUID | None, name: str
) -> tuple[Source, CurrentRevision | None]:
    """The source, and the current revision of the document in it."""
    async with resources.database.transaction(identity) as tx:
        source = await storage.find_source(tx, named if named is not None else DEFAULT_SOURCE)
        if source is None and named in {None, DEFAULT_SOURCE}:
            await storage.insert_source(tx, new_id(), name=DEFAULT_SOURCE, kind=SourceKind.DOCUMENTS)
            source = await storage.find_source(tx, DEFAULT_SOURCE)
        if source is None:
            raise NotFound(NO_SUCH_SOURCE)
        if source.kind is not SourceKind.DOCUMENTS:
            raise InvalidInput("this source holds no documents; name one that does", field="source")
        return source, await storage.find_current(tx, source.source_id, name)


async def _read(
    resources: Resources, identity: Identity, given: GivenDocument, progress: Progress | None
) -> ReadDocument:
    """Read the file, cut it into chunks, and mask what the tenant does not want stored."""
    extracted = ExtractedDocument(blocks=())
    is_image = given.media_type in IMAGES.values()
    if not is_image or recognises_text():
        extracted = await resources.get(Extractor).extract(
            given.body,
            given.media_type,
            tenant_id=identity.tenant_id,
            charset=given.declared_type,
            limits=ReadingLimits(),
            progress=progress,
        )
    if is_image:
        extracted = _captioned(given, extracted)
    title, chunks = await asyncio.to_thread(_cut, extracted, given)
    if not chunks:
        raise InvalidInput(
            "no text was found in this document; if it is a scan, install text recognition (docs/knowledge.md)"
        )
    news = [NewItem(content=title, kind=Kind.DOCUMENT_CHUNK, metadata=given.metadata)]
    news += [
        NewItem(content=chunk.content, kind=Kind.DOCUMENT_CHUNK, metadata={"heading": list(chunk.heading)})
        for chunk in chunks
    ]
    clean = await sanitise_items(resources, identity, news)
    about, *texts = (item.new for item in clean)
    masked: Counter[str] = Counter()
    for item in clean:
        masked.update(item.masked)
    return ReadDocument(
        given=given,
        title=about.content,
        metadata=about.metadata,
        chunks=tuple(
            replace(chunk, content=new.content, heading=tuple(new.metadata["heading"]))
            for chunk, new in zip(chunks, texts, strict=True)
            if new.content.strip()
        ),
        pages=extracted.pages,
        masked=masked,
    )


def _captioned(given: GivenDocument, seen: ExtractedDocument) -> ExtractedDocument:
    """An image as its caption, and the text in it where that was recognised."""
    caption = given.metadata.get("caption")
    blocks = blocks_of_text(caption) if isinstance(caption, str) else []
    if not blocks and not seen.blocks:
        raise InvalidInput("an image is found by its caption; send one as `caption` in its metadata", field="metadata")
    return ExtractedDocument(blocks=(*blocks, *seen.blocks))


def _cut(extracted: ExtractedDocument, given: GivenDocument) -> tuple[str, list[Chunk]]:
    title = given.metadata.get("title")
    if not isinstance(title, str) or not title.strip():
        title = title_of(extracted.blocks, given.name)
    return " ".join(title.split())[:MAX_TITLE], chunked(extracted.blocks)


async def _save(
    resources: Resources,
    identity: Identity,
    source: Source,
    current: CurrentRevision | None,
    read: ReadDocument,
    progress: Progress | None,
) -> AddedDocument:
    """Replace the last revision by this one; `Conflict` if another came first."""
    revision = await prepare_revision(resources, identity, source, current, read, progress)
    async with resources.database.transaction(identity) as tx:
        locked = await storage.find_current(tx, source.source_id, read.given.name, lock=True)
        if (locked.revision if locked else 0) != revision.number - 1:
            raise Conflict("another revision of this document came first; read it and send yours again")
        added = await write_revision(tx, read, revision, now=resources.clock())
    resources.wake(EMBED_TOPIC)
    resources.forget_tenant(identity.tenant_id)
    await forget.remove_discarded(resources, identity)
    return AddedDocument(
        document=await get_document(resources, identity, revision.document_id),
        was_new=current is None,
        changed=True,
        chunks_added=added,
        chunks_kept=len(revision.matched),
        chunks_ended=len(revision.ended),
        masked=dict(read.masked),
    )
