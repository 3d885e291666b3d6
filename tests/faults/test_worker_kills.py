"""Workers that are killed: nothing is lost, nothing has its effect twice, and what kills them is parked.

`RECORDARI_TEST_KILLS` sets how many kills the campaign makes. The killed process runs this module too.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.core.ids import new_id
from recordari.db import jobs, outbox
from recordari.db.outbox import Batch
from recordari.db.queries import Query
from recordari.kit.resources import Resources
from recordari.runner import run_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources
from recordari.worker.dispatch import Job, Pace, Topic

pytestmark = pytest.mark.faults

KILLS = int(os.environ.get("RECORDARI_TEST_KILLS", "8"))
ROOT = Path(__file__).parents[2]
PER_TENANT = 150 + 25 * KILLS
IMPATIENT = Pace(stalled_seconds=1.0, tick=0.2, batch=8, retry_seconds=0.05)

RECORD = Query(
    "tests.record",
    "Note an effect, as often as it happens.",
    "INSERT INTO effects (kind, ref) VALUES (%(kind)s, %(ref)s)",
)
RECORD_ONCE = Query(
    "tests.record_once",
    "Note an effect that does no harm when it happens again.",
    "INSERT INTO effects (kind, ref) VALUES (%(kind)s, %(ref)s) ON CONFLICT DO NOTHING",
)


async def exact(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Has its effect in the transaction that strikes the entries off."""
    await asyncio.sleep(0.01)
    async with resources.database.transaction(identity) as tx:
        for ref in batch:
            await tx.run(RECORD, kind="exact", ref=ref)
        await outbox.done(tx, batch)


async def idempotent(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Has its effect first; the entries are struck off later."""
    async with resources.database.transaction(identity) as tx:
        for ref in batch:
            await tx.run(RECORD_ONCE, kind="idempotent", ref=ref)
    await asyncio.sleep(0.01)


async def poison(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Kills the process when the entry made for that is in the batch, which begins with 0xffff."""
    async with resources.database.transaction(identity) as tx:
        for ref in batch:
            await tx.run(RECORD, kind="poison", ref=ref)
    if any(ref.bytes[:2] == b"\xff\xff" for ref in batch):
        os.kill(os.getpid(), signal.SIGKILL)


async def step(resources: Resources, identity: Identity, *, ref: str) -> None:
    async with resources.database.transaction(identity) as tx:
        await tx.run(RECORD_ONCE, kind="job", ref=UUID(ref))
    await asyncio.sleep(0.02)


async def deadly(resources: Resources, identity: Identity, *, ref: str) -> None:
    async with resources.database.transaction(identity) as tx:
        await tx.run(RECORD, kind="deadly", ref=UUID(ref))
    os.kill(os.getpid(), signal.SIGKILL)


async def work() -> None:
    """Run the worker that is to be killed; its settings come from the environment."""
    attempts = int(os.environ["RECORDARI_TEST_ATTEMPTS"])
    async with open_resources(Settings()) as resources:
        await run_worker(
            resources.replacing(Pace, replace(IMPATIENT, max_attempts=attempts)),
            asyncio.Event(),
            jobs={"step": Job(run=step), "deadly": Job(run=deadly)},
            topics={
                "exact": Topic(handle=exact),
                "idempotent": Topic(handle=idempotent),
                "poison": Topic(handle=poison),
            },
        )


@pytest.fixture
def settings(settings: Settings) -> Settings:
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value()) as connection:
        connection.execute(
            "CREATE TABLE recordari_queue.effects (kind text, ref uuid, pid int DEFAULT pg_backend_pid())"
        )
        connection.execute(
            "CREATE UNIQUE INDEX ON recordari_queue.effects (kind, ref) WHERE kind IN ('idempotent', 'job')"
        )
        connection.execute("GRANT SELECT, INSERT ON recordari_queue.effects TO recordari_app")
    return settings


@contextmanager
def worker(settings: Settings, *, attempts: int = IMPATIENT.max_attempts) -> Iterator[subprocess.Popen[bytes]]:
    """Start a worker in a process of its own, and kill it at the end if it lives."""
    assert settings.database_url is not None
    environment = {
        **os.environ,
        **PATIENT_ENVIRONMENT,
        "RECORDARI_DATABASE_URL": settings.database_url.get_secret_value(),
        "RECORDARI_AUTO_MIGRATE": "false",
        "RECORDARI_HOME": str(settings.home),
        "RECORDARI_TEST_ATTEMPTS": str(attempts),
    }
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio; from tests.faults.test_worker_kills import work; asyncio.run(work())",
        ],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def effects(resources: Resources, kind: str) -> dict[UUID, int]:
    count = Query(
        "tests.effects",
        "How often each effect happened.",
        "SELECT ref, count(*) AS times FROM effects WHERE kind = %(kind)s GROUP BY ref",
    )
    async with resources.database.queue() as rows:
        return {row["ref"]: row["times"] for row in await rows.dicts(count, kind=kind)}


