"""`recordari document`: take files in, list, read, search and remove them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from recordari.errors import InvalidInput, RecordariError
from recordari.kit.commands import DEVELOPMENT_TENANT, Moment, Tenant, ask, open_memory, read_moment
from recordari.kit.output import AsJson, counted, print_json, print_line, print_note, print_table, record, shortened
from recordari.knowledge import documents, ingest
from recordari.knowledge import search as search_verbs
from recordari.knowledge.ingest import AddedDocument
from recordari.knowledge.rules.chunks import Document
from recordari.memory.cli import PATIENCE, note_waiting, progress_bar, settle
from recordari.recall.request import Citation

document_commands = typer.Typer()

SourceName = Annotated[str | None, typer.Option("--source", "-s", help="Name of its source.")]
Id = Annotated[UUID, typer.Argument(help="Id of the document.")]


@document_commands.command()
def add(
    files: Annotated[list[Path], typer.Argument(help="Text, Markdown, HTML, PDF, docx, xlsx or pptx.")],
    *,
    source: SourceName = None,
    name: Annotated[str | None, typer.Option(help="Its name in the source; else that of the file.")] = None,
    metadata: Annotated[str | None, typer.Option(help='A JSON object; {"title": …} is what it is called.')] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Take files in, or their next revisions; the same file again changes nothing."""
    if name is not None and len(files) > 1:
        raise InvalidInput("--name is for one file")
    about = _object(metadata)

    async def run() -> tuple[list[AddedDocument], int]:
        added = []
        async with open_memory(tenant, worker=True) as caller:
            for file in files:
                with progress_bar(file.name, hidden=as_json) as progress:
                    try:
                        added.append(
                            await ingest.add_document(
                                *caller,
                                name or file.name,
                                _read(file),
                                source=source,
                                metadata=about,
                                progress=progress,
                            )
                        )
                    except RecordariError as error:
                        error.message = f"{file}: {error.message}"
                        raise
            with progress_bar("vectors", hidden=as_json) as progress:
                return added, await settle(caller, patience=PATIENCE, progress=progress)

    added, left = asyncio.run(run())
    if as_json:
        print_json({"documents": added, "waiting": left})
        return
    for one in added:
        what = "added" if one.was_new else f"revision {one.document.revision}" if one.changed else "unchanged"
        print_line(f"{one.document.document_id}  {one.document.name}  {what}, {counted(one.document.chunks, 'chunk')}")
    note_waiting(left)


@document_commands.command("list")
def list_all(*, source: SourceName = None, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List the documents."""

    async def run() -> list[Document]:
        found: list[Document] = []
        async with open_memory(tenant) as caller:
            after = None
            while page := await documents.list_documents(*caller, source=source, after=after, limit=100):
                found += page
                after = page[-1].document_id
        return found

    found = asyncio.run(run())
    if as_json:
        print_json(found)
    else:
        columns = ("document_id", "source", "name", "revision", "chunks", "pages", "updated_at")
        rows = [{column: getattr(document, column) for column in columns} for document in found]
        print_table(rows, empty="there are no documents yet; add some with `recordari document add FILE`")


@document_commands.command()
def read(
    document_id: Id,
    *,
    first: Annotated[int, typer.Option(help="The chunk to begin with.")] = 0,
    limit: Annotated[int, typer.Option(help="Most chunks.")] = 50,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Print a document's text."""
    found = ask(lambda caller: documents.read_document(*caller, document_id, first=first, limit=limit), tenant)
    if as_json:
        print_json({**record(found), "text": found.text})
        return
    for line in found.text.splitlines():
        print_line(line)


@document_commands.command()
def search(
    query: Annotated[str, typer.Argument(help="The question, in your words.")],
    *,
    source: SourceName = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Most texts, up to 20.")] = 5,
    as_of: Moment = None,
    no_rerank: Annotated[bool, typer.Option("--no-rerank", help="Leave the cross-encoder out.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Say why; only with --json.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Ask the documents; each text comes with where it stands."""
    moment = read_moment(as_of)
    answer = ask(
        lambda caller: search_verbs.search_knowledge(
            *caller,
            query,
            top_k=top_k,
            source=source,
            as_of=moment,
            enable_rerank=not no_rerank,
            explain=explain and as_json,
        ),
        tenant,
    )
    if as_json:
        print_json(record(answer, without=() if explain else ("trace",)))
        return
    if not answer.items:
        print_note("no document says anything about that")
    for item in answer.items:
        print_line(f"{item.score:.3f}  {_cited(item.citation)}")
        print_line(f"       {shortened(item.content)}")


@document_commands.command()
def remove(document_id: Id, *, tenant: Tenant = DEVELOPMENT_TENANT) -> None:
    """Remove a document; what it said leaves recall at once."""
    ask(lambda caller: documents.delete_document(*caller, document_id), tenant)
    print_line("removed")


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
        found = json.loads(text) if text else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInput("--metadata must be a JSON object")
    return found
