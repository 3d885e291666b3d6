"""Rate limits over servers on several machines, which share their counts through Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.doors.rest_door import Door, open_door
from tests.patience import until
from tests.redis_server import RedisServer, running_redis

from recordari.doors.rest.remote_counts import RemoteCounts
from recordari.kit.resources import Resources

pytestmark = pytest.mark.redis


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [960_000.0]
    monkeypatch.setattr("recordari.doors.rest.remote_counts.time.time", lambda: now[0])
    return now


def let_through(counts: RemoteCounts, times: int) -> int:
    return [counts.hit("key", most=10, seconds=60) for _ in range(times)].count(None)


async def test_servers_count_together_in_a_sliding_window(redis: RedisServer, times: list[float]) -> None:
    one, other = RemoteCounts(redis.url), RemoteCounts(redis.url)
    async with one.running(), other.running():
        assert let_through(one, 6) == 6
        await one.exchange()
        assert let_through(other, 1) == 1
        await other.exchange()
        assert let_through(other, 9) == 3
        await other.exchange()
        times[0] += 90  # in the middle of the next window half of the last one counts
        assert let_through(other, 9) == 5
        await other.exchange()
        times[0] += 600
        assert let_through(one, 12) == 10


async def test_without_redis_a_server_counts_by_itself_and_shares_again_later(redis: RedisServer) -> None:
    counts = RemoteCounts(redis.url)
    async with counts.running():
        await until(lambda: counts.is_shared)
        redis.kill()
        await until(lambda: not counts.is_shared)
        redis.start()
        await until(lambda: counts.is_shared)


async def test_a_key_has_one_rate_on_two_servers(resources: Resources, redis: RedisServer) -> None:
    def server() -> AbstractAsyncContextManager[Door]:
        return open_door(resources, rate_limit="12/hour", redis_url=SecretStr(redis.url))

    async with server() as one, server() as other:

        async def status(door: Door) -> int:
            return (await door.request("GET", "/v1/whoami", key=one.keys["agent"])).status_code

        for _ in range(11):
            assert await status(one) == 200

        async def is_refused() -> bool:
            return await status(other) == 429

        await until(is_refused)
        assert (await other.request("GET", "/v1/whoami", key="admin")).status_code == 200
