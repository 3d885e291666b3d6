"""Counts of requests that servers on several machines share through Redis, exchanged twice a second.

No request waits for Redis. A process adds what it has counted since the last exchange, and learns what all have counted.
So a key may exceed its rate by what the servers let through within half a second. While Redis does not answer, each
server counts by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from recordari.core.telemetry import get_log
from recordari.kit.redis import connect_redis

log = get_log(__name__)

EXCHANGE_SECONDS = 0.5
TIMEOUT = 0.5
"""Seconds that Redis may take for an answer; nobody waits for it."""


@dataclass(slots=True)
class _Count:
    window: int
    seconds: float
    before: int
    """Hits of all servers in the window before."""
    known: int = 0
    """Hits of all servers in this window, as of the last exchange."""
    unsent: int = 0


class RemoteCounts:
    """A sliding window for each name, over every server that has the same Redis."""

    def __init__(self, url: str) -> None:
        self._client, self._errors = connect_redis(url, timeout=TIMEOUT)
        self._counts: dict[str, _Count] = {}
        self.is_shared = False
        """Whether Redis answered the last time; if not, others' hits are unknown."""

    def hit(self, name: str, *, most: int, seconds: float) -> float | None:
        """Count one request; if it is one too many, do not count it and return the seconds to wait."""
        window, within = divmod(time.time(), seconds)
        count = self._current(name, int(window), seconds)
        if count.known + count.unsent + count.before * (1 - within / seconds) + 1 > most:
            return seconds - within
        count.unsent += 1
        return None

    def _current(self, name: str, window: int, seconds: float) -> _Count:
        last = self._counts.get(name)
        if last is not None and last.window == window:
            return last
        before = last.known + last.unsent if last is not None and last.window == window - 1 else 0
        self._counts[name] = count = _Count(window, seconds, before)
        return count

    async def exchange(self) -> None:
        """Tell Redis what was counted here, and learn what all have counted of the same names."""
        sent = [(name, count, count.unsent) for name, count in self._counts.items() if count.unsent]
        pipeline = self._client.pipeline(transaction=False)
        pipeline.ping()
        for name, count, hits in sent:
            key = _key(name, count.seconds, count.window)
            pipeline.incrby(key, hits)
            pipeline.expire(key, int(2 * count.seconds) + 1)
            pipeline.get(_key(name, count.seconds, count.window - 1))
        try:
            _, *answers = await pipeline.execute()
        except self._errors as error:
            if self.is_shared:
                log.warning("rates_not_shared", error=error)
            self.is_shared = False
            self._counts.clear()
            return
        self.is_shared = True
        for (_, count, hits), known, before in zip(sent, answers[::3], answers[2::3], strict=True):
            count.known, count.before = known, int(before or 0)
            count.unsent -= hits
        self._forget_old()

    def _forget_old(self) -> None:
        now = time.time()
        self._counts = {name: count for name, count in self._counts.items() if (count.window + 2) * count.seconds > now}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Exchange for as long as the block lasts."""
        await self.exchange()
        task = asyncio.create_task(self._run(), name="rate counts")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self._client.aclose()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EXCHANGE_SECONDS)
            await self.exchange()


def _key(name: str, seconds: float, window: int) -> str:
    """A name in Redis; who calls cannot be read from it."""
    return f"mem:rate:{hashlib.blake2b(name.encode(), digest_size=12).hexdigest()}:{seconds:.0f}:{window}"
