"""The result of a search before it becomes an answer: with its passages, its items and what explains it.

Long texts are also searched passage by passage; a text has one place in the answer, by its best passage.

`RecallCache` keeps the answers that a context may ask for again, until the memory they were found in changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.cache import BoundedMap
from recordari.core.identity import Identity, SessionId, TenantId
from recordari.core.items import Item
from recordari.db.database import BatchedQuery
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.models.base import fail_open
from recordari.recall import storage
from recordari.recall.request import SHOWN_COLUMNS, Passage, RecallAnswer, RecalledItem, RecallRequest
from recordari.recall.rules.candidates import Columns
from recordari.recall.rules.folding import Folded, by_best_passage
from recordari.recall.rules.numbering import SearchHits, search_hits
from recordari.recall.rules.ranking import Ranked
from recordari.recall.rules.reranking import blended, passage
from recordari.recall.snapshot_storage import SnapshotRow
from recordari.recall.storage import Search

TRACED = 60  # items shown in a trace
ANSWER_SECONDS = 300.0  # C4
DEGRADED_SECONDS = 5.0
MOST_ANSWERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The best candidates with their items."""

    best: Sequence[Ranked]
    items: Mapping[UUID, Item | SnapshotRow]
    waiting: bool
    """Whether any item of the tenant is not embedded yet."""
    pending: int
    counts: Mapping[str, int]
    """How many candidates each arm found."""
    found_by: Mapping[UUID, tuple[str, ...]]
    """The arms that found each of the best."""
    searched_in: str
    links: Sequence[tuple[UUID, UUID]] | None = None
    """Pairs of a fact and the turn that it was taken from, where they were read with the items."""


Rank = Callable[[Columns, SearchHits, int], list[Ranked]]


async def with_passages(
    resources: Resources, identity: Identity, search: Search, result: SearchResult, rank: Rank, *, limit: int
) -> SearchResult:
    """The result with each long text at the score of its best passage; `rank` scores them as the result was scored."""
    async with resources.database.transaction(identity) as tx:
        found = await storage.find_passages(tx, search)
    if not found:
        return result
    candidates = [passage.candidate for passage in found]
    ranked = rank(Columns(rows=candidates), search_hits(candidates), len(candidates))
    of_passages = [replace(item, passage=found[item.row].ordinal) for item in ranked]
    best = by_best_passage(result.best, of_passages)[:limit]
    missing = [item.candidate.item_id for item in best if item.candidate.item_id not in result.items]
    items = dict(result.items)
    if missing:
        asked = memory_storage.ask_items(missing)
        await resources.database.read_batch(identity, [asked])
        items |= asked.answer
    found_by = dict(result.found_by)
    of_passages_by = {(one.candidate.item_id, one.ordinal): one.candidate.found_by for one in found}
    for item in best:
        if item.passage is not None:
            arms = (*found_by.get(item.candidate.item_id, ()), *of_passages_by[item.candidate.item_id, item.passage])
            found_by[item.candidate.item_id] = tuple(dict.fromkeys(arms))
    return replace(result, best=best, items=items, found_by=found_by, links=result.links if not missing else None)


async def read_passages(resources: Resources, identity: Identity, best: Sequence[Ranked]) -> dict[UUID, Passage]:
    """The texts of the passages by which these items were found."""
    places = {item.candidate.item_id: item.passage for item in best if item.passage is not None}
    return await storage.passage_texts(resources.database, identity, places) if places else {}


def recalled_item(ranked: Ranked, result: SearchResult, merged: Folded, passage: Passage | None) -> RecalledItem:
    item_id = ranked.candidate.item_id
    found = result.items[item_id]
    return RecalledItem(
        **(found.shown if isinstance(found, SnapshotRow) else _shown(found)),
        score=round(ranked.score, 4),  # further digits are noise of the linear algebra library
        passage=passage,
        same_as=tuple(merged.same_as.get(item_id, ())),
        found_by=result.found_by[item_id],
    )


def _shown(item: Item) -> dict[str, Any]:
    shown = {field: getattr(item, column) for field, column in SHOWN_COLUMNS.items()}
    return shown | {"archived": item.archived_at is not None}


