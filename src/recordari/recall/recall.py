"""Recalling: arms find candidates, one ranker orders them, and the answer says why."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np

from recordari.core import text
from recordari.core.identity import AskedScope, Identity, Scope, SessionId, checked_choice
from recordari.core.items import Item, Kind, Trust
from recordari.db import outbox
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC
from recordari.memory.rules import Collection, asked_by, embedded_text, entities_in
from recordari.memory.tenant_view import TenantView, TenantViews
from recordari.models.base import fail_open
from recordari.recall import storage
from recordari.recall.accesses import AccessCounts
from recordari.recall.process_cache import MOST_ITEMS, SnapshotCache
from recordari.recall.request import Arm, RecallAnswer, RecalledItem, RecallRequest, check_request
from recordari.recall.rules.arms import look
from recordari.recall.rules.candidates import Columns, SearchHits
from recordari.recall.rules.ranking import UNRELATED_SIMILARITY, Folded, Question, Ranked, folded, ranked
from recordari.recall.rules.steps import is_bridging
from recordari.recall.rules.temporal.times import Interval, question_interval
from recordari.recall.rules.tracing import (
    counts_of,
    found_of,
    looked_arms,
    looked_counts,
    told_arms,
    with_ranks,
    written_interval,
)
from recordari.recall.search import (
    depths_of,
    exact_below,
    filters_of,
    rare_terms,
    scope_weights,
    scopes_left_out,
    scopes_of,
    tokens_of,
    weights_of,
)
from recordari.recall.storage import LexicalHits, Search, Visibility
from recordari.tenants.tenants import TenantCache

RERANKED = 20  # R4
RERANK_SHARE = 0.4
SPARE = 10  # ranked beyond what is asked for, to fill the places of merged duplicates
TRACED = 60  # items shown in a trace
MOST_RANKED = 300  # where most of what is ranked says the same

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """The best candidates, and what came with them."""

    best: Sequence[Ranked]
    texts: Mapping[UUID, Item]
    waiting: bool
    """Whether anything is not embedded yet."""
    pending: int
    counts: Mapping[str, int]
    """How many candidates each arm brought."""
    found_by: Mapping[UUID, tuple[str, ...]]
    """The arms that found each of the best."""
    place: str
    """Where they were looked for."""


async def recall(
    resources: Resources,
    identity: Identity,
    query: str,
    *,
    top_k: int = 5,
    source_kinds: Sequence[Kind | str] | None = None,
    scope: Scope | AskedScope | str = AskedScope.ANY,
    enable_rerank: bool = True,
    since: datetime | None = None,
    until: datetime | None = None,
    as_of: datetime | None = None,
    include_superseded: bool = False,
    explain: bool = False,
    arms: frozenset[Arm] = frozenset(Arm),
) -> RecallAnswer:
    """Find what answers the question among what the identity may see."""
    if source_kinds is not None and not source_kinds:
        raise InvalidInput("source_kinds must name a kind; leave it out for all kinds", field="source_kinds")
    request = RecallRequest(
        query=query,
        top_k=top_k,
        source_kinds=None
        if source_kinds is None
        else tuple(checked_choice("source_kinds", Kind, kind) for kind in source_kinds),
        scope=checked_choice("scope", AskedScope, scope).scope,
        enable_rerank=enable_rerank,
        since=since,
        until=until,
        as_of=as_of,
        include_superseded=include_superseded,
        explain=explain,
        arms=arms,
    )
    return await find(resources, identity, request)


async def find(resources: Resources, identity: Identity, request: RecallRequest) -> RecallAnswer:
    """The same for a request that other rooms make."""
    with resources.telemetry.measured("recall"):
        return await _Recall(resources, identity, request).answer()


class _Recall:
    """One recall on its way: prepared, searched, ranked, reranked."""

    def __init__(self, resources: Resources, identity: Identity, request: RecallRequest) -> None:
        self.resources = resources
        self.identity = identity
        self.request = request
        self.weights = scope_weights(resources, request)
        self.scopes = scopes_of(identity, request, self.weights)
        self.rerank = "none is set up"
        self.timings: dict[str, float] = {}
        self.started = time.perf_counter()
        check_request(identity, request)

    async def answer(self) -> RecallAnswer:
        terms = text.terms(self.request.query, "english")
        view = await self.resources.get(TenantViews).get(self.resources.database, self.identity)
        if view.language != "english":
            terms = text.terms(self.request.query, view.language)
        # The model takes longest: what needs no vector is read and found meanwhile.
        embedding = asyncio.create_task(self._embedded(view))
        try:
            view, line, interval = await asyncio.gather(
                self.resources.get(TenantViews).with_terms(self.resources.database, self.identity, terms),
                self._line(),
                self._interval(),
            )
            searched = self._search(terms, view, line, interval)
            early = await self._early(searched, view)
            vector, model_id, embedded = await embedding
        finally:
            embedding.cancel()
        self._mark("prepare")
        question = self._question(terms, model_id, interval, view.language)
        # Without a vector there is nothing to compare: naming the model would compare vectors of different lengths.
        compared = model_id if model_id is not None and vector is not None else ""
        searched = replace(searched, vector=vector, model_id=compared)
        answered, merged = await self._found(question, searched, early, view)
        ordered, rerank_used = await self._reranked(merged.kept, answered.texts)
        self._mark("total")
        chosen = tuple(_recalled(one, answered, merged) for one in ordered[: self.request.top_k])
        # A fact that is shown as its turn was recalled too, and does not fade.
        recalled = [item_id for one in chosen for item_id in (one.id, *one.same_as)]
        if self.request.counts_as_use:
            self.resources.get(AccessCounts).note(self.identity.tenant_id, recalled, now=self.resources.clock())
        return RecallAnswer(
            items=chosen,
            total=len(chosen),
            degraded=answered.waiting or not embedded,
            rerank_used=rerank_used,
            trace=self._trace(ordered, answered, question, searched, merged) if self.request.explain else None,
        )

    async def _found(
        self, question: Question, searched: Search, early: LexicalHits | None, view: TenantView
    ) -> tuple[_Answered, Folded]:
        """The best candidates, each thing once; once more and further down where most of them say the same."""
        collection = view.collection(question.terms)
        for limit in (self._enough(searched), MOST_RANKED):
            at_hand = await self._on_shelf(question, searched, collection, limit)
            answered = at_hand or await self._in_database(question, searched, early, collection, limit)
            self._mark("rank")
            merged = folded(answered.best, answered.texts, await self._links(answered.texts))
            if len(merged.kept) >= self.request.top_k or len(answered.best) < limit:
                break
        return answered, merged

    def _enough(self, searched: Search) -> int:
        """How many candidates are ranked, so that enough are left once each thing is shown once."""
        if self.request.explain or searched.facts_apart:
            return TRACED  # many facts may be merged with their messages, traced or not
        return (self.request.top_k if self.resources.reranker is None else max(RERANKED, self.request.top_k)) + SPARE

    async def _interval(self) -> Interval | None:
        """The time that the question names; days begin where the user lives."""
        query, now = self.request.query, self.request.as_of or self.resources.clock()
        interval = question_interval(query, now=now, zone=UTC)
        if interval is None or self.identity.user_id is None:
            return interval
        zone = (await self.resources.get(TenantCache).get(self.resources.database, self.identity)).zone
        return question_interval(query, now=now, zone=zone)

    async def _line(self) -> Sequence[SessionId]:
        """The sessions whose memory is asked."""
        if Scope.SESSION not in self.scopes:
            return ()
        return await memory_storage.read_line(self.resources.database, self.identity)

    async def _early(self, searched: Search, view: TenantView) -> LexicalHits | None:
        """What is found without the question's vector; None where the memory may be laid out in the process."""
        self._mark("terms")
        is_large = view.items > MOST_ITEMS
        if not is_large or self.resources.get(SnapshotCache).expects(self._sight(searched), model_id=searched.model_id):
            return None
        early = await storage.find_early(self.resources.database, self.identity, searched)
        self._mark("early")
        return early

    def _sight(self, searched: Search) -> Visibility:
        return Visibility(
            identity=self.identity.viewpoint,
            kinds=tuple(searched.kinds),
            scopes=self.scopes,
            sessions=tuple(searched.sessions),
        )

    async def _on_shelf(
        self, question: Question, searched: Search, collection: Collection, limit: int
    ) -> _Answered | None:
        """The best of a memory that is laid out in the process; None when it is not."""
        request = self.request
        narrowed = (request.since, request.until, request.as_of, request.source_id, request.include_superseded or None)
        if searched.vector is None or any(one is not None for one in narrowed):
            return None
        looked_up = await self.resources.get(SnapshotCache).look(
            self.resources.database,
            self._sight(searched),
            model_id=searched.model_id,
            dimensions=len(searched.vector),
            topic=EMBED_TOPIC,
        )
        if looked_up is None:
            return None
        self._mark("candidates")
        shelf, waiting = looked_up
        looked = look(
            shelf.columns,
            shelf.similarity(searched.vector),
            shelf.mentions,
            terms=searched.terms,
            interval=searched.interval,
            entity_keys=searched.entity_keys,
            follows_links=searched.follows_links,
            depths=searched.depths,
            facts_apart=searched.facts_apart,
            ordered=request.explain,
        )
        best = self._ranked(question, shelf.columns, looked.found, collection, limit)
        pending = 0
        if request.explain:
            best = with_ranks(best, looked)
            pending = await self._pending() if waiting else 0
        texts = {one.candidate.item_id: shelf.items[one.place].item for one in best}
        counts = looked_counts(looked) if request.explain else {}
        return _Answered(
            best=best,
            texts=texts,
            waiting=waiting,
            pending=pending,
            counts=counts,
            found_by=looked_arms(best, looked),
            place="process",
        )

    async def _in_database(
        self, question: Question, searched: Search, early: LexicalHits | None, collection: Collection, limit: int
    ) -> _Answered:
        """The best of what the indexes of the database find."""
        if early is None:
            early = await storage.find_early(self.resources.database, self.identity, searched)
        async with self.resources.database.transaction(self.identity) as tx:
            candidates = await storage.find_candidates(tx, searched, early)
        self._mark("candidates")
        columns = Columns(rows=candidates)
        found = found_of(candidates, frozenset(early.linked))
        best = self._ranked(question, columns, found, collection, limit)
        texts = memory_storage.ask_items([one.candidate.item_id for one in best])
        waiting = outbox.ask_waiting(EMBED_TOPIC)
        await self.resources.database.read_batch(self.identity, [texts, waiting])
        return _Answered(
            best=best,
            texts=texts.answer,
            waiting=waiting.answer,
            pending=await self._pending() if waiting.answer and self.request.explain else 0,
            counts=counts_of(candidates) if self.request.explain else {},
            found_by=told_arms(best),
            place="database",
        )

    async def _pending(self) -> int:
        """How much is still to be embedded."""
        async with self.resources.database.transaction(self.identity) as tx:
            return await outbox.pending(tx, EMBED_TOPIC)

    async def _links(self, texts: Mapping[UUID, Item]) -> list[tuple[UUID, UUID]]:
        """Which of the facts found were taken from which of the turns found."""
        facts = sum(item.kind == Kind.FACT for item in texts.values())
        if not 0 < facts < len(texts):
            return []
        return await storage.links_among(self.resources.database, self.identity, list(texts))

    def _ranked(
        self, question: Question, columns: Columns, found: SearchHits, collection: Collection, limit: int
    ) -> list[Ranked]:
        return ranked(
            question,
            columns,
            found,
            collection,
            weights=weights_of(self.request.arms),
            scope_weights=self.weights,
            limit=limit,
            explained=self.request.explain,
        )

    def _mark(self, step: str) -> None:
        self.timings[step] = round((time.perf_counter() - self.started) * 1000, 3)

    async def _embedded(self, view: TenantView) -> tuple[np.ndarray | None, str | None, bool]:
        """The question's vector in the tenant's model; without one, recall goes on by keywords."""
        embedder = self.resources.embedders.of(view.model_id)
        if Arm.VECTOR not in self.request.arms:
            return None, None, True
        if embedder is None:
            return None, None, self.resources.settings.embedding_provider == "none"
        asked = embedded_text(self.request.query, speaker=None, event_time=None)
        vector, ran = await fail_open(
            "embed_query",
            lambda: embedder.embed_query(asked),
            fallback=None,
            seconds=self.resources.embedders.query_timeout,
        )
        return (vector if ran else None), embedder.model_id, ran

    def _question(
        self, terms: Sequence[str], model_id: str | None, interval: Interval | None, language: str
    ) -> Question:
        query = self.request.query
        words = [word.casefold() for word in _WORD.findall(query)]
        tokens = self.resources.static_tokens
        return Question(
            terms=terms,
            words=frozenset(words),
            asked=asked_by(query),
            interval=interval,
            tokens=tokens_of(tokens, words, language=language) if tokens is not None else None,
            calibration=UNRELATED_SIMILARITY.get((model_id or "").partition("@")[0]),
        )

    def _search(
        self, terms: Sequence[str], view: TenantView, line: Sequence[SessionId], interval: Interval | None
    ) -> Search:
        """What to look for, while the question's vector is not there yet."""
        request = self.request
        embedder = self.resources.embedders.of(view.model_id)
        return Search(
            terms=rare_terms(terms, view),
            vector=None,
            model_id=embedder.model_id if embedder is not None and Arm.VECTOR in request.arms else "",
            entity_keys=[entity.key for entity in entities_in(request.query)],
            follows_links=is_bridging(request.query),
            interval=interval,
            kinds=[str(kind) for kind in request.source_kinds or Kind],
            scopes=self.scopes,
            sessions=line,
            since=request.since,
            until=request.until,
            as_of=request.as_of,
            include_superseded=request.include_superseded,
            source_id=request.source_id,
            exact_below=exact_below(view.items, indexed_from=self.resources.settings.vector_index_from),
            facts_apart=self._has_repetitions(view),
            depths=depths_of(request.arms),
        )

    def _has_repetitions(self, view: TenantView) -> bool:
        """Whether facts are asked for beside the messages that they were taken from."""
        kinds = set(self.request.source_kinds or Kind)
        return view.distinct_items < view.items and Kind.FACT in kinds and len(kinds) > 1

    async def _reranked(self, best: list[Ranked], found: Mapping[UUID, Item]) -> tuple[list[Ranked], bool]:
        """The best candidates in the order of a cross-encoder blended with ours; as they were when it fails."""
        reranker = self.resources.reranker
        if reranker is None or not self.request.enable_rerank or not best:
            if reranker is not None:
                self.rerank = "nothing was found" if self.request.enable_rerank else "not asked for"
            return best, False
        head = best[:RERANKED]
        none: list[float] = []
        scores, ran = await fail_open(
            "rerank",
            lambda: reranker.rerank(self.request.query, [found[one.candidate.item_id].content for one in head]),
            fallback=none,
            seconds=self.resources.settings.rerank_timeout,
        )
        self.rerank = "used" if ran else "failed or took too long; the order stays as it was"
        if not ran:
            return best, False
        # As far as the scores lie apart, from 0 on: where nothing fits well, the cross-encoder says what fits best.
        own = [0.0, *(one.score for one in head)]
        span = (max(own) - min(own)) or 1.0
        blended = sorted(
            (
                replace(
                    one,
                    score=(1 - RERANK_SHARE) * one.score + RERANK_SHARE * span * score,
                    parts={**one.parts, "rerank": round(score, 4)},
                )
                for one, score in zip(head, scores, strict=True)
            ),
            key=lambda one: -one.score,
        )
        return [*blended, *best[RERANKED:]], True

    def _trace(
        self,
        ordered: Sequence[Ranked],
        answered: _Answered,
        question: Question,
        searched: Search,
        merged: Folded,
    ) -> dict[str, Any]:
        """Why the answer is what it is: arms, ranks, scores, and what was left out."""
        top_k = self.request.top_k
        return {
            "terms": {term: round(weight, 3) for term, weight in searched.terms.items()},
            "terms_too_common": sorted(set(question.terms) - searched.terms.keys()),
            "entities": list(searched.entity_keys),
            "interval": written_interval(question.interval),
            "asks_for_now": question.asked.present if question.interval is None else 0.0,
            "scopes": {scope: self.weights[scope] for scope in sorted(self.scopes)},
            "scopes_left_out": scopes_left_out(self.request, self.scopes, self.weights),
            "filters": filters_of(self.request),
            "searched_in": answered.place,
            "model_id": searched.model_id or None,
            "question_embedded": searched.vector is not None,
            "candidates": dict(answered.counts),
            "pending_embeddings": answered.pending,
            "items": [
                {
                    "id": str(one.candidate.item_id),
                    "score": round(one.score, 4),
                    "chosen": place < top_k,
                    "cut": None if place < top_k else "top_k",
                    "ranks": {
                        "text": one.candidate.text_rank,
                        "vector": one.candidate.vector_rank,
                        "time": one.candidate.time_rank,
                        "entity": one.candidate.entity_rank,
                    },
                    "similarity": None if one.candidate.similarity is None else round(one.candidate.similarity, 4),
                    "parts": dict(one.parts),
                }
                for place, one in enumerate(ordered[:TRACED])
            ],
            "duplicates_merged": [str(item_id) for item_id in merged.duplicates],
            "facts_folded": [str(item_id) for item_id in merged.facts],
            "rerank": self.rerank,
            "milliseconds": self.timings,
        }


def _recalled(one: Ranked, answered: _Answered, merged: Folded) -> RecalledItem:
    item = answered.texts[one.candidate.item_id]
    return RecalledItem(
        id=item.item_id,
        source_kind=Kind(item.kind),
        source_ref=item.source_ref,
        content=item.content,
        event_time=item.event_time,
        score=round(one.score, 4),  # further places are noise of the linear algebra library
        scope=Scope(item.scope),
        speaker=item.speaker,
        trust=Trust(item.trust),
        session_id=item.session_id,
        payload_key=item.payload_key,
        valid_at=item.valid_at,
        invalid_at=item.invalid_at,
        metadata=item.metadata,
        shared_from=item.shared_from,
        same_as=tuple(merged.same_as.get(item.item_id, ())),
        found_by=answered.found_by[item.item_id],
    )
