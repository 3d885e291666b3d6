"""A flood, stalled connections and no file descriptors, against a real server: the short form of `make overload`.

What is asserted are counts: refusals, cuts and log lines. `bench/overload.py` measures the seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests import crowd
from tests.patience import PATIENCE, until
from tests.ports import free_port

from recordari.app import Memory
from recordari.core.identity import Role, tenant_id_of
from recordari.tenants import tenants

pytestmark = pytest.mark.faults

FLOODING = 150


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server in a process of its own, with its log."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def lines(self, event: str) -> list[dict[str, Any]]:
        lines = (json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == event]

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def served(memory: Memory, folder: Path, **changes: str) -> AsyncIterator[Served]:
    settings, port, log = memory.resources.settings, free_port(), folder / "server.log"
    assert settings.database_url is not None
    environment = {
        **os.environ,
        "RECORDARI_HOME": str(settings.home),
        "RECORDARI_DATABASE_URL": settings.database_url.get_secret_value(),
        "RECORDARI_EMBEDDING_PROVIDER": "none",
        "RECORDARI_LOG_FORMAT": "json",
        "RECORDARI_REQUEST_TIMEOUT": "120",
        "RECORDARI_STATEMENT_TIMEOUT": "60",
        "RECORDARI_POOL_TIMEOUT": "60",
        "RECORDARI_RATE_LIMIT": "",
        "RECORDARI_WORKER": "false",
        **changes,
    }
    command = [sys.executable, "-m", "recordari", "serve", "--port", str(port)]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client, asyncio.timeout(PATIENCE):
            while not await is_ready(client):
                assert process.poll() is None, log.read_text()
                await asyncio.sleep(0.1)
        yield Served(port=port, process=process, log=log)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, PATIENCE)


async def is_ready(client: httpx2.AsyncClient) -> bool:
    try:
        return (await client.get("/readyz")).status_code == 200
    except httpx2.TransportError:
        return False


async def key_of(memory: Memory, tenant: str) -> str:
    await tenants.ensure_tenant(memory.resources, tenant)
    identity = replace(memory.identity, tenant_id=tenant_id_of(tenant), role=Role.ADMIN)
    return (await Memory(memory.resources, identity).create_key("load", role=Role.ADMIN)).key


def apart(lines: list[dict[str, Any]]) -> bool:
    """Whether the lines are a second apart, but for the rounding of their times."""
    times = [datetime.fromisoformat(line["at"]) for line in lines]
    return all(later - earlier > timedelta(seconds=0.99) for earlier, later in pairwise(times))


async def test_a_flood_of_one_tenant_costs_another_no_request(memory: Memory, tmp_path: Path) -> None:
    flooding, quiet = await key_of(memory, "flooding"), await key_of(memory, "quiet")
    async with served(memory, tmp_path) as server, AsyncExitStack() as stack:
        crowd.ADDRESS["port"] = server.port
        tally, over = crowd.Tally(), asyncio.get_running_loop().time() + PATIENCE
        clients: list[crowd.Client] = []

        def make() -> crowd.Client:
            sent = crowd.requests(flooding, one_write_in=4, seed=len(clients) * 1000)
            clients.append(crowd.Client(tally, sent, polite=False, pause=0.0, end=over))
            return clients[-1]

        for _ in range(FLOODING):
            await crowd.connected(make, tally)
        await until(lambda: tally.statuses[503])  # it is over its share, and is told so
        client = await stack.enter_async_context(
            httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE)
        )
        statuses = []
        for number in range(30):
            body = {"query": f"What happened on day {number}?"}
            answer = await client.post("/v1/recall", json=body, headers={"Authorization": f"Bearer {quiet}"})
            statuses.append(answer.status_code)
        for one in clients:
            one.leave()
        assert statuses == [200] * 30
        assert tally.statuses[200] + tally.statuses[201] > 30, "the flooding tenant is served too"
        assert set(tally.statuses) <= {200, 201, 503}
        assert tally.cuts == 0
        await until(lambda: sum(line["count"] for line in server.lines("requests_refused")) >= tally.statuses[503])
        assert apart(server.lines("requests_refused"))
        assert not [line for line in server.lines("request") if line["status"] == 503]


async def test_a_key_far_over_its_rate_gets_its_rate_and_short_words(memory: Memory, tmp_path: Path) -> None:
    flooding, quiet = await key_of(memory, "flooding"), await key_of(memory, "quiet")
    async with served(memory, tmp_path, RECORDARI_RATE_LIMIT="5/hour") as server:
        crowd.ADDRESS["port"] = server.port
        tally, over = crowd.Tally(), asyncio.get_running_loop().time() + PATIENCE
        clients = [
            crowd.Client(tally, crowd.requests(flooding, one_write_in=0, seed=1), polite=False, pause=0.0, end=over)
            for _ in range(20)
        ]
        for one in clients:
            await crowd.connected(lambda one=one: one, tally)  # type: ignore[misc]
        await until(lambda: tally.statuses[429] > 200)
        await write_fact(server, quiet)
        for one in clients:
            one.leave()
        assert (tally.statuses[200], set(tally.statuses)) == (5, {200, 429})
        await until(lambda: sum(line["count"] for line in server.lines("requests_refused")) >= tally.statuses[429])
        assert apart(server.lines("requests_refused"))


async def test_connections_that_send_no_whole_request_are_cut_and_others_stay(memory: Memory, tmp_path: Path) -> None:
    key = await key_of(memory, "quiet")
    async with served(memory, tmp_path) as server:
        crowd.ADDRESS["port"] = server.port
        tally = crowd.Tally()
        follower = crowd.Follower(crowd.Tally(), key, reads=True)
        await crowd.connected(lambda: follower, tally)
        assert await follower.opened == 200
        for number in range(40):
            await crowd.connected(lambda number=number: crowd.Stalled(tally, dripping=number % 2 == 0), tally)  # type: ignore[misc]
        reader, writer = await server.raw()  # a whole head, and a body that never comes
        head = (
            f"POST /v1/recall HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Length: 99\r\n\r\n"
        )
        writer.write(head.encode())
        await until(lambda: tally.cuts == 40)
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()
        await until(lambda: {line["reason"] for line in server.lines("connections_cut")} == {"head", "body"})
        await write_fact(server, key)
        await until(lambda: follower.tally.events)
        assert follower.tally.cuts == 0


async def write_fact(server: Served, key: str) -> None:
    """Write something that listeners hear of."""
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=PATIENCE) as client:
        body = {"kind": "fact", "content": "Ana drinks tea"}
        headers = {"Authorization": f"Bearer {key}", "Recordari-User": "ana"}
        assert (await client.post("/v1/items", json=body, headers=headers)).status_code < 300


async def test_without_file_descriptors_the_log_stays_short_and_service_goes_on(memory: Memory, tmp_path: Path) -> None:
    key = await key_of(memory, "quiet")
    async with served(memory, tmp_path) as server:
        await write_fact(server, key)
        in_use = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (in_use + 10, in_use + 10))
        waiting = [await server.raw() for _ in range(60)]
        await until(lambda: len(server.lines("connections_not_accepted")) >= 3)
        assert apart(server.lines("connections_not_accepted"))
        assert len(server.log.read_text().splitlines()) < 60
        for _, writer in waiting:
            writer.close()
        await write_fact(server, key)
