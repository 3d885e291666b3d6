"""The pool of connections, which hands out the one that was used last.

The driver's pool hands its connections out in turn, so that the server process of each is cold, with its plans and pages.
Here the last few that came back are kept on a stack. All others, and those that stayed there for a while, go through the
driver's pool, which renews, discards and opens them.

A plan that was made while the tables were almost empty reads all rows of a tenant, and is kept until the server analyses
them, which may take a minute: in that time an import makes them large. So while they are small, a connection forgets its
plans each time that they have doubled.

Behind a pooler in transaction mode, such as pgbouncer, every transaction may meet another server process. So no statement is
kept prepared there, and each transaction begins with its settings.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, cast
from weakref import WeakKeyDictionary

import psycopg
import psycopg_pool
from pgvector.psycopg import register_vector_async
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, scalar_row

from recordari.db.queries import Queries, Query
from recordari.errors import ConfigurationError

queries = Queries(__name__)

Connection = psycopg.AsyncConnection[dict[str, Any]]

KEPT_FOR = 60.0
"""Seconds until a connection goes through the driver's pool again, which looks at its age."""

RECONNECT_SECONDS = 0.5
"""The driver's pool waits ever longer between its tries; after this the next request tries at once."""

LOOK_AGAIN = 1.0
"""Seconds until a connection looks again how large the tables are."""
FEW_BYTES, MANY_BYTES = 512 * 1024, 64 * 2**20
"""Of the largest table: below the first no plan is bad, and past the second none is made that takes it for empty."""

MIN_SIZE = 2
"""Connections that a process keeps open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How many connections, and how long anything may take."""

    min_size: int = MIN_SIZE
    max_size: int = 8
    timeout: float = 2.0
    statement_timeout: float = 15.0
    behind_pooler: bool | None = None
    """Whether a pooler in transaction mode is between; None: found out when the pool is opened."""

    def settings(self, *, of_transaction: bool) -> Query:
        """The query that makes our settings, for the connection or for one transaction."""
        milliseconds = str(int(self.statement_timeout * 1000))
        values = {
            "search_path": "recordari, recordari_queue, public",
            "jit": "off",
            "statement_timeout": milliseconds,
            "idle_in_transaction_session_timeout": milliseconds,
            "hnsw.ef_search": "100",
            "hnsw.iterative_scan": "relaxed_order",
        }
        calls = [
            sql.SQL("set_config({}, {}, {})").format(name, value, of_transaction) for name, value in values.items()
        ]
        statement = sql.SQL("SELECT {}").format(sql.SQL(", ").join(calls)).as_string(None)
        return Query("settings", "Make our settings.", statement)


