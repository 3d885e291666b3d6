"""Asking the documents: each chunk of the answer says where it stands (R5)."""

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
from recordari.knowledge.rules.chunks import fused, parts_of
from recordari.knowledge.sources import require_named
from recordari.recall.accesses import AccessCounts
from recordari.recall.recall import find
from recordari.recall.request import MAX_TOP_K, Arm, RecallAnswer, RecalledItem, RecallRequest, check_request

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
    explain: bool = False,
    arms: frozenset[Arm] = frozenset(Arm),
) -> RecallAnswer:
    """What the documents say on a question, each with where it stands."""
    source_id = None
    if source is not None:
        async with resources.database.transaction(identity) as tx:
            source_id = (await require_named(tx, source)).source_id
    request = RecallRequest(
        query=query,
        top_k=top_k,
        source_kinds=(Kind.DOCUMENT_CHUNK,),
        source_id=source_id,
        enable_rerank=enable_rerank,
        since=since,
        until=until,
        as_of=as_of,
        explain=explain,
        arms=arms,
    )
    check_request(identity, request)
    parts = parts_of(query)
    if len(parts) == 1:
        return await _cited(resources, identity, await find(resources, identity, request))
    return await _cited(resources, identity, await _asked_in_parts(resources, identity, request, parts))


async def _asked_in_parts(
    resources: Resources, identity: Identity, request: RecallRequest, parts: Sequence[str]
) -> RecallAnswer:
    """What the parts of a long question find together; only what is shown counts as used."""
    wide = [replace(request, query=part, top_k=MAX_TOP_K, enable_rerank=False, counts_as_use=False) for part in parts]
    answers: list[RecallAnswer] = []
    for start in range(0, len(wide), PARTS_AT_ONCE):
        some = wide[start : start + PARTS_AT_ONCE]
        answers += await asyncio.gather(*(find(resources, identity, one) for one in some))
    answer = _joined(answers, request.top_k)
    if request.counts_as_use:
        resources.get(AccessCounts).note(identity.tenant_id, [item.id for item in answer.items], now=resources.clock())
    if request.explain:
        traces = [{"query": part, **(one.trace or {})} for part, one in zip(parts, answers, strict=True)]
        answer = replace(answer, trace={"parts": traces})
    return answer


def _joined(answers: Sequence[RecallAnswer], top_k: int) -> RecallAnswer:
    """One answer to the parts of a long question: the best chunk of each document first, then further ones."""
    best: dict[UUID, RecalledItem] = {}
    for answer in answers:
        for item in answer.items:
            if item.id not in best or item.score > best[item.id].score:
                best[item.id] = item
    scores = fused([_by_document(answer.items) for answer in answers])
    ranked: dict[str, list[RecalledItem]] = {document: [] for document in scores}
    for item in sorted(best.values(), key=lambda one: -one.score):
        ranked[_document_of(item)].append(item)
    rounds = zip_longest(*ranked.values())
    chosen = [
        replace(item, score=round(scores[_document_of(item)], 6)) for one in rounds for item in one if item is not None
    ][:top_k]
    return RecallAnswer(
        items=tuple(chosen),
        total=len(chosen),
        degraded=any(answer.degraded for answer in answers),
        rerank_used=False,
    )


def _by_document(found: Sequence[RecalledItem]) -> list[tuple[str, float]]:
    """Documents by their best chunk, best first."""
    best: dict[str, float] = {}
    for item in found:
        best.setdefault(_document_of(item), item.score)
    return list(best.items())


def _document_of(item: RecalledItem) -> str:
    """What tells the chunks of one document: all but the last two parts of their reference, revision and place."""
    return item.source_ref.rsplit(":", 2)[0] if item.source_ref.startswith("document:") else item.source_ref


async def _cited(resources: Resources, identity: Identity, answer: RecallAnswer) -> RecallAnswer:
    async with resources.database.transaction(identity) as tx:
        cited = await storage.citations(tx, [item.id for item in answer.items])
    return replace(answer, items=tuple(replace(item, citation=cited.get(item.id)) for item in answer.items))
