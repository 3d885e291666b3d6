"""Transactions bound to an identity.

`transaction(identity)` is the only way to tenant data. It sets `app.tenant_id` and `app.user_id` with a literal
`SET LOCAL`, which row-level security reads and which ends with the transaction, however that ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import psycopg
import psycopg_pool
from pgvector.psycopg import register_vector_async
from psycopg import generators, sql
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import BaseRowFactory, args_row, class_row, dict_row, scalar_row

from recollect.domain.identity import Identity
from recollect.errors import ConfigurationError, Conflict, DatabaseUnavailable, InvalidInput, UnsafeRole
from recollect.storage.asking import Asked, Record
from recollect.storage.literals import literal
from recollect.storage.pool import Connection, Pool, PoolOptions
from recollect.storage.queries import Queries, Query

T = TypeVar("T")

queries = Queries("database")

RETENTION_ROLE = "recollect_retention"
READ_ONLY = "this memory is shared by another tenant and read-only here; decline its link, or ask them to withdraw it"
_BEGIN_QUEUE = "BEGIN; SET LOCAL app.tenant_id = ''; SET LOCAL app.user_id = ''"

# A plan for every tenant must not read the whole table, however few tenants there are while it is made.
_ALWAYS_BY_INDEX = "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off"
_AS_USUAL = "SET LOCAL plan_cache_mode = auto; SET LOCAL enable_seqscan = on"
_PREPARED: WeakKeyDictionary[Connection, set[str]] = WeakKeyDictionary()


def _bound_to(identity: Identity) -> sql.Composed:
    """What tells row-level security who asks, until the transaction ends."""
    return sql.SQL("SET LOCAL app.tenant_id = {tenant}; SET LOCAL app.user_id = {user}").format(
        tenant=sql.Literal(str(identity.tenant_id)), user=sql.Literal(identity.user_id or "")
    )


class Rows:
    """Runs named queries on one connection inside one transaction."""

    def __init__(self, connection: Connection, bound: Mapping[str, Any]) -> None:
        self._connection = connection
        self._bound = bound

    def _parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        if self._bound.keys() & given.keys():
            raise TypeError("the tenant of a transaction is fixed by its identity")
        return {**self._bound, **given}

    async def all(self, query: Query, into: type[T], **parameters: Any) -> list[T]:
        """Every row of the answer, as `into`."""
        async with self._connection.cursor(row_factory=class_row(into)) as cursor:
            await cursor.execute(query.sql, self._parameters(parameters))
            return await cursor.fetchall()

    async def maybe(self, query: Query, into: type[T], **parameters: Any) -> T | None:
        """The first row as `into`, or None."""
        async with self._connection.cursor(row_factory=class_row(into)) as cursor:
            await cursor.execute(query.sql, self._parameters(parameters))
            return await cursor.fetchone()

    async def dicts(self, query: Query, **parameters: Any) -> list[dict[str, Any]]:
        """Every row of the answer, as dictionaries."""
        cursor = await self._connection.execute(query.sql, self._parameters(parameters))
        return await cursor.fetchall()

    async def planned(self, query: Query, into: type[T], **parameters: Any) -> list[T]:
        """Every row of a query planned for these very parameters: a plan for any tenant cannot use one tenant's index.

        Its placeholders are numbered once and not at every call, and rows come in binary form: it is for the long
        statement behind every recall. A row becomes `into` of its columns in their order, or a dictionary.
        """
        statement, names = query.numbered
        values = self._parameters(parameters)
        factory = cast("BaseRowFactory[T]", dict_row if into is dict else args_row(into))
        async with psycopg.AsyncRawCursor(self._connection, row_factory=factory) as cursor:
            await cursor.execute(statement, [values[name] for name in names], prepare=False, binary=True)
            return await cursor.fetchall()

    async def kept(self, query: Query, **parameters: Any) -> list[tuple[Any, ...]]:
        """Every row of a query whose plan is kept by the connection: for a long statement that any tenant runs alike."""
        values = self._parameters(parameters)
        written = _executed(query.name, [values[name] for name in query.numbered[1]])
        await _prepare(self._connection, query)
        return await _rows_of(self._connection, f"{_ALWAYS_BY_INDEX}; {written}; {_AS_USUAL}")

    async def value(self, query: Query, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        async with self._connection.cursor(row_factory=scalar_row) as cursor:
            await cursor.execute(query.sql, self._parameters(parameters))
            return await cursor.fetchone()

    async def run(self, query: Query, **parameters: Any) -> int:
        """Execute, and say how many rows were touched."""
        cursor = await self._connection.execute(query.sql, self._parameters(parameters))
        return cursor.rowcount


class Transaction(Rows):
    """A transaction on tenant data: `tenant_id` of every query is that of its identity."""

    def __init__(self, connection: Connection, identity: Identity) -> None:
        super().__init__(connection, {"tenant_id": identity.tenant_id})
        self.identity = identity

    @asynccontextmanager
    async def crossed(self, identity: Identity) -> AsyncIterator[Transaction]:
        """The same transaction in another tenant, until the block ends: for sharing, and for nothing else.

        Both tenants change together or not at all, and each statement is bound to one of them by row-level security. What
        is used on the wrong side of the crossing finds nothing, because it asks for one tenant under the policy of another.
        """
        await self._connection.execute(_bound_to(identity))
        try:
            yield Transaction(self._connection, identity)
        finally:
            if self._connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
                await self._connection.execute(_bound_to(self.identity))


class QueueTransaction(Rows):
    """A transaction on the queue schema, which holds ids of work and no content; tenant tables look empty in it."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, {})


