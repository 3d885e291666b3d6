"""What a search brought, told in the same way whether the database looked or this process did."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from uuid import UUID

import numpy as np

from recordari.recall.rules.arms import Looked
from recordari.recall.rules.candidates import Candidate, SearchHits
from recordari.recall.rules.ranking import Ranked
from recordari.recall.rules.temporal.times import Interval

ARMS = ("text", "vector", "time", "entity")
BESIDE = "beside"  # found by no arm: it stands next to what was


def found_of(candidates: Sequence[Candidate], linked: Collection[UUID] = ()) -> SearchHits:
    """What the database says of its candidates, and which of them a link led to."""
    many = len(candidates)
    return SearchHits(
        hits=np.array([place for place, one in enumerate(candidates) if one.is_hit], dtype=np.int64),
        similarity=np.array([np.nan if one.similarity is None else one.similarity for one in candidates], np.float64),
        entity=np.fromiter((one.entity_rank is not None for one in candidates), np.bool_, many),
        linked=np.fromiter((one.item_id in linked for one in candidates), np.bool_, many),
    )


def counts_of(candidates: Sequence[Candidate]) -> dict[str, int]:
    """How many candidates each arm of the database brought."""
    return {
        "text": sum(one.text_rank is not None for one in candidates),
        "vector": sum(one.vector_rank is not None for one in candidates),
        "time": sum(one.time_rank is not None for one in candidates),
        "entity": sum(one.entity_rank is not None for one in candidates),
        "beside_a_hit": sum(_is_beside(one) for one in candidates),
    }


def looked_counts(looked: Looked) -> dict[str, int]:
    """How many rows each arm brought here."""
    arms = {"text": looked.text, "vector": looked.vector, "time": looked.time, "entity": looked.entity}
    found = np.unique(np.concatenate(list(arms.values())))
    counts = {name: len(places) for name, places in arms.items()}
    return {**counts, "beside_a_hit": len(looked.found.hits) - len(found)}


def with_ranks(best: Sequence[Ranked], looked: Looked) -> list[Ranked]:
    """The same with the rank that each arm gave, for a trace."""
    arms = {"text": looked.text, "vector": looked.vector, "time": looked.time, "entity": looked.entity}
    ranks = {name: {int(place): rank for rank, place in enumerate(places, start=1)} for name, places in arms.items()}
    similarity = looked.found.similarity
    return [
        replace(
            one,
            candidate=one.candidate._replace(
                similarity=None if np.isnan(similarity[one.place]) else float(similarity[one.place]),
                text_rank=ranks["text"].get(one.place),
                vector_rank=ranks["vector"].get(one.place),
                time_rank=ranks["time"].get(one.place),
                entity_rank=ranks["entity"].get(one.place),
            ),
        )
        for one in best
    ]


def told_arms(best: Sequence[Ranked]) -> dict[UUID, tuple[str, ...]]:
    """By which arms of the database each was found."""
    return {one.candidate.item_id: _named(rank is not None for rank in _ranks(one.candidate)) for one in best}


def looked_arms(best: Sequence[Ranked], looked: Looked) -> dict[UUID, tuple[str, ...]]:
    """By which arms each was found here."""
    arms = [frozenset(places.tolist()) for places in (looked.text, looked.vector, looked.time, looked.entity)]
    return {one.candidate.item_id: _named(one.place in places for places in arms) for one in best}


def written_interval(interval: Interval | None) -> dict[str, str | None] | None:
    """An interval as a trace shows it."""
    if interval is None:
        return None
    return {
        "start": interval.start.isoformat() if interval.start else None,
        "end": interval.end.isoformat() if interval.end else None,
    }


def _is_beside(one: Candidate) -> bool:
    return not any(_ranks(one))


def _ranks(one: Candidate) -> tuple[int | None, ...]:
    return one.text_rank, one.vector_rank, one.time_rank, one.entity_rank


def _named(found: Iterable[bool]) -> tuple[str, ...]:
    return tuple(name for name, is_found in zip(ARMS, found, strict=True) if is_found) or (BESIDE,)
