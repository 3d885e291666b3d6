"""Finding candidates: what needs no vector, then the one statement behind every recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from recordari.core.checks import BEGINNING, END
from recordari.core.identity import Identity, Scope, SessionId
from recordari.core.items import Item, Kind
from recordari.core.text import tsquery_literal
from recordari.db.database import BatchedQuery, Database, Record, Transaction
from recordari.db.queries import Queries, Query
from recordari.recall.rules.arms import FEW_MENTIONS, FULL_DEPTHS, Depths
from recordari.recall.rules.candidates import Candidate
from recordari.recall.rules.temporal.times import Interval

queries = Queries(__name__)

NO_VECTOR = np.zeros(1, dtype=np.float32)
_STANDING = queries.standing.filled(live=queries.live_now.sql, visible=queries.visible.sql)
_SHELVED = queries.shelved.filled(live=queries.live_now.sql, visible=queries.visible.sql)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What to look for, and where it may be found."""

    terms: Mapping[str, float]
    """Terms and their weights; an item with any of them is found."""
    vector: np.ndarray | None
    model_id: str
    entity_keys: Sequence[str]
    interval: Interval | None
    kinds: Sequence[str]
    scopes: frozenset[Scope]
    sessions: Sequence[SessionId] = ()
    """Those whose memory is asked, where the scopes name sessions."""
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    include_superseded: bool = False
    source_id: UUID | None = None
    """Only chunks of documents of this source."""
    follows_links: bool = False
    """What stands beside an asked name in one item leads to others that mention it (X1)."""
    facts_apart: bool = False
    """Each arm brings facts beside its other candidates, and none of them in the place of one."""
    exact_below: int | None = None
    """Look at every vector that may answer when there are fewer than this; None: always."""
    depths: Depths = FULL_DEPTHS

    @property
    def sorts(self) -> Sequence[Sequence[str]]:
        """The kinds that are looked for together: of each of these, an arm brings as much as its depth allows."""
        if not self.facts_apart:
            return [list(self.kinds)]
        return [[kind for kind in self.kinds if kind != Kind.FACT], [str(Kind.FACT)]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalHits:
    """What is found without the question's vector: items by words, time and names, best first."""

    text: Sequence[UUID] = ()
    time: Sequence[UUID] = ()
    entity: Sequence[UUID] = ()
    linked: Sequence[UUID] = ()
    """Those that mention no asked name, and another one that stands beside it in an item."""
    crowded: Sequence[bool] = ()
    """Of each sort, whether so many vectors may be seen that an index is worth its while."""


def early_queries(search: Search) -> dict[str, Query]:
    """The queries that need no vector, by what they find, for this kind of search."""
    return _early_queries(_past(search), search.source_id is not None)


@lru_cache(maxsize=16)
def _early_queries(past: str, of_source: bool) -> dict[str, Query]:
    visible, vector_visible = _visible(of_source)
    filled = {
        query.name: query.filled(live=_LIVE[past][0].sql, visible=visible, vector_visible=vector_visible)
        for query in (queries.worded, queries.timely, queries.naming, queries.linked, queries.seen)
    }
    # The connection keeps each kind of it under a name of its own.
    kind = f"{past}_{'of_source' if of_source else 'of_any'}"
    return {
        name.rpartition(".")[2]: Query(f"{name}_{kind}", query.purpose, query.sql) for name, query in filled.items()
    }


async def find_early(database: Database, identity: Identity, search: Search) -> LexicalHits:
    """Everything that can be found before the question is embedded, in one round trip."""
    asked = _ask_early(identity, search)
    if asked:
        await database.read_batch(identity, [one for _, one in asked])
    found: dict[str, list[list[Record]]] = {}
    for name, one in asked:
        found.setdefault(name, []).append(one.answer)

    def ids(name: str, score: str) -> list[UUID]:
        rows = [row for sort in found.get(name, ()) for row in sort]
        return [row["item_id"] for row in sorted(rows, key=lambda row: -row[score])]

    return LexicalHits(
        text=ids("worded", "score"),
        time=[row["item_id"] for sort in found.get("timely", ()) for row in sort],
        entity=ids("naming", "shared"),
        linked=[row["item_id"] for sort in found.get("linked", ()) for row in sort],
        crowded=[row["number"] >= (search.exact_below or 0) for (row,) in found.get("seen", ())],
    )


def _ask_early(identity: Identity, search: Search) -> list[tuple[str, BatchedQuery[list[Record]]]]:
    """What is asked for that needs no vector, each by what it finds: of times once, of the rest for every sort."""
    known, depths, interval = early_queries(search), search.depths, search.interval
    sight = _sight(identity, search)
    asked: list[tuple[str, dict[str, Any]]] = []
    if interval is not None and depths.time:
        start, end = interval.start or BEGINNING, interval.end or END
        asked.append(("timely", {"interval_start": start, "interval_end": end, "depth": depths.time}))
    if search.entity_keys and search.follows_links and depths.entity:
        links = {"entity_keys": list(search.entity_keys), "few": FEW_MENTIONS, "depth": depths.entity}
        asked.append(("linked", links))
    for kinds in search.sorts:
        if search.terms and depths.text:
            terms = {"queries": [tsquery_literal([term]) for term in search.terms]}
            weights = {"weights": list(search.terms.values())}
            asked.append(("worded", {**terms, **weights, "depth": depths.text, "kinds": kinds}))
        if search.entity_keys and depths.entity:
            keys = list(search.entity_keys)
            asked.append(("naming", {"entity_keys": keys, "depth": depths.entity, "kinds": kinds}))
        if search.exact_below is not None and depths.vector and _may_be_indexed(search):
            owners = {"model_id": search.model_id, "owners": _owners(identity, search)}
            asked.append(("seen", {**owners, "limit": search.exact_below, "kinds": kinds}))
    return [(name, BatchedQuery(known[name], _as_they_are, **{**sight, **parameters})) for name, parameters in asked]


def _as_they_are(rows: list[Record]) -> list[Record]:
    return rows


def statement(search: Search, by_index: Sequence[bool] = ()) -> Query:
    """The candidates' query for this kind of search and this length of vector; which sorts are searched by an index."""
    live, vector_live = _LIVE[_past(search)]
    visible, vector_visible = _visible(search.source_id is not None)
    sorts = ("said_kinds", "fact_kinds") if search.facts_apart else ("kinds",)
    nearest = []
    for place, sort in enumerate(sorts):
        is_indexed = place < len(by_index) and by_index[place]
        fragment = queries.indexed_nearest if is_indexed else queries.exact_nearest
        whole = fragment.filled(exact=queries.exact_nearest.sql, vector_visible=vector_visible).sql
        nearest.append(f"({whole.replace('%(kinds)s', f'%({sort})s')})")
    return queries.candidates.filled(
        nearest=" UNION ALL ".join(nearest),
        told=queries.told.sql,
        live=live.sql,
        visible=visible,
        vector_live=vector_live.sql,
        dimensions=1 if search.vector is None else len(search.vector),
    )


async def find_candidates(tx: Transaction, search: Search, early: LexicalHits) -> list[Candidate]:
    """Everything that may answer, with what is needed to score it."""
    has_index = search.vector is not None and _may_be_indexed(search)
    said, *facts = search.sorts
    return await tx.query_custom_plan(
        statement(search, early.crowded if has_index else ()),
        Candidate,
        text_ids=list(early.text),
        time_ids=list(early.time),
        entity_ids=list(dict.fromkeys([*early.entity, *early.linked])),
        vector=HalfVector(NO_VECTOR if search.vector is None else search.vector),
        model_id=search.model_id,
        owners=_owners(tx.identity, search),
        vector_depth=search.depths.vector if search.vector is not None else 0,
        said_kinds=list(said),
        fact_kinds=list(facts[0]) if facts else [],
        **_sight(tx.identity, search),
    )


_LIVE = {
    "live_now": (queries.live_now, queries.vector_live_now),
    "believed_then": (queries.believed_then, queries.vector_believed_then),
    "also_superseded": (queries.also_superseded, queries.vector_also_superseded),
}


def _past(search: Search) -> str:
    """Which of the three: what holds now, what held then, what was retired too."""
    if search.as_of is not None:
        return "believed_then"
    return "also_superseded" if search.include_superseded else "live_now"


def _visible(of_source: bool) -> tuple[str, str]:
    """Who sees what, of items and of vectors."""
    visible, vector_visible = queries.visible.sql, queries.vector_visible.sql
    if of_source:
        visible = f"{visible} AND {queries.of_source.sql}"
        vector_visible = f"{vector_visible} AND {queries.vector_of_source.sql}"
    return visible, vector_visible


def _may_be_indexed(search: Search) -> bool:
    """The index holds live vectors only, and does not know their source: it would pass over most of what it finds."""
    return _past(search) == "live_now" and search.source_id is None


def _sight(who: Identity, search: Search) -> dict[str, Any]:
    """What decides whether an item may be seen, as the fragments name it."""
    return {
        "kinds": list(search.kinds),
        "tenant_scope": Scope.TENANT in search.scopes,
        "user_id": who.user_id if Scope.USER in search.scopes else None,
        "agent_id": who.agent_id if Scope.AGENT in search.scopes else None,
        "session_ids": list(search.sessions),
        "since": search.since or BEGINNING,
        "until": search.until or END,
        "as_of": search.as_of,
        "source_id": search.source_id,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Who looks, and for what: what decides which items may be seen."""

    identity: Identity
    kinds: tuple[str, ...]
    scopes: frozenset[Scope]
    sessions: tuple[SessionId, ...] = ()
    """Those whose memory is asked, where the scopes name sessions."""

    def parameters(self) -> dict[str, Any]:
        """As the fragment `visible` names them."""
        who = self.identity
        return {
            "kinds": self.kinds,
            "tenant_scope": Scope.TENANT in self.scopes,
            "user_id": who.user_id if Scope.USER in self.scopes else None,
            "agent_id": who.agent_id if Scope.AGENT in self.scopes else None,
            "session_ids": self.sessions,
            "since": BEGINNING,
            "until": END,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """An item that may be seen, with all that recall needs of it."""

    version: bytes
    item: Item
    candidate: Candidate
    embedding: NDArray[np.float16] | None
    names: tuple[str, ...]


async def find_standing(
    database: Database, sight: Visibility, *, known: int | None, topic: str, limit: int
) -> tuple[int, bytes | None, bool]:
    """How often what may be seen was changed; the ids of these items, each with its last change; whether a topic waits.

    The ids are None when the count is the one known already.
    """
    ((version, standing, waiting),) = await database.execute(
        sight.identity, _STANDING, known=known, topic=topic, limit=limit, **sight.parameters()
    )
    return version, standing, waiting


async def find_shelved(
    tx: Transaction, sight: Visibility, model_id: str, item_ids: Sequence[UUID]
) -> list[SnapshotRow]:
    """These items, as far as they may be seen now."""
    parameters = {**sight.parameters(), "kinds": list(sight.kinds), "session_ids": list(sight.sessions)}
    rows = await tx.query_custom_plan(_SHELVED, dict, model_id=model_id, item_ids=list(item_ids), **parameters)
    return [_shelved(row) for row in rows]


def _shelved(row: dict[str, Any]) -> SnapshotRow:
    features = {name: row.pop(name) for name in ("thread", "position", "terms", "tokens", "traits")}
    version, embedding, names = row.pop("version"), row.pop("embedding"), row.pop("names")
    item = Item(**row)
    shared = {name: row[name] for name in ("item_id", "scope", "session_id", "speaker", "trust", "event_time")}
    return SnapshotRow(
        version=version,
        item=item,
        candidate=Candidate(**shared, **features, is_fact=item.kind == Kind.FACT),
        embedding=None if embedding is None else np.frombuffer(embedding, dtype=">f2", offset=4),
        names=tuple(names),
    )


def _owners(who: Identity, search: Search) -> list[str]:
    """Whose vectors may be seen, as the column `owner` writes them."""
    ids = {Scope.TENANT: "", Scope.USER: who.user_id, Scope.AGENT: who.agent_id}
    owners = [f"{scope}:{found}" for scope, found in ids.items() if scope in search.scopes and found is not None]
    return [*owners, *(f"{Scope.SESSION}:{session_id}" for session_id in search.sessions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """How often an item was recalled lately, and when last."""

    item_id: UUID
    times: int
    last_at: datetime


async def add_counts(tx: Transaction, counts: Sequence[Accesses]) -> None:
    """Add to what is known of the use of items."""
    await tx.run(
        queries.add_counts,
        item_ids=[one.item_id for one in counts],
        times=[one.times for one in counts],
        last_ats=[one.last_at for one in counts],
    )


async def read_version(database: Database, identity: Identity) -> int:
    """How often what the identity may recall has changed; it differs after every change."""
    ((version,),) = await database.execute(
        identity,
        queries.version,
        user_id=identity.user_id,
        agent_id=identity.agent_id,
        session_id=identity.session_id,
    )
    return int(version)


async def links_among(database: Database, identity: Identity, item_ids: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """Pairs of these items of which the first was taken from the second."""
    return [
        (fact, turn) for fact, turn in await database.execute(identity, queries.links_among, item_ids=list(item_ids))
    ]
