"""Derive index columns, vectors, entities and vector indexes from items, and derive them again."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np

from recordari.core.cache import BoundedMap
from recordari.core.checks import Progress
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Scope, TenantId
from recordari.core.ids import FIRST, first_id_of
from recordari.core.items import EXTRACT_TOPIC, KINDS, Kind
from recordari.core.telemetry import get_log
from recordari.db import audit, jobs, outbox
from recordari.db.database import Transaction
from recordari.db.outbox import Batch
from recordari.errors import ConfigurationError, InvalidInput, ProviderError
from recordari.kit.resources import Resources
from recordari.memory import vector_storage
from recordari.memory.rules import (
    PREVIOUS_HEAD,
    Extraction,
    Indexed,
    embedded_text,
    entities_in,
    extraction_of,
    indexed,
    is_long,
    searched_text,
)
from recordari.memory.storage import Meaning, Row
from recordari.memory.tenant_view import TenantViews
from recordari.memory.vector_storage import IndexSpec, VectorIndex, VectorIndexes
from recordari.models.base import Embedder, InstantEmbedder, Matrix, Vector, fail_open, fail_open_now
from recordari.models.static import TokenIds
from recordari.tenants import storage as tenants_storage
from recordari.tenants.tenants import require_admin

EMBED_TOPIC = "embed"
PASSAGES_TOPIC = "passages"
INDEX_TOPICS = (EMBED_TOPIC, PASSAGES_TOPIC)
"""While these have work left, search by meaning is not complete."""
FULL_BATCH = 200
IMPORTED = 64  # a batch of this size is part of an import
PAGE = 500
INDEX_SECONDS = 3_600.0
MOST_TOKENS = 256
INLINE_TEXTS = 8  # more texts are tokenised in a thread, so that the event loop continues


@dataclass(frozen=True, slots=True, kw_only=True)
class Reembedding:
    """The progress of a move to another embedding model."""

    __pydantic_config__ = DESCRIBED

    model_id: str
    done: int
    total: int
    switched: bool
    """False: recall still uses the old model."""


async def derive(resources: Resources, texts: Sequence[tuple[str, str | None]], *, language: str) -> list[Indexed]:
    """The index columns of texts with their speakers."""
    if len(texts) <= INLINE_TEXTS:
        return _derived(resources, texts, language)
    return await asyncio.to_thread(_derived, resources, texts, language)


def _derived(resources: Resources, texts: Sequence[tuple[str, str | None]], language: str) -> list[Indexed]:
    tokens = resources.static_tokens
    ids = tokens.token_ids([content for content, _ in texts]) if tokens is not None else [None] * len(texts)
    return [
        indexed(content, speaker=speaker, language=language, tokens=_distinct(token_ids))
        for (content, speaker), token_ids in zip(texts, ids, strict=True)
    ]


def _distinct(tokens: TokenIds | None) -> bytes:
    """The distinct tokens of a text in order of appearance; late interaction needs no counts."""
    if tokens is None:
        return b""
    distinct = list(dict.fromkeys(tokens.tolist()))
    return np.array(distinct[:MOST_TOKENS], dtype="<u2").tobytes()


async def embed(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Embed the items of a batch with the tenant's model, and save their entities. A job of the outbox."""
    async with resources.database.transaction(identity) as tx:
        models = await vector_storage.find_models(tx)
        texts = await vector_storage.texts_to_embed(tx, batch.refs, head=PREVIOUS_HEAD)
    primary = resources.embedders.primary
    model_ids = dict.fromkeys([models.active or (primary.model_id if primary else None), models.target])
    matrices = {}
    for model_id in filter(None, model_ids):
        embedder = resources.embedders.of(model_id)
        if embedder is None:
            raise ProviderError(
                "the tenant's embedding model is not available here", model_id=model_id, service="the embedding model"
            )
        matrices[model_id] = await _vectors_of(embedder, texts)
    named = [(text.item_id, entity) for text in texts for entity in entities_in(text.content, speaker=text.speaker)]
    async with resources.database.transaction(identity) as tx:
        await vector_storage.save_entities(tx, named)  # first: vectors carry the names
        for model_id, matrix in matrices.items():
            await vector_storage.save_vectors(tx, model_id, texts, matrix)
        if models.active is None and matrices:
            await vector_storage.choose_model(tx, next(iter(matrices)))
        topics = await _add_next_work(tx, texts, extraction_of(models.settings))
        if len(batch) >= IMPORTED:
            await look_later(resources, tx)
        await outbox.done(tx, batch)
    for topic in topics:
        resources.wake(topic)


