"""Redis as a cache in front of the database (W7): faster reads, never an older one than the last write.

"Redis (per-session key)"; "if Redis down, skip L1/cache". The database is the truth.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from redis.asyncio import from_url
from tests.conftest import cloned_database
from tests.redis_server import RedisServer, running_redis

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, SessionId
from recordari.db.address import APP_LOGIN
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import ConfigurationError, NotFound, QuotaExceeded
from recordari.sessions.cache import LIFETIME, SessionCache
from recordari.sessions.rules.state import OwnerKind, StateOwner
from recordari.sessions.rules.window import NewMessage
from recordari.sessions.run_storage import find_owner_version
from recordari.tenants.tenants import ensure_tenant
from recordari.wiring import open_resources

pytestmark = pytest.mark.redis

NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with running_redis(tmp_path) as server:
        yield server


async def process(stack: AsyncExitStack, settings: Settings, url: str) -> Memory:
    """The memory as one server process sees it, at work in the session `s`."""
    resources = await stack.enter_async_context(open_resources(settings))
    cache = SessionCache(url, timeout=2.0)  # a busy machine must not look like a Redis that hangs
    stack.push_async_callback(cache.close)
    resources = resources.replacing(SessionCache, cache)
    tenant = await ensure_tenant(resources, "test")
    return Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN)).acting_as(session="s")


@pytest.fixture
async def stack(settings: Settings) -> AsyncIterator[AsyncExitStack]:
    """What is opened here ends before the database is dropped."""
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
async def here(stack: AsyncExitStack, settings: Settings, redis: RedisServer) -> Memory:
    return await process(stack, settings, redis.url)


@pytest.fixture
async def there(stack: AsyncExitStack, settings: Settings, redis: RedisServer) -> Memory:
    return await process(stack, settings, redis.url)


def behind_its_back(settings: Settings, value: str) -> None:
    """Change the stored value without a word to the cache: whoever reads the old one read a copy."""
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value()) as connection:
        connection.execute("UPDATE recordari.state SET value = to_json(%s::text)", [value])


async def is_cached(memory: Memory, settings: Settings, value: str) -> bool:
    """Whether a read of `key` gives a copy; the database is as before afterwards."""
    behind_its_back(settings, "changed")
    read = (await memory.get_state("key")).value
    behind_its_back(settings, value)
    return bool(read == value)


async def becomes_cached(memory: Memory, settings: Settings, value: str) -> None:
    """Read, and see that the next read uses the copy that this one made."""
    assert (await memory.get_state("key")).value == value
    assert await is_cached(memory, settings, value), "the cache is not used"


async def test_a_session_is_read_from_redis_under_the_key_of_the_design(
    here: Memory, settings: Settings, redis: RedisServer
) -> None:
    await here.set_state("key", "one")
    await becomes_cached(here, settings, "one")
    name = f"mem:session:{here.identity.tenant_id}:s"
    assert redis.ask("EXISTS", name) == b":1"
    assert 0 < int(redis.ask("PTTL", name)[1:]) <= LIFETIME * 1000


async def test_no_read_is_older_than_the_last_write_of_any_process(
    here: Memory, there: Memory, settings: Settings
) -> None:
    await here.set_state("key", "0")
    await becomes_cached(here, settings, "0")
    await becomes_cached(there, settings, "0")
    for number in range(1, 30):
        writer, reader = (here, there) if number % 2 else (there, here)
        await writer.set_state("key", str(number))
        assert (await reader.get_state("key")).value == str(number)
        assert (await writer.get_state("key")).value == str(number)
        assert (await reader.get_state("key")).value == str(number)
    await here.delete_state("key")
    with pytest.raises(NotFound):
        await there.get_state("key")
    assert await there.list_state() == []


async def everything_in(redis: RedisServer) -> str:
    """Every name and value that Redis holds."""
    async with from_url(redis.url, decode_responses=True) as client:
        names = [name async for name in client.scan_iter()]
        return str([(name, await client.hgetall(name)) for name in names])


async def test_nothing_of_an_erased_user_is_left_in_redis(here: Memory, redis: RedisServer) -> None:
    sessions = ["chat-of-quillfeather", "state-of-quillfeather", "bobs"]
    working = [here.acting_as(user="bob" if name == "bobs" else "ana", session=name) for name in sessions]
    await working[0].add_messages([NewMessage(content="Quillfeather is my name")])  # the second has state alone
    for one in working:
        await one.set_state("draft", f"zebrafinch of {one.identity.user_id}")
    for one in working:
        await one.get_state("draft")
    held = await everything_in(redis)
    assert all(name in held for name in sessions) and "zebrafinch of ana" in held
    await here.erase_user("ana")
    left = await everything_in(redis)
    assert "quillfeather" not in left and "zebrafinch of ana" not in left
    assert "zebrafinch of bob" in left, "others are left alone"
    with pytest.raises(NotFound):
        await working[1].get_state("draft")


async def test_a_read_that_overlaps_a_write_leaves_no_old_copy(here: Memory, there: Memory, settings: Settings) -> None:
    await here.set_state("key", "old")
    await becomes_cached(here, settings, "old")
    await here.set_state("other", 1)  # the next read has to make a new copy
    tenant_id, session_id = here.identity.tenant_id, SessionId("s")
    owner = StateOwner(kind=OwnerKind.SESSION, owner_id=session_id, owned_by=here.identity.owned_by)
    async with here.resources.database.transaction(here.identity) as tx:
        version = await find_owner_version(tx, owner)
    assert version is not None

    async def slow_read() -> str:
        await there.set_state("key", "new")
        assert (await there.get_state("key")).value == "new"  # whose copy the slow reader overwrites
        return "what was there before the write"

    cache = here.resources.get(SessionCache)
    await cache.read(tenant_id, owner.owned_by, session_id, version=version, load=slow_read)
    for memory in (here, there, here):
        assert (await memory.get_state("key")).value == "new"


async def test_the_state_of_a_closed_session_is_gone_though_its_copy_is_not(
    here: Memory, settings: Settings, redis: RedisServer
) -> None:
    await here.open_session("s")
    await here.set_state("key", "old")
    await becomes_cached(here, settings, "old")
    name = f"mem:session:{here.identity.tenant_id}:s"
    async with from_url(redis.url) as client:
        copy = await client.hget(name, here.identity.owned_by)
        await here.close_session("s")
        assert not await client.exists(name)
        assert copy is not None
        await client.hset(
            name, here.identity.owned_by, copy
        )  # as if Redis had not been there when the session was closed
    assert await here.list_state() == []


async def test_a_cached_session_shows_what_an_import_adds_to_it(here: Memory, settings: Settings) -> None:
    await here.set_state("key", "one")
    await here.set_state("imported", "two")
    rows = [row async for row in here.export()]
    await here.delete_state("imported")
    await becomes_cached(here, settings, "one")
    await here.import_export(rows)
    assert [entry.key for entry in await here.list_state()] == ["imported", "key"]


async def test_what_expires_is_gone_at_once_also_from_a_copy(here: Memory, settings: Settings) -> None:
    await here.set_state("key", "one", ttl=timedelta(minutes=1))
    await becomes_cached(here, settings, "one")
    later = here.resources.clock() + timedelta(minutes=1)
    with pytest.raises(NotFound):
        await Memory(replace(here.resources, clock=lambda: later), here.identity).get_state("key")


async def test_a_refused_write_leaves_the_copy_alone(here: Memory, settings: Settings) -> None:
    await here.set_state("key", "one")
    await becomes_cached(here, settings, "one")
    with pytest.raises(QuotaExceeded):
        await here.set_state("key", "x" * 200_000)
    assert await is_cached(here, settings, "one")


async def test_a_user_is_never_shown_another_users_copy(here: Memory, settings: Settings) -> None:
    ada, bob = here.acting_as(user="ada"), here.acting_as(user="bob")
    await ada.set_state("key", "Ada's")
    await becomes_cached(ada, settings, "Ada's")
    for _ in range(2):
        assert await bob.list_state() == []
        assert [entry.value for entry in await ada.list_state()] == ["Ada's"]


async def test_two_databases_that_share_a_redis_do_not_mix(
    here: Memory, settings: Settings, redis: RedisServer, server: EmbeddedServer, stack: AsyncExitStack
) -> None:
    await here.set_state("key", "one")
    await becomes_cached(here, settings, "one")
    with cloned_database(server) as name:
        another = settings.model_copy(
            update={
                "database_url": SecretStr(server.dsn(user=APP_LOGIN, database=name)),
                "database_owner_url": SecretStr(server.dsn(database=name)),
            }
        )
        async with AsyncExitStack() as elsewhere:
            staging = await process(elsewhere, another, redis.url)
            assert staging.identity.tenant_id == here.identity.tenant_id
            assert await staging.list_state() == []
            assert (await here.get_state("key")).value == "one"
            await staging.set_state("key", "another")  # at the same version as the one beside it
            for _ in range(3):
                assert (await staging.get_state("key")).value == "another"
                assert (await here.get_state("key")).value == "one"


async def test_a_redis_that_comes_back_from_an_old_snapshot_shows_nothing_of_it(
    here: Memory, settings: Settings, redis: RedisServer
) -> None:
    await here.set_state("key", "old")
    await becomes_cached(here, settings, "old")
    assert redis.ask("SAVE") == b"+OK"
    await here.set_state("key", "new")
    redis.kill()
    redis.start()
    assert redis.ask("EXISTS", f"mem:session:{here.identity.tenant_id}:s") == b":1"
    for _ in range(3):
        assert (await here.get_state("key")).value == "new"


async def test_a_process_cut_off_from_redis_is_not_read_past_by_the_others(
    redis: RedisServer, settings: Settings, stack: AsyncExitStack
) -> None:
    here = await process(stack, settings, redis.url)
    await here.set_state("key", "0")
    await becomes_cached(here, settings, "0")
    cut_off = await process(stack, settings, NOBODY)
    for number in range(1, 12):
        await cut_off.set_state("key", str(number))
        assert (await here.get_state("key")).value == str(number)
        assert (await cut_off.get_state("key")).value == str(number)
    await becomes_cached(here, settings, "11")


async def test_the_cache_is_used_again_after_redis_was_away(
    here: Memory, settings: Settings, redis: RedisServer
) -> None:
    await here.set_state("key", "one")
    await becomes_cached(here, settings, "one")
    redis.kill()
    for number in range(5):
        await here.set_state("key", str(number))
        assert (await here.get_state("key")).value == str(number)
    redis.start()
    here.resources.get(SessionCache).breaker.succeeded()  # do not wait for its cool-down
    await becomes_cached(here, settings, "4")


async def test_one_breaker_keeps_every_caller_from_a_redis_that_is_away(
    settings: Settings, stack: AsyncExitStack
) -> None:
    memory = await process(stack, settings, NOBODY)
    cache = memory.resources.get(SessionCache)
    await asyncio.gather(
        *(
            cache.drop(memory.identity.tenant_id, memory.identity.owned_by, SessionId(f"s-{number}"))
            for number in range(5)
        )
    )
    assert cache.breaker.state == "open"
    failures = cache.statistics()["failures"]
    await memory.set_state("key", 1)
    assert (await memory.get_state("key")).value == 1
    assert cache.statistics()["failures"] == failures, "nobody asks a Redis that is away"


@pytest.mark.parametrize("url", ["http://127.0.0.1", "nonsense"])
def test_an_address_that_is_none_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ConfigurationError, match="RECORDARI_REDIS_URL") as refused:
        SessionCache(url)
    assert url not in str(refused.value)


def test_without_an_address_the_package_is_not_even_imported() -> None:
    code = (
        "import sys; from recordari.sessions.cache import SessionCache; import recordari.wiring; "
        "assert not SessionCache(None).is_on; assert 'redis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": "", "RECORDARI_REDIS_URL": ""})
