"""How sure an answer is that it contains what was asked: a logistic function of a few general signs.

`bench/confidence.py` fits the coefficients and measures them on sets that they were not fitted on. It also asks each question
with what answers it taken away, so that about half of the questions it learns from cannot be answered.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from recordari.recall.rules.ranking import Question, Ranked

FIRST, COMPARED = 5, 11
"""The first items, and those that they are compared with after them."""
LEAST, MOST = -10.0, 6.0
"""Log-odds beyond these say no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What tells whether an answer contains what was asked."""

    base: float
    """How well the first item fits by words, late interaction and meaning."""
    lead: float
    """How far the score of the first item is above those of the sixth to eleventh; one that is missing counts 0. What an item
    has because the user said it does not count: everything that the user said has it."""
    other: float
    """1: the question names a speaker, and what fits best was said by another."""
    agreed: float
    """1: words and meaning both found the first item."""
    near: float | None = None
    """How near the nearest of the first items is by meaning alone; None if the model has no one measure for all questions."""
    read: float | None = None
    """The highest log-odds that a cross-encoder gave one of the first items, −10 to 6; None if it has read none."""


def signs_of(question: Question, ordered: Sequence[Ranked], *, found_by: Sequence[str]) -> Signs | None:
    """The signs of an answer; `found_by` are the arms that found its first item. None where there is nothing."""
    compared = ordered[:COMPARED]
    first = [item for item in compared[:FIRST] if item.fit is not None]
    if not first or first[0].fit is None:
        return None
    scores = [item.score - item.own_words for item in compared]
    best = max(first, key=lambda item: item.fit or 0.0)
    has_one_measure = question.calibration is not None and question.calibration.is_one_measure
    named = {(item.candidate.speaker or "").casefold() for item in compared} & question.words
    return Signs(
        base=first[0].fit,
        lead=scores[0] - sum(scores[FIRST:]) / (COMPARED - FIRST),
        other=float(len(named) == 1 and (best.candidate.speaker or "").casefold() not in named),
        agreed=float({"text", "vector"} <= set(found_by)),
        near=max(item.near for item in first) if has_one_measure else None,
        read=max((min(max(item.read, LEAST), MOST) for item in first if item.read is not None), default=None),
    )


@dataclass(frozen=True, slots=True)
class Fit:
    """What each sign counts."""

    intercept: float
    coefficients: Mapping[str, float]


UNREAD = Fit(-2.58, {"base": 0.88, "lead": 0.43, "other": -1.07, "agreed": 0.51})
NEAR = Fit(-3.8, {"near": 2.23, "lead": 0.28})
"""With a model that has one measure for all questions."""
READ = Fit(-1.96, {"read": 0.37, "lead": 0.28})
"""With a cross-encoder: it has read the question and the items together."""
BOTH = Fit(-2.84, {"read": 0.27, "lead": 0.24, "near": 0.95})
"""With a cross-encoder and such a model."""


def fit_of(known: Collection[str]) -> Fit:
    """What the signs count where those of the models are known or not."""
    if "read" in known:
        return BOTH if "near" in known else READ
    return NEAR if "near" in known else UNREAD


UNLIKELY = 0.2
"""Below it an answer hardly contains what was asked."""
NOTHING_KNOWN = "Nothing relevant is known about this."
PROBABLY_NOTHING = "Probably nothing relevant is known about this: the items are only the nearest."
PERHAPS_MISSED = "Search by meaning was not complete: more may be known about this."


def confidence_of(signs: Signs | None) -> float:
    """The probability that the answer contains what was asked, 0 to 1, if half of all questions could be answered."""
    if signs is None:
        return 0.0
    fit = fit_of({name for name in ("near", "read") if getattr(signs, name) is not None})
    total = fit.intercept + sum(weight * getattr(signs, name) for name, weight in fit.coefficients.items())
    return 1 / (1 + math.exp(-max(min(total, 30.0), -30.0)))


def hint_for(confidence: float, items: int, *, degraded: bool) -> str | None:
    """What to make of an answer that is empty or not sure."""
    if items and confidence >= UNLIKELY:
        return None
    if degraded:
        return PERHAPS_MISSED
    return PROBABLY_NOTHING if items else NOTHING_KNOWN
