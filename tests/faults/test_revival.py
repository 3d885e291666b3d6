"""The embedded database killed under those who use it: they start it again; one that was stopped stays stopped."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import psycopg
import pytest
from tests.faults.test_server_kills import serving
from tests.folders import open_folder
from tests.patience import until
from tests.ports import free_port

from recordari.app import Memory
from recordari.config import Settings
from recordari.db import address
from recordari.db.address import embedded_server
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import DatabaseUnavailable, RecordariError

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
KILLS = 5


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = open_folder("recordari-revival-")
    yield folder
    shutil.rmtree(folder)


def postmaster(server: EmbeddedServer) -> int:
    pid = server.status().pid
    assert pid is not None
    return pid


def is_another(server: EmbeddedServer, killed: int) -> bool:
    return server.status().pid not in {None, killed}


async def is_ready(client: httpx2.AsyncClient) -> bool:
    return (await client.get("/readyz")).status_code == 200


async def test_a_server_is_ready_again_after_its_database_was_killed(folder: Path) -> None:
    home, port = folder / "home", free_port()
    server = embedded_server(Settings(home=home))
    async with serving(home, port), httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for _ in range(3):
            killed = postmaster(server)
            os.kill(killed, signal.SIGKILL)
            await until(partial(is_another, server, killed))
            await until(partial(is_ready, client))


async def test_the_library_writes_again_after_its_database_was_killed(folder: Path) -> None:
    settings = Settings(home=folder / "home", embedding_profile="fast")
    async with Memory.open(user="ana", settings=settings, worker=False) as memory:
        first = await memory.remember_fact("Ana lives in Porto")
        os.kill(postmaster(embedded_server(settings)), signal.SIGKILL)

        async def again() -> bool:
            try:
                await memory.remember_fact("Ana has a boat")
            except RecordariError:
                return False
            return True

        await until(again)
        assert (await memory.get_item(first.id)).content == "Ana lives in Porto"


async def test_after_an_installation_little_is_left_to_replay(folder: Path) -> None:
    settings = Settings(home=folder / "home", embedding_profile="fast")
    async with Memory.open(user="ana", settings=settings, worker=False):
        with psycopg.connect(embedded_server(settings).dsn(), autocommit=True) as connection:

            def is_little() -> bool:
                left = "SELECT pg_current_wal_lsn() - redo_lsn < 2 ^ 20 FROM pg_control_checkpoint()"
                return connection.execute(left).fetchone() == (True,)

            await until(is_little)


async def test_a_database_that_was_stopped_stays_stopped(folder: Path) -> None:
    """`recordari db stop`, while somebody uses it."""
    settings = Settings(home=folder / "home", embedding_profile="fast")
    async with Memory.open(user="ana", settings=settings, worker=False):
        server = embedded_server(settings)
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(4 * address.LOOK_SECONDS)  # several looks: nothing is expected to happen
        assert not server.status().running
    async with Memory.open(user="ana", settings=settings, worker=False) as memory:
        assert (await memory.remember_fact("Ana lives in Porto")).was_new


async def test_a_database_that_does_not_start_is_tried_ever_less_often(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedServer(folder / "postgres")
    await asyncio.to_thread(server.acquire)
    tries: list[float] = []
    pauses: list[float] = []
    sleep = asyncio.sleep

    def refuse(timeout: float = 60.0) -> None:
        tries.append(timeout)
        raise DatabaseUnavailable

    async def hurry(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(server, "revive", refuse)
    monkeypatch.setattr(server, "needs_revival", lambda: True)
    monkeypatch.setattr("asyncio.sleep", hurry)
    async with address.looked_after(server):
        while len(tries) < 9:
            await sleep(0.01)
    monkeypatch.undo()
    assert pauses[1:9] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    server.release()


async def test_a_look_that_fails_does_not_end_the_looking(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of file descriptors, not even the pid file can be read."""
    server = EmbeddedServer(folder / "postgres")
    await asyncio.to_thread(server.acquire)
    looks: list[bool] = []

    def look() -> bool:
        looks.append(True)
        if len(looks) == 1:
            raise OSError(errno.EMFILE, "too many open files")
        return False

    monkeypatch.setattr(server, "needs_revival", look)
    async with address.looked_after(server):
        await until(lambda: len(looks) > 2)
    server.release()


async def test_a_data_folder_that_is_gone_is_not_made_again(folder: Path) -> None:
    server = EmbeddedServer(folder / "postgres")
    await asyncio.to_thread(server.acquire)
    os.kill(postmaster(server), signal.SIGKILL)
    await until(server.needs_revival)
    (folder / "postgres").rename(folder / "moved")
    await asyncio.to_thread(server.revive)
    assert not (folder / "postgres").exists() and (folder / "moved" / "PG_VERSION").exists()
    (folder / "moved").rename(folder / "postgres")
    await asyncio.to_thread(server.revive)
    assert server.status().running
    server.release()


@pytest.mark.timeout(600 + 60 * KILLS)
def test_no_keyed_write_is_lost_or_doubled_whatever_is_killed() -> None:
    """The short form of `make faults`; how long anything takes is not its question."""
    command = [sys.executable, "bench/faults.py", "--kills", str(KILLS), "--seed", str(KILLS), "--healthy", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "lost 0, duplicated 0" in done.stdout, done.stdout + done.stderr
