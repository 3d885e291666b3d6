"""Statements that a cluster runs as functions on the node of the tenant. Most of it needs a Citus cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest
from tests.conftest import cloned_database
from tests.db.test_cluster import owner, spoken
from tests.external_server import ExternalServer, not_on_cluster, on_cluster
from tests.patience import until
from tests.stored import rows

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, TenantId, UserId
from recordari.db import cluster, migrate, pipeline
from recordari.db.address import APP_LOGIN
from recordari.db.delegation import Delegation, ShardTables, function_of
from recordari.db.queries import Query, delegated_queries
from recordari.memory import storage as memory_storage
from recordari.memory import vector_storage
from recordari.sessions.rules.window import NewMessage
from recordari.wiring import open_resources

ANA = UserId("ana")
HOT = {"insert_items", "enter_open", "add_messages", "owned_rows_holds_now", "changed_rows_holds_now", "collection"}
MODELS = vector_storage.ask_models().query
COLLECTION = memory_storage.ask_collection(most=10).query
TABLES = """SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
    WHERE n.nspname IN ('recordari', 'recordari_queue') AND c.relkind = 'r'"""
WAITING = """SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
FUNCTIONS = "SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace('recordari_nodes')"


@not_on_cluster("it renames tables")
def test_a_statement_for_a_shard_names_no_other_table(server: Any) -> None:
    """All tables have other names here: a statement that still named one of before would not be understood."""
    assert {query.name.rpartition(".")[2] for query in delegated_queries()} >= HOT
    with cloned_database(server) as name, psycopg.connect(server.dsn(database=name)) as connection:
        connection.execute("SET search_path = recordari, recordari_queue, public")
        tables = connection.execute(TABLES).fetchall()
        for schema, table in tables:
            connection.execute(f"ALTER TABLE {schema}.{table} RENAME TO {table}_7")
        numbered = {"outbox": ("outbox_id", "nextval('recordari_queue.outbox_outbox_id_seq')")}
        shard = ShardTables(7, {table: f"{schema}.{table}_7" for schema, table in tables}, numbered)
        for query in delegated_queries():
            text = shard.rewritten(query.numbered[0])
            made_here = set(re.findall(r"(\w+) AS (?:MATERIALIZED )?\(", text))
            assert not made_here & {table for _, table in tables}, query.name
            assert text.count("nextval(") == text.count("INSERT INTO recordari_queue.outbox_7"), query.name
            connection.execute(f"PREPARE probe AS {text}")
            connection.execute("DEALLOCATE probe")


def test_a_program_with_another_text_of_a_query_sends_it_as_it_is() -> None:
    identity = Identity(tenant_id=TenantId(uuid4()), role=Role.ADMIN)
    nodes = Delegation({function_of(MODELS)})
    call, values = nodes.part((MODELS, {"tenant_id": identity.tenant_id}), identity)
    assert function_of(MODELS) in call.sql and values["node_tenant"] == identity.tenant_id
    other = replace(MODELS, sql=f"{MODELS.sql} LIMIT 1")
    assert nodes.part((other, {}), identity) == (other, {})
    assert nodes.part((replace(MODELS, is_delegated=False), {}), identity)[0].sql == MODELS.sql


def admin(settings: Settings, tenant: str = "green", user: UserId | None = ANA) -> Identity:
    (found,) = rows(settings, "SELECT tenant_id FROM tenants WHERE name = %s", tenant)
    return Identity(tenant_id=found["tenant_id"], role=Role.ADMIN, user_id=user)


def node_of(settings: Settings, tenant: str) -> tuple[int, int]:
    """The shard of a tenant, and the port of its node."""
    statement = """SELECT s.shardid, n.nodeport
        FROM get_shard_id_for_distribution_column('recordari.tenants', %s::uuid) AS s (shardid)
        JOIN pg_dist_placement p ON p.shardid = s.shardid JOIN pg_dist_node n ON n.groupid = p.groupid"""
    (found,) = rows(settings, statement, str(admin(settings, tenant).tenant_id))
    return found["shardid"], found["nodeport"]


@contextmanager
def connected(server: Any, settings: Settings, *, port: int | None = None, user: str = APP_LOGIN) -> Iterator[Any]:
    """A connection with a node, the coordinator by default."""
    given = cast("ExternalServer", server)
    database = str(psycopg.conninfo.conninfo_to_dict(owner(settings))["dbname"])
    node = 0 if port is None else [each for _, each in given.nodes].index(port)
    with psycopg.connect(given.dsn(user=user, database=database, node=node), autocommit=True) as connection:
        yield connection


