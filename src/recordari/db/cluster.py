"""A cluster divided by tenant (Citus): divide a database, take it back, and say how it is.

One tenant is on one node. Every table with a tenant is divided in the same parts, so that a statement about a tenant runs
where all of its rows are. The job queue, its schedules and the record of migrations stay on the coordinator.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from recordari.db import delegation, migrate
from recordari.db.queries import Queries, Query
from recordari.errors import ConfigurationError, Conflict, DatabaseUnavailable

queries = Queries(__name__)

OLDEST_CITUS = (13, 0)
SHARDS = 32
FIRST = "recordari.tenants"
"""The table that the parts of all others go with."""
ACTING_ROLES = ("recordari_owner", "recordari_app", "recordari_tenant", "recordari_retention", "recordari_readonly")
"""The coordinator connects with a node as the role that acts. None has a password: nodes let the coordinator in by address."""
WANTED = {
    "citus.enable_unsafe_triggers": "on",
    "citus.allow_nested_distributed_execution": "on",
    "citus.propagate_set_commands": "local",
}
PRELOADED = ("citus", "vector", "pg_trgm")
ROLE_SETTINGS = {"jit": "off", "hnsw.ef_search": "100", "hnsw.iterative_scan": "relaxed_order"}
"""Settings that a process makes for its connections, which do not reach the nodes."""

Connection = psycopg.AsyncConnection[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A node, and what is wrong with it."""

    address: str
    is_coordinator: bool
    shards: int
    bytes: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """How a cluster is: its nodes, and which tables are divided."""

    citus: str
    nodes: tuple[ClusterNode, ...]
    divided: tuple[str, ...]
    whole: tuple[str, ...]

    @property
    def problems(self) -> list[str]:
        found = [f"{node.address}: {problem}" for node in self.nodes for problem in node.problems]
        if not any(not node.is_coordinator for node in self.nodes):
            found.append("there are no worker nodes; add them with citus_add_node")
        if _version(self.citus) < OLDEST_CITUS:
            found.append(f"Citus {self.citus} is too old; install {'.'.join(map(str, OLDEST_CITUS))} or newer")
        return found


async def state(owner_dsn: str) -> ClusterState | None:
    """How the cluster is; None where the database has no Citus."""
    async with _connected(owner_dsn) as connection:
        return await _state(connection)


async def distribute(owner_dsn: str, *, shards: int = SHARDS) -> list[str]:
    """Divide every table of tenants among the worker nodes; returns the tables that were divided now.

    A database with data keeps it. All tables are divided in one transaction, or none.
    """
    async with _connected(owner_dsn) as connection:
        found = await _state(connection)
        found = await _ready(connection, found, owner_dsn)
        await _prepare_workers(connection)
        await _spread_functions(connection, may_fail=True)
        tables = _in_order(await _rows(connection, queries.list_tables))
        async with connection.transaction(), _without_triggers(connection, tables):
            await connection.execute(queries.shape_policies.sql, {"is_divided": True})
            for name in tables:
                first = name == FIRST
                query = queries.distribute_first if first else queries.distribute_table
                await connection.execute(query.sql, {"shards": shards} if first else {"name": name})
        await _complete_functions(connection)
        await connection.execute(queries.number_erasures.sql)
        return tables


async def complete_migration(owner_dsn: str, *, has_steps: bool = True) -> None:
    """Bring the functions of a divided database to its nodes after a migration, and say there again who may call them.

    Without a migration only functions are made that the queries of this program lack; another one may use the others.
    """
    async with _connected(owner_dsn) as connection:
        if await migrate.division(connection):
            async with migrate.exclusive(connection):
                if has_steps:
                    await _complete_functions(connection)
                elif await delegation.missing(connection):
                    # Who may not make them goes on without: then statements are sent as they are.
                    with suppress(psycopg.errors.InsufficientPrivilege, ConfigurationError):
                        await _close_functions(connection)
                        await delegation.make(connection, partial(_on_workers, connection), anew=False)


async def _complete_functions(connection: Connection) -> None:
    await _spread_functions(connection, may_fail=False)
    await _close_functions(connection)
    await delegation.make(connection, partial(_on_workers, connection), anew=True)


async def prepare_backup(owner_dsn: str) -> None:
    """Let a dump of a divided database be of one moment, and number on where the nodes stopped."""
    async with _connected(owner_dsn) as connection:
        if await migrate.division(connection):
            await _refuse_users(connection)
            await connection.execute(queries.number_on.sql)


async def refuse_divided(owner_dsn: str) -> None:
    """Raise `Conflict` where a backup cannot be restored because the tables are divided."""
    async with _connected(owner_dsn) as connection:
        if await migrate.division(connection):
            raise Conflict(
                "the database is divided among the nodes of a cluster; restore into one that is not, "
                "then run `recordari db distribute`"
            )


