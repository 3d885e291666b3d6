"""Workflows: versions of how an agent does a task, and the choice among them by Thompson sampling.

The worth of a workflow is an unknown number between 0 and 1. Our belief about it is Beta(alpha, beta). The prior
Beta(1, 1) says nothing; a reward of score s adds s to alpha and 1 - s to beta. To choose, one number is drawn from each
posterior and the largest wins, so each workflow is chosen as often as it is likely to be the best.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from recordari.core.checks import json_text
from recordari.core.described import DESCRIBED
from recordari.core.identity import AgentId, Owner, RunId, SessionId
from recordari.errors import InvalidInput

MAX_SPEC_BYTES = 64 * 1024
MAX_PRIOR = 1e6
_DIGITS = 12
_STEPS = 200  # halvings of (0, 1): past any digit that a float has
_TINY = 1e-300
_PRECISION = 1e-14


class RandomSource(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def betavariate(self, alpha: float, beta: float, /) -> float:
        """Draw from Beta(alpha, beta)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """Our belief about the worth of a workflow."""

    alpha: float = 1.0
    beta: float = 1.0

    @property
    def mean(self) -> float:
        return self.alpha / (self.alpha + self.beta)

    @property
    def deviation(self) -> float:
        total = self.alpha + self.beta
        return math.sqrt(self.alpha * self.beta / (total * total * (total + 1)))

    def rewarded(self, score: float) -> Posterior:
        score = checked_score(score)
        return Posterior(alpha=self.alpha + score, beta=self.beta + 1 - score)

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """The range that holds the worth with this probability; both tails are equal."""
        if not 0 < probability < 1:
            raise InvalidInput("probability must lie between 0 and 1", field="probability")
        tail = (1 - probability) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def quantile(self, probability: float) -> float:
        """The worth is at most this, with this probability; found by bisection."""
        low, high = 0.0, 1.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if middle in {low, high}:
                break
            if self.probability_below(middle) < probability:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def probability_below(self, worth: float) -> float:
        """The probability that the worth is less than this (the regularised incomplete beta function)."""
        if worth <= 0:
            return 0.0
        if worth >= 1:
            return 1.0
        a, b = self.alpha, self.beta
        front = math.exp(a * math.log(worth) + b * math.log1p(-worth) - self._log_beta())
        # The fraction converges fast on the near side of the mean only; the other side is its mirror image.
        if worth < (a + 1) / (a + b + 2):
            return front * _fraction(a, b, worth) / a
        return 1 - front * _fraction(b, a, 1 - worth) / b

    def density(self, points: int = 101) -> list[tuple[float, float]]:
        """The density at the middles of equal parts of 0 to 1, for a plot."""
        if points < 2:
            raise InvalidInput("a plot needs at least 2 points", field="points")
        a, b, scale = self.alpha - 1, self.beta - 1, self._log_beta()
        middles = [(number + 0.5) / points for number in range(points)]
        return [(x, math.exp(a * math.log(x) + b * math.log1p(-x) - scale)) for x in middles]

    def _log_beta(self) -> float:
        return math.lgamma(self.alpha) + math.lgamma(self.beta) - math.lgamma(self.alpha + self.beta)


WIDTH = 60  # characters of a plot
_BARS = " ▁▂▃▄▅▆▇█"


def drawn(posteriors: Sequence[Posterior], *, width: int = WIDTH, rows: int = 4) -> list[list[str]]:
    """Each posterior as a plot of text over the worths 0 to 1, all on one scale."""
    densities = [[height for _, height in posterior.density(width)] for posterior in posteriors]
    highest = max((height for density in densities for height in density), default=1.0)
    return [[_line(density, highest, row, rows) for row in range(rows - 1, -1, -1)] for density in densities]


def _line(density: Sequence[float], highest: float, row: int, rows: int) -> str:
    steps = len(_BARS) - 1
    filled = (round(height / highest * rows * steps) - row * steps for height in density)
    return "".join(_BARS[max(0, min(steps, count))] for count in filled).rstrip()


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by the method of Lentz."""
    c, d = 1.0, 1.0 / _nonzero(1 - (a + b) * x / (a + 1))
    value = d
    # The number of terms needed grows with the root of the larger parameter.
    for m in range(1, 100 + int(10 * math.sqrt(max(a, b)))):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            d = 1.0 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            change = c * d
            value *= change
        if abs(change - 1) < _PRECISION:
            break
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def thompson(posteriors: Sequence[Posterior], chance: RandomSource) -> tuple[int, float]:
    """Draw from each posterior in order. Return the index of the largest draw, and the draw."""
    samples = [chance.betavariate(posterior.alpha, posterior.beta) for posterior in posteriors]
    best = max(range(len(samples)), key=samples.__getitem__)
    return best, samples[best]


def checked_score(score: float) -> float:
    """Check a score and round it to the digits that the database keeps."""
    if isinstance(score, bool) or not 0 <= score <= 1:
        raise InvalidInput("score must be a number from 0 (failed) to 1 (perfect)", field="score")
    return round(float(score), _DIGITS)


def checked_prior(prior: Posterior) -> Posterior:
    """Check that rewards can still move a prior."""
    if not (0 < prior.alpha <= MAX_PRIOR and 0 < prior.beta <= MAX_PRIOR):
        raise InvalidInput(f"alpha and beta must be above 0 and at most {MAX_PRIOR:.0f}", field="prior")
    return prior


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One version of a workflow, with the posterior Beta(alpha, beta) of its worth."""

    workflow_id: UUID
    agent_type: str
    task_type: str
    name: str
    version: int
    spec: dict[str, Any]
    alpha: float
    beta: float
    rewards: int
    valid_at: datetime
    invalid_at: datetime | None
    superseded_by: UUID | None

    @property
    def posterior(self) -> Posterior:
        return Posterior(alpha=self.alpha, beta=self.beta)

    @property
    def is_active(self) -> bool:
        return self.invalid_at is None

    @property
    def superseded_at(self) -> datetime | None:
        """When another version took its place; None for one that is active or was retired."""
        return self.invalid_at if self.superseded_by is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One draw among the active workflows."""

    choice_id: UUID
    workflow: Workflow
    sample: float
    candidates: int
    chosen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRow:
    choice_id: UUID
    workflow_id: UUID
    agent_id: AgentId | None
    owned_by: Owner
    session_id: SessionId | None
    run_id: RunId | None
    sample: float
    candidates: int
    chosen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PastChoice(ChoiceRow):
    """A draw of the past, and the score it got."""

    __pydantic_config__ = DESCRIBED

    score: float | None
    """The mean of its outcomes; null while it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One reward of a workflow."""

    outcome_id: str
    workflow_id: UUID
    choice_id: UUID | None
    score: float
    rewarded_at: datetime


def spec_text(spec: object) -> tuple[str, bytes]:
    """Check a spec. Return its text, and a hash that is the same for equal specs."""
    if not isinstance(spec, dict):
        raise InvalidInput("spec must be a JSON object", field="spec")
    text = json_text(spec, field="spec")
    if len(text.encode()) > MAX_SPEC_BYTES:
        raise InvalidInput(f"spec must not be larger than {MAX_SPEC_BYTES} bytes", field="spec")
    return text, hashlib.sha256(json_text(spec, field="spec", sort_keys=True).encode()).digest()
