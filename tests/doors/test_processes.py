"""`recordari serve --processes`: one address, several processes, one limit."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import httpx2
import pytest
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT
from tests.ports import free_port

from recordari.app import Memory
from recordari.config import Settings
from recordari.doors.rest.shared_counts import SharedCounts, make_file

LIMIT = 40
KEY_LIMITED = f"{LIMIT}/hour"


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [960_000.0]
    monkeypatch.setattr("recordari.doors.rest.shared_counts.time.time", lambda: now[0])
    yield now


def test_processes_count_together_in_a_sliding_window(times: list[float]) -> None:
    with make_file() as file:
        one, other = SharedCounts(file.fileno()), SharedCounts(file.fileno())
        answers = [process.hit("key", most=10, seconds=60) for process in (one, other) * 10]
        assert answers[:10] == [None] * 10
        assert all(wait is not None and 0 < wait <= 60 for wait in answers[10:])
        assert other.hit("another key", most=10, seconds=60) is None
        times[0] += 90  # in the middle of the next window half of the last one counts
        assert [one.hit("key", most=10, seconds=60) for _ in range(7)].count(None) == 5
        times[0] += 600
        assert [other.hit("key", most=10, seconds=60) for _ in range(12)].count(None) == 10


@asynccontextmanager
async def serving(settings: Settings, log: Path) -> AsyncIterator[tuple[str, int]]:
    """The address of two server processes and the id of the first process; stopped as an operator would."""
    assert settings.database_url is not None
    port = free_port()
    environment = {
        **os.environ,
        **PATIENT_ENVIRONMENT,
        "RECORDARI_HOME": str(settings.home),
        "RECORDARI_DATABASE_URL": settings.database_url.get_secret_value(),
        "RECORDARI_EMBEDDING_PROFILE": settings.embedding_profile,
        "RECORDARI_RATE_LIMIT": KEY_LIMITED,
    }
    command = (sys.executable, "-m", "recordari", "serve", "--port", str(port), "--processes", "2")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=output, stderr=output)
    try:
        async with asyncio.timeout(PATIENCE):
            while b"listens on" not in log.read_bytes():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.1)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0, log.read_text()


def server_processes(first: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{first}/task/{first}/children").read_text().split()]


async def statuses(address: str, key: str, number: int) -> list[int]:
    """The answers to requests, each over a connection of its own, so that all processes get some."""

    async def ask() -> int:
        async with httpx2.AsyncClient(base_url=address, timeout=PATIENCE) as client:
            return (await client.get("/v1/whoami", headers={"Authorization": f"Bearer {key}"})).status_code

    return await asyncio.gather(*(ask() for _ in range(number)))


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc")
async def test_one_limit_holds_and_a_killed_process_is_replaced(memory: Memory, tmp_path: Path) -> None:
    keys = [(await memory.create_key(f"writer {number}")).key for number in range(2)]
    log = tmp_path / "serve.log"
    async with serving(memory.resources.settings, log) as (address, first):
        begun = server_processes(first)
        assert len(begun) == 2
        answers = await statuses(address, keys[0], LIMIT + 20)
        assert answers.count(200) == LIMIT and answers.count(429) == 20

        async with httpx2.AsyncClient(base_url=address, timeout=PATIENCE) as client:
            (counted,) = re.findall(
                r'requests_total\{[^}]*route="/v1/whoami",status="200"\} (\d+)', (await client.get("/metrics")).text
            )
        assert int(counted) == LIMIT, "metrics are those of all processes"

        os.kill(begun[0], signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            for _ in count():
                if len(now := server_processes(first)) == 2 and begun[0] not in now:
                    break
                await asyncio.sleep(0.1)
        assert await statuses(address, keys[1], 4) == [200] * 4
    assert not [one for one in {*begun, *now} if Path(f"/proc/{one}").exists()]