async def rows_left(resources: Resources) -> int:
    left = Query(
        "tests.left",
        "What is still to be done.",
        """SELECT (SELECT count(*) FROM outbox WHERE parked_at IS NULL)
               + (SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))""",
    )
    async with resources.database.queue() as rows:
        return int(await rows.value(left))


@pytest.fixture
async def owners(resources: Resources) -> AsyncIterator[list[Memory]]:
    made = []
    for name in ("one", "two", "three"):
        tenant = await tenants.ensure_tenant(resources, name)
        made.append(Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)))
    yield made


async def enqueued(owner: Memory) -> dict[str, set[UUID]]:
    """Give the tenant work of each kind; the effects that it is to have."""
    async with owner.resources.database.transaction(owner.identity) as tx:
        wanted = {topic: {new_id() for _ in range(PER_TENANT)} for topic in ("exact", "idempotent")}
        for topic, refs in wanted.items():
            await outbox.add(tx, topic, sorted(refs))
        wanted["job"] = {new_id() for _ in range(PER_TENANT // 4)}
        for ref in wanted["job"]:
            await jobs.defer(tx, "step", args={"ref": str(ref)})
    return wanted


@pytest.mark.timeout(600 + 30 * KILLS)
async def test_nothing_is_lost_or_done_twice_when_workers_are_killed(
    settings: Settings, resources: Resources, owners: list[Memory]
) -> None:
    attempts = 50  # by default, what was in the hands of five killed workers would be parked
    wanted: dict[str, set[UUID]] = {"exact": set(), "idempotent": set(), "job": set()}

    async def achieved() -> int:
        return sum([len(await effects(resources, kind)) for kind in wanted])

    killed_at_work = 0
    while killed_at_work < KILLS:
        if not await rows_left(resources):  # at first, and where a worker was done before it could be killed
            for owner in owners:
                for kind, refs in (await enqueued(owner)).items():
                    wanted[kind] |= refs
        with worker(settings, attempts=attempts) as process:
            before = await achieved()
            async with asyncio.timeout(PATIENCE):
                while await achieved() == before and await rows_left(resources):
                    await asyncio.sleep(0.02)
            await asyncio.sleep(random.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
            process.wait()
        killed_at_work += bool(await rows_left(resources))
    with worker(settings, attempts=attempts):
        async with asyncio.timeout(PATIENCE + KILLS * 5):
            while await rows_left(resources):
                await asyncio.sleep(0.1)

    found = {kind: await effects(resources, kind) for kind in wanted}
    assert {kind: set(refs) for kind, refs in found.items()} == wanted
    assert {times for refs in found.values() for times in refs.values()} == {1}
    for owner in owners:
        assert await owner.list_dead_letters() == []


async def restarted_until_parked(settings: Settings, owner: Memory) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await owner.list_dead_letters():
            with worker(settings) as process:
                while process.poll() is None and not await owner.list_dead_letters():
                    await asyncio.sleep(0.05)


async def test_an_entry_that_kills_its_worker_is_parked_and_its_neighbours_are_done(
    settings: Settings, owners: list[Memory]
) -> None:
    owner, *_ = owners
    deadly_ref = UUID(bytes=b"\xff\xff" + new_id().bytes[2:])
    innocent = [new_id() for _ in range(30)]
    async with owner.resources.database.transaction(owner.identity) as tx:
        await outbox.add(tx, "poison", [*innocent[:4], deadly_ref, *innocent[4:]])
    await restarted_until_parked(settings, owner)
    with worker(settings):
        async with asyncio.timeout(PATIENCE):
            while await rows_left(owner.resources):
                await asyncio.sleep(0.05)
    (letter,) = await owner.list_dead_letters()
    assert (letter.ref, letter.last_error) == (deadly_ref, "Crashed")
    happened = await effects(owner.resources, "poison")
    assert happened[deadly_ref] <= IMPATIENT.max_attempts
    assert set(innocent) <= set(happened)


async def test_a_job_that_kills_its_worker_is_parked(settings: Settings, owners: list[Memory]) -> None:
    owner, *_ = owners
    ref = new_id()
    async with owner.resources.database.transaction(owner.identity) as tx:
        await jobs.defer(tx, "deadly", args={"ref": str(ref)})
    await restarted_until_parked(settings, owner)
    (letter,) = await owner.list_dead_letters()
    assert (letter.name, letter.last_error, letter.attempts) == ("deadly", "Crashed", 5)
    assert await effects(owner.resources, "deadly") == {ref: 5}


def test_a_killed_worker_is_made_good_within_thirty_seconds_by_default() -> None:
    pace = Pace()
    silence = pace.stalled_seconds
    assert silence + silence / 4 <= 30, "jobs: silence until the next sweep, which tells the workers"
    assert silence + pace.tick <= 30, "outbox: the lease until the next tick"
    assert pace.max_attempts <= 5
