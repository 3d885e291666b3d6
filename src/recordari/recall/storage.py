"""The queries of recall: hits that need no vector, candidates, and snapshots."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import zip_longest
from typing import Any, cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from recordari.core.checks import BEGINNING, END
from recordari.core.identity import AskedScope, Identity, SessionId, session_thread
from recordari.core.items import READ_COLUMNS, Item, Kind
from recordari.core.text import tsquery_literal
from recordari.db.database import BatchedQuery, Database, Transaction
from recordari.db.pipeline import EncodedValue
from recordari.db.queries import Queries, Query
from recordari.db.records import Record, reader
from recordari.recall.rules.arms import FEW_MENTIONS, FULL_DEPTHS, Depths
from recordari.recall.rules.candidates import Candidate
from recordari.recall.rules.sources import HISTORY_KINDS
from recordari.recall.rules.temporal.times import Interval

queries = Queries(__name__)

_read_item = reader(Item)

NO_VECTOR = np.zeros(1, dtype=np.float32)


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
    return _early_queries(variant_of(search))


@lru_cache(maxsize=32)
def _early_queries(variant: SearchVariant) -> dict[str, Query]:
    listed = " UNION ALL ".join(queries.listed.filled(part=part).sql for part in variant.vector_parts)
    fragments = {"live": variant.live, "visible": variant.visible, "listed": listed}
    # Each variant has a name of its own, because the connection prepares statements by name.
    return {
        query.name.rpartition(".")[2]: replace(query.filled(**fragments), name=f"{query.name}_{variant.name}")
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
    visible, keys = search_parameters(identity, search), list(search.entity_keys)
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
            batch.append(("seen", {"model_id": search.model_id, "limit": search.exact_below, "kinds": kinds}))
    return [(name, BatchedQuery(sent[name], list, **{**visible, **parameters})) for name, parameters in batch]


def statement(search: Search, by_index: Sequence[bool] = ()) -> Query:
    """The query of candidates for this kind of search and length of vector; `by_index`: the groups of kinds with an index."""
    variant = variant_of(search)
    groups = ("other_kinds", "fact_kinds") if search.separate_facts else ("kinds",)
    nearest = []
    for group, is_indexed in zip_longest(groups, by_index[: len(groups)], fillvalue=False):
        whole = _nearest(variant, is_indexed=is_indexed)
        nearest.append(f"({whole.replace('%(kinds)s', f'%({group})s')})")
    return queries.candidates.filled(
        nearest=" UNION ALL ".join(nearest),
        candidate_columns=queries.candidate_columns.sql,
        live=variant.live,
        visible=variant.visible,
        vector_live=variant.vector_live,
        dimensions=1 if search.vector is None else len(search.vector),
    )


@lru_cache(maxsize=64)
def _nearest(variant: SearchVariant, *, is_indexed: bool) -> str:
    # Each part is read by its own range of one index, which an OR of both might not be.
    distances = " UNION ALL ".join(f"({queries.distances.filled(part=part).sql})" for part in variant.vector_parts)
    exact = queries.exact_nearest.filled(distances=distances).sql
    if not is_indexed:
        return exact
    parts = " OR ".join(f"({part})" for part in variant.vector_parts)
    return queries.indexed_nearest.filled(exact=exact, visible_vectors=parts).sql


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
        vector_depth=search.depths.vector if search.vector is not None else 0,
        other_kinds=list(others),
        fact_kinds=list(facts[0]) if facts else [],
        **search_parameters(tx.identity, search),
    )


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

    @property
    def name(self) -> str:
        flags = {"hidden": not self.archived, "of_source": self.of_source, "history": self.history}
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
    )


def _may_be_indexed(search: Search) -> bool:
    """The index holds live vectors only, and does not know their source: most of its results would be dropped."""
    return variant_of(search).past == "holds_now" and search.source_id is None


def search_parameters(identity: Identity, search: Search) -> dict[str, Any]:
    return {
        **_visible_parameters(identity, search),
        **_vector_parameters(identity, search),
        "since": search.since or BEGINNING,
        "until": search.until or END,
        "as_of": search.as_of or END,
        "known_at": search.known_at or END,
        "source_id": search.source_id,
    }


def _visible_parameters(identity: Identity, area: Search | Visibility) -> dict[str, Any]:
    """The parameters of the fragment `visible`, for all times."""
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
    }


def _vector_parameters(identity: Identity, search: Search | Visibility) -> dict[str, Any]:
    """The owners of visible vectors, as the column `owner` writes them."""
    ids = {AskedScope.TENANT: "", AskedScope.USER: identity.user_id, AskedScope.AGENT: identity.agent_id}
    owners = [f"{scope}:{owner}" for scope, owner in ids.items() if scope in search.scopes and owner is not None]
    line = [session_thread(identity.owned_by, session_id) for session_id in search.line]
    sessions = session_thread(identity.owned_by, SessionId(""))
    return {
        "owners": owners + (line if AskedScope.SESSION in search.scopes else []),
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


class SnapshotRow:
    """A visible item with everything that recall needs of it; plain, because every search may make hundreds of them."""

    __slots__ = ("_columns", "_item", "_reads", "candidate", "embedding", "entry")

    def __init__(
        self,
        version: bytes,
        candidate: Candidate,
        embedding: NDArray[np.float16] | None,
        columns: Sequence[Any],
        reads: Sequence[Callable[[bytes], Any]] | None,
    ) -> None:
        """`columns` are those of the item; `reads` says how to read them if they are still as the database sent them."""
        self.entry = candidate.item_id.bytes + version
        self.candidate = candidate
        self.embedding = embedding
        self._columns = columns
        self._reads = reads
        self._item: Item | None = None

    @property
    def item(self) -> Item:
        """Made when it is shown, once: of the items that are searched, few are shown, and those again and again."""
        if self._item is None:
            columns = self._columns
            if self._reads is not None:
                columns = [
                    None if sent is None else read(sent) for read, sent in zip(self._reads, columns, strict=True)
                ]
            self._item = _read_item(**dict(zip(READ_COLUMNS, columns, strict=True)))
            self._columns, self._reads = (), None
        return self._item


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibleVersions:
    """The state of the items that are visible to an identity."""

    changes: int
    """How often they have changed."""
    versions: bytes
    """The id and the number of the last change of each item."""
    waiting: bool
    """Whether the topics have work left."""


async def find_visible_versions(
    database: Database, visibility: Visibility, *, known: VisibleVersions | None, topics: Sequence[str], limit: int
) -> VisibleVersions:
    """The state now; the database sends the versions only if the count of changes is not the known one."""
    identity = visibility.identity
    parameters = _visible_parameters(identity, visibility) | _vector_parameters(identity, visibility)
    parameters |= {"topics": list(topics), "limit": limit, "session_user": identity.user_id}
    parameters |= {"known": known.changes if known is not None else None}
    query = _snapshot_query(visibility, queries.visible_versions)
    ((changes, versions, waiting),) = await database.execute(visibility.identity, query, **parameters)
    if versions is None and known is not None:
        versions = known.versions
    return VisibleVersions(changes=changes, versions=versions, waiting=waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedRows:
    """The state of a small memory; entries and rows are empty if it has not changed."""

    changes: int
    waiting: bool
    entries: bytes
    """The id and the number of the last change of each visible item."""
    links: bytes
    """The ids of a fact and of what it was taken from, for each such pair."""
    rows: Sequence[SnapshotRow]
    """The items that were not known."""


async def find_owned_rows(
    database: Database,
    visibility: Visibility,
    model_id: str,
    *,
    known: int | None,
    entries: bytes,
    topics: Sequence[str],
    limit: int,
) -> OwnedRows:
    """The visible items, unless their count of changes is the known one; whole only those that are not among the entries."""
    query, parameters = _owned_query(visibility, tuple(topics))
    rows, reads = await database.execute_late(
        visibility.identity,
        query,
        late=len(READ_COLUMNS),
        **parameters,
        model_id=model_id,
        known=known,
        entries=entries,
        limit=limit,
    )
    changes, waiting, visible, links, *_ = rows[0]
    return OwnedRows(
        changes=changes,
        waiting=waiting,
        entries=visible or b"",
        links=links or b"",
        rows=[_snapshot_row(*row[5:], reads=reads) for row in rows if row[4] is not None],
    )


@lru_cache(maxsize=10_000)
def _owned_query(visibility: Visibility, topics: Sequence[str]) -> tuple[Query, Mapping[str, EncodedValue]]:
    """The query for the items of a small memory, and those of its parameters that stay the same."""
    identity = visibility.identity
    parameters = _visible_parameters(identity, visibility) | _vector_parameters(identity, visibility)
    parameters |= {"topics": list(topics), "session_user": identity.user_id}
    query = replace(_snapshot_query(visibility, queries.owned_rows), binary=True)
    return query, {name: EncodedValue(value) for name, value in parameters.items()}


async def find_snapshot_rows(
    tx: Transaction, visibility: Visibility, model_id: str, item_ids: Sequence[UUID]
) -> list[SnapshotRow]:
    parameters = _visible_parameters(visibility.identity, visibility)
    query = _snapshot_query(visibility, queries.snapshot_rows)
    return await tx.query_custom_plan(
        query, cast("type[SnapshotRow]", _snapshot_row), model_id=model_id, item_ids=list(item_ids), **parameters
    )


def _snapshot_query(visibility: Visibility, query: Query) -> Query:
    return _filled(query, AskedScope.HISTORY in visibility.scopes, visibility.archived)


@lru_cache(maxsize=16)
def _filled(query: Query, history: bool, archived: bool) -> Query:
    variant = SearchVariant(past="holds_now", archived=archived, of_source=False, history=history)
    parts = [queries.owned, *([queries.owned_history] if history else [])]
    columns = ", ".join(f"i.{column.strip()}" for column in queries.candidate_columns.sql.split(","))
    filled = query.filled(
        owned=" UNION ALL ".join(f"({part.sql})" for part in parts),
        changes=queries.changes.sql,
        snapshot_columns=queries.snapshot_columns.filled(candidate_columns=columns).sql,
        live=variant.live,
        visible=variant.visible,
    )
    return replace(filled, name=f"{query.name}_{variant.name}")


_FOUND = Candidate._fields.index("similarity")
_OTHERS = [Candidate._field_defaults[name] for name in Candidate._fields[_FOUND + 2 : -1]]


def _snapshot_row(version: bytes, *values: Any, reads: Sequence[Callable[[bytes], Any]] | None = None) -> SnapshotRow:
    """A row of `snapshot_columns`."""
    is_fact, embedding, names = values[_FOUND : _FOUND + 3]
    return SnapshotRow(
        version,
        Candidate._make([*values[:_FOUND], None, is_fact, *_OTHERS, names]),
        None if embedding is None else np.frombuffer(embedding, dtype=">f2", offset=4),
        values[_FOUND + 3 :],
        reads,
    )


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
