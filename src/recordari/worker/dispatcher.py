"""Drains one topic of the outbox: claims when rung or once in a tick, with several batches in flight."""

from __future__ import annotations

import asyncio
import time

from recordari.core.telemetry import get_log
from recordari.db.outbox import Batch
from recordari.kit.resources import Resources
from recordari.service import dispatch
from recordari.service.dispatch import Outcome
from recordari.worker.tasks import Topic

log = get_log(__name__)

GATHER_SECONDS = 0.1
QUIET_SECONDS = 0.004


class Dispatcher:
    """Works through one topic, tenant by tenant in turn.

    Entries never tried before are worked on in batches. An entry that failed or crashed before is worked on
    alone, and only one of these at a time in a process: one that kills the process then cannot take the same
    innocent entries with it again and again, until they are given up too.
    """

    def __init__(self, resources: Resources, name: str, topic: Topic) -> None:
        self.resources = resources
        self.name = name
        self.topic = topic
        self._bell = resources.wakeups.bell(name)
        self._place = dispatch.Round()
        self._fresh: dict[asyncio.Task[None], Batch] = {}
        self._tried: dict[asyncio.Task[None], Batch] = {}
        self._paused_until = 0.0
        self._look_at_tried_at = 0.0
        self._is_full = False
        self._stopping = False

    async def run(self) -> None:
        """Claim and hand out until told to stop; raises when the database is away."""
        renewing = asyncio.create_task(self._renew())
        try:
            while not self._stopping:
                self._bell.clear()
                if not await self._claim():
                    await self._wait()
                    await self._gather()
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    def stop(self) -> None:
        """Claim no more."""
        self._stopping = True
        self._bell.set()

    async def close(self, seconds: float) -> None:
        """Let what is in flight finish; hand back what takes longer."""
        running = [*self._fresh, *self._tried]
        if running:
            _, late = await asyncio.wait(running, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _claim(self) -> bool:
        """Fill the free places; whether anything was found."""
        if time.monotonic() < self._paused_until:
            return False
        found = False
        free = self.resources.settings.dispatch_concurrency - len(self._fresh)
        if free > 0:
            size = self.topic.batch or self.resources.settings.dispatch_batch
            claimed = await dispatch.claim_fresh(self.resources, self.name, self._place, batches=free, size=size)
            for batch in claimed:
                self._start(self._fresh, batch)
            found = self._is_full = len(claimed) == free or any(len(batch) == size for batch in claimed)
        now = time.monotonic()
        if not self._tried and now >= self._look_at_tried_at:
            self._look_at_tried_at = now + self.resources.settings.dispatch_tick
            batch_of_one = await dispatch.claim_tried(self.resources, self.name, self._place)
            if batch_of_one is not None:
                self._start(self._tried, batch_of_one)
                self._look_at_tried_at = 0.0
                found = True
        return found

    def _start(self, lane: dict[asyncio.Task[None], Batch], batch: Batch) -> None:
        task = asyncio.create_task(self._work(batch), name=f"outbox {self.name}")
        lane[task] = batch

        def ended(task: asyncio.Task[None]) -> None:
            del lane[task]
            if self._is_full or lane is self._tried:
                self._bell.set()  # more of it was left behind

        task.add_done_callback(ended)

    async def _work(self, batch: Batch) -> None:
        outcome = await dispatch.handle(
            self.resources,
            self.topic.handle,
            batch,
            seconds=self.topic.timeout,
            strikes_off=self.topic.strikes_off,
        )
        if outcome is Outcome.OUTAGE:
            # Something outside is out of order: look again after a tick, not at full speed.
            self._paused_until = time.monotonic() + self.resources.settings.dispatch_tick
        elif outcome is Outcome.FAILED:
            self._look_at_tried_at = 0.0
            self._bell.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self.resources.settings.dispatch_tick):
                await self._bell.wait()
        except TimeoutError:
            return

    async def _gather(self) -> None:
        """Let more come together while it comes thick and fast: a batch costs much the same, however few it holds."""
        until = time.monotonic() + GATHER_SECONDS
        while self._bell.is_set() and not self._stopping and time.monotonic() < until:
            self._bell.clear()
            await asyncio.sleep(QUIET_SECONDS)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self.resources.settings.job_stalled_seconds / 4)
            held = [*self._fresh.values(), *self._tried.values()]
            if held:
                try:
                    await dispatch.renew(self.resources, held)
                except Exception as error:  # noqa: BLE001 - a lease that is not renewed runs out, which is safe
                    log.warning("leases_not_renewed", topic=self.name, error=type(error).__name__)
