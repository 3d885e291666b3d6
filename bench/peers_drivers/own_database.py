"""A database of its own for each space of a peer, and its vector index."""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo


def own_database(dsn: str, name: str) -> str:
    """The address of a database of this name, which is made unless it is kept from an earlier run."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchall():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return make_conninfo(dsn, dbname=name)


def drop_vector_indexes(address: str) -> list[str]:
    """Drop the vector indexes of a database; the statements that make them again."""
    with psycopg.connect(address, autocommit=True) as connection:
        found = connection.execute(
            "SELECT schemaname, indexname, indexdef FROM pg_indexes WHERE indexdef ~ 'USING (hnsw|ivfflat)'"
        ).fetchall()
        for schema, name, _ in found:
            connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(schema, name)))
    return [statement for _, _, statement in found]


def make_vector_indexes(address: str, statements: list[str]) -> None:
    """Make them again, with as much memory as a large one takes."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET maintenance_work_mem = '3GB'")
        for statement in statements:
            connection.execute(statement)  # type: ignore[arg-type,unused-ignore]
