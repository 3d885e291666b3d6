"""Rows of connected databases; the sealed DSN is read separately."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.databases.rules.databases import ConnectedDatabase
from recordari.db.database import Transaction
from recordari.db.queries import Queries

queries = Queries(__name__)


async def insert_database(tx: Transaction, database: ConnectedDatabase, *, sealed_dsn: str) -> ConnectedDatabase:
    """Insert a database; `Conflict` if one has the same name."""
    (row,) = await tx.all(queries.insert_database, ConnectedDatabase, sealed_dsn=sealed_dsn, **_columns_of(database))
    return row


def _columns_of(database: ConnectedDatabase) -> dict[str, Any]:
    return {
        "database_id": database.database_id,
        "name": database.name,
        "description": database.description,
        "engine": database.engine.value,
        "tables": Jsonb(database.tables),
        "schema": Jsonb(database.schema),
        "warnings": Jsonb(database.warnings),
    }


async def find_database(tx: Transaction, database_id: UUID) -> ConnectedDatabase | None:
    return await tx.maybe(queries.find_database, ConnectedDatabase, database_id=database_id)


async def find_by_name(tx: Transaction, name: str) -> ConnectedDatabase | None:
    return await tx.maybe(queries.find_by_name, ConnectedDatabase, name=name)


async def list_databases(tx: Transaction) -> list[ConnectedDatabase]:
    return await tx.all(queries.list_databases, ConnectedDatabase)


async def sealed_dsn(tx: Transaction, database_id: UUID) -> str | None:
    dsn: str | None = await tx.value(queries.sealed_dsn, database_id=database_id)
    return dsn


async def update_database(
    tx: Transaction, database: ConnectedDatabase, *, sealed_dsn: str | None, seen_at: datetime
) -> ConnectedDatabase | None:
    """Save a database; None if it was changed since `seen_at`."""
    return await tx.maybe(
        queries.update_database,
        ConnectedDatabase,
        **_columns_of(database),
        sealed_dsn=sealed_dsn,
        refreshed_at=database.refreshed_at,
        seen_at=seen_at,
    )


async def delete_database(tx: Transaction, database_id: UUID) -> bool:
    return await tx.run(queries.delete_database, database_id=database_id) == 1
