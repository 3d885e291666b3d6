"""Rows of vectors and entities: all derived from items, and rebuilt from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from recordari.core.ids import new_id
from recordari.db.database import Asked, Transaction
from recordari.db.queries import Queries
from recordari.domain.entities import Entity
from recordari.domain.indexing import Indexed

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextToEmbed:
    """An item's text, and the head of the one said before it."""

    item_id: UUID
    kind: str
    content: str
    content_hash: bytes
    speaker: str | None
    event_time: datetime
    metadata: dict[str, Any]
    previous_speaker: str | None
    previous_head: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The model recall uses, and the one the tenant is being moved to; and what else the tenant has set."""

    active: str | None
    target: str | None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextToIndex:
    """An item's text, to derive its index columns from."""

    item_id: UUID
    kind: str
    content: str
    speaker: str | None
    metadata: dict[str, Any]


async def texts_to_embed(tx: Transaction, item_ids: Sequence[UUID], *, head: int) -> list[TextToEmbed]:
    """The texts of these items, as far as they still exist."""
    return await tx.all(queries.texts_to_embed, TextToEmbed, item_ids=list(item_ids), head=head)


async def save_vectors(tx: Transaction, model_id: str, texts: Sequence[TextToEmbed], matrix: np.ndarray) -> int:
    """Keep the vectors of texts that have not changed meanwhile."""
    return await tx.run(
        queries.save_vectors,
        model_id=model_id,
        item_ids=[text.item_id for text in texts],
        content_hashes=[text.content_hash for text in texts],
        embeddings=[HalfVector(row) for row in matrix],
    )


async def save_entities(tx: Transaction, named: Sequence[tuple[UUID, Entity]]) -> None:
    """Note which items mention which entities."""
    if not named:
        return
    ordered = sorted(named, key=lambda pair: pair[1].key)  # one order for all writers: no deadlock
    await tx.run(
        queries.save_entities,
        entity_ids=[new_id() for _ in ordered],
        kinds=[str(entity.kind) for _, entity in ordered],
        names=[entity.name for _, entity in ordered],
        keys=[entity.key for _, entity in ordered],
        item_ids=[item_id for item_id, _ in ordered],
    )


async def count_vectors(tx: Transaction, model_id: str) -> int:
    """How many live vectors there are."""
    return int(await tx.value(queries.count_vectors, model_id=model_id))


async def items_without_vector(tx: Transaction, model_id: str, *, after: UUID, limit: int) -> list[UUID]:
    """Ids of items that the model has not embedded yet."""
    rows = await tx.dicts(queries.items_without_vector, model_id=model_id, after=after, limit=limit)
    return [row["item_id"] for row in rows]


async def count_items(tx: Transaction) -> int:
    """How many items can have a vector."""
    return int(await tx.value(queries.count_items))


async def delete_mentions(tx: Transaction, item_ids: Sequence[UUID]) -> int:
    """Take back what items are said to name, before it is found again."""
    return await tx.run(queries.delete_mentions, item_ids=list(item_ids))


async def count_without_vector(tx: Transaction, model_id: str) -> int:
    """How many items a model has not embedded yet."""
    return int(await tx.value(queries.count_without_vector, model_id=model_id))


async def delete_other_vectors(tx: Transaction, model_id: str) -> int:
    """Drop the vectors of all models but this one."""
    return await tx.run(queries.delete_other_vectors, model_id=model_id)


async def delete_vectors(tx: Transaction, model_id: str) -> int:
    """Drop the vectors of this model."""
    return await tx.run(queries.delete_vectors, model_id=model_id)


async def texts_to_index(tx: Transaction, *, after: UUID, limit: int) -> list[TextToIndex]:
    """The next texts by id."""
    return await tx.all(queries.texts_to_index, TextToIndex, after=after, limit=limit)


async def save_index(tx: Transaction, indexed: Sequence[tuple[UUID, Indexed]]) -> None:
    """Write index columns that were derived again."""
    await tx.run(
        queries.save_index,
        item_ids=[item_id for item_id, _ in indexed],
        tsvs=[one.tsv for _, one in indexed],
        terms=[one.terms for _, one in indexed],
        tokens=[one.tokens for _, one in indexed],
        traits=[one.traits for _, one in indexed],
    )


async def find_models(tx: Transaction) -> Models:
    """The tenant's models."""
    found = await tx.maybe(queries.find_models, Models)
    return found or Models(active=None, target=None)


def ask_models() -> Asked[Models]:
    """The same, sent along with others."""
    return Asked(queries.find_models, lambda rows: Models(**rows[0]) if rows else Models(active=None, target=None))


async def choose_model(tx: Transaction, model_id: str) -> None:
    """Note the first model of the tenant; one that was noted before stays."""
    await tx.run(queries.choose_model, model_id=model_id)


async def aim_at_model(tx: Transaction, model_id: str) -> None:
    """Note that the tenant is being moved to a model: what is new is embedded with it too."""
    await tx.run(queries.aim_at_model, model_id=model_id)


async def switch_model(tx: Transaction, model_id: str) -> None:
    """Note that the tenant has moved to a model."""
    await tx.run(queries.switch_model, model_id=model_id)
