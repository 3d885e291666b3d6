"""Cuts long texts into passages, which recall finds by their own words and meaning."""

from __future__ import annotations

import asyncio

from recordari.core.checks import is_readable
from recordari.core.identity import Identity
from recordari.db import outbox
from recordari.db.outbox import Batch
from recordari.errors import ProviderError
from recordari.kit.resources import Resources
from recordari.memory import vector_storage
from recordari.memory.index import derive
from recordari.memory.objects import Objects
from recordari.memory.rules import Cut, embedded_text, is_long, passages_of
from recordari.memory.tenant_view import TenantViews
from recordari.memory.vector_storage import LongText
from recordari.models.base import Embedder, Matrix

EMBEDDED_AT_ONCE = 64  # passages; between two of these, other work gets its turn


async def cut_texts(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Cut the long texts of a batch into passages, index them and embed them. A job of the outbox."""
    async with resources.database.transaction(identity) as tx:
        models = await vector_storage.find_models(tx)
        texts = await vector_storage.long_texts(tx, batch.refs)
    embedder = resources.embedders.of(models.active) if models.active is not None else resources.embedders.primary
    if embedder is None and models.active is not None:
        raise ProviderError(
            "the tenant's embedding model is not available here", model_id=models.active, service="the embedding model"
        )
    for text in texts:
        await _cut(resources, identity, text, embedder)
    async with resources.database.transaction(identity) as tx:
        await outbox.done(tx, batch)
    if texts and not models.has_passages:
        resources.forget_tenant(identity.tenant_id)  # recall looks for passages from now on


async def _cut(resources: Resources, identity: Identity, text: LongText, embedder: Embedder | None) -> None:
    """Replace the passages of one item."""
    whole = await _whole(resources, text) if is_long(text.kind, text.content, text.payload_key) else None
    cuts = await asyncio.to_thread(passages_of, whole) if whole is not None else []
    view = await resources.get(TenantViews).get(resources.database, identity)
    columns = await derive(resources, [(cut.content, text.speaker) for cut in cuts], language=view.language)
    matrix = await _vectors(embedder, text, cuts) if embedder is not None and cuts else []
    async with resources.database.transaction(identity) as tx:
        await vector_storage.save_passages(
            tx, text, cuts, columns, model_id=embedder.model_id if matrix and embedder else None, vectors=matrix
        )


async def _whole(resources: Resources, text: LongText) -> str | None:
    """The whole text of an item; None if its body is no text."""
    if text.media_type is None:
        return text.content
    if not is_readable(text.media_type):
        return None
    body = text.body
    if body is None:
        assert text.object_key is not None
        body = await resources.get(Objects).get(text.object_key)
    return body.decode(errors="replace")


async def _vectors(embedder: Embedder, text: LongText, cuts: list[Cut]) -> list[Matrix]:
    passages = [embedded_text(cut.content, speaker=text.speaker, event_time=text.event_time) for cut in cuts]
    vectors: list[Matrix] = []
    for start in range(0, len(passages), EMBEDDED_AT_ONCE):
        vectors += list(await embedder.embed_passages(passages[start : start + EMBEDDED_AT_ONCE]))
    return vectors
