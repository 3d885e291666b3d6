"""Searches the documents; each chunk of the answer has a citation (R5)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from uuid import UUID

from recordari.core.identity import Identity
from recordari.core.items import Kind
from recordari.kit.resources import Resources
from recordari.knowledge import storage
from recordari.knowledge.rules.questions import FoundDocument, joined, parts_of
from recordari.knowledge.sources import require_source
from recordari.recall.accesses import AccessCounts
from recordari.recall.recall import find
from recordari.recall.request import MAX_TOP_K, Arm, RecallAnswer, RecalledItem, RecallRequest, Via, check_request
from recordari.recall.rules.confidence import hint_for

PARTS_AT_ONCE = 4


async def search_knowledge(
    resources: Resources,
    identity: Identity,
    query: str,
    *,
    top_k: int = 5,
    source: str | UUID | None = None,
    enable_rerank: bool = True,
    since: datetime | None = None,
    until: datetime | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    explain: bool = False,
    arms: frozenset[Arm] = frozenset(Arm),
) -> RecallAnswer:
    """Search the documents; each text comes with its citation.

    `as_of` asks what they said at a moment, `known_at` what of them was here by then.
    """
    source_id = None
    if source is not None:
        async with resources.database.transaction(identity) as tx:
            source_id = (await require_source(tx, source)).source_id
    request = RecallRequest(
        query=query,
        top_k=top_k,
        source_kinds=(Kind.DOCUMENT_CHUNK,),
        source_id=source_id,
        enable_rerank=enable_rerank,
        since=since,
        until=until,
        as_of=as_of,
        known_at=known_at,
        explain=explain,
        arms=arms,
    )
    check_request(identity, request)
    parts = parts_of(query)
    if len(parts) == 1:
        answer = await find(resources, identity, request)
    else:
        answer = await _find_by_parts(resources, identity, request, parts)
    async with resources.database.transaction(identity) as tx:
        citations = await storage.citations(tx, [item.id for item in answer.items])
    return replace(answer, items=tuple(replace(item, citation=citations.get(item.id)) for item in answer.items))


async def _find_by_parts(
    resources: Resources, identity: Identity, request: RecallRequest, parts: Sequence[str]
) -> RecallAnswer:
    """Search for each part of a long question and join the answers; only the items shown count as used."""
    wider = replace(request, top_k=MAX_TOP_K, enable_rerank=False, counts_as_use=False, is_part=True)
    wide = [replace(wider, query=part) for part in parts]
    answers: list[RecallAnswer] = []
    for start in range(0, len(wide), PARTS_AT_ONCE):
        batch = wide[start : start + PARTS_AT_ONCE]
        answers += await asyncio.gather(*(find(resources, identity, part) for part in batch))
    answer = _joined(request, answers)
    if request.counts_as_use:
        found = [item.id for item in answer.items]
        resources.get(AccessCounts).note(identity, found, via=Via.SEARCH, now=resources.clock())
    if request.explain:
        traces = [{"query": part, **(found.trace or {})} for part, found in zip(parts, answers, strict=True)]
        answer = replace(answer, trace={"parts": traces})
    return answer


def _joined(request: RecallRequest, answers: Sequence[RecallAnswer]) -> RecallAnswer:
    """Join answers: the best chunk of each document first, then the second of each, and so on."""
    best: dict[UUID, RecalledItem] = {}
    for answer in answers:
        for item in answer.items:
            if item.id not in best or item.score > best[item.id].score:
                best[item.id] = item
    ranked: dict[str, list[RecalledItem]] = {}
    for item in sorted(best.values(), key=lambda item: -item.score):
        ranked.setdefault(_document_of(item), []).append(item)
    documents = {
        name: FoundDocument(title=str(items[0].metadata.get("title", "")), chunks=[item.content for item in items])
        for name, items in ranked.items()
    }
    scores = joined(request.query, [_by_document(answer.items) for answer in answers], documents)
    chosen = [
        replace(item, score=round(scores[_document_of(item)], 6))
        for rank in zip_longest(*(ranked[name] for name in scores))
        for item in rank
        if item is not None
    ][: request.top_k]
    confidence = max(answer.confidence for answer in answers)
    degraded = any(answer.degraded for answer in answers)
    return RecallAnswer(
        items=tuple(chosen),
        total=len(chosen),
        degraded=degraded,
        rerank_used=False,
        confidence=confidence,
        hint=hint_for(confidence, len(chosen), degraded=degraded),
    )


def _by_document(items: Sequence[RecalledItem]) -> list[tuple[str, float]]:
    """Documents with the score of their best chunk, best first."""
    best: dict[str, float] = {}
    for item in items:
        best.setdefault(_document_of(item), item.score)
    return list(best.items())


def _document_of(item: RecalledItem) -> str:
    """The part of a reference that all chunks of a document share: all but revision and position."""
    return item.source_ref.rsplit(":", 2)[0] if item.source_ref.startswith("document:") else item.source_ref
