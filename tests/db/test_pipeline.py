"""Queries that are sent without waiting: they are one transaction, and no accident harms whoever comes next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.patience import PATIENCE, until
from tests.stored import rows

from recordari.app import Memory
from recordari.core.items import Kind
from recordari.db.database import BatchedQuery, Database
from recordari.db.pipeline import MANY, Part
from recordari.db.pool import Connection, PoolOptions
from recordari.db.queries import Query
from recordari.errors import DatabaseUnavailable, InvalidInput, Overloaded

NOTE = Query(
    "tests.note", "Writes a row.", "INSERT INTO users (tenant_id, user_id) VALUES (%(tenant_id)s, %(user_id)s)"
)
NOTED = Query("tests.noted", "Who was written.", "SELECT user_id FROM users WHERE tenant_id = %(tenant_id)s ORDER BY 1")
FAIL = Query("tests.fail", "Fails.", "SELECT 1 / %(zero)s::integer")
SLEEP = Query("tests.nap", "Waits.", "SELECT pg_sleep(%(seconds)s::float)")
ECHO = Query("tests.echo", "Says it again.", "SELECT %(text)s::text")
WHO = Query("tests.backend", "Which process answers.", "SELECT pg_backend_pid()")


@pytest.fixture
async def database(memory: Memory) -> AsyncIterator[Database]:
    """A pool of one connection, so that whatever happens to it meets the next call."""
    options = PoolOptions(min_size=1, max_size=1, timeout=30, statement_timeout=30)
    database = Database(memory.resources.database.dsn, options)
    await database.open()
    yield database
    await database.close()


async def noted(database: Database, memory: Memory) -> list[str]:
    return [name for (name,) in await database.execute(memory.identity, NOTED)]


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("text", 'it\'s a \\ "quoted" \n 漢字 🙂 {a,b}'),
        ("text", ""),
        ("text", None),
        ("text", Kind.FACT),
        ("boolean", True),
        ("bigint", -(2**40)),
        ("float", 1e-300),
        ("float", float("inf")),
        ("uuid", UUID(int=7)),
        ("bytea", bytes(range(256))),
        ("timestamptz", datetime(2026, 2, 28, 23, 59, 59, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))),
        ("text[]", ["", "NULL", None, 'a"b', "c\\d", "e,f}", "🙂"]),
        ("text[]", []),
        ("text[]", ["", "NULL", 'a"b', "c\\d", "e,f}", "🙂", '","']),
        ("text[]", [Kind.FACT] * MANY),
        ("text[]", [None] * MANY),
        ("integer[]", [3, -4] * MANY),
        ("boolean[]", [True, False] * MANY),
        ("uuid[]", [UUID(int=1), UUID(int=2)] * MANY),
        ("bytea[]", [b"", b"\x00\xff"] * MANY),
        ("timestamptz[]", [datetime(1999, 12, 31, tzinfo=UTC)] * MANY),
        ("jsonb[]", [{}, {"a": '"\\'}, []] * MANY),
        ("uuid[]", [UUID(int=1), UUID(int=2)]),
        ("bytea[]", [b"", b"\x00\xff"]),
        ("timestamptz[]", [datetime(1999, 12, 31, tzinfo=UTC)]),
    ],
)
async def test_a_value_arrives_as_it_was(database: Database, memory: Memory, type_name: str, value: Any) -> None:
    query = Query(f"tests.{type_name}", "The value again.", f"SELECT %(value)s::{type_name}")
    sent = [Jsonb(each) for each in value] if type_name == "jsonb[]" else value
    assert await database.execute(memory.identity, query, value=sent) == [(value,)]


async def test_json_and_vectors_arrive_as_they_were(database: Database, memory: Memory) -> None:
    vector = np.random.default_rng(3).normal(0, 0.1, 2_000).astype(np.float32)
    vector[:3] = 0.0, 1.0, -6e-8
    query = Query("tests.two", "Both again.", "SELECT %(thing)s::jsonb, %(vector)s::halfvec::real[]")
    ((thing, numbers),) = await database.execute(memory.identity, query, thing=Jsonb({"ä": [1, None]}), vector=vector)
    assert thing == {"ä": [1, None]}
    assert np.array_equal(np.array(numbers, dtype=np.float16), vector.astype(np.float16))


async def test_the_rows_of_a_matrix_are_the_vectors_that_single_ones_would_be(
    database: Database, memory: Memory
) -> None:
    matrix = np.random.default_rng(5).normal(0, 0.05, (300, 256)).astype(np.float32)
    matrix[7, :4] = 0.0, 65_504.0, -6e-8, 3e-5
    cut = "(%(matrix)s::real[])[7 * 256 + 1 : 8 * 256]::halfvec = %(vector)s::halfvec, cardinality(%(matrix)s::real[])"
    query = Query("tests.matrix", "Whether they are the same.", f"SELECT {cut}")
    assert await database.execute(memory.identity, query, matrix=matrix, vector=matrix[7]) == [(True, 300 * 256)]


async def test_a_value_larger_than_any_buffer_arrives(database: Database, memory: Memory) -> None:
    text = "ab漢" * 2_000_000
    assert await database.execute(memory.identity, ECHO, text=text) == [(text,)]


async def test_text_that_cannot_be_kept_is_refused_and_nothing_is_sent(database: Database, memory: Memory) -> None:
    for bad in ("a\x00b", ["fine", "a\x00b"], ["fine", None, "a\x00b"], [*["fine"] * MANY, "a\x00b"]):
        parts: list[Part] = [(ECHO, {"text": bad})]
        with pytest.raises(InvalidInput, match=r"U\+0000"):
            await database.pipeline(memory.identity, NOTE, {"user_id": "ana"}, lambda parts=parts: parts)  # type: ignore[misc]
    assert await noted(database, memory) == []


async def test_parts_are_one_transaction(database: Database, memory: Memory) -> None:
    for _ in range(2):  # the second time, the connection keeps the queries
        with pytest.raises(psycopg.errors.DivisionByZero):
            await database.pipeline(memory.identity, NOTE, {"user_id": "ana"}, lambda: [(FAIL, {"zero": 0})])
    assert await noted(database, memory) == []
    found = await database.pipeline(memory.identity, NOTE, {"user_id": "ana"}, lambda: [(NOTED, {})])
    assert found == [[], [("ana",)]] and await noted(database, memory) == ["ana"]


async def test_what_follows_is_made_while_the_first_is_at_work(database: Database, memory: Memory) -> None:
    at_work = """SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                 WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = 41 AND l.granted"""
    until = time.monotonic() + PATIENCE

    def following() -> Iterator[Part]:
        with psycopg.connect(memory.resources.database.dsn, autocommit=True) as other:
            while not other.execute(at_work).rowcount:
                assert time.monotonic() < until, "the first was not sent before the next was asked for"
                time.sleep(0.01)
        yield ECHO, {"text": "done"}

    lock = Query("tests.lock", "Holds a lock.", "SELECT pg_advisory_xact_lock(%(number)s::bigint)")
    *_, last = await database.pipeline(memory.identity, lock, {"number": 41}, following)
    assert last == [("done",)]


async def test_a_caller_that_fails_in_between_leaves_nothing(database: Database, memory: Memory) -> None:
    def following() -> Iterator[Part]:
        yield NOTE, {"user_id": "ben"}
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        await database.pipeline(memory.identity, NOTE, {"user_id": "ana"}, following)
    assert await noted(database, memory) == []


async def test_who_is_cancelled_leaves_nothing_and_the_connection_goes_on(database: Database, memory: Memory) -> None:
    ((before,),) = await database.execute(memory.identity, WHO)

    async def write(seconds: float = 25.0) -> None:
        await database.pipeline(memory.identity, NOTE, {"user_id": "ana"}, lambda: [(SLEEP, {"seconds": seconds})])

    task = asyncio.create_task(write())
    asleep = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
    await until(lambda: rows(memory.resources.settings, asleep, before))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await noted(database, memory) == []
    assert await database.execute(memory.identity, WHO) == [(before,)]
    await write(0.0)  # although both statements were prepared before the end
    assert await noted(database, memory) == ["ana"]


async def test_who_is_cancelled_while_a_failure_is_rolled_back_takes_no_connection_along(
    database: Database, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a transaction; a pipeline that fails was rolled back by the server."""
    rolls_back, may_end = asyncio.Event(), asyncio.Event()
    roll_back = psycopg.AsyncConnection.rollback

    async def slowly(connection: Connection) -> None:
        rolls_back.set()
        await may_end.wait()
        await roll_back(connection)

    async def fail() -> None:
        async with database.transaction(memory.identity) as tx:
            await tx.run(NOTE, user_id="ana")
            await tx.run(FAIL, zero=0)

    monkeypatch.setattr(psycopg.AsyncConnection, "rollback", slowly)
    task = asyncio.create_task(fail())
    await rolls_back.wait()
    task.cancel()
    asyncio.get_running_loop().call_soon(may_end.set)  # after the cancellation has arrived
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await noted(database, memory) == []


