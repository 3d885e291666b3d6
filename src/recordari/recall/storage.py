"""The queries of recall: hits that need no vector, candidates, passages of long texts, and uses of items."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, cast
from uuid import UUID

import numpy as np
from pgvector import HalfVector

from recordari.core.checks import BEGINNING, END
from recordari.core.frozen import quickly_made
from recordari.core.identity import AskedScope, Identity, Owner, SessionId, session_thread
from recordari.core.items import Item, Kind
from recordari.core.text import tsquery_literal
from recordari.db.database import BatchedQuery, Database, Transaction
from recordari.db.pipeline import EncodedValue, encoded
from recordari.db.queries import Queries, Query, Record, reader
from recordari.recall.request import ItemUse, Passage, SeenBy
from recordari.recall.rules.arms import FEW_MENTIONS, FULL_DEPTHS, Depths
from recordari.recall.rules.numbering import Candidate
from recordari.recall.rules.sources import HISTORY_KINDS
from recordari.recall.rules.temporal.times import Interval

queries = Queries(__name__)

_read_item = reader(Item)

NO_VECTOR = np.zeros(1, dtype=np.float32)
_ALWAYS = {"since": BEGINNING, "until": END, "as_of": END, "known_at": END}


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A prepared question: what to search for, and in which part of memory."""

    terms: Mapping[str, float]
    """Terms and their weights; an item with any of them is found."""
    vector: np.ndarray | None
    model_id: str
    entity_keys: Sequence[str]
    interval: Interval | None
    kinds: Sequence[str]
    scopes: frozenset[AskedScope]
    line: Sequence[SessionId] = ()
    """The sessions of the caller's line; all others of the user are history."""
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    archived: bool = True
    """Whether archived items are found; a search in the past does not ask."""
    include_superseded: bool = False
    source_id: UUID | None = None
    """Only chunks of documents of this source."""
    follows_links: bool = False
    """A name beside one of the question in an item leads to other items that mention it (X1)."""
    by_owner: bool = True
    """Whether words are looked up in the memory alone; of a large part of the tenant in all of it."""
    separate_facts: bool = False
    """The depth of an arm counts for facts and for other kinds on their own, so that no fact displaces a message."""
    exact_below: int | None = None
    """With fewer visible vectors than this, compare every one; None: always."""
    depths: Depths = FULL_DEPTHS
    crowded: Sequence[bool] | None = None
    """For each group of kinds, whether so many vectors are visible that an index pays; None: not known yet."""

    def with_vector(self, vector: np.ndarray | None, model_id: str | None) -> Search:
        """The same with the question's vector; without one no model is named, or vectors of different lengths are compared."""
        return replace(self, vector=vector, model_id=model_id or "" if vector is not None else "")

    @property
    def kind_groups(self) -> Sequence[Sequence[str]]:
        """The kinds that are searched together: an arm has its full depth for each group."""
        if not self.separate_facts:
            return [list(self.kinds)]
        return [[kind for kind in self.kinds if kind != Kind.FACT], [str(Kind.FACT)]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyHits:
    """Items found by words, time and names, best first, and by meaning where the question's vector was at hand."""

    text: Sequence[UUID] = ()
    time: Sequence[UUID] = ()
    entity: Sequence[UUID] = ()
    linked: Sequence[UUID] = ()
    """Items that only a link leads to."""
    crowded: Sequence[bool] = ()
    """For each group of kinds, whether so many vectors are visible that an index pays."""
    nearest: Sequence[tuple[UUID, float]] | None = None
    """The nearest and their distances; None: not looked for yet."""


def early_queries(search: Search) -> dict[str, Query]:
    """The queries that need no vector, by name, for this kind of search."""
    return _early_queries(variant_of(search))


@lru_cache(maxsize=32)
def _early_queries(variant: SearchVariant) -> dict[str, Query]:
    listed = " UNION ALL ".join(queries.listed.filled(part=part).sql for part in variant.vector_parts)
    fragments = {"live": variant.live, "visible": variant.visible, "listed": listed, "with_word": variant.with_word}
    # Each variant has a name of its own, because the connection prepares statements by name.
    return {
        query.name.rpartition(".")[2]: replace(
            query.filled(**fragments), name=f"{query.name}_{variant.name}", binary=True
        )
        for query in (queries.worded, queries.timely, queries.naming, queries.linked, queries.seen)
    }


async def find_early(database: Database, identity: Identity, search: Search) -> EarlyHits:
    """Everything that can be found before the question is embedded, and what its vector finds if it is; in one round trip."""
    batch, crowded = _early_batch(identity, search), search.crowded
    near = _nearest_batch(identity, search, crowded) if crowded is not None else []
    if batch or near:
        await database.read_batch(identity, [*(query for _, query in batch), *near])
    rows: defaultdict[str, list[Record]] = defaultdict(list)
    for name, query in batch:
        rows[name] += query.answer
    if crowded is None:
        crowded = [row["number"] >= (search.exact_below or 0) for row in rows["seen"]]
    return EarlyHits(
        text=[row["item_id"] for row in sorted(rows["worded"], key=lambda row: -row["score"])],
        time=[row["item_id"] for row in rows["timely"]],
        entity=[row["item_id"] for row in sorted(rows["naming"], key=lambda row: -row["shared"])],
        linked=[row["item_id"] for row in rows["linked"]],
        crowded=crowded,
        nearest=await _nearest_of(database, identity, search, near) if near else None,
    )


def _early_batch(identity: Identity, search: Search) -> list[tuple[str, BatchedQuery[list[Record]]]]:
    """The queries that need no vector, by name: times and links once, the rest for every group of kinds."""
    sent, depths, interval = early_queries(search), search.depths, search.interval
    visible, keys = _encoded_parameters(identity, search), list(search.entity_keys)
    batch: list[tuple[str, dict[str, Any]]] = []
    if interval is not None and depths.time:
        start, end = interval.start or BEGINNING, interval.end or END
        batch.append(("timely", {"interval_start": start, "interval_end": end, "depth": depths.time}))
    if keys and search.follows_links and depths.entity:
        batch.append(("linked", {"entity_keys": keys, "few": FEW_MENTIONS, "depth": depths.entity}))
    for kinds in search.kind_groups:
        if search.terms and depths.text:
            terms = [tsquery_literal([term]) for term in search.terms]
            weights = list(search.terms.values())
            batch.append(("worded", {"queries": terms, "weights": weights, "depth": depths.text, "kinds": kinds}))
        if keys and depths.entity:
            batch.append(("naming", {"entity_keys": keys, "depth": depths.entity, "kinds": kinds}))
        if search.crowded is None and search.exact_below is not None and depths.vector and _may_be_indexed(search):
            batch.append(("seen", {"model_id": search.model_id, "limit": search.exact_below, "kinds": kinds}))
    return [(name, BatchedQuery(sent[name], list, **{**visible, **parameters})) for name, parameters in batch]


def statement(search: Search) -> Query:
    """The query of candidates for this kind of search and length of vector."""
    return _statement(variant_of(search), 1 if search.vector is None else len(search.vector))


@lru_cache(maxsize=64)
def _statement(variant: SearchVariant, dimensions: int) -> Query:
    whole = queries.candidates.filled(
        candidate_columns=queries.candidate_columns.sql,
        live=variant.live,
        visible=variant.visible,
        dimensions=dimensions,
    )
    return replace(whole, name=f"{whole.name}_{variant.name}_{dimensions}", binary=True)


def nearest_statement(search: Search, *, by_index: bool) -> Query:
    """The query of the nearest vectors, compared one by one or found by the tenant's index."""
    return _nearest_statement(variant_of(search), 1 if search.vector is None else len(search.vector), by_index)


@lru_cache(maxsize=64)
def _nearest_statement(variant: SearchVariant, dimensions: int, by_index: bool) -> Query:
    if by_index:
        parts = " OR ".join(f"({part})" for part in variant.vector_parts)
        whole = queries.indexed_nearest.filled(visible_vectors=parts)
    else:
        # Each part is read by its own range of one index, which an OR of both might not be.
        distances = " UNION ALL ".join(f"({queries.distances.filled(part=part).sql})" for part in variant.vector_parts)
        whole = queries.exact_nearest.filled(distances=distances)
    whole = whole.filled(vector_live=variant.vector_live, dimensions=dimensions)
    return replace(whole, binary=True, is_planned_anew=True)


async def find_nearest(
    database: Database, identity: Identity, search: Search, crowded: Sequence[bool]
) -> list[tuple[UUID, float]]:
    """The nearest visible items and their distances, nearest first."""
    batch = _nearest_batch(identity, search, crowded)
    if batch:
        await database.read_batch(identity, batch)
    return await _nearest_of(database, identity, search, batch)


def _nearest_batch(
    identity: Identity, search: Search, crowded: Sequence[bool]
) -> list[BatchedQuery[list[tuple[UUID, float]]]]:
    """The query of the nearest for each group of kinds."""
    if search.vector is None or not search.depths.vector:
        return []
    groups, has_index = search.kind_groups, _may_be_indexed(search)
    parameters = _encoded_parameters(identity, search)
    parameters |= {"vector": search.vector, "model_id": search.model_id, "vector_depth": search.depths.vector}
    return [
        BatchedQuery(
            nearest_statement(search, by_index=is_crowded and has_index),
            lambda rows: [(row["item_id"], row["distance"]) for row in rows],
            **{**parameters, "kinds": list(kinds)},
        )
        for kinds, is_crowded in zip(groups, [*crowded, *[False] * len(groups)], strict=False)
    ]


async def _nearest_of(
    database: Database,
    identity: Identity,
    search: Search,
    batch: Sequence[BatchedQuery[list[tuple[UUID, float]]]],
) -> list[tuple[UUID, float]]:
    """What was found; where an index gave up too early, every vector is compared after all."""
    short = [place for place, query in enumerate(batch) if len(query.answer) < search.depths.vector]
    exact = _nearest_batch(identity, search, ()) if short else []
    short = [place for place in short if batch[place].query != exact[place].query]
    if short:
        await database.read_batch(identity, [exact[place] for place in short])
    found = [exact[place] if place in short else query for place, query in enumerate(batch)]
    return sorted((one for query in found for one in query.answer), key=lambda one: one[1])


async def find_candidates(database: Database, identity: Identity, search: Search, early: EarlyHits) -> list[Candidate]:
    nearest = early.nearest
    if nearest is None:
        nearest = await find_nearest(database, identity, search, early.crowded)
    rows = await database.execute(
        identity,
        statement(search),
        text_ids=list(early.text),
        time_ids=list(early.time),
        entity_ids=list(dict.fromkeys([*early.entity, *early.linked])),
        vector_ids=[item_id for item_id, _ in nearest],
        distances=[distance for _, distance in nearest],
        vector=NO_VECTOR if search.vector is None else search.vector,
        model_id=search.model_id,
        **_encoded_parameters(identity, search),
    )
    return [Candidate(*row) for row in rows]


_LIVE = {
    "holds_now": (queries.holds_now, queries.vector_holds_now),
    "held_then": (queries.held_then, queries.vector_held_then),
    "also_superseded": (queries.also_superseded, queries.vector_also_superseded),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchVariant:
    """A kind of search, which decides the text of its queries."""

    past: str
    archived: bool
    of_source: bool
    history: bool
    by_owner: bool = True

    @property
    def name(self) -> str:
        flags = {"hidden": not self.archived, "of_source": self.of_source, "history": self.history}
        flags |= {"by_tenant": not self.by_owner}
        return "_".join([self.past, *(name for name, is_set in flags.items() if is_set)])

    @property
    def live(self) -> str:
        """The condition for items that are not ended."""
        held = _LIVE[self.past][0].sql
        return held if self.archived else f"{held} AND {queries.not_archived.sql}"

    @property
    def vector_live(self) -> str:
        held = _LIVE[self.past][1].sql
        return held if self.archived else f"{held} AND {queries.vector_not_archived.sql}"

    @property
    def visible(self) -> str:
        """The condition for items that the caller may see."""
        history = f"\n            {queries.of_history.sql}" if self.history else ""
        visible = queries.visible.filled(history=history).sql
        return f"{visible} AND {queries.of_source.sql}" if self.of_source else visible

    @property
    def with_word(self) -> str:
        """What matches `t.query`: all that the owners have of it, and perhaps what others have."""
        parts = [queries.words_of_owners, queries.words_of_history][: 1 + self.history]
        parts = parts if self.by_owner else [queries.words_of_tenant]
        return " UNION ALL ".join(f"({part.filled(word_columns=queries.word_columns.sql).sql})" for part in parts)

    @property
    def vector_parts(self) -> Sequence[str]:
        """The conditions for vectors that the caller may see; no vector has two of them."""
        parts = [queries.vector_visible.sql, *([queries.vector_of_history.sql] if self.history else [])]
        return [f"{part} AND {queries.vector_of_source.sql}" if self.of_source else part for part in parts]


def variant_of(search: Search) -> SearchVariant:
    past = "also_superseded" if search.include_superseded else "holds_now"
    if search.as_of is not None or search.known_at is not None:
        past = "held_then"
    return SearchVariant(
        past=past,
        archived=search.archived or past == "held_then",
        of_source=search.source_id is not None,
        history=AskedScope.HISTORY in search.scopes,
        by_owner=search.by_owner,
    )


def _may_be_indexed(search: Search) -> bool:
    """The index holds live vectors only, and does not know their source: most of its results would be dropped."""
    return variant_of(search).past == "holds_now" and search.source_id is None


def search_parameters(identity: Identity, search: Search) -> dict[str, Any]:
    return {
        **area_parameters(identity, search),
        **{name: getattr(search, name) or always for name, always in _ALWAYS.items()},
        "source_id": search.source_id,
    }


def _encoded_parameters(identity: Identity, search: Search) -> dict[str, Any]:
    """The same for statements of a pipeline: what stays the same from question to question is written out once."""
    area = _encoded_area(identity.viewpoint, tuple(search.kinds), search.scopes, tuple(search.line))
    given = {name: moment for name in _ALWAYS if (moment := getattr(search, name)) is not None}
    return {**area, **given, "source_id": search.source_id}


@lru_cache(maxsize=10_000)
def _encoded_area(
    identity: Identity, kinds: tuple[str, ...], scopes: frozenset[AskedScope], line: tuple[SessionId, ...]
) -> Mapping[str, EncodedValue]:
    area = Visibility(identity=identity, kinds=kinds, scopes=scopes, line=line)
    return encoded(area_parameters(identity, area) | _ALWAYS)


def area_parameters(identity: Identity, area: Search | Visibility) -> dict[str, Any]:
    """The parameters of the fragments that say what is visible, for all times; owners are as the column `owner` writes them."""
    ids = {AskedScope.TENANT: "", AskedScope.USER: identity.user_id, AskedScope.AGENT: identity.agent_id}
    owners = [f"{scope}:{owner}" for scope, owner in ids.items() if scope in area.scopes and owner is not None]
    line = [session_thread(identity.owned_by, session_id) for session_id in area.line]
    sessions = session_thread(identity.owned_by, SessionId(""))
    return {
        "kinds": list(area.kinds),
        "tenant_scope": AskedScope.TENANT in area.scopes,
        "user_id": identity.user_id if AskedScope.USER in area.scopes else None,
        "agent_id": identity.agent_id if AskedScope.AGENT in area.scopes else None,
        "owned_by": identity.owned_by,
        "session_ids": list(area.line) if AskedScope.SESSION in area.scopes else [],
        "line": list(area.line),
        "history_user": identity.user_id if AskedScope.HISTORY in area.scopes else None,
        "history_kinds": list(HISTORY_KINDS),
        "since": BEGINNING,
        "until": END,
        "owners": owners + (line if AskedScope.SESSION in area.scopes else []),
        "line_owners": line,
        "history_from": sessions,
        "history_to": sessions[:-1] + chr(ord(sessions[-1]) + 1),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The caller, kinds and scopes that decide which items are visible."""

    identity: Identity
    kinds: tuple[str, ...]
    scopes: frozenset[AskedScope]
    line: tuple[SessionId, ...] = ()
    """The sessions of the caller's line; all others of the user are history."""
    archived: bool = True


def ask_version(identity: Identity) -> BatchedQuery[int]:
    """How often the memory of the identity has changed; it differs after every change."""
    owners = {"user_id": identity.user_id, "agent_id": identity.agent_id, "session_id": identity.session_id}
    return BatchedQuery(queries.version, lambda rows: int(rows[0]["version"]), owned_by=identity.owned_by, **owners)


async def links_among(database: Database, identity: Identity, item_ids: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """Pairs of a fact and the turn that it was taken from."""
    rows = await database.execute(identity, queries.links_among, item_ids=list(item_ids))
    return [(fact, turn) for fact, turn in rows]


async def outdated_among(database: Database, identity: Identity, item_ids: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """Pairs of an item whose fact has ended, and an item that says what holds instead."""
    rows = await database.execute(identity, queries.outdated_among, item_ids=list(item_ids))
    return [(outdated, newer) for outdated, newer in rows]


PASSAGE_DEPTH = 60
"""Passages that each arm may bring: many may be of one text."""


class FoundPassage(NamedTuple):
    """A passage that may answer, as a candidate with the id of its item."""

    ordinal: int
    candidate: Candidate


def passages_statement(search: Search) -> Query:
    """The query of passages for this kind of search and length of vector."""
    return _passages_statement(variant_of(search), 1 if search.vector is None else len(search.vector))


@lru_cache(maxsize=64)
def _passages_statement(variant: SearchVariant, dimensions: int) -> Query:
    parts = variant.vector_parts
    # Each part is read by its own range of one index, which an OR of both might not be.
    distances = " UNION ALL ".join(f"({queries.passage_distances.filled(part=part).sql})" for part in parts)
    return queries.found_passages.filled(
        distances=distances,
        visible_passages="(" + " OR ".join(f"({part})" for part in parts) + ")",
        live=variant.live,
        visible=variant.visible,
    ).filled(dimensions=dimensions)


async def find_passages(tx: Transaction, search: Search) -> list[FoundPassage]:
    return await tx.query_custom_plan(
        passages_statement(search),
        cast("type[FoundPassage]", _found),
        queries=[tsquery_literal([term]) for term in search.terms],
        weights=list(search.terms.values()),
        vector=HalfVector(NO_VECTOR if search.vector is None else search.vector),
        model_id=search.model_id,
        text_depth=min(PASSAGE_DEPTH, search.depths.text),
        vector_depth=min(PASSAGE_DEPTH, search.depths.vector) if search.vector is not None else 0,
        **search_parameters(tx.identity, search),
    )


def _found(ordinal: int, *columns: Any) -> FoundPassage:
    return FoundPassage(ordinal, Candidate(*columns))


async def passage_texts(database: Database, identity: Identity, places: Mapping[UUID, int]) -> dict[UUID, Passage]:
    """The passage of each item at this place, unless it was cut anew meanwhile."""
    rows = await database.execute(
        identity, queries.passage_texts, item_ids=list(places), ordinals=list(places.values())
    )
    return {
        item_id: Passage(ordinal=ordinal, start=start, past=start + len(content.encode()), content=content)
        for item_id, ordinal, start, content in rows
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """How often an item was recalled lately, when last, and when by whom."""

    item_id: UUID
    times: int
    last_at: datetime
    seen_by: Mapping[SeenBy, datetime] = field(default_factory=dict)


async def add_counts(tx: Transaction, counts: Sequence[Accesses]) -> None:
    await tx.query_prepared(
        queries.add_counts,
        item_ids=[count.item_id for count in counts],
        times=[count.times for count in counts],
        last_ats=[count.last_at for count in counts],
    )
    seen = [(count.item_id, by, at) for count in counts for by, at in count.seen_by.items()]
    if seen:
        await tx.query_prepared(
            queries.note_uses,
            item_ids=[item_id for item_id, _, _ in seen],
            last_ats=[at for _, _, at in seen],
            owners=[by.owned_by for _, by, _ in seen],
            agents=[by.agent_id for _, by, _ in seen],
            sessions=[by.session_id for _, by, _ in seen],
            vias=[by.via for _, by, _ in seen],
        )


async def list_uses(tx: Transaction, item_id: UUID, *, owner: Owner | None) -> list[ItemUse]:
    return await tx.all(queries.list_uses, ItemUse, item_id=item_id, owned_by=owner)
