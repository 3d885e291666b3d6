"""The server killed while clients write: what was acknowledged is there, once.

`RECORDARI_TEST_MESSAGES` sets how many messages the eight clients send (the campaign sends 1,000).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from tests.folders import open_folder
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT
from tests.ports import free_port

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Role
from recordari.db.address import embedded_server

pytestmark = pytest.mark.faults

MESSAGES = int(os.environ.get("RECORDARI_TEST_MESSAGES", "320"))
CLIENTS = 8
KILLS = 3


@pytest.fixture
def home() -> Iterator[Path]:
    folder = open_folder("recordari-kills-")
    yield folder / "home"
    shutil.rmtree(folder)


@asynccontextmanager
async def serving(home: Path, port: int) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A real server on a real embedded database."""
    process = subprocess.Popen(
        [sys.executable, "-m", "recordari", "serve", "--port", str(port)],
        env={
            **os.environ,
            **PATIENT_ENVIRONMENT,
            "RECORDARI_HOME": str(home),
            "RECORDARI_EMBEDDING_PROFILE": "fast",
            "RECORDARI_RATE_LIMIT": "",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client, asyncio.timeout(PATIENCE):
            while True:
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        break
                except httpx2.TransportError:
                    assert process.poll() is None, "the server ended by itself"
                await asyncio.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


async def send(port: int, key: str, mine: list[str], acknowledged: set[str], killed: asyncio.Event) -> None:
    """Send messages one by one until the server is killed; one that was not acknowledged is sent again."""
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
        while mine and not killed.is_set():
            body = {"messages": [{"content": f"this is {mine[0]} of the chat", "message_id": mine[0]}]}
            try:
                answer = await client.post(
                    "/v1/sessions/chat/messages",
                    json=body,
                    headers={"Authorization": f"Bearer {key}", "Recordari-User": "ana"},
                )
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
                continue
            if answer.status_code == 200:
                acknowledged.add(mine.pop(0))
            else:
                assert answer.status_code in {429, 503}, answer.text
                await asyncio.sleep(0.05)


async def test_no_acknowledged_message_is_lost_or_doubled_when_the_server_is_killed(home: Path) -> None:
    settings = Settings(home=home, embedding_profile="fast")
    async with Memory.open(settings=settings, worker=False) as memory:
        key = (await memory.create_key("writer", role=Role.AGENT)).key
    names = [f"m-{number}" for number in range(MESSAGES)]
    queues = [names[client::CLIENTS] for client in range(CLIENTS)]
    acknowledged: set[str] = set()
    for kill in range(KILLS + 1):
        port, killed = free_port(), asyncio.Event()
        async with serving(home, port) as process:
            senders = [asyncio.create_task(send(port, key, queue, acknowledged, killed)) for queue in queues]
            if kill < KILLS:
                wanted = len(acknowledged) + MESSAGES // (KILLS + 1)
                while len(acknowledged) < wanted and not all(sender.done() for sender in senders):
                    await asyncio.sleep(0.005)
                killed.set()
                process.send_signal(signal.SIGKILL)
                process.wait()
            await asyncio.gather(*senders)
    assert acknowledged == set(names)
    async with Memory.open(user="ana", settings=settings, worker=False) as memory:
        found: Counter[str] = Counter()
        after = 0
        while page := await memory.list_messages("chat", after=after, limit=100):
            found.update(str(message.message_id) for message in page)
            after = page[-1].position
    assert found == Counter(names), "each message is there, once"
    assert not embedded_server(settings).status().running
