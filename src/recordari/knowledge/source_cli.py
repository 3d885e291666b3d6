"""`recordari source`: what can be looked up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from recordari.errors import NotFound
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, ask, open_memory
from recordari.kit.output import AsJson, Yes, confirm, counted, print_json, print_line, print_note, print_table, record
from recordari.kit.verbs import Caller
from recordari.knowledge import sources
from recordari.knowledge import sync as sync_verbs
from recordari.knowledge.rules.knowledge_map import Source, SourceKind
from recordari.knowledge.sync import Synchronised
from recordari.memory.cli import PATIENCE, note_waiting, progress_bar, settle

source_commands = typer.Typer()

Name = Annotated[str, typer.Argument(help="Name of the source.")]


@source_commands.command()
def add(
    name: Name,
    *,
    kind: Annotated[SourceKind, typer.Option(help="What it is.")] = SourceKind.DOCUMENTS,
    description: Annotated[str, typer.Option(help="What can be found in it: the knowledge map tells agents.")] = "",
    tool: Annotated[str | None, typer.Option(help="The tool that reaches it, for an API or MCP server.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder to synchronise with; it must lie in RECORDARI_DOCUMENT_FOLDERS.")
    ] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Register a source: documents, a database, an API or an MCP server."""
    made = ask(
        lambda caller: sources.add_source(*caller, name, kind=kind, description=description, tool=tool, folder=folder),
        tenant,
    )
    if as_json:
        print_json(made)
        return
    print_line(f"{made.source_id}  {made.name}")
    if made.folder is not None:
        print_note(f"`recordari source sync {name}` takes its documents in")


@source_commands.command("list")
def list_all(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """List the sources."""
    found = ask(_all_sources, tenant)
    if as_json:
        print_json(found)
    else:
        hidden = ("source_id", "sync", "created_at", "tool")
        print_table(
            [record(source, without=hidden) for source in found],
            empty="there are no sources yet; add one with `recordari source add NAME`",
        )


@source_commands.command("map")
def show_map(*, tenant: Tenant = DEVELOPMENT_TENANT) -> None:
    """Print the knowledge map, as agents get it."""
    for line in ask(lambda caller: sources.knowledge_map(*caller), tenant).splitlines():
        print_line(line)


@source_commands.command()
def sync(name: Name, *, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Bring a source in line with its folder: what is new, changed and gone."""

    async def run() -> tuple[Synchronised, int]:
        async with open_memory(tenant, worker=True) as caller:
            source = await _named(caller, name)
            with progress_bar("documents", hidden=as_json) as progress:
                done = await sync_verbs.sync_source(*caller, source.source_id, progress=progress)
            with progress_bar("vectors", hidden=as_json) as progress:
                return done, await settle(caller, patience=PATIENCE, progress=progress)

    done, left = asyncio.run(run())
    if as_json:
        print_json({**record(done), "waiting": left})
        return
    print_line(
        f"{done.added} added, {done.revised} revised, {done.unchanged} unchanged, {done.removed} removed, "
        f"{done.failures} failed"
    )
    for file, reason in done.failed:
        print_note(f"{file}: {reason}")
    note_waiting(left)


@source_commands.command()
def remove(name: Name, *, tenant: Tenant = DEVELOPMENT_TENANT, yes: Yes = False) -> None:
    """Remove a source with its documents."""

    async def run() -> int:
        async with open_memory(tenant) as caller:
            source = await _named(caller, name)
            confirm(f"Remove {source.name} and its {source.documents} documents?", yes=yes)
            return await sync_verbs.remove_source(*caller, source.source_id)

    print_line(f"removed, with {counted(asyncio.run(run()), 'document')}")


async def _all_sources(caller: Caller) -> list[Source]:
    found: list[Source] = []
    while page := await sources.list_sources(*caller, after=found[-1].name if found else "", limit=100):
        found += page
    return found


async def _named(caller: Caller, name: str) -> Source:
    for source in await _all_sources(caller):
        if name in {source.name, str(source.source_id)}:
            return source
    raise NotFound(f"there is no source {name!r}; `recordari source list` shows them")