async def _add_next_work(
    tx: Transaction, texts: Sequence[vector_storage.TextToEmbed], extraction: Extraction
) -> set[str]:
    """Add outbox entries for the work after the embedding. Return the topics to wake after the commit."""
    following: defaultdict[str, list[UUID]] = defaultdict(list)
    for text in texts:
        topic = KINDS[Kind(text.kind)].next_topic
        if topic is not None and not (topic == EXTRACT_TOPIC and extraction is Extraction.OFF):
            following[topic].append(text.item_id)
        if is_long(text.kind, text.content, text.payload_key):
            following[PASSAGES_TOPIC].append(text.item_id)
    for topic, item_ids in following.items():
        await outbox.add(tx, topic, item_ids)
    return set(following)


async def _vectors_of(embedder: Embedder, texts: Sequence[vector_storage.TextToEmbed]) -> Matrix:
    return await embedder.embed_passages(
        [
            embedded_text(
                text.content,
                speaker=text.speaker,
                event_time=text.event_time,
                previous_speaker=text.previous_speaker,
                previous_head=text.previous_head,
                metadata=text.metadata,
            )
            for text in texts
        ]
    )


def find_embedder(resources: Resources, model_id: str | None) -> Embedder:
    """The embedder of a model (None: the configured one), or an error that says what to do."""
    if resources.embedders.primary is None:
        raise ConfigurationError("embedding is switched off; set RECORDARI_EMBEDDING_PROVIDER")
    embedder = resources.embedders.of(model_id)
    if embedder is None:
        raise InvalidInput(
            "there is no such embedding model; `recordari models list` shows those that you can use", field="model_id"
        )
    return embedder


async def reembed(
    resources: Resources, identity: Identity, *, model_id: str | None = None, progress: Progress | None = None
) -> Reembedding:
    """Move the tenant to another embedding model; recall uses the old one until every item has its new vector.

    You can stop it and start it again: nothing is embedded twice.
    """
    require_admin(identity)
    embedder = find_embedder(resources, model_id)
    async with resources.database.transaction(identity) as tx:
        await vector_storage.aim_at_model(tx, embedder.model_id)
        total = await vector_storage.count_items(tx)
        before = total - await vector_storage.count_without_vector(tx, embedder.model_id)
    done = 0
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await vector_storage.items_without_vector(tx, embedder.model_id, after=FIRST, limit=PAGE)
            texts = await vector_storage.texts_to_embed(tx, page, head=PREVIOUS_HEAD)
        if not texts:
            break
        matrix = await _vectors_of(embedder, texts)
        async with resources.database.transaction(identity) as tx:
            await vector_storage.save_vectors(tx, embedder.model_id, texts, matrix)
        done += len(texts)
        if progress is not None:
            progress(min(before + done, total), total)
    # Before the switch, so that recall stays fast; without an index it is only slower.
    await fail_open("vector_index", lambda: maintain(resources, identity), fallback=None, seconds=INDEX_SECONDS)
    async with resources.database.transaction(identity) as tx:
        await vector_storage.switch_model(tx, embedder.model_id)
        await vector_storage.delete_other_vectors(tx, embedder.model_id)
        # Items that were written with a vector of the old model while the target was set.
        missing = await vector_storage.items_without_vector(tx, embedder.model_id, after=FIRST, limit=PAGE)
        await outbox.add(tx, EMBED_TOPIC, missing)
        await outbox.add(tx, PASSAGES_TOPIC, await vector_storage.items_with_passages(tx, model_id=embedder.model_id))
        await audit.record(tx, "index.reembed", "tenant", identity.tenant_id, model_id=embedder.model_id, items=done)
        await look_later(resources, tx)
    resources.wake(PASSAGES_TOPIC)
    resources.forget_tenant(identity.tenant_id)
    done += before
    total = max(total, done)  # some may have been written meanwhile
    return Reembedding(model_id=embedder.model_id, done=done, total=total, switched=True)


async def embedding_state(resources: Resources, identity: Identity) -> tuple[str | None, Reembedding | None]:
    """The model that recall uses, and the progress of a move to another one."""
    async with resources.database.transaction(identity) as tx:
        models = await vector_storage.find_models(tx)
        if models.target is None or models.target == models.active:
            return models.active, None
        total = await vector_storage.count_items(tx)
        rest = await vector_storage.count_without_vector(tx, models.target)
    return models.active, Reembedding(model_id=models.target, done=total - rest, total=total, switched=False)


