"""Redis that is killed, hangs or comes and goes under load: no error, and no read older than one's own write.

`RECORDARI_TEST_REDIS_SECONDS` sets how long each campaign lasts.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.patience import until
from tests.redis_server import RedisServer, running_redis

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.models.http import CircuitBreaker
from recordari.sessions.cache import SessionCache
from recordari.tenants.tenants import ensure_tenant
from recordari.wiring import open_resources

pytestmark = [pytest.mark.faults, pytest.mark.redis]

SECONDS = float(os.environ.get("RECORDARI_TEST_REDIS_SECONDS", "6"))
CLIENTS = 6


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as server:
        yield server


@pytest.fixture
async def processes(settings: Settings, redis: RedisServer) -> AsyncIterator[list[Memory]]:
    """Two processes of one deployment: what one writes, the other reads."""
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(2):
            resources = await stack.enter_async_context(open_resources(settings))
            # Tries again soon, so that Redis is used in each of the short times in which it answers.
            cache = SessionCache(redis.url, breaker=CircuitBreaker("Redis", failures=3, cool_down=0.1))
            stack.push_async_callback(cache.close)
            resources = resources.replacing(SessionCache, cache)
            tenant = await ensure_tenant(resources, "test")
            opened.append(Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)))
        yield opened


async def client(number: int, processes: list[Memory], stop: asyncio.Event) -> int:
    """Write and read back, each time through any of the processes; how often."""
    chance = random.Random(number)
    session, written = f"session-{number}", 0
    while not stop.is_set():
        written += 1
        await chance.choice(processes).set_state("n", written, owner_id=session)
        for _ in range(3):
            read = await chance.choice(processes).get_state("n", owner_id=session)
            assert read.value == written, "a read was older than one's own write"
            await asyncio.sleep(0.005)
    return written


Chaos = Callable[[RedisServer], Coroutine[Any, Any, None]]


async def killed(redis: RedisServer) -> None:
    redis.kill()
    await asyncio.sleep(0.8)
    await asyncio.to_thread(redis.start)
    await asyncio.sleep(2.0)


async def hung(redis: RedisServer) -> None:
    redis.hang()
    await asyncio.sleep(0.8)
    redis.go_on()
    await asyncio.sleep(2.0)


async def flapping(redis: RedisServer) -> None:
    for _ in range(4):
        redis.hang()
        await asyncio.sleep(random.uniform(0.02, 0.15))
        redis.go_on()
        await asyncio.sleep(random.uniform(0.05, 0.5))
    await asyncio.sleep(1.2)


@pytest.mark.parametrize("chaos", [killed, hung, flapping])
async def test_a_redis_that_fails_changes_speed_only(chaos: Chaos, redis: RedisServer, processes: list[Memory]) -> None:
    stop = asyncio.Event()
    clients = [asyncio.create_task(client(number, processes, stop)) for number in range(CLIENTS)]
    end = asyncio.get_running_loop().time() + SECONDS
    while asyncio.get_running_loop().time() < end and not any(task.done() for task in clients):
        await chaos(redis)

    def is_used() -> bool:
        return all(each.resources.get(SessionCache).statistics()["hits"] for each in processes)

    # A machine that is slow enough comes to it only now, with Redis up.
    await until(lambda: is_used() or any(task.done() for task in clients))
    stop.set()
    counts = await asyncio.gather(*clients)
    assert all(count > 1 for count in counts)


async def test_with_redis_gone_for_good_everything_goes_on(redis: RedisServer, processes: list[Memory]) -> None:
    here, there = (each.acting_as(session="s") for each in processes)
    await here.set_state("n", 0)
    redis.kill()
    for number in range(1, 15):
        await here.set_state("n", number)
        assert (await there.get_state("n")).value == number


async def test_a_redis_that_never_answers_is_not_waited_for(redis: RedisServer, processes: list[Memory]) -> None:
    here, there = (each.acting_as(session="s") for each in processes)
    await here.set_state("n", 0)
    redis.hang()
    for number in range(1, 15):
        await here.set_state("n", number)
        assert (await there.get_state("n")).value == number
    redis.go_on()
    assert (await here.get_state("n")).value == 14