async def test_a_query_that_takes_too_long_is_given_up(memory: Memory) -> None:
    database = Database(memory.resources.database.dsn, PoolOptions(min_size=1, max_size=1, statement_timeout=0.2))
    await database.open()
    try:
        with pytest.raises(DatabaseUnavailable, match="took too long"):
            await database.pipeline(memory.identity, NOTE, {"user_id": "ana"}, lambda: [(SLEEP, {"seconds": 25.0})])
    finally:
        await database.close()
    assert await noted(memory.resources.database, memory) == []


async def test_a_transaction_that_the_database_gave_up_can_be_asked_for_again(
    database: Database, memory: Memory
) -> None:
    """It gives one up when we are slow between two statements, or when its clock is stepped."""
    impatient = Query("tests.impatient", "Gives up soon.", "SET LOCAL idle_in_transaction_session_timeout = '20ms'")
    with pytest.raises(DatabaseUnavailable):
        async with database.transaction(memory.identity) as tx:
            await tx.run(impatient)
            await asyncio.sleep(0.5)
            await tx.run(NOTE, user_id="ana")
    assert await database.execute(memory.identity, NOTED) == []


async def test_who_finds_every_connection_in_use_is_told_to_come_back(memory: Memory) -> None:
    """That the database cannot be reached would be wrong: it works for others at that moment."""
    database = Database(memory.resources.database.dsn, PoolOptions(min_size=1, max_size=1, timeout=0.05))
    await database.open()
    try:
        async with database.transaction(memory.identity):
            with pytest.raises(Overloaded, match="in use"):
                await database.execute(memory.identity, NOTED)
        assert await noted(database, memory) == []
    finally:
        await database.close()


