"""Work through the outbox: lease a batch, run its handler, save the outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from recordari.core.identity import Identity, TenantId, job_identity
from recordari.core.telemetry import get_log
from recordari.db import outbox
from recordari.db.jobs import Schedule, retry_delay
from recordari.db.outbox import Batch
from recordari.errors import DatabaseUnavailable, Overloaded, ProviderError, RecordariError
from recordari.kit.resources import Resources

log = get_log(__name__)

Handler = Callable[[Resources, Identity, Batch], Awaitable[None]]

# Failures of other services, not of the work: they do not count as tries.
OUTAGES = (ProviderError, DatabaseUnavailable, Overloaded)
LONGEST_OUTAGE_DELAY = timedelta(seconds=60)
OUTAGE_PATIENCE = timedelta(days=1)
LONGEST_DELAY = timedelta(minutes=10)
"""Longer than any lease and any pause between tries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The pace of a worker; the same in every process."""

    jobs: int = 4
    """Jobs that run at a time."""
    batches: int = 4
    """Batches of one topic in flight."""
    batch: int = 64
    """Most entries of one tenant in a batch."""
    tick: float = 5.0
    """Longest time in seconds until a missed wake-up is noticed."""
    max_attempts: int = 5
    """Tries of a job or an entry, crashes included."""
    retry_seconds: float = 2.0
    """Wait before the second try; each further one is four times as long."""
    stalled_seconds: float = 20.0
    """Silence after which a job or a batch counts as stalled."""


class BatchOutcome(StrEnum):
    DONE = "done"
    FAILED = "failed"
    OUTAGE = "outage"
    """Another service does not work."""


@dataclass(slots=True, kw_only=True)
class Round:
    """The last tenants served, so that each gets its turn."""

    fresh: TenantId = outbox.FIRST_TENANT
    tried: TenantId = outbox.FIRST_TENANT


def lease_of(resources: Resources) -> timedelta:
    return timedelta(seconds=resources.get(Pace).stalled_seconds)


async def claim_fresh(resources: Resources, topic: str, turn: Round, *, batches: int, size: int) -> list[Batch]:
    """Lease entries without a try, of at most `batches` tenants, from the tenant after the last one served."""
    lease, claimed = lease_of(resources), []
    async with resources.database.queue() as rows:
        for after in dict.fromkeys((turn.fresh, outbox.FIRST_TENANT)):
            claimed = await outbox.claim_fresh(rows, topic, after=after, tenants=batches, size=size, lease=lease)
            if claimed:
                break
    turn.fresh = claimed[-1].tenant_id if claimed else outbox.FIRST_TENANT
    return claimed


async def claim_tried(resources: Resources, topic: str, turn: Round) -> Batch | None:
    """Lease one entry that failed or crashed before, alone, so that it cannot harm others."""
    lease, budget, claimed = lease_of(resources), resources.get(Pace).max_attempts, None
    async with resources.database.queue() as rows:
        for after in dict.fromkeys((turn.tried, outbox.FIRST_TENANT)):
            claimed = await outbox.claim_tried(rows, topic, after=after, budget=budget, lease=lease)
            if claimed:
                break
    turn.tried = claimed.tenant_id if claimed else outbox.FIRST_TENANT
    return claimed


async def handle(
    resources: Resources, handler: Handler, batch: Batch, *, seconds: float, strikes_off: bool = False
) -> BatchOutcome:
    """Run the handler on a batch and save the outcome; a handler with `strikes_off` has removed its entries itself."""
    identity = job_identity(batch.tenant_id, batch.topic)
    try:
        async with asyncio.timeout(seconds):
            await handler(resources, identity, batch)
        if not strikes_off:
            async with resources.database.transaction(identity) as tx:
                await outbox.done(tx, batch)
    except asyncio.CancelledError:
        await asyncio.shield(_save_outcome(resources, identity, batch, None))
        raise
    except Exception as error:  # noqa: BLE001 - after any error the batch is tried again or parked
        log.warning("batch_failed", topic=batch.topic, entries=len(batch), error=type(error).__name__)
        await _save_outcome(resources, identity, batch, error)
        return BatchOutcome.OUTAGE if isinstance(error, OUTAGES) else BatchOutcome.FAILED
    return BatchOutcome.DONE


async def _save_outcome(resources: Resources, identity: Identity, batch: Batch, error: Exception | None) -> None:
    """Save the outcome; if that fails too, the lease expires and the entries become due by themselves."""
    pace, name = resources.get(Pace), type(error).__name__
    try:
        async with resources.database.transaction(identity) as tx:
            if error is None:
                await outbox.release(tx, batch)
            elif isinstance(error, OUTAGES):
                await outbox.postpone(
                    tx,
                    batch,
                    error=name,
                    shortest=timedelta(seconds=pace.retry_seconds),
                    longest=LONGEST_OUTAGE_DELAY,
                    patience=OUTAGE_PATIENCE,
                )
            else:
                delay = retry_delay(batch.attempts, first=pace.retry_seconds)
                await outbox.fail(tx, batch, error=name, delay=timedelta(seconds=delay), budget=pace.max_attempts)
    except RecordariError as failure:
        log.warning("outcome_not_saved", topic=batch.topic, error=type(failure).__name__)


GATHER_SECONDS = 0.1
QUIET_SECONDS = 0.004
LOOKS, LOOK_SECONDS = 10, 0.02
LONGEST_TURN = 1.0
YIELDING_BATCH = 16


class Courtesy:
    """Lets work in the background yield to the requests that wait in the same process.

    While requests wait, batches are small, and those of all topics take turns: each begins when the last one has ended and
    no request waits any more, or after a fifth of a second. So the work goes on during a flood, a little at a time.
    """

    def __init__(self) -> None:
        self.requests_wait: Callable[[], bool] = lambda: False
        """The server of the process says so."""
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[bool]:
        """Wait for the turn of a topic, and keep it for the block; False if there is no need to yield."""
        if not self.requests_wait():
            yield False
            return
        async with self._turn:
            for _ in range(LOOKS):
                if not self.requests_wait():
                    break
                await asyncio.sleep(LOOK_SECONDS)
            yield True


class Dispatcher:
    """Works through one topic, tenant by tenant in turn.

    Entries without a try are handled in batches. An entry that failed or crashed before is handled alone, one at a time
    in a process: an entry that kills the process then does not use up the tries of others.
    """

    def __init__(self, resources: Resources, name: str, topic: Topic) -> None:
        self.resources = resources
        self.name = name
        self.topic = topic
        self._pace = resources.get(Pace)
        self._courtesy = resources.get(Courtesy)
        self._bell = resources.wakeups.bell(name)
        self._turn = Round()
        self._fresh: dict[asyncio.Task[None], Batch] = {}
        self._tried: dict[asyncio.Task[None], Batch] = {}
        self._paused_until = 0.0
        self._look_at_tried_at = 0.0
        self._is_full = False
        self._stopping = False

    async def run(self) -> None:
        """Claim and handle batches until `stop`; raises when the database is away."""
        renewing = asyncio.create_task(self._renew())
        try:
            while not self._stopping:
                self._bell.clear()
                claimed_at = time.monotonic()
                async with self._courtesy.turn() as yielding:
                    is_busy = await self._claim(yielding=yielding)
                    if yielding and self._fresh:
                        await asyncio.wait([*self._fresh], timeout=LONGEST_TURN)
                if not is_busy:
                    await self._wait()
                    await self._gather(claimed_at + self.topic.pause)
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)

    def stop(self) -> None:
        self._stopping = True
        self._bell.set()

    async def close(self, seconds: float) -> None:
        """Let running batches finish; release those that take longer."""
        running = [*self._fresh, *self._tried]
        if running:
            _, late = await asyncio.wait(running, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _claim(self, *, yielding: bool) -> bool:
        """Claim as many batches as can run, or a small one; return whether there were any."""
        if time.monotonic() < self._paused_until:
            return False
        is_busy = False
        free = min(self._pace.batches - len(self._fresh), 1 if yielding else self._pace.batches)
        if free > 0:
            size = self.topic.batch or self._pace.batch
            size = min(size, YIELDING_BATCH) if yielding else size
            claimed = await claim_fresh(self.resources, self.name, self._turn, batches=free, size=size)
            for batch in claimed:
                self._start(self._fresh, batch)
            is_busy = self._is_full = len(claimed) == free or any(len(batch) == size for batch in claimed)
        now = time.monotonic()
        if not self._tried and now >= self._look_at_tried_at:
            self._look_at_tried_at = now + self._pace.tick
            batch_of_one = await claim_tried(self.resources, self.name, self._turn)
            if batch_of_one is not None:
                self._start(self._tried, batch_of_one)
                self._look_at_tried_at = 0.0
                is_busy = True
        return is_busy

    def _start(self, lane: dict[asyncio.Task[None], Batch], batch: Batch) -> None:
        task = asyncio.create_task(self._work(batch), name=f"outbox {self.name}")
        lane[task] = batch

        def ended(task: asyncio.Task[None]) -> None:
            del lane[task]
            if self._is_full or lane is self._tried:
                self._bell.set()  # there is more

        task.add_done_callback(ended)

    async def _work(self, batch: Batch) -> None:
        topic = self.topic
        outcome = await handle(
            self.resources, topic.handle, batch, seconds=topic.timeout, strikes_off=topic.strikes_off
        )
        if outcome is BatchOutcome.OUTAGE:
            # Another service does not work: look again after a tick, not at full speed.
            self._paused_until = time.monotonic() + self._pace.tick
        elif outcome is BatchOutcome.FAILED:
            self._look_at_tried_at = 0.0
            self._bell.set()

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.tick):
                await self._bell.wait()

    async def _gather(self, earliest: float) -> None:
        """Wait briefly while entries keep coming: a large batch costs little more than a small one."""
        if not self._stopping and (rest := earliest - time.monotonic()) > 0:
            await asyncio.sleep(rest)
        until = time.monotonic() + GATHER_SECONDS
        while self._bell.is_set() and not self._stopping and time.monotonic() < until:
            self._bell.clear()
            await asyncio.sleep(QUIET_SECONDS)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._pace.stalled_seconds / 4)
            held = [*self._fresh.values(), *self._tried.values()]
            if held:
                try:
                    async with self.resources.database.queue() as rows:
                        await outbox.renew(rows, held, lease=lease_of(self.resources))
                except Exception as error:  # noqa: BLE001 - a lease that is not renewed expires, which is safe
                    log.warning("leases_not_renewed", topic=self.name, error=type(error).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One kind of job: its function, its times and its limits."""

    run: Callable[..., Awaitable[object]]
    """A verb: `(resources, identity, **args)`; the result is not used."""
    cron: str | None = None
    """When it is due, in UTC; None: only on request."""
    spread: timedelta = timedelta(hours=1)
    """The window after each due time in which tenants get their turn; at most the time between two due times."""
    concurrency: int = 8
    """The most open runs over all workers; the setting `job_concurrency` overrides it."""
    max_attempts: int | None = None
    """Tries, crashes included; None: as `Pace` says."""
    exclusive: bool = True
    """Whether two runs for one tenant must not overlap."""
    timeout: float = 600.0
    """Seconds after which a run counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    handle: Handler
    batch: int | None = None
    """Most entries of one tenant in a batch; None: as `Pace` says."""
    timeout: float = 120.0
    """Seconds after which a batch counts as failed."""
    strikes_off: bool = False
    """Whether the handler itself calls `outbox.done`, unless it raises."""
    pause: float = 0.0
    """Seconds between two claims, unless the one before was full: the first entry is handled at once, the next ones
    gather."""


def schedules(table: Mapping[str, Job]) -> tuple[Schedule, ...]:
    return tuple(
        Schedule(job=name, cron=job.cron, spread=job.spread, concurrency=job.concurrency, exclusive=job.exclusive)
        for name, job in table.items()
        if job.cron is not None
    )
