"""The commands `recordari document` and `recordari source`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from recordari.core.checks import Progress
from recordari.errors import InvalidInput, NotFound, RecordariError
from recordari.kit.commands import (
    DEVELOPMENT_TENANT,
    Moment,
    NoRerank,
    Tenant,
    TopK,
    Yes,
    ask,
    read_moment,
)
from recordari.kit.output import Answer, Commands, Hint, Table, Text, confirm, counted, record, shortened
from recordari.kit.verbs import Caller
from recordari.knowledge import documents, ingest, sources
from recordari.knowledge import search as search_verbs
from recordari.knowledge import sync as sync_verbs
from recordari.knowledge.ingest import AddedDocument
from recordari.knowledge.rules.chunks import Document
from recordari.knowledge.rules.knowledge_map import Source, SourceKind
from recordari.knowledge.sync import Synchronised
from recordari.memory.cli import ask_and_embed, left_to_worker
from recordari.recall.request import Citation

document_commands = Commands()

DocumentSource = Annotated[str | None, typer.Option("--source", "-s", help="Name of its source.")]
DocumentId = Annotated[UUID, typer.Argument(help="Id of the document.")]


@document_commands.command("add")
def add_documents(
    files: Annotated[list[Path], typer.Argument(help="Texts, PDF, Office files, sheets; images with a caption.")],
    *,
    source: DocumentSource = None,
    name: Annotated[str | None, typer.Option(help="Its name in the source; by default that of the file.")] = None,
    metadata: Annotated[str | None, typer.Option(help='A JSON object, such as {"title": "Pumps"}.')] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Add files, or their next revisions; the same file again changes nothing."""
    if name is not None and len(files) > 1:
        raise InvalidInput("--name is for one file")
    about = _object(metadata)

    async def add(file: Path, caller: Caller, progress: Progress) -> AddedDocument:
        try:
            return await ingest.add_document(
                *caller, name or file.name, _read(file), source=source, metadata=about, progress=progress
            )
        except RecordariError as error:
            error.message = f"{file}: {error.message}"
            raise

    async def run(caller: Caller, progress: Progress) -> list[AddedDocument]:
        return [await add(file, caller, progress) for file in files]

    added, waiting = ask_and_embed(run, "chunks", tenant)
    return Answer({"documents": added, "waiting": waiting}, *map(_added, added), left_to_worker(waiting))


@document_commands.command("list")
def list_documents(*, source: DocumentSource = None, tenant: Tenant = DEVELOPMENT_TENANT) -> Table:
    """List the documents."""

    async def run(caller: Caller) -> list[Document]:
        rows: list[Document] = []
        after = None
        while page := await documents.list_documents(*caller, source=source, after=after, limit=100):
            rows += page
            after = page[-1].document_id
        return rows

    return Table(
        ask(run, tenant),
        columns=("document_id", "source", "name", "revision", "chunks", "pages", "updated_at"),
        empty="there are no documents yet; add some with `recordari document add FILE`",
    )


