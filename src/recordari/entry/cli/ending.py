"""`recordari forget`, `erase` and `export`: what a person may ask of a memory about them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from recordari.app import Memory
from recordari.core.checks import Progress
from recordari.errors import InvalidInput
from recordari.kit.commands import Tenant, open_memory
from recordari.kit.output import AsJson, Yes, confirm, counted, print_json, print_line, print_note, record
from recordari.memory.cli import progress_bar
from recordari.service.forget import Forgotten
from recordari.service.maintenance import DEVELOPMENT_TENANT

LOOK_SECONDS = 0.2


def forget(
    item_id: Annotated[UUID, typer.Argument(help="Id of the item: `recordari facts list`, `recall --json`.")],
    *,
    reason: Annotated[str | None, typer.Option(help="Why; it stands in the audit.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Redact an item with everything derived from it; it does not come back."""

    async def run(*, only_look: bool) -> Forgotten:
        async with open_memory(tenant) as memory:
            return await memory.forget(item_id, reason=reason, dry_run=only_look)

    if not dry_run:
        if not yes and sys.stdin.isatty():
            reached = len(asyncio.run(run(only_look=True)).item_ids)
            question = f"Forget this item and {reached - 1} derived from it? Nothing brings them back."
        else:
            question = "Forget this item and everything derived from it? Nothing brings them back."
        confirm(question, yes=yes)
    done = asyncio.run(run(only_look=dry_run))
    if as_json:
        print_json(done)
        return
    for each in done.item_ids:
        print_line(each)
    print_note(f"{counted(len(done.item_ids), 'item')} {'to be forgotten' if dry_run else 'forgotten'}")


def erase(
    user_id: Annotated[str, typer.Argument(help="Id of the user.")],
    *,
    tenant: Tenant = DEVELOPMENT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase a user everywhere: memories, sessions, keys, work that waits. Stopped, it is ended by a worker."""
    confirm(f"Erase everything of the user {user_id}? Nothing brings it back.", yes=yes)

    async def run() -> dict[str, Any]:
        async with open_memory(tenant) as memory:
            with progress_bar("items erased", hidden=as_json) as progress:
                return await _erased(memory, user_id, progress)

    done = asyncio.run(run())
    if as_json:
        print_json(done)
    else:
        print_line(f"{counted(done['items'], 'item')} and {counted(done['sessions'], 'session')} erased")


async def _erased(memory: Memory, user_id: str, progress: Progress) -> dict[str, Any]:
    started = await memory.start_erasing_user(user_id)
    erasing = asyncio.create_task(memory.erase_user(user_id))
    while not erasing.done():
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(erasing), LOOK_SECONDS)
        progress((await memory.get_erasure(started.erasure_id)).items, 0)
    return record(await erasing, without=("user_id", "user_hash"))


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
        async with open_memory(tenant) as memory:
            with progress_bar("lines", hidden=as_json or str(file) == "-") as progress:
                return await _write(memory.export(user_id=user), file, progress)

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