async def reindex(resources: Resources, identity: Identity, *, progress: Progress | None = None) -> int:
    """Derive the index columns again from the rows, then vectors and entities. Returns the number of items."""
    require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        tenant = await tenants_storage.find_tenant(tx)
        total = await vector_storage.count_items(tx)
        models = await vector_storage.find_models(tx)
    language = tenant.language if tenant is not None else "english"
    after, done = FIRST, 0
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await vector_storage.texts_to_index(tx, after=after, limit=PAGE)
        if not page:
            break
        texts = [(searched_text(text.kind, text.content, text.metadata), text.speaker) for text in page]
        columns = await derive(resources, texts, language=language)
        item_ids = [text.item_id for text in page]
        async with resources.database.transaction(identity) as tx:
            await vector_storage.save_index(tx, list(zip(item_ids, columns, strict=True)))
            await vector_storage.delete_mentions(tx, item_ids)  # also those of older rules
            await outbox.add(tx, EMBED_TOPIC, item_ids)
        resources.wake(EMBED_TOPIC)
        after, done = page[-1].item_id, done + len(page)
        if progress is not None:
            progress(done, total)
    async with resources.database.transaction(identity) as tx:
        await audit.record(tx, "index.rebuild", "tenant", identity.tenant_id, items=done, model_id=models.active)
    return done


MOST_THREADS = 10_000


@dataclass(frozen=True, slots=True)
class LastMessage:
    item_id: UUID
    content_hash: bytes
    scope: Scope
    speaker: str | None
    head: str


class Threads:
    """Caches the last message of recent threads. Only the database knows whether it still is the last."""

    def __init__(self) -> None:
        self._last: BoundedMap[tuple[TenantId, str], LastMessage] = BoundedMap(MOST_THREADS)

    def note(self, tenant_id: TenantId, row: Row) -> None:
        if row.thread is None:
            return
        key, item = (tenant_id, row.thread), row.item
        if item.kind is Kind.CHAT_MESSAGE:
            head = item.content[:PREVIOUS_HEAD]
            self._last.put(key, LastMessage(row.item_id, item.content_hash, item.scope, item.speaker, head))
        else:
            self._last.pop(key)

    def before(self, tenant_id: TenantId, row: Row) -> LastMessage | None:
        """The message before a row, if this process knows it."""
        if row.thread is None or row.item.kind is not Kind.CHAT_MESSAGE:
            return None
        message = self._last.get((tenant_id, row.thread))
        return message if message is not None and message.scope is row.item.scope else None


