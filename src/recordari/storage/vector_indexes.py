"""Indexes over the vectors of single large tenants, built and dropped as the owner of the tables.

The application's role owns nothing and cannot make an index; and an index made inside a function would stop the
writes of every tenant while it is built. So `VectorIndexes` holds the owner's connection string, and can do nothing
with it but build and drop these. What exists is read from the catalogue, never noted elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from recordari.core.identity import Identity
from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.errors import DatabaseUnavailable

queries = Queries(__name__)

PREFIX = "vectors_hnsw_"
BUILD_LOCK = 7_265_636_864  # beside the lock of migrations
BUILD_SECONDS = 3_000.0
EFFORT = 100  # candidates looked at when a vector is put in; more gives a better graph and a slower build
LEAST_MEMORY, MOST_MEMORY = 64, 1_024  # megabytes
BYTES_BESIDE_VECTOR = 700  # a generous guess at what the graph needs for each vector while it is built


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorIndex:
    """One index in the catalogue."""

    name: str
    is_valid: bool
    """False for what an interrupted build left: it costs every write and helps no search."""
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    """What an index shall hold."""

    model_id: str
    dimensions: int
    rows: int

    def name(self, identity: Identity) -> str:
        """Its name: the tenant's part, then the model's."""
        return f"{tenant_prefix(identity)}{_digest(f'{self.model_id}/{self.dimensions}', 8)}"

    @property
    def megabytes(self) -> int:
        """Memory in which the build fits; with less it takes many times as long."""
        needed = self.rows * (2 * self.dimensions + BYTES_BESIDE_VECTOR) // 2**20 + 1
        return min(max(needed, LEAST_MEMORY), MOST_MEMORY)


def tenant_prefix(identity: Identity) -> str:
    """How the names of the tenant's indexes begin."""
    return f"{PREFIX}{_digest(str(identity.tenant_id), 16)}_"


async def list_indexes(tx: Transaction) -> list[VectorIndex]:
    """The indexes of all tenants: names and sizes, which tell nothing about who they belong to."""
    return await tx.all(queries.list_indexes, VectorIndex, prefix=PREFIX)


async def vector_dimensions(tx: Transaction, model_id: str) -> int | None:
    """How long the tenant's vectors of the model are; None when there are none."""
    found: int | None = await tx.value(queries.vector_dimensions, model_id=model_id)
    return found


class VectorIndexes:
    """Builds and drops indexes as the owner."""

    def __init__(self, owner_dsn: str) -> None:
        self._owner_dsn = owner_dsn

    async def build(self, identity: Identity, spec: IndexSpec) -> bool:
        """Build the tenant's index while everybody reads and writes on; False when another build is under way.

        Cut short, it leaves an invalid index in the catalogue.
        """
        async with self._connection(spec.megabytes) as connection:
            if not await _lock(connection):
                return False
            await connection.execute(
                sql.SQL(queries.create_index.sql).format(
                    name=sql.Identifier(spec.name(identity)),
                    dimensions=sql.Literal(spec.dimensions),
                    effort=sql.Literal(EFFORT),
                    tenant_id=sql.Literal(identity.tenant_id),
                    model_id=sql.Literal(spec.model_id),
                )
            )
            return True

    async def drop(self, index: VectorIndex) -> bool:
        """Drop an index; False when a build is under way."""
        async with self._connection(LEAST_MEMORY) as connection:
            if not await _lock(connection):
                return False
            await connection.execute(sql.SQL(queries.drop_index.sql).format(name=sql.Identifier(index.name)))
            return True

    @asynccontextmanager
    async def _connection(self, megabytes: int) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        try:
            connection = await psycopg.AsyncConnection.connect(self._owner_dsn, autocommit=True, connect_timeout=5)
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable from error
        async with connection:
            await connection.execute(
                sql.SQL(queries.prepare_build.sql).format(
                    memory=sql.Literal(f"{megabytes}MB"), timeout=sql.Literal(int(BUILD_SECONDS * 1000))
                )
            )
            yield connection


async def _lock(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether this connection may build or drop; held until it is closed."""
    cursor = await connection.execute(sql.SQL(queries.try_lock.sql).format(lock=sql.Literal(BUILD_LOCK)))
    row = await cursor.fetchone()
    return bool(row and row[0])


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]
