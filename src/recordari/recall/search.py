"""The parameters of a search: scopes, terms and tokens, weights, and the depth of each arm."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from recordari.core import text
from recordari.core.cache import BoundedMap
from recordari.core.identity import AskedScope, Identity, TenantId
from recordari.db.database import Database
from recordari.kit.resources import Resources
from recordari.memory.rules import REQUEST_TERMS, Collection, QuestionWording, asked_by, embedded_text, entities_in
from recordari.memory.tenant_view import TenantView
from recordari.models.base import fail_open, fail_open_now
from recordari.models.static import StaticTokens
from recordari.recall.request import Arm, RecallRequest
from recordari.recall.rules.arms import FULL_DEPTHS, Depths
from recordari.recall.rules.candidates import Tokens
from recordari.recall.rules.numbering import ARMS
from recordari.recall.rules.ranking import Weights
from recordari.recall.rules.sources import RecallSettings
from recordari.recall.rules.steps import is_bridging
from recordari.recall.rules.temporal.times import Interval, question_interval
from recordari.recall.snapshot_storage import Extent, count_terms, find_extent
from recordari.recall.storage import Search, Visibility

MOST_POSTINGS = 4_000
MOST_TERMS = 24
MOST_EXACT = 3_000
EXACT_BY_ROOT = 36
"""Times the root of a tenant's items: comparing so many vectors takes as long as its index needs to find a hundred of them."""
CROWD_SECONDS = 300.0
MOST_CROWDS = 10_000
MOST_COUNTED = 20_000
"""Items of a memory whose terms are counted."""
MOST_ALIKE = 200_000
"""Items of a tenant of which such a memory is a large part."""
MOST_FREQUENCIES = 1_000
"""Terms of each such memory whose frequencies are kept."""
SHORTEST_NAME = 3

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def scope_weights(resources: Resources, request: RecallRequest, tenant: RecallSettings) -> dict[AskedScope, float]:
    """The configured weight of each place; a muted one counts if the request names it."""
    configured = resources.settings.recall_weights
    weights = {
        AskedScope.SESSION: configured.session,
        AskedScope.USER: configured.user,
        AskedScope.AGENT: configured.agent,
        AskedScope.TENANT: configured.tenant,
        AskedScope.HISTORY: configured.history if tenant.history is None else tenant.history,
    }
    if request.scope in weights and not weights[request.scope]:
        weights[request.scope] = 1.0
    return weights


def filters_of(request: RecallRequest) -> dict[str, Any]:
    """The filters of the request, as a trace shows them."""
    moments = {name: getattr(request, name) for name in ("since", "until", "as_of", "known_at")}
    filters: dict[str, Any] = {name: moment.isoformat() for name, moment in moments.items() if moment is not None}
    if request.source_kinds is not None:
        filters["source_kinds"] = [str(kind) for kind in request.source_kinds]
    if request.source_id is not None:
        filters["source_id"] = str(request.source_id)
    if request.project is not None:
        filters["project"] = request.project
    if request.include_superseded:
        filters["include_superseded"] = True
    if not request.archived:
        filters["archived"] = False
    return filters


def rare_terms(terms: Sequence[str], collection: Collection) -> dict[str, float]:
    """The rarest terms with their weights: as many as find a few thousand items in all, and always one."""
    chosen: dict[str, float] = {}
    postings = 0
    for term in sorted(dict.fromkeys(terms), key=collection.frequencies.__getitem__)[:MOST_TERMS]:
        postings += collection.frequencies[term]
        if chosen and postings > MOST_POSTINGS:
            break
        chosen[term] = collection.rarity(term) * (Weights().request_words if term in REQUEST_TERMS else 1.0)
    return chosen


def exact_below(items: int, *, indexed_from: int) -> int | None:
    """Up to how many visible vectors each one is compared; None for a tenant too small to have an index.

    Below that, most results of the tenant's index would be invisible: slower, and some of the nearest are missed.
    """
    return max(MOST_EXACT, round(EXACT_BY_ROOT * math.sqrt(items))) if items >= indexed_from / 2 else None


