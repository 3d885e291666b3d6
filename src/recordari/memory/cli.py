"""What commands share that write many items: waiting until they are embedded, and how far that is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from recordari.core.checks import Progress
from recordari.db import outbox
from recordari.kit.output import console, counted, print_note
from recordari.kit.verbs import Caller
from recordari.memory.index import EMBED_TOPIC

PATIENCE = 30.0  # seconds without headway after which the rest is left to a worker


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
    async with caller.resources.database.transaction(caller.identity) as tx:
        return await outbox.pending(tx, EMBED_TOPIC)
