"""Recall: arms find candidates, one ranker orders them, and the trace says why."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import cache, partial
from typing import Any
from uuid import UUID

from recordari.core.identity import AskedScope, Identity, Scope, SessionId, checked_choice, checked_id
from recordari.core.items import Kind
from recordari.db import outbox
from recordari.errors import InvalidInput
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC, INDEX_TOPICS
from recordari.memory.rules import Collection
from recordari.memory.tenant_view import TenantView, TenantViews
from recordari.recall import storage
from recordari.recall.accesses import RecallTimes, note_use
from recordari.recall.process_cache import Snapshot, SnapshotCache
from recordari.recall.request import AGENT_TOP_K, Arm, RecallAnswer, RecallRequest, check_request
from recordari.recall.results import (
    TRACED,
    Reranking,
    SearchResult,
    most_read,
    read_passages,
    recalled_item,
    reranked,
    traced_items,
    with_passages,
)
from recordari.recall.rules.arms import find_rows
from recordari.recall.rules.candidates import Columns
from recordari.recall.rules.confidence import Signs, confidence_of, hint_for, signs_of
from recordari.recall.rules.folding import Folded, SaidItem, folded, newer_first
from recordari.recall.rules.numbering import SearchHits, arm_counts, search_hits
from recordari.recall.rules.ranking import CALIBRATIONS, Question, Ranked, ranked, with_own_ranks, with_ranks
from recordari.recall.rules.sources import HISTORY_KINDS, Archive, RecallSettings, left_out, searched
from recordari.recall.rules.temporal.times import Interval, question_interval, written_interval
from recordari.recall.search import (
    Crowds,
    MemoryTerms,
    ReadQuestion,
    depths_of,
    exact_below,
    filters_of,
    goes_by_owner,
    rare_terms,
    read_question,
    scope_weights,
    start_embedding,
    weights_of,
)
from recordari.recall.storage import EarlyHits, Search, Visibility
from recordari.tenants.tenants import TenantCache

SPARE = 10  # ranked beyond top_k, to replace merged duplicates
MOST_RANKED = 300  # if most of the ranked items say the same
_ALL_KINDS = tuple(map(str, Kind))


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
    known_at: datetime | None = None,
    project: str | None = None,
    include_superseded: bool = False,
    min_confidence: float = 0.0,
    explain: bool = False,
    arms: frozenset[Arm] = frozenset(Arm),
) -> RecallAnswer:
    """Find the items that answer the question, among those that the identity may see.

    `as_of` asks what was true then, `known_at` what was recorded by then; items of `project` are preferred. Below
    `min_confidence` the answer has no items. An archived item that is found is soon live again.
    """
    if source_kinds is not None and not source_kinds:
        raise InvalidInput("source_kinds must name a kind; leave it out for all kinds", field="source_kinds")
    kinds = tuple(checked_choice("source_kinds", Kind, kind) for kind in source_kinds or ())
    request = RecallRequest(
        query=query,
        top_k=top_k,
        source_kinds=kinds or None,
        scope=checked_choice("scope", AskedScope, scope),
        enable_rerank=enable_rerank,
        since=since,
        until=until,
        as_of=as_of,
        known_at=known_at,
        project=checked_id("project", project) if project is not None else None,
        include_superseded=include_superseded,
        min_confidence=min_confidence,
        explain=explain,
        arms=arms,
    )
    return await find(resources, identity, request)


async def find(
    resources: Resources, identity: Identity, request: RecallRequest, *, line: Sequence[SessionId] | None = None
) -> RecallAnswer:
    """Answer a request; other rooms call this, with the sessions of the caller's line if they have read them."""
    started = time.perf_counter()
    with resources.telemetry.measured("recall") as measurement:
        answer = await _Recall(resources, identity, request, line).answer()
        measurement.note(records=len(answer.items), degraded=answer.degraded)
    resources.get(RecallTimes).note(identity.tenant_id, time.perf_counter() - started, now=resources.clock())
    return answer


