"""Shared by the commands that write many items: a progress bar, and waiting until the items are embedded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from recordari.core.checks import Progress
from recordari.db import outbox
from recordari.kit.commands import ask
from recordari.kit.output import Hint, console, counted
from recordari.kit.verbs import Caller
from recordari.memory.index import EMBED_TOPIC

T = TypeVar("T")

PATIENCE = 30.0  # seconds without progress, then a worker does the rest


def ask_and_embed(
    verb: Callable[[Caller, Progress], Awaitable[T]],
    name: str,
    tenant: str,
    *,
    user: str | None = None,
    agent: str | None = None,
    session: str | None = None,
) -> tuple[T, int]:
    """Run a verb that writes many items, and wait until they are embedded. Return its answer, and how many are not."""

    async def run(caller: Caller) -> tuple[T, int]:
        with progress_bar(name) as progress:
            answer = await verb(caller, progress)
        with progress_bar("vectors") as progress:
            return answer, await settle(caller, patience=PATIENCE, progress=progress)

    return ask(run, tenant, user=user, agent=agent, session=session, worker=True)


async def settle(caller: Caller, *, patience: float, progress: Progress | None = None) -> int:
    """Wait until all items are embedded, or until there is no progress for `patience` seconds. Return how many are not.

    Without a worker in this process, it does not wait.
    """
    total = rest = await _pending(caller)
    progress_at = time.monotonic()
    while rest and caller.resources.settings.worker and time.monotonic() - progress_at < patience:
        if progress is not None:
            progress(total - rest, total)
        await asyncio.sleep(0.05)
        before, rest = rest, await _pending(caller)
        if rest < before:
            progress_at = time.monotonic()
        total = max(total, rest)
    return rest


def left_to_worker(rest: int) -> Hint | None:
    """A note on the items that a worker has to embed."""
    if not rest:
        return None
    return Hint(f"{counted(rest, 'item')} still to be embedded; `recordari worker` or a running server does it")


@contextmanager
def progress_bar(name: str, *, hidden: bool = False) -> Iterator[Progress]:
    """Show a progress bar on standard error if it is a terminal; it disappears at the end."""
    from rich import progress as rich

    terminal = console(stderr=True)
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn())
    with rich.Progress(*columns, console=terminal, disable=hidden or not terminal.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


async def _pending(caller: Caller) -> int:
    async with caller.resources.database.transaction(caller.identity) as tx:
        return await outbox.pending(tx, EMBED_TOPIC)
