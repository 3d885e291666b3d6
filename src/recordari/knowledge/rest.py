"""Routes of sources, their documents, and the knowledge map."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from recordari.errors import InvalidInput
from recordari.kit.problems import error_responses
from recordari.kit.rest import (
    PROBLEMS,
    AdminCaller,
    AgentCaller,
    Cursor,
    Limit,
    Moment,
    Page,
    Strict,
    client,
    id_position,
    page_of,
    position,
)
from recordari.knowledge import documents as documents_verbs
from recordari.knowledge import ingest, search, sources
from recordari.knowledge import sync as sync_verbs
from recordari.knowledge.documents import MOST_CHUNKS_READ, DocumentText
from recordari.knowledge.ingest import MAX_NAME, AddedDocument
from recordari.knowledge.rules.chunks import Document
from recordari.knowledge.rules.knowledge_map import MAX_DESCRIPTION, MAX_SOURCE_NAME, MAX_TOOL, Source, SourceKind
from recordari.recall.request import RecallAnswer
from recordari.recall.rest import Question, TopK

router = APIRouter(prefix="/v1", tags=["knowledge"], responses=PROBLEMS)

FORM_ROOM = 64 * 1024  # bytes of a form besides its file
_FILE = {"type": "string", "format": "binary"}
UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The file itself, with its type as `Content-Type`; or a form with the part `file`.",
        "content": {
            "application/octet-stream": {"schema": _FILE},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": _FILE,
                        "name": {"type": "string"},
                        "source": {"type": "string"},
                        "metadata": {"type": "string", "description": "A JSON object."},
                    },
                }
            },
        },
    }
}


class NewSource(Strict):
    """A source to register."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "Jira", "kind": "api", "description": "Tickets", "tool": "jira_search"}]
        }
    )

    name: str = Field(min_length=1, max_length=MAX_SOURCE_NAME)
    kind: Annotated[SourceKind, Field(strict=False)] = SourceKind.DOCUMENTS
    description: str = Field(default="", max_length=MAX_DESCRIPTION, description="Its content, for the knowledge map.")
    tool: str | None = Field(default=None, min_length=1, max_length=MAX_TOOL, description="The tool that reaches it.")


class SourceChange(Strict):
    """Changes of a source; a field that you leave out stays as it is."""

    name: str | None = Field(default=None, min_length=1, max_length=MAX_SOURCE_NAME)
    description: str | None = Field(default=None, max_length=MAX_DESCRIPTION)
    tool: str | None = Field(default=None, min_length=1, max_length=MAX_TOOL)


class KnowledgeRequest(Strict):
    """A question to the documents."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "How do I return a parcel?"}]})

    query: Question
    top_k: TopK = 5
    source: str | None = Field(default=None, min_length=1, max_length=200, description="Only this source, by its name.")
    enable_rerank: bool = Field(default=True, description="Let a cross-encoder reorder, where one is set up.")
    since: Moment | None = Field(default=None, description="Only what was added then or later.")
    until: Moment | None = Field(default=None, description="Only what was added before then.")
    as_of: Moment | None = Field(default=None, description="What the documents said at that moment.")
    known_at: Moment | None = Field(default=None, description="What of them was here by that moment.")
    explain: bool = Field(default=False, description="Also say why: arms, ranks, scores, what was left out.")


class SyncStarted(BaseModel):
    """The job of a synchronisation."""

    job_id: int | None = Field(description="Null: one waits already.")


class MapShown(BaseModel):
    """The sources of the tenant, for an agent's context."""

    text: str


SourceName = Annotated[str | None, Query(max_length=MAX_SOURCE_NAME, description="Name of a source.")]


@router.get("/knowledge/map", operation_id="knowledge_map", openapi_extra=client(part="text"), response_model=MapShown)
async def knowledge_map(caller: AgentCaller) -> object:
    """List the sources and the tool that reaches each, in about 100 tokens."""
    return {"text": await sources.knowledge_map(*caller)}


@router.post("/search_knowledge", operation_id="search_knowledge", openapi_extra=client(by_name="source", reads=True))
async def search_knowledge(caller: AgentCaller, request: KnowledgeRequest) -> RecallAnswer:
    """Search the documents; each text comes with its citation."""
    return await search.search_knowledge(*caller, **dict(request))


@router.get(
    "/sources",
    operation_id="list_sources",
    openapi_extra=client(part="items", cursor="after"),
    response_model=Page[Source],
)
async def list_sources(caller: AgentCaller, limit: Limit = 50, cursor: Cursor = None) -> object:
    """List sources, sorted by name."""
    return page_of(
        await sources.list_sources(*caller, after=position(cursor) or "", limit=limit + 1),
        limit,
        lambda source: source.name,
    )


@router.post(
    "/sources",
    operation_id="add_source",
    status_code=201,
    responses=error_responses({409: "The name is taken."}),
)
async def add_source(caller: AdminCaller, source: NewSource) -> Source:
    """Register a source. Only the operator sets a folder (`recordari source add --folder`)."""
    return await sources.add_source(*caller, **dict(source))


@router.get("/sources/{source_id}", operation_id="get_source")
async def get_source(caller: AgentCaller, source_id: UUID) -> Source:
    """Get a source by its id."""
    return await sources.get_source(*caller, source_id)