class Database:
    """A pool of connections as the application role."""

    def __init__(self, dsn: str, options: PoolOptions | None = None) -> None:
        self.dsn = dsn
        self.options = options or PoolOptions()
        self._pool = Pool(dsn, self.options, self._configure)

    async def open(self) -> None:
        """Connect; raise `DatabaseUnavailable` when the server cannot be reached."""
        try:
            async with await psycopg.AsyncConnection.connect(self.dsn, connect_timeout=5) as probe:
                await probe.execute("SELECT 1")
        except psycopg.Error as error:
            raise DatabaseUnavailable(
                "the database cannot be reached; check RECOLLECT_DATABASE_URL and that the server is up",
                reason=type(error).__name__,
            ) from error
        try:
            await self._pool.open()
        except psycopg_pool.PoolTimeout as error:
            await self.close()
            raise ConfigurationError(
                "the database answers, but a connection cannot be prepared (is the extension `vector` there?); "
                "run `recollect doctor`"
            ) from error

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    async def _configure(self, connection: Connection) -> None:
        milliseconds = int(self.options.statement_timeout * 1000)
        await connection.execute(
            sql.SQL(
                "SET standard_conforming_strings = on; SET search_path = recollect, recollect_queue, public;"
                "SET application_name = 'recollect';"
                "SET TimeZone = 'UTC';"
                "SET jit = off; SET statement_timeout = {ms}; SET idle_in_transaction_session_timeout = {ms};"
                "SET hnsw.ef_search = 100; SET hnsw.iterative_scan = relaxed_order"
            ).format(ms=sql.Literal(milliseconds))
        )
        await register_vector_async(connection)

    @asynccontextmanager
    async def transaction(self, identity: Identity, *, role: str | None = None) -> AsyncIterator[Transaction]:
        """A transaction that sees and writes only what `identity` may; commits unless the block raises.

        `role` switches to another database role for its duration (retention, read-only).
        """
        async with self._begun(_begin(identity, role)) as connection:
            yield Transaction(connection, identity)

    async def read(self, identity: Identity, query: Query, **parameters: Any) -> list[tuple[Any, ...]]:
        """The same as `once` for a query that is asked again and again: its parameters must be hashable."""
        values = {"tenant_id": identity.tenant_id, **parameters}
        text = _kept_message(_begin(identity, None), query.name, tuple(values[name] for name in query.numbered[1]))
        return await self._sent(query, text)

    async def once(self, identity: Identity, query: Query, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of one query in a transaction of its own, begun and committed in one round trip.

        It is planned once for each connection and every tenant, always by an index. When a connection is lost, nobody
        knows whether it committed, and the query is sent again: it must do no harm a second time.
        """
        values = {"tenant_id": identity.tenant_id, **parameters}
        text = _message(_begin(identity, None), query.name, tuple(values[name] for name in query.numbered[1]))
        return await self._sent(query, text)

    async def together(self, identity: Identity, asked: Sequence[Asked[Any]]) -> None:
        """Send queries that only read in one round trip, as a transaction of their own; each has its answer then."""
        bound = {"tenant_id": identity.tenant_id}
        written = "; ".join([_executed(one.query.name, one.values(bound)) for one in asked])
        text = f"{_begin(identity, None)}; {_ALWAYS_BY_INDEX}; {written}; COMMIT"

        async def send(connection: Connection) -> None:
            for one in asked:
                await _prepare(connection, one.query)
            for one, rows in zip(asked, await _sets_of(connection, text), strict=True):
                one.answered(rows)

        self._pool.give_back(await self._borrow(send))

    async def _sent(self, query: Query, text: str) -> list[tuple[Any, ...]]:
        answered: list[tuple[Any, ...]] = []

        async def send(connection: Connection) -> None:
            await _prepare(connection, query)
            answered.extend(await _rows_of(connection, text))

        self._pool.give_back(await self._borrow(send))
        return answered

    @asynccontextmanager
    async def queue(self) -> AsyncIterator[QueueTransaction]:
        """A transaction on the queue schema only."""
        async with self._begun(_BEGIN_QUEUE) as connection:
            yield QueueTransaction(connection)

    @asynccontextmanager
    async def _begun(self, begin: str) -> AsyncIterator[Connection]:
        """A connection with its transaction begun; committed at the end, or rolled back and the error translated."""

        async def start(connection: Connection) -> None:
            await connection.execute(begin)

        connection = await self._borrow(start)
        try:
            yield connection
            await connection.execute("COMMIT")
        except BaseException as error:
            if not connection.closed:
                await asyncio.shield(_rolled_back(connection))
            translated = _translated(error)
            if translated is error:
                raise
            raise translated from error
        finally:
            self._pool.give_back(connection)

    async def _borrow(self, start: Callable[[Connection], Awaitable[None]]) -> Connection:
        """Take a connection and start on it; one that died while idle is replaced, since nothing was written on it yet."""
        for _ in range(self.options.max_size + 1):
            try:
                connection = await self._pool.take()
            except psycopg_pool.TooManyRequests as error:
                raise DatabaseUnavailable("too many requests wait for a database connection; try again") from error
            except (psycopg_pool.PoolTimeout, psycopg.OperationalError) as error:
                raise DatabaseUnavailable from error
            try:
                await start(connection)
            except BaseException as error:
                if not connection.closed:
                    await asyncio.shield(_rolled_back(connection))
                self._pool.give_back(connection)
                if not _is_dead(error):
                    translated = _translated(error)
                    if translated is error:
                        raise
                    raise translated from error
            else:
                return connection
        raise DatabaseUnavailable

    async def ping(self) -> None:
        """Raise `DatabaseUnavailable` unless a query is answered now."""
        async with self.queue() as rows:
            await rows.value(queries.ping)

    async def refuse_unsafe_role(self) -> None:
        """Raise `UnsafeRole` when the connected role could read past row-level security."""
        async with self.queue() as rows:
            (found,) = await rows.dicts(queries.role_powers)
        powers = [name for name, held in found.items() if held is True]
        if powers:
            raise UnsafeRole(
                f"the database role {found['role']!r} could bypass row-level security ({', '.join(powers)}); "
                "connect as the application role that `recollect db init` makes",
                powers=powers,
            )

    def statistics(self) -> dict[str, int]:
        """Figures of the pool: size, available, waiting."""
        return self._pool.statistics()


@lru_cache(maxsize=10_000)
def _begin_for(tenant: str, user: str, role: str | None) -> str:
    begin = sql.SQL("BEGIN; SET LOCAL app.tenant_id = {tenant}; SET LOCAL app.user_id = {user}").format(
        tenant=sql.Literal(tenant), user=sql.Literal(user)
    )
    if role is not None:
        begin += sql.SQL("; SET LOCAL ROLE {}").format(sql.Identifier(role))
    return begin.as_string(None)


def _begin(identity: Identity, role: str | None) -> str:
    """What binds a transaction to an identity, as one message."""
    return _begin_for(str(identity.tenant_id), identity.user_id or "", role)


async def _prepare(connection: Connection, query: Query) -> None:
    """Let the connection keep a query, unless it does already."""
    known = _PREPARED.setdefault(connection, set())
    if query.name not in known:
        await connection.execute(f"PREPARE {_prepared_name(query.name)} AS {query.numbered[0]}", prepare=False)
        known.add(query.name)


def _prepared_name(name: str) -> str:
    return name.replace(".", "_")


def _executed(name: str, values: Sequence[Any]) -> str:
    return f"EXECUTE {_prepared_name(name)}({', '.join([literal(value) for value in values])})"


def _message(begin: str, name: str, values: tuple[Any, ...]) -> str:
    """A whole transaction that runs one prepared query, as one message."""
    return f"{begin}; {_ALWAYS_BY_INDEX}; {_executed(name, values)}; COMMIT"


_kept_message = lru_cache(maxsize=10_000)(_message)


async def _rows_of(connection: Connection, text: str) -> list[tuple[Any, ...]]:
    """The rows that a message answers with."""
    answer = next(result for result in await _answered(connection, text) if result.status == ExecStatus.TUPLES_OK)
    reader = Transformer(connection)
    reader.set_pgresult(answer)
    return reader.load_rows(0, answer.ntuples, tuple)


async def _answered(connection: Connection, text: str) -> Sequence[PGresult]:
    """What a message answers to each statement: a cursor would read it for placeholders, and keep every answer of it."""
    async with connection.lock:
        connection.pgconn.send_query(text.encode())
        results: list[PGresult] = await connection.wait(generators.execute(connection.pgconn))
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result, encoding="utf-8")
    return results


async def _sets_of(connection: Connection, text: str) -> list[list[Record]]:
    """The rows of each statement that has any to tell, in their order."""
    found = []
    for answer in await _answered(connection, text):
        if answer.status == ExecStatus.TUPLES_OK:
            reader = Transformer(connection)
            reader.set_pgresult(answer)
            names = [(answer.fname(column) or b"").decode() for column in range(answer.nfields)]
            rows = reader.load_rows(0, answer.ntuples, tuple)
            found.append([dict(zip(names, row, strict=True)) for row in rows])
    return found


def _is_dead(error: BaseException) -> bool:
    """Whether the connection was gone; a statement that took too long is no reason to try it again."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not isinstance(
        error, psycopg.errors.QueryCanceled
    )


