"""Rows of vectors and entities, which are derived from items; and vector indexes."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from pgvector import HalfVector
from psycopg import sql

from recordari.core.identity import Identity, Role, SessionId, session_thread
from recordari.db.database import BatchedQuery, Transaction
from recordari.db.pool import refuse_pooler
from recordari.db.queries import Queries, delegated
from recordari.errors import DatabaseUnavailable
from recordari.memory.rules import Cut, Entity, EntityLink, EntityNode, Indexed
from recordari.memory.storage import entity_columns, line_of

queries = Queries(__name__)

# What a recall or a context asks each time.
_FIND_MODELS = delegated(queries.find_models)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextToEmbed:
    """An item's text, and the head of the message before it."""

    item_id: UUID
    kind: str
    content: str
    content_hash: bytes
    payload_key: str | None
    speaker: str | None
    event_time: datetime
    metadata: dict[str, Any]
    previous_speaker: str | None
    previous_head: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LongText:
    """An item with its whole body: in the row, or in the object store."""

    item_id: UUID
    kind: str
    content: str
    content_hash: bytes
    payload_key: str | None
    speaker: str | None
    event_time: datetime
    media_type: str | None
    body: bytes | None
    object_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The model that recall uses, the model that the tenant moves to, and the tenant's settings."""

    active: str | None = None
    target: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    has_passages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextToIndex:
    item_id: UUID
    kind: str
    content: str
    speaker: str | None
    metadata: dict[str, Any]


async def texts_to_embed(tx: Transaction, item_ids: Sequence[UUID], *, head: int) -> list[TextToEmbed]:
    return await tx.all(queries.texts_to_embed, TextToEmbed, item_ids=list(item_ids), head=head)


async def save_vectors(tx: Transaction, model_id: str, texts: Sequence[TextToEmbed], matrix: np.ndarray) -> int:
    return await tx.run(
        queries.save_vectors,
        model_id=model_id,
        item_ids=[text.item_id for text in texts],
        content_hashes=[text.content_hash for text in texts],
        embeddings=[HalfVector(row) for row in matrix],
    )


async def long_texts(tx: Transaction, item_ids: Sequence[UUID]) -> list[LongText]:
    return await tx.all(queries.long_texts, LongText, item_ids=list(item_ids))


async def save_passages(
    tx: Transaction,
    text: LongText,
    cuts: Sequence[Cut],
    columns: Sequence[Indexed],
    *,
    model_id: str | None,
    vectors: Sequence[np.ndarray],
) -> None:
    """Replace the passages of an item, unless its text is another one by now."""
    await tx.run(queries.delete_passages, item_id=text.item_id)
    await tx.run(
        queries.save_passages,
        item_id=text.item_id,
        content_hash=text.content_hash,
        starts=[cut.start for cut in cuts],
        contents=[cut.content for cut in cuts],
        tsvs=[each.tsv for each in columns],
        terms=[each.terms for each in columns],
        tokens=[each.tokens for each in columns],
        traits=[each.traits for each in columns],
        model_id=model_id,
        embeddings=[HalfVector(vector) for vector in vectors] or [None] * len(cuts),
    )


async def items_with_passages(tx: Transaction, *, model_id: str) -> list[UUID]:
    """The items whose passages have no vector of this model."""
    rows = await tx.dicts(queries.items_with_passages, model_id=model_id)
    return [row["item_id"] for row in rows]


async def save_entities(tx: Transaction, named: Sequence[tuple[UUID, Entity]]) -> None:
    if not named:
        return
    ordered = sorted(named, key=lambda pair: pair[1].key)  # one order for all writers: no deadlock
    await tx.run(
        queries.save_entities,
        item_ids=[item_id for item_id, _ in ordered],
        **entity_columns([entity for _, entity in ordered]),
    )


async def newest_items(tx: Transaction, *, limit: int) -> list[UUID]:
    """The newest live items that the identity may see; of an administrator who names a user, all sessions of the user."""
    caller = tx.identity
    if caller.spans_users and caller.agent_id is None:
        return [row["item_id"] for row in await tx.dicts(queries.newest_of_all, limit=limit)]
    owners = ["tenant:"]
    owners += [f"user:{caller.user_id}"] if caller.user_id is not None else []
    owners += [f"agent:{caller.agent_id}"] if caller.agent_id is not None else []
    line = await line_of(tx, caller.owned_by, caller.session_id)
    owners += [session_thread(caller.owned_by, session_id) for session_id in line]
    every = session_thread(caller.owned_by, SessionId("")) if caller.role is Role.ADMIN else ""
    sessions = {"sessions_from": every, "sessions_to": f"{every[:-1]}\x20" if every else ""}
    return [row["item_id"] for row in await tx.dicts(queries.newest_of_owners, owners=owners, **sessions, limit=limit)]


async def items_mentioning(
    tx: Transaction, entity_id: UUID, other_id: UUID | None, *, before: UUID, limit: int
) -> list[UUID]:
    query = queries.items_mentioning.filled(may_see=queries.may_see.sql)
    pair = {"entity_id": entity_id, "other_id": other_id}
    return [row["item_id"] for row in await tx.dicts(query, **await _seen_by(tx), **pair, before=before, limit=limit)]


async def _seen_by(tx: Transaction) -> dict[str, Any]:
    caller = tx.identity
    return {
        "user_id": caller.user_id,
        "agent_id": caller.agent_id,
        "owned_by": caller.owned_by,
        "session_ids": await line_of(tx, caller.owned_by, caller.session_id),
        "is_admin": caller.role is Role.ADMIN,
    }