@router.patch("/sources/{source_id}", operation_id="update_source")
async def update_source(caller: AdminCaller, source_id: UUID, change: SourceChange) -> Source:
    """Change a source; a field that you leave out stays as it is."""
    return await sources.update_source(*caller, source_id, **dict(change))


@router.delete("/sources/{source_id}", operation_id="remove_source", status_code=204)
async def remove_source(caller: AdminCaller, source_id: UUID) -> None:
    """Remove a source with its documents."""
    await sync_verbs.remove_source(*caller, source_id)


@router.post(
    "/sources/{source_id}/sync",
    operation_id="start_sync",
    openapi_extra=client(part="job_id"),
    response_model=SyncStarted,
    status_code=202,
)
async def sync_source(caller: AdminCaller, source_id: UUID) -> object:
    """Synchronise a source with the folder that the operator gave it, in the background."""
    return {"job_id": await sync_verbs.start_sync(*caller, source_id)}


@router.post(
    "/documents",
    operation_id="add_document",
    openapi_extra={**UPLOAD, **client(by_name="source", not_idempotent=True)},
    status_code=201,
    responses={200: {"model": AddedDocument, "description": "A new revision, or no change."}},
)
async def add_document(
    caller: AdminCaller,
    request: Request,
    response: Response,
    name: Annotated[str | None, Query(max_length=MAX_NAME, description="Its key within its source.")] = None,
    source: SourceName = None,
    title: Annotated[str | None, Query(max_length=300, description="Its title.")] = None,
) -> AddedDocument:
    """Add a document, or its next revision: text, Markdown, CSV, HTML, PDF, docx, pptx, a sheet, or an image with a caption."""
    most = caller.resources.settings.document_max_bytes
    media_type = request.headers.get("content-type", "")
    metadata: dict[str, Any] = {}
    if media_type.lower().startswith("multipart/form-data"):
        data, form = await _form(request, most)
        name, source = name or form["name"], source or form["source"]
        metadata, media_type = _object(form["metadata"]), form["media_type"] or ""
    else:
        data = b"".join([part async for part in _bounded(request, most)])
    if not name:
        raise InvalidInput("a document needs a name: ?name=returns.md", field="name")
    if title is not None:
        metadata = {**metadata, "title": title}
    added = await ingest.add_document(
        *caller, name, data, media_type=media_type or None, source=source, metadata=metadata
    )
    if not added.was_new:
        response.status_code = 200
    return added


@router.get(
    "/documents",
    operation_id="list_documents",
    openapi_extra=client(part="items", cursor="after", by_name="source"),
    response_model=Page[Document],
)
async def list_documents(
    caller: AgentCaller, limit: Limit = 50, cursor: Cursor = None, source: SourceName = None
) -> object:
    """List documents, oldest first."""
    return page_of(
        await documents_verbs.list_documents(*caller, source=source, after=id_position(cursor), limit=limit + 1),
        limit,
        lambda document: document.document_id,
    )


@router.get("/documents/{document_id}", operation_id="get_document")
async def get_document(caller: AgentCaller, document_id: UUID) -> Document:
    """Get a document by its id, without its text."""
    return await documents_verbs.get_document(*caller, document_id)


@router.get("/documents/{document_id}/text", operation_id="read_document")
async def read_document(
    caller: AgentCaller,
    document_id: UUID,
    first: Annotated[int, Query(ge=0, le=2**31 - 1, description="The chunk to begin with.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_CHUNKS_READ, description="Most chunks.")] = 50,
) -> DocumentText:
    """Read a document from a chunk on. Around a citation, read from its `ordinal` minus a few."""
    return await documents_verbs.read_document(*caller, document_id, first=first, limit=limit)


@router.get(
    "/documents/{document_id}/original",
    operation_id="read_original",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {"schema": _FILE}}, "description": "The file."}},
)
async def read_original(caller: AdminCaller, document_id: UUID) -> Response:
    """Download the original file."""
    body, media_type = await documents_verbs.read_original(*caller, document_id)
    # A browser must never show the file as a page of ours, whatever type it claims.
    headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    return Response(body, media_type=media_type, headers=headers)


@router.delete("/documents/{document_id}", operation_id="delete_document", status_code=204)
async def delete_document(caller: AdminCaller, document_id: UUID) -> None:
    """Remove a document; its text leaves recall at once."""
    await documents_verbs.delete_document(*caller, document_id)


async def _bounded(request: Request, most: int) -> AsyncGenerator[bytes, None]:
    """The body in pieces; it stops reading at the limit."""
    size = 0
    async for part in request.stream():
        size += len(part)
        ingest.check_bytes(size, most)
        yield part


async def _form(request: Request, most: int) -> tuple[bytes, dict[str, str | None]]:
    """The file of a form, and its other fields."""
    parser = MultiPartParser(request.headers, _bounded(request, most + FORM_ROOM), max_files=1, max_fields=10)
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError):
        raise InvalidInput("the form cannot be read; send multipart/form-data with its boundary") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise InvalidInput("the form needs a part `file`", field="file")
        fields: dict[str, str | None] = {
            name: text if isinstance(text := form.get(name), str) and text else None
            for name in ("name", "source", "metadata")
        }
        name = fields["name"] or file.filename
        return await file.read(), {**fields, "name": name, "media_type": file.content_type}
    finally:
        await form.close()


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidInput("metadata must be a JSON object", field="metadata")
    return value