def traced_items(ordered: Sequence[Ranked], merged: Folded, *, top_k: int) -> dict[str, Any]:
    """The part of a trace about items: ranks, scores and their parts, and what was left out."""
    return {
        "items": [
            {
                "id": str(item.candidate.item_id),
                "score": round(item.score, 4),
                "chosen": rank < top_k,
                "archived": item.candidate.archived_at is not None,
                "cut": None if rank < top_k else "top_k",
                "ranks": item.ranks,
                "similarity": None if item.similarity is None else round(item.similarity, 4),
                "parts": dict(item.parts),
                **({"passage": item.passage} if item.passage is not None else {}),
            }
            for rank, item in enumerate(ordered[:TRACED])
        ],
        "duplicates_merged": [str(item_id) for item_id in merged.duplicates],
        "facts_folded": [str(item_id) for item_id in merged.facts],
    }


class Reranking(StrEnum):
    """What became of the reranking, as a trace says it."""

    ABSENT = "none is set up"
    UNWANTED = "not asked for"
    NOTHING = "nothing was found"
    USED = "used"
    FAILED = "failed or took too long; the order stays as it was"


def most_read(resources: Resources, request: RecallRequest) -> int:
    """How many candidates are shown, or read by a cross-encoder."""
    reranker = resources.reranker
    return request.top_k if reranker is None else max(reranker.most_passages, request.top_k)


async def reranked(
    resources: Resources,
    request: RecallRequest,
    best: list[Ranked],
    result: SearchResult,
    passages: Mapping[UUID, Passage],
    *,
    terms: Mapping[str, float],
    language: str,
) -> tuple[list[Ranked], Reranking]:
    """The best candidates by our score blended with that of a cross-encoder; unchanged if it fails."""
    reranker = resources.reranker
    if reranker is None:
        return best, Reranking.ABSENT
    if not request.enable_rerank or not best:
        return best, Reranking.NOTHING if request.enable_rerank else Reranking.UNWANTED
    most = reranker.most_passages
    head = [result.items[item.candidate.item_id] for item in best[:most]]
    texts = [
        passage(
            passages[item.item_id].content if item.item_id in passages else item.content,
            speaker=item.speaker,
            moment=item.event_time,
            terms=terms,
            language=language,
        )
        for item in head
    ]
    scores, ran = await fail_open(
        "rerank",
        lambda: reranker.rerank(request.query, texts),
        fallback=list[float](),
        seconds=resources.settings.rerank_timeout,
    )
    if not ran:
        return best, Reranking.FAILED
    return [*blended(best[:most], scores), *best[most:]], Reranking.USED


@dataclass(frozen=True, slots=True)
class MemoryState:
    """How often the memory of an identity has changed, and the sessions of its line; to be sent in a batch of reads."""

    version: BatchedQuery[int]
    line: BatchedQuery[list[SessionId]] | None

    @classmethod
    def asked(cls, identity: Identity) -> MemoryState:
        return cls(storage.ask_version(identity), memory_storage.ask_line(identity))

    @property
    def batch(self) -> list[BatchedQuery[Any]]:
        return [self.version] if self.line is None else [self.version, self.line]


class RecallCache:
    """The answers of this process, each valid until the memory that it was found in changes."""

    def __init__(self) -> None:
        self._answers: BoundedMap[tuple[Identity, RecallRequest], tuple[RecallAnswer, int]] = BoundedMap(MOST_ANSWERS)
        self._counts = {"hits": 0, "misses": 0}

    async def read(
        self,
        identity: Identity,
        request: RecallRequest,
        state: MemoryState,
        load: Callable[[Sequence[SessionId]], Awaitable[RecallAnswer]],
    ) -> tuple[RecallAnswer, bool]:
        """The answer to a request, and whether it came from the cache; `load` gets the sessions of the caller's line.

        `state` was read before: if the memory changes meanwhile, the answer counts for the state before and is not used again.
        """
        version, line = state.version.answer, state.line
        # The viewpoint decides what is visible and the request what is asked: nothing else does.
        key = (identity.viewpoint, request)
        cached = self._answers.get(key)
        if cached is not None and cached[1] == version:
            self._counts["hits"] += 1
            return cached[0], True
        self._counts["misses"] += 1
        answer = await load(line.answer if line is not None else ())
        seconds = DEGRADED_SECONDS if answer.degraded else ANSWER_SECONDS
        self._answers.put(key, (answer, version), seconds=seconds)
        return answer, False

    def forget_tenant(self, tenant_id: TenantId) -> None:
        """Answer anew, because the tenant's settings may have changed."""
        self._answers.drop(lambda key, _: key[0].tenant_id == tenant_id)

    def statistics(self) -> dict[str, int]:
        return {**self._counts, "kept": len(self._answers)}
