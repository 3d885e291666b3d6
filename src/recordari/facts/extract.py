"""Extracting: facts that people state in their messages, each linked to what it was taken from. A job of the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recordari.core.identity import Identity, Scope
from recordari.core.items import CORROBORATION, Kind, NewItem, Tier, Trust
from recordari.db import outbox
from recordari.db.database import Transaction
from recordari.db.outbox import Batch
from recordari.facts import storage
from recordari.facts.language import LLM
from recordari.facts.rules.extraction import ExtractedFact, facts_in
from recordari.facts.storage import Link, SourceText
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC
from recordari.memory.remember import Ready, make_ready, save_ready, with_source_ref
from recordari.memory.rules import Extraction, extraction_of
from recordari.memory.storage import FactState, Row
from recordari.memory.versions import Stated, archived_reference, free_reference, is_ended_before, link_predecessor
from recordari.models.base import fail_open
from recordari.tenants import storage as tenants_storage

EXTRACT_SECONDS = 30.0


_TRUSTS = {
    Extraction.OFF: (),
    Extraction.USERS: (Trust.USER,),
    Extraction.ALL: (Trust.USER, Trust.AGENT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A row ready to be written, and the message it was taken from."""

    row: Row
    source: SourceText


async def extract(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Take facts from the messages of a batch. A message yields facts once, whatever becomes of them later."""
    async with resources.database.transaction(identity) as tx:
        tenant = await tenants_storage.find_tenant(tx)
        trusts = _TRUSTS[extraction_of(tenant.settings if tenant is not None else {})]
        sources = await storage.sources_to_extract(tx, batch.refs, trusts) if trusts else []
    found = [one for source in sources for one in await _facts_of(resources, identity, source)]
    async with resources.database.transaction(identity) as tx:
        changed = await _save(tx, found) if found else []
        await storage.mark_extracted(tx, sorted({one.source.item_id for one in found}), resources.clock())
        await outbox.done(tx, batch)
    if changed:
        resources.wake(EMBED_TOPIC)


async def _facts_of(resources: Resources, identity: Identity, source: SourceText) -> list[_Found]:
    """The facts of one message, ready to be written for the one who said them."""
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
    owner = replace(
        identity,
        user_id=source.user_id,
        agent_id=source.agent_id,
        session_id=source.session_id,
        run_id=source.run_id,
    )
    extractor = resources.get(LLM).name if ran else "offline"
    news = [_new_fact(one, source, extractor) for one in extracted]
    ready = await make_ready(resources, owner, news)
    return [_Found(row=row, source=source) for row in ready.rows]


def _new_fact(extracted: ExtractedFact, source: SourceText, extractor: str) -> NewItem:
    return NewItem(
        content=extracted.content,
        kind=Kind.FACT,
        scope=Scope.USER if source.user_id is not None else Scope.AGENT,
        tier=Tier.RECENT,  # F6: it lasts once it was said more than once
        speaker=source.speaker,
        event_time=source.event_time,
        trust=Trust(source.trust),
        subject=extracted.subject,
        predicate=extracted.predicate,
        object=extracted.object,
        confidence=extracted.confidence,
        category=extracted.category,
        metadata={"extractor": extractor},
    )


async def _save(tx: Transaction, found: Sequence[_Found]) -> list[object]:
    """Write the facts and what they rest on; the ids whose text is new."""
    known = await memory_storage.standing_of_refs(tx, [one.row.item.source_ref for one in found])
    # What was forgotten must not come back.
    found = [one for one in found if not (ref := known.get(one.row.item.source_ref)) or not ref.is_forgotten]
    stated = [Stated(source_ref=one.row.item.source_ref, event_time=one.source.event_time) for one in found]
    ended = await free_reference(tx, stated, known)
    kept = [_placed(one, ended) for one in found]
    remembered, changed = await save_ready(tx, Ready(rows=tuple(one.row for one in kept), objects={}))
    for saved in remembered:
        if saved.was_new and saved.source_ref in ended:
            await link_predecessor(tx, saved.id, ended[saved.source_ref])
    links = [
        Link(item_id=saved.id, source_item_id=one.source.item_id, event_time=one.source.event_time)
        for saved, one in zip(remembered, kept, strict=True)
    ]
    await storage.insert_links(tx, links)
    stated_now = sorted({link.item_id for link in links})
    await storage.promote_corroborated(tx, stated_now, sessions=CORROBORATION)
    await memory_storage.unarchive_items(tx, stated_now)  # what faded since it was looked at, too
    return list(changed)


def _placed(found: _Found, ended: dict[str, FactState]) -> _Found:
    """The fact as it is written: what was said before the end of a version belongs to that version."""
    version = ended.get(found.row.item.source_ref)
    if version is None or is_ended_before(version, found.source.event_time):
        return found
    return replace(found, row=with_source_ref(found.row, archived_reference(version)))
