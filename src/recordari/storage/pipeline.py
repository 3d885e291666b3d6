"""Prepared statements that are sent without waiting for each other, and answered in one round trip.

What is sent goes to the server at once, which works on it while the next is made ready. Outside a transaction, all of them
together are one: it is committed when the end was sent and nothing failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, PipelineStatus
from psycopg.pq.abc import PGconn, PGresult

from recordari.storage.parameters import written
from recordari.storage.pool import Connection
from recordari.storage.queries import Query

Part = tuple[Query, Mapping[str, Any]]
"""A query and its parameters by name."""

_PREPARED: WeakKeyDictionary[Connection, set[str]] = WeakKeyDictionary()
"""The names of the queries that each connection keeps."""


async def answers_of(
    connection: Connection, ready: Iterable[Part], following: Iterable[Part] | None = None
) -> list[PGresult]:
    """What each part answers, or the error of the first that failed. What follows is made while the server is at work."""
    async with connection.lock:
        pgconn = connection.pgconn
        sent: list[Query | None] = []
        try:
            for part in ready:
                _send(connection, *part, sent)
            if following is not None:
                pgconn.flush()
                for part in following:
                    _send(connection, *part, sent)
            pgconn.pipeline_sync()
            results = await connection.wait(_fetched(pgconn))
            pgconn.exit_pipeline_mode()
        except BaseException:
            _give_up(pgconn)
            raise
    return _checked(connection, sent, results)


def _send(connection: Connection, query: Query, parameters: Mapping[str, Any], sent: list[Query | None]) -> None:
    """Send one query, and before it the order to keep it, unless that was done; note the order in `sent`, and None for it."""
    statement, names = query.numbered
    values, formats = written([parameters[name] for name in names])
    pgconn, name = connection.pgconn, query.name.encode()
    if pgconn.pipeline_status == PipelineStatus.OFF:
        pgconn.enter_pipeline_mode()
    if query.name not in _PREPARED.setdefault(connection, set()) and query not in sent:
        pgconn.send_prepare(name, statement.encode())
        sent.append(query)
    pgconn.send_query_prepared(name, values, formats)
    sent.append(None)


def _give_up(pgconn: PGconn) -> None:
    """Leave the pipeline if everything was answered; what was sent and not answered is given up with the connection."""
    if pgconn.pipeline_status != PipelineStatus.OFF:
        try:
            pgconn.exit_pipeline_mode()
        except psycopg.OperationalError:
            pgconn.finish()


def _fetched(pgconn: PGconn) -> PQGen[list[PGresult]]:
    """Everything up to the end of what was sent."""
    yield from generators.send(pgconn)
    found: list[PGresult] = []
    while not found or found[-1].status != ExecStatus.PIPELINE_SYNC:
        results = yield from generators.fetch_many(pgconn)
        if not results and pgconn.status != psycopg.pq.ConnStatus.OK:
            break  # the connection was lost; the last result says why
        found += results
    return found


def _checked(connection: Connection, sent: Sequence[Query | None], results: Sequence[PGresult]) -> list[PGresult]:
    """Note what the connection keeps now; what the queries answered, or the error of the first that failed."""
    answers = []
    for kept, result in zip(sent, results, strict=False):
        if result.status in {ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK}:
            if kept is not None:
                _PREPARED[connection].add(kept.name)
            else:
                answers.append(result)
    for result in results:
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result, encoding="utf-8")
    if not results or results[-1].status != ExecStatus.PIPELINE_SYNC:
        raise psycopg.OperationalError("the connection was lost")
    return answers


def forget_prepared(connection: Connection) -> bool:
    """Take it that the connection keeps nothing any more; whether it did."""
    return bool(_PREPARED.pop(connection, None))


def rows_of(connection: Connection, answer: PGresult) -> list[tuple[Any, ...]]:
    """The rows of an answer."""
    reader = Transformer(connection)
    reader.set_pgresult(answer)
    return reader.load_rows(0, answer.ntuples, tuple)


def records_of(connection: Connection, answer: PGresult) -> list[dict[str, Any]]:
    """The rows of an answer by the names of their columns."""
    names = [(answer.fname(column) or b"").decode() for column in range(answer.nfields)]
    return [dict(zip(names, row, strict=True)) for row in rows_of(connection, answer)]
