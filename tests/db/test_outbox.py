"""The outbox: work commits with its change, is done at least once and in turn, or parked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.external_server import not_on_cluster
from tests.patience import until
from tests.stored import rows

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, TenantId
from recordari.core.ids import new_id
from recordari.db import outbox
from recordari.db.jobs import DeadLetterKind
from recordari.db.outbox import Batch
from recordari.db.queries import Query
from recordari.errors import Conflict, Forbidden, NotFound, ProviderError
from recordari.kit.resources import Resources
from recordari.runner import run_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources
from recordari.worker import dispatch
from recordari.worker.dispatch import YIELDING_BATCH, Courtesy, Pace, Topic

IMPATIENT = Pace(tick=0.1, retry_seconds=0.01, batch=8, batches=3)


@pytest.fixture
async def resources(resources: Resources) -> Resources:
    return resources.replacing(Pace, IMPATIENT)


@asynccontextmanager
async def working(resources: Resources, handlers: Mapping[str, Any], **limits: Any) -> AsyncIterator[None]:
    stop = asyncio.Event()
    topics = {name: Topic(handle=handler, **limits) for name, handler in handlers.items()}
    task = asyncio.create_task(run_worker(resources, stop, jobs={}, topics=topics))
    try:
        yield
    finally:
        stop.set()
        await task


async def add(memory: Memory, topic: str, number: int) -> list[UUID]:
    refs = [new_id() for _ in range(number)]
    async with memory.resources.database.transaction(memory.identity) as tx:
        await outbox.add(tx, topic, refs)
    return refs


async def pending(memory: Memory, topic: str) -> int:
    async with memory.resources.database.transaction(memory.identity) as tx:
        return await outbox.pending(tx, topic)


async def until_parked(memory: Memory, number: int = 1) -> None:
    async def parked() -> bool:
        return len(await memory.list_dead_letters()) == number

    await until(parked)


async def until_done(memory: Memory, topic: str) -> None:
    async def done() -> bool:
        return not await pending(memory, topic)

    await until(done)


async def another(memory: Memory, name: str) -> Memory:
    tenant = await tenants.ensure_tenant(memory.resources, name)
    return memory.bound(Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))


async def test_an_entry_rolls_back_with_its_transaction(memory: Memory) -> None:
    with pytest.raises(ZeroDivisionError):
        async with memory.resources.database.transaction(memory.identity) as tx:
            await outbox.add(tx, "embed", [new_id()])
            raise ZeroDivisionError
    assert await pending(memory, "embed") == 0


async def test_entries_reach_the_handler_with_the_identity_of_their_tenant(memory: Memory) -> None:
    seen: list[tuple[Identity, UUID]] = []

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        seen.extend((identity, ref) for ref in batch)

    async with working(memory.resources, {"embed": handle}):
        refs = await add(memory, "embed", 20)
        memory.resources.wake("embed")
        await until(lambda: len(seen) == 20)
    assert {ref for _, ref in seen} == set(refs)
    assert {(who.tenant_id, who.role, who.actor) for who, _ in seen} == {
        (memory.identity.tenant_id, Role.ADMIN, "job:embed")
    }
    assert await pending(memory, "embed") == 0


@pytest.mark.parametrize("requests_wait", [True, False])
async def test_while_requests_wait_small_batches_take_turns_and_all_work_is_done(
    memory: Memory, *, requests_wait: bool
) -> None:
    resources = memory.resources.replacing(Pace, replace(IMPATIENT, batch=100))
    courtesy = Courtesy()
    courtesy.requests_wait = lambda: requests_wait
    at_once, most = 0, 0
    sizes: list[int] = []

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        sizes.append(len(batch))
        await asyncio.sleep(0.02)
        at_once -= 1

    topics = ("embed", "extract", "judge")
    for topic in topics:
        await add(memory, topic, 40)
    async with working(resources.replacing(Courtesy, courtesy), dict.fromkeys(topics, handle)):
        for topic in topics:
            await until_done(memory, topic)
    assert sum(sizes) == 120
    if requests_wait:
        assert most == 1 and max(sizes) <= YIELDING_BATCH
    else:
        assert max(sizes) == 40


async def test_a_wake_up_reaches_the_worker_of_another_process(settings: Settings, memory: Memory) -> None:
    seen: list[UUID] = []

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        seen.extend(batch)

    # The other one looks for itself only once a minute: it can only have been told.
    async with (
        open_resources(settings) as elsewhere,
        working(elsewhere.replacing(Pace, replace(IMPATIENT, tick=60.0)), {"embed": handle}),
    ):
        for told in range(1, 5):  # the first two may be found by the looks that every start has
            await add(memory, "embed", 1)
            memory.resources.wake("embed")
            await until(lambda told=told: len(seen) == told)  # type: ignore[misc]


async def test_a_missed_wake_up_is_made_good_by_the_tick(memory: Memory) -> None:
    seen: list[UUID] = []

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        seen.extend(batch)

    refs: list[UUID] = []
    async with working(memory.resources, {"embed": handle}):
        for _ in range(4):  # the first two may be found by the looks that every start has
            refs.extend(await add(memory, "embed", 1))
            await until(lambda: seen == refs)


async def test_work_goes_on_after_the_clock_was_set_back(memory: Memory) -> None:
    """What was due at once, and what a dead worker held, is due two hours from now by the new clock."""
    seen: list[UUID] = []

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        seen.extend(batch)

    refs = await add(memory, "embed", 4)
    shift = "not_before = shifted(not_before, 7200), attempts = (ref = ANY(%s))::integer"
    rows(memory.resources.settings, f"UPDATE outbox SET {shift} RETURNING 1", refs[:2])
    async with working(memory.resources, {"embed": handle}):
        await until_done(memory, "embed")
    assert Counter(seen) == Counter(refs)


async def test_an_entry_that_keeps_failing_is_parked_and_can_be_replayed(memory: Memory) -> None:
    tries: Counter[UUID] = Counter()
    broken = True

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        tries.update(batch)
        if broken and bad in batch:
            raise ValueError("secret content")

    (bad, *good) = await add(memory, "embed", 6)
    async with working(memory.resources, {"embed": handle}):
        await until_parked(memory)
        (letter,) = await memory.list_dead_letters()
        assert (letter.kind, letter.name, letter.ref) == (DeadLetterKind.OUTBOX, "embed", bad)
        assert letter.attempts == tries[bad] == IMPATIENT.max_attempts
        assert letter.last_error == "ValueError"
        await until(lambda: all(tries[ref] > 1 for ref in good))
        # Those that shared its batch were tried once with it and once without it.
        assert {tries[ref] for ref in good} == {2}
        assert (await memory.job_counts()).outbox_parked == {"embed": 1}

        broken = False
        await memory.replay_dead_letter(letter.dead_letter_id)
        await until(lambda: tries[bad] == 6)
    assert await pending(memory, "embed") == 0
    assert [entry.action for entry in await memory.list_audit(limit=1)] == ["job.replay"]


async def test_every_dead_letter_can_be_replayed_at_once_or_discarded(memory: Memory) -> None:
    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        raise ValueError

    await add(memory, "embed", 3)
    async with working(memory.resources, {"embed": handle}):
        await until_parked(memory, 3)
    one, *_ = await memory.list_dead_letters()
    await memory.discard_dead_letter(one.dead_letter_id)
    assert await memory.replay_dead_letters() == 2
    assert await memory.list_dead_letters() == []
    assert await pending(memory, "embed") == 2


async def test_another_tenants_dead_letter_looks_like_a_missing_one(memory: Memory) -> None:
    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        raise ValueError

    await add(memory, "embed", 1)
    async with working(memory.resources, {"embed": handle}):
        await until_parked(memory)
    (letter,) = await memory.list_dead_letters()
    stranger = await another(memory, "stranger")
    assert await stranger.list_dead_letters() == []
    for wrong in (letter.dead_letter_id, "outbox:0", "job:1", "nonsense", "outbox:-1", "outbox:²"):
        with pytest.raises(NotFound):
            await stranger.replay_dead_letter(wrong)
        with pytest.raises(NotFound):
            await stranger.discard_dead_letter(wrong)
    agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id, role=Role.AGENT))
    with pytest.raises(Forbidden):
        await agent.list_dead_letters()
    assert len(await memory.list_dead_letters()) == 1


async def test_an_outage_uses_up_no_tries_and_work_goes_on_after_it(memory: Memory) -> None:
    tries = 0
    out_of_order = True

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        nonlocal tries
        tries += 1
        if out_of_order:
            raise ProviderError(service="the embedder")

    await add(memory, "embed", 3)
    async with working(memory.resources, {"embed": handle}):
        await until(lambda: tries > IMPATIENT.max_attempts)
        assert await memory.list_dead_letters() == []
        assert await pending(memory, "embed") == 3
        out_of_order = False
        await until_done(memory, "embed")


async def test_a_handler_that_hangs_is_counted_as_failed(memory: Memory) -> None:
    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        await asyncio.Event().wait()

    await add(memory, "embed", 1)
    async with working(memory.resources, {"embed": handle}, timeout=0.02):
        await until_parked(memory)
    (letter,) = await memory.list_dead_letters()
    assert letter.last_error == "TimeoutError"


async def test_two_workers_never_have_the_same_entry_at_once(settings: Settings, memory: Memory) -> None:
    holding: Counter[UUID] = Counter()
    handled: Counter[UUID] = Counter()
    overlaps: list[UUID] = []

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        holding.update(batch)
        overlaps.extend(ref for ref in batch if holding[ref] > 1)
        await asyncio.sleep(0.002)
        handled.update(batch)
        holding.subtract(batch)

    refs = [ref for name in "abcde" for ref in await add(await another(memory, name), "embed", 60)]
    async with (
        open_resources(settings) as elsewhere,
        working(memory.resources, {"embed": handle}),
        working(elsewhere.replacing(Pace, IMPATIENT), {"embed": handle}),
    ):
        await until(lambda: len(handled) == len(refs))
    assert overlaps == []
    assert handled == Counter(refs)


async def test_a_large_backlog_of_one_tenant_does_not_hold_up_the_others(memory: Memory) -> None:
    served: list[TenantId] = []

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        served.append(identity.tenant_id)

    await add(memory, "embed", 2_000)
    small = [await another(memory, f"small {number}") for number in range(5)]
    for each in small:
        await add(each, "embed", 1)
    async with working(memory.resources, {"embed": handle}):
        await until(lambda: {each.identity.tenant_id for each in small} <= set(served))
    last = max(served.index(each.identity.tenant_id) for each in small)
    assert served[:last].count(memory.identity.tenant_id) < 30  # of the 250 batches of the large one


async def test_a_worker_that_stops_hands_back_what_it_could_not_finish(memory: Memory) -> None:
    started: list[UUID] = []

    async def hang(resources: Resources, identity: Identity, batch: Batch) -> None:
        started.extend(batch)
        await asyncio.Event().wait()

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        finished.extend(batch)

    finished: list[UUID] = []
    refs = await add(memory, "embed", 4)
    async with working(memory.resources, {"embed": hang}):
        await until(lambda: len(started) == 4)
    async with working(memory.resources, {"embed": handle}):
        await until(lambda: sorted(finished) == sorted(refs))


async def test_a_worker_that_lost_its_lease_cannot_have_its_effect_twice(memory: Memory) -> None:
    await add(memory, "embed", 1)
    hasty = memory.resources.replacing(Pace, replace(IMPATIENT, stalled_seconds=0.001))
    (first,) = await dispatch.claim_fresh(hasty, "embed", dispatch.Round(), batches=1, size=1)
    await asyncio.sleep(0.01)
    second = await dispatch.claim_tried(hasty, "embed", dispatch.Round())
    assert second is not None and second.ids == first.ids
    with pytest.raises(Conflict):
        async with memory.resources.database.transaction(memory.identity) as tx:
            await outbox.done(tx, first)
    async with memory.resources.database.transaction(memory.identity) as tx:
        await outbox.done(tx, second)
    assert await pending(memory, "embed") == 0


async def test_a_long_batch_keeps_its_lease(memory: Memory) -> None:
    handled: list[UUID] = []
    lease = Query("tests.lease", "Until when the entry is held, and the time.", "SELECT not_before, now() FROM outbox")

    async def look(resources: Resources) -> tuple[datetime, datetime]:
        async with resources.database.queue() as rows:
            (row,) = await rows.dicts(lease)
            return row["not_before"], row["now"]

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        handled.extend(batch)
        first_end, now = await look(resources)
        while now < first_end + timedelta(seconds=1):
            await asyncio.sleep(0.2)
            _, now = await look(resources)

    refs = await add(memory, "embed", 1)
    # Long enough that a machine on which nothing moves for some seconds does not lose it.
    steadfast = memory.resources.replacing(Pace, replace(IMPATIENT, stalled_seconds=4.0))
    async with working(steadfast, {"embed": handle}):
        await until_done(memory, "embed")
    assert handled == refs


async def test_the_worker_survives_that_every_connection_is_cut(memory: Memory) -> None:
    seen: set[UUID] = set()

    async def handle(resources: Resources, identity: Identity, batch: Batch) -> None:
        seen.update(batch)

    cut = Query(
        "tests.cut",
        "End every other connection of this role.",
        """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
           WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()""",
    )
    wanted: set[UUID] = set()
    async with working(memory.resources, {"embed": handle}):
        for _ in range(3):
            wanted.update(await add(memory, "embed", 1))
            memory.resources.wake("embed")
            await until(lambda: wanted <= seen)
            async with memory.resources.database.queue() as rows:
                await rows.value(cut)


@not_on_cluster("it looks at the plan of one server, and a cluster claims otherwise")
async def test_the_claim_walks_the_index_from_tenant_to_tenant(memory: Memory) -> None:
    for name in ("a", "b", "c"):
        await add(await another(memory, name), "embed", 3_000)
    claim = outbox.queries.claim_fresh.sql
    explain = Query("tests.explain", "The plan of a claim.", "EXPLAIN (COSTS OFF) " + claim)
    async with memory.resources.database.queue() as rows:
        plan = await rows.dicts(
            explain,
            topic="embed",
            after=outbox.FIRST_TENANT,
            tenants=2,
            size=8,
            lease=dispatch.lease_of(memory.resources),
        )
    text = "\n".join(row["QUERY PLAN"] for row in plan)
    assert "outbox_fresh" in text
    assert "Seq Scan" not in text and "Hash" not in text, "a claim must not read the whole backlog"
