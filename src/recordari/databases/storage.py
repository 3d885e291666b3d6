"""Rows of databases of the user: what is shown of them, and apart from it the sealed way in."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.databases.rules.databases import ConnectedDatabase, Engine
from recordari.db.database import Transaction
from recordari.db.queries import Queries

queries = Queries(__name__)


async def insert_database(
    tx: Transaction,
    database_id: UUID,
    *,
    name: str,
    description: str,
    engine: Engine,
    sealed_dsn: str,
    tables: dict[str, list[str] | None],
    schema: list[dict[str, Any]],
    warnings: list[str],
) -> ConnectedDatabase:
    """Write a new one; `Conflict` when there is one of that name."""
    (row,) = await tx.all(
        queries.insert_database,
        ConnectedDatabase,
        database_id=database_id,
        name=name,
        description=description,
        engine=engine.value,
        sealed_dsn=sealed_dsn,
        tables=Jsonb(tables),
        schema=Jsonb(schema),
        warnings=Jsonb(warnings),
    )
    return row


async def find_database(tx: Transaction, database_id: UUID) -> ConnectedDatabase | None:
    return await tx.maybe(queries.find_database, ConnectedDatabase, database_id=database_id)


async def find_by_name(tx: Transaction, name: str) -> ConnectedDatabase | None:
    return await tx.maybe(queries.find_by_name, ConnectedDatabase, name=name)


async def list_databases(tx: Transaction) -> list[ConnectedDatabase]:
    return await tx.all(queries.list_databases, ConnectedDatabase)


async def sealed_dsn(tx: Transaction, database_id: UUID) -> str | None:
    found: str | None = await tx.value(queries.sealed_dsn, database_id=database_id)
    return found


async def update_database(
    tx: Transaction, database: ConnectedDatabase, *, sealed_dsn: str | None, seen_at: datetime
) -> ConnectedDatabase | None:
    """Write it as it is given, unless it was changed since `seen_at`."""
    return await tx.maybe(
        queries.update_database,
        ConnectedDatabase,
        database_id=database.database_id,
        name=database.name,
        description=database.description,
        engine=database.engine.value,
        tables=Jsonb(database.tables),
        sealed_dsn=sealed_dsn,
        schema=Jsonb(database.schema),
        warnings=Jsonb(database.warnings),
        refreshed_at=database.refreshed_at,
        seen_at=seen_at,
    )


async def delete_database(tx: Transaction, database_id: UUID) -> bool:
    return await tx.run(queries.delete_database, database_id=database_id) == 1