async def _rolled_back(connection: Connection) -> None:
    try:
        await connection.rollback()
        # The driver may have thrown away what the connection kept; now all of it is gone for certain.
        if _PREPARED.pop(connection, None):
            await connection.execute("DEALLOCATE ALL")
    except psycopg.Error:
        await connection.close()


def _translated(error: BaseException) -> BaseException:
    """Our error for a driver error that a caller can act on; anything else unchanged."""
    match error:
        case psycopg.errors.AdminShutdown() | psycopg.errors.CrashShutdown() | psycopg.errors.CannotConnectNow():
            return DatabaseUnavailable()
        case psycopg.errors.QueryCanceled():
            return DatabaseUnavailable("the database took too long; try again or ask for less")
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedColumn():
            return ConfigurationError("the database schema is not the one expected; run `recollect db migrate`")
        case (
            psycopg.errors.UniqueViolation() | psycopg.errors.SerializationFailure() | psycopg.errors.DeadlockDetected()
        ):
            return Conflict("another change came first; read again and repeat")
        case psycopg.errors.UntranslatableCharacter() | psycopg.DataError() if "NUL" in str(error) or "0x00" in str(
            error
        ):
            return InvalidInput("text must not contain the character U+0000")
        case psycopg.errors.InvalidTimeZoneDisplacementValue() | psycopg.errors.DatetimeFieldOverflow():
            return InvalidInput("a time is out of range, or its offset is more than 15:59 hours")
        case psycopg.errors.NumericValueOutOfRange():
            return InvalidInput("a number is too large, or too near to zero, to be kept; give a plainer one")
        case psycopg.errors.CheckViolation() if error.diag.constraint_name == "items_leak_guard":
            return InvalidInput(
                "this text copies a protected document; say what is known about it and refer to the document",
                field="content",
            )
        case psycopg.errors.CheckViolation() if error.diag.constraint_name == "items_shared_are_read_only":
            return Conflict(READ_ONLY)
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return DatabaseUnavailable()
        case _:
            return error
