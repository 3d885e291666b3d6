"""The queries of recall: hits that need no vector, candidates, snapshots, and counts of use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import zip_longest
from operator import itemgetter
from typing import Any, cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from recordari.core.checks import BEGINNING, END
from recordari.core.identity import Identity, Scope, SessionId, session_thread
from recordari.core.items import READ_COLUMNS, Item, Kind
from recordari.core.text import tsquery_literal
from recordari.db.database import BatchedQuery, Database, Record, Transaction, reader
from recordari.db.queries import Queries, Query
from recordari.recall.rules.arms import FEW_MENTIONS, FULL_DEPTHS, Depths
from recordari.recall.rules.candidates import Candidate
from recordari.recall.rules.temporal.times import Interval

queries = Queries(__name__)

_read_item = reader(Item)

NO_VECTOR = np.zeros(1, dtype=np.float32)
_NOW = {"live": queries.live_now.sql, "visible": queries.visible.sql}
_VISIBLE_VERSIONS = queries.visible_versions.filled(**_NOW)
_COLUMNS = {"snapshot_columns": queries.snapshot_columns.sql}
_SNAPSHOT_ROWS = queries.snapshot_rows.filled(**_COLUMNS, **_NOW)
_OWNED_ROWS = replace(queries.owned_rows.filled(owned=queries.owned.sql, **_COLUMNS, **_NOW), binary=True)


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
    scopes: frozenset[Scope]
    sessions: Sequence[SessionId] = ()
    """The sessions to search, where the scopes include sessions."""
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    include_superseded: bool = False
    source_id: UUID | None = None
    """Only chunks of documents of this source."""
    follows_links: bool = False
    """A name beside one of the question in an item leads to other items that mention it (X1)."""
    separate_facts: bool = False
    """The depth of an arm counts for facts and for other kinds on their own, so that no fact displaces a message."""
    exact_below: int | None = None
    """With fewer visible vectors than this, compare every one; None: always."""
    depths: Depths = FULL_DEPTHS

    @property
    def kind_groups(self) -> Sequence[Sequence[str]]:
        """The kinds that are searched together: an arm has its full depth for each group."""
        if not self.separate_facts:
            return [list(self.kinds)]
        return [[kind for kind in self.kinds if kind != Kind.FACT], [str(Kind.FACT)]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalHits:
    """Items found without the question's vector: by words, time and names, best first."""

    text: Sequence[UUID] = ()
    time: Sequence[UUID] = ()
    entity: Sequence[UUID] = ()
    linked: Sequence[UUID] = ()
    """Items that only a link leads to."""
    crowded: Sequence[bool] = ()
    """For each group of kinds, whether so many vectors are visible that an index pays."""


def early_queries(search: Search) -> dict[str, Query]:
    """The queries that need no vector, by name, for this kind of search."""
    return _early_queries(_past(search), search.source_id is not None)


@lru_cache(maxsize=16)
def _early_queries(past: str, of_source: bool) -> dict[str, Query]:
    visible, vector_visible = _visible(of_source)
    # Each variant has a name of its own, because the connection prepares statements by name.
    variant = f"{past}_{'of_source' if of_source else 'of_any'}"
    fragments = {"live": _LIVE[past][0].sql, "visible": visible, "vector_visible": vector_visible}
    return {
        query.name.rpartition(".")[2]: replace(query.filled(**fragments), name=f"{query.name}_{variant}")
        for query in (queries.worded, queries.timely, queries.naming, queries.linked, queries.seen)
    }


async def find_early(database: Database, identity: Identity, search: Search) -> LexicalHits:
    """Everything that can be found before the question is embedded, in one round trip."""
    batch = _early_batch(identity, search)
    if batch:
        await database.read_batch(identity, [query for _, query in batch])
    rows: defaultdict[str, list[Record]] = defaultdict(list)
    for name, query in batch:
        rows[name] += query.answer
    return LexicalHits(
        text=[row["item_id"] for row in sorted(rows["worded"], key=lambda row: -row["score"])],
        time=[row["item_id"] for row in rows["timely"]],
        entity=[row["item_id"] for row in sorted(rows["naming"], key=lambda row: -row["shared"])],
        linked=[row["item_id"] for row in rows["linked"]],
        crowded=[row["number"] >= (search.exact_below or 0) for row in rows["seen"]],
    )