@document_commands.command()
def read(
    document_id: DocumentId,
    *,
    first: Annotated[int, typer.Option(help="The chunk to begin with.")] = 0,
    limit: Annotated[int, typer.Option(help="Most chunks.")] = 50,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Print a document's text."""
    document = ask(lambda caller: documents.read_document(*caller, document_id, first=first, limit=limit), tenant)
    return Answer({**record(document), "text": document.text}, Text(document.text))


@document_commands.command()
def search(
    query: Annotated[str, typer.Argument(help="The question, in your words.")],
    *,
    source: DocumentSource = None,
    top_k: TopK = 5,
    as_of: Moment = None,
    known_at: Moment = None,
    no_rerank: NoRerank = False,
    explain: Annotated[bool, typer.Option("--explain", help="Add a trace to the JSON.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Search the documents; each text comes with its citation."""
    moment, known = read_moment(as_of), read_moment(known_at)
    answer = ask(
        lambda caller: search_verbs.search_knowledge(
            *caller,
            query,
            top_k=top_k,
            source=source,
            as_of=moment,
            known_at=known,
            enable_rerank=not no_rerank,
            explain=explain,
        ),
        tenant,
    )
    return Answer(
        record(answer, without=() if explain else ("trace",)),
        None if answer.items else Hint("no document says anything about that"),
        *(
            line
            for item in answer.items
            for line in (f"{item.score:.3f}  {_cited(item.citation)}", f"       {shortened(item.content)}")
        ),
    )


@document_commands.command("remove")
def remove_document(document_id: DocumentId, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Remove a document; its text leaves recall at once."""
    ask(lambda caller: documents.delete_document(*caller, document_id), tenant)
    return Answer({"document_id": document_id, "done": "removed"}, "removed")


def _added(added: AddedDocument) -> str:
    document = added.document
    outcome = "added" if added.was_new else f"revision {document.revision}" if added.changed else "unchanged"
    return f"{document.document_id}  {document.name}  {outcome}, {counted(document.chunks, 'chunk')}"


def _cited(citation: Citation | None) -> str:
    if citation is None:
        return "–"
    page = f", page {citation.page}" if citation.page is not None else ""
    path = "".join(f" › {heading}" for heading in citation.heading)
    return f"{citation.document_id}  {citation.document} (revision {citation.revision}{page}, chunk {citation.ordinal}){path}"


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"it cannot be read: {error.strerror}") from None


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidInput("--metadata must be a JSON object")
    return value


source_commands = Commands()

SourceName = Annotated[str, typer.Argument(help="Name of the source.")]


@source_commands.command("add")
def add_source(
    name: SourceName,
    *,
    kind: Annotated[SourceKind, typer.Option(help="Its kind.")] = SourceKind.DOCUMENTS,
    description: Annotated[str, typer.Option(help="Its content; agents read it in the knowledge map.")] = "",
    tool: Annotated[str | None, typer.Option(help="The tool that reaches it, for an API or MCP server.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder to synchronise with, inside one of RECORDARI_DOCUMENT_FOLDERS.")
    ] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
) -> Answer:
    """Register a source: documents, a database, an API or an MCP server."""
    source = ask(
        lambda caller: sources.add_source(*caller, name, kind=kind, description=description, tool=tool, folder=folder),
        tenant,
    )
    hint = Hint(f"`recordari source sync {name}` adds its documents") if source.folder is not None else None
    return Answer(source, f"{source.source_id}  {source.name}", hint)


@source_commands.command("list")
def list_sources(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """List the sources."""
    listed = ask(_all_sources, tenant)
    rows = [record(source, without=("source_id", "sync", "created_at", "tool")) for source in listed]
    return Answer(listed, Table(rows, empty="there are no sources yet; add one with `recordari source add NAME`"))


@source_commands.command("map")
def show_map(*, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Print the knowledge map, as agents get it."""
    text = ask(lambda caller: sources.knowledge_map(*caller), tenant)
    return Answer({"map": text}, Text(text))


@source_commands.command()
def sync(name: SourceName, *, tenant: Tenant = DEVELOPMENT_TENANT) -> Answer:
    """Add, revise and remove documents of a source so that they match its folder."""

    async def run(caller: Caller, progress: Progress) -> Synchronised:
        return await sync_verbs.sync_source(*caller, (await _named(caller, name)).source_id, progress=progress)

    done, waiting = ask_and_embed(run, "documents", tenant)
    return Answer(
        {**record(done), "waiting": waiting},
        f"{done.added} added, {done.revised} revised, {done.unchanged} unchanged, {done.removed} removed, "
        f"{done.failures} failed",
        *(Hint(f"{file}: {reason}") for file, reason in done.failed),
        left_to_worker(waiting),
    )


@source_commands.command("remove")
def remove_source(name: SourceName, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False) -> Answer:
    """Remove a source with its documents."""

    async def run(caller: Caller) -> int:
        source = await _named(caller, name)
        confirm(f"Remove {source.name} and its {counted(source.documents, 'document')}?", yes=yes)
        return await sync_verbs.remove_source(*caller, source.source_id)

    removed = ask(run, tenant)
    return Answer({"name": name, "documents": removed}, f"removed, with {counted(removed, 'document')}")


async def _all_sources(caller: Caller) -> list[Source]:
    rows: list[Source] = []
    while page := await sources.list_sources(*caller, after=rows[-1].name if rows else "", limit=100):
        rows += page
    return rows


async def _named(caller: Caller, name: str) -> Source:
    for source in await _all_sources(caller):
        if name in {source.name, str(source.source_id)}:
            return source
    raise NotFound(f"there is no source {name!r}; `recordari source list` shows them")
