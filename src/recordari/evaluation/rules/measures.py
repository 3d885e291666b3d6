"""The figures of a benchmark: measures of one answer, their means, and how sure they are."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import Stemmer
from numpy.typing import NDArray

CUTS = (1, 5, 10, 20, 50)
SESSION_CUTS = (5, 10)
RESAMPLES = 2_000
Floats = NDArray[np.float64]

_porter = Stemmer.Stemmer("porter")


def measures_of(found: Sequence[str], evidence: frozenset[str]) -> dict[str, float]:
    """How well a ranked list of references has the evidence of one question."""
    cut = {k: evidence & set(found[:k]) for k in CUTS}
    sessions = list(dict.fromkeys(map(session_of, found)))
    needed = {session_of(ref) for ref in evidence}
    gain = sum(1 / math.log2(place + 2) for place, ref in enumerate(found[:10]) if ref in evidence)
    return {
        **{f"recall@{k}": len(hits) / len(evidence) for k, hits in cut.items()},
        **{f"any@{k}": float(bool(hits)) for k, hits in cut.items()},
        **{f"all@{k}": float(len(hits) == len(evidence)) for k, hits in cut.items()},
        **{f"session any@{k}": float(not needed.isdisjoint(sessions[:k])) for k in SESSION_CUTS},
        **{f"session all@{k}": float(needed <= set(sessions[:k])) for k in SESSION_CUTS},
        "MRR": next((1 / place for place, ref in enumerate(found, start=1) if ref in evidence), 0.0),
        "nDCG@10": gain / sum(1 / math.log2(place + 2) for place in range(min(len(evidence), 10))),
    }


def session_of(ref: str) -> str:
    return ref.rpartition("#")[0]


@dataclass(slots=True)
class Score:
    """The measures of several questions."""

    rows: list[dict[str, float]] = field(default_factory=list)

    @property
    def questions(self) -> int:
        return len(self.rows)

    def add(self, found: Sequence[str], evidence: frozenset[str]) -> None:
        self.rows.append(measures_of(found, evidence))

    def means(self) -> dict[str, float]:
        names = measures_of((), frozenset({"#"}))
        return {name: sum(row[name] for row in self.rows) / max(len(self.rows), 1) for name in names}


def newest_first(found: Sequence[str], moments: Mapping[str, datetime]) -> bool | None:
    """Whether what was said last is found, and above all that was said before; None if all was said at one time."""
    last = max(moments.values(), default=None)
    newest = {ref for ref, moment in moments.items() if moment == last}
    if len(newest) == len(moments):
        return None
    first = next((place for place, ref in enumerate(found) if ref in newest), None)
    outdated = next((place for place, ref in enumerate(found) if ref in moments.keys() - newest), len(found))
    return first is not None and first < outdated


def auc(scores: Floats, labels: Sequence[bool]) -> float:
    """The probability that one that is labelled scores above one that is not."""
    is_labelled = np.array(labels, dtype=bool)
    right, wrong = scores[is_labelled], scores[~is_labelled]
    if not len(right) or not len(wrong):
        return float("nan")
    return float(np.mean((right[:, None] > wrong[None]) + 0.5 * (right[:, None] == wrong[None])))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, its 95 % interval over resampled questions, and how many questions it is from."""

    value: float
    low: float
    high: float
    questions: int


def estimate(values: Sequence[float], draws: np.random.Generator) -> Estimate:
    """A mean; the interval is that of the bootstrap over questions."""
    known = np.array(values, dtype=np.float64)
    chosen = draws.integers(len(known), size=(RESAMPLES, len(known)))
    return _between(float(known.mean()), known[chosen].mean(axis=1), len(known))


def estimate_auc(scores: Sequence[float], labels: Sequence[bool], draws: np.random.Generator) -> Estimate:
    """The area under the curve; the labelled and the others are resampled each for itself."""
    known, is_labelled = np.array(scores, dtype=np.float64), np.array(labels, dtype=bool)
    right, wrong = known[is_labelled], known[~is_labelled]
    ordered = [bool(label) for label in [*[True] * len(right), *[False] * len(wrong)]]
    drawn = [
        auc(np.concatenate([draws.choice(right, len(right)), draws.choice(wrong, len(wrong))]), ordered)
        for _ in range(RESAMPLES // 10)
    ]
    return _between(auc(known, labels), np.array(drawn), len(known))


def _between(value: float, drawn: Floats, questions: int) -> Estimate:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(value, float(low), float(high), questions)


def word_f1(said: str, gold: str) -> float:
    """The share of words that two texts have in common, by stems, without articles and punctuation."""
    ours, theirs = _words(said), _words(gold)
    common = sum(min(ours.count(word), theirs.count(word)) for word in set(ours))
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


def _words(text: str) -> list[str]:
    plain = re.sub(r"[^\w\s]", "", text.lower().replace(",", " "))
    return [_porter.stemWord(word) for word in plain.split() if word not in {"a", "an", "the", "and"}]


def locomo_f1(said: str, gold: str, category: str) -> float:
    """The F1 of LoCoMo: each part of a multi-hop answer for itself; of an open one what comes before its reason."""
    if category == "multi-hop":
        parts = [part.strip() for part in said.split(",")]
        wanted = [part.strip() for part in gold.split(",")]
        return sum(max(word_f1(part, one) for part in parts) for one in wanted) / len(wanted)
    return word_f1(said, gold.split(";")[0] if category == "open-domain" else gold)


def order_score(points: int, said: Sequence[int]) -> float:
    """How far the points of a list are there and in their order: Kendall's tau-b from 0 to 1.

    `said` has the number of each point, from 0, as an answer lists them. All that it leaves out shares the last place.
    """
    places = {point: place for place, point in enumerate(dict.fromkeys(said)) if 0 <= point < points}
    if not places:
        return 0.0
    ours = [places.get(point, len(said) + 1) for point in range(points)]
    return (_tau_b(range(points), ours) + 1) / 2


def _tau_b(first: Sequence[int], second: Sequence[int]) -> float:
    if len(first) == 1:
        return 1.0
    pairs = [(a, b) for b in range(len(first)) for a in range(b)]
    sign: Callable[[int], int] = lambda number: (number > 0) - (number < 0)  # noqa: E731
    signs = [(sign(first[b] - first[a]), sign(second[b] - second[a])) for a, b in pairs]
    apart = math.prod(sum(pair[side] != 0 for pair in signs) for side in (0, 1))
    return sum(one * other for one, other in signs) / math.sqrt(apart) if apart else 0.0