class Crowds:
    """Whether an index pays for the vectors of a memory, as it was a moment ago: nothing but the plan depends on it."""

    def __init__(self) -> None:
        self._known: BoundedMap[tuple[Hashable, ...], Sequence[bool]] = BoundedMap(MOST_CROWDS, seconds=CROWD_SECONDS)

    def known(self, identity: Identity, search: Search) -> Sequence[bool] | None:
        """What was found; nothing is known of a part of the time."""
        return self._known.get(self._key(identity, search)) if search.since is search.until is None else None

    def learn(self, identity: Identity, search: Search, crowded: Sequence[bool]) -> None:
        if search.since is search.until is None and search.crowded is None:
            self._known.put(self._key(identity, search), crowded)

    def forget_tenant(self, tenant_id: TenantId) -> None:
        self._known.drop(lambda key, _: key[0] == tenant_id)

    @staticmethod
    def _key(identity: Identity, search: Search) -> tuple[Hashable, ...]:
        area = (tuple(search.kinds), search.scopes, tuple(search.line), search.archived, search.separate_facts)
        return identity.tenant_id, identity.viewpoint, search.model_id, *area


@dataclass(frozen=True, slots=True)
class _Counted:
    extent: Extent
    frequencies: dict[str, int] = field(default_factory=dict)


class MemoryTerms:
    """How common terms are in memories that are not read whole, as it was a moment ago.

    Counted in the memory itself: in a tenant of many users, what others talk about says nothing about what is rare in this one.
    """

    def __init__(self) -> None:
        self._known: BoundedMap[Visibility, _Counted] = BoundedMap(MOST_CROWDS, seconds=CROWD_SECONDS)

    async def collection(self, database: Database, visibility: Visibility, terms: Sequence[str]) -> Collection | None:
        """None for a memory so large that the tenant is much the same."""
        known = self._known.get(visibility)
        if known is None:
            extent = await find_extent(database, visibility, most=MOST_COUNTED)
            known = self._known.put(visibility, _Counted(extent))
        if known.extent.items >= MOST_COUNTED:
            return None
        # Held here: while the database counts, another question may make room.
        frequencies = {term: count for term in terms if (count := known.frequencies.get(term)) is not None}
        if new := [term for term in dict.fromkeys(terms) if term not in frequencies]:
            frequencies |= await count_terms(database, visibility, new)
            if len(known.frequencies) > MOST_FREQUENCIES:
                known.frequencies.clear()
            known.frequencies.update(frequencies)
        return Collection(items=known.extent.items, mean_length=known.extent.mean_length, frequencies=frequencies)

    def forget_tenant(self, tenant_id: TenantId) -> None:
        self._known.drop(lambda visibility, _: visibility.identity.tenant_id == tenant_id)


def goes_by_owner(collection: Collection) -> bool:
    """Whether words are looked up in the memory alone; a large one may be so much of its tenant that this takes longer."""
    return not MOST_COUNTED <= collection.items <= MOST_ALIKE


OF_CONVERSATIONS = ("speaker", "own_words", "question", "dated", "disclosure", "wished", "following", "newer")
"""Weights of what people say to each other; a document says it once, to everybody."""


OTHER_CHUNKS = 0.3
"""The weight of a document's other chunks that fit: a page about the matter has several.

Not for one sentence of a long question: it asks for one thing, and the pages about the whole matter would come up for
each sentence again.
"""


@lru_cache(maxsize=128)
def weights_of(arms: frozenset[Arm], *, documents: bool = False, is_part: bool = False) -> Weights:
    """The ranker's weights without those of arms that are switched off; of documents without those of conversations."""
    parts = {
        Arm.LATE: ("late",),
        Arm.SESSION: ("session", "following", "previous_words", "previous_late", "repeat"),
        Arm.TIME: ("interval", "inside", "date_words", "newer"),
        Arm.ENTITY: ("entity", "linked"),
        Arm.WORDING: ("speaker", "own_words", "question", "dated", "disclosure", "wished"),
    }
    off: dict[str, Any] = {name: 0.0 for arm, names in parts.items() if arm not in arms for name in names}
    if documents:
        off |= dict.fromkeys(OF_CONVERSATIONS, 0.0)
        off |= {"others": OTHER_CHUNKS if Arm.SESSION in arms and not is_part else 0.0}
    return replace(Weights(), **off)


@lru_cache(maxsize=128)
def depths_of(arms: frozenset[Arm], *, many: bool = False) -> Depths:
    """How many candidates each arm brings; twice as many for a long answer."""
    times = 2 if many else 1
    return Depths(**{arm: times * getattr(FULL_DEPTHS, arm) if Arm(arm) in arms else 0 for arm in ARMS})


