"""Statements that a cluster runs as functions on the node of the tenant.

Citus plans a long statement anew each time, on the coordinator and again on the node. The coordinator hands the call of a
delegated function on as it is. On the node the function binds the transaction, and runs the statement on the tables of the
tenant's shard themselves, by a plan that the node keeps. So a transaction of one statement is one message to the node.

`recordari db distribute` makes the functions from the text of the queries that `delegated` marks. Each has a hash of it in its
name: a program with other queries finds no function for them, and sends its statements as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

import psycopg
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from recordari.core.identity import Identity
from recordari.db.pipeline import Part, answers_of, role_of, roll_back
from recordari.db.pool import Connection, functions_of_nodes
from recordari.db.queries import Queries, Query, delegated_queries

queries = Queries(__name__)

GIVES_WAY = {"RN001", "42883", "42P01", "42804", "0A000", "3F000"}
"""Codes of errors: the tenant is on another node since a moment ago, or a function is not there or does not fit the tables."""

_LONGEST_NAME = 36  # with the hash and the number of a shard it stays below 63
_ADDRESS = ("node_tenant", "node_user", "node_role", "node_thread")
_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b")
# Words that may follow the name of a table, and are no alias.
_NO_ALIAS = frozenset(
    "cross default for full group having inner join left limit offset on order returning right select set union using values "
    "where window".split()
)


def function_of(query: Query) -> str:
    """The name of the function of a query."""
    return _function_of(query.name, query.sql)


@lru_cache(maxsize=256)
def _function_of(name: str, text: str) -> str:
    templates = (queries.on_node.sql, queries.on_shard.sql, queries.case_of_shard.sql)
    digest = hashlib.sha256("\n".join((text, *templates)).encode()).hexdigest()
    return f"{name.rpartition('.')[2][:_LONGEST_NAME]}_{digest[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrip:
    """The parts of a transaction that are sent without waiting, and what is sent before and after them."""

    identity: Identity | None
    ready: Sequence[Part]
    following: Callable[[], Iterable[Part]] | None
    """More parts, which are prepared while the server works."""
    opening: Sequence[Part]
    closing: Sequence[Part]
    thread: str | None = None
    is_alone: bool = False
    """Whether there is one part and none follows: its function needs no opening and closing, as it binds by itself."""


class Delegation:
    """The calls of functions that the nodes of a cluster have; there are none on one server."""

    def __init__(self, functions: set[str]) -> None:
        self._functions = functions

    def has(self, query: Query) -> bool:
        return query.is_delegated and bool(self._functions) and function_of(query) in self._functions

    def part(
        self, part: Part, identity: Identity | None, *, role: str | None = None, thread: str | None = None
    ) -> Part:
        """The call of the query's function for an identity; the query itself where there is none."""
        query, values = part
        if identity is None or not self.has(query):
            return part
        address = (identity.tenant_id, identity.user_id or "", role or role_of(identity) or "none", thread)
        return _call(query), {**values, **dict(zip(_ADDRESS, address, strict=True))}

    async def answers(self, connection: Connection, trip: RoundTrip) -> list[PGresult]:
        """The answers of the parts: of the functions of the nodes, or of the queries as they are."""
        try:
            return await self._sent(connection, trip)
        except psycopg.Error as error:
            if not self.gives_way(error):
                raise
            await roll_back(connection)
            return await NO_DELEGATION._sent(connection, trip)

    async def _sent(self, connection: Connection, trip: RoundTrip) -> list[PGresult]:
        identity, following = trip.identity, trip.following
        is_bound = trip.is_alone and self.has(trip.ready[0][0])
        opening, closing = ((), ()) if is_bound else (trip.opening, trip.closing)
        ready = [self.part(part, identity, thread=trip.thread) for part in trip.ready]
        later = (self.part(part, identity) for part in following()) if following else ()
        more = chain(later, closing) if following or closing else None
        role = role_of(identity) if identity else None
        answers = await answers_of(connection, [*opening, *ready], more, role=role)
        return answers[len(opening) : len(answers) - len(closing)]

    def gives_way(self, error: psycopg.Error) -> bool:
        """Whether a function could not run, so that the statement has to be sent as it is."""
        return bool(self._functions) and error.sqlstate in GIVES_WAY


NO_DELEGATION = Delegation(set())


@lru_cache(maxsize=256)
def _call(query: Query) -> Query:
    _, names = query.numbered
    values = "".join(f", %({name})s" for name in names)
    text = queries.call.filled(name=function_of(query), values=values).sql
    return Query(f"node.{query.name}", query.purpose, text, binary=query.binary)


@dataclass(frozen=True, slots=True)
class ShardTables:
    """The tables of one shard, by the names of those that they are parts of, and how its rows are numbered."""

    shard: int
    tables: Mapping[str, str]
    numbered: Mapping[str, tuple[str, str]]
    """Of a table: the column, and the value of the next row."""

    def rewritten(self, text: str) -> str:
        """A statement on these tables."""
        for table, (column, number) in self.numbered.items():
            insert = re.compile(rf"\bINSERT INTO {table} \(([^)]*)\)(\s+)SELECT ")
            text = insert.sub(lambda match, to=(table, column, number): _numbering(match, *to), text)  # type: ignore[misc]
        return _table_after(tuple(sorted(self.tables))).sub(self._renamed, text)

    def _renamed(self, match: re.Match[str]) -> str:
        before, table, after, word = match.groups()
        has_alias = word is not None and word.lower() not in _NO_ALIAS
        return f"{before} {self.tables[table]}{'' if has_alias else f' AS {table}'}{after or ''}"