class _Recall:
    def __init__(
        self, resources: Resources, identity: Identity, request: RecallRequest, line: Sequence[SessionId] | None
    ) -> None:
        self.resources = resources
        self.line = line
        self.identity = identity
        self.request = request
        self.tenant = RecallSettings()
        self.weights: Mapping[AskedScope, float] = {}
        self.scopes: frozenset[AskedScope] = frozenset()
        self.rerank = Reranking.ABSENT
        self.timings: dict[str, float] = {}
        self.started = time.perf_counter()
        check_request(identity, request)

    async def answer(self) -> RecallAnswer:
        view = await self.resources.get(TenantViews).get(self.resources.database, self.identity)
        self._choose_places(view)
        is_instant = self.resources.embedders.instant(view.model_id) is not None
        # A model may take longest: meanwhile everything happens that needs no vector.
        embedding = None if is_instant else start_embedding(self.resources, self.request, view)
        read = partial(read_question, self.resources, self.identity, self.request, view, embedding, now=self._now)
        asked = cache(read)  # while the database works
        try:
            line = await self._line()
            cached = await self._read_snapshot(view, line, asked)
            interval = await self._interval(asked().interval)
            collection = await self._collection(view, asked().terms, cached, line)
            search = self._search(asked(), view, collection, line, interval)
            embedding = asked().embedding
            if embedding.done():
                search = search.with_vector(*embedding.result()[:2])
            early = await self._early(search) if cached is None else None
            vector, model_id, embedded = embedding.result() if embedding.done() else await embedding
        finally:
            if embedding is not None:
                embedding.cancel()
        self._mark("prepare")
        question = self._question(asked(), model_id, interval)
        search = search.with_vector(vector, model_id)
        result, merged = await self._find_best(question, search, early, view, collection, cached)
        shown = merged.kept[: most_read(self.resources, self.request)]
        passages = await read_passages(self.resources, self.identity, shown)
        ordered, self.rerank = await reranked(
            self.resources, self.request, merged.kept, result, passages, terms=search.terms, language=view.language
        )
        rerank_used = self.rerank is Reranking.USED
        if rerank_used:
            self._mark("rerank")
        found_by = result.found_by[ordered[0].candidate.item_id] if ordered else ()
        signs = signs_of(question, ordered, found_by=found_by)
        confidence = confidence_of(signs)
        self._mark("total")
        most = self.request.top_k if confidence >= self.request.min_confidence else 0
        chosen = tuple(
            recalled_item(item, result, merged, passages.get(item.candidate.item_id)) for item in ordered[:most]
        )
        if self.request.counts_as_use:
            note_use(self.resources, self.identity, chosen)
        degraded = result.waiting or not embedded
        return RecallAnswer(
            items=chosen,
            total=len(chosen),
            degraded=degraded,
            rerank_used=rerank_used,
            confidence=round(confidence, 3),
            hint=hint_for(confidence, len(chosen), degraded=degraded),
            trace=self._trace(ordered, result, question, search, merged, signs) if self.request.explain else None,
        )

    def _choose_places(self, view: TenantView) -> None:
        request, self.tenant = self.request, RecallSettings.of(view.settings)
        self.weights = scope_weights(self.resources, request, self.tenant)
        self.scopes = searched(self.identity, request.scope, self.weights) - {request.leaves_out}
        if request.scope is AskedScope.ANY and not set(request.source_kinds or Kind) & set(HISTORY_KINDS):
            self.scopes -= {AskedScope.HISTORY}

    async def _find_best(
        self,
        question: Question,
        search: Search,
        early: EarlyHits | None,
        view: TenantView,
        collection: Collection,
        cached: tuple[Snapshot, bool] | None,
    ) -> tuple[SearchResult, Folded]:
        """The best candidates without repetitions; ranks more of them if most say the same."""
        for limit in (self._enough(search), MOST_RANKED):
            if cached is not None and search.vector is not None:
                result = await self._in_snapshot(question, search, collection, limit, *cached)
            else:
                result = await self._in_database(question, search, early, collection, limit)
            if view.has_passages:
                rank = partial(self._ranked, question, search, collection, repeat=0.0)
                result = await with_passages(self.resources, self.identity, search, result, rank, limit=limit)
            if question.asks_for_now and view.distinct_items < view.items:
                ids = [item.candidate.item_id for item in result.best]
                outdated = await storage.outdated_among(self.resources.database, self.identity, ids)
                result = replace(result, best=newer_first(result.best, outdated))
            self._mark("rank")
            links = result.links if result.links is not None else await self._links(result.items)
            merged = folded(result.best, result.items, links, project=self.request.project)
            if len(merged.kept) >= self.request.top_k or len(result.best) < limit:
                break
        return result, merged

    def _enough(self, search: Search) -> int:
        """How many candidates to rank, so that enough are left after merging."""
        if self.request.explain or search.separate_facts or self.request.project is not None:
            return TRACED  # many facts may be merged with their messages, traced or not
        return most_read(self.resources, self.request) + SPARE

    @property
    def _now(self) -> datetime:
        """The moment that the words of the question are counted from."""
        return self.request.as_of or self.request.known_at or self.resources.clock()

    async def _interval(self, of_utc: Interval | None) -> Interval | None:
        """The time that the question names, in the zone of the user."""
        if of_utc is None or self.identity.user_id is None:
            return of_utc
        zone = (await self.resources.get(TenantCache).get(self.resources.database, self.identity)).zone
        return question_interval(self.request.query, now=self._now, zone=zone)

    async def _line(self) -> Sequence[SessionId]:
        """The sessions of the caller's line: to search, and to leave out of history."""
        if not {AskedScope.SESSION, AskedScope.HISTORY} & self.scopes:
            return ()
        return (
            self.line
            if self.line is not None
            else await memory_storage.read_line(self.resources.database, self.identity)
        )

    async def _collection(
        self, view: TenantView, terms: Sequence[str], cached: tuple[Snapshot, bool] | None, line: Sequence[SessionId]
    ) -> Collection:
        """How common the terms are: in the memory itself, or of a very large one in the tenant."""
        if cached is not None:
            return cached[0].collection(terms)
        own = await self.resources.get(MemoryTerms).collection(self.resources.database, self._visibility(line), terms)
        if own is not None:
            return own
        if not all(term in view.frequencies for term in terms):
            view = await self.resources.get(TenantViews).with_terms(self.resources.database, self.identity, terms)
        return view.collection(terms)

    async def _early(self, search: Search) -> EarlyHits:
        """Hits that need no vector, or a vector that is at hand."""
        self._mark("terms")
        crowds = self.resources.get(Crowds)
        search = replace(search, crowded=crowds.known(self.identity, search))
        early = await storage.find_early(self.resources.database, self.identity, search)
        crowds.learn(self.identity, search, early.crowded)
        self._mark("early")
        return early

    async def _read_snapshot(
        self, view: TenantView, line: Sequence[SessionId], meanwhile: Callable[[], object]
    ) -> tuple[Snapshot, bool] | None:
        """The memory with a snapshot in the process, and whether it has work left; None if there is none."""
        request, embedder = self.request, self.resources.embedders.of(view.model_id)
        is_whole = not request.is_past and request.source_id is None and not request.include_superseded
        if embedder is None or Arm.VECTOR not in request.arms or not is_whole:
            return None
        cached = await self.resources.get(SnapshotCache).read(
            self.resources.database,
            self._visibility(line),
            model_id=embedder.model_id,
            topics=INDEX_TOPICS,
            meanwhile=meanwhile,
        )
        self._mark("candidates")
        return cached

    def _visibility(self, line: Sequence[SessionId]) -> Visibility:
        viewpoint, archived = self.identity.viewpoint, self._shows_archived
        return Visibility(identity=viewpoint, kinds=self.kinds, scopes=self.scopes, line=tuple(line), archived=archived)

    @property
    def kinds(self) -> tuple[str, ...]:
        return _ALL_KINDS if self.request.source_kinds is None else tuple(map(str, self.request.source_kinds))

    @property
    def _shows_archived(self) -> bool:
        return self.request.archived and self.tenant.archive is Archive.SHOWN

    async def _in_snapshot(
        self,
        question: Question,
        search: Search,
        collection: Collection,
        limit: int,
        snapshot: Snapshot,
        waiting: bool,
    ) -> SearchResult:
        """The best of a memory with a snapshot in the process."""
        assert search.vector is not None
        request = self.request
        hits = find_rows(
            snapshot.columns,
            snapshot.similarity(search.vector),
            terms=search.terms,
            interval=search.interval,
            bounds=Interval(start=request.since, end=request.until) if request.since or request.until else None,
            entity_keys=search.entity_keys,
            follows_links=search.follows_links,
            depths=search.depths,
            separate_facts=search.separate_facts,
            ordered=request.explain,
        )
        best = self._ranked(question, search, collection, snapshot.columns, hits.results, limit)
        if request.explain:
            best = with_ranks(best, hits)
        rows = [item.row for item in best]
        items = {row.item_id: row for row in map(snapshot.items.__getitem__, rows)}
        return SearchResult(
            best=best,
            items=items,
            links=snapshot.links_among(rows),
            waiting=waiting,
            pending=await self._pending() if waiting and request.explain else 0,
            counts=hits.counts() if request.explain else {},
            found_by=dict(zip(items, hits.found_by(rows), strict=True)),
            searched_in="process",
        )

    async def _in_database(
        self, question: Question, search: Search, early: EarlyHits | None, collection: Collection, limit: int
    ) -> SearchResult:
        """The best that the indexes of the database find."""
        if early is None:
            early = await self._early(search)
        candidates = await storage.find_candidates(self.resources.database, self.identity, search, early)
        self._mark("candidates")
        hits = search_hits(candidates, frozenset(early.linked))
        best = self._ranked(question, search, collection, Columns(rows=candidates), hits, limit)
        if self.request.explain:
            best = with_own_ranks(best, candidates)
        items = memory_storage.ask_items([item.candidate.item_id for item in best])
        waiting = outbox.ask_waiting(INDEX_TOPICS)
        await self.resources.database.read_batch(self.identity, [items, waiting])
        return SearchResult(
            best=best,
            items=items.answer,
            waiting=waiting.answer,
            pending=await self._pending() if waiting.answer and self.request.explain else 0,
            counts=arm_counts(candidates) if self.request.explain else {},
            found_by={item.candidate.item_id: candidates[item.row].found_by for item in best},
            searched_in="database",
        )

    async def _pending(self) -> int:
        async with self.resources.database.transaction(self.identity) as tx:
            return await outbox.pending(tx, EMBED_TOPIC)

    async def _links(self, items: Mapping[UUID, SaidItem]) -> list[tuple[UUID, UUID]]:
        """Pairs of a fact and the turn that it was taken from, among these items."""
        facts = sum(item.kind == Kind.FACT for item in items.values())
        if not 0 < facts < len(items):
            return []
        return await storage.links_among(self.resources.database, self.identity, list(items))

    def _ranked(
        self,
        question: Question,
        search: Search,
        collection: Collection,
        columns: Columns,
        hits: SearchHits,
        limit: int,
        *,
        repeat: float | None = None,
    ) -> list[Ranked]:
        documents = self.request.source_kinds == (Kind.DOCUMENT_CHUNK,)
        weights = weights_of(self.request.arms, documents=documents, is_part=self.request.is_part)
        return ranked(
            question,
            columns,
            hits,
            collection,
            weights=weights if repeat is None else replace(weights, repeat=repeat),
            scope_weights=self.weights,
            line=search.line,
            limit=limit,
            explained=self.request.explain,
        )

    def _mark(self, step: str) -> None:
        self.timings[step] = round((time.perf_counter() - self.started) * 1000, 3)

    def _question(self, asked: ReadQuestion, model_id: str | None, interval: Interval | None) -> Question:
        static, by_tokens = self.resources.static_tokens, False
        if self.request.is_part and Arm.VECTOR in self.request.arms and static is not None and asked.tokens is not None:
            # Sentences of a long question find more by static vectors (docs/knowledge.md).
            by_tokens, model_id = model_id != static.model_id, static.model_id
        return Question(
            terms=asked.terms,
            words=asked.words,
            wording=asked.wording,
            interval=interval,
            tokens=asked.tokens,
            calibration=CALIBRATIONS.get((model_id or "").partition("@")[0]),
            by_tokens=by_tokens,
            asker=asked.asker,
        )

    def _search(
        self,
        asked: ReadQuestion,
        view: TenantView,
        collection: Collection,
        line: Sequence[SessionId],
        interval: Interval | None,
    ) -> Search:
        """The search, still without the question's vector."""
        request = self.request
        embedder = self.resources.embedders.of(view.model_id)
        return Search(
            terms=rare_terms(asked.terms, collection),
            vector=None,
            model_id=embedder.model_id if embedder is not None and Arm.VECTOR in request.arms else "",
            entity_keys=asked.entity_keys,
            follows_links=asked.follows_links,
            interval=interval,
            kinds=self.kinds,
            scopes=self.scopes,
            line=line,
            since=request.since,
            until=request.until,
            as_of=request.as_of,
            known_at=request.known_at,
            archived=self._shows_archived,
            include_superseded=request.include_superseded,
            source_id=request.source_id,
            exact_below=exact_below(view.items, indexed_from=self.resources.settings.vector_index_from),
            by_owner=goes_by_owner(collection),
            separate_facts=self._has_repetitions(view),
            depths=depths_of(request.arms, many=request.top_k > AGENT_TOP_K),
        )

    def _has_repetitions(self, view: TenantView) -> bool:
        """Whether facts may be found together with the messages that they were taken from."""
        kinds = set(self.request.source_kinds or Kind)
        return view.distinct_items < view.items and Kind.FACT in kinds and len(kinds) > 1

    def _trace(
        self,
        ordered: Sequence[Ranked],
        result: SearchResult,
        question: Question,
        search: Search,
        merged: Folded,
        signs: Signs | None,
    ) -> dict[str, Any]:
        told: dict[str, float | None] = asdict(signs) if signs is not None else {}
        return {
            "terms": {term: round(weight, 3) for term, weight in search.terms.items()},
            "terms_too_common": sorted(set(question.terms) - search.terms.keys()),
            "entities": list(search.entity_keys),
            "interval": written_interval(question.interval),
            "asks_for_now": question.asks_for_now,
            "scopes": {scope: self.weights[scope] for scope in sorted(self.scopes)},
            "scopes_left_out": left_out(self.identity, self.request.scope, self.scopes, self.weights),
            "filters": filters_of(self.request),
            "searched_in": result.searched_in,
            "model_id": search.model_id or None,
            "question_embedded": search.vector is not None,
            "candidates": dict(result.counts),
            "pending_embeddings": result.pending,
            **traced_items(ordered, merged, top_k=self.request.top_k),
            "confidence": {name: round(value, 3) for name, value in told.items() if value is not None},
            "rerank": str(self.rerank),
            "milliseconds": self.timings,
        }
