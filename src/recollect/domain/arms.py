"""What finds candidates among rows that are all at hand: the same arms as the statement in `search.sql`, in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from recollect.domain.candidates import Columns, Floats, Found, Ids
from recollect.domain.temporal import Interval

_NOTHING = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Depths:
    """How many candidates each arm may bring; 0 switches it off."""

    text: int = 100
    vector: int = 100
    time: int = 30
    entity: int = 30


FULL_DEPTHS = Depths()


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What each arm brought, best first, and all of it together."""

    text: Ids = field(default_factory=lambda: _NOTHING)
    vector: Ids = field(default_factory=lambda: _NOTHING)
    time: Ids = field(default_factory=lambda: _NOTHING)
    entity: Ids = field(default_factory=lambda: _NOTHING)
    found: Found


def look(
    columns: Columns,
    similarity: Floats,
    mentions: Mapping[str, Ids],
    *,
    terms: Mapping[str, float],
    interval: Interval | None,
    entity_keys: Sequence[str],
    depths: Depths,
    ordered: bool,
) -> Looked:
    """Find the rows that may answer: by words, meaning, time and names, and the one after each of these.

    Unless they must be ordered, as for a trace, the rows of an arm come as they stand.
    """
    many = len(columns)
    text = _by_words(columns, terms, depths.text, ordered) if terms and depths.text else _NOTHING
    known = np.flatnonzero(~np.isnan(similarity)) if depths.vector else _NOTHING
    vector = _best(known, similarity[known], depths.vector, ordered)
    time = _timely(columns, interval, depths.time, ordered) if interval is not None and depths.time else _NOTHING
    entity = _naming(many, mentions, entity_keys, depths.entity, ordered) if entity_keys and depths.entity else _NOTHING
    is_hit = np.zeros(many + 1, dtype=np.bool_)
    for arm in (text, vector, time, entity):
        is_hit[arm] = True
    is_hit[columns.after[np.flatnonzero(is_hit[:-1])]] = True  # the one after a hit may be its answer
    names = np.zeros(many, dtype=np.bool_)
    names[entity] = True
    found = Found(hits=np.flatnonzero(is_hit[:-1]), similarity=similarity, entity=names)
    return Looked(text=text, vector=vector, time=time, entity=entity, found=found)


def _best(places: Ids, scores: Floats, depth: int, ordered: bool) -> Ids:
    if ordered:
        return places[np.argsort(-scores, kind="stable")[:depth]]
    return places if len(places) <= depth else places[np.argpartition(-scores, depth)[:depth]]


def _by_words(columns: Columns, terms: Mapping[str, float], depth: int, ordered: bool) -> Ids:
    """Those with any of the terms: rare terms, many of them, and short texts first."""
    scores = np.zeros(len(columns))
    for term, weight in terms.items():
        scores[columns.kept(("having", term), partial(columns.having, term))] += weight
    places = np.flatnonzero(scores)
    return _best(places, scores[places] * columns.brevity[places], depth, ordered)


def _timely(columns: Columns, interval: Interval, depth: int, ordered: bool) -> Ids:
    moments = columns.moments
    inside = np.ones(len(columns), dtype=np.bool_)
    if interval.start is not None:
        inside &= moments >= interval.start.timestamp()
    if interval.end is not None:
        inside &= moments < interval.end.timestamp()
    places = np.flatnonzero(inside)
    return _best(places, moments[places], depth, ordered)


def _naming(many: int, mentions: Mapping[str, Ids], entity_keys: Sequence[str], depth: int, ordered: bool) -> Ids:
    shared = np.zeros(many)
    for key in set(entity_keys):
        shared[mentions.get(key, _NOTHING)] += 1
    places = np.flatnonzero(shared)
    return _best(places, shared[places], depth, ordered)