async def test_a_connection_that_died_while_idle_is_replaced(database: Database, memory: Memory) -> None:
    ((before,),) = await database.execute(memory.identity, WHO)
    async with memory.resources.database.queue() as rows:
        await rows.value(
            Query("tests.end", "Ends it.", "SELECT pg_terminate_backend(%(process)s::integer)"), process=before
        )
    ((after,),) = await database.execute(memory.identity, WHO)
    assert after != before


async def test_a_connection_that_dies_at_work_is_replaced_and_the_work_done_once(
    database: Database, memory: Memory
) -> None:
    tries: list[int] = []
    end = Query(
        "tests.end_self", "Ends the first.", "SELECT pg_terminate_backend(pg_backend_pid()) WHERE %(first)s::boolean"
    )

    def following() -> Iterator[Part]:
        tries.append(1)
        yield end, {"first": len(tries) == 1}

    # As the login itself, which may end its own processes.
    await database.pipeline(memory.acting_as(user="ana").identity, NOTE, {"user_id": "ana"}, following)
    assert len(tries) == 2 and await noted(database, memory) == ["ana"]


async def test_one_query_may_be_asked_twice_at_once(database: Database, memory: Memory) -> None:
    asked = [BatchedQuery(ECHO, lambda rows: rows[0]["text"], text=f"{number} {uuid4()}") for number in range(3)]
    await database.read_batch(memory.identity, asked)
    assert [one.answer[0] for one in asked] == ["0", "1", "2"]
