"""The measures of an evaluation, against figures worked out by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from recordari.evaluation.rules.measures import (
    Score,
    auc,
    estimate,
    estimate_auc,
    locomo_f1,
    measures_of,
    newest_first,
    order_score,
)

DRAWS = np.random.default_rng(5)


def test_ranks_become_shares_of_evidence_sessions_and_places() -> None:
    found = ["a#1", "b#1", "a#2", "c#1", "d#1", "e#1", "f#1"]
    values = measures_of(found, frozenset({"b#1", "f#1"}))
    assert (values["recall@1"], values["recall@5"], values["recall@10"]) == (0, 0.5, 1)
    assert (values["any@1"], values["any@5"], values["all@5"], values["all@10"]) == (0, 1, 0, 1)
    # The first five sessions are a, b, c, d and e.
    assert (values["session any@5"], values["session all@5"]) == (1, 0)
    assert values["MRR"] == 0.5
    ideal = 1 + 1 / math.log2(3)
    assert values["nDCG@10"] == pytest.approx((1 / math.log2(3) + 1 / math.log2(8)) / ideal)


def test_a_score_without_questions_is_nothing_and_one_with_some_their_mean() -> None:
    score = Score()
    assert set(score.means().values()) == {0.0}
    score.add(["a#1"], frozenset({"a#1"}))
    score.add(["a#1"], frozenset({"b#1"}))
    assert score.means()["any@1"] == 0.5 and score.questions == 2


def test_the_newest_must_be_found_and_above_all_older() -> None:
    moments = {"old#1": datetime(2024, 1, 1, tzinfo=UTC), "new#1": datetime(2025, 1, 1, tzinfo=UTC)}
    assert newest_first(["x#1", "new#1", "old#1"], moments) is True
    assert newest_first(["old#1", "new#1"], moments) is False
    assert newest_first(["x#1"], moments) is False
    assert newest_first(["new#1"], {"new#1": moments["new#1"]}) is None


def test_intervals_are_around_the_mean_and_narrower_with_more_questions() -> None:
    few, many = estimate([0, 1] * 10, DRAWS), estimate([0, 1] * 500, DRAWS)
    assert few.value == many.value == 0.5
    assert few.low < many.low < 0.5 < many.high < few.high
    assert (few.questions, many.questions) == (20, 1000)
    assert auc(np.array([0.9, 0.4, 0.4, 0.1]), [True, True, False, False]) == 0.875
    sure = estimate_auc([0.9, 0.8, 0.2, 0.1], [True, True, False, False], DRAWS)
    assert (sure.value, sure.low, sure.high) == (1, 1, 1)


def test_words_in_common_count_by_stem_and_each_part_of_a_list_for_itself() -> None:
    assert locomo_f1("She adopted the dogs", "adopting a dog", "single-hop") == pytest.approx(4 / 5)
    assert locomo_f1("Lisbon, Porto", "Porto, Lisbon", "multi-hop") == 1
    assert locomo_f1("Lisbon", "Porto, Lisbon", "multi-hop") == 0.5
    assert locomo_f1("yes", "yes; she said so in May", "open-domain") == 1
    assert locomo_f1("", "no", "single-hop") == 0


def test_an_order_is_right_reversed_or_partly_there() -> None:
    assert order_score(3, [0, 1, 2]) == 1
    assert order_score(3, [2, 1, 0]) == 0
    assert order_score(3, []) == 0
    assert 0.5 < order_score(3, [0, 1]) <= 1
    assert order_score(1, [0]) == 1
    assert 0 < order_score(3, [1, 0, 2]) < 1
