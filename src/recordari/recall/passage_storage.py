"""The queries of recall over passages of long texts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast
from uuid import UUID

from pgvector import HalfVector

from recordari.core.identity import Identity
from recordari.core.text import tsquery_literal
from recordari.db.database import Database, Transaction
from recordari.db.queries import Queries, Query
from recordari.recall.request import Passage
from recordari.recall.rules.candidates import Candidate
from recordari.recall.storage import NO_VECTOR, Search, SearchVariant, search_parameters, variant_of

queries = Queries(__name__)

DEPTH = 60
"""Passages that each arm may bring: many may be of one text."""


class FoundPassage(NamedTuple):
    """A passage that may answer, as a candidate with the id of its item."""

    ordinal: int
    candidate: Candidate


def passages_statement(search: Search) -> Query:
    """The query of passages for this kind of search and length of vector."""
    return _statement(variant_of(search), 1 if search.vector is None else len(search.vector))


@lru_cache(maxsize=64)
def _statement(variant: SearchVariant, dimensions: int) -> Query:
    parts = variant.vector_parts
    # Each part is read by its own range of one index, which an OR of both might not be.
    distances = " UNION ALL ".join(f"({queries.distances.filled(part=part).sql})" for part in parts)
    return queries.found.filled(
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
        text_depth=min(DEPTH, search.depths.text),
        vector_depth=min(DEPTH, search.depths.vector) if search.vector is not None else 0,
        **search_parameters(tx.identity, search),
    )


def _found(ordinal: int, *columns: Any) -> FoundPassage:
    return FoundPassage(ordinal, Candidate(*columns))


async def passage_texts(database: Database, identity: Identity, places: Mapping[UUID, int]) -> dict[UUID, Passage]:
    """The passage of each item at this place, unless it was cut anew meanwhile."""
    rows = await database.execute(identity, queries.texts, item_ids=list(places), ordinals=list(places.values()))
    return {
        item_id: Passage(ordinal=ordinal, start=start, past=start + len(content.encode()), content=content)
        for item_id, ordinal, start, content in rows
    }