def _numbering(match: re.Match[str], table: str, column: str, number: str) -> str:
    return f"INSERT INTO {table} ({column}, {match[1]}){match[2]}SELECT {number}, "


@lru_cache(maxsize=8)
def _table_after(tables: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(FROM|JOIN|INTO|UPDATE)\s+({'|'.join(tables)})\b(\s+(?:AS\s+)?(\w+))?")


async def missing(connection: Connection) -> list[Query]:
    """The queries that are delegated and have no function."""
    there = await functions_of_nodes(connection)
    return [query for query in delegated_queries() if function_of(query) not in there]


async def make(connection: Connection, run_on_workers: Callable[[str], Awaitable[None]], *, anew: bool) -> None:
    """Make the functions of all queries that are delegated: those that are missing, or all of them and no others."""
    if anew:
        await remove(connection, run_on_workers)
    shards = await _shards(connection)
    await connection.execute("SET search_path = recordari, recordari_queue, public")
    shapes = {query: await _shape(connection, query) for query in await missing(connection)}
    await run_on_workers(f"{queries.make_schema.sql}; {queries.enter_shard.sql}")
    for query, shape in shapes.items():
        await run_on_workers("; ".join(_of_shards(query, shape, shards)))
    async with connection.transaction():
        await connection.execute("SET LOCAL citus.enable_ddl_propagation = off")
        await connection.execute(queries.make_schema.sql)
        for query, shape in shapes.items():
            await connection.execute(_of_node(query, shape, shards))
        await connection.execute("SET LOCAL citus.enable_ddl_propagation = on")
        for query in shapes:
            await connection.execute(queries.delegate.sql, {"name": function_of(query)})


async def remove(connection: Connection, run_on_workers: Callable[[str], Awaitable[None]]) -> None:
    await connection.execute(queries.drop_schema.sql)
    await run_on_workers(queries.drop_schema.sql)


async def _rows(connection: Connection, query: Query, **parameters: Any) -> list[dict[str, Any]]:
    return await (await connection.execute(query.sql, parameters)).fetchall()


async def _shards(connection: Connection) -> list[ShardTables]:
    numbered = {row["table"]: (row["column"], row["number"]) for row in await _rows(connection, queries.list_numbered)}
    tables: dict[int, dict[str, str]] = defaultdict(dict)
    shards: dict[int, int] = {}
    for row in await _rows(connection, queries.list_shards):
        tables[row["number"]][row["table"]] = f"{row['schema']}.{row['table']}_{row['shard']}"
        if row["table"] == "tenants":
            shards[row["number"]] = row["shard"]
    return [ShardTables(shards[number], tables[number], numbered) for number in sorted(shards)]


@dataclass(frozen=True, slots=True)
class Shape:
    """The types of a statement's parameters, and its columns with their types."""

    parameters: Sequence[str]
    columns: Sequence[tuple[str, str]]


async def _shape(connection: Connection, query: Query) -> Shape:
    prepared = connection.pgconn.prepare(b"", query.numbered[0].encode())
    if prepared.status != ExecStatus.COMMAND_OK:
        raise psycopg.ProgrammingError(f"{query.name}: {prepared.error_message.decode()}")
    found = connection.pgconn.describe_prepared(b"")
    parameters = [found.param_type(place) for place in range(found.nparams)]
    columns = [((found.fname(place) or b"").decode(), found.ftype(place)) for place in range(found.nfields)]
    types = [*parameters, *(type_ for _, type_ in columns)]
    names = {row["type"]: row["name"] for row in await _rows(connection, queries.name_types, types=types)}
    return Shape([names[type_] for type_ in parameters], [(name, names[type_]) for name, type_ in columns])


def _of_shards(query: Query, shape: Shape, shards: Sequence[ShardTables]) -> Iterator[str]:
    columns = ", ".join(f"c{place} {type_}" for place, (_, type_) in enumerate(shape.columns, 1))
    for shard in shards:
        template = queries.on_shard.filled(name=function_of(query), shard=shard.shard, columns=columns)
        statement = shard.rewritten(query.numbered[0])
        yield template.filled(arguments=", ".join(shape.parameters), statement=statement).sql


def _of_node(query: Query, shape: Shape, shards: Sequence[ShardTables]) -> str:
    counted = Counter(name for name, _ in shape.columns)
    names = [name if counted[name] == 1 else f"column{place}" for place, (name, _) in enumerate(shape.columns, 1)]
    columns = ", ".join(f'"{name}" {type_}' for name, (_, type_) in zip(names, shape.columns, strict=True))
    values = ", ".join(f"${len(_ADDRESS) + place}" for place in range(1, len(shape.parameters) + 1))
    case = queries.case_of_shard.filled(name=function_of(query), values=values)
    return queries.on_node.filled(
        name=function_of(query),
        arguments="".join(f", {type_}" for type_ in shape.parameters),
        columns=columns,
        will_write="true" if _WRITES.search(query.sql) else "false",
        cases="\n        ".join(f"{case.filled(shard=shard.shard).sql};" for shard in shards),
    ).sql