class Pool:
    """Connections to one address; at most `min_size` of them are kept at hand."""

    def __init__(self, dsn: str, options: PoolOptions) -> None:
        self._dsn = dsn
        self._options = options
        self.opening: Query | None = None
        """What each transaction begins with; only behind a pooler."""
        self.is_distributed = False
        """Whether the tables are divided among the nodes of a cluster; found out when the pool is opened."""
        self.functions: set[str] = set()
        """The functions that its nodes run for us."""
        self.taken = 0
        """Connections that are in use: while there are some, the server answers."""
        self._at_hand: list[Connection] = []
        self._taken_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._waiting = 0
        self._requests = 0
        self._is_open = False
        self._returning: set[asyncio.Task[None]] = set()
        self._is_small = True
        self._planned: WeakKeyDictionary[Connection, tuple[float, int]] = WeakKeyDictionary()
        """When each connection looked at the size of the tables, and the size that its plans were made for."""
        self._pool: psycopg_pool.AsyncConnectionPool[Connection] = psycopg_pool.AsyncConnectionPool(
            dsn,
            connection_class=cast("type[Connection]", psycopg.AsyncConnection),
            kwargs={"autocommit": True, "row_factory": dict_row, "connect_timeout": 5},
            min_size=options.min_size,
            max_size=options.max_size,
            timeout=options.timeout,
            max_waiting=options.max_size * 64,
            reconnect_timeout=RECONNECT_SECONDS,
            configure=self._configure,
            open=False,
        )

    async def open(self) -> None:
        """Connect; raise `psycopg.Error` when the server does not answer, `PoolTimeout` when no connection can be set up."""
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True, connect_timeout=5) as probe:
            behind_pooler = self._options.behind_pooler
            if await is_behind_pooler(probe) if behind_pooler is None else behind_pooler:
                self.opening = self._options.settings(of_transaction=True)
            self.is_distributed = (await (await probe.execute(queries.is_distributed.sql)).fetchone()) == (True,)
            # On a cluster the rows are on the nodes, and plans are made for each tenant.
            self._is_small = not self.is_distributed
            if self.is_distributed:
                self.functions |= await functions_of_nodes(probe)
        self._is_open = True
        await self._pool.open(wait=True, timeout=30)

    async def _configure(self, connection: Connection) -> None:
        # Poolers keep these three for each client.
        await connection.execute(
            "SET standard_conforming_strings = on; SET application_name = 'recordari'; SET TimeZone = 'UTC'"
        )
        if self.opening is None:
            await connection.execute(self._options.settings(of_transaction=False).sql)
            await register_vector_async(connection)
            return
        connection.prepare_threshold = None
        async with connection.transaction():
            await connection.execute(self.opening.sql)
            await register_vector_async(connection)

    async def close(self) -> None:
        self._is_open = False
        while self._at_hand:
            self._return(self._at_hand.pop())
        if self._returning:
            await asyncio.wait(self._returning, timeout=5)
        await self._pool.close(timeout=5)

    async def take(self) -> Connection:
        """A connection, the one used last if it is free; give it back."""
        self._requests += 1
        if self._at_hand:
            connection = self._at_hand.pop()
        else:
            self._waiting += 1
            try:
                connection = await self._pool.getconn()
            finally:
                self._waiting -= 1
            self._taken_at[connection] = monotonic()
        self.taken += 1
        if self._is_small and self.opening is None:
            try:
                await self._plan_anew(connection)
            except BaseException:
                self.give_back(connection)
                raise
        return connection

    async def _plan_anew(self, connection: Connection) -> None:
        """Forget plans that were made for smaller tables. A connection that fails here fails again where it is used."""
        looked_at, planned_for = self._planned.get(connection, (None, 0))
        if looked_at is not None and monotonic() - looked_at < LOOK_AGAIN:
            return
        with suppress(psycopg.Error):
            async with connection.cursor(row_factory=scalar_row) as cursor:
                await cursor.execute(queries.table_size.sql)
                size = int(await cursor.fetchone() or 0)
                if looked_at is not None and size > FEW_BYTES and size > 2 * planned_for:
                    await cursor.execute("DISCARD PLANS")
                    planned_for = size
            self._is_small = size < MANY_BYTES
            self._planned[connection] = (monotonic(), planned_for if looked_at is not None else size)

    def give_back(self, connection: Connection) -> None:
        """Hand a connection back without waiting; it stays at hand if it is sound, young and idle, and no one waits."""
        self.taken -= 1
        if (
            self._is_open
            and self._waiting == 0
            and len(self._at_hand) < self._options.min_size
            and not connection.closed
            and connection.info.transaction_status == TransactionStatus.IDLE
            and monotonic() - self._taken_at[connection] < KEPT_FOR
        ):
            self._at_hand.append(connection)
        else:
            self._return(connection)

    def _return(self, connection: Connection) -> None:
        """To the driver's pool, which resets or discards a connection that is not idle."""
        returning = asyncio.create_task(self._pool.putconn(connection))
        self._returning.add(returning)
        returning.add_done_callback(self._returning.discard)

    def statistics(self) -> dict[str, int]:
        """Figures of the pool: size, available, waiting, requests."""
        figures = self._pool.get_stats()
        available = figures.get("pool_available", 0) + len(self._at_hand)
        return {**figures, "pool_available": available, "requests_num": self._requests}


async def functions_of_nodes(connection: psycopg.AsyncConnection[Any]) -> set[str]:
    """The names of the functions that the nodes of a cluster run for us (`recordari.db.delegation`)."""
    async with connection.cursor(row_factory=scalar_row) as cursor:
        await cursor.execute(queries.list_functions.sql)
        return set(await cursor.fetchall())


async def is_behind_pooler(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether a pooler is between: it gives its clients process ids of its own, because it hands on their cancellations."""
    return await _server_process(connection) != connection.info.backend_pid


async def refuse_pooler(connection: psycopg.AsyncConnection[Any], dsn: str) -> None:
    """Raise `ConfigurationError` if the connection's server process changes between transactions.

    For work as the owner, which holds locks and settings over several transactions. A pooler in session mode is fine.
    """
    if not await is_behind_pooler(connection):
        return
    ours = await _server_process(connection)
    async with await psycopg.AsyncConnection.connect(dsn, connect_timeout=5, prepare_threshold=None) as other:
        # Its transaction stays open meanwhile. In transaction mode it got the process that we had, or we get another one now.
        if ours == await _server_process(other) or ours != await _server_process(connection):
            raise ConfigurationError(
                "the owner's address leads through a pooler in transaction mode; set RECORDARI_DATABASE_OWNER_URL to the "
                "server itself, or to a pooler in session mode"
            )


async def _server_process(connection: psycopg.AsyncConnection[Any]) -> int:
    async with connection.cursor(row_factory=scalar_row) as cursor:
        process: int | None = await (await cursor.execute(queries.server_process.sql)).fetchone()
    assert process is not None
    return process
