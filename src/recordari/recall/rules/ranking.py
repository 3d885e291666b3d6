"""The ranker: scores candidates by words, late interaction, meaning, session and wording.

Every feature is about 0 to 1 and the weights are few and round: one setting for all data. Scores are computed for a few
hundred candidates in numpy; nothing here reads a database or a model.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import numpy as np
from numpy.typing import NDArray

from recordari.core.frozen import quickly_made
from recordari.core.identity import AskedScope
from recordari.memory.rules import REQUEST_TERMS, Collection, QuestionWording
from recordari.recall.rules.arms import ArmHits, marked, within
from recordari.recall.rules.candidates import Columns, Tokens
from recordari.recall.rules.numbering import Candidate, Floats, FoundRow, Ids, Mask, SearchHits
from recordari.recall.rules.temporal.times import Interval


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the similarities of a model say: mean and deviation of those between a question and an unrelated text."""

    mean: float
    deviation: float
    worth: float = 1.0
    """How much they count beside those of the public models."""
    is_one_measure: bool = False
    """Whether the model has learnt one measure for all questions: what is near to one is as near as what is near to another."""


CALIBRATIONS: Mapping[str, Calibration] = {
    "memory-embedder": Calibration(0.47, 0.095, worth=2.0, is_one_measure=True),
    "e5-small-v2": Calibration(0.785, 0.027),
    "arctic-embed-s": Calibration(0.60, 0.043),
    "potion-base-8M": Calibration(0.26, 0.13),
}
FIRST_OF_DOCUMENT = 5  # chunks that speak for a document
UNRELATED_WISH = 0.1  # how near a question often is to a wish about something else


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The one setting of the ranker; `docs/ranking.md` shows the worth of each."""

    words: float = 1.2
    late: float = 1.0
    meaning: float = 0.8
    session: float = 1.0
    others: float = 0.0  # of documents: what their other chunks say
    following: float = 0.4
    speaker: float = 0.4
    own_words: float = 2.0
    verbatim: float = 5.0  # a quoted text comes first, whoever said it
    question: float = -0.2
    dated: float = 0.5
    interval: float = 0.7
    inside: float = 1.0  # and made within it
    newer: float = 2.0  # times how plainly the question asks for the present
    # A session is on the matter from the second share of the best score on, and not at all below the first.
    on_the_matter: tuple[float, float] = (0.6, 0.85)
    disclosure: float = 0.4
    wished: float = 8.0  # times how near the question is to what a standing wish is about
    entity: float = 0.1
    linked: float = 0.6
    repeat: float = 0.01
    repeat_of_many: float = 0.05  # where the question asks for a list or a count
    saturation: float = 1.2
    length_share: float = 0.5
    previous_words: float = 0.5
    date_words: float = 0.5
    previous_late: float = 0.8
    request_words: float = 0.2
    archived: float = 0.85  # times the score of what has faded
    interval_slack: timedelta = timedelta(days=14)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything the ranker knows about the question."""

    terms: Sequence[str]
    words: frozenset[str]
    wording: QuestionWording
    interval: Interval | None
    tokens: Tokens | None
    calibration: Calibration | None
    """Of the model in use."""
    by_tokens: bool = False
    """Whether its meaning is compared by the static vectors of tokens instead of the model's vectors."""
    asker: frozenset[str] = frozenset()
    """Terms that name the user: people say "I" of themselves, so their own words match them."""

    @property
    def asks_for_now(self) -> float:
        """How clearly it asks for the present."""
        return self.wording.present if self.interval is None else 0.0


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate with its score and the parts of the score."""

    candidate: FoundRow
    row: int
    """Its index in the columns."""
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    passage: int | None = None
    """Of a long text: the number of the passage that fits best."""
    fit: float | None = None
    """How well it fits the question by words, late interaction and meaning alone."""
    near: float = 0.0
    """How near it is to the question by meaning alone, above an unrelated text."""
    own_words: float = 0.0
    """The part of the score that it has because the user said it, whatever it says."""
    ranks: Mapping[str, int | None] | None = None
    """The rank that each arm gave, in a trace."""
    similarity: float | None = None
    read: float | None = None
    """The log-odds that a cross-encoder gave it, if it has read it."""


def ranked(
    question: Question,
    columns: Columns,
    results: SearchHits,
    collection: Collection,
    *,
    weights: Weights,
    scope_weights: Mapping[AskedScope, float],
    line: Sequence[str] = (),
    limit: int,
    explained: bool,
) -> list[Ranked]:
    """The candidates that answer best, best first; each choice lowers the rest of its session a little."""
    if not len(results.hits):
        return []
    rows = None
    if columns.is_large:
        rows = _with_rows_before(results.hits, columns)
        columns, results = columns.among(rows), results.among(rows)
    hits = results.hits
    features = features_of(question, columns, results, collection, weights)
    parts = weighed(features, weights)
    total = sum(parts.values(), np.zeros(len(hits)))
    # Poor candidates are ordered too: below 0 a scope that counts for more is nearer to 0.
    faded = np.where(columns.is_archived, weights.archived, 1.0)
    factors = (columns.by_place(scope_weights, line) * faded)[hits]
    scores = np.where(total > 0, total * factors, total / np.maximum(factors, 1e-9))
    repeat = max(weights.repeat, weights.repeat_of_many) if question.wording.many and weights.repeat else weights.repeat
    order = spread_over_sessions(features, scores, repeat, limit)
    base = parts["words"] + parts["late"] + parts["meaning"]
    own_words = parts.get("own_words")
    return [
        Ranked(
            candidate=columns.rows[hits[hit]],
            row=int(hits[hit] if rows is None else rows[hits[hit]]),
            score=score,
            parts={name: round(float(values[hit]), 4) for name, values in parts.items()} if explained else {},
            fit=float(base[hit]),
            near=float(features.meaning[hit]),
            own_words=float(own_words[hit]) if own_words is not None else 0.0,
        )
        for hit, score in order
    ]


def _with_rows_before(hits: Ids, columns: Columns) -> Ids:
    """The hits and the rows before them, which lend them their words."""
    before = columns.before[hits]
    return np.union1d(hits, before[before >= 0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the ranker knows about the hits of one search, before any weight; a value for each hit."""

    words: Floats
    late: Floats
    meaning: Floats
    threads: Ids
    sessions: Ids
    after: Ids
    """The index of the hit that follows, or -1."""
    moments: Floats
    is_turn: Mask
    present: float
    """How clearly the question asks for the present."""
    priors: Mapping[str, Floats]
    """What does not depend on a match: speaker, time and wording."""


