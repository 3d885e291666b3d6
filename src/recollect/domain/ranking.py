"""How candidates are ordered: words, late interaction, meaning, session, and what the wording asks for.

Every feature is about 0 to 1 and the weights are few and round: one setting for all data. Scores are computed for a few
hundred candidates in numpy; nothing here reads a database or a model.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from recollect.domain import text
from recollect.domain.identity import Scope
from recollect.domain.items import Trust
from recollect.domain.temporal import Interval
from recollect.domain.wording import REQUEST_TERMS, Asked, Trait

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
K = TypeVar("K", bound=Hashable)

DEFAULT_SCOPE_WEIGHTS: Mapping[Scope, float] = {
    Scope.SESSION: 1.3,
    Scope.USER: 1.1,
    Scope.AGENT: 1.0,
    Scope.TENANT: 1.0,
}

BLOCK = 64  # rows that are multiplied at a time

# Mean and deviation of the cosine similarity between a question and an unrelated text, per model.
UNRELATED_SIMILARITY: Mapping[str, tuple[float, float]] = {
    "e5-small-v2": (0.785, 0.027),
    "arctic-embed-s": (0.60, 0.043),
    "potion-base-8M": (0.26, 0.13),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The one setting of the ranker; `docs/ranking.md` shows what each is worth."""

    words: float = 1.2
    late: float = 1.0
    meaning: float = 0.8
    session: float = 1.0
    following: float = 0.4
    speaker: float = 0.4
    own_words: float = 2.0
    verbatim: float = 5.0  # what is quoted comes first, whoever said it
    question: float = -0.2
    dated: float = 0.5
    interval: float = 0.7
    newer: float = 2.0  # times how plainly the question asks for the present
    # A session is about what is asked from the second part of the best score on, and not at all below the first.
    on_the_matter: tuple[float, float] = (0.6, 0.85)
    disclosure: float = 0.4
    entity: float = 0.2
    repeat: float = 0.04
    saturation: float = 1.2
    length_share: float = 0.5
    previous_words: float = 0.5
    date_words: float = 0.5
    previous_late: float = 0.8
    request_words: float = 0.2
    interval_slack: timedelta = timedelta(days=14)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What the database returns of an item that may answer."""

    item_id: UUID
    scope: Scope
    thread: str | None
    position: int | None
    speaker: str | None
    trust: Trust
    event_time: datetime
    terms: bytes
    tokens: bytes
    traits: int
    similarity: float | None
    is_hit: bool
    """False for a row that only stands before a candidate and lends it its words."""
    text_rank: int | None
    vector_rank: int | None
    time_rank: int | None
    entity_rank: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What is known of all items of the tenant: how many, how long, and how rare each asked term is."""

    items: int
    mean_length: float
    frequencies: Mapping[str, int]

    def rarity(self, term: str) -> float:
        """Inverse document frequency, never negative."""
        found = min(self.frequencies.get(term, 0), self.items)
        return float(np.log1p((self.items - found + 0.5) / (found + 0.5)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The question's tokens in the static table, each with the term of the word it belongs to."""

    ids: Ids
    words: Sequence[str]
    unit: NDArray[np.float32]
    """The table's vectors at length 1, and what their lengths were: a long vector belongs to a telling token."""
    norms: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything the ranker knows about what was asked."""

    terms: Sequence[str]
    words: frozenset[str]
    asked: Asked
    interval: Interval | None
    tokens: Tokens | None
    calibration: tuple[float, float] | None
    """Mean and deviation of the similarity of unrelated texts for the model in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate with its score, and what the score is made of."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)


def ranked(
    question: Question,
    candidates: Sequence[Candidate],
    collection: Collection,
    *,
    weights: Weights,
    scope_weights: Mapping[Scope, float] = DEFAULT_SCOPE_WEIGHTS,
    limit: int = 50,
) -> list[Ranked]:
    """The candidates that answer best, best first; each one chosen lowers the rest of its session a little."""
    places = {
        (one.thread, one.position): index
        for index, one in enumerate(candidates)
        if one.thread is not None and one.position is not None
    }
    chosen = [index for index, one in enumerate(candidates) if one.is_hit]
    if not chosen:
        return []
    rows = np.array(chosen)
    before = _neighbours(candidates, rows, places, -1)
    after = _neighbours(candidates, rows, places, +1)
    parts = {
        "words": weights.words * _words(question, candidates, rows, before, collection, weights),
        "late": weights.late * _late_interaction(question, candidates, rows, before, collection, weights),
        "meaning": weights.meaning * _meaning(question, candidates, rows),
    }
    base = sum(parts.values(), np.zeros(len(rows)))
    parts["session"] = weights.session * _best_of_session(candidates, rows, base)
    parts["following"] = weights.following * _of_following(rows, after, base)
    if question.asked.present and question.interval is None:
        newer = np.zeros(len(rows))
        # A fact is short and fits better than any turn: facts are compared with facts, what was said with what was said.
        said = np.array([candidates[row].thread is not None for row in rows])
        for alike in (said, ~said):
            if alike.any():
                newer[alike] = _newer(candidates, rows[alike], base[alike], weights.on_the_matter)
        parts["newer"] = weights.newer * question.asked.present * newer
    parts |= _priors(question, [candidates[index] for index in chosen], weights)
    total = sum(parts.values(), np.zeros(len(rows)))
    scopes = np.array([scope_weights.get(candidates[index].scope, 1.0) for index in chosen])
    order, scores = _spread_over_sessions(candidates, rows, np.maximum(total, 0) * scopes, weights.repeat, limit)
    return [
        Ranked(
            candidate=candidates[rows[place]],
            score=float(score),
            parts={name: round(float(values[place]), 4) for name, values in parts.items()},
        )
        for place, score in zip(order, scores, strict=True)
    ]


def _neighbours(candidates: Sequence[Candidate], rows: Ids, places: Mapping[tuple[str, int], int], step: int) -> Ids:
    """For each row the index of the candidate one place away in its thread, or -1."""
    return np.array(
        [places.get((candidates[row].thread or "", (candidates[row].position or 0) + step), -1) for row in rows],
        dtype=np.int64,
    )


def _words(
    question: Question,
    candidates: Sequence[Candidate],
    rows: Ids,
    before: Ids,
    collection: Collection,
    weights: Weights,
) -> Floats:
    """BM25 over the text, half of the text before it, its speaker and half its date; divided by its upper bound."""
    asked = list(dict.fromkeys(question.terms))
    if not asked:
        return np.zeros(len(rows))
    columns = {term: column for column, term in enumerate(asked)}
    rarity = np.array([_weighed_rarity(term, collection, weights) for term in asked])
    counts, lengths = _term_counts(asked, candidates)
    frequency = counts[rows] + weights.previous_words * np.minimum(counts[before], 2) * (before >= 0)[:, None]
    for speaker, places in _grouped(candidates[row].speaker or "" for row in rows).items():
        for term in _speaker_terms(speaker) & columns.keys():
            frequency[places, columns[term]] += 1
    for day, places in _grouped(candidates[row].event_time.date() for row in rows).items():
        for term in _date_terms(day) & columns.keys():
            frequency[places, columns[term]] += weights.date_words
    # A text shorter than the mean gets no bonus for being short; a longer one pays.
    relative = np.maximum(lengths[rows] / max(collection.mean_length, 1.0), 1.0)
    pivot = weights.saturation * (1 - weights.length_share + weights.length_share * relative)
    saturated = frequency * (weights.saturation + 1) / (frequency + pivot[:, None])
    bound = (weights.saturation + 1) * rarity.sum()
    scores: Floats = saturated @ rarity / max(bound, 1e-9)
    return scores


def _grouped(values: Iterable[K]) -> dict[K, list[int]]:
    """Where each value stands."""
    places: dict[K, list[int]] = {}
    for place, value in enumerate(values):
        places.setdefault(value, []).append(place)
    return places


@lru_cache(maxsize=10_000)
def _speaker_terms(speaker: str) -> frozenset[str]:
    return frozenset(text.terms(speaker))


@lru_cache(maxsize=10_000)
def _date_terms(day: date) -> frozenset[str]:
    return frozenset(text.terms(f"{day:%d %B %Y}"))


def _weighed_rarity(term: str, collection: Collection, weights: Weights) -> float:
    return collection.rarity(term) * (weights.request_words if term in REQUEST_TERMS else 1.0)


def _term_counts(asked: Sequence[str], candidates: Sequence[Candidate]) -> tuple[Floats, Floats]:
    """How often each asked term stands in each candidate (plus an empty last row), and each one's length."""
    arrays = [np.frombuffer(candidate.terms, dtype="<u4") for candidate in candidates]
    lengths = np.array([len(array) for array in arrays], dtype=np.float64)
    counts = np.zeros((len(candidates) + 1, len(asked)))
    flat = np.concatenate(arrays) if arrays else np.empty(0, dtype="<u4")
    owners = np.repeat(np.arange(len(candidates)), lengths.astype(np.int64))
    for column, number in enumerate(text.hashes(asked)):
        np.add.at(counts[:, column], owners[flat == number], 1)
    return counts, lengths


def _late_interaction(
    question: Question,
    candidates: Sequence[Candidate],
    rows: Ids,
    before: Ids,
    collection: Collection,
    weights: Weights,
) -> Floats:
    """For each question token the best match among the text's tokens (or a little less: of the text before)."""
    tokens = question.tokens
    if tokens is None or not len(tokens.ids):
        return np.zeros(len(rows))
    norms = tokens.norms[tokens.ids]
    rarity = np.array([_weighed_rarity(word, collection, weights) for word in tokens.words])
    weight = rarity * norms
    best = _best_matches(tokens, candidates)
    previous = best[:, before] * (before >= 0)
    scores: Floats = weight @ np.maximum(best[:, rows], weights.previous_late * previous) / max(weight.sum(), 1e-9)
    return scores


def _best_matches(tokens: Tokens, candidates: Sequence[Candidate]) -> Floats:
    """Squared cosine of each question token with the nearest token of each candidate, and an empty last column."""
    arrays = [np.frombuffer(candidate.tokens, dtype="<u2") for candidate in candidates]
    filled = [index for index, array in enumerate(arrays) if len(array)]
    best = np.zeros((len(tokens.ids), len(candidates) + 1))
    if not filled:
        return best
    flat = np.concatenate([arrays[index] for index in filled])
    # Each token that occurs gets a row, by marks instead of sorting: there are many tokens and few different ones.
    occurs = np.zeros(len(tokens.unit), dtype=bool)
    occurs[flat] = True
    vocabulary = np.flatnonzero(occurs)
    place = np.empty(len(tokens.unit), dtype=np.intp)
    place[vocabulary] = np.arange(len(vocabulary))
    similar = np.square(np.maximum(_products(tokens.unit, vocabulary, tokens.unit[tokens.ids]), 0))
    starts = np.cumsum([0, *(len(arrays[index]) for index in filled[:-1])])
    best[:, filled] = np.maximum.reduceat(similar[place[flat]], starts, axis=0).T
    return best


def _products(unit: NDArray[np.float32], chosen: Ids, asked: NDArray[np.float32]) -> NDArray[np.float32]:
    """`unit[chosen] @ asked.T` in blocks so small that the linear algebra library does not wake threads for them.

    Those threads spin: under load a recall took four times as long with them.
    """
    padded = np.zeros(-(-len(chosen) // BLOCK) * BLOCK, dtype=np.intp)
    padded[: len(chosen)] = chosen
    blocks = np.matmul(unit[padded].reshape(-1, BLOCK, unit.shape[1]), asked.T)
    products: NDArray[np.float32] = blocks.reshape(len(padded), -1)
    return products


def _meaning(question: Question, candidates: Sequence[Candidate], rows: Ids) -> Floats:
    """Cosine similarity above what unrelated texts have; a text not embedded yet counts as middling."""
    known = np.array(
        [np.nan if (found := candidates[row].similarity) is None else found for row in rows], dtype=np.float64
    )
    present = known[~np.isnan(known)]
    if not len(present):
        return np.zeros(len(rows))
    mean, deviation = question.calibration or (float(present.min()), max(float(np.ptp(present)) / 4, 1e-6))
    scores: Floats = (np.where(np.isnan(known), np.median(present), known) - mean) / (4 * deviation)
    return scores


def _best_of_session(candidates: Sequence[Candidate], rows: Ids, base: Floats) -> Floats:
    """The best base score in the same session: a conversation about the matter is where its answer stands."""
    threads = [candidates[row].thread or str(candidates[row].item_id) for row in rows]
    best: dict[str, float] = {}
    for thread, score in zip(threads, base, strict=True):
        best[thread] = max(best.get(thread, score), score)
    return np.array([best[thread] for thread in threads])


def _newer(candidates: Sequence[Candidate], rows: Ids, base: Floats, on_the_matter: tuple[float, float]) -> Floats:
    """How late a text was said among the sessions about the matter, 0 for the first to 1 for the last, if it fits.

    Two statements of the same thing fit a question about equally, and the later one is the one that holds. A session counts
    by how nearly its best text fits as well as the best of all, and a text by how well it fits itself.
    """
    threads = [candidates[row].thread or str(candidates[row].item_id) for row in rows]
    best: dict[str, float] = {}
    said_at: dict[str, datetime] = {}
    for thread, row, score in zip(threads, rows, base, strict=True):
        best[thread] = max(best.get(thread, score), score)
        said_at[thread] = max(said_at.get(thread, candidates[row].event_time), candidates[row].event_time)
    top = max(best.values())
    if top <= 0:
        return np.zeros(len(rows))
    least, enough = on_the_matter
    about = {thread: (score / top - least) / (enough - least) for thread, score in best.items() if score > least * top}
    moments = sorted({said_at[thread] for thread in about})
    late = {moment: place / max(len(moments) - 1, 1) for place, moment in enumerate(moments)}
    share = {thread: late[said_at[thread]] * min(1.0, part) for thread, part in about.items()}
    scores: Floats = np.clip(base / top, 0, 1) * np.array([share.get(thread, 0.0) for thread in threads])
    return scores


def _of_following(rows: Ids, after: Ids, base: Floats) -> Floats:
    by_row = dict(zip(rows.tolist(), base.tolist(), strict=True))
    return np.array([by_row.get(int(index), 0.0) if index >= 0 else 0.0 for index in after])


def _priors(question: Question, chosen: Sequence[Candidate], weights: Weights) -> dict[str, Floats]:
    """What speaks for an item whatever its words: who said it, when, and how it is put."""
    traits = np.array([one.traits for one in chosen])
    told = traits // Trait.DISCLOSES_ONE & 3
    quoted = text.hashes(question.terms).tobytes()
    parts = {
        "verbatim": weights.verbatim * np.array([quoted != b"" and one.terms == quoted for one in chosen]),
        "question": weights.question * (traits & Trait.ASKS > 0),
        "disclosure": weights.disclosure * told / 3,
        "entity": weights.entity * np.array([one.entity_rank is not None for one in chosen]),
    }
    speakers = [(one.speaker or "").casefold() for one in chosen]
    named = set(speakers) & question.words
    if len(named) == 1:
        parts["speaker"] = weights.speaker * np.array([speaker in named for speaker in speakers])
    if question.asked.about_the_speaker:
        parts["own_words"] = weights.own_words * np.array([one.trust == Trust.USER for one in chosen])
    if question.asked.when:
        parts["dated"] = weights.dated * (traits & Trait.DATED > 0)
    if question.interval is not None:
        inside = [_within(one.event_time, question.interval, weights.interval_slack) for one in chosen]
        parts["interval"] = weights.interval * np.array(inside)
    return {name: np.asarray(values, dtype=np.float64) for name, values in parts.items()}


def _within(moment: datetime, interval: Interval, slack: timedelta) -> bool:
    """Whether something said at that moment may tell of the interval; people tell of things a little later."""
    return (interval.start is None or moment >= interval.start) and (
        interval.end is None or moment < interval.end + slack
    )


def _spread_over_sessions(
    candidates: Sequence[Candidate], rows: Ids, scores: Floats, penalty: float, limit: int
) -> tuple[list[int], list[float]]:
    """Choose the best one at a time; ties go to the newer."""
    left = scores.copy()
    numbers = {thread: number for number, thread in enumerate({candidates[row].thread for row in rows})}
    threads = np.array([numbers[candidates[row].thread] for row in rows])
    alone = numbers.get(None, -1)
    # A difference of age decides only between equal scores.
    recency = np.array([candidates[row].event_time.timestamp() for row in rows]) * 1e-16
    order: list[int] = []
    values: list[float] = []
    for _ in range(min(limit, len(rows))):
        place = int(np.argmax(left + recency))
        order.append(place)
        values.append(float(left[place]))
        if threads[place] != alone:
            left[threads == threads[place]] -= penalty
        left[place] = -np.inf
    return order, values
