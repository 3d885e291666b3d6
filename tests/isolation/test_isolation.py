"""Another tenant's rows cannot be reached: with the right SQL and the wrong identity there is nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from recordari.app import Memory
from recordari.core.identity import AgentId, Identity, Role
from recordari.db.database import BatchedQuery, Database, Transaction
from recordari.db.pool import PoolOptions
from recordari.db.queries import Query
from recordari.errors import DatabaseUnavailable, NotFound, UnsafeRole
from recordari.kit.resources import Resources
from recordari.tenants import storage as tenants_rows
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition

SELECT_ALL = Query("tests.all_tenants", "Every tenant that can be seen.", "SELECT tenant_id FROM tenants")
SLEEP = Query("tests.sleep", "Waits.", "SELECT pg_sleep(30)")
WHO = Query(
    "tests.who",
    "What the connection says of itself.",
    "SELECT current_setting('app.tenant_id', true) AS tenant, current_setting('app.user_id', true) AS usr",
)


@pytest.fixture
async def strangers(resources: Resources, memory: Memory) -> Memory:
    """A second tenant with rows of every kind, of which the first must see nothing."""
    await memory.save_agent("ours", AgentDefinition(core="ours"))
    await tenants.ensure_tenant(resources, "strangers")
    from_there = memory.bound(
        Identity(tenant_id=(await tenants.ensure_tenant(resources, "strangers")).tenant_id, role=Role.ADMIN)
    )
    await from_there.save_agent("theirs", AgentDefinition(core="theirs"))
    await from_there.save_user("their-user")
    await from_there.create_key("their key")
    return from_there


async def visible_tables(tx: Transaction) -> dict[str, int]:
    """How many rows of other tenants each table shows."""
    tables = await tx.dicts(
        Query(
            "tests.tables",
            "Tables with a tenant.",
            """SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
               WHERE n.nspname = 'recordari' AND c.relkind IN ('r', 'p', 'v') AND has_table_privilege(c.oid, 'SELECT')""",
        )
    )
    counts: dict[str, int] = {}
    for row in tables:
        table: Any = row["relname"]
        statement = f"SELECT count(*) FROM {table} WHERE tenant_id IS DISTINCT FROM %(tenant_id)s"
        counts[table] = await tx.value(Query("tests.count", "Foreign rows.", statement))
    return counts


async def test_no_table_shows_a_row_of_another_tenant(memory: Memory, strangers: Memory) -> None:
    for role in (None, "recordari_retention", "recordari_readonly"):
        async with memory.resources.database.transaction(memory.identity, role=role) as tx:
            counts = await visible_tables(tx)
        assert counts, "there must be tables to look at"
        assert not any(counts.values()), (role, counts)


async def test_a_transaction_without_a_tenant_sees_no_tenant_table(memory: Memory, strangers: Memory) -> None:
    async with memory.resources.database.queue() as rows:
        assert await rows.dicts(SELECT_ALL) == []


async def test_foreign_things_are_missing_things(memory: Memory, strangers: Memory) -> None:
    (their_key,) = await strangers.list_keys()
    with pytest.raises(NotFound) as foreign:
        await memory.get_agent("theirs")
    with pytest.raises(NotFound) as missing:
        await memory.get_agent("nobody")
    assert foreign.value.message == missing.value.message
    with pytest.raises(NotFound):
        await memory.revoke_key(their_key.key_id)
    with pytest.raises(NotFound):
        await memory.get_user("their-user")
    assert [agent.agent_id for agent in await memory.list_agents()] == ["ours"]
    assert (await strangers.list_keys())[0].revoked_at is None


async def test_who_acts_for_a_user_sees_no_other_user(memory: Memory) -> None:
    for name in ("ana", "bob"):
        await memory.save_user(name)
    agent = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana")
    assert (await agent.get_user("ana")).user_id == "ana"
    with pytest.raises(NotFound):
        await agent.get_user("bob")


async def test_a_row_cannot_be_written_into_another_tenant(memory: Memory, strangers: Memory) -> None:
    insert = Query(
        "tests.smuggle",
        "Writes into a tenant that is not ours.",
        "INSERT INTO users (tenant_id, user_id) VALUES (%(other)s, 'smuggled')",
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        async with memory.resources.database.transaction(memory.identity) as tx:
            await tx.run(insert, other=strangers.identity.tenant_id)


async def test_the_tenant_of_a_query_cannot_be_given(memory: Memory, strangers: Memory) -> None:
    async with memory.resources.database.transaction(memory.identity) as tx:
        with pytest.raises(TypeError, match="fixed by its identity"):
            await tx.dicts(SELECT_ALL, tenant_id=strangers.identity.tenant_id)
    given = BatchedQuery(tenants_rows.queries.find_agent, list, agent_id="a", tenant_id=strangers.identity.tenant_id)
    with pytest.raises(TypeError, match="fixed by its identity"):
        await memory.resources.database.read_batch(memory.identity, [given])


async def _raises(tx: Transaction) -> None:
    raise RuntimeError("a caller failed")


async def _fails_in_sql(tx: Transaction) -> None:
    await tx.run(Query("tests.bad", "Fails.", "SELECT 1 / 0"))


async def _times_out(tx: Transaction) -> None:
    await tx.run(SLEEP)


async def _is_cancelled(tx: Transaction) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(0.1, task.cancel)
    await tx.run(SLEEP)


@pytest.mark.parametrize("accident", [_raises, _fails_in_sql, _times_out, _is_cancelled])
async def test_a_pooled_connection_forgets_who_used_it(
    accident: Callable[[Transaction], Awaitable[None]], memory: Memory, strangers: Memory
) -> None:
    database = Database(
        memory.resources.database.dsn, PoolOptions(min_size=1, max_size=1, statement_timeout=2.0, timeout=60)
    )
    await database.open()
    try:

        async def borrow() -> None:
            async with database.transaction(strangers.identity.narrowed(user_id="their-user")) as tx:
                await accident(tx)

        with pytest.raises((RuntimeError, psycopg.Error, DatabaseUnavailable, asyncio.CancelledError)):
            await asyncio.create_task(borrow())
        async with database.queue() as rows:
            (seen,) = await rows.dicts(WHO)
            assert await rows.dicts(SELECT_ALL) == []
        assert not seen["tenant"] and not seen["usr"]
        async with database.transaction(memory.identity) as tx:
            assert [row["tenant_id"] for row in await tx.dicts(SELECT_ALL)] == [memory.identity.tenant_id]
    finally:
        await database.close()


async def test_queries_sent_together_are_bound_and_one_that_fails_harms_no_other(memory: Memory) -> None:
    database = Database(memory.resources.database.dsn, PoolOptions(min_size=1, max_size=1, timeout=60))
    await database.open()
    try:
        hostile = AgentId("x'); SET LOCAL app.tenant_id = 'a'; --\\")
        await memory.save_agent(hostile, AgentDefinition(core="hostile by name only"))
        bound = "SELECT current_setting('app.tenant_id') = %(tenant_id)s::text AS is_bound"
        who = BatchedQuery(Query("tests.bound", "Who asks.", bound), lambda rows: rows[0])
        failing = BatchedQuery(Query("tests.division", "Fails.", "SELECT 1 / %(zero)s::integer"), list, zero=0)
        for _ in range(2):
            with pytest.raises(psycopg.errors.DivisionByZero):
                await database.read_batch(memory.identity, [who, failing])
            found, missing = tenants_rows.ask_agent(hostile), tenants_rows.ask_agent(AgentId("nobody"))
            await database.read_batch(memory.identity, [missing, who, found])
            assert missing.answer is None
            assert found.answer is not None and found.answer.core == "hostile by name only"
            assert who.answer["is_bound"]
    finally:
        await database.close()


async def test_hostile_ids_stay_data(memory: Memory) -> None:
    hostile = memory.identity.narrowed(user_id="x'; SET LOCAL app.tenant_id = 'a'; --\\")
    async with memory.resources.database.transaction(hostile) as tx:
        (seen,) = await tx.dicts(WHO)
    assert seen["usr"] == hostile.user_id and seen["tenant"] == str(memory.identity.tenant_id)


@pytest.mark.parametrize("role", ["superuser", "bypassrls", "owner", "truncate", "tenant"])
async def test_a_role_that_could_bypass_isolation_is_refused(role: str, resources: Resources) -> None:
    owner = resources.settings.database_owner_url
    assert owner is not None
    dsn = owner.get_secret_value()
    login = f"unsafe_{role}"
    if role != "superuser":
        dsn = await _make_unsafe(owner.get_secret_value(), login, role)
    database = Database(dsn, PoolOptions(min_size=1, max_size=1))
    await database.open()
    try:
        with pytest.raises(UnsafeRole, match="recordari db init"):
            await database.refuse_unsafe_role()
    finally:
        await database.close()
        if role != "superuser":
            async with await psycopg.AsyncConnection.connect(owner.get_secret_value(), autocommit=True) as admin:
                await admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(login)))


async def _make_unsafe(owner: str, login: str, power: str) -> str:
    async with await psycopg.AsyncConnection.connect(owner, autocommit=True) as admin:
        name = sql.Identifier(login)
        await admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(name))
        await admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
        await admin.execute(sql.SQL("GRANT recordari_app TO {}").format(name))
        if power == "bypassrls":
            await admin.execute(sql.SQL("ALTER ROLE {} BYPASSRLS").format(name))
        if power == "owner":
            await admin.execute(sql.SQL("GRANT recordari_owner TO {}").format(name))
        if power == "tenant":
            await admin.execute(sql.SQL("GRANT recordari_tenant TO {}").format(name))
        if power == "truncate":
            await admin.execute(sql.SQL("GRANT TRUNCATE ON recordari.agents TO {}").format(name))
    return psycopg.conninfo.make_conninfo(owner, user=login)
