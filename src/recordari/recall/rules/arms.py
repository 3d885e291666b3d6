"""The arms of recall over the rows of a snapshot: the same as in `storage.sql`, in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import numpy as np

from recordari.recall.rules.candidates import Columns
from recordari.recall.rules.numbering import ARMS, BESIDE, Floats, Ids, Mask, SearchHits
from recordari.recall.rules.temporal.times import Interval

FEW_MENTIONS = 12
"""Links lead through names that at most so many items mention: a name that is everywhere links nothing."""
_NOTHING = np.empty(0, dtype=np.int64)
_ARMS = [
    tuple(arm for bit, arm in enumerate(ARMS) if number >> bit & 1) or (BESIDE,) for number in range(1 << len(ARMS))
]
"""The arms of each sum of their bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Depths:
    """How many candidates each arm may bring; 0 switches it off."""

    text: int = 100
    vector: int = 100
    time: int = 30
    entity: int = 30


FULL_DEPTHS = Depths()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmHits:
    """The rows that each arm found, best first, and all of them together."""

    text: Ids
    vector: Ids
    time: Ids
    entity: Ids
    results: SearchHits

    @property
    def arms(self) -> dict[str, Ids]:
        return dict(zip(ARMS, (self.text, self.vector, self.time, self.entity), strict=True))

    def counts(self) -> dict[str, int]:
        """How many rows each arm found, and how many are only next to one."""
        of_arms = np.unique(np.concatenate(list(self.arms.values())))
        counts = {arm: len(rows) for arm, rows in self.arms.items()}
        return {**counts, "beside_a_hit": len(self.results.hits) - len(of_arms)}

    def found_by(self, rows: Sequence[int]) -> list[tuple[str, ...]]:
        """The arms that found each of these rows."""
        found = np.zeros(len(self.results.similarity), dtype=np.int64)
        for bit, indexes in enumerate((self.text, self.vector, self.time, self.entity)):
            found[indexes] |= 1 << bit
        return [_ARMS[number] for number in found[list(rows)].tolist()]


def find_rows(
    columns: Columns,
    similarity: Floats,
    *,
    terms: Mapping[str, float],
    interval: Interval | None,
    bounds: Interval | None,
    entity_keys: Sequence[str],
    follows_links: bool,
    depths: Depths,
    separate_facts: bool,
    ordered: bool,
) -> ArmHits:
    """Find the rows that may answer: by words, meaning, time and names, and the one after each of these.

    Rows outside of the bounds are not found. With separate facts, the depth of an arm counts for facts and for other rows
    on their own, so that no fact displaces another row. The rows of an arm are sorted by score only if `ordered`, as a
    trace needs it.
    """
    many = len(columns)
    allowed = within(columns.moments, bounds) if bounds is not None else None
    best = partial(_best, columns.is_fact if separate_facts else None, ordered, allowed)
    text = best(_by_words(columns, terms), depths.text) if terms and depths.text else _NOTHING
    embedded = np.flatnonzero(~np.isnan(similarity)) if depths.vector else _NOTHING
    vector = best((embedded, similarity[embedded]), depths.vector)
    in_interval = partial(_best, None, ordered, allowed)
    time = in_interval(_in_interval(columns, interval), depths.time) if interval and depths.time else _NOTHING
    entity = best(_naming(columns, entity_keys), depths.entity) if entity_keys and depths.entity else _NOTHING
    linked = _linked(columns, entity_keys, depths.entity) if follows_links and depths.entity else _NOTHING
    if allowed is not None:
        linked = linked[allowed[linked]]
    if len(linked):
        entity = np.concatenate([entity, linked[~np.isin(linked, entity)]])
    is_hit = np.zeros(many + 1, dtype=np.bool_)
    for arm in (text, vector, time, entity):
        is_hit[arm] = True
    is_hit[columns.after[is_hit[:-1]]] = True  # the one after a hit may be its answer
    if allowed is not None:
        is_hit[:-1] &= allowed
    results = SearchHits(
        hits=np.flatnonzero(is_hit[:-1]),
        similarity=similarity,
        entity=marked(many, entity),
        linked=marked(many, linked),
    )
    return ArmHits(text=text, vector=vector, time=time, entity=entity, results=results)