def features_of(
    question: Question, columns: Columns, results: SearchHits, collection: Collection, weights: Weights
) -> Features:
    hits: Ids | slice = results.hits
    place: Ids = np.full(len(columns) + 1, -1)
    place[hits] = np.arange(len(results.hits))
    if len(results.hits) == len(columns):
        hits = slice(None)  # every row of a small memory: nothing to choose
    return Features(
        words=_words(question, columns, collection, weights)[hits],
        late=_late_interaction(question, columns, collection, weights)[hits],
        meaning=_meaning(question, _similarity(question, columns, results)[hits]),
        threads=columns.threads[hits],
        sessions=columns.sessions[hits],
        after=place[columns.after[hits]],
        moments=columns.moments[hits],
        is_turn=~columns.is_alone[hits],
        present=question.asks_for_now,
        priors={name: values[hits] for name, values in _priors(question, columns, results, weights).items()},
    )


def weighed(features: Features, weights: Weights) -> dict[str, Floats]:
    """The parts of each score."""
    parts = {
        "words": weights.words * features.words,
        "late": weights.late * features.late,
        "meaning": weights.meaning * features.meaning,
    }
    base = sum(parts.values(), np.zeros(len(features.words)))
    parts["session"] = weights.session * _best_of_session(features.threads, base)
    if weights.others:
        parts["others"] = weights.others * _others_of_session(features.threads, base)
    parts["following"] = weights.following * np.append(base, 0.0)[features.after]
    if features.present:
        parts["newer"] = weights.newer * features.present * _newer(features, base, weights.on_the_matter)
    return parts | {name: getattr(weights, name) * values for name, values in features.priors.items()}


