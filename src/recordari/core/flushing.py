"""Writing later what was gathered in the process: once after a while, and when the process ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from recordari.core.telemetry import Log
from recordari.errors import RecordariError


class LaterFlush:
    """Calls `flush` some seconds after `start`; what it cannot write stays gathered until the next time."""

    def __init__(self, flush: Callable[[], Awaitable[object]], *, seconds: float, log: Log, failure: str) -> None:
        self._flush = flush
        self._seconds = seconds
        self._log = log
        self._failure = failure
        self._waiting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Flush after a while, if nothing waits to do that already."""
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.create_task(self._later())

    async def _later(self) -> None:
        await asyncio.sleep(self._seconds)
        try:
            await self._flush()
        except RecordariError as error:
            self._log.warning(self._failure, error=type(error).__name__)

    async def close(self) -> None:
        """Write what is left and stop."""
        if self._waiting is not None:
            self._waiting.cancel()
            with suppress(asyncio.CancelledError):
                await self._waiting
        with suppress(RecordariError):
            await self._flush()


T = TypeVar("T")


async def each(values: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """Every value in order."""
    if isinstance(values, AsyncIterable):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value
