"""`recordari import` and `export`: JSON Lines of items, an export, or an export of mem0 or Zep."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from recordari.core.checks import Progress
from recordari.errors import InvalidInput
from recordari.kit.commands import DEVELOPMENT_TENANT, Agent, Session, Tenant, User, Yes, ask
from recordari.kit.output import Answer, Hint, confirm, counted, print_note, record
from recordari.kit.verbs import Caller
from recordari.memory import remember
from recordari.memory.cli import ask_and_embed, left_to_worker, progress_bar
from recordari.memory.rest import ImportSummary, Lines
from recordari.transfer import export as export_verbs
from recordari.transfer import import_export
from recordari.transfer.export import FORMAT
from recordari.transfer.import_export import Imported
from recordari.transfer.rules import READERS, ForeignOwner, ForeignSource

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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Of --from: only say what would be imported.")] = False,
) -> Answer:
    """Import a history: one item per line, in the form of `POST /v1/items`, each with its `source_ref`.

    You can stop it at any point and start it again: items that exist already are skipped. A file that
    `recordari export` wrote is recognised by its first line. With --from the file is an answer of the other product's API, its
    data export, or a transcript (a folder has many); each reason for leaving out memories is printed with a count.
    """
    owner = {"user": user, "agent": agent, "session": session}
    if source is not None:
        document = _read_lines(file) if source.is_lines else _read_json(file)
        if dry_run:
            return _planned(source, document, ForeignOwner(user_id=user, agent_id=agent, session_id=session))
        result, waiting = ask_and_embed(
            lambda caller, progress: import_export.import_foreign(*caller, source, document, progress=progress),
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


def _planned(source: ForeignSource, document: Any, owner: ForeignOwner) -> Answer:
    memories = list(READERS[source](document, owner))
    items = [one for one in memories if one.item is not None]
    moments = sorted(one.item.event_time for one in items if one.item is not None and one.item.event_time is not None)
    reasons = Counter(one.left_out for one in memories if one.left_out is not None)
    sessions = len({one.session_id for one in items if one.session_id is not None})
    data = {"read": len(memories), "importable": len(items), "sessions": sessions, "skipped": dict(reasons)}
    times = f", from {moments[0]:%Y-%m-%d} to {moments[-1]:%Y-%m-%d}" if moments else ""
    return Answer(
        data,
        f"{counted(len(items), 'memory', 'memories')} of {counted(sessions, 'session')} would be imported{times}; nothing was",
        *(f"{number} would be left out: {reason}" for reason, number in reasons.items()),
    )


def _read_lines(file: Path) -> list[Any]:
    """The objects of JSON Lines, of a file or of all such files in a folder; a line that was cut short is left out."""
    files = sorted(file.rglob("*.jsonl")) if file.is_dir() else [file]
    lines: list[Any] = []
    for each in files:
        with _open(each) as (opened, _):
            for line in opened:
                with suppress(ValueError):
                    lines.append(json.loads(line))
    return lines


def _read_json(file: Path) -> Any:
    with _open(file) as (opened, _):
        try:
            return json.load(opened)
        except (ValueError, RecursionError):
            raise InvalidInput(f"{file} is not JSON") from None


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
