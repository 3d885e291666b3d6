"""Writes that commit together with their answer.

A request with an `Idempotency-Key` must be done once, whatever dies and when. So its answer is kept by the transaction that
writes: there is no moment at which one exists without the other, and no claim that a dead process could leave behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import psycopg
from psycopg.pq.abc import PGresult

from recordari.core.identity import Identity
from recordari.db.database import Database
from recordari.db.delegation import RoundTrip
from recordari.db.pipeline import BEGIN, COMMIT, Part, answers_of, forget_prepared, role_of, translated
from recordari.db.pool import Connection
from recordari.db.queries import Queries, with_bound
from recordari.errors import DatabaseUnavailable

queries = Queries(__name__)


class HeldWrites(Database):
    """The database of one request: the first transaction that writes stays open until `keep`, and later ones join it.

    A transaction that only reads ends by itself, as do reads in one message. One that begins while another is open is a
    transaction of its own too. After the end this is an ordinary database, for tasks that the request left behind.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.dsn, self.options = database.dsn, database.options
        self._pool, self._ending, self._delegation = database._pool, database._ending, database._delegation
        self._held: Connection | None = None
        self._is_busy = False
        self._is_lost = False
        self._is_over = False
        self._has_steps = False
        self._afterwards: list[Callable[[], None]] = []

    @property
    def is_joined(self) -> bool:
        return self._held is not None

    def after_commit(self, call: Callable[[], None]) -> None:
        if self._is_over:
            call()
        else:
            self._afterwards.append(call)

    def in_steps(self) -> Database:
        self._has_steps = True
        return self._database

    async def keep(self, identity: Identity, parts: Sequence[Part]) -> bool:
        """Commit what the request wrote, with these further writes; False if it wrote nothing, and they are not written.

        After an error it is not known whether all or nothing was committed: look for what the parts write.
        """
        if self._is_lost:
            raise DatabaseUnavailable
        if self._held is None and not self._has_steps:
            self._finish()
            return False
        bound = {"tenant_id": identity.tenant_id}
        writes = [(query, with_bound(bound, values)) for query, values in parts]
        if self._held is None:
            await self._database._round_trip(identity, writes)
        else:
            connection, self._held = self._held, None
            try:
                await answers_of(connection, [*self._binding.join(identity), *writes, COMMIT], role=role_of(identity))
            except BaseException as error:
                await self._give_up(connection)
                if (ours := translated(error)) is None:
                    raise
                raise ours from error
            self._pool.give_back(connection)
        self._finish()
        return True

    async def roll_back(self) -> None:
        """Undo what the request wrote; nothing is left to undo after `keep`."""
        self._is_over = True
        if self._held is not None:
            connection, self._held = self._held, None
            await self._give_up(connection)

    def _finish(self) -> None:
        self._is_over = True
        for call in self._afterwards:
            call()

    async def _round_trip(
        self,
        identity: Identity | None,
        ready: Sequence[Part],
        following: Callable[[], Iterable[Part]] | None = None,
        *,
        thread: str | None = None,
        is_alone: bool = False,
    ) -> tuple[Connection, list[PGresult]]:
        if identity is None or following is None or self._is_over or self._held is not None:
            return await super()._round_trip(identity, ready, following, thread=thread, is_alone=is_alone)
        answers: list[PGresult] = []
        trip = RoundTrip(
            identity=identity,
            ready=ready,
            following=following,
            opening=[BEGIN, *self._opening(), *self._binding.bind(identity, thread)],
            closing=self._binding.plan_as_usual,
            thread=thread,
        )

        async def send(connection: Connection) -> None:
            answers.extend(await self._delegation.answers(connection, trip))

        self._held = await self._borrow(send)
        return self._held, answers

    async def _end(self, connection: Connection) -> bool:
        # What a node of a cluster wrote is not known here, so there every transaction counts as one that writes.
        if self._is_over or self._held is not None or not (self._binding.of_cluster or await _has_written(connection)):
            return await super()._end(connection)
        self._held = connection
        return True

    @asynccontextmanager
    async def _begun(self, binding: str) -> AsyncIterator[Connection]:
        if self._is_lost:
            raise DatabaseUnavailable
        joining = self._held is not None and not self._is_busy
        async with self._joined(binding) if joining else super()._begun(binding) as connection:
            yield connection

    @asynccontextmanager
    async def _joined(self, binding: str) -> AsyncIterator[Connection]:
        """The held transaction; an error undoes what this block wrote and nothing before it."""
        connection = self._held
        assert connection is not None
        self._is_busy = True
        try:
            for message in self._binding.step(binding):
                await connection.execute(message)
            yield connection
            await connection.execute("RELEASE SAVEPOINT step")
        except BaseException as error:
            await self._undo_step(connection, error)
            if (ours := translated(error)) is None:
                raise
            raise ours from error
        finally:
            self._is_busy = False

    async def _undo_step(self, connection: Connection, error: BaseException) -> None:
        try:
            if not isinstance(error, Exception):
                raise psycopg.OperationalError("the request was cancelled in the middle of a statement")
            await connection.execute("ROLLBACK TO SAVEPOINT step")
            # The driver may have dropped some prepared statements; now drop all of them.
            if forget_prepared(connection):
                await connection.execute("DEALLOCATE ALL")
        except psycopg.Error:
            self._is_lost, self._held = True, None
            await self._give_up(connection)


async def _has_written(connection: Connection) -> bool:
    cursor = await connection.execute(queries.has_written.sql)
    row = await cursor.fetchone()
    return row is not None and bool(row["has_written"])
