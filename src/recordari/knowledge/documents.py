"""Documents: listed, read and removed (K1)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.db import audit
from recordari.errors import InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.knowledge import storage
from recordari.knowledge.rules.chunks import SEPARATOR, Document, DocumentChunk
from recordari.knowledge.sources import require_named
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
    """Give it as `first` to go on; null at the end."""

    @property
    def text(self) -> str:
        """What these chunks say."""
        return SEPARATOR.join(chunk.content for chunk in self.chunks)


async def get_document(resources: Resources, identity: Identity, document_id: UUID) -> Document:
    """One document."""
    async with resources.database.transaction(identity) as tx:
        found = await storage.find_document(tx, document_id)
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
        source_id = (await require_named(tx, source)).source_id if source is not None else None
        return await storage.list_documents(tx, source_id=source_id, after=after, limit=min(limit, MAX_PAGE + 1))


async def read_document(
    resources: Resources, identity: Identity, document_id: UUID, *, first: int = 0, limit: int = 50
) -> DocumentText:
    """A document from a chunk on; the chunks around one that was found are its `ordinal` minus and plus a few."""
    if first < 0 or not 1 <= limit <= MOST_CHUNKS_READ:
        raise InvalidInput(f"first must not be negative, and limit must lie between 1 and {MOST_CHUNKS_READ}")
    async with resources.database.transaction(identity) as tx:
        document = await storage.find_document(tx, document_id)
        if document is None:
            raise NotFound(NO_SUCH_DOCUMENT)
        found = await storage.read_chunks(tx, document_id, first=first, limit=limit + 1)
    return DocumentText(
        document=document,
        chunks=tuple(found[:limit]),
        next_ordinal=found[limit].ordinal if len(found) > limit else None,
    )


async def read_original(resources: Resources, identity: Identity, document_id: UUID) -> tuple[bytes, str]:
    """The file that was handed in, and its type; for administrators."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        found = await storage.find_original(tx, document_id)
    if found is None:
        raise NotFound("there is no such document, or its file is not kept")
    if found.body is not None:
        return found.body, found.media_type
    assert found.object_key is not None
    return await resources.get(Objects).get(found.object_key), found.media_type


async def delete_document(resources: Resources, identity: Identity, document_id: UUID) -> None:
    """Remove a document: its chunks leave recall at once, its file goes."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        chunks = await storage.delete_document(tx, document_id, now=resources.clock())
        if chunks is None:
            raise NotFound(NO_SUCH_DOCUMENT)
        await audit.record(tx, "document.delete", "document", document_id, chunks=chunks)
    resources.forget_tenant(identity.tenant_id)
    await forget.remove_discarded(resources, identity)