def _words(question: Question, columns: Columns, collection: Collection, weights: Weights) -> Floats:
    """BM25 over the text, half of the text before it, its speaker and half its date; divided by its upper bound."""
    terms = list(dict.fromkeys(question.terms))
    mean = max(collection.mean_length, 1.0)
    name = ("words", mean, weights.previous_words, weights.date_words)
    matched = columns.cached_lines(name, terms, partial(_saturated, columns, mean, weights))
    rarities = [_weighed_rarity(term, collection, weights) for term in terms]
    scores = _weighed_sum(question, columns, terms, rarities, matched)
    return np.asarray(scores / max((weights.saturation + 1) * sum(rarities), 1e-9))


def _weighed_sum(
    question: Question,
    columns: Columns,
    words: Sequence[str],
    weights: Sequence[float],
    matched: NDArray[np.float32],
) -> Floats:
    """How well each row matches all words; what a user says matches the user's name too."""
    if question.asker and not question.asker.isdisjoint(words):
        matched = matched.copy()
        for place, word in enumerate(words):
            if word in question.asker:
                matched[place] = np.maximum(matched[place], columns.is_users)
    weighed = matched * np.array(weights, dtype=np.float32)[:, None]
    return np.asarray(np.add.reduce(weighed, axis=0, dtype=np.float64))


def _saturated(columns: Columns, mean: float, weights: Weights, terms: Sequence[str]) -> NDArray[np.float32]:
    """The frequency of each term in each row, saturated: each repetition adds less."""
    count = columns.counts(terms)
    frequency = count[:, :-1] + weights.previous_words * np.minimum(count.take(columns.before, axis=1), 2)
    for line, term in zip(frequency, terms, strict=True):
        for rows in columns.spoken_by(term):
            line[rows] += 1
        for rows in columns.dated(term):
            line[rows] += weights.date_words
    # A text shorter than the mean gets no bonus for being short; a longer one pays.
    relative = np.maximum(columns.lengths / mean, 1.0)
    pivot = weights.saturation * (1 - weights.length_share + weights.length_share * relative)
    return np.asarray(frequency * (weights.saturation + 1) / (frequency + pivot), dtype=np.float32)


def _weighed_rarity(term: str, collection: Collection, weights: Weights) -> float:
    return collection.rarity(term) * (weights.request_words if term in REQUEST_TERMS else 1.0)


def _late_interaction(question: Question, columns: Columns, collection: Collection, weights: Weights) -> Floats:
    """For each question token the best match among the text's tokens (or a little less: of the text before)."""
    tokens = question.tokens
    if tokens is None or not len(tokens.ids):
        return np.zeros(len(columns))
    rarities = {word: _weighed_rarity(word, collection, weights) for word in dict.fromkeys(tokens.words)}
    norms = tokens.norms[tokens.ids].tolist()
    weighed = [rarities[word] * norm for word, norm in zip(tokens.words, norms, strict=True)]
    best = columns.best_matches(tokens, weights.previous_late)
    return np.asarray(_weighed_sum(question, columns, tokens.words, weighed, best) / max(sum(weighed), 1e-9))


def _similarity(question: Question, columns: Columns, results: SearchHits) -> Floats:
    """How near each row is to the question."""
    if not question.by_tokens or question.tokens is None:
        return results.similarity
    direction = _direction(question.tokens.ids, question.tokens)
    return np.asarray(columns.directions(question.tokens) @ direction, dtype=np.float64)


def _meaning(question: Question, similarity: Floats) -> Floats:
    """Cosine similarity above that of unrelated texts; a text not embedded yet gets the median."""
    is_unknown = np.isnan(similarity)
    present = similarity[~is_unknown]
    if not len(present):
        return np.zeros(len(similarity))
    scale = question.calibration or Calibration(float(present.min()), max(float(np.ptp(present)) / 4, 1e-6))
    filled = np.where(is_unknown, np.median(present), similarity) if len(present) < len(similarity) else similarity
    return np.asarray((filled - scale.mean) * (scale.worth / (4 * scale.deviation)), dtype=np.float64)


def _best_of_session(threads: Ids, base: Floats) -> Floats:
    """The best base score in the same session: a conversation about the matter holds its answer."""
    best: Floats = np.full(int(threads.max(initial=0)) + 1, -np.inf)
    np.maximum.at(best, threads, base)
    return best[threads]


