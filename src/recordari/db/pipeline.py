"""Prepared statements that are sent without waiting for each other, and answered in one round trip.

The server runs a statement while the next one is prepared here. Outside a transaction all of them are one transaction,
which commits at the end if nothing failed.

A transaction is bound to its tenant first, for row-level security (`Binding`). On one server that is settings of the
transaction. On a cluster divided by tenant the nodes that hold the rows must have them too: Citus hands on what `SET LOCAL`
sets inside `BEGIN` and `COMMIT`, and nothing else. So there a function does that, and a pipeline says its `BEGIN` and `COMMIT`.
Plans are made for each tenant there, because a plan for all tenants does not know the node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from types import NoneType
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import psycopg
from psycopg import generators, sql
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, PipelineStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.json import Jsonb

from recordari.core.identity import Identity, TenantId, UserId
from recordari.db.pool import Connection
from recordari.db.queries import Queries, Query
from recordari.errors import ConfigurationError, Conflict, DatabaseUnavailable, InvalidInput, RecordariError

queries = Queries(__name__)

# The detail of errors that our triggers raise: the name of a constraint does not come from a node of a cluster.
LEAK_GUARD = "items_leak_guard"
SHARED = "items_shared_are_read_only"
# What a cluster says when a node is lost in a transaction: the words of the connection with the node, and no code for it.
LOST_NODE = (
    "failure on connection marked as essential",
    "terminating connection",
    "server closed the connection",
    "could not commit transaction",
    "connection not open",
    "failed to COPY to shard",
    "postmaster was shut down",
    "the database system is",
)
READ_ONLY = "this memory is shared by another tenant and read-only here; decline its link, or ask them to withdraw it"
TENANT_ROLE = "recordari_tenant"  # sees the things of every user of a tenant

Part = tuple[Query, Mapping[str, Any]]
"""A query and its parameters by name."""

_PREPARED: WeakKeyDictionary[Connection, set[str]] = WeakKeyDictionary()
"""The names of the prepared statements of each connection."""
_UNSURE: WeakSet[Connection] = WeakSet()
"""Connections that may have others, because their pipeline was interrupted."""


async def answers_of(
    connection: Connection,
    ready: Iterable[Part],
    following: Iterable[Part] | None = None,
    *,
    role: str | None = None,
) -> list[PGresult]:
    """The result of each part, or the error of the first that failed; `following` is made while the server works.

    `role` is the database role of the transaction: the server plans a statement anew when it runs under another one.
    So each role has its own.
    """
    async with connection.lock:
        pgconn = connection.pgconn
        sent: list[str | None] = []
        try:
            for part in ready:
                send_query(connection, *part, sent, role)
            if following is not None:
                pgconn.flush()
                for part in following:
                    send_query(connection, *part, sent, role)
            pgconn.pipeline_sync()
            results = await connection.wait(_fetched(pgconn))
            pgconn.exit_pipeline_mode()
        except BaseException:
            _give_up(pgconn)
            if any(sent):
                _UNSURE.add(connection)
            raise
    return _checked(connection, sent, results)


def send_query(
    connection: Connection, query: Query, parameters: Mapping[str, Any], sent: list[str | None], role: str | None
) -> None:
    """Send one query, and first prepare it if that was not done; `sent` gets its name for a prepare, None for a run.

    Where the driver prepares nothing (behind a pooler), nothing is prepared here either. Nor is a query that is planned anew.
    """
    statement, names = query.numbered
    values, formats = written([parameters[name] for name in names])
    pgconn, name = connection.pgconn, f"{query.name}@{role}" if role else query.name
    if pgconn.pipeline_status == PipelineStatus.OFF:
        pgconn.enter_pipeline_mode()
    if connection.prepare_threshold is None or query.is_planned_anew:
        result_format = _BINARY if query.binary else _TEXT
        pgconn.send_query_params(statement.encode(), values, param_formats=formats, result_format=result_format)
        sent.append(None)
        return
    if name not in _PREPARED.setdefault(connection, set()) and name not in sent:
        pgconn.send_prepare(name.encode(), statement.encode())
        sent.append(name)
    pgconn.send_query_prepared(name.encode(), values, formats, _BINARY if query.binary else _TEXT)
    sent.append(None)


def _give_up(pgconn: PGconn) -> None:
    """Leave the pipeline if everything was answered, else close the connection."""
    if pgconn.pipeline_status != PipelineStatus.OFF:
        try:
            pgconn.exit_pipeline_mode()
        except psycopg.OperationalError:
            pgconn.finish()


def _fetched(pgconn: PGconn) -> PQGen[list[PGresult]]:
    """Every result up to the end of the pipeline."""
    yield from generators.send(pgconn)
    results: list[PGresult] = []
    while not results or results[-1].status != ExecStatus.PIPELINE_SYNC:
        new = yield from generators.fetch_many(pgconn)
        if not new and pgconn.status != psycopg.pq.ConnStatus.OK:
            break  # the connection was lost; the last result says why
        results += new
    return results


def _checked(connection: Connection, sent: Sequence[str | None], results: Sequence[PGresult]) -> list[PGresult]:
    """Note the new prepared statements; return the results of the queries, or raise the error of the first that failed."""
    answers = []
    for prepared, result in zip(sent, results, strict=False):
        if result.status in {ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK}:
            if prepared is not None:
                _PREPARED[connection].add(prepared)
            else:
                answers.append(result)
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result, encoding="utf-8")
    if not results or results[-1].status != ExecStatus.PIPELINE_SYNC:
        raise psycopg.OperationalError("the connection was lost")
    return answers


def translated(error: BaseException) -> RecordariError | None:
    """Our error for a driver error that a caller can act on; None for any other."""
    match error:
        case psycopg.errors.AdminShutdown() | psycopg.errors.CrashShutdown() | psycopg.errors.CannotConnectNow():
            return DatabaseUnavailable()
        case psycopg.errors.QueryCanceled():
            return DatabaseUnavailable("the database took too long; try again or ask for less")
        case psycopg.errors.IdleInTransactionSessionTimeout() | psycopg.errors.TransactionTimeout():
            return DatabaseUnavailable()  # we were slow, or its clock was stepped; the driver files these under faults
        case psycopg.errors.UndefinedTable() | psycopg.errors.UndefinedColumn():
            return ConfigurationError("the database schema is not the one expected; run `recordari db migrate`")
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
            return InvalidInput("a number is too large, or too near to zero, to be stored; round it")
        case psycopg.errors.CheckViolation() if error.diag.message_detail == LEAK_GUARD:
            return InvalidInput(
                "this text copies a protected document; summarise it in your own words and refer to the document",
                field="content",
            )
        case psycopg.errors.CheckViolation() if error.diag.message_detail == SHARED:
            return Conflict(READ_ONLY)
        case psycopg.errors.InternalError_() if any(words in str(error) for words in LOST_NODE):
            return DatabaseUnavailable("the node of this tenant does not answer; try again")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return DatabaseUnavailable()
    return None


def is_unsure(connection: Connection) -> bool:
    """Whether a pipeline was interrupted, and may have prepared statements that could not be prepared again."""
    return connection in _UNSURE


def forget_prepared(connection: Connection) -> bool:
    """Forget the prepared statements of a connection; False when it had none."""
    may_have = is_unsure(connection)
    _UNSURE.discard(connection)
    return bool(_PREPARED.pop(connection, None)) or may_have


async def roll_back(connection: Connection) -> None:
    """End the transaction of a connection, or close the connection if it does not."""
    # After a pipeline that failed the server has rolled back by itself, and what was prepared is still there.
    is_idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    if connection.closed or (is_idle and not is_unsure(connection)):
        return
    try:
        await connection.rollback()
        # The driver may have dropped some prepared statements; now drop all of them.
        if forget_prepared(connection):
            await connection.execute("DEALLOCATE ALL")
    except psycopg.Error:
        await connection.close()


def rows_of(connection: Connection, answer: PGresult) -> list[tuple[Any, ...]]:
    reader = Transformer(connection)
    reader.set_pgresult(answer)
    return reader.load_rows(0, answer.ntuples, tuple)


class RawAnswer:
    """The answer of a binary query, whose values are read one by one: for many long rows of which few are looked at."""

    __slots__ = ("_loads", "_result")

    def __init__(self, query: Query, result: PGresult) -> None:
        self._result = result
        loads = _LOADS.get(query.name)
        if loads is None:
            # Of no connection: all of them have the same time zone and encoding.
            reader = Transformer()
            types = [result.ftype(column) for column in range(result.nfields)]
            loads = _LOADS[query.name] = [
                _read_jsonb if oid == _JSONB else reader.get_loader(oid, Format.BINARY).load for oid in types
            ]
        self._loads = loads

    def __len__(self) -> int:
        return self._result.ntuples

    def sent(self, row: int, column: int) -> bytes | None:
        """A value as it was sent."""
        return self._result.get_value(row, column)

    def value(self, row: int, column: int) -> Any:
        sent = self._result.get_value(row, column)
        return None if sent is None else self._loads[column](sent)

    def values(self, row: int, columns: Iterable[int]) -> list[Any]:
        sent, loads = self._result.get_value, self._loads
        return [None if (value := sent(row, column)) is None else loads[column](value) for column in columns]


_JSONB = 3802


def _read_jsonb(sent: bytes) -> Any:
    """JSON after a byte for its version; most metadata is empty."""
    return {} if sent == b"\x01{}" else json.loads(sent[1:])


_LOADS: dict[str, list[Callable[[bytes], Any]]] = {}
"""How the columns of each such query are read."""


def records_of(connection: Connection, answer: PGresult) -> list[dict[str, Any]]:
    names = [(answer.fname(column) or b"").decode() for column in range(answer.nfields)]
    return [dict(zip(names, row, strict=True)) for row in rows_of(connection, answer)]


class EncodedValue:
    """A value as PostgreSQL reads it: for one that is sent again and again."""

    __slots__ = ("text",)

    def __init__(self, text: bytes | None) -> None:
        self.text = text


def encoded(values: Mapping[str, object]) -> dict[str, EncodedValue]:
    """Values that are no bytes and no vectors, encoded once."""
    texts, _ = written(values.values())
    return dict(zip(values, map(EncodedValue, texts), strict=True))


_TEXT, _BINARY = 0, 1
NO_NUL = "text must not contain NUL (0x00)"


def written(values: Iterable[object]) -> tuple[list[bytes | None], list[int]]:
    """The values as PostgreSQL reads them, and the format of each; the query gives their types.

    Raises `psycopg.DataError` for text that PostgreSQL cannot store, before anything is sent.
    """
    encoded: list[bytes | None] = []
    formats: list[int] = []
    for value in values:
        if value is None:
            encoded.append(None)
            formats.append(_TEXT)
        elif type(value) is EncodedValue:
            encoded.append(value.text)
            formats.append(_TEXT)
        elif (write := _BINARIES.get(type(value))) is not None:
            encoded.append(write(value))
            formats.append(_BINARY)
        else:
            text = (array_literal(value) if isinstance(value, list | tuple) else _text(value)).encode()
            if b"\x00" in text:
                raise psycopg.DataError(NO_NUL)
            encoded.append(text)
            formats.append(_TEXT)
    return encoded, formats


def array_literal(values: Sequence[object]) -> str:
    """An array as PostgreSQL reads it; its text may be an element of another array."""
    types: set[type] = set(map(type, values)) if len(values) >= MANY else set()
    if len(types) != 1:
        return "{" + ",".join(["NULL" if value is None else f'"{_escaped(_text(value))}"' for value in values]) + "}"
    (only,) = types
    if only is NoneType:
        return "{" + ",".join(["NULL"] * len(values)) + "}"
    write: Callable[[Any], str] = _TEXTS.get(str if issubclass(only, str) else only, _text)
    texts = list(map(write, values))
    joined = _BETWEEN.join(texts)
    if joined.count(_BETWEEN) != len(texts) - 1:
        raise psycopg.DataError(NO_NUL)
    return '{"' + _escaped(joined).replace(_BETWEEN, '","') + '"}'


MANY = 5
"""Values of one type that are written out together: an import would be slowed down by each single one."""
_BETWEEN = "\x00"  # no text that can be stored has it


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _text(value: object) -> str:
    write = _TEXTS.get(type(value))
    if write is not None:
        return write(value)
    if not isinstance(value, str):
        raise TypeError(f"a value of type {type(value).__name__} cannot be written out")
    return str(value)  # of a type of ours that is text, such as a kind


def _numbers(numbers: np.ndarray) -> bytes:
    """A vector as `halfvec`; a matrix as `real[]` with its rows one after another, which may be longer than any vector."""
    return _halfvec(numbers) if numbers.ndim == 1 else _reals(numbers)


def _halfvec(vector: np.ndarray) -> bytes:
    """The length, two empty bytes, and the numbers in half precision."""
    return len(vector).to_bytes(2, "big") + b"\x00\x00" + vector.astype(">f2").tobytes()


_REAL = 700  # the type of an array's elements
_CELL = np.dtype([("size", ">i4"), ("value", ">f4")])


def _reals(matrix: np.ndarray) -> bytes:
    """One dimension, no NULL, the type, the length and the first index; then each number with its size.

    Rounded to half precision here: the vectors that become of them are those that `_halfvec` makes.
    """
    cells = np.empty(matrix.size, dtype=_CELL)
    cells["size"], cells["value"] = 4, matrix.astype(np.float16).ravel()
    return np.array([1, 0, _REAL, matrix.size, 1], dtype=">i4").tobytes() + cells.tobytes()


_TEXTS: Mapping[type, Callable[[Any], str]] = {
    str: lambda value: value,
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    bytes: lambda value: f"\\x{value.hex()}",
    UUID: str,
    datetime: datetime.isoformat,
    Jsonb: lambda value: "{}" if value.obj == {} else json.dumps(value.obj),  # as most metadata is
}
_BINARIES: Mapping[type, Callable[[Any], bytes]] = {bytes: lambda value: value, np.ndarray: _numbers}


BEGIN: Part = (Query("begin", "Begin a transaction.", "BEGIN"), {})
COMMIT: Part = (Query("commit", "Commit the transaction.", "COMMIT"), {})
_AS_OURSELVES: Part = (Query("as_ourselves", "Leave the role of a step.", "SET LOCAL ROLE NONE"), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What begins and ends a pipeline, and what binds a transaction; `bind` is a query, `statement` its text."""

    opening: tuple[Part, ...]
    closing: tuple[Part, ...]
    plan_by_index: tuple[Part, ...]
    plan_as_usual: tuple[Part, ...]
    query: Query
    waiting: tuple[Query, ...]
    """What waits for a thread, where the query that binds does not."""
    of_cluster: bool

    def bind(self, identity: Identity, thread: str | None = None) -> list[Part]:
        """The queries that bind a transaction sent as a pipeline. With `thread`, they wait for others that write to it."""
        values = {
            "tenant": str(identity.tenant_id),
            "user": identity.user_id or "",
            "role": role_of(identity) or "none",
            "thread": thread,
        }
        return [(query, values) for query in (self.query, *(self.waiting if thread is not None else ()))]

    def join(self, identity: Identity) -> tuple[Part, ...]:
        """The queries that bind a transaction in which others wrote; a cluster lets one role write, so that it stays there."""
        ((query, values),) = self.bind(identity)
        if self.of_cluster:
            return ((query, {**values, "role": None}),)
        return _AS_OURSELVES, (query, values)

    def statement(self, tenant_id: TenantId | None, user_id: UserId | None, role: str | None = None) -> str:
        """The statements that bind a transaction; without a role it keeps the one it has."""
        return _statement(self.of_cluster, tenant_id, user_id, role)

    def step(self, binding: str) -> tuple[str, ...]:
        """The messages that begin a step of an open transaction, which is bound anew and under its own role."""
        if self.of_cluster:  # where a message of several statements is handed on whole
            return "SAVEPOINT step", "SET LOCAL ROLE NONE", binding
        return (f"SAVEPOINT step; SET LOCAL ROLE NONE; {binding}",)


