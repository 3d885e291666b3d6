"""Work through any number of items batch by batch: the next batch is prepared while one is kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from recordari.core.cache import each
from recordari.core.checks import Progress
from recordari.core.items import NewItem
from recordari.errors import RecordariError

IMPORT_BATCH = 250
IMPORT_CHARACTERS = 4 * 2**20

News = Iterable[NewItem] | AsyncIterable[NewItem]
R = TypeVar("R")
T = TypeVar("T")


async def kept_in_batches(
    news: News,
    prepare: Callable[[Sequence[NewItem]], Coroutine[Any, Any, T]],
    keep: Callable[[T], Awaitable[list[R]]],
    *,
    total: int,
    progress: Progress | None,
) -> AsyncIterator[list[R]]:
    """Keep one batch after the other; `index` of an error is the position of the refused item.

    The next batch is prepared while one is kept.
    """
    done = 0
    async for batch, preparation in _prepared_ahead(_batches(news), prepare):
        try:
            remembered = await keep(await preparation)
        except RecordariError as error:
            index = error.details.get("index", 0)
            if index:
                yield await keep(await prepare(batch[:index]))
            error.details["index"] = done + index
            raise
        yield remembered
        done += len(batch)
        if progress is not None:
            progress(done, total)


async def _prepared_ahead(
    batches: AsyncIterator[list[NewItem]], prepare: Callable[[Sequence[NewItem]], Coroutine[Any, Any, T]]
) -> AsyncIterator[tuple[list[NewItem], asyncio.Task[T]]]:
    """Each batch with its preparation, while that of the next one runs."""
    waiting: list[tuple[list[NewItem], asyncio.Task[T]]] = []
    try:
        async for batch in batches:
            waiting.append((batch, asyncio.create_task(prepare(batch))))
            if len(waiting) > 1:
                yield waiting.pop(0)
    except Exception:
        if waiting:
            yield waiting.pop(0)  # what came before the error is kept
        raise
    else:
        if waiting:
            yield waiting.pop(0)
    finally:
        for _, task in waiting:  # nobody wants it any more, nor its error
            task.cancel()
            await asyncio.wait([task])


async def _batches(news: News) -> AsyncIterator[list[NewItem]]:
    """Batches of limited number and limited text."""
    batch: list[NewItem] = []
    size = 0
    async for new in each(news):
        batch.append(new)
        size += len(new.content)
        if len(batch) == IMPORT_BATCH or size > IMPORT_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
