"""Choosing among workflows by what came of them: a Beta posterior each, and Thompson sampling.

A workflow's worth is a number between 0 and 1 that nobody knows. What is believed of it is Beta(alpha, beta): the prior
Beta(1, 1) says nothing, and a reward of score s adds s to alpha and 1 - s to beta. To choose, one number is drawn from
each posterior and the largest wins, so that each is chosen as often as it is likely to be the best one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from recordari.errors import InvalidInput

MAX_PRIOR = 1e6
_DIGITS = 12
_STEPS = 200  # halvings of (0, 1): past any digit that a float has
_TINY = 1e-300
_PRECISION = 1e-14


class RandomSource(Protocol):
    """Where chance comes from; `random.Random` is one."""

    def betavariate(self, alpha: float, beta: float, /) -> float:
        """Draw from Beta(alpha, beta)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """What is believed of a workflow's worth."""

    alpha: float = 1.0
    beta: float = 1.0

    @property
    def mean(self) -> float:
        """The worth to be expected."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def deviation(self) -> float:
        """The standard deviation of that belief."""
        total = self.alpha + self.beta
        return math.sqrt(self.alpha * self.beta / (total * total * (total + 1)))

    def rewarded(self, score: float) -> Posterior:
        """The belief after one more outcome."""
        kept = checked_score(score)
        return Posterior(alpha=self.alpha + kept, beta=self.beta + 1 - kept)

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """The range that holds the worth with this probability, as much being left out below as above."""
        if not 0 < probability < 1:
            raise InvalidInput("probability must lie between 0 and 1", field="probability")
        tail = (1 - probability) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def quantile(self, probability: float) -> float:
        """The worth that is not exceeded with this probability."""
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
        """The density at the middles of so many equal parts of 0 to 1, for a plot."""
        if points < 2:
            raise InvalidInput("a plot needs at least 2 points", field="points")
        places = [(number + 0.5) / points for number in range(points)]
        normal = self._log_beta()
        return [
            (x, math.exp((self.alpha - 1) * math.log(x) + (self.beta - 1) * math.log1p(-x) - normal)) for x in places
        ]

    def _log_beta(self) -> float:
        return math.lgamma(self.alpha) + math.lgamma(self.beta) - math.lgamma(self.alpha + self.beta)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, from its front on (Lentz's way)."""
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
    """Draw from each posterior in order; the place of the largest number, and that number."""
    samples = [chance.betavariate(each.alpha, each.beta) for each in posteriors]
    best = max(range(len(samples)), key=samples.__getitem__)
    return best, samples[best]


def checked_score(score: float) -> float:
    """Return the score if it is one, with as many digits as are kept."""
    if isinstance(score, bool) or not 0 <= score <= 1:
        raise InvalidInput("score must be a number from 0 (failed) to 1 (as good as can be)", field="score")
    return round(float(score), _DIGITS)


def checked_prior(prior: Posterior) -> Posterior:
    """Return the prior if rewards can still move it."""
    for value in (prior.alpha, prior.beta):
        if not 0 < value <= MAX_PRIOR:
            raise InvalidInput(f"alpha and beta must be above 0 and at most {MAX_PRIOR:.0f}", field="prior")
    return prior
