"""Helpers for data that stays in the process for a while: a bounded map, and writes that are made later."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from recordari.core.telemetry import Log
from recordari.errors import RecordariError

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


if TYPE_CHECKING:
    from functools import cached_property

    unlocked_property = cached_property
else:

    class unlocked_property:  # noqa: N801  # a decorator
        """`functools.cached_property` without its lock, which costs more than many values before Python 3.12."""

        def __init__(self, make):
            self._make = make
            self._name = make.__name__

        def __get__(self, instance, owner=None):
            value = instance.__dict__[self._name] = self._make(instance)
            return value


class BoundedMap(Generic[K, V]):
    """Keeps the values used last, at most `most`, and none for longer than `seconds`."""

    def __init__(
        self, most: int, *, seconds: float = float("inf"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        value, until = entry
        if self._clock() >= until:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, *, seconds: float | None = None) -> V:
        """Keep a value, for `seconds` if set, and return it; the least recently used value makes room."""
        self._entries[key] = value, self._clock() + (self._seconds if seconds is None else seconds)
        self._entries.move_to_end(key)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return value

    def pop(self, key: K) -> V | None:
        return self._entries.pop(key, (None,))[0]

    def drop(self, is_dropped: Callable[[K, V], bool]) -> None:
        for key in [key for key, (value, _) in self._entries.items() if is_dropped(key, value)]:
            del self._entries[key]

    def clear(self) -> None:
        self._entries.clear()

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._entries))


class LaterFlush:
    """Calls `flush` some seconds after `start`; after a failure the data waits for the next flush."""

    def __init__(self, flush: Callable[[], Awaitable[object]], *, seconds: float, log: Log, failure: str) -> None:
        self._flush = flush
        self._seconds = seconds
        self._log = log
        self._failure = failure
        self._waiting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Flush after a while, unless a flush waits already."""
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.create_task(self._later())

    async def _later(self) -> None:
        await asyncio.sleep(self._seconds)
        try:
            await self._flush()
        except RecordariError as error:
            self._log.warning(self._failure, error=type(error).__name__)

    async def close(self) -> None:
        """Flush once more and stop."""
        if self._waiting is not None:
            self._waiting.cancel()
            with suppress(asyncio.CancelledError):
                await self._waiting
        with suppress(RecordariError):
            await self._flush()


async def each(values: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """Iterate over values that may be async."""
    if isinstance(values, AsyncIterable):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value
