"""Deriving the meaning of an item in time to be written with it, where the tenant's model is quick enough for that.

What comes of it is what the job of the outbox would make: `storage.items.insert_alone` checks in the transaction that
everything it was made under still holds, and leaves the item to that job if not.
"""

from __future__ import annotations

from recordari.core.identity import Identity
from recordari.domain.entities import entities_in
from recordari.domain.extraction import SETTING, Extraction
from recordari.domain.indexing import embedded_text
from recordari.kit.resources import Resources
from recordari.models.base import fail_open_now
from recordari.service.index import EXTRACT_TOPIC, NEXT_TOPICS
from recordari.storage.items import Meaning, Row

MOST_CHARACTERS = 10_000  # longer texts are embedded in the background


def meaning_of(resources: Resources, identity: Identity, row: Row, *, model_id: str | None) -> Meaning | None:
    """The vector of an item by the tenant's model, and what it names; None where a job had better see to it."""
    embedder = resources.embedders.instant(model_id)
    item = row.item
    if embedder is None or len(item.content) > MOST_CHARACTERS:
        return None
    before = resources.threads.before(identity.tenant_id, row)
    text = embedded_text(
        item.content,
        speaker=item.speaker,
        event_time=item.event_time,
        previous_speaker=before.speaker if before else None,
        previous_head=before.head if before else None,
        metadata=item.metadata,
    )
    vector = fail_open_now("embed_now", lambda: embedder.embed_now(text), fallback=None)
    if vector is None:
        return None
    following = NEXT_TOPICS.get(item.kind)
    return Meaning(
        model_id=embedder.model_id,
        embedding=vector,
        entities=entities_in(item.content, speaker=item.speaker),
        previous_id=before.item_id if before else None,
        previous_hash=before.content_hash if before else None,
        following=following,
        unless={SETTING: Extraction.OFF} if following == EXTRACT_TOPIC else None,
    )
