"""What the commands that write many items share: a progress bar, and waiting until the items are embedded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from recordari.core.checks import Progress
from recordari.db import outbox
from recordari.kit.commands import ask
from recordari.kit.output import Note, console, counted
from recordari.kit.verbs import Caller
from recordari.memory.index import EMBED_TOPIC

T = TypeVar("T")

PATIENCE = 30.0  # seconds without headway after which the rest is left to a worker


def ask_and_embed(
    verb: Callable[[Caller, Progress], Awaitable[T]],
    name: str,
    tenant: str,
    *,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
) -> tuple[T, int]:
    """Do what writes many items, wait while they are embedded, and say how many are not; with progress bars."""

    async def run(caller: Caller) -> tuple[T, int]:
        with progress_bar(name) as progress:
            done = await verb(caller, progress)
        with progress_bar("vectors") as progress:
            return done, await settle(caller, patience=PATIENCE, progress=progress)

    return ask(run, tenant, user=user, agent=agent, session=session, worker=True)


async def settle(caller: Caller, *, patience: float, progress: Progress | None = None) -> int:
    """Wait while items are embedded, until none is left or nothing moves any more; how many are left.

    Background work of other processes is not waited for.
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


def left_to_worker(left: int) -> Note | None:
    """Say how many items a worker has to embed."""
    if not left:
        return None
    return Note(f"{counted(left, 'item')} still to be embedded; `recordari worker` or a running server does it")


@contextmanager
def progress_bar(name: str, *, hidden: bool = False) -> Iterator[Progress]:
    """Draw how many items are done, on standard error if it is a terminal; nothing of it stays."""
    from rich import progress as rich

    terminal = console(stderr=True)
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn())
    with rich.Progress(*columns, console=terminal, disable=hidden or not terminal.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


async def _waiting(caller: Caller) -> int:
    async with caller.resources.database.transaction(caller.identity) as tx:
        return await outbox.pending(tx, EMBED_TOPIC)
