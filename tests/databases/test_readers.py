"""The second wall: with the validator left out, no statement changes a database, leaves a trace or takes too much."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.connected import ORDERS, TABLES, duckdb_of_a_user, filling, postgres_of_a_user, sqlite_of_a_user
from tests.mariadb_server import MariaDb, running_mariadb

from recordari.databases.reader import Limits, QueryRows, read
from recordari.databases.registry import describe
from recordari.databases.rules.databases import Engine, allowed_tables
from recordari.databases.rules.readonly_sql import check
from recordari.databases.targets import AllowedTargets, Target, checked, read_target
from recordari.db.embedded.server import EmbeddedServer
from recordari.errors import DatabaseUnavailable, Forbidden, InvalidInput, RecordariError, TimedOut

SHORT = Limits(seconds=1.0)
ANYWHERE = [
    "DELETE FROM orders",
    "UPDATE customers SET name = 'x'",
    "INSERT INTO orders VALUES (0, 0, 'x', 0, '2025-01-01')",
    "DROP TABLE orders",
    "CREATE TABLE mine (id int)",
    "CREATE TEMPORARY TABLE mine AS SELECT 1",
    "ALTER TABLE orders ADD COLUMN x int",
    "TRUNCATE orders",
    "SELECT 1; DELETE FROM orders",
    "SELECT 1; COMMIT; DELETE FROM orders",
    "COMMIT",
    "SELECT 1\0; DELETE FROM orders",
]
POSTGRES = [
    *ANYWHERE,
    "WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "SELECT * INTO mine FROM orders",
    "SELECT public.note_it()",
    "SELECT nextval('public.numbers'), setval('public.numbers', 9)",
    "SELECT lo_create(4711)",
    "SELECT set_config('transaction_read_only', 'off', false), set_config('app.trace', 'here', false)",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET ROLE recordari",
    "PREPARE p AS DELETE FROM orders",
    "LISTEN x",
    "SELECT pg_advisory_lock(4711)",
    "SELECT * FROM public.orders FOR UPDATE",
    "COPY public.orders TO PROGRAM 'true'",
    "COPY public.orders TO STDOUT",
    "DO $$ BEGIN DELETE FROM public.orders; END $$",
    "SELECT pg_read_file('PG_VERSION')",
]
OWNERS = [
    "DELETE FROM public.orders",
    "SELECT 1; COMMIT; DROP TABLE public.orders",
    "SELECT public.note_it()",
    "SELECT nextval('public.numbers')",
]
SQLITE = [
    *ANYWHERE,
    "PRAGMA query_only = OFF",
    "PRAGMA user_version = 7",
    "ATTACH 'other.db' AS other",
    "VACUUM INTO 'copy.db'",
    "SELECT load_extension('x')",
    "CREATE TEMP TRIGGER t AFTER INSERT ON orders BEGIN DELETE FROM orders; END",
    "REPLACE INTO orders VALUES (1, 1, 'x', 1, '2025-01-01')",
    "SELECT api_key FROM secrets",
]
MYSQL = [
    *ANYWHERE,
    "SET SESSION TRANSACTION READ WRITE",
    "START TRANSACTION READ WRITE",
    "REPLACE INTO orders VALUES (1, 1, 'x', 1, '2025-01-01')",
    "SELECT GET_LOCK('trace', 1)",
    "SELECT 1 INTO OUTFILE '/tmp/recordari-never'",
    "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE customers",
    "HANDLER orders OPEN",
    "SELECT NEXTVAL(numbers)",
]
DUCKDB = [
    *ANYWHERE,
    "COPY orders TO 'orders.csv'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "ATTACH 'other.duckdb' AS other",
    "INSTALL httpfs",
    "SET enable_external_access = true",
    "PRAGMA threads = 8",
    "EXPORT DATABASE 'out'",
]
BOMBS = {
    Engine.POSTGRES: [
        "SELECT count(*) FROM public.orders a, public.orders b, public.orders c",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
        "SELECT repeat('a', 900000000)",
        "SELECT string_agg(repeat('a', 10000), '') FROM generate_series(1, 60000)",
        "SELECT pg_sleep(30)",
    ],
    Engine.SQLITE: [
        "SELECT count(*) FROM orders a, orders b, orders c",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
        "SELECT hex(zeroblob(500000000))",
        "WITH RECURSIVE r(s) AS (SELECT 'aaaaaaaaaaaaaaaa' UNION ALL SELECT s || s FROM r) SELECT group_concat(s) FROM r",
    ],
    Engine.MYSQL: [
        "SELECT COUNT(*) FROM orders a, orders b, orders c",
        "SELECT SLEEP(30)",
        # Of both, so that each pair is worked out: for one of them it is soon done.
        "SELECT COUNT(*) FROM orders a JOIN orders b WHERE SHA2(REPEAT(CONCAT(a.id, b.id), 100000), 512) = 'x'",
    ],
    Engine.DUCKDB: [
        "SELECT count(*) FROM orders a, orders b, orders c, orders d",
        "SELECT length(string_agg(repeat('a', 100000), '')) FROM range(100000)",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    ],
}


@pytest.fixture(scope="module")
def postgres(server: EmbeddedServer) -> Iterator[tuple[str, str]]:
    with postgres_of_a_user(server, f"user_{uuid.uuid4().hex[:12]}") as dsns:
        yield dsns


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    sqlite_of_a_user(folder / "shop.db")
    duckdb_of_a_user(folder / "shop.duckdb")
    return folder


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDb]:
    with running_mariadb() as server:
        server.run("CREATE DATABASE shop", "CREATE USER reader IDENTIFIED BY 'pw'")
        server.run(*filling(), "CREATE SEQUENCE numbers", database="shop")
        server.run("GRANT SELECT ON shop.customers TO reader", "GRANT SELECT ON shop.orders TO reader")
        yield server


async def at(dsn: str, files: Path | None = None) -> Target:
    return await checked(read_target(dsn), AllowedTargets(allow_private=True, files=files))


async def try_all(
    target: Target, statements: list[str], *, limits: Limits | None = None, **more: Any
) -> list[QueryRows | RecordariError]:
    outcomes: list[QueryRows | RecordariError] = []
    for statement in statements:
        try:
            outcomes.append((await read(target, [statement], limits=limits or Limits(), **more))[0])
        except RecordariError as error:
            outcomes.append(error)
    return outcomes


def of_postgres(owner: str) -> list[Any]:
    with psycopg.connect(owner) as connection:
        return [
            connection.execute(statement).fetchall()
            for statement in (
                "SELECT * FROM orders ORDER BY id",
                "SELECT * FROM customers ORDER BY id",
                "SELECT * FROM secrets",
                "SELECT relname, relnatts FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
                "SELECT last_value, is_called FROM numbers",
                "SELECT oid FROM pg_largeobject_metadata",
                "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711",
            )
        ]


async def test_nothing_changes_a_postgresql_and_nothing_stays_in_its_session(postgres: tuple[str, str]) -> None:
    owner, dsn = postgres
    before = of_postgres(owner)
    outcomes = await try_all(await at(dsn), POSTGRES)
    assert of_postgres(owner) == before
    assert sum(isinstance(outcome, RecordariError) for outcome in outcomes) >= len(POSTGRES) - 1
    trace = "SELECT current_setting('app.trace', true), current_setting('transaction_read_only')"
    (answer,) = await read(await at(dsn), [trace])
    assert answer.rows in ([[None, "on"]], [["", "on"]])


async def test_words_are_compared_by_an_extension_that_nobody_else_can_add_to(postgres: tuple[str, str]) -> None:
    owner, dsn = postgres
    statement = "SELECT similarity('ana', 'ana'), 'ana' % 'anna'"
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute(
            "CREATE SCHEMA words; GRANT USAGE ON SCHEMA words TO PUBLIC; CREATE EXTENSION pg_trgm SCHEMA words"
        )
        (answer,) = await read(await at(dsn), [statement])
        assert answer.rows == [[1.0, True]]
        connection.execute("CREATE FUNCTION words.similarity(varchar, varchar) RETURNS int LANGUAGE sql AS 'SELECT 1'")
        with pytest.raises(InvalidInput, match="similarity"):
            await read(await at(dsn), [statement])
        connection.execute("DROP SCHEMA words CASCADE")


async def test_even_the_owner_cannot_write_through_it(postgres: tuple[str, str]) -> None:
    owner, _ = postgres
    before = of_postgres(owner)
    await try_all(await at(owner), OWNERS)
    assert of_postgres(owner) == before


async def test_nothing_changes_a_sqlite_file_or_makes_another(files: Path) -> None:
    target = await at("sqlite:///shop.db", files)
    before, content = sorted(files.iterdir()), hashlib.sha256((files / "shop.db").read_bytes()).digest()
    outcomes = await try_all(target, SQLITE, tables=list(TABLES))
    assert all(isinstance(outcome, InvalidInput) for outcome in outcomes), outcomes
    assert (sorted(files.iterdir()), hashlib.sha256((files / "shop.db").read_bytes()).digest()) == (before, content)


async def test_a_sqlite_view_that_is_allowed_reads_what_is_below_it(files: Path) -> None:
    target = await at("sqlite:///shop.db", files)
    (answer,) = await read(target, ["SELECT count(*) FROM paid, json_each('[1, 2]')"], tables=["paid"])
    assert answer.rows == [[2 * (ORDERS // 3)]]
    with pytest.raises(InvalidInput):
        await read(target, ["SELECT id FROM orders"], tables=["paid"])


async def test_nothing_changes_a_duckdb_file_or_reads_another(files: Path) -> None:
    target = await at("duckdb:///shop.duckdb", files)
    before, content = sorted(files.iterdir()), hashlib.sha256((files / "shop.duckdb").read_bytes()).digest()
    outcomes = await try_all(target, DUCKDB)
    assert all(isinstance(outcome, InvalidInput) for outcome in outcomes), outcomes
    assert (sorted(files.iterdir()), hashlib.sha256((files / "shop.duckdb").read_bytes()).digest()) == (before, content)


async def test_nothing_changes_a_mariadb(mariadb: MariaDb) -> None:
    def state() -> list[Any]:
        tables = mariadb.run("SHOW TABLES", database="shop")
        return [tables, mariadb.run("CHECKSUM TABLE customers, orders, secrets", database="shop")]

    before = state()
    await try_all(await at(mariadb.dsn("reader", "pw", "shop")), MYSQL)
    assert state() == before
    (answer,) = await read(
        await at(mariadb.dsn("reader", "pw", "shop")), ["SELECT @@tx_read_only, IS_FREE_LOCK('trace')"]
    )
    assert answer.rows == [[1, 1]]


@pytest.mark.parametrize("engine", Engine)
async def test_a_bomb_ends_in_time_and_within_its_bytes(
    engine: Engine, files: Path, request: pytest.FixtureRequest
) -> None:
    match engine:
        case Engine.POSTGRES:
            target = await at(request.getfixturevalue("postgres")[1])
        case Engine.MYSQL:
            target = await at(request.getfixturevalue("mariadb").dsn("reader", "pw", "shop"))
        case _:
            target = await at(f"{engine.value}:///shop.{'db' if engine is Engine.SQLITE else 'duckdb'}", files)
    for statement, outcome in zip(BOMBS[engine], await try_all(target, BOMBS[engine], limits=SHORT), strict=True):
        # MariaDB answers an interrupted SLEEP like one that slept enough.
        assert isinstance(outcome, TimedOut | InvalidInput) or "SLEEP" in statement, statement


async def test_rows_and_bytes_have_a_limit_and_the_answer_says_so(postgres: tuple[str, str]) -> None:
    target = await at(postgres[1])
    (rows,) = await read(target, ["SELECT id FROM public.orders ORDER BY id"])
    assert (len(rows.rows), rows.truncated, rows.rows[0]) == (1000, True, [1])
    (wide,) = await read(target, ["SELECT repeat('ab', 500000) FROM generate_series(1, 100)"])
    assert wide.truncated and 0 < sum(len(row[0]) for row in wide.rows) <= 8 << 20
    (all_of_them,) = await read(target, ["SELECT id FROM public.customers"])
    assert (len(all_of_them.rows), all_of_them.truncated) == (40, False)


def test_the_limits_are_those_of_the_design() -> None:
    """The design: “Per-query timeout (5 seconds)”, “Row limit (1000 rows max)”."""
    assert (Limits().seconds, Limits().rows) == (5.0, 1000)


async def test_values_come_as_json_exact_ones_as_text(postgres: tuple[str, str]) -> None:
    statement = """SELECT 1 AS a, 1.50::numeric, 'x'::text, NULL, true, '{"k": [1]}'::jsonb, ARRAY[1, 2], '\\x01'::bytea,
        'infinity'::timestamptz, interval '1 day 2 hours', 'NaN'::float8, date '0044-03-15 BC'"""
    (answer,) = await read(await at(postgres[1]), [statement])
    assert answer.rows == [
        [1, "1.50", "x", None, True, {"k": [1]}, [1, 2], "\\x01", "infinity", "1 day 02:00:00", "nan", "0044-03-15 BC"]
    ]


async def test_what_the_database_says_comes_back_without_the_way_in(postgres: tuple[str, str], files: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        await read(await at(postgres[1]), ["SELECT no_such FROM public.orders"])
    for dsn in ("postgresql://bob:hunter2@127.0.0.1:1/shop", "mysql://bob:hunter2@127.0.0.1:1/shop"):
        with pytest.raises(DatabaseUnavailable) as caught:
            await read(await at(dsn), ["SELECT 1"])
        assert not {"bob", "hunter2", "127.0.0.1"} & set(caught.value.message.replace(":", " ").split())
    (files / "not.db").write_text("no database at all, but a text that is long enough to be looked at")
    with pytest.raises(DatabaseUnavailable):
        await read(await at("sqlite:///not.db", files), ["SELECT 1"])


@pytest.mark.parametrize("kind", ["postgres", "mariadb", "sqlite", "duckdb"])
async def test_every_kind_is_described_and_asked(kind: str, files: Path, request: pytest.FixtureRequest) -> None:
    match kind:
        case "postgres":
            dsn = request.getfixturevalue("postgres")[1]
        case "mariadb":
            dsn = request.getfixturevalue("mariadb").dsn("reader", "pw", "shop")
        case _:
            dsn = f"{kind}:///shop.{'db' if kind == 'sqlite' else 'duckdb'}"
    target = await at(dsn, files)
    allowed = allowed_tables({"customers": ["id", "country"], "orders": None}, target.engine)
    described = await describe(target, allowed)
    assert described.warnings == []
    customers, orders = described.tables
    assert [column["name"] for column in customers["columns"]] == ["id", "country"]
    assert [column["name"] for column in orders["columns"]] == ["id", "customer_id", "status", "total", "placed"]
    assert "paid" in orders["columns"][2]["values"]
    question = """SELECT c.country, COUNT(*) AS n FROM customers c JOIN orders o ON o.customer_id = c.id
        WHERE o.status = 'paid' GROUP BY c.country ORDER BY c.country"""
    query = check(question, target.engine, allowed)
    (answer,) = await read(target, [query.sql], tables=["customers", "orders"])
    assert [row[0] for row in answer.rows] == ["DE", "FR", "PT", "SE"]
    assert sum(row[1] for row in answer.rows) == ORDERS // 3
    hidden = check("SELECT email FROM customers", target.engine, allowed)
    with pytest.raises(InvalidInput):
        await read(target, [hidden.sql], tables=["customers", "orders"])


async def test_an_administrator_of_the_database_is_refused_and_an_owner_is_warned_of(
    postgres: tuple[str, str], server: EmbeddedServer
) -> None:
    owner, _ = postgres
    allowed = allowed_tables(TABLES, Engine.POSTGRES)
    with pytest.raises(Forbidden, match="may only SELECT"):
        await describe(await at(owner), allowed)
    name = f"writer_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN; GRANT ALL ON customers, orders TO {name}")
    database = str(conninfo_to_dict(owner)["dbname"])
    try:
        described = await describe(await at(server.dsn(user=name, database=database)), allowed)
    finally:
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
    assert any("may write to tables" in warning for warning in described.warnings)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:p@127.0.0.1/x",
        "postgresql://u:p@localhost/x",
        "postgresql://u:p@10.1.2.3/x",
        "postgresql://u:p@[::1]/x",
        "postgresql://u:p@[::ffff:10.0.0.1]/x",
        "postgresql://u:p@169.254.169.254/x",
        "postgresql://u:p@0.0.0.0/x",
        "postgresql://u:p@2130706433/x",
        "postgresql:///x?host=/var/run/postgresql&user=u",
        "mysql://u:p@192.168.0.1/x",
        "mariadb://u:p@100.64.0.1/x",
    ],
)
async def test_a_private_address_needs_the_setting(dsn: str) -> None:
    with pytest.raises(Forbidden, match="RECORDARI_ALLOW_PRIVATE_ADDRESSES"):
        await checked(read_target(dsn), AllowedTargets())


@pytest.mark.parametrize(
    "dsn",
    [
        "",
        "oracle://x",
        "postgresql://u:hunter2@h1,h2/x",
        "postgresql://u:hunter2@h/x?options=-crole%3Dx",
        "postgresql://u:hunter2@h/x?hostaddr=10.0.0.1",
        "postgresql://u:hunter2@h/x?service=x",
        "postgresql://u:hunter2@h:port/x",
        "mysql://u:hunter2@h:port/x",
        "mysql://u:hunter2@h/x?init_command=hunter2",
        "mysql://h",
        "sqlite://host/x",
        "sqlite:///x?mode=rwc",
    ],
)
def test_a_dsn_that_cannot_be_taken_is_refused_without_being_repeated(dsn: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_target(dsn)
    assert "hunter2" not in caught.value.message


async def test_files_are_taken_from_their_folder_only(files: Path, tmp_path: Path) -> None:
    with pytest.raises(Forbidden, match="RECORDARI_DATABASE_FILES"):
        await checked(read_target("sqlite:///shop.db"), AllowedTargets())
    sqlite_of_a_user(tmp_path / "outside.db")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link.db").symlink_to(tmp_path / "outside.db")
    for path in ("/etc/passwd", "../outside.db", "link.db", "missing.db", "."):
        with pytest.raises(InvalidInput, match="no such file"):
            await checked(read_target(f"sqlite:///{path}"), AllowedTargets(files=tmp_path / "inside"))


def test_a_target_does_not_show_its_password() -> None:
    assert "hunter2" not in repr(read_target("postgresql://u:hunter2@h/x"))
