"""`recordari reindex` and `reembed`: everything derived, derived again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from recordari.core.checks import Progress
from recordari.kit.commands import DEVELOPMENT_TENANT, Tenant, open_memory
from recordari.kit.output import AsJson, console, counted, print_json, print_line, print_note, record
from recordari.kit.verbs import Caller
from recordari.memory import index
from recordari.memory.index import EMBED_TOPIC, Reembedding
from recordari.worker import jobs

PATIENCE = 30.0  # seconds without headway after which the rest is left to a worker


def reindex(*, tenant: Tenant = DEVELOPMENT_TENANT, as_json: AsJson = False) -> None:
    """Derive index columns, vectors and entities again from the rows; it can be stopped and repeated."""

    async def run() -> tuple[int, int]:
        async with open_memory(tenant, worker=True) as caller:
            with progress_bar("index", hidden=as_json) as progress:
                done = await index.reindex(*caller, progress=progress)
            with progress_bar("vectors", hidden=as_json) as progress:
                return done, await settle(caller, patience=PATIENCE, progress=progress)

    done, left = asyncio.run(run())
    if as_json:
        print_json({"items": done, "waiting": left})
    else:
        print_line(f"{counted(done, 'item')} indexed")
        note_waiting(left)


def reembed(
    *,
    model: Annotated[
        str | None, typer.Option(help="Name of the model (`recordari models list`); else the configured one.")
    ] = None,
    tenant: Tenant = DEVELOPMENT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Move to another embedding model while recall goes on; it can be stopped, and goes on where it stopped."""

    async def run() -> Reembedding:
        async with open_memory(tenant) as caller:
            with progress_bar("vectors", hidden=as_json) as progress:
                return await index.reembed(*caller, model_id=model, progress=progress)

    done = asyncio.run(run())
    if as_json:
        print_json(record(done))
    else:
        print_line(f"{done.done} of {counted(done.total, 'item')} embedded; recall uses {done.model_id} now")


async def settle(caller: Caller, *, patience: float, progress: Progress | None = None) -> int:
    """Wait while items are being embedded, until none waits or nothing moves any more; how many wait then.

    Where background work is left to other processes it is not waited for.
    """
    most = left = await _waiting(caller)
    moved = time.monotonic()
    while left and caller.resources.settings.worker and time.monotonic() - moved < patience:
        if progress is not None:
            progress(most - left, most)
        await asyncio.sleep(0.05)
        now = await _waiting(caller)
        if now < left:
            moved = time.monotonic()
        most, left = max(most, now), now
    return left


def note_waiting(left: int) -> None:
    """Say what is left to a worker."""
    if left:
        print_note(f"{counted(left, 'item')} still to be embedded; `recordari worker` or a running server does it")


@contextmanager
def progress_bar(name: str, *, hidden: bool) -> Iterator[Progress]:
    """Draw how many items are done; on standard error, and only on a terminal."""
    from rich import progress as rich

    terminal = console(stderr=True)
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn())
    with rich.Progress(*columns, console=terminal, disable=hidden or not terminal.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


async def _waiting(caller: Caller) -> int:
    return (await jobs.job_counts(*caller)).outbox_pending.get(EMBED_TOPIC, 0)