def called(
    connection: Any, query: Query, address: tuple[Any, ...], values: dict[str, Any], *, around: str = "{}"
) -> list[tuple[Any, ...]]:
    """What the function of a query answers, for a tenant, a user, a role and a thread."""
    arguments = [*address, *(values[name] for name in query.numbered[1])]
    places = ", ".join(["%s"] * len(arguments))
    columns = "*" if around == "{}" else "count(*)"
    call = around.format(f"SELECT {columns} FROM recordari_nodes.{function_of(query)}({places})")
    found: list[tuple[Any, ...]] = connection.execute(call, arguments).fetchall()
    return found


@on_cluster
async def test_adds_and_recalls_are_calls_of_functions_on_the_node(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    send = pipeline.send_query

    def noting(connection: Any, query: Query, *others: Any) -> None:
        sent.append(query.name)
        send(connection, query, *others)

    monkeypatch.setattr(pipeline, "send_query", noting)
    assert await spoken(settings, ["green"], new=False) == {"green": []}
    sent.clear()
    async with open_resources(settings) as resources:
        memory = Memory(resources, admin(settings, user=None)).acting_as(user="ana")
        await memory.remember("Ana drinks green tea", kind="episode")
        await memory.recall("What does Ana drink?")
    assert "node.memory.storage.insert_items" in sent and "memory.storage.insert_items" not in sent
    assert any(re.match(r"node\.recall\.snapshot_storage\.(owned|changed)_rows", name) for name in sent)
    assert not any(name.startswith("recall.snapshot_storage") for name in sent)


@on_cluster
async def test_a_function_shows_a_tenant_and_a_user_what_a_statement_would(server: Any, settings: Settings) -> None:
    await spoken(settings, ["green", "black"], new=True)
    green, black = admin(settings), admin(settings, "black")
    with connected(server, settings) as connection:
        of_green = {"tenant_id": green.tenant_id, "most": 10}
        of_black = {"tenant_id": black.tenant_id, "most": 10}
        (own,) = called(connection, COLLECTION, (green.tenant_id, "ana", "none", None), of_green)
        assert own[0] == 1
        (of_another_user,) = called(connection, COLLECTION, (green.tenant_id, "ben", "none", None), of_green)
        assert of_another_user[0] == 0
        (of_all_users,) = called(connection, COLLECTION, (green.tenant_id, "", "recordari_tenant", None), of_green)
        assert of_all_users[0] == 1
        (of_another,) = called(connection, COLLECTION, (green.tenant_id, "ana", "none", None), of_black)
        assert of_another[0] == 0
        assert called(connection, MODELS, (green.tenant_id, "ana", "none", None), of_black) == []
        # Nothing of it stays with the connection.
        assert connection.execute("SELECT current_setting('app.tenant_id', true)").fetchone()[0] in {None, ""}
        assert connection.execute("SELECT count(*) FROM recordari.items").fetchone() == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            called(connection, MODELS, (green.tenant_id, "ana", "recordari_owner", None), of_green)


@on_cluster
async def test_no_function_plans_a_statement_on_more_than_its_shard(server: Any, settings: Settings) -> None:
    """A plan of Citus inside would be made anew each time."""
    await spoken(settings, ["green"], new=True)
    shard, port = node_of(settings, "green")
    with connected(server, settings, port=port, user="postgres") as connection:
        connection.execute(
            "SET search_path = recordari, recordari_queue, public; SET plan_cache_mode = force_generic_plan"
        )
        for query in delegated_queries():
            (body,) = connection.execute(
                "SELECT prosrc FROM pg_proc WHERE proname = %s", [f"{function_of(query)}_{shard}"]
            ).fetchone()
            statement = body.partition("RETURN QUERY")[2].partition(";\n    ELSE")[0]
            plan = connection.execute(f"EXPLAIN (GENERIC_PLAN) {statement}").fetchall()
            assert plan and not any("Citus" in line for (line,) in plan), query.name


@on_cluster
async def test_without_its_functions_a_server_goes_on_and_a_migration_makes_them_again(
    server: Any, settings: Settings
) -> None:
    given = cast("ExternalServer", server)
    database = str(psycopg.conninfo.conninfo_to_dict(owner(settings))["dbname"])

    def drop() -> None:
        for node in reversed(range(len(given.nodes))):
            with psycopg.connect(given.dsn(database=database, node=node), autocommit=True) as connection:
                connection.execute("SET citus.enable_ddl_propagation = off")
                connection.execute("DROP SCHEMA recordari_nodes CASCADE")
                connection.execute("ALTER FUNCTION recordari.keep_forgotten() RESET ALL")

    await spoken(settings, ["green"], new=True)
    async with open_resources(settings) as resources:
        memory = Memory(resources, admin(settings, user=None)).acting_as(user="ana")
        drop()
        await memory.remember("Ana has a green cup", kind="episode")
        assert {item.content for item in (await memory.recall("Ana green")).items} >= {"Ana has a green cup"}
    await cluster.complete_migration(owner(settings), has_steps=False)
    assert rows(settings, FUNCTIONS) == [{"count": len(delegated_queries())}]
    for node in range(1, len(given.nodes)):
        with psycopg.connect(given.dsn(database=database, node=node)) as connection:
            planning = "SELECT proconfig FROM pg_proc WHERE oid = 'recordari.keep_forgotten()'::regprocedure"
            assert connection.execute(planning).fetchone() == (["plan_cache_mode=auto"],)
    with connected(server, settings) as connection:
        green = admin(settings)
        values = {"tenant_id": green.tenant_id, "most": 10}
        assert called(connection, COLLECTION, (green.tenant_id, "ana", "none", None), values)[0][0] == 2


@on_cluster
async def test_a_database_that_is_taken_back_has_no_function_of_nodes(server: Any, settings: Settings) -> None:
    given = cast("ExternalServer", server)
    with given.undivided(settings) as (whole, name):
        await migrate.prepare(owner(whole), login=APP_LOGIN)
        await cluster.distribute(owner(whole), shards=4)
        counts = []
        for taken_back in (False, True):
            if taken_back:
                await cluster.undistribute(owner(whole))
            for node in range(len(given.nodes)):
                with psycopg.connect(given.dsn(database=name, node=node)) as connection:
                    counts += connection.execute(FUNCTIONS).fetchall()
    number = len(delegated_queries())
    of_worker = (5 * number + 1,)  # of four shards and the node, and the one that finds the shard
    assert counts == [(number,), of_worker, of_worker, (0,), (0,), (0,)]


@on_cluster
async def test_a_tenant_that_moves_is_written_where_it_is(server: Any, settings: Settings) -> None:
    await spoken(settings, ["green"], new=True)
    green = admin(settings)
    shard, port = node_of(settings, "green")
    elsewhere = next(other for _, other in cast("ExternalServer", server).nodes[1:] if other != port)
    values = {"tenant_id": green.tenant_id, "most": 10}
    with connected(server, settings, port=elsewhere) as connection, pytest.raises(psycopg.Error) as raised:
        # A call inside another query is not handed on to the right node.
        called(connection, COLLECTION, (green.tenant_id, "ana", "none", None), values, around="SELECT ({})")
    assert raised.value.sqlstate == "RN001"

    move = f"SELECT citus_move_shard_placement({shard}, '127.0.0.1', {port}, '127.0.0.1', {elsewhere}, 'block_writes')"
    async with open_resources(settings) as resources:
        memory = Memory(resources, admin(settings, user=None)).acting_as(user="ana")
        with connected(server, settings, user="postgres") as mover, connected(server, settings, port=port) as writer:
            writer.execute("BEGIN")
            entered = writer.execute("SELECT recordari_nodes.enter_shard(%s, true)", [green.tenant_id]).fetchone()
            assert entered == (shard,)
            moving = asyncio.create_task(asyncio.to_thread(mover.execute, move))
            with connected(server, settings, port=port, user="postgres") as looker:
                await until(lambda: looker.execute(WAITING).fetchone() == (1,))
            writer.execute("COMMIT")
            await moving
        await memory.remember("Ana has a green cup", kind="episode")
        assert {item.content for item in (await memory.recall("Ana green")).items} >= {"Ana has a green cup"}
    assert node_of(settings, "green") == (shard, elsewhere)


@on_cluster
async def test_all_writers_of_a_thread_wait_for_each_other_on_the_node(server: Any, settings: Settings) -> None:
    await spoken(settings, ["green"], new=True)
    _, port = node_of(settings, "green")
    async with open_resources(settings) as resources:
        memory = Memory(resources, admin(settings, user=None)).acting_as(user="ana")
        session = (await memory.open_session()).session
        database, identity = resources.database, admin(settings)
        with connected(server, settings, port=port, user="postgres") as looker:
            async with database.transaction(identity) as tx:
                await tx.run(memory_storage.queries.take_threads, threads=[session.thread])
                adding = asyncio.create_task(
                    memory.add_messages([NewMessage(content="Hello")], session_id=session.session_id)
                )
                await until(lambda: looker.execute(WAITING).fetchone() == (1,))
                assert not adding.done()
        assert (await adding) is not None
