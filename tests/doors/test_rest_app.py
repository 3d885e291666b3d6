"""How the application is put together: what runs beside it, and what it opens and closes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.doors.rest_door import client_of

from recordari.config import Settings
from recordari.core.telemetry import Telemetry
from recordari.doors.cli.serve import listening
from recordari.doors.rest.app import create_app
from recordari.kit.resources import Resources


@pytest.mark.parametrize(("worker", "expected"), [(True, ["begun", "ended"]), (False, [])])
async def test_the_worker_runs_beside_the_application_where_it_is_wanted(
    resources: Resources, worker: bool, expected: list[str]
) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def background(given: Resources) -> AsyncIterator[None]:
        assert given.database is resources.database
        seen.append("begun")
        yield
        seen.append("ended")

    settings = resources.settings.model_copy(update={"worker": worker})
    app = create_app(resources=replace(resources, settings=settings), background=background)
    async with app.router.lifespan_context(app), client_of(app) as client:
        assert seen == expected[:1]
        assert (await client.get("/readyz")).status_code == 200
    assert seen == expected


async def test_it_opens_its_own_resources_and_closes_them(settings: Settings) -> None:
    app = create_app(settings)
    async with app.router.lifespan_context(app), client_of(app) as client:
        assert (await client.get("/readyz")).status_code == 200
    async with client_of(app) as client:
        assert (await client.get("/readyz")).status_code == 503


async def test_two_applications_in_one_process_count_for_themselves(resources: Resources) -> None:
    one = create_app(resources=replace(resources, telemetry=Telemetry()))
    two = create_app(resources=replace(resources, telemetry=Telemetry()))
    async with (
        one.router.lifespan_context(one),
        two.router.lifespan_context(two),
        client_of(one) as first,
        client_of(two) as second,
    ):
        await first.get("/version")
        assert 'route="/version"' in (await first.get("/metrics")).text
        assert 'route="/version"' not in (await second.get("/metrics")).text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_accepted_connections_send_small_answers_at_once(host: str) -> None:
    """Otherwise every second request of a kept connection waits 40 ms for an acknowledgement."""
    accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    with listening(Settings(host=host, port=0)) as listener:
        server = await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=listener)
        _, client = await asyncio.open_connection(*listener.getsockname()[:2])
        writer = await accepted
        assert writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for stream in (client, writer):
            stream.close()
            await stream.wait_closed()
        server.close()