async def entities_of(tx: Transaction, item_ids: Sequence[UUID], *, limit: int) -> list[EntityNode]:
    return await tx.all(queries.entities_of, EntityNode, item_ids=list(item_ids), limit=limit)


async def links_between(
    tx: Transaction, item_ids: Sequence[UUID], entity_ids: Sequence[UUID], *, limit: int
) -> list[EntityLink]:
    return await tx.all(
        queries.links_between, EntityLink, item_ids=list(item_ids), entity_ids=list(entity_ids), limit=limit
    )


async def count_vectors(tx: Transaction, model_id: str) -> int:
    return int(await tx.value(queries.count_vectors, model_id=model_id))


async def is_filling(tx: Transaction, *, first: UUID, past: UUID) -> bool:
    """Whether so many items were written between these ids that an import goes on."""
    return bool(await tx.value(queries.is_filling, first=first, past=past))


async def items_without_vector(tx: Transaction, model_id: str, *, after: UUID, limit: int) -> list[UUID]:
    rows = await tx.dicts(queries.items_without_vector, model_id=model_id, after=after, limit=limit)
    return [row["item_id"] for row in rows]


async def count_items(tx: Transaction) -> int:
    return int(await tx.value(queries.count_items))


async def delete_mentions(tx: Transaction, item_ids: Sequence[UUID]) -> int:
    return await tx.run(queries.delete_mentions, item_ids=list(item_ids))


async def count_without_vector(tx: Transaction, model_id: str) -> int:
    return int(await tx.value(queries.count_without_vector, model_id=model_id))


async def delete_other_vectors(tx: Transaction, model_id: str) -> int:
    return await tx.run(queries.delete_other_vectors, model_id=model_id)


async def delete_vectors(tx: Transaction, model_id: str) -> int:
    return await tx.run(queries.delete_vectors, model_id=model_id)


async def texts_to_index(tx: Transaction, *, after: UUID, limit: int) -> list[TextToIndex]:
    return await tx.all(queries.texts_to_index, TextToIndex, after=after, limit=limit)


async def save_index(tx: Transaction, indexed: Sequence[tuple[UUID, Indexed]]) -> None:
    await tx.run(
        queries.save_index,
        item_ids=[item_id for item_id, _ in indexed],
        tsvs=[columns.tsv for _, columns in indexed],
        terms=[columns.terms for _, columns in indexed],
        tokens=[columns.tokens for _, columns in indexed],
        traits=[columns.traits for _, columns in indexed],
    )


async def find_models(tx: Transaction) -> Models:
    return await tx.maybe(queries.find_models, Models) or Models()


def ask_models() -> BatchedQuery[Models]:
    return BatchedQuery(_FIND_MODELS, lambda rows: Models(**rows[0]) if rows else Models())


async def choose_model(tx: Transaction, model_id: str) -> None:
    await tx.run(queries.choose_model, model_id=model_id)


async def aim_at_model(tx: Transaction, model_id: str) -> None:
    """Record that the tenant moves to a model: new items are embedded with it too."""
    await tx.run(queries.aim_at_model, model_id=model_id)


async def switch_model(tx: Transaction, model_id: str) -> None:
    await tx.run(queries.switch_model, model_id=model_id)


PREFIX = "vectors_hnsw_"
BUILD_LOCK = 7_265_636_864  # beside the lock of migrations
BUILD_SECONDS = 3_000.0
EFFORT = 100  # candidates per inserted vector; more gives a better graph and a slower build
LEAST_MEMORY, MOST_MEMORY = 64, 1_024  # megabytes
BYTES_BESIDE_VECTOR = 700  # a generous guess at the memory of the graph for each vector during the build


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorIndex:
    name: str
    is_valid: bool
    """False after an interrupted build: the index costs every write and helps no search."""
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSpec:
    model_id: str
    dimensions: int
    rows: int

    def name(self, identity: Identity) -> str:
        return f"{tenant_prefix(identity)}{_digest(f'{self.model_id}/{self.dimensions}', 8)}"

    @property
    def megabytes(self) -> int:
        """Memory for the build; with less it takes many times as long."""
        needed = self.rows * (2 * self.dimensions + BYTES_BESIDE_VECTOR) // 2**20 + 1
        return min(max(needed, LEAST_MEMORY), MOST_MEMORY)


def tenant_prefix(identity: Identity) -> str:
    return f"{PREFIX}{_digest(str(identity.tenant_id), 16)}_"


async def list_indexes(tx: Transaction) -> list[VectorIndex]:
    """The indexes of all tenants; names and sizes do not reveal their tenants."""
    return await tx.all(queries.list_indexes, VectorIndex, prefix=PREFIX)


async def vector_dimensions(tx: Transaction, model_id: str) -> int | None:
    dimensions: int | None = await tx.value(queries.vector_dimensions, model_id=model_id)
    return dimensions


class VectorIndexes:
    """Builds and drops indexes as the owner."""

    def __init__(self, owner_dsn: str) -> None:
        self._owner_dsn = owner_dsn

    async def build(self, identity: Identity, spec: IndexSpec) -> bool:
        """Build the tenant's index without blocking reads and writes; False when another build is running.

        An interrupted build leaves an invalid index in the catalogue.
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
        """Drop an index; False when a build is running."""
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
            await refuse_pooler(connection, self._owner_dsn)
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