def _best(is_fact: Mask | None, ordered: bool, allowed: Mask | None, scored: tuple[Ids, Floats], depth: int) -> Ids:
    """The allowed rows with the highest scores; with separate facts so many facts and so many others."""
    rows, scores = scored
    if allowed is not None:
        scores, rows = scores[allowed[rows]], rows[allowed[rows]]
    if is_fact is None:
        chosen = _highest(scores, depth)
    else:
        groups = (np.flatnonzero(~is_fact[rows]), np.flatnonzero(is_fact[rows]))
        chosen = np.sort(np.concatenate([group[_highest(scores[group], depth)] for group in groups]))
    return rows[chosen[np.argsort(-scores[chosen], kind="stable")]] if ordered else rows[chosen]


def _highest(scores: Floats, depth: int) -> Ids:
    """The indexes of the highest scores, ascending; of equal ones the first."""
    many = len(scores)
    if many <= depth:
        return np.arange(many)
    # Ties are broken the same way with and without a trace: the answer must not depend on it.
    least = np.partition(scores, many - depth)[many - depth]
    chosen = scores > least
    chosen[np.flatnonzero(scores == least)[: depth - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def _by_words(columns: Columns, terms: Mapping[str, float]) -> tuple[Ids, Floats]:
    """Rows with any of the terms: rare terms, many of them, and short texts score high."""
    scores = np.add.reduce(columns.having(list(terms)) * np.array([*terms.values()])[:, None], axis=0)
    rows = np.flatnonzero(scores)
    return rows, scores[rows] * columns.brevity[rows]


def _in_interval(columns: Columns, interval: Interval) -> tuple[Ids, Floats]:
    """Rows of the interval; the latest score highest."""
    rows = np.flatnonzero(within(columns.moments, interval))
    return rows, columns.moments[rows]


def within(moments: Floats, interval: Interval, slack: timedelta = timedelta()) -> Mask:
    """Which moments are in the interval, or later by at most `slack`."""
    inside = np.ones(len(moments), dtype=np.bool_)
    if interval.start is not None:
        inside &= moments >= interval.start.timestamp()
    if interval.end is not None:
        inside &= moments < interval.end.timestamp() + slack.total_seconds()
    return inside


def _naming(columns: Columns, entity_keys: Sequence[str]) -> tuple[Ids, Floats]:
    """Rows that mention a name; those with most of the names score highest."""
    shared = np.zeros(len(columns))
    for key in set(entity_keys):
        shared[columns.naming(key)] += 1
    rows = np.flatnonzero(shared)
    if columns.is_large:  # thousands may mention a name: as in the database the newest, which are the last rows
        return rows, shared[rows] + rows / len(columns)
    return rows, shared[rows]


def _linked(columns: Columns, entity_keys: Sequence[str], depth: int) -> Ids:
    """Rows that mention a name which is beside one of these names in another row, and none of these names."""
    mentions = [columns.naming(key).tolist() for key in set(entity_keys)]
    naming = {row for rows in mentions for row in rows}
    near = {row for rows in mentions if len(rows) <= FEW_MENTIONS for row in rows}
    if not near:
        return _NOTHING
    beside = (rows.tolist() for rows in columns.by_names_in(near, entity_keys) if len(rows) <= FEW_MENTIONS)
    linked = {row for rows in beside for row in rows} - naming
    return np.array(sorted(linked)[:depth], dtype=np.int64)


def marked(many: int, rows: Ids) -> Mask:
    """A mask of `many` rows that is true for these."""
    marks = np.zeros(many, dtype=np.bool_)
    marks[rows] = True
    return marks
