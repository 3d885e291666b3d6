"""What can be looked up: sources and documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from recordari.knowledge import documents, ingest, search, sources, sync
from recordari.knowledge.documents import DocumentText
from recordari.knowledge.ingest import AddedDocument, NewDocument
from recordari.knowledge.rules.chunks import Document
from recordari.knowledge.rules.knowledge_map import Source, SourceKind
from recordari.knowledge.sync import Synchronised
from recordari.recall.request import RecallAnswer
from recordari.verbs.bound import Bound


class KnowledgeVerbs(Bound):
    """The verbs of sources and documents."""

    async def knowledge_map(self) -> str:
        """Which sources can be looked up and which tool reaches each, in about 100 tokens."""
        return await sources.map_knowledge(self.resources, self.identity)

    async def search_knowledge(
        self, query: str, *, top_k: int = 5, source: str | UUID | None = None, **more: Any
    ) -> RecallAnswer:
        """What the documents say, each with its citation; `source` is a name or id, `more` as of `RecallRequest`."""
        return await search.search_knowledge(self.resources, self.identity, query, top_k=top_k, source=source, **more)

    async def add_document(
        self,
        name: str,
        data: bytes | None = None,
        *,
        text: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        **more: Any,
    ) -> AddedDocument:
        """Take a document or its next revision in; `more` are `media_type`, `source` and `metadata`."""
        new = NewDocument(name=name, data=data, text=text, **more)
        return await ingest.add_document(self.resources, self.identity, new, progress=progress)

    async def get_document(self, document_id: UUID) -> Document:
        """One document."""
        return await documents.get_document(self.resources, self.identity, document_id)

    async def list_documents(self, **more: Any) -> list[Document]:
        """Documents, oldest first; `more` are `source`, `after` and `limit`."""
        return await documents.list_documents(self.resources, self.identity, **more)

    async def read_document(self, document_id: UUID, *, first: int = 0, limit: int = 50) -> DocumentText:
        """Chunks of a document in order, from one on: all of it, or what stands around a citation."""
        return await documents.read_document(self.resources, self.identity, document_id, first=first, limit=limit)

    async def read_original(self, document_id: UUID) -> tuple[bytes, str]:
        """The file of a document, and its media type."""
        return await documents.read_original(self.resources, self.identity, document_id)

    async def delete_document(self, document_id: UUID) -> None:
        """Remove a document; its chunks leave recall at once."""
        await documents.delete_document(self.resources, self.identity, document_id)

    async def add_source(
        self,
        name: str,
        *,
        kind: SourceKind | str = SourceKind.DOCUMENTS,
        description: str = "",
        tool: str | None = None,
        folder: Path | None = None,
    ) -> Source:
        """Register something that can be looked up; `folder` must lie in one that the settings allow."""
        return await sources.add_source(
            self.resources, self.identity, name, kind=kind, description=description, tool=tool, folder=folder
        )

    async def update_source(self, source_id: UUID, **changes: Any) -> Source:
        """Change the `name`, `description` or `tool` of a source."""
        return await sources.update_source(self.resources, self.identity, source_id, **changes)

    async def get_source(self, source_id: UUID) -> Source:
        """One source, and how far its last synchronisation came."""
        return await sources.get_source(self.resources, self.identity, source_id)

    async def list_sources(self, *, after: str = "", limit: int = 50) -> list[Source]:
        """Sources by name."""
        return await sources.list_sources(self.resources, self.identity, after=after, limit=limit)

    async def remove_source(self, source_id: UUID) -> int:
        """Remove a source with its documents; how many there were."""
        return await sync.remove_source(self.resources, self.identity, source_id)

    async def start_sync(self, source_id: UUID) -> int | None:
        """Synchronise a source with its folder in the background; the job's id, None when one waits already."""
        return await sync.start_sync(self.resources, self.identity, source_id)

    async def sync_source(self, source_id: UUID, *, progress: Callable[[int, int], None] | None = None) -> Synchronised:
        """Bring a source in line with its folder, and return when it is done."""
        return await sync.sync_source(self.resources, self.identity, source_id, progress=progress)