def _early_batch(identity: Identity, search: Search) -> list[tuple[str, BatchedQuery[list[Record]]]]:
    """The queries that need no vector, by name: times and links once, the rest for every group of kinds."""
    sent, depths, interval = early_queries(search), search.depths, search.interval
    visible, keys = _search_parameters(identity, search), list(search.entity_keys)
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
        if search.exact_below is not None and depths.vector and _may_be_indexed(search):
            owners = {"model_id": search.model_id, "owners": _owners(identity, search)}
            batch.append(("seen", {**owners, "limit": search.exact_below, "kinds": kinds}))
    return [(name, BatchedQuery(sent[name], list, **{**visible, **parameters})) for name, parameters in batch]


def statement(search: Search, by_index: Sequence[bool] = ()) -> Query:
    """The query of candidates for this kind of search and length of vector; `by_index`: the groups of kinds with an index."""
    live, vector_live = _LIVE[_past(search)]
    visible, vector_visible = _visible(search.source_id is not None)
    groups = ("other_kinds", "fact_kinds") if search.separate_facts else ("kinds",)
    nearest = []
    for group, is_indexed in zip_longest(groups, by_index[: len(groups)], fillvalue=False):
        fragment = queries.indexed_nearest if is_indexed else queries.exact_nearest
        whole = fragment.filled(exact=queries.exact_nearest.sql, vector_visible=vector_visible).sql
        nearest.append(f"({whole.replace('%(kinds)s', f'%({group})s')})")
    return queries.candidates.filled(
        nearest=" UNION ALL ".join(nearest),
        candidate_columns=queries.candidate_columns.sql,
        live=live.sql,
        visible=visible,
        vector_live=vector_live.sql,
        dimensions=1 if search.vector is None else len(search.vector),
    )


async def find_candidates(tx: Transaction, search: Search, lexical: LexicalHits) -> list[Candidate]:
    has_index = search.vector is not None and _may_be_indexed(search)
    others, *facts = search.kind_groups
    return await tx.query_custom_plan(
        statement(search, lexical.crowded if has_index else ()),
        Candidate,
        text_ids=list(lexical.text),
        time_ids=list(lexical.time),
        entity_ids=list(dict.fromkeys([*lexical.entity, *lexical.linked])),
        vector=HalfVector(NO_VECTOR if search.vector is None else search.vector),
        model_id=search.model_id,
        owners=_owners(tx.identity, search),
        vector_depth=search.depths.vector if search.vector is not None else 0,
        other_kinds=list(others),
        fact_kinds=list(facts[0]) if facts else [],
        **_search_parameters(tx.identity, search),
    )


_LIVE = {
    "live_now": (queries.live_now, queries.vector_live_now),
    "believed_then": (queries.believed_then, queries.vector_believed_then),
    "also_superseded": (queries.also_superseded, queries.vector_also_superseded),
}


def _past(search: Search) -> str:
    """The variant of `_LIVE`: items that hold now, that held then, or the retired too."""
    if search.as_of is not None:
        return "believed_then"
    return "also_superseded" if search.include_superseded else "live_now"


def _visible(of_source: bool) -> tuple[str, str]:
    """The conditions for visible items and visible vectors."""
    items, vectors = queries.visible.sql, queries.vector_visible.sql
    if not of_source:
        return items, vectors
    return f"{items} AND {queries.of_source.sql}", f"{vectors} AND {queries.vector_of_source.sql}"


def _may_be_indexed(search: Search) -> bool:
    """The index holds live vectors only, and does not know their source: most of its results would be dropped."""
    return _past(search) == "live_now" and search.source_id is None


def _search_parameters(identity: Identity, search: Search) -> dict[str, Any]:
    bounds = {"since": search.since or BEGINNING, "until": search.until or END}
    return {**_visible_parameters(identity, search), **bounds, "as_of": search.as_of, "source_id": search.source_id}


