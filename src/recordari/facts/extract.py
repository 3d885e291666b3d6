"""Extraction: take facts from messages, and link each fact to its message. A job of the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from recordari.core.identity import Identity, Scope
from recordari.core.items import CORROBORATION, Item, Kind, NewItem, Tier, Trust
from recordari.db import outbox
from recordari.db.database import Transaction
from recordari.db.outbox import Batch
from recordari.facts import storage
from recordari.facts.copies import without_copies
from recordari.facts.language import LLM
from recordari.facts.rules.extraction import ExtractedFact, facts_in
from recordari.facts.storage import Link
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC
from recordari.memory.remember import Ready, make_ready, save_ready, with_source_ref
from recordari.memory.rules import Extraction, extraction_of
from recordari.memory.storage import FactState, Row
from recordari.memory.versions import archived_reference, free_reference, is_ended_before, link_predecessor
from recordari.models.base import fail_open
from recordari.tenants import storage as tenants_storage

EXTRACT_SECONDS = 30.0
_TRUSTS = {
    Extraction.OFF: (),
    Extraction.USERS: (Trust.USER,),
    Extraction.ALL: (Trust.USER, Trust.AGENT),
}


async def extract(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Take facts from the messages of a batch, once for each message."""
    async with resources.database.transaction(identity) as tx:
        tenant = await tenants_storage.find_tenant(tx)
        trusts = _TRUSTS[extraction_of(tenant.settings if tenant is not None else {})]
        sources = await storage.sources_to_extract(tx, batch.refs, trusts) if trusts else []
    facts = [(row, source) for source in sources for row in await _rows(resources, identity, source)]
    async with resources.database.transaction(identity) as tx:
        changed = await _save(tx, facts) if facts else []
        await storage.mark_extracted(tx, sorted({source.item_id for _, source in facts}), resources.clock())
        await outbox.done(tx, batch)
    if changed:
        resources.wake(EMBED_TOPIC)


async def _rows(resources: Resources, identity: Identity, source: Item) -> Sequence[Row]:
    """The facts of one message; they belong to its owner."""
    nothing: Sequence[ExtractedFact] = ()
    extracted, ran = await fail_open(
        "extract",
        lambda: resources.get(LLM).extract(source.content, speaker=source.speaker),
        fallback=nothing,
        seconds=EXTRACT_SECONDS,
    )
    if not ran:
        extracted = facts_in(source.content, speaker=source.speaker)
    if not extracted:
        return []
    extractor = resources.get(LLM).name if ran else "offline"
    news = [_new_fact(fact, source, extractor) for fact in extracted]
    return (await make_ready(resources, owner_of(identity, source), news)).rows


def owner_of(identity: Identity, row: Item) -> Identity:
    """The identity with the user, agent, session and run of a row: a new row belongs to them too."""
    return replace(identity, user_id=row.user_id, agent_id=row.agent_id, session_id=row.session_id, run_id=row.run_id)


def _new_fact(extracted: ExtractedFact, source: Item, extractor: str) -> NewItem:
    return NewItem(
        content=extracted.content,
        kind=Kind.FACT,
        scope=Scope.USER if source.user_id is not None else Scope.AGENT,
        tier=Tier.RECENT,  # F6: it becomes persistent once it was said more than once
        speaker=source.speaker,
        event_time=source.event_time,
        trust=source.trust,
        subject=extracted.subject,
        predicate=extracted.predicate,
        object=extracted.object,
        confidence=extracted.confidence,
        category=extracted.category,
        metadata={"extractor": extractor},
    )


async def _save(tx: Transaction, facts: Sequence[tuple[Row, Item]]) -> list[UUID]:
    """Write the facts and their links. Return the ids whose text is new."""
    known = await memory_storage.fact_states(tx, [(row.item.owned_by, row.item.source_ref) for row, _ in facts])
    forgotten = {ref for ref, state in known.items() if state.is_forgotten}
    facts = await without_copies(tx, [fact for fact in facts if fact[0].item.source_ref not in forgotten])
    ended = await free_reference(tx, [(row.item.source_ref, source.event_time) for row, source in facts], known)
    rows = tuple(_placed(row, source, ended) for row, source in facts)
    remembered, changed = await save_ready(tx, Ready(rows=rows, objects={}))
    for saved in remembered:
        if saved.was_new and saved.source_ref in ended:
            await link_predecessor(tx, saved.id, ended[saved.source_ref])
    links = [
        Link(item_id=saved.id, source_item_id=source.item_id, event_time=source.event_time)
        for saved, (_, source) in zip(remembered, facts, strict=True)
    ]
    await storage.insert_links(tx, links)
    item_ids = sorted({link.item_id for link in links})
    await storage.promote_corroborated(tx, item_ids, sessions=CORROBORATION)
    await memory_storage.unarchive_items(tx, item_ids)  # also those that were archived meanwhile
    return changed


def _placed(row: Row, source: Item, ended: dict[str, FactState]) -> Row:
    """A fact that was said before the end of an old version belongs to that version."""
    version = ended.get(row.item.source_ref)
    if version is None or is_ended_before(version, source.event_time):
        return row
    return with_source_ref(row, archived_reference(version))
