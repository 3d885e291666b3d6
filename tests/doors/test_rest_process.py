"""The application under a real server in a process of its own."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT
from tests.ports import free_port

from recordari.app import Memory
from recordari.config import Settings
from recordari.doors.cli.serve import COLLECTED_AFTER, settle

SERVE = """
import sys, uvicorn
from recordari.config import load_settings
from recordari.doors.rest.app import create_app
from recordari.core.telemetry import configure_logging
settings = load_settings()
configure_logging(form=settings.log_format, level=settings.log_level)
uvicorn.run(create_app(settings), port=settings.port, log_config=None, access_log=False)
"""
CANARY = "CANARY-in-a-process"


@asynccontextmanager
async def served(settings: Settings, log: Path) -> AsyncIterator[str]:
    """The address of a server that is ready; it is stopped as an operator would, and must end well."""
    port = free_port()
    assert settings.database_url is not None
    environment = {
        **os.environ,
        **PATIENT_ENVIRONMENT,
        "RECORDARI_HOME": str(settings.home),
        "RECORDARI_DATABASE_URL": settings.database_url.get_secret_value(),
        "RECORDARI_PORT": str(port),
        "RECORDARI_WORKER": "false",
        "RECORDARI_EMBEDDING_PROFILE": settings.embedding_profile,
        "RECORDARI_MAX_BODY_BYTES": "4096",
        "RECORDARI_LOG_LEVEL": "debug",
    }
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVE, env=environment, stderr=stderr, cwd=settings.home
        )
    try:
        address = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient() as client, asyncio.timeout(PATIENCE):
            while True:
                assert process.returncode is None, log.read_text()
                try:
                    if (await client.get(f"{address}/readyz")).status_code == 200:
                        break
                except httpx2.TransportError:
                    await asyncio.sleep(0.1)
        yield address
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), PATIENCE)


async def raw(address: str, request: bytes) -> bytes:
    """Send bytes that no well-meaning client would, and read what comes back."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(65536), PATIENCE)
    writer.close()
    return answer


async def test_a_real_server_serves_refuses_and_keeps_content_out_of_its_log(memory: Memory, tmp_path: Path) -> None:
    key = (await memory.create_key("agent")).key
    log = tmp_path / "server.log"
    async with (
        served(memory.resources.settings, log) as address,
        httpx2.AsyncClient(base_url=address, timeout=60) as client,
    ):
        client.headers["Authorization"] = f"Bearer {key}"
        assert (await client.get("/v1/whoami")).json()["role"] == "agent"
        assert (await client.get(f"/v1/users/{CANARY}")).status_code == 404
        assert (await client.put("/v1/users/x", content=CANARY.encode())).status_code == 422
        chunked = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(5)) + b"0\r\n\r\n"
        head = f"PUT /v1/users/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n".encode()
        too_large = await raw(address, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked)
        assert too_large.startswith(b"HTTP/1.1 413")
        rebound = await raw(address, b"GET /v1/whoami HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert rebound.startswith(b"HTTP/1.1 403")
        garbage = await raw(address, CANARY.encode() + b"\x00\xff\r\n\r\n")
        assert garbage.startswith(b"HTTP/1.1 400")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(line["event"] == "request" and line["route"] == "/v1/users/{user_id}" for line in lines)
    assert CANARY not in log.read_text()
    assert key not in log.read_text()


def test_what_the_start_made_is_left_out_of_garbage_collection() -> None:
    before = gc.get_threshold()
    try:
        settle()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == COLLECTED_AFTER
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