async def with_meanings(resources: Resources, identity: Identity, rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with vectors and entities, where the tenant's model makes them in less time than a job needs to begin.

    Rows of a thread come in its order. Only the database knows whether the message before is still the last one; a vector
    for which it is not is not written.
    """
    view = await resources.get(TenantViews).get(resources.database, identity)
    embedder = resources.embedders.instant(view.model_id)
    if embedder is None or all(row.meaning is not None for row in rows):
        return tuple(rows)
    threads, texts = resources.get(Threads), {}
    for row in rows:
        before = threads.before(identity.tenant_id, row)
        threads.note(identity.tenant_id, row)
        if row.meaning is None and not is_long(row.item.kind, row.item.content, row.item.payload_key):
            texts[row.item_id] = row, before
    meant = list(texts.values())
    if len(meant) <= INLINE_TEXTS:
        meanings = _meanings(embedder.model_id, meant, [_embedded_now(embedder, *one) for one in meant])
    else:
        vectors = await _embedded_together(embedder, meant)
        meanings = await asyncio.to_thread(_meanings, embedder.model_id, meant, vectors)
    return tuple(replace(row, meaning=meanings.get(row.item_id, row.meaning)) for row in rows)


TOGETHER_SECONDS = 30.0
"""For the vectors of a batch; without them the worker makes them."""


def _embedded_now(embedder: InstantEmbedder, row: Row, before: LastMessage | None) -> Vector | None:
    return fail_open_now("embed_now", partial(embedder.embed_now, _embedded_text(row, before)), fallback=None)


async def _embedded_together(
    embedder: InstantEmbedder, rows: Sequence[tuple[Row, LastMessage | None]]
) -> Sequence[Vector | None]:
    texts, nothing = [_embedded_text(*one) for one in rows], [None] * len(rows)
    vectors, ran = await fail_open(
        "embed_now", lambda: embedder.embed_passages(texts), fallback=None, seconds=TOGETHER_SECONDS
    )
    return list(vectors) if ran and vectors is not None else nothing


def _meanings(
    model_id: str, rows: Sequence[tuple[Row, LastMessage | None]], vectors: Sequence[Vector | None]
) -> dict[UUID, Meaning]:
    return {
        row.item_id: Meaning(
            model_id=model_id,
            embedding=vector,
            entities=entities_in(row.item.content, speaker=row.item.speaker),
            previous_id=before.item_id if before else None,
            previous_hash=before.content_hash if before else None,
            following=KINDS[row.item.kind].next_topic,
        )
        for (row, before), vector in zip(rows, vectors, strict=True)
        if vector is not None
    }


def _embedded_text(row: Row, before: LastMessage | None) -> str:
    return embedded_text(
        row.item.content,
        speaker=row.item.speaker,
        event_time=row.item.event_time,
        previous_speaker=before.speaker if before else None,
        previous_head=before.head if before else None,
        metadata=row.item.metadata,
    )


log = get_log(__name__)

JOB = "vector_index"
MOST_INDEXES = 50
LATER = timedelta(minutes=1)
CLEARLY_LARGER = 1.2  # times the smallest indexed tenant, to take its place: no back and forth


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Indexes to drop first, and to build then."""

    drop: tuple[VectorIndex, ...] = ()
    build: tuple[IndexSpec, ...] = ()


async def maintain_when_quiet(resources: Resources, identity: Identity, **_: Any) -> None:
    """The same once no import goes on: each vector takes several times as long to write into an index. A job."""
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        if await vector_storage.is_filling(tx, first=first_id_of(now - LATER), past=first_id_of(now + LATER)):
            await look_later(resources, tx)
            return
    await maintain(resources, identity)


async def maintain(resources: Resources, identity: Identity) -> None:
    """Build or drop the tenant's vector index, according to its size."""
    async with resources.database.transaction(identity) as tx:
        specs = await _specs(tx)
        existing = await vector_storage.list_indexes(tx)
    changes = decide(identity, specs, existing, least=resources.settings.vector_index_from, most=MOST_INDEXES)
    if changes == Changes():
        return
    indexes = resources.find(VectorIndexes)
    if indexes is None:
        log.info("vector_index_not_changed", reason="the owner's connection is not known")
    elif not await _apply(indexes, identity, changes):
        # Another index is being built: try later instead of blocking a worker.
        async with resources.database.transaction(identity) as tx:
            await look_later(resources, tx)


async def look_later(resources: Resources, tx: Transaction) -> None:
    """Run the job once in a minute, however often this is called meanwhile."""
    name = f"{JOB}:{tx.identity.tenant_id}"
    await jobs.defer(tx, JOB, queueing_lock=name, lock=name, schedule_at=resources.clock() + LATER)


def decide(
    identity: Identity, specs: Sequence[IndexSpec], existing: Sequence[VectorIndex], *, least: int, most: int
) -> Changes:
    """Compare the indexes that the tenant should have with the catalogue."""
    prefix = vector_storage.tenant_prefix(identity)
    own = {index.name: index for index in existing if index.name.startswith(prefix)}
    others = sorted((index for index in existing if index.name not in own), key=lambda index: index.rows)
    drop, build = [], []
    for spec in specs:
        index = own.pop(spec.name(identity), None)
        larger = sum(other.rows > spec.rows for other in others)
        if index is not None and index.is_valid:
            if spec.rows < least / 2 or larger >= most:
                drop.append(index)
            continue
        if index is not None:
            drop.append(index)
        if spec.rows < least or larger >= most:
            continue
        if len(others) >= most:
            if spec.rows < others[0].rows * CLEARLY_LARGER:
                continue
            drop.append(others.pop(0))
        build.append(spec)
    return Changes(drop=(*drop, *own.values()), build=tuple(build))


async def _specs(tx: Transaction) -> list[IndexSpec]:
    """The possible indexes of the tenant's models: the one in use, and the one that it moves to."""
    models = await vector_storage.find_models(tx)
    specs = []
    for model_id in dict.fromkeys(filter(None, [models.active, models.target])):
        dimensions = await vector_storage.vector_dimensions(tx, model_id)
        if dimensions is not None:
            rows = await vector_storage.count_vectors(tx, model_id)
            specs.append(IndexSpec(model_id=model_id, dimensions=dimensions, rows=rows))
    return specs


async def _apply(indexes: VectorIndexes, identity: Identity, changes: Changes) -> bool:
    """Drop and build; False when another build is running."""
    for index in changes.drop:
        if not await indexes.drop(index):
            return False
        log.info("vector_index_dropped", name=index.name)
    for spec in changes.build:
        if not await indexes.build(identity, spec):
            return False
        log.info("vector_index_built", name=spec.name(identity), rows=spec.rows)
    return True
