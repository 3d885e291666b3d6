"""A backup that is older than a forgetting, really restored: what was forgotten and who was erased stay away (T5, T6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
from pydantic import SecretStr
from tests.doors.test_cli import connected
from tests.external_server import not_on_cluster
from tests.stored import drop_database
from tests.working import settled

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.core.items import Kind
from recordari.db.address import APP_LOGIN
from recordari.db.embedded.server import EmbeddedServer
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.wiring import open_resources

in_use = not_on_cluster("a divided database in use is not backed up; `test_cluster_upkeep.py` backs one up")
YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@contextmanager
def empty_database(server: EmbeddedServer, settings: Settings) -> Iterator[Settings]:
    """Settings of a database that nothing was ever done with."""
    name = f"test_{uuid4().hex[:16]}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield settings.model_copy(
        update={
            "database_url": SecretStr(server.dsn(user=APP_LOGIN, database=name)),
            "database_owner_url": SecretStr(server.dsn(database=name)),
        }
    )
    drop_database(server, name)


@asynccontextmanager
async def opened(settings: Settings, identity: Identity) -> AsyncIterator[Memory]:
    async with open_resources(settings) as resources:
        yield Memory(resources, identity)


async def facts(memory: Memory) -> set[str]:
    return {item.content for item in (await memory.list_items(kinds=[Kind.FACT], state="any")).items}


async def messages(memory: Memory) -> set[str]:
    return {item.content for item in (await memory.list_items(kinds=[Kind.CHAT_MESSAGE], state="any")).items}


async def furnished(memory: Memory) -> list[str]:
    """Two people who said something; what an export says of it."""
    agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id))
    ana = agent.acting_as(user="ana", agent="helper", session="chat-1")
    bob = agent.acting_as(user="bob", agent="helper", session="chat-2")
    for who, said in ((ana, "I have two zebrafinches at home."), (bob, "I live in Quillfeather with two cats.")):
        await who.add_messages([NewMessage(role=MessageRole.USER, content=said, event_time=YESTERDAY)])
    await ana.remember_fact("Ana likes tea", event_time=YESTERDAY)
    await settled(memory)
    assert len(await facts(memory)) == 3
    return [line async for line in memory.export()]


@in_use
async def test_a_restored_backup_forgets_again_and_nothing_brings_it_back(
    server: EmbeddedServer, settings: Settings, memory: Memory, tmp_path: Path
) -> None:
    old_export = await furnished(memory)
    here = connected(settings, tmp_path)
    file = tmp_path / "memory.dump"
    await asyncio.to_thread(here.run, "db", "backup", str(file))
    (forgotten,) = [item for item in (await memory.list_items(kinds=["fact"])).items if "zebrafinches" in item.content]
    await memory.forget(forgotten.item_id)
    await memory.erase_user("bob")

    with empty_database(server, settings) as other:
        there = connected(other, tmp_path)
        restored = await asyncio.to_thread(there.json, "db", "restore", str(file))
        assert restored["counts"]["items"] >= 5
        assert restored["erasures"] == [{"tenant": "test", "items": 1, "users": 1}]
        async with opened(other, memory.identity) as again:
            for bring_back in (settled, Memory.reindex, Memory.reembed, Memory.decay):
                await bring_back(again)
                await settled(again)
                assert await facts(again) == {"Ana likes tea"}
            await again.import_export(old_export)
            await settled(again)
            assert await facts(again) == {"Ana likes tea"}
            assert await messages(again) == {"I have two zebrafinches at home."}, "only the fact was forgotten"
            assert [user.user_id for user in await again.list_users()] == ["ana"]


@in_use
async def test_the_journals_of_another_home_can_be_named(
    server: EmbeddedServer, settings: Settings, memory: Memory, tmp_path: Path
) -> None:
    kept = await memory.acting_as(user="ana").remember_fact("Ana keeps zebrafinches", event_time=YESTERDAY)
    file = tmp_path / "memory.dump"
    await asyncio.to_thread(connected(settings, tmp_path).run, "db", "backup", str(file))
    await memory.forget(kept.id)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with empty_database(server, settings.model_copy(update={"home": elsewhere})) as other:
        there = connected(other, elsewhere)
        _, note = await asyncio.to_thread(there.run, "db", "restore", str(file))
        assert "no journal of erasures" in note
        async with opened(other, memory.identity) as again:
            assert await facts(again) == {"Ana keeps zebrafinches"}
        told = await asyncio.to_thread(there.json, "db", "reapply-erasures", "--erasures", str(tmp_path / "erasures"))
        assert told == [{"tenant": "test", "items": 1, "users": 0}]
        async with opened(other, memory.identity) as again:
            assert await facts(again) == set()
