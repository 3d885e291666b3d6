"""Databases of a user, small and real, one of each kind: what the tests of `query_data` ask."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from recordari.db.embedded.server import EmbeddedServer
from tests.stored import drop_database

READER = "recordari_test_reader"
TABLES: dict[str, Any] = {"customers": None, "orders": None}
ORDERS = 2000
COMMON = (
    "CREATE TABLE customers (id int PRIMARY KEY, name varchar(100), email varchar(100), country varchar(2))",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int, status varchar(20), total decimal(10, 2), placed date)",
    "CREATE TABLE secrets (id int PRIMARY KEY, api_key varchar(50))",
    "INSERT INTO secrets VALUES (1, 'FAKE-1')",
)
COUNTRIES = ("DE", "FR", "SE", "PT")


def filling() -> list[str]:
    """Statements that every engine understands."""
    customers = ", ".join(f"({i}, 'Customer {i}', 'c{i}@example.com', '{COUNTRIES[i % 4]}')" for i in range(1, 41))
    orders = ", ".join(
        f"({i}, {1 + i % 40}, '{('paid', 'open', 'refunded')[i % 3]}', {i % 90}.25, '2025-{1 + i % 12:02}-01')"
        for i in range(1, ORDERS + 1)
    )
    return [*COMMON, f"INSERT INTO customers VALUES {customers}", f"INSERT INTO orders VALUES {orders}"]


@contextmanager
def postgres_of_a_user(server: EmbeddedServer, name: str) -> Iterator[tuple[str, str]]:
    """The DSN of its owner and that of a role that may read two tables."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        connection.execute(
            f"DO $$ BEGIN CREATE ROLE {READER} LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        )
    owner = server.dsn(database=name)
    with psycopg.connect(owner, autocommit=True) as connection:
        for statement in filling():
            connection.execute(statement.encode())
        connection.execute(
            """CREATE FUNCTION note_it() RETURNS int LANGUAGE sql SECURITY DEFINER
                   AS 'INSERT INTO secrets VALUES (99, ''x'') RETURNING id';
               CREATE SEQUENCE numbers; GRANT ALL ON SEQUENCE numbers TO PUBLIC;
               COMMENT ON TABLE orders IS 'What was bought';"""
            f"GRANT SELECT ON customers, orders TO {READER}"
        )
    yield owner, server.dsn(user=READER, database=name)
    drop_database(server, name)


def sqlite_of_a_user(file: Path) -> str:
    """Make the file; its DSN within its folder."""
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in filling():
            connection.execute(statement)
        connection.execute("CREATE VIEW paid AS SELECT * FROM orders WHERE status = 'paid'")
    return f"sqlite:///{file.name}"


def duckdb_of_a_user(file: Path) -> str:
    """Make the file; its DSN within its folder."""
    import duckdb

    with duckdb.connect(str(file)) as connection:
        for statement in filling():
            connection.execute(statement)
    return f"duckdb:///{file.name}"