def _visible_parameters(identity: Identity, area: Search | Visibility) -> dict[str, Any]:
    """The parameters of the fragment `visible`, for all times."""
    return {
        "kinds": list(area.kinds),
        "tenant_scope": Scope.TENANT in area.scopes,
        "user_id": identity.user_id if Scope.USER in area.scopes else None,
        "agent_id": identity.agent_id if Scope.AGENT in area.scopes else None,
        "owned_by": identity.owned_by,
        "session_ids": list(area.sessions),
        "since": BEGINNING,
        "until": END,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """The caller, kinds and scopes that decide which items are visible."""

    identity: Identity
    kinds: tuple[str, ...]
    scopes: frozenset[Scope]
    sessions: tuple[SessionId, ...] = ()
    """The sessions to search, where the scopes include sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """A visible item with everything that recall needs of it."""

    version: bytes
    columns: Sequence[Any]
    """Those of the item."""
    candidate: Candidate
    embedding: NDArray[np.float16] | None
    names: Sequence[str]
    sources: Sequence[UUID]
    """Of a fact: the items that it was taken from."""

    @property
    def item(self) -> Item:
        """Made when it is needed: of the items that are searched, few are shown."""
        return _read_item(**dict(zip(READ_COLUMNS, self.columns, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleVersions:
    """The state of the items that are visible to an identity."""

    changes: int
    """How often they have changed."""
    versions: bytes
    """The id and the number of the last change of each item."""
    waiting: bool
    """Whether the topic has work left."""


async def find_visible_versions(
    database: Database, visibility: Visibility, *, known: VisibleVersions | None, topic: str, limit: int
) -> VisibleVersions:
    """The state now; the database sends the versions only if the count of changes is not the known one."""
    parameters = _visible_parameters(visibility.identity, visibility) | {"topic": topic, "limit": limit}
    ((changes, versions, waiting),) = await database.execute(
        visibility.identity, _VISIBLE_VERSIONS, known=known.changes if known is not None else None, **parameters
    )
    if versions is None and known is not None:
        versions = known.versions
    return VisibleVersions(changes=changes, versions=versions, waiting=waiting)


async def find_owned_rows(
    database: Database, visibility: Visibility, model_id: str, *, known: int | None, topic: str, limit: int
) -> tuple[int, bool, list[SnapshotRow]]:
    """How often the visible items have changed, whether the topic has work left, and up to so many of the items.

    There are none where the count of changes is the known one.
    """
    parameters = _visible_parameters(visibility.identity, visibility) | {"topic": topic, "limit": limit}
    parameters |= {"owners": _owners(visibility.identity, visibility), "model_id": model_id, "known": known}
    rows = await database.execute(visibility.identity, _OWNED_ROWS, **parameters)
    changes, waiting, *_ = rows[0]
    return changes, waiting, [_snapshot_row(*columns) for _, _, *columns in rows if columns[0] is not None]


async def find_snapshot_rows(
    tx: Transaction, visibility: Visibility, model_id: str, item_ids: Sequence[UUID]
) -> list[SnapshotRow]:
    parameters = _visible_parameters(visibility.identity, visibility)
    return await tx.query_custom_plan(
        _SNAPSHOT_ROWS,
        cast("type[SnapshotRow]", _snapshot_row),
        model_id=model_id,
        item_ids=list(item_ids),
        **parameters,
    )


_FEATURES = ("thread", "position", "terms", "tokens", "traits")
_PLACES = {name: place for place, name in enumerate((*_FEATURES, *READ_COLUMNS))}
_KIND = _PLACES["kind"]
_OF_CANDIDATE = [_PLACES[name] for name in Candidate._fields[: Candidate._fields.index("similarity")]]
_candidate_values: Callable[[Sequence[Any]], Any] = itemgetter(*_OF_CANDIDATE)


def _snapshot_row(version: bytes, *values: Any) -> SnapshotRow:
    """A row of `snapshot_columns`."""
    *columns, embedding, names, sources = values
    return SnapshotRow(
        version=version,
        columns=columns[len(_FEATURES) :],
        candidate=Candidate(*[*_candidate_values(columns), None, columns[_KIND] == Kind.FACT]),
        embedding=None if embedding is None else np.frombuffer(embedding, dtype=">f2", offset=4),
        names=names,
        sources=sources or (),
    )


def _owners(identity: Identity, search: Search | Visibility) -> list[str]:
    """The owners of visible vectors, as the column `owner` writes them."""
    ids = {Scope.TENANT: "", Scope.USER: identity.user_id, Scope.AGENT: identity.agent_id}
    owners = [f"{scope}:{owner}" for scope, owner in ids.items() if scope in search.scopes and owner is not None]
    return [*owners, *(session_thread(identity.owned_by, session_id) for session_id in search.sessions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """How often an item was recalled lately, and when last."""

    item_id: UUID
    times: int
    last_at: datetime


async def add_counts(tx: Transaction, counts: Sequence[Accesses]) -> None:
    await tx.run(
        queries.add_counts,
        item_ids=[count.item_id for count in counts],
        times=[count.times for count in counts],
        last_ats=[count.last_at for count in counts],
    )


async def read_version(database: Database, identity: Identity) -> int:
    """How often the memory of the identity has changed; it differs after every change."""
    owners = {"user_id": identity.user_id, "agent_id": identity.agent_id, "session_id": identity.session_id}
    ((version,),) = await database.execute(identity, queries.version, owned_by=identity.owned_by, **owners)
    return int(version)


async def links_among(database: Database, identity: Identity, item_ids: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """Pairs of a fact and the turn that it was taken from."""
    rows = await database.execute(identity, queries.links_among, item_ids=list(item_ids))
    return [(fact, turn) for fact, turn in rows]