@lru_cache(maxsize=10_000)
def _statement(of_cluster: bool, tenant_id: TenantId | None, user_id: UserId | None, role: str | None) -> str:
    tenant, user = sql.Literal(str(tenant_id or "")), sql.Literal(user_id or "")
    if of_cluster:
        return sql.SQL("SELECT recordari.bind_nodes({}, {}, {})").format(tenant, user, role).as_string(None)
    binding = sql.SQL("SET LOCAL app.tenant_id = {}; SET LOCAL app.user_id = {}").format(tenant, user).as_string(None)
    return f"{binding}; SET LOCAL ROLE {sql.Identifier(role).as_string(None)}" if role else binding


def role_of(identity: Identity) -> str | None:
    """The database role that an identity acts under; None: the application's own."""
    return TENANT_ROLE if identity.spans_users else None


ONE_SERVER = Binding(
    opening=(),
    closing=(),
    plan_by_index=((queries.plan_by_index, {}),),
    plan_as_usual=((queries.plan_as_usual, {}),),
    query=queries.bind,
    waiting=(),
    of_cluster=False,
)
CLUSTER = Binding(
    opening=(BEGIN,),
    closing=(COMMIT,),
    plan_by_index=(),
    plan_as_usual=(),
    query=queries.bind_nodes,
    waiting=(queries.take_thread,),
    of_cluster=True,
)
