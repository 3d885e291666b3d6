"""`recordari import` and `export`: a history as JSON Lines, an export, or an export of mem0 or Zep."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from recordari.core.checks import Progress
from recordari.errors import InvalidInput
from recordari.kit.commands import DEVELOPMENT_TENANT, Agent, Session, Tenant, User, Yes, ask
from recordari.kit.output import Answer, Note, confirm, counted, print_note, record
from recordari.kit.verbs import Caller
from recordari.memory import remember
from recordari.memory.cli import ask_and_embed, left_to_worker, progress_bar
from recordari.memory.rest import ImportSummary, Lines
from recordari.transfer import export as export_verbs
from recordari.transfer import foreign, import_export
from recordari.transfer.export import FORMAT
from recordari.transfer.import_export import Imported
from recordari.transfer.rules import ForeignSource

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
) -> Answer:
    """Import a history: one item per line, in the form of `POST /v1/items`, each with its `source_ref`.

    You can stop it at any point and start it again: items that are here already are passed over. A file that
    `recordari export` wrote is known by its first line and read whole. With --from the file holds what the other product's
    API returns; each reason for leaving something out is printed with a count.
    """
    if source is not None:
        document = _read_json(file)
        found, left = ask_and_embed(
            lambda caller, progress: foreign.import_foreign(*caller, source, document, progress=progress),
            "memories",
            tenant,
            user=user,
            agent=agent,
            session=session,
        )
        return Answer(
            {**record(found), "waiting": left},
            f"{counted(found.read, 'memory', 'memories')} read, {found.new} new, {found.existing} here already",
            *(f"{number} left out: {reason}" for reason, number in found.skipped.items()),
            left_to_worker(left),
        )
    if _is_export(file):
        return _import_export(file, tenant)
    with _opened(file) as (lines, total):
        summary, left = ask_and_embed(
            lambda caller, progress: _import_history(caller, lines, total, progress),
            "items",
            tenant,
            user=user,
            agent=agent,
            session=session,
        )
    return Answer(
        {**summary.model_dump(), "waiting": left},
        f"{counted(summary.read, 'item')} read, {summary.new} new, {summary.existing} here already",
        left_to_worker(left),
    )


async def _import_history(caller: Caller, source: BinaryIO, total: int, progress: Progress) -> ImportSummary:
    lines = Lines()
    return await lines.summed(remember.import_items(*caller, lines.read(source), total=total, progress=progress))


def _read_json(file: Path) -> Any:
    with _opened(file) as (opened, _):
        try:
            return json.load(opened)
        except (ValueError, RecursionError):
            raise InvalidInput(f"{file} is not JSON") from None


def _is_export(file: Path) -> bool:
    if str(file) == "-":
        return False
    with _opened(file) as (source, _):
        return f'"{FORMAT}"'.encode() in source.readline(MAX_HEADER)


def _import_export(file: Path, tenant: str) -> Answer:
    with _opened(file) as (source, total):

        async def run(caller: Caller) -> Imported:
            with progress_bar("lines") as progress:
                return await import_export.import_export(*caller, _counted(source, total, progress))

        done = ask(run, tenant)
    return Answer(
        done,
        ", ".join(f"{count} of {kind}" for kind, count in done.written.items() if count) or "nothing new",
        f"{counted(done.known_items, 'item')} here already, {done.forgotten_items} stay forgotten",
    )


def _counted(source: BinaryIO, total: int, progress: Progress) -> Iterator[str]:
    for number, line in enumerate(source, start=1):
        progress(number, total)
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInput(f"line {number} is not UTF-8") from None


@contextmanager
def _opened(file: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The file and the number of its lines; 0 for standard input, whose length is not known."""
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
) -> Answer | None:
    """Write everything of a tenant or of one user as JSON Lines; `recordari import` reads it again."""
    if file.exists() and file.is_file():
        confirm(f"Write over {file}?", yes=yes)
    to_screen = str(file) == "-"

    async def run(caller: Caller) -> int:
        with progress_bar("lines", hidden=to_screen) as progress:
            return await _write(export_verbs.export(*caller, user_id=user), file, progress)

    written = ask(run, tenant)
    note = f"{counted(written, 'line')} written"
    if to_screen:  # the lines are the answer, with --json too
        print_note(note)
        return None
    return Answer({"file": str(file), "lines": written}, Note(note))


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
