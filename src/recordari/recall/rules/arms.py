"""What finds candidates among rows that are all at hand: the same arms as in `search.sql`, in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from recordari.recall.rules.candidates import Columns, Floats, Ids, Mask, SearchHits
from recordari.recall.rules.temporal.times import Interval

FEW_MENTIONS = 12
"""A link is followed through names that so many items mention at most: what everybody mentions links nothing."""
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
    found: SearchHits


def look(
    columns: Columns,
    similarity: Floats,
    mentions: Mapping[str, Ids],
    *,
    terms: Mapping[str, float],
    interval: Interval | None,
    entity_keys: Sequence[str],
    follows_links: bool,
    depths: Depths,
    facts_apart: bool,
    ordered: bool,
) -> Looked:
    """Find the rows that may answer: by words, meaning, time and names, and the one after each of these.

    With facts apart, each arm brings facts beside its other rows, and none of them in the place of one. Unless they must
    be ordered, as for a trace, the rows of an arm come as they stand.
    """
    many = len(columns)
    best = partial(_best, columns.is_fact if facts_apart else None, ordered)
    text = best(_by_words(columns, terms), depths.text) if terms and depths.text else _NOTHING
    known = np.flatnonzero(~np.isnan(similarity)) if depths.vector else _NOTHING
    vector = best((known, similarity[known]), depths.vector)
    time = _best(None, ordered, _timely(columns, interval), depths.time) if interval and depths.time else _NOTHING
    entity = best(_naming(many, mentions, entity_keys), depths.entity) if entity_keys and depths.entity else _NOTHING
    linked = _linked(mentions, entity_keys, depths.entity) if follows_links and depths.entity else _NOTHING
    entity = np.concatenate([entity, linked[~np.isin(linked, entity)]])
    is_hit = np.zeros(many + 1, dtype=np.bool_)
    for arm in (text, vector, time, entity):
        is_hit[arm] = True
    is_hit[columns.after[np.flatnonzero(is_hit[:-1])]] = True  # the one after a hit may be its answer
    found = SearchHits(
        hits=np.flatnonzero(is_hit[:-1]),
        similarity=similarity,
        entity=marked(many, entity),
        linked=marked(many, linked),
    )
    return Looked(text=text, vector=vector, time=time, entity=entity, found=found)


def _best(is_fact: Mask | None, ordered: bool, scored: tuple[Ids, Floats], depth: int) -> Ids:
    """The places with the highest scores; where facts are told apart, so many of them and so many others."""
    places, scores = scored
    if is_fact is None:
        chosen = _highest(scores, depth)
    else:
        sorts = (np.flatnonzero(~is_fact[places]), np.flatnonzero(is_fact[places]))
        chosen = np.sort(np.concatenate([sort[_highest(scores[sort], depth)] for sort in sorts]))
    return places[chosen[np.argsort(-scores[chosen], kind="stable")]] if ordered else places[chosen]


def _highest(scores: Floats, depth: int) -> Ids:
    """Where the highest scores stand, in the order they have; of equal ones the first."""
    many = len(scores)
    if many <= depth:
        return np.arange(many)
    # Ties are told apart whether or not a trace is asked for: an answer must not depend on that.
    least = np.partition(scores, many - depth)[many - depth]
    chosen = scores > least
    chosen[np.flatnonzero(scores == least)[: depth - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def _by_words(columns: Columns, terms: Mapping[str, float]) -> tuple[Ids, Floats]:
    """Those with any of the terms: rare terms, many of them, and short texts first."""
    scores = np.zeros(len(columns))
    for term, weight in terms.items():
        scores[columns.kept(("having", term), partial(columns.having, term))] += weight
    places = np.flatnonzero(scores)
    return places, scores[places] * columns.brevity[places]


def _timely(columns: Columns, interval: Interval) -> tuple[Ids, Floats]:
    """Those of the interval, the latest first."""
    moments = columns.moments
    inside = np.ones(len(columns), dtype=np.bool_)
    if interval.start is not None:
        inside &= moments >= interval.start.timestamp()
    if interval.end is not None:
        inside &= moments < interval.end.timestamp()
    places = np.flatnonzero(inside)
    return places, moments[places]


def _naming(many: int, mentions: Mapping[str, Ids], entity_keys: Sequence[str]) -> tuple[Ids, Floats]:
    """Those that mention most of the names first."""
    shared = np.zeros(many)
    for key in set(entity_keys):
        shared[mentions.get(key, _NOTHING)] += 1
    places = np.flatnonzero(shared)
    return places, shared[places]


def _linked(mentions: Mapping[str, Ids], entity_keys: Sequence[str], depth: int) -> Ids:
    """Those that mention what stands beside an asked name in another item, and no asked name themselves."""
    asked = set(entity_keys)
    naming = {place for key in asked for place in mentions.get(key, _NOTHING).tolist()}
    near = {place for key in asked for place in _few(mentions.get(key, _NOTHING))}
    if not near:
        return _NOTHING
    beside = (set(_few(places)) for name, places in mentions.items() if name not in asked)
    found = {place for places in beside if not near.isdisjoint(places) for place in places} - naming
    return np.array(sorted(found)[:depth], dtype=np.int64)


def _few(places: Ids) -> list[int]:
    """The places, where they are few."""
    return places.tolist() if len(places) <= FEW_MENTIONS else []


def marked(many: int, places: Ids) -> Mask:
    """A mask of `many` rows that is true at these places."""
    marks = np.zeros(many, dtype=np.bool_)
    marks[places] = True
    return marks