def tokens_of(static: StaticTokens, words: Sequence[str], *, language: str) -> Tokens:
    """The tokens of the words that have a term, each with that term; stop words have none."""
    ids: dict[int, str] = {}
    whole = set()
    for word in dict.fromkeys(words):
        if (term := _term_of(word, language)) is not None:
            pieces = static.word_ids(word)
            for token in pieces:
                ids.setdefault(token, term)
            if len(pieces) == 1 and len(word) > 1:  # of Chinese and Japanese, pairs of characters are terms
                whole.add(pieces[0])
    asking, ends = _wish_marks(static)
    return Tokens(
        ids=np.array(list(ids), dtype=np.int64),
        words=list(ids.values()),
        whole=frozenset(whole),
        unit=static.unit,
        norms=static.norms,
        asking=asking,
        ends=ends,
    )


@lru_cache(maxsize=4)
def _wish_marks(static: StaticTokens) -> tuple[frozenset[int], frozenset[int]]:
    """The tokens before and after what a standing wish is about: "whenever I ask for code, …"."""
    asking, ends = ("ask", "asking", "request", "mention", "discuss", "talk", "inquire", "want", "need"), ",.;:!?"
    return _tokens_of_words(static, asking), _tokens_of_words(static, ends)


def words_of(query: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(query)]


def asker_named(user_id: str | None, terms: Sequence[str], *, language: str) -> frozenset[str]:
    """The terms by which the question names the user who is asked about: "Ana" for the user `ana` or `ana.lopez@…`."""
    names = (word for word in words_of(user_id or "") if len(word) >= SHORTEST_NAME and word.isalpha())
    return frozenset(terms) & {_term_of(name, language) for name in names}


@lru_cache(maxsize=20_000)
def _term_of(word: str, language: str) -> str | None:
    return next(iter(text.terms(word, language)), None)


def _tokens_of_words(static: StaticTokens, words: Iterable[str]) -> frozenset[int]:
    return frozenset(token for word in words for token in static.word_ids(word))


Embedding = tuple[np.ndarray | None, str | None, bool]
"""A question's vector, its model, and whether nothing failed; without a vector, recall goes on by words."""


def start_embedding(resources: Resources, request: RecallRequest, view: TenantView) -> asyncio.Future[Embedding]:
    """The question's vector when it is there; a model that is faster than a task has made it at once."""
    embedder = resources.embedders.instant(view.model_id)
    if embedder is not None and Arm.VECTOR in request.arms:
        query = embedded_text(request.query, speaker=None, event_time=None)
        vector = fail_open_now("embed_query", lambda: embedder.embed_query_now(query), fallback=None)
        if vector is not None:
            embedding: asyncio.Future[Embedding] = asyncio.get_running_loop().create_future()
            embedding.set_result((vector, embedder.model_id, True))
            return embedding
    return asyncio.create_task(_embedded(resources, request, view))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQuestion:
    """What a question says."""

    terms: Sequence[str]
    words: frozenset[str]
    wording: QuestionWording
    interval: Interval | None
    """In UTC."""
    entity_keys: Sequence[str]
    follows_links: bool
    tokens: Tokens | None
    asker: frozenset[str]
    embedding: asyncio.Future[Embedding]


def read_question(
    resources: Resources,
    identity: Identity,
    request: RecallRequest,
    view: TenantView,
    embedding: asyncio.Future[Embedding] | None,
    *,
    now: datetime,
) -> ReadQuestion:
    """Read a question, and embed it unless that has begun; it needs no database."""
    query, language, static = request.query, view.language, resources.static_tokens
    words, terms = words_of(query), text.search_terms(query, language)
    return ReadQuestion(
        terms=terms,
        words=frozenset(words),
        wording=asked_by(query),
        interval=question_interval(query, now=now, zone=UTC),
        entity_keys=[entity.key for entity in entities_in(query)],
        follows_links=is_bridging(query),
        tokens=tokens_of(static, words, language=language) if static is not None else None,
        asker=asker_named(identity.user_id, terms, language=language),
        embedding=embedding or start_embedding(resources, request, view),
    )


async def _embedded(resources: Resources, request: RecallRequest, view: TenantView) -> Embedding:
    embedder = resources.embedders.of(view.model_id)
    if Arm.VECTOR not in request.arms:
        return None, None, True
    if embedder is None:
        return None, None, resources.settings.embedding_provider == "none"
    query = embedded_text(request.query, speaker=None, event_time=None)
    vector, ran = await fail_open(
        "embed_query", lambda: embedder.embed_query(query), fallback=None, seconds=resources.embedders.query_timeout
    )
    return (vector if ran else None), embedder.model_id, ran
