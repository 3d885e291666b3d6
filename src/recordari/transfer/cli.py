"""`recordari import`: a history, one JSON object per line of a file; or what mem0 or Zep exported."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from recordari.core.checks import Progress
from recordari.errors import InvalidInput
from recordari.kit.commands import DEVELOPMENT_TENANT, Agent, Session, Tenant, User, open_memory
from recordari.kit.output import (
    AsJson,
    Yes,
    confirm,
    counted,
    print_json,
    print_line,
    print_note,
    record,
)
from recordari.kit.verbs import Caller
from recordari.memory import remember
from recordari.memory.cli import PATIENCE, note_waiting, progress_bar, settle
from recordari.memory.rest import ImportSummary, Lines
from recordari.transfer import export as export_verbs
from recordari.transfer import foreign, import_export
from recordari.transfer.export import FORMAT
from recordari.transfer.import_export import Imported
from recordari.transfer.rules import ForeignSource, ImportedForeign

MAX_HEADER = 10_000


def import_file(
    file: Annotated[Path, typer.Argument(help="One JSON object per line; `-` reads standard input.")],
    *,
    source: Annotated[
        ForeignSource | None, typer.Option("--from", help="The file is an export of that product, as JSON.")
    ] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    as_json: AsJson = False,
) -> None:
    """Remember a history: one item per line, in the form of `POST /v1/items`, each with its `source_ref`.

    Stopped at any point and started again it goes on where it stopped: what is here already is passed over. A file that
    `recordari export` wrote is known by its first line and read whole. With --from the file holds what the other product's
    API returns; what cannot be kept is counted with its reason.
    """
    if source is not None:
        _import_foreign(source, file, tenant=tenant, user=user, agent=agent, session=session, as_json=as_json)
        return
    if _is_export(file):
        _import_export(file, tenant=tenant, as_json=as_json)
        return

    async def run(opened: BinaryIO, total: int) -> tuple[ImportSummary, int]:
        async with open_memory(tenant, user=user, agent=agent, session=session, worker=True) as caller:
            with progress_bar("items", hidden=as_json) as progress:
                summary = await _keep(caller, opened, total, progress)
            with progress_bar("vectors", hidden=as_json) as progress:
                return summary, await settle(caller, patience=PATIENCE, progress=progress)

    with _opened(file) as (opened, total):
        summary, left = asyncio.run(run(opened, total))
    if as_json:
        print_json({**summary.model_dump(), "waiting": left})
    else:
        print_line(f"{counted(summary.read, 'item')} read, {summary.new} new, {summary.existing} here already")
        note_waiting(left)


def _is_export(file: Path) -> bool:
    if str(file) == "-":
        return False
    with _opened(file) as (source, _):
        return f'"{FORMAT}"'.encode() in source.readline(MAX_HEADER)


def _import_export(file: Path, *, tenant: str, as_json: bool) -> None:
    async def run(source: BinaryIO, total: int) -> Imported:
        async with open_memory(tenant) as caller:
            with progress_bar("lines", hidden=as_json) as progress:
                return await import_export.import_export(*caller, _counted(source, total, progress))

    with _opened(file) as (source, total):
        done = asyncio.run(run(source, total))
    if as_json:
        print_json(done)
    else:
        print_line(", ".join(f"{count} of {kind}" for kind, count in done.written.items() if count) or "nothing new")
        print_line(f"{counted(done.known_items, 'item')} here already, {done.forgotten_items} stay forgotten")


def _counted(source: BinaryIO, total: int, progress: Progress) -> Iterator[str]:
    for number, line in enumerate(source, start=1):
        progress(number, total)
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInput(f"line {number} is not UTF-8") from None


def _import_foreign(
    source: ForeignSource,
    file: Path,
    *,
    tenant: str,
    user: str | None,
    agent: str | None,
    session: str | None,
    as_json: bool,
) -> None:
    with _opened(file) as (opened, _):
        try:
            document = json.load(opened)
        except (ValueError, RecursionError):
            raise InvalidInput(f"{file} is not JSON") from None

    async def run() -> tuple[ImportedForeign, int]:
        async with open_memory(tenant, user=user, agent=agent, session=session, worker=True) as caller:
            with progress_bar("memories", hidden=as_json) as progress:
                done = await foreign.import_foreign(*caller, source, document, progress=progress)
            with progress_bar("vectors", hidden=as_json) as progress:
                return done, await settle(caller, patience=PATIENCE, progress=progress)

    done, left = asyncio.run(run())
    if as_json:
        print_json({**record(done), "waiting": left})
        return
    print_line(f"{counted(done.read, 'memory', 'memories')} read, {done.new} new, {done.existing} here already")
    for reason, number in done.skipped.items():
        print_line(f"{number} left out: {reason}")
    note_waiting(left)


async def _keep(caller: Caller, source: BinaryIO, total: int, progress: Progress) -> ImportSummary:
    lines = Lines()
    return await lines.summed(remember.import_items(*caller, lines.read(source), total=total, progress=progress))


@contextmanager
def _opened(file: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The file and the number of its lines; 0 for standard input, whose end nobody knows."""
    if str(file) == "-":
        yield sys.stdin.buffer, 0
        return
    try:
        with file.open("rb") as source:
            total = sum(1 for _ in source)
            source.seek(0)
            yield source, total
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from None


def export(
    file: Annotated[Path, typer.Argument(help="Where to write it; `-` is standard output.")],
    *,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only this user's.")] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Write everything of a tenant or of one user as JSON Lines; `recordari import` reads it again."""
    if file.exists() and file.is_file():
        confirm(f"Write over {file}?", yes=yes)

    async def run() -> int:
        async with open_memory(tenant) as caller:
            with progress_bar("lines", hidden=as_json or str(file) == "-") as progress:
                return await _write(export_verbs.export(*caller, user_id=user), file, progress)

    written = asyncio.run(run())
    if as_json and str(file) != "-":
        print_json({"file": str(file), "lines": written})
    else:
        print_note(f"{counted(written, 'line')} written")


async def _write(lines: AsyncIterator[str], file: Path, progress: Progress) -> int:
    """Write to a file beside it first: what is there already is whole, whatever happens."""
    if str(file) == "-":
        count = 0
        async for line in lines:
            # JSON has no raw control characters; what could turn a line around is escaped as well.
            sys.stdout.write(line.encode("ascii", "backslashreplace").decode() if sys.stdout.isatty() else line)
            sys.stdout.write("\n")
            count += 1
        return count
    part, count = file.with_name(f"{file.name}.part"), 0
    try:
        with part.open("w", encoding="utf-8") as target:
            async for line in lines:
                target.write(f"{line}\n")
                count += 1
                progress(count, 0)
        part.replace(file)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
    return count