def _others_of_session(threads: Ids, base: Floats) -> Floats:
    """How far the second to fifth best of the same document are above the middle of all hits, in sum."""
    above = np.maximum(base - np.median(base), 0)
    order = np.lexsort((-above, threads))
    rank = np.arange(len(order)) - np.searchsorted(threads[order], threads[order])
    more = order[(rank >= 1) & (rank < FIRST_OF_DOCUMENT)]
    total = np.bincount(threads[more], above[more], minlength=int(threads.max(initial=0)) + 1)
    return np.asarray(total[threads], dtype=np.float64)


def _newer(features: Features, base: Floats, on_the_matter: tuple[float, float]) -> Floats:
    """How late each text is among the sessions on the matter, from 0 for the first to 1 for the last, if it fits."""
    newer = np.zeros(len(base))
    is_turn, sessions = features.is_turn, features.sessions
    # A fact is short and fits better than any turn: turns decide how well a session fits, and a fact is as new as the
    # session in which it was stated. Facts without such a turn are compared with each other.
    of_turns = is_turn | np.isin(sessions, sessions[is_turn])
    for alike, groups, leads in ((of_turns, sessions, is_turn), (~of_turns, features.threads, ~of_turns)):
        if alike.any():
            newer[alike] = _newer_alike(
                features.moments[alike], groups[alike], leads[alike], base[alike], on_the_matter
            )
    return newer


def _newer_alike(moments: Floats, groups: Ids, leads: Mask, base: Floats, on_the_matter: tuple[float, float]) -> Floats:
    """The same among groups of texts; each group is as late and as near the matter as the texts that lead it.

    Two statements of the same thing fit a question about equally, and the later one holds. A session counts by how nearly its
    best text fits as well as the best of all, and a text by how well it fits itself.
    """
    top = base[leads].max()
    if top <= 0:
        return np.zeros(len(base))
    names, group_of = np.unique(groups, return_inverse=True)
    best, latest = np.full(len(names), -np.inf), np.full(len(names), -np.inf)
    np.maximum.at(best, group_of[leads], base[leads])
    np.maximum.at(latest, group_of[leads], moments[leads])
    least, enough = on_the_matter
    about = best > least * top
    times = np.unique(latest[about])
    late = np.searchsorted(times, latest) / max(len(times) - 1, 1)
    part = np.minimum(1.0, (best / top - least) / (enough - least))
    share = np.where(about, late * part, 0.0)
    return np.asarray(np.clip(base / top, 0, 1) * share[group_of], dtype=np.float64)


def _priors(question: Question, columns: Columns, results: SearchHits, weights: Weights) -> dict[str, Floats]:
    """What does not depend on matching words: speaker, time and wording."""
    priors = {
        "verbatim": columns.are_verbatim(question.terms),
        "question": columns.asks,
        "disclosure": columns.disclosure,
        "entity": results.entity,
    }
    if question.tokens is not None and (wished := _wished(question.tokens, columns)) is not None:
        priors["wished"] = wished
    if results.linked.any():
        priors["linked"] = results.linked
    named = columns.speakers.keys() & question.words
    if len(named) == 1:
        priors["speaker"] = marked(len(columns), columns.speakers[named.pop()])
    if question.wording.about_the_speaker:
        priors["own_words"] = columns.is_users
    if question.wording.when:
        priors["dated"] = columns.is_dated
    if question.interval is not None:
        # People talk about things a little later; a record is made when they happen.
        priors["interval"] = within(columns.moments, question.interval, weights.interval_slack)
        priors["inside"] = within(columns.moments, question.interval)
    return {name: np.asarray(values, dtype=np.float64) for name, values in priors.items()}


def _wished(tokens: Tokens, columns: Columns) -> Floats | None:
    """How near the question is to what each standing wish is about, 0 to 0.9; None without wishes.

    An assistant's or a tool's words are no wish: only the user's, and what is kept as known.
    """
    wishes = np.flatnonzero(columns.wishes & (columns.is_users | columns.is_alone))
    if not len(wishes) or not len(tokens.ids):
        return None
    about = columns.cached(("wishes",), lambda: _about(wishes, tokens, columns))
    near = np.zeros(len(columns))
    near[wishes] = np.maximum(about @ _direction(tokens.ids, tokens) - UNRELATED_WISH, 0)
    return near


