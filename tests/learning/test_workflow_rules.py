"""What is believed of a workflow, and how chance chooses by it."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.errors import InvalidInput
from recordari.learning.rules.workflows import Posterior, checked_prior, checked_score, thompson

parameters = st.floats(min_value=0.05, max_value=2_000)


def test_a_prior_that_says_nothing_is_flat() -> None:
    prior = Posterior()
    assert prior.mean == 0.5
    assert prior.interval(0.9) == pytest.approx((0.05, 0.95))
    assert all(density == pytest.approx(1.0) for _, density in prior.density(7))


def test_a_reward_moves_the_mean_towards_its_score_and_narrows_the_belief() -> None:
    before = Posterior(alpha=3, beta=3)
    after = before.rewarded(1.0)
    assert (after.alpha, after.beta) == (4, 3)
    assert after.mean > before.mean and after.deviation < before.deviation
    assert before.rewarded(0.25) == Posterior(alpha=3.25, beta=3.75)


@given(parameters, parameters, st.floats(min_value=0, max_value=1))
def test_every_reward_counts_one(alpha: float, beta: float, score: float) -> None:
    after = Posterior(alpha=alpha, beta=beta).rewarded(score)
    assert after.alpha + after.beta == pytest.approx(alpha + beta + 1)


# Values from tables of the F and binomial distributions: P(Beta(a, n - a + 1) <= x) = P(Binomial(n, x) >= a).
@given(st.integers(1, 30), st.integers(1, 30), st.floats(min_value=0.01, max_value=0.99))
def test_probabilities_agree_with_the_binomial_sum(a: int, b: int, worth: float) -> None:
    n = a + b - 1
    expected = sum(math.comb(n, k) * worth**k * (1 - worth) ** (n - k) for k in range(a, n + 1))
    assert Posterior(alpha=a, beta=b).probability_below(worth) == pytest.approx(expected, abs=1e-12)


@given(parameters, parameters, st.floats(min_value=0.001, max_value=0.999))
def test_a_quantile_is_where_the_probability_says(alpha: float, beta: float, probability: float) -> None:
    posterior = Posterior(alpha=alpha, beta=beta)
    quantile = posterior.quantile(probability)
    if 1e-9 < quantile < 1 - 1e-9:  # past that a float cannot tell the worths apart
        assert posterior.probability_below(quantile) == pytest.approx(probability, abs=1e-6)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (2, 5), (40.5, 3.5), (800, 1_200)])
def test_the_interval_holds_as_many_draws_as_it_says(alpha: float, beta: float) -> None:
    chance = random.Random(7)
    low, high = Posterior(alpha=alpha, beta=beta).interval(0.9)
    inside = sum(low <= chance.betavariate(alpha, beta) <= high for _ in range(5_000))
    assert 0.88 <= inside / 5_000 <= 0.92


def test_the_density_to_plot_has_the_area_one() -> None:
    curve = Posterior(alpha=12.5, beta=4).density(400)
    assert sum(density for _, density in curve) / 400 == pytest.approx(1, abs=1e-3)
    assert max(curve, key=lambda point: point[1])[0] == pytest.approx(11.5 / 14.5, abs=0.01)


def test_the_same_seed_chooses_the_same() -> None:
    posteriors = [Posterior(alpha=n + 1, beta=3) for n in range(5)]
    picks = [[thompson(posteriors, random.Random(seed)) for seed in range(50)] for _ in range(2)]
    assert picks[0] == picks[1]
    assert len({place for place, _ in picks[0]}) > 1


def test_each_is_chosen_as_often_as_it_is_likely_to_be_the_best() -> None:
    chance = random.Random(11)
    better, worse = Posterior(alpha=2, beta=1), Posterior(alpha=1, beta=2)
    first = sum(thompson([better, worse], chance)[0] == 0 for _ in range(6_000))
    assert first / 6_000 == pytest.approx(5 / 6, abs=0.02)  # P(Beta(2,1) > Beta(1,2))


def test_what_is_better_wins_in_the_end() -> None:
    chance, worth = random.Random(3), [0.3, 0.7]
    beliefs, picks = [Posterior(), Posterior()], [0, 0]
    for _ in range(500):
        place, _sample = thompson(beliefs, chance)
        picks[place] += 1
        beliefs[place] = beliefs[place].rewarded(float(chance.random() < worth[place]))
    assert picks[1] > 400


@pytest.mark.parametrize("score", [-0.01, 1.01, math.nan, math.inf, True])
def test_a_score_is_a_number_from_0_to_1(score: float) -> None:
    with pytest.raises(InvalidInput, match="from 0"):
        checked_score(score)


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, 1e9])
def test_a_prior_must_leave_room_for_rewards(alpha: float) -> None:
    with pytest.raises(InvalidInput, match="alpha"):
        checked_prior(Posterior(alpha=alpha, beta=1))