async def shape_for_one_server(owner_dsn: str) -> None:
    """Give the policies of a restored database the form for one server: a dump has that of where it was made."""
    async with _connected(owner_dsn) as connection:
        has_citus = await migrate.division(connection) is not None
        async with migrate.as_owner(connection, on_one_node=has_citus):
            await connection.execute(queries.shape_policies.sql, {"is_divided": False})


async def undistribute(owner_dsn: str) -> list[str]:
    """Bring every table back to the coordinator, as one server has it; returns the tables."""
    async with _connected(owner_dsn) as connection:
        if await _state(connection) is None:
            raise ConfigurationError("the database has no Citus; there is nothing to take back")
        await _refuse_users(connection)
        await delegation.remove(connection, partial(_on_workers, connection))
        taken: list[str] = []
        await connection.execute(queries.number_on.sql)
        every = [row["name"] for row in await _rows(connection, queries.list_tables)]
        async with connection.transaction(), _without_triggers(connection, every):
            while names := [
                row["name"] for row in await _rows(connection, queries.list_tables) if row["is_distributed"]
            ]:
                taken += [name for name in names if name not in taken]
                await connection.execute(queries.undistribute_table.sql, {"name": names[0]})
            await connection.execute(queries.shape_policies.sql, {"is_divided": False})
        await connection.execute(queries.number_erasures.sql)
        return taken


@asynccontextmanager
async def _connected(owner_dsn: str) -> AsyncIterator[Connection]:
    try:
        connection = await psycopg.AsyncConnection.connect(
            owner_dsn, autocommit=True, connect_timeout=5, row_factory=dict_row, prepare_threshold=None
        )
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            "the database cannot be reached; check its address and that the server is up"
        ) from error
    async with connection:
        try:
            await connection.execute(
                "SET client_min_messages = warning; SET citus.multi_shard_modify_mode = sequential"
            )
            yield connection
        except psycopg.errors.InsufficientPrivilege as error:
            raise ConfigurationError(
                "the owner's login may not change the cluster; let RECORDARI_DATABASE_OWNER_URL name a superuser"
            ) from error


async def _rows(connection: Connection, query: Query, **parameters: Any) -> list[dict[str, Any]]:
    return await (await connection.execute(query.sql, parameters)).fetchall()


async def _state(connection: Connection) -> ClusterState | None:
    version = await (await connection.execute(queries.citus_version.sql)).fetchone()
    if version is None:
        return None
    described = {
        row["node_id"]: row
        for row in await _rows(connection, queries.describe_nodes, command=queries.describe_node.sql)
    }
    placed = {row["address"]: row for row in await _rows(connection, queries.list_placements)}
    nodes = await _rows(connection, queries.list_nodes)
    told = {key: json.loads(row["result"]) for key, row in described.items() if row["answers"]}
    first: dict[str, Any] = next((told[node["node_id"]] for node in nodes if node["node_id"] in told), {})
    tables = await _rows(connection, queries.list_tables)
    return ClusterState(
        citus=str(version["extversion"]),
        nodes=tuple(
            ClusterNode(
                address=node["address"],
                is_coordinator=node["is_coordinator"],
                shards=placed.get(node["address"], {}).get("shards", 0),
                bytes=placed.get(node["address"], {}).get("bytes", 0),
                problems=tuple(_problems(node, told.get(node["node_id"]), first)),
            )
            for node in nodes
        ),
        divided=tuple(row["name"] for row in tables if row["is_distributed"]),
        whole=tuple(row["name"] for row in tables if not row["is_distributed"]),
    )


def _problems(node: dict[str, Any], told: dict[str, Any] | None, first: dict[str, Any]) -> Iterator[str]:
    if told is None or not node["is_active"]:
        yield "the node does not answer"
        return
    if node["is_coordinator"] and node["holds_shards"]:
        yield "the coordinator holds shards; call citus_set_node_property(…, 'shouldhaveshards', false)"
    for key in ("postgres", "citus", "extensions"):
        if told[key] != first[key]:
            yield f"its {key} is {told[key]}, that of the first node is {first[key]}"
    if missing := {"vector", "pg_trgm", "btree_gin"} - set(told["extensions"] or {}):
        yield f"it lacks the extensions {', '.join(sorted(missing))}"
    loaded = {name.strip() for name in told["preloaded"].split(",")}
    if late := [name for name in PRELOADED if name not in loaded]:
        yield f"shared_preload_libraries lacks {', '.join(late)}"
    for name, value in WANTED.items():
        if told[name] != value:
            yield f"{name} is {told[name]}, not {value}"
    if int(told["max_prepared_transactions"]) == 0:
        yield "max_prepared_transactions is 0: no transaction of two nodes can commit"


