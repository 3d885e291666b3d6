"""Extraction: take facts from messages, and link each fact to its message. A job of the outbox."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Scope
from recordari.core.items import CORROBORATION, PROJECT, Item, Kind, NewItem, Prepared, Tier, Trust
from recordari.db import outbox
from recordari.db.database import Transaction
from recordari.db.outbox import Batch
from recordari.errors import InvalidInput
from recordari.facts import storage
from recordari.facts.copies import without_copies
from recordari.facts.language import LLM
from recordari.facts.rules.extraction import ExtractedFact, facts_in
from recordari.facts.rules.learning import SETTING, Learning, Nearness, learning_of
from recordari.facts.rules.naming import MOST_BEFORE, EarlierMessage, refers_to_somebody, with_person_before
from recordari.facts.storage import Link
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory.remember import Ready, Written, make_ready, save_ready, with_source_ref
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
        settings = tenant.settings if tenant is not None else {}
        trusts = _TRUSTS[extraction_of(settings)]
        sources = await storage.sources_to_extract(tx, batch.refs, trusts) if trusts else []
        unclear = [each.item_id for each in sources if each.session_id and refers_to_somebody(each.content)]
        before = await storage.said_before(tx, unclear, MOST_BEFORE) if unclear else {}
    facts = [
        (row, source)
        for source in sources
        for row in await _rows(resources, identity, source, settings, before.get(source.item_id, ()))
    ]
    async with resources.database.transaction(identity) as tx:
        changes = await _save(tx, facts) if facts else Written()
        await storage.mark_extracted(tx, sorted({source.item_id for _, source in facts}), resources.clock())
        await outbox.done(tx, batch)
    changes.wake(resources)


async def _rows(
    resources: Resources,
    identity: Identity,
    source: Item,
    settings: Mapping[str, Any],
    before: Sequence[EarlierMessage],
) -> Sequence[Row]:
    """The facts of one message; they belong to its owner. `before` is said earlier in its session."""
    learning = learning_of(settings.get(SETTING), source.agent_id)
    text = with_person_before(source.content, before, source.speaker) if before else source.content
    extracted, extractor = await _extracted(
        resources, text, speaker=source.speaker, at=source.event_time, learning=learning
    )
    nearness = _nearness(resources)
    kept = [fact for fact in extracted if learning.refused(fact, nearness) is None]
    if not kept:
        return []
    news = [_new_fact(fact, source, extractor) for fact in kept]
    return (await make_ready(resources, owner_of(identity, source), news)).rows


async def _extracted(
    resources: Resources, text: str, *, speaker: str | None, at: datetime | None, learning: Learning
) -> tuple[Sequence[ExtractedFact], str]:
    """The facts of a text, and the name of what took them: the model, or the rules where it fails."""
    nothing: Sequence[ExtractedFact] = ()
    extracted, ran = await fail_open(
        "extract",
        lambda: resources.get(LLM).extract(text, speaker=speaker, at=at, learning=learning),
        fallback=nothing,
        seconds=EXTRACT_SECONDS,
    )
    if ran:
        return extracted, resources.get(LLM).name
    return [learning.categorised(fact) for fact in facts_in(text, speaker=speaker, at=at)], "offline"


def _nearness(resources: Resources) -> Nearness | None:
    """The similarity of words by the static table; None without one."""
    tokens = resources.static_tokens
    if tokens is None:
        return None

    def vector(word: str) -> NDArray[np.float32] | None:
        ids = tokens.word_ids(word)
        return tokens.vectors[list(ids)].mean(axis=0) if ids else None

    def nearness(one: str, other: str) -> float:
        first, second = vector(one), vector(other)
        if first is None or second is None:
            return 0.0
        return float(first @ second / max(float(np.linalg.norm(first) * np.linalg.norm(second)), 1e-9))

    return nearness


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedFact:
    """A fact that a text would give."""

    __pydantic_config__ = DESCRIBED

    content: str
    category: str
    confidence: float
    subject: str | None
    predicate: str | None
    object: str | None
    refused: str | None
    """The topic for which it would not be kept."""
    extractor: str
    """The language model, or `offline` for the rules."""


async def preview_facts(
    resources: Resources,
    identity: Identity,
    text: str,
    *,
    speaker: str | None = None,
    event_time: datetime | None = None,
    agent_id: str | None = None,
    learning: Mapping[str, Any] | None = None,
) -> list[PreviewedFact]:
    """What would be learnt from a text; nothing is kept. `learning` are settings to try instead of the tenant's."""
    if not text.strip():
        raise InvalidInput("give a text to learn from")
    async with resources.database.transaction(identity) as tx:
        tenant = await tenants_storage.find_tenant(tx)
    setting = learning if learning is not None or tenant is None else tenant.settings.get(SETTING)
    wanted = learning_of(setting, agent_id or identity.agent_id)
    at = event_time or resources.clock()
    extracted, extractor = await _extracted(resources, text, speaker=speaker, at=at, learning=wanted)
    nearness = _nearness(resources)
    return [
        PreviewedFact(
            content=fact.content,
            category=str(fact.category),
            confidence=fact.confidence,
            subject=fact.subject,
            predicate=fact.predicate,
            object=fact.object,
            refused=wanted.refused(fact, nearness),
            extractor=extractor,
        )
        for fact in extracted
    ]


async def preview_items(resources: Resources, identity: Identity, items: Sequence[Prepared]) -> list[str]:
    """What the rules would learn from messages that are not kept yet. A language model is not asked, and may learn more."""
    async with resources.database.transaction(identity) as tx:
        tenant = await tenants_storage.find_tenant(tx)
    settings = tenant.settings if tenant is not None else {}
    trusts, nearness = _TRUSTS[extraction_of(settings)], _nearness(resources)

    def learn() -> list[str]:
        found: list[str] = []
        for item in items:
            if item.kind is Kind.CHAT_MESSAGE and item.trust in trusts:
                learning = learning_of(settings.get(SETTING), item.agent_id)
                facts = [
                    learning.categorised(fact)
                    for fact in facts_in(item.content, speaker=item.speaker, at=item.event_time)
                ]
                found += [fact.content for fact in facts if learning.refused(fact, nearness) is None]
        return found

    return await asyncio.to_thread(learn)


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
        metadata={"extractor": extractor, **{key: value for key, value in source.metadata.items() if key == PROJECT}},
    )


async def _save(tx: Transaction, facts: Sequence[tuple[Row, Item]]) -> Written:
    """Write the facts and their links."""
    known = await memory_storage.fact_states(tx, [(row.item.owned_by, row.item.source_ref) for row, _ in facts])
    forgotten = {ref for ref, state in known.items() if state.is_forgotten}
    facts = await without_copies(tx, [fact for fact in facts if fact[0].item.source_ref not in forgotten])
    ended = await free_reference(tx, [(row.item.source_ref, source.event_time) for row, source in facts], known)
    rows = tuple(_placed(row, source, ended) for row, source in facts)
    remembered, changes = await save_ready(tx, Ready(rows=rows, objects={}))
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
    return changes


def _placed(row: Row, source: Item, ended: dict[str, FactState]) -> Row:
    """A fact that was said before the end of an old version belongs to that version."""
    version = ended.get(row.item.source_ref)
    if version is None or is_ended_before(version, source.event_time):
        return row
    return with_source_ref(row, archived_reference(version))
