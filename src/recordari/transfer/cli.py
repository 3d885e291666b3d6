"""`recordari import` and `export`: JSON Lines of items, an export, or a history of another product."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from recordari.core.checks import Progress
from recordari.errors import InvalidInput
from recordari.kit.commands import DEVELOPMENT_TENANT, Agent, Session, Tenant, User, Yes, ask
from recordari.kit.output import Answer, Hint, confirm, counted, print_note, record, shortened
from recordari.kit.verbs import Caller
from recordari.memory import remember
from recordari.memory.cli import ask_and_embed, left_to_worker, progress_bar
from recordari.memory.rest import ImportSummary, Lines
from recordari.transfer import export as export_verbs
from recordari.transfer import foreign, import_export
from recordari.transfer.export import FORMAT
from recordari.transfer.files import read_document
from recordari.transfer.import_export import Imported
from recordari.transfer.rules import ForeignSource, ImportedForeign

MAX_HEADER = 10_000
SHOWN_FACTS = 20


def import_file(
    file: Annotated[Path, typer.Argument(help="One JSON object per line; `-` reads standard input.")],
    *,
    source: Annotated[
        ForeignSource | None, typer.Option("--from", help="The file, folder or archive is of that product.")
    ] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    user: User = None,
    agent: Agent = None,
    session: Session = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Of --from: only say what would be imported and learnt.")
    ] = False,
) -> Answer:
    """Import a history: one item per line, in the form of `POST /v1/items`, each with its `source_ref`.

    You can stop it at any point and start it again: items that exist already are skipped. A file that
    `recordari export` wrote is recognised by its first line. With --from it is an answer of the other product's API, its data
    export as it was downloaded, or a folder of transcripts or notes; each reason for leaving out memories is printed with a
    count.
    """
    owner = {"user": user, "agent": agent, "session": session}
    if source is not None:
        return _import_foreign(source, file, dry_run=dry_run, tenant=tenant, **owner)
    if dry_run:
        raise InvalidInput("--dry-run is for files of other products; name one with --from")
    if _is_export(file):
        return _import_export(file, tenant)
    with _open(file) as (opened, total):

        async def run(caller: Caller, progress: Progress) -> ImportSummary:
            lines = Lines()
            items = remember.import_items(*caller, lines.read(opened), total=total, progress=progress)
            return await lines.summed(items)

        summary, waiting = ask_and_embed(run, "items", tenant, **owner)
    return Answer(
        {**summary.model_dump(), "waiting": waiting},
        f"{counted(summary.read, 'item')} read, {summary.new} new, {summary.existing} here already",
        left_to_worker(waiting),
    )


def _import_foreign(source: ForeignSource, file: Path, *, dry_run: bool, tenant: str, **owner: str | None) -> Answer:
    document = read_document(source, file)
    if not dry_run:
        result, waiting = ask_and_embed(
            lambda caller, progress: foreign.import_foreign(*caller, source, document, progress=progress),
            "memories",
            tenant,
            **owner,
        )
        return Answer(
            {**record(result), "waiting": waiting},
            f"{counted(result.read, 'memory', 'memories')} read, {result.new} new, {result.existing} here already",
            *(f"{number} left out: {reason}" for reason, number in result.skipped.items()),
            left_to_worker(waiting),
        )

    async def plan(caller: Caller) -> ImportedForeign:
        with progress_bar("memories") as progress:
            return await foreign.import_foreign(*caller, source, document, dry_run=True, progress=progress)

    return _planned(ask(plan, tenant, user=owner["user"], agent=owner["agent"], session=owner["session"]))


def _planned(plan: ImportedForeign) -> Answer:
    """What a dry run says: how much would be imported, from when, and what would be learnt from it."""
    times = f", from {plan.first_at:%Y-%m-%d} to {plan.last_at:%Y-%m-%d}" if plan.first_at and plan.last_at else ""
    of = f" of {counted(plan.sessions, 'session')}" if plan.sessions else ""
    learnt = (
        f"{counted(len(plan.facts), 'fact')} would be learnt" if plan.facts else "no fact would be learnt by the rules"
    )
    return Answer(
        plan,
        f"{counted(plan.new, 'memory', 'memories')}{of} would be imported{times}; {plan.existing} here already",
        *(f"{number} would be left out: {reason}" for reason, number in plan.skipped.items()),
        learnt,
        *(f"- {shortened(fact)}" for fact in plan.facts[:SHOWN_FACTS]),
        Hint("--json lists all of them") if len(plan.facts) > SHOWN_FACTS else None,
        Hint("nothing was imported; leave out --dry-run to do it"),
    )


def _is_export(file: Path) -> bool:
    if str(file) == "-":
        return False
    with _open(file) as (source, _):
        return f'"{FORMAT}"'.encode() in source.readline(MAX_HEADER)


def _import_export(file: Path, tenant: str) -> Answer:
    with _open(file) as (source, total):

        async def run(caller: Caller) -> Imported:
            with progress_bar("lines") as progress:
                return await import_export.import_export(*caller, _lines(source, total, progress))

        imported = ask(run, tenant)
    return Answer(
        imported,
        ", ".join(f"{count} of {kind}" for kind, count in imported.written.items() if count) or "nothing new",
        f"{counted(imported.known_items, 'item')} here already, {imported.forgotten_items} stay forgotten",
    )


def _lines(source: BinaryIO, total: int, progress: Progress) -> Iterator[str]:
    for number, line in enumerate(source, start=1):
        progress(number, total)
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            raise InvalidInput(f"line {number} is not UTF-8") from None


@contextmanager
def _open(file: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The file and the number of its lines; 0 for standard input, whose length is unknown."""
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
    file: Annotated[Path, typer.Argument(help="File to write; `-` is standard output.")],
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

    count = ask(run, tenant)
    note = f"{counted(count, 'line')} written"
    if to_screen:  # the lines are the answer, with --json too
        print_note(note)
        return None
    return Answer({"file": str(file), "lines": count}, Hint(note))


async def _write(lines: AsyncIterator[str], file: Path, progress: Progress) -> int:
    """Write a temporary file first, so that an existing file is never cut short."""
    count = 0
    if str(file) == "-":
        async for line in lines:
            # JSON has no raw control characters; characters that change the direction of text are escaped too.
            sys.stdout.write(line.encode("ascii", "backslashreplace").decode() if sys.stdout.isatty() else line)
            sys.stdout.write("\n")
            count += 1
        return count
    part = file.with_name(f"{file.name}.part")
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
