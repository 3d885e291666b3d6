"""Admission control (X9): requests beyond capacity are refused at once, and no tenant takes every place."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from recordari.core.identity import TenantId
from recordari.errors import Overloaded


class Admission:
    """A bounded number of places, a bounded queue before them, and a fair share of both for each tenant.

    A free place goes to the oldest waiting request of a tenant below its share, and to the others only if there is
    none. A full queue makes room for a tenant below its share by refusing the newest request of the tenant that holds
    most of it.
    """

    def __init__(
        self, *, places: int = 64, queue: int = 64, wait_seconds: float = 1.0, tenant_share: float = 0.5
    ) -> None:
        self._places = places
        self._queue = queue
        self._wait_seconds = wait_seconds
        self._place_share = max(1, int(places * tenant_share))
        self._queue_share = max(1, int(queue * tenant_share))
        self._running: Counter[TenantId] = Counter()
        self._waiting: dict[asyncio.Future[None], TenantId] = {}  # oldest first; a result grants a place
        self._refused = 0

    def figures(self) -> dict[str, float]:
        """Places in use, requests waiting, and requests refused so far."""
        return {"running": self._running.total(), "waiting": len(self._waiting), "refused": self._refused}

    @asynccontextmanager
    async def place(self, tenant_id: TenantId) -> AsyncIterator[ExitStack]:
        """Hold a place for the block, or raise `Overloaded` if none becomes free in time.

        `close()` of the stack gives the place back early.
        """
        if self._running.total() < self._places and not self._waiting:
            self._running[tenant_id] += 1
        else:
            await self._wait(tenant_id)
        with ExitStack() as held:
            held.callback(self._release, tenant_id)
            yield held

    def _release(self, tenant_id: TenantId) -> None:
        self._running[tenant_id] -= 1
        if not self._running[tenant_id]:
            del self._running[tenant_id]
        self._hand_on()

    async def _wait(self, tenant_id: TenantId) -> None:
        if len(self._waiting) >= self._queue and not self._make_room(tenant_id):
            raise self._refusal()
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[granted] = tenant_id
        try:
            async with asyncio.timeout(self._wait_seconds):
                await granted
        except BaseException as error:
            is_waiting = self._waiting.pop(granted, None) is not None
            if not is_waiting and granted.done() and not granted.cancelled() and granted.exception() is None:
                self._release(tenant_id)  # granted at the moment of giving up
            if isinstance(error, TimeoutError):
                raise self._refusal() from None
            raise

    def _hand_on(self) -> None:
        while self._waiting and self._running.total() < self._places:
            below_share = (
                granted for granted, tenant_id in self._waiting.items() if self._running[tenant_id] < self._place_share
            )
            granted = next(below_share, next(iter(self._waiting)))
            tenant_id = self._waiting.pop(granted)
            if not granted.done():
                self._running[tenant_id] += 1
                granted.set_result(None)

    def _make_room(self, tenant_id: TenantId) -> bool:
        queued = Counter(self._waiting.values())
        if not queued or queued[tenant_id] >= self._queue_share:
            return False
        busiest, held = queued.most_common(1)[0]
        if busiest == tenant_id or held <= self._queue_share:
            return False
        newest = next(granted for granted, waiting in reversed(self._waiting.items()) if waiting == busiest)
        del self._waiting[newest]
        if not newest.done():
            newest.set_exception(self._refusal())
        return True

    def _refusal(self) -> Overloaded:
        self._refused += 1
        return Overloaded(retry_after=max(1.0, self._wait_seconds))
