"""Finding candidates: the one statement behind every recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from recollect.domain.arms import FULL_DEPTHS, Depths
from recollect.domain.candidates import Candidate
from recollect.domain.identity import Identity, Scope, SessionId
from recollect.domain.items import Item
from recollect.domain.temporal import Interval
from recollect.domain.text import tsquery_literal
from recollect.storage.database import Database, Transaction
from recollect.storage.queries import Queries, Query

queries = Queries("search")

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
END = datetime(9999, 12, 31, tzinfo=UTC)
FREQUENCY_CAP = 20_000
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
    exact_below: int | None = None
    """Look at every vector that may answer when there are fewer than this; None: always."""
    depths: Depths = FULL_DEPTHS


def statement(search: Search) -> Query:
    """The candidates' query for this kind of search and this length of vector."""
    if search.as_of is not None:
        live, vector_live = queries.believed_then, queries.vector_believed_then
    elif search.include_superseded:
        live, vector_live = queries.also_superseded, queries.vector_also_superseded
    else:
        live, vector_live = queries.live_now, queries.vector_live_now
    # The index holds live vectors only.
    is_indexed = search.exact_below is not None and search.vector is not None and live is queries.live_now
    visible, vector_visible = queries.visible.sql, queries.vector_visible.sql
    if search.source_id is not None:
        # A vector does not know its source: the index would pass over most of what it finds.
        is_indexed = False
        visible = f"{visible} AND {queries.of_source.sql}"
        vector_visible = f"{vector_visible} AND {queries.vector_of_source.sql}"
    nearest = queries.indexed_nearest if is_indexed else queries.exact_nearest
    return queries.candidates.filled(
        timely=(queries.not_timely if search.interval is None else queries.timely).sql,
        naming=(queries.naming if search.entity_keys else queries.not_naming).sql,
        nearest=nearest.sql,
        exact=queries.exact_nearest.sql,
        told=queries.told.sql,
        live=live.sql,
        visible=visible,
        vector_live=vector_live.sql,
        vector_visible=vector_visible,
        dimensions=1 if search.vector is None else len(search.vector),
    )


async def find_candidates(tx: Transaction, search: Search) -> list[Candidate]:
    """Everything that may answer, with what is needed to score it."""
    who = tx.identity
    interval = search.interval
    return await tx.planned(
        statement(search),
        Candidate,
        queries=[tsquery_literal([term]) for term in search.terms],
        weights=list(search.terms.values()),
        vector=HalfVector(NO_VECTOR if search.vector is None else search.vector),
        model_id=search.model_id,
        entity_keys=list(search.entity_keys),
        interval_start=(interval.start if interval else None) or BEGINNING,
        interval_end=(interval.end if interval else None) or END,
        kinds=list(search.kinds),
        tenant_scope=Scope.TENANT in search.scopes,
        user_id=who.user_id if Scope.USER in search.scopes else None,
        agent_id=who.agent_id if Scope.AGENT in search.scopes else None,
        session_ids=list(search.sessions),
        owners=_owners(who, search),
        exact_below=search.exact_below,
        since=search.since or BEGINNING,
        until=search.until or END,
        as_of=search.as_of,
        source_id=search.source_id,
        text_depth=search.depths.text if search.terms else 0,
        vector_depth=search.depths.vector if search.vector is not None else 0,
        time_depth=search.depths.time if interval is not None else 0,
        entity_depth=search.depths.entity if search.entity_keys else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
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
class Shelved:
    """An item that may be seen, with all that recall needs of it."""

    version: bytes
    item: Item
    candidate: Candidate
    embedding: NDArray[np.float16] | None
    names: tuple[str, ...]


async def find_standing(
    database: Database, sight: Sight, *, known: int | None, topic: str, limit: int
) -> tuple[int, bytes | None, bool]:
    """How often what may be seen was changed; the ids of these items, each with its last change; whether a topic waits.

    The ids are None when the count is the one known already.
    """
    ((version, standing, waiting),) = await database.read(
        sight.identity, _STANDING, known=known, topic=topic, limit=limit, **sight.parameters()
    )
    return version, standing, waiting


async def find_shelved(tx: Transaction, sight: Sight, model_id: str, item_ids: Sequence[UUID]) -> list[Shelved]:
    """These items, as far as they may be seen now."""
    parameters = {**sight.parameters(), "kinds": list(sight.kinds), "session_ids": list(sight.sessions)}
    rows = await tx.planned(_SHELVED, dict, model_id=model_id, item_ids=list(item_ids), **parameters)
    return [_shelved(row) for row in rows]


def _shelved(row: dict[str, Any]) -> Shelved:
    features = {name: row.pop(name) for name in ("thread", "position", "terms", "tokens", "traits")}
    version, embedding, names = row.pop("version"), row.pop("embedding"), row.pop("names")
    item = Item(**row)
    shared = {name: row[name] for name in ("item_id", "scope", "speaker", "trust", "event_time")}
    return Shelved(
        version=version,
        item=item,
        candidate=Candidate(**shared, **features),
        embedding=None if embedding is None else np.frombuffer(embedding, dtype=">f2", offset=4),
        names=tuple(names),
    )


def _owners(who: Identity, search: Search) -> list[str]:
    """Whose vectors may be seen, as the column `owner` writes them."""
    ids = {Scope.TENANT: "", Scope.USER: who.user_id, Scope.AGENT: who.agent_id}
    owners = [f"{scope}:{found}" for scope, found in ids.items() if scope in search.scopes and found is not None]
    return [*owners, *(f"{Scope.SESSION}:{session_id}" for session_id in search.sessions)]


async def measure_collection(tx: Transaction) -> tuple[int, float]:
    """How many live items the tenant has, and their mean length in terms."""
    (row,) = await tx.dicts(queries.collection)
    return int(row["items"]), float(row["mean_length"])


async def document_frequencies(database: Database, identity: Identity, terms: Sequence[str]) -> dict[str, int]:
    """In how many items each term stands, up to a cap."""
    asked = [tsquery_literal([term]) for term in terms]
    rows = await database.once(identity, queries.document_frequencies, queries=asked, cap=FREQUENCY_CAP)
    return {term: found for term, (found,) in zip(terms, rows, strict=True)}
