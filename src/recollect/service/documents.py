"""Documents: taken in, revised, read, cited and removed (K1, R5).

Taking one in has three parts: the file is read in a process of its own, its text is cut into chunks and cleaned, and one
transaction replaces the last revision by this one. Recall never sees half of either. A chunk whose words and place have not
changed keeps its row, and with it its vector.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from typing import Any
from uuid import UUID

from recollect.domain.documents import (
    SEPARATOR,
    Chunk,
    Document,
    DocumentChunk,
    chunked,
    context_of,
    title_of,
)
from recollect.domain.identity import Identity, Scope
from recollect.domain.items import Kind, NewItem
from recollect.domain.json_values import json_text
from recollect.domain.knowledge import Source, SourceKind, checked_text
from recollect.domain.questions import fused, parts_of
from recollect.errors import Conflict, InvalidInput, NotFound, TooLarge
from recollect.ids import new_id
from recollect.providers.extraction import BINARY, Extracted, ReadingLimits, media_type_of
from recollect.service import forget
from recollect.service.index import EMBED_TOPIC
from recollect.service.knowledge import DEFAULT_SOURCE, NO_SUCH_SOURCE, find_named
from recollect.service.recall import recall
from recollect.service.recall_request import MAX_TOP_K, RecallAnswer, RecalledItem, RecallRequest
from recollect.service.remember import OBJECT_BYTES, make_ready
from recollect.service.resources import Resources
from recollect.service.sanitise import sanitise_items
from recollect.service.tenants import MAX_PAGE, require_admin
from recollect.storage import audit, documents, items, retention, sources
from recollect.storage.database import Transaction
from recollect.storage.documents import DocumentRow, KeptChunk, Original, Place, Standing
from recollect.storage.items import Row

READING = "1"  # of the way documents are read and cut: another one makes a new revision of the same file
MAX_NAME = 400
MAX_TITLE = 300
AT_ONCE = 500  # chunks made ready or written together
TRIES = 3
MOST_CHUNKS_READ = 200
PARTS_AT_ONCE = 4
NO_SUCH_DOCUMENT = "there is no such document"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedDocument:
    """What became of a document that was handed in."""

    document: Document
    was_new: bool
    changed: bool
    """False: this very file was here already, and nothing was done."""
    chunks_added: int = 0
    chunks_kept: int = 0
    chunks_ended: int = 0
    masked: Mapping[str, int] = field(default_factory=dict)
    """How often each type of personal data and secrets was taken out before it was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """A document to take in: a name that is its key within its source, and its file or its text."""

    name: str
    data: bytes | None = None
    text: str | None = None
    media_type: str | None = None
    source: str | UUID | None = None
    """Name or id of its source; None: the source `documents`, which is made when it is first needed."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Any JSON of yours; `title` is what the document is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentText:
    """A document and some of its chunks in order; joined by blank lines, all of them are its text."""

    document: Document
    chunks: tuple[DocumentChunk, ...]
    next_ordinal: int | None

    @property
    def text(self) -> str:
        """What these chunks say."""
        return SEPARATOR.join(chunk.content for chunk in self.chunks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A document as it was handed in, checked."""

    name: str
    body: bytes
    media_type: str
    said_type: str | None
    metadata: dict[str, Any]
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A document read, cut and cleaned: only its revision is missing."""

    given: _Given
    title: str
    metadata: dict[str, Any]
    chunks: tuple[Chunk, ...]
    pages: int | None
    masked: Counter[str]

    def context(self, chunk: Chunk) -> str:
        """The line that is found and embedded with a chunk."""
        return context_of(self.title, chunk.heading)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Revision:
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


async def add_document(
    resources: Resources, identity: Identity, new: NewDocument, *, progress: Progress | None = None
) -> AddedDocument:
    """Take a document in, or its next revision; the same file again changes nothing.

    `progress` counts pages while the file is read, then chunks while they are made ready.
    """
    require_admin(identity)
    given = _checked(resources, new)
    source, standing = await _find(resources, identity, new.source, given.name)
    if standing is not None and standing.sha256 == given.sha256:
        return await _unchanged(resources, identity, standing)
    read = await _read(resources, identity, given, progress)
    for attempt in range(TRIES):
        try:
            return await _save(resources, identity, source, standing, read, progress)
        except Conflict:
            # Another revision came in between: this one comes after it.
            if attempt == TRIES - 1:
                raise
            source, standing = await _find(resources, identity, source.source_id, given.name)
    raise AssertionError("unreachable")


def _checked(resources: Resources, new: NewDocument) -> _Given:
    name = checked_text("name", new.name, most=MAX_NAME, least=1)
    if (new.data is None) == (new.text is None):
        raise InvalidInput("give the document's file as data, or its words as text")
    json_text(new.metadata, field="metadata")
    body = new.data if new.data is not None else str(new.text).encode(errors="surrogatepass")
    if len(body) > resources.settings.document_max_bytes:
        raise TooLarge(f"a document may have at most {resources.settings.document_max_bytes:,} bytes; split it")
    if not body.strip():
        raise InvalidInput("the document is empty")
    said = new.media_type or ("text/plain" if new.text is not None and "." not in name else None)
    media_type = media_type_of(name, body, said)
    digest = hashlib.sha256()
    for part in (READING, media_type, json.dumps(new.metadata, sort_keys=True, default=str)):
        digest.update(part.encode(errors="surrogatepass") + b"\x00")
    digest.update(body)
    return _Given(
        name=name,
        body=body,
        media_type=media_type,
        said_type=new.media_type,
        metadata=new.metadata,
        sha256=digest.digest(),
    )


async def _find(
    resources: Resources, identity: Identity, named: str | UUID | None, name: str
) -> tuple[Source, Standing | None]:
    """The source, and how the document stands in it."""
    async with resources.database.transaction(identity) as tx:
        found = await find_named(tx, named if named is not None else DEFAULT_SOURCE)
        if found is None and named in {None, DEFAULT_SOURCE}:
            await sources.insert_source(tx, new_id(), name=DEFAULT_SOURCE, kind=SourceKind.DOCUMENTS)
            found = await find_named(tx, DEFAULT_SOURCE)
        if found is None:
            raise NotFound(NO_SUCH_SOURCE)
        if found.kind is not SourceKind.DOCUMENTS:
            raise InvalidInput("this source holds no documents; name one that does", field="source")
        return found, await documents.find_standing(tx, found.source_id, name)


async def _unchanged(resources: Resources, identity: Identity, standing: Standing) -> AddedDocument:
    document = await get_document(resources, identity, standing.document_id)
    return AddedDocument(document=document, was_new=False, changed=False, chunks_kept=standing.chunks)


async def _read(resources: Resources, identity: Identity, given: _Given, progress: Progress | None) -> _Read:
    """Read the file, cut it into chunks, and take out what the tenant does not want kept."""
    settings = resources.settings
    extracted = await resources.extractor.extract(
        given.body,
        given.media_type,
        charset=given.said_type,
        limits=ReadingLimits(seconds=settings.document_seconds, megabytes=settings.document_memory),
        progress=progress,
    )
    title, chunks = await asyncio.to_thread(_cut, extracted, given)
    if not chunks:
        raise InvalidInput("no text was found in this document; if it is a scan, run text recognition on it first")
    news = [NewItem(content=title, kind=Kind.DOCUMENT_CHUNK, metadata=given.metadata)]
    news += [
        NewItem(content=chunk.content, kind=Kind.DOCUMENT_CHUNK, metadata={"heading": list(chunk.heading)})
        for chunk in chunks
    ]
    masked: Counter[str] = Counter()
    cleaned = []
    for clean in await sanitise_items(resources, identity, news):
        masked.update(clean.masked)
        cleaned.append(clean.new)
    about, *kept = cleaned
    return _Read(
        given=given,
        title=about.content,
        metadata=about.metadata,
        chunks=tuple(
            replace(chunk, content=new.content, heading=tuple(new.metadata["heading"]))
            for chunk, new in zip(chunks, kept, strict=True)
            if new.content.strip()
        ),
        pages=extracted.pages,
        masked=masked,
    )


def _cut(extracted: Extracted, given: _Given) -> tuple[str, list[Chunk]]:
    said = given.metadata.get("title")
    title = said if isinstance(said, str) and said.strip() else title_of(extracted.blocks, given.name)
    return " ".join(title.split())[:MAX_TITLE], chunked(extracted.blocks)


async def _save(
    resources: Resources,
    identity: Identity,
    source: Source,
    standing: Standing | None,
    read: _Read,
    progress: Progress | None,
) -> AddedDocument:
    """Replace the last revision by this one; `Conflict` when another came in between."""
    revision = await _revision(resources, identity, source, standing, read, progress)
    async with resources.database.transaction(identity) as tx:
        locked = await documents.find_standing(tx, source.source_id, read.given.name, lock=True)
        if (locked.revision if locked else 0) != revision.number - 1:
            raise Conflict("another revision of this document came first; read it and send yours again")
        added = await _write(tx, read, revision, now=resources.clock())
    resources.wake(EMBED_TOPIC)
    resources.views.forget(identity.tenant_id)
    await forget.remove_discarded(resources, identity)
    return AddedDocument(
        document=await get_document(resources, identity, revision.document_id),
        was_new=standing is None,
        changed=True,
        chunks_added=added,
        chunks_kept=len(revision.matched),
        chunks_ended=len(revision.ended),
        masked=dict(read.masked),
    )


async def _revision(
    resources: Resources,
    identity: Identity,
    source: Source,
    standing: Standing | None,
    read: _Read,
    progress: Progress | None,
) -> _Revision:
    """Do everything that needs no transaction: find what is here already, make the rest ready, store the file."""
    document_id = standing.document_id if standing is not None else new_id()
    number = standing.revision + 1 if standing is not None else 1
    here: list[KeptChunk] = []
    if standing is not None:
        async with resources.database.transaction(identity) as tx:
            here = await documents.list_kept(tx, document_id)
    matched, ended = _matched(read, here)
    return _Revision(
        document_id=document_id,
        number=number,
        source=source,
        before=standing.chunks if standing is not None else 0,
        matched=matched,
        ended=ended,
        rows=await _rows(resources, identity, read, matched, source, f"{document_id}:{number}", progress),
        original=await _original(resources, identity, read, document_id),
    )


async def _write(tx: Transaction, read: _Read, revision: _Revision, *, now: datetime) -> int:
    """Write a revision in place of the one before; how many chunks are new."""
    document_id, source_id = revision.document_id, revision.source.source_id
    await documents.end_chunks(tx, revision.ended, now=now)
    added = await _insert(tx, revision.rows)
    held = {**{ordinal: one.item_id for ordinal, one in revision.matched.items()}, **added}
    places, characters = _places(read, held)
    await documents.save_document(tx, _row(read, revision, chunks=len(places), characters=characters, now=now))
    await documents.place_chunks(tx, document_id, places)
    # What was forgotten does not come back with its file, nor what was masked.
    is_whole = len(held) == len(read.chunks) and not read.masked
    await _keep_original(tx, document_id, read.given, revision.original, is_whole=is_whole)
    is_new = revision.number == 1
    await sources.count_change(tx, source_id, documents=1 if is_new else 0, chunks=len(places) - revision.before)
    action = "document.add" if is_new else "document.revise"
    await audit.record(tx, action, "document", document_id, revision=revision.number, chunks=len(places))
    return len(added)


def _matched(read: _Read, here: Sequence[KeptChunk]) -> tuple[dict[int, KeptChunk], list[UUID]]:
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
    read: _Read,
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


def _about(read: _Read, chunk: Chunk) -> dict[str, Any]:
    about: dict[str, Any] = {"title": read.context(chunk), "document": read.given.name}
    return about if chunk.page is None else {**about, "page": chunk.page}


async def _original(resources: Resources, identity: Identity, read: _Read, document_id: UUID) -> Original:
    """The file where it will be kept: large or binary ones in the object store, before any transaction is open (S4)."""
    given = read.given
    if read.masked or (given.media_type not in BINARY and len(given.body) <= OBJECT_BYTES):
        return Original(media_type=given.media_type, body=None if read.masked else given.body, object_key=None)
    owner = f"{identity.tenant_id}/{documents.payload_key_of(document_id)}"
    return Original(
        media_type=given.media_type, body=None, object_key=await resources.objects.put(given.body, owner=owner)
    )


async def _keep_original(
    tx: Transaction, document_id: UUID, given: _Given, original: Original, *, is_whole: bool
) -> None:
    if not is_whole:
        await documents.delete_original(tx, document_id)
        await retention.discard_object(tx, original.object_key)
        return
    await documents.save_original(
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
        inserted = await items.insert_items(tx, [rows[ordinal] for ordinal in some], topic=EMBED_TOPIC)
        added |= {ordinal: rows[ordinal].item_id for ordinal in some if rows[ordinal].item_id in inserted}
    return added


def _places(read: _Read, held: Mapping[int, UUID]) -> tuple[list[Place], int]:
    """Where each chunk stands; and how many characters the document has."""
    places: list[Place] = []
    first = 0
    for number, ordinal in enumerate(sorted(held)):
        chunk = read.chunks[ordinal]
        past = first + len(chunk.content)
        places.append(
            Place(
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


def _row(read: _Read, revision: _Revision, *, chunks: int, characters: int, now: datetime) -> DocumentRow:
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


async def get_document(resources: Resources, identity: Identity, document_id: UUID) -> Document:
    """One document."""
    async with resources.database.transaction(identity) as tx:
        found = await documents.find_document(tx, document_id)
    if found is None:
        raise NotFound(NO_SUCH_DOCUMENT)
    return found


async def list_documents(
    resources: Resources,
    identity: Identity,
    *,
    source: str | UUID | None = None,
    after: UUID | None = None,
    limit: int = 50,
) -> list[Document]:
    """Documents of a source or of all, oldest first."""
    async with resources.database.transaction(identity) as tx:
        source_id = (await _named(tx, source)).source_id if source is not None else None
        return await documents.list_documents(tx, source_id=source_id, after=after, limit=min(limit, MAX_PAGE + 1))


async def read_document(
    resources: Resources, identity: Identity, document_id: UUID, *, first: int = 0, limit: int = 50
) -> DocumentText:
    """A document from a chunk on; the chunks around one that was found are its `ordinal` minus and plus a few."""
    if first < 0 or not 1 <= limit <= MOST_CHUNKS_READ:
        raise InvalidInput(f"first must not be negative, and limit must lie between 1 and {MOST_CHUNKS_READ}")
    async with resources.database.transaction(identity) as tx:
        document = await documents.find_document(tx, document_id)
        if document is None:
            raise NotFound(NO_SUCH_DOCUMENT)
        found = await documents.read_chunks(tx, document_id, first=first, limit=limit + 1)
    return DocumentText(
        document=document,
        chunks=tuple(found[:limit]),
        next_ordinal=found[limit].ordinal if len(found) > limit else None,
    )


async def read_original(resources: Resources, identity: Identity, document_id: UUID) -> tuple[bytes, str]:
    """The file that was handed in, and its type; for administrators."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        found = await documents.find_original(tx, document_id)
    if found is None:
        raise NotFound("there is no such document, or its file is not kept")
    if found.body is not None:
        return found.body, found.media_type
    assert found.object_key is not None
    return await resources.objects.get(found.object_key), found.media_type


