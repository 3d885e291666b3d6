"""Embedding under faults: a killed worker loses nothing, a broken embedder stops no write and no recall.

`RECORDARI_TEST_KILLS` sets how many times the worker is killed (the campaign uses 30), `RECORDARI_TEST_ITEMS` how many items.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.json_server import Reply, Request, json_server
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.items import NewItem
from recordari.db.queries import Query
from recordari.kit.resources import Resources
from recordari.memory.index import EMBED_TOPIC
from recordari.runner import background_worker, run_worker
from recordari.schedule import TOPICS
from recordari.tenants import tenants
from recordari.wiring import open_resources
from recordari.worker.dispatch import Pace

pytestmark = pytest.mark.faults

KILLS = int(os.environ.get("RECORDARI_TEST_KILLS", "5"))
ITEMS = int(os.environ.get("RECORDARI_TEST_ITEMS", "1500"))
IMPATIENT = Pace(tick=0.2, retry_seconds=0.05, stalled_seconds=1.0, max_attempts=50)
COUNTS = Query(
    "tests.counts",
    "How many items have a vector, how many vectors there are, and what still waits.",
    """SELECT (SELECT count(DISTINCT item_id) FROM vectors WHERE tenant_id = %(tenant_id)s) AS embedded,
           (SELECT count(*) FROM vectors WHERE tenant_id = %(tenant_id)s) AS vectors,
           (SELECT count(*) FROM outbox WHERE tenant_id = %(tenant_id)s) AS waiting""",
)


async def counts(memory: Memory) -> dict[str, Any]:
    async with memory.resources.database.transaction(memory.identity) as tx:
        (row,) = await tx.dicts(COUNTS)
        return row


async def fill(memory: Memory, count: int) -> None:
    for start in range(0, count, 500):
        await memory.remember_many(
            [
                NewItem(
                    content=f"note {number} about parcel {number * 31 % 977}", source_ref=f"n-{number}", session_id="s"
                )
                for number in range(start, min(start + 500, count))
            ]
        )


async def work() -> None:
    """Run the worker that is to be killed; its settings come from the environment."""
    async with open_resources(Settings()) as resources:
        await run_worker(resources.replacing(Pace, IMPATIENT), asyncio.Event())


def start_worker(settings: Settings) -> subprocess.Popen[bytes]:
    assert settings.database_url is not None
    environment = {
        **os.environ,
        **PATIENT_ENVIRONMENT,
        "RECORDARI_DATABASE_URL": settings.database_url.get_secret_value(),
        "RECORDARI_AUTO_MIGRATE": "false",
        "RECORDARI_HOME": str(settings.home),
        "RECORDARI_EMBEDDING_PROFILE": "fast",
    }
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import asyncio; from tests.faults.test_embedding_faults import work; asyncio.run(work())",
        ],
        cwd=Path(__file__).parents[2],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


async def test_every_item_is_embedded_once_though_the_worker_is_killed(settings: Settings, memory: Memory) -> None:
    await fill(memory, ITEMS)
    chance = random.Random(7)
    embedded_before = 0
    for _ in range(KILLS):
        worker = start_worker(settings)
        try:
            async with asyncio.timeout(PATIENCE):  # kill it while it is at work, not while it starts
                while True:
                    await asyncio.sleep(0.02)
                    row = await counts(memory)
                    if row["embedded"] > embedded_before or not row["waiting"]:
                        break
            await asyncio.sleep(chance.random() * 0.1)
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        embedded_before = (await counts(memory))["embedded"]
    async with background_worker(memory.resources.replacing(Pace, IMPATIENT)):
        async with asyncio.timeout(PATIENCE):
            while (await counts(memory))["waiting"]:
                await asyncio.sleep(0.1)
    assert await counts(memory) == {"embedded": ITEMS, "vectors": ITEMS, "waiting": 0}


def _vectors(request: Request) -> Reply:
    texts = request.body["inputs"] if "inputs" in request.body else request.body["input"]
    texts = [texts] if isinstance(texts, str) else texts
    return Reply(body=[[float(len(text) % 7 + 1), 1.0, 2.0, 3.0] for text in texts])


@pytest.mark.parametrize("broken", [Reply(status=503, body={}), Reply(hang=True), Reply(body=b"nonsense")])
async def test_a_broken_embedder_stops_no_write_and_no_keyword_recall(broken: Reply, settings: Settings) -> None:
    with json_server(lambda _: broken) as server:
        changed = settings.model_copy(
            update={
                "embedding_provider": "tei",
                "embedding_url": server.url,
                "embedding_model": "four-numbers",
            }
        )
        async with open_resources(changed) as resources, background_worker(resources.replacing(Pace, IMPATIENT)):
            resources.embedders.query_timeout = 0.3
            memory = await _chat(resources)
            for number in range(20):
                await memory.remember(f"invoice {number} was paid by Zora")
            answer = await memory.recall("invoice 13 Zora", top_k=3)
            assert answer.degraded and answer.items[0].content == "invoice 13 was paid by Zora"
            server.answer = _vectors
            async with asyncio.timeout(PATIENCE):
                while (await counts(memory))["waiting"]:
                    await asyncio.sleep(0.1)
            assert (await counts(memory))["embedded"] == 20


async def test_a_slow_embedder_is_waited_for_and_asked_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast_forward = 600
    topic = TOPICS[EMBED_TOPIC]
    monkeypatch.setitem(TOPICS, EMBED_TOPIC, replace(topic, timeout=topic.timeout / fast_forward))
    texts: list[str] = []

    def slowly(request: Request) -> Reply:  # as if each request took five minutes
        time.sleep(300 / fast_forward)
        texts.extend(request.body["inputs"])
        return _vectors(request)

    with json_server(slowly) as server:
        remote = {"embedding_provider": "tei", "embedding_url": server.url, "embedding_model": "four-numbers"}
        async with open_resources(settings.model_copy(update=remote)) as resources:
            memory = await _chat(resources)
            await fill(memory, 10)
            async with background_worker(resources.replacing(Pace, IMPATIENT)), asyncio.timeout(PATIENCE):
                while (await counts(memory))["waiting"]:
                    await asyncio.sleep(0.1)
            assert (await counts(memory))["embedded"] == 10
    assert len([text for text in texts if "parcel" in text]) == 10


async def test_a_hanging_embedder_makes_one_recall_wait_and_no_other(settings: Settings) -> None:
    with json_server(lambda _: Reply(hang=True)) as server:
        remote = {"embedding_provider": "tei", "embedding_url": server.url, "embedding_model": "four-numbers"}
        async with open_resources(settings.model_copy(update=remote)) as resources:
            resources.embedders.query_timeout = 1.2  # five seconds outside the tests
            memory = await _chat(resources)
            await memory.remember("invoice 13 was paid by Zora")
            for question in ("invoice 13", "Zora", "who paid"):
                answer = await memory.recall(question)
                assert answer.degraded and answer.items
            assert len(server.requests) == 1


async def _chat(resources: Resources) -> Memory:
    from recordari.core.identity import Identity, Role

    tenant = await tenants.ensure_tenant(resources, "test")
    return Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)).acting_as(session="s", user="u")


async def test_recall_answers_while_the_database_restarts_every_connection(settings: Settings, memory: Memory) -> None:
    chat = memory.acting_as(session="s")
    await chat.remember("the backup tape is in vault nine")
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value(), autocommit=True) as admin:
        for _ in range(3):
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            assert (await chat.recall("backup tape")).total == 1