def _about(wishes: Ids, tokens: Tokens, columns: Columns) -> NDArray[np.float32]:
    """The direction of what each wish is about, a line for each."""
    texts = (columns.tokens_of(row) for row in wishes.tolist())
    parts = (_after(text, tokens.asking, tokens.ends) for text in texts)
    return np.array([_direction(np.array(part, dtype=np.int64), tokens) for part in parts], dtype=np.float32)


def _after(text: Sequence[int], marks: frozenset[int], ends: frozenset[int]) -> Sequence[int]:
    """The tokens after the last mark, up to the next end; all of them if nothing follows a mark."""
    first = max((place + 1 for place, token in enumerate(text) if token in marks), default=0)
    past = next((place for place in range(first, len(text)) if text[place] in ends), len(text))
    return text[first:past] or text


def _direction(ids: Ids, tokens: Tokens) -> NDArray[np.float32]:
    """The mean of these tokens' vectors, at length 1."""
    mean = tokens.norms[ids] @ tokens.unit[ids]
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-9), dtype=np.float32)


def spread_over_sessions(features: Features, scores: Floats, penalty: float, limit: int) -> list[tuple[int, float]]:
    """Choose the best hit again and again, each with its score at that moment; ties go to the newer."""
    limit = min(limit, len(scores))
    # Each choice lowers the others of its session by the penalty: a score further behind than that is never chosen.
    least = np.partition(scores, len(scores) - limit)[len(scores) - limit] - penalty * limit
    near = np.flatnonzero(scores >= least)
    # A difference of age decides only between equal scores.
    keys = features.moments[near] * -1e-16 - scores[near]
    best = near[np.lexsort((near, keys))]
    if len(set(features.threads[best].tolist())) == len(best):  # nothing is lowered
        return list(zip(best[:limit].tolist(), scores[best[:limit]].tolist(), strict=True))
    waiting = list(zip(np.sort(keys).tolist(), best.tolist(), scores[best].tolist(), strict=True))
    sessions = features.threads[best].tolist()
    # A choice lowers all others of its session alike: of each session only the best that is left can be next. `heads` has
    # those of sessions that were chosen from, `behind` what was met after them.
    heads: list[tuple[float, int, float, int]] = []
    behind: dict[int, deque[tuple[float, int, float]]] = {}
    chosen: dict[int, int] = {}
    order: list[tuple[int, float]] = []

    def lower(session: int) -> None:
        if behind[session]:
            key, hit, score = behind[session].popleft()
            loss = penalty * chosen[session]
            heapq.heappush(heads, (key + loss, hit, score - loss, session))

    place = 0
    while len(order) < limit:
        while place < len(waiting) and (session := sessions[place]) in chosen:
            behind[session].append(waiting[place])
            if len(behind[session]) == 1 and all(head[3] != session for head in heads):
                lower(session)
            place += 1
        if place == len(waiting) or (heads and heads[0][:2] < waiting[place][:2]):
            _, hit, score, session = heapq.heappop(heads)
        else:
            (_, hit, score), session = waiting[place], sessions[place]
            behind[session] = deque()
            place += 1
        order.append((hit, score))
        chosen[session] = chosen.get(session, 0) + 1
        lower(session)
    return order


def with_ranks(best: Sequence[Ranked], hits: ArmHits) -> list[Ranked]:
    """The same with the rank that each arm gave, for a trace."""
    ranks = {arm: {int(row): rank for rank, row in enumerate(rows, start=1)} for arm, rows in hits.arms.items()}
    similarity = hits.results.similarity
    return [
        replace(
            item,
            ranks={arm: of_rows.get(item.row) for arm, of_rows in ranks.items()},
            similarity=None if np.isnan(similarity[item.row]) else float(similarity[item.row]),
        )
        for item in best
    ]


def with_own_ranks(best: Sequence[Ranked], candidates: Sequence[Candidate]) -> list[Ranked]:
    """The same for candidates of the database, which know their ranks."""
    return [
        replace(item, ranks=candidates[item.row].ranks, similarity=candidates[item.row].similarity) for item in best
    ]