async def _ready(connection: Connection, found: ClusterState | None, owner_dsn: str) -> ClusterState:
    if found is None:
        raise ConfigurationError(
            "the database has no Citus; create the extension on every node and add the nodes first"
        )
    if found.problems:
        raise ConfigurationError("the cluster is not ready: " + "; ".join(found.problems))
    if missing := await migrate.pending(owner_dsn):
        raise ConfigurationError(f"the database lacks {len(missing)} migrations; run `recordari db init` first")
    await _refuse_users(connection)
    return found


async def _refuse_users(connection: Connection) -> None:
    (row,) = await _rows(connection, queries.other_users)
    if row["count"]:
        raise Conflict(f"{row['count']} connections of servers or workers are open; stop them first")


async def _prepare_workers(connection: Connection) -> None:
    """Roles, extensions and schemas on every node, and the roles may connect."""
    logins = [row["rolname"] for row in await _rows(connection, queries.list_logins)]
    script = "\n".join([migrate.bootstrap_script(), *(migrate.ensure_login(name) for name in logins)])
    await _on_workers(connection, script)
    opened = [sql.SQL("ALTER ROLE {} LOGIN;").format(sql.Identifier(role)) for role in ACTING_ROLES]
    opened += [
        sql.SQL("ALTER ROLE {} SET {} = {};").format(sql.Identifier(role), sql.SQL(name), value)
        for role in (*ACTING_ROLES, *logins)
        for name, value in ROLE_SETTINGS.items()
    ]
    statements = "\n".join(statement.as_string(None) for statement in opened)
    await connection.execute("SET citus.enable_ddl_propagation = off")
    await connection.execute(statements)
    await connection.execute("RESET citus.enable_ddl_propagation")
    await _on_workers(connection, statements)


@asynccontextmanager
async def _without_triggers(connection: Connection, tables: Sequence[str]) -> AsyncIterator[None]:
    """Rows that are moved are no new rows: no trigger sees them."""
    triggers = [row for row in await _rows(connection, queries.list_triggers) if row["relation"] in tables]
    for trigger in triggers:
        drop = sql.SQL("DROP TRIGGER {} ON {}").format(sql.Identifier(trigger["name"]), sql.SQL(trigger["relation"]))
        await connection.execute(drop)
    yield
    for trigger in triggers:
        await connection.execute(trigger["definition"])


async def _on_workers(connection: Connection, script: str) -> None:
    """Run a script on every worker node as one transaction, without handing it on from there."""
    inner = sql.SQL("DO $outer$ BEGIN SET LOCAL citus.enable_ddl_propagation = off; EXECUTE {}; END $outer$")
    command = inner.format(sql.Literal(script)).as_string(None)
    for row in await _rows(connection, queries.run_on_workers, command=command):
        if not row["success"]:
            raise ConfigurationError(f"the node {row['address']} refused a command: {row['result']}")


def _in_order(tables: Sequence[dict[str, Any]]) -> list[str]:
    """The tables that are still whole, each after those that it refers to."""
    refers = {row["name"]: {FIRST, *row["refers_to"]} - {row["name"]} for row in tables}
    done = {row["name"] for row in tables if row["is_distributed"]}
    order: list[str] = []
    while left := sorted(set(refers) - done):
        ready = [name for name in left if refers[name] <= done] or left
        done.add(ready[0])
        order.append(ready[0])
    return order


async def _spread_functions(connection: Connection, *, may_fail: bool) -> None:
    """Functions are made on the nodes before the tables, which call them, and again after, where they name tables."""
    for row in await _rows(connection, queries.list_functions):
        delegated = row["goes_to_tenant"] and not may_fail
        query = queries.delegate_function if delegated else queries.distribute_function
        try:
            await connection.execute(query.sql, {"name": row["name"]})
        except psycopg.Error:
            if not may_fail:
                raise


async def _close_functions(connection: Connection) -> None:
    """Who may call a function is not handed on to the nodes: say it there again. And let each plan its statements as usual,
    also when a delegated one that called it keeps a plan for all tenants: Citus has none."""
    statements = [
        sql.SQL("ALTER FUNCTION {} SET plan_cache_mode = auto;").format(sql.SQL(row["name"])).as_string(None)
        for row in await _rows(connection, queries.list_functions)
        if row["plans"]
    ]
    for row in await _rows(connection, queries.closed_functions):
        name = sql.SQL(row["name"])
        statements.append(sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC;").format(name).as_string(None))
        statements += [
            sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {};").format(name, sql.SQL(caller)).as_string(None)
            for caller in row["callers"]
        ]
    await _on_workers(connection, "\n".join(statements))


def _version(text: str) -> tuple[int, int]:
    major, _, rest = text.partition(".")
    return int(major), int("".join(c for c in rest.split("-")[0].split(".")[0] if c.isdigit()) or 0)