async def delete_document(resources: Resources, identity: Identity, document_id: UUID) -> None:
    """Remove a document: its chunks leave recall at once, its file goes."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        chunks = await documents.delete_document(tx, document_id, now=resources.clock())
        if chunks is None:
            raise NotFound(NO_SUCH_DOCUMENT)
        await audit.record(tx, "document.delete", "document", document_id, chunks=chunks)
    resources.views.forget(identity.tenant_id)
    await forget.remove_discarded(resources, identity)


async def search_knowledge(
    resources: Resources,
    identity: Identity,
    query: str,
    *,
    top_k: int = 5,
    source: str | UUID | None = None,
    **more: Any,
) -> RecallAnswer:
    """What the documents say on a question, each with where it stands."""
    source_id = None
    if source is not None:
        async with resources.database.transaction(identity) as tx:
            source_id = (await _named(tx, source)).source_id
    request = RecallRequest(query=query, top_k=top_k, source_kinds=(Kind.DOCUMENT_CHUNK,), source_id=source_id, **more)
    parts = parts_of(query)
    if len(parts) == 1 or request.explain:
        return await _cited(resources, identity, await recall(resources, identity, request))
    wide = [replace(request, query=part, top_k=MAX_TOP_K, enable_rerank=False) for part in parts]
    answers = []
    for start in range(0, len(wide), PARTS_AT_ONCE):
        some = wide[start : start + PARTS_AT_ONCE]
        answers += await asyncio.gather(*(recall(resources, identity, one) for one in some))
    return await _cited(resources, identity, _joined(answers, top_k))


def _joined(answers: Sequence[RecallAnswer], top_k: int) -> RecallAnswer:
    """One answer to the parts of a long question: the best chunk of each document first, then further ones."""
    best: dict[UUID, RecalledItem] = {}
    for answer in answers:
        for item in answer.items:
            if item.id not in best or item.score > best[item.id].score:
                best[item.id] = item
    scores = fused([_by_document(answer.items) for answer in answers])
    ranked: dict[str, list[RecalledItem]] = {document: [] for document in scores}
    for item in sorted(best.values(), key=lambda one: -one.score):
        ranked[_document_of(item)].append(item)
    rounds = zip_longest(*ranked.values())
    chosen = [
        replace(item, score=round(scores[_document_of(item)], 6)) for one in rounds for item in one if item is not None
    ][:top_k]
    return RecallAnswer(
        items=tuple(chosen),
        total=len(chosen),
        degraded=any(answer.degraded for answer in answers),
        rerank_used=False,
    )


def _by_document(found: Sequence[RecalledItem]) -> list[tuple[str, float]]:
    """Documents by their best chunk, best first."""
    best: dict[str, float] = {}
    for item in found:
        best.setdefault(_document_of(item), item.score)
    return list(best.items())


def _document_of(item: RecalledItem) -> str:
    """What tells the chunks of one document: all but the last two parts of their reference, revision and place."""
    return item.source_ref.rsplit(":", 2)[0] if item.source_ref.startswith("document:") else item.source_ref


async def _cited(resources: Resources, identity: Identity, answer: RecallAnswer) -> RecallAnswer:
    async with resources.database.transaction(identity) as tx:
        cited = await documents.citations(tx, [item.id for item in answer.items])
    return replace(answer, items=tuple(replace(item, citation=cited.get(item.id)) for item in answer.items))


async def _named(tx: Transaction, named: str | UUID) -> Source:
    found = await find_named(tx, named)
    if found is None:
        raise NotFound(NO_SUCH_SOURCE)
    return found
