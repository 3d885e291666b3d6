"""The pool of connections, which hands out the one that was used last.

The driver's pool hands its connections out in turn, so that the server process of each is cold, with its plans and pages.
Here the last few that came back are kept on a stack. All others, and those that stayed there for a while, go through the
driver's pool, which renews, discards and opens them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, cast
from weakref import WeakKeyDictionary

import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

Connection = psycopg.AsyncConnection[dict[str, Any]]

KEPT_FOR = 60.0
"""Seconds until a connection goes through the driver's pool again, which looks at its age."""

RECONNECT_SECONDS = 0.5
"""The driver's pool waits ever longer between its tries; after this the next request tries at once."""

MIN_SIZE = 2
"""Connections that a process keeps open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """How many connections, and how long anything may take."""

    min_size: int = MIN_SIZE
    max_size: int = 8
    timeout: float = 2.0
    statement_timeout: float = 15.0


class Pool:
    """Connections to one address; at most `min_size` of them are kept at hand."""

    def __init__(self, dsn: str, options: PoolOptions, configure: Callable[[Connection], Awaitable[None]]) -> None:
        self._options = options
        self._at_hand: list[Connection] = []
        self._taken_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._waiting = 0
        self._requests = 0
        self._is_open = False
        self._returning: set[asyncio.Task[None]] = set()
        self._pool: psycopg_pool.AsyncConnectionPool[Connection] = psycopg_pool.AsyncConnectionPool(
            dsn,
            connection_class=cast("type[Connection]", psycopg.AsyncConnection),
            kwargs={"autocommit": True, "row_factory": dict_row, "connect_timeout": 5},
            min_size=options.min_size,
            max_size=options.max_size,
            timeout=options.timeout,
            max_waiting=options.max_size * 64,
            reconnect_timeout=RECONNECT_SECONDS,
            configure=configure,
            open=False,
        )

    async def open(self) -> None:
        """Connect; raise `psycopg_pool.PoolTimeout` when no connection can be prepared."""
        self._is_open = True
        await self._pool.open(wait=True, timeout=30)

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
            return self._at_hand.pop()
        self._waiting += 1
        try:
            connection = await self._pool.getconn()
        finally:
            self._waiting -= 1
        self._taken_at[connection] = monotonic()
        return connection

    def give_back(self, connection: Connection) -> None:
        """Hand a connection back without waiting; it stays at hand if it is sound, young and idle, and no one waits."""
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
