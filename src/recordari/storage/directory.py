"""Tenants and their organisations all together, for an operator who holds the owner's connection."""

from __future__ import annotations

from typing import TypeVar

import psycopg
from psycopg.rows import class_row

from recordari.domain.sharing import Member
from recordari.domain.tenants import Tenant
from recordari.errors import DatabaseUnavailable
from recordari.storage.queries import Queries, Query

queries = Queries(__name__)

T = TypeVar("T")


async def list_tenants(owner_dsn: str) -> list[Tenant]:
    """Every tenant."""
    return await _listed(owner_dsn, queries.list_tenants, Tenant)


async def list_members(owner_dsn: str) -> list[Member]:
    """The tenants of every organisation."""
    return await _listed(owner_dsn, queries.list_members, Member)


async def _listed(owner_dsn: str, query: Query, row: type[T]) -> list[T]:
    try:
        connection = await psycopg.AsyncConnection.connect(owner_dsn, connect_timeout=5)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable from error
    async with connection, connection.cursor(row_factory=class_row(row)) as cursor:
        await cursor.execute(queries.become_owner.sql)
        await cursor.execute(query.sql)
        return await cursor.fetchall()
