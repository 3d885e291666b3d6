"""Background work: done at once and in order, so that a test need not wait, or by a real worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from recordari.app import Memory
from recordari.db import outbox
from recordari.runner import background_worker
from recordari.schedule import JOBS, TOPICS
from recordari.worker import dispatch
from recordari.worker.dispatch import BatchOutcome
from tests.patience import until


async def work_off(memory: Memory, *topics: str) -> None:
    """Handle everything that waits in the outbox under these topics; all of them when none is named."""
    for topic in topics or tuple(TOPICS):
        place = dispatch.Round()
        while batches := await dispatch.claim_fresh(memory.resources, topic, place, batches=4, size=64):
            for batch in batches:
                outcome = await dispatch.handle(memory.resources, TOPICS[topic].handle, batch, seconds=60)
                assert outcome is BatchOutcome.DONE


async def settled(memory: Memory) -> None:
    """Let a worker do everything that waits."""
    async with background_worker(memory.resources):
        await until_settled(memory)


async def until_settled(memory: Memory) -> None:
    """Wait until the worker that runs has nothing left to do."""

    async def is_settled() -> bool:
        async with memory.resources.database.transaction(memory.identity) as tx:
            # One look at all topics: each step asks for the next one in the transaction that ends it.
            waiting, _ = await outbox.count_by_topic(tx)
        return not waiting

    await until(is_settled)


async def run_job(memory: Memory, name: str) -> None:
    """Run a job of the tenant."""
    await JOBS[name].run(memory.resources, memory.identity)


def at(memory: Memory, moment: datetime | timedelta) -> Memory:
    """The same memory at another time: at a moment, or so much later than now."""
    clock: Callable[[], datetime] = memory.resources.clock
    if isinstance(moment, timedelta):
        later = moment
        changed = replace(memory.resources, clock=lambda: clock() + later)
    else:
        fixed = moment
        changed = replace(memory.resources, clock=lambda: fixed)
    return type(memory)(changed, memory.identity)
