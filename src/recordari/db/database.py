"""Transactions bound to an identity.

`transaction(identity)` is the way to tenant data; `execute`, `pipeline` and `read_batch` are whole transactions in one
round trip. Each first sets `app.tenant_id` and `app.user_id`, which row-level security reads, until it ends. Without a user
no user's row is visible. `Identity.spans_users` (all users of a tenant) takes a role of its own when the transaction begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar, cast

import psycopg
import psycopg_pool
from psycopg.pq.abc import PGresult
from psycopg.rows import BaseRowFactory, args_row, dict_row, kwargs_row, scalar_row

from recordari.core.identity import Identity
from recordari.db.delegation import NO_DELEGATION, Delegation, RoundTrip
from recordari.db.pipeline import (
    CLUSTER,
    ONE_SERVER,
    Binding,
    Part,
    RawAnswer,
    answers_of,
    records_of,
    role_of,
    roll_back,
    rows_of,
    translated,
)
from recordari.db.pool import Connection, Pool, PoolOptions
from recordari.db.queries import Queries, Query, Record, reader, with_bound
from recordari.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    Overloaded,
    UnsafeRole,
)

T = TypeVar("T")

queries = Queries(__name__)

RETENTION_ROLE = "recordari_retention"
_CONNECTION_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError)
BUSY = "every connection with the database is in use; try again after the time given"


class Rows:
    """Runs named queries on one connection inside one transaction."""

    def __init__(
        self, connection: Connection, bound: Mapping[str, Any], role: str | None = None, binding: Binding = ONE_SERVER
    ) -> None:
        self._connection = connection
        self._bound = bound
        self._role = role
        self._binding = binding

    def _parameters(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return with_bound(self._bound, values)

    async def _prepared(self, part: Part) -> list[PGresult]:
        before, after = self._binding.plan_by_index, self._binding.plan_as_usual
        answers = await answers_of(self._connection, [*before, part, *after], role=self._role)
        return answers[len(before) :]

    async def all(self, query: Query, into: type[T], **parameters: Any) -> list[T]:
        async with self._connection.cursor(row_factory=kwargs_row(reader(into))) as cursor:
            await cursor.execute(query.sql, self._parameters(parameters))
            return await cursor.fetchall()

    async def maybe(self, query: Query, into: type[T], **parameters: Any) -> T | None:
        async with self._connection.cursor(row_factory=kwargs_row(reader(into))) as cursor:
            await cursor.execute(query.sql, self._parameters(parameters))
            return await cursor.fetchone()

    async def dicts(self, query: Query, **parameters: Any) -> list[dict[str, Any]]:
        cursor = await self._connection.execute(query.sql, self._parameters(parameters))
        return await cursor.fetchall()

    async def query_custom_plan(self, query: Query, into: type[T], **parameters: Any) -> list[T]:
        """Every row of a query planned for these parameters: a plan for all tenants cannot use one tenant's index.

        For the long statement behind every recall: its placeholders are numbered once and not at every call, and rows
        come in binary form. A row becomes `into` of its columns in their order, or a dictionary.
        """
        statement, names = query.numbered
        values = self._parameters(parameters)
        factory = cast("BaseRowFactory[T]", dict_row if into is dict else args_row(into))
        async with psycopg.AsyncRawCursor(self._connection, row_factory=factory) as cursor:
            await cursor.execute(statement, [values[name] for name in names], prepare=False, binary=True)
            return await cursor.fetchall()

    async def query_prepared(self, query: Query, **parameters: Any) -> list[tuple[Any, ...]]:
        """Every row of a query whose plan the connection keeps: for a long statement with one plan for all tenants."""
        answers = await self._prepared((query, self._parameters(parameters)))
        return rows_of(self._connection, answers[0])

    async def value(self, query: Query, **parameters: Any) -> Any:
        """The first column of the first row, or None."""
        async with self._connection.cursor(row_factory=scalar_row) as cursor:
            await cursor.execute(query.sql, self._parameters(parameters))
            return await cursor.fetchone()

    async def run(self, query: Query, **parameters: Any) -> int:
        """Execute, and return the number of rows touched."""
        cursor = await self._connection.execute(query.sql, self._parameters(parameters))
        return cursor.rowcount


class Transaction(Rows):
    """A transaction on tenant data: `tenant_id` of every query is that of its identity."""

    def __init__(
        self,
        connection: Connection,
        identity: Identity,
        role: str | None = None,
        binding: Binding = ONE_SERVER,
        delegation: Delegation = NO_DELEGATION,
    ) -> None:
        super().__init__(connection, {"tenant_id": identity.tenant_id}, role, binding)
        self.identity = identity
        self._delegation = delegation

    async def _prepared(self, part: Part) -> list[PGresult]:
        try:
            return await super()._prepared(self._delegation.part(part, self.identity, role=self._role))
        except psycopg.Error as error:
            if self._delegation.gives_way(error):
                raise DatabaseUnavailable("the tenant is moved or its node is being changed; try again") from error
            raise

    @asynccontextmanager
    async def crossed(self, identity: Identity) -> AsyncIterator[Transaction]:
        """The same transaction in another tenant, until the block ends: for sharing, and for nothing else.

        Both tenants change together or not at all, and row-level security binds each statement to one of them. The outer
        transaction finds nothing while this one is open: it asks for one tenant under the policy of another.
        """
        await self._rebind(identity)
        try:
            yield Transaction(self._connection, identity, self._role, self._binding, self._delegation)
        finally:
            if self._connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
                await self._rebind(self.identity)

    async def _rebind(self, identity: Identity) -> None:
        await self._connection.execute(self._binding.statement(identity.tenant_id, identity.user_id))


class QueueTransaction(Rows):
    """A transaction on the queue schema, which holds ids of work and no content; tenant tables are empty in it."""

    def __init__(self, connection: Connection, binding: Binding = ONE_SERVER) -> None:
        super().__init__(connection, {}, binding=binding)
        self.of_cluster = binding.of_cluster


class Database:
    """A pool of connections as the application role."""

    def __init__(self, dsn: str, options: PoolOptions | None = None) -> None:
        self.dsn = dsn
        self.options = options or PoolOptions()
        self._pool = Pool(dsn, self.options)
        self._delegation = Delegation(self._pool.functions)
        self._ending: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Connect; raise `DatabaseUnavailable` when the server cannot be reached."""
        try:
            await self._pool.open()
        except psycopg_pool.PoolTimeout as error:
            await self.close()
            raise ConfigurationError(
                "the database answers, but a connection cannot be set up (is the extension `vector` installed?); "
                "run `recordari doctor`"
            ) from error
        except psycopg.Error as error:
            raise DatabaseUnavailable(
                "the database cannot be reached; check RECORDARI_DATABASE_URL and that the server is up",
                reason=type(error).__name__,
            ) from error

    async def close(self) -> None:
        if self._ending:
            await asyncio.wait(self._ending)
        await self._pool.close()

    @property
    def behind_pooler(self) -> bool:
        """Whether a pooler in transaction mode is between us and the server."""
        return self._pool.opening is not None

    @property
    def _binding(self) -> Binding:
        return CLUSTER if self._pool.is_distributed else ONE_SERVER

    def _opening(self) -> list[Part]:
        """The settings that each transaction has to begin with."""
        return [] if self._pool.opening is None else [(self._pool.opening, {})]

    @asynccontextmanager
    async def transaction(self, identity: Identity, *, role: str | None = None) -> AsyncIterator[Transaction]:
        """A transaction that sees and writes only what `identity` may; commits unless the block raises.

        `role` is another database role for its duration (retention, read-only) than the identity has.
        """
        role = role or role_of(identity)
        binding = self._binding
        async with self._begun(binding.statement(identity.tenant_id, identity.user_id, role)) as connection:
            yield Transaction(connection, identity, role, binding, self._delegation)

    async def execute(self, identity: Identity, query: Query, **parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of one query that only reads, in a transaction of its own, begun and committed in one round trip.

        It is planned once for each connection and all tenants, always by an index.
        """
        parts = [(query, with_bound({"tenant_id": identity.tenant_id}, parameters))]
        connection, (answer,) = await self._round_trip(identity, parts, is_alone=True)
        return rows_of(connection, answer)

    async def execute_raw(
        self,
        identity: Identity,
        query: Query,
        parameters: Mapping[str, Any],
        meanwhile: Callable[[], object] | None = None,
    ) -> RawAnswer:
        """The same for a query whose rows are read one by one; `meanwhile` is called while the server works."""

        def more() -> Iterator[Part]:
            if meanwhile is not None:
                meanwhile()
            yield from ()

        parts = [(query, with_bound({"tenant_id": identity.tenant_id}, parameters))]
        _, (answer,) = await self._round_trip(identity, parts, more, is_alone=True)
        return RawAnswer(query, answer)

    async def pipeline(
        self,
        identity: Identity,
        query: Query,
        parameters: Mapping[str, Any],
        following: Callable[[], Iterable[Part]] | None = None,
        *,
        thread: str | None = None,
    ) -> list[list[tuple[Any, ...]]]:
        """The same for queries that write, with the rows of each; `following` prepares others while the first runs.

        The queries must be idempotent: they are sent again when a connection is lost, although they may have committed.
        With `thread`, no other transaction writes to that thread before the commit.
        """
        bound = {"tenant_id": identity.tenant_id}

        def more() -> Iterator[Part]:
            return ((part, with_bound(bound, values)) for part, values in (following() if following else ()))

        ready = [(query, with_bound(bound, parameters))]
        is_alone = following is None
        connection, answers = await self._round_trip(identity, ready, more, thread=thread, is_alone=is_alone)
        return [rows_of(connection, answer) for answer in answers]

    async def read_batch(self, identity: Identity, batch: Sequence[BatchedQuery[Any]]) -> None:
        """Send queries that only read in one round trip, as a transaction of their own; each then has its answer."""
        bound, binding = {"tenant_id": identity.tenant_id}, self._binding
        kept = [query for query in batch if not query.query.is_planned_anew]
        anew = [query for query in batch if query.query.is_planned_anew]
        between = binding.plan_as_usual if anew else ()
        parts = [
            *((query.query, query.parameters(bound)) for query in kept),
            *between,
            *((query.query, query.parameters(bound)) for query in anew),
        ]
        connection, answers = await self._round_trip(identity, parts, is_alone=len(parts) == 1)
        del answers[len(kept) : len(kept) + len(between)]
        for query, answer in zip([*kept, *anew], answers, strict=True):
            query.receive(records_of(connection, answer))

    async def _round_trip(
        self,
        identity: Identity | None,
        ready: Sequence[Part],
        following: Callable[[], Iterable[Part]] | None = None,
        *,
        thread: str | None = None,
        is_alone: bool = False,
    ) -> tuple[Connection, list[PGresult]]:
        """Send a whole transaction in one message; return the answers of its parts and the connection, which reads them.

        `is_alone`: there is one part, and `following` has none.
        """
        answers: list[PGresult] = []
        binding = self._binding
        trip = RoundTrip(
            identity=identity,
            ready=ready,
            following=following,
            opening=[*binding.opening, *self._opening(), *(binding.bind(identity, thread) if identity else ())],
            closing=binding.closing,
            thread=thread,
            is_alone=is_alone and not self.behind_pooler,
        )

        async def send(connection: Connection) -> None:
            answers.extend(await self._delegation.answers(connection, trip))

        connection = await self._borrow(send)
        self._pool.give_back(connection)
        return connection, answers

    async def notify(self, query: Query, payload: str) -> None:
        """Tell other processes something in one round trip; the query reads no table."""
        await self._round_trip(None, [(query, {"payload": payload})])

    @asynccontextmanager
    async def queue(self) -> AsyncIterator[QueueTransaction]:
        async with self._begun(self._binding.statement(None, None)) as connection:
            yield QueueTransaction(connection, self._binding)

    @asynccontextmanager
    async def _begun(self, binding: str) -> AsyncIterator[Connection]:
        """A connection with its transaction begun; committed at the end, or rolled back and the error translated."""

        async def start(connection: Connection) -> None:
            await connection.execute("; ".join(["BEGIN", *(query.sql for query, _ in self._opening()), binding]))

        connection = await self._borrow(start)
        try:
            yield connection
            is_held = await self._end(connection)
        except BaseException as error:
            await self._give_up(connection)
            if (ours := translated(error)) is None:
                raise
            raise ours from error
        if not is_held:
            self._pool.give_back(connection)

    async def _end(self, connection: Connection) -> bool:
        """Commit; True if the transaction is held back instead (`HeldWrites`)."""
        await connection.execute("COMMIT")
        return False

    async def _borrow(self, start: Callable[[Connection], Awaitable[None]]) -> Connection:
        """Take a connection and call `start` on it; one that died while idle is replaced, as nothing was written yet."""
        for _ in range(self.options.max_size + 1):
            try:
                connection = await self._pool.take()
            except psycopg_pool.PoolTimeout as error:
                if self._pool.taken:
                    raise Overloaded(BUSY) from error
                raise DatabaseUnavailable from error
            except psycopg_pool.TooManyRequests as error:
                raise Overloaded(BUSY) from error
            except psycopg.OperationalError as error:
                raise DatabaseUnavailable from error
            try:
                await start(connection)
            except BaseException as error:
                await self._give_up(connection)
                # A statement that took too long is no reason to try it again.
                if isinstance(error, psycopg.errors.QueryCanceled) or not isinstance(error, _CONNECTION_ERRORS):
                    if (ours := translated(error)) is None:
                        raise
                    raise ours from error
            else:
                return connection
        raise DatabaseUnavailable

    async def _give_up(self, connection: Connection) -> None:
        """Roll back and then give the connection back, even when the caller is cancelled meanwhile."""
        ending = asyncio.create_task(roll_back(connection))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        ending.add_done_callback(lambda _: self._pool.give_back(connection))
        await asyncio.shield(ending)

    @property
    def is_joined(self) -> bool:
        """Whether the next transaction becomes a part of one that is held open (`HeldWrites`)."""
        return False

    def after_commit(self, call: Callable[[], None]) -> None:
        """Call it once the transactions that ended are committed: at once, unless they are held back."""
        call()

    def in_steps(self) -> Database:
        """The database for work in steps that commit one by one, because it can be repeated without harm."""
        return self

    async def ping(self) -> None:
        """Raise `DatabaseUnavailable` unless a query is answered now."""
        async with self.queue() as rows:
            await rows.value(queries.ping)

    async def refuse_unsafe_role(self) -> None:
        """Raise `UnsafeRole` when the connected role could read past row-level security."""
        async with self.queue() as rows:
            (row,) = await rows.dicts(queries.role_powers)
        powers = [name for name, value in row.items() if value is True]
        if powers:
            raise UnsafeRole(
                f"the database role {row['role']!r} could bypass row-level security ({', '.join(powers)}); "
                "connect as the application role that `recordari db init` creates",
                powers=powers,
            )

    def statistics(self) -> dict[str, int]:
        return self._pool.statistics()


class BatchedQuery(Generic[T]):
    """A query that only reads, with its parameters; it has an `answer` after `Database.read_batch`."""

    __slots__ = ("_answer", "_parameters", "_read", "_rows", "query")

    def __init__(self, query: Query, read: Callable[[list[Record]], T], **parameters: Any) -> None:
        self.query = query
        self._read = read
        self._parameters = parameters
        self._rows: list[Record] | None = None
        self._answer: tuple[T] | None = None

    def receive(self, rows: list[Record]) -> None:
        """Take the rows of the last time that it was sent."""
        self._rows, self._answer = rows, None

    @property
    def answer(self) -> T:
        """What was read; made of the rows at first use."""
        if self._answer is None:
            assert self._rows is not None, "it was not sent yet"
            self._answer = (self._read(self._rows),)
        return self._answer[0]

    def parameters(self, bound: Mapping[str, Any]) -> Mapping[str, Any]:
        return with_bound(bound, self._parameters)
