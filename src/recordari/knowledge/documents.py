"""Lists, reads and removes documents (K1)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.errors import InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.knowledge import storage
from recordari.knowledge.rules.chunks import SEPARATOR, Document, DocumentChunk
from recordari.knowledge.sources import require_source
from recordari.lifetime import forget
from recordari.memory.objects import Objects
from recordari.tenants.tenants import MAX_PAGE, require_admin

MOST_CHUNKS_READ = 200
NO_SUCH_DOCUMENT = "there is no such document"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentText:
    """A document and some of its chunks in order; joined by blank lines, all of them are its text."""

    __pydantic_config__ = DESCRIBED

    document: Document
    chunks: tuple[DocumentChunk, ...]
    next_ordinal: int | None
    """Pass it as `first` to read on; null at the end."""

    @property
    def text(self) -> str:
        return SEPARATOR.join(chunk.content for chunk in self.chunks)


async def get_document(resources: Resources, identity: Identity, document_id: UUID) -> Document:
    """Get a document by its id, without its text."""
    async with resources.database.transaction(identity) as tx:
        return await _require_document(tx, document_id)


async def _require_document(tx: Transaction, document_id: UUID) -> Document:
    if (document := await storage.find_document(tx, document_id)) is None:
        raise NotFound(NO_SUCH_DOCUMENT)
    return document


async def list_documents(
    resources: Resources,
    identity: Identity,
    *,
    source: str | UUID | None = None,
    after: UUID | None = None,
    limit: int = 50,
) -> list[Document]:
    """List the documents of one source or of all, oldest first."""
    async with resources.database.transaction(identity) as tx:
        source_id = (await require_source(tx, source)).source_id if source is not None else None
        return await storage.list_documents(tx, source_id=source_id, after=after, limit=min(limit, MAX_PAGE + 1))


async def read_document(
    resources: Resources, identity: Identity, document_id: UUID, *, first: int = 0, limit: int = 50
) -> DocumentText:
    """Read a document from a chunk on. Around a citation, read from its `ordinal` minus a few."""
    if first < 0 or not 1 <= limit <= MOST_CHUNKS_READ:
        raise InvalidInput(f"first must not be negative, and limit must be between 1 and {MOST_CHUNKS_READ}")
    async with resources.database.transaction(identity) as tx:
        document = await _require_document(tx, document_id)
        chunks = await storage.read_chunks(tx, document_id, first=first, limit=limit + 1)
    next_ordinal = chunks[limit].ordinal if len(chunks) > limit else None
    return DocumentText(document=document, chunks=tuple(chunks[:limit]), next_ordinal=next_ordinal)


async def read_original(resources: Resources, identity: Identity, document_id: UUID) -> tuple[bytes, str]:
    """Read the original file and its media type; for administrators."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        original = await storage.find_original(tx, document_id)
    if original is None:
        raise NotFound("there is no such document, or its file is not stored")
    if original.body is not None:
        return original.body, original.media_type
    assert original.object_key is not None
    return await resources.get(Objects).get(original.object_key), original.media_type


async def delete_document(resources: Resources, identity: Identity, document_id: UUID) -> None:
    """Remove a document with its file; its text leaves recall at once."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        chunks = await storage.delete_document(tx, document_id, now=resources.clock())
        if chunks is None:
            raise NotFound(NO_SUCH_DOCUMENT)
        await audit.record(tx, "document.delete", "document", document_id, chunks=chunks)
    resources.forget_tenant(identity.tenant_id)
    await forget.remove_discarded(resources, identity)
