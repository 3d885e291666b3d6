"""What the tests of the adapters share: the same memory over the library and over the client, async and sync."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import uvicorn

from recordari import sync
from recordari.app import Memory
from recordari.client import Client
from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.doors.rest.app import create_app
from recordari.integrations.base import Verbs


@pytest.fixture(params=["library", "client"])
async def verbs(request: pytest.FixtureRequest, memory: Memory) -> AsyncIterator[Verbs]:
    """The memory of an agent of the tenant `test`, in this process and over HTTP."""
    if request.param == "library":
        yield memory.bound(Identity(tenant_id=memory.identity.tenant_id))
    else:
        key = (await memory.create_key("agent")).key
        with served(memory.resources.settings) as address:
            async with Client(address, key=key) as client:
                yield client


@contextmanager
def served(settings: Settings) -> Iterator[str]:
    """The address of a real server in a thread, with its own resources and worker."""
    app = create_app(settings.model_copy(update={"rate_limit": ""}))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="none"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def key(settings: Settings) -> str:
    """An API key of an agent of the tenant `test`."""
    with sync.Memory.open(settings=settings, tenant="test", worker=False) as memory:
        text: str = memory.create_key("agent").key
        return text


@pytest.fixture(params=["library", "client"])
def waiting(request: pytest.FixtureRequest, settings: Settings, key: str) -> Iterator[sync.Facade]:
    """The same for code without an event loop."""
    if request.param == "library":
        with sync.Memory.open(settings=settings, tenant="test", worker=False) as memory:
            yield memory
    else:
        with served(settings) as address, sync.Client.open(address, key=key) as client:
            yield client
