"""What the arms bring among rows that lie at hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

import numpy as np

from recordari.core.identity import Scope
from recordari.core.items import Trust
from recordari.recall.rules.arms import ArmHits, Depths, find_rows
from recordari.recall.rules.candidates import Columns
from recordari.recall.rules.numbering import Candidate

NOW = datetime(2026, 5, 2, tzinfo=UTC)


def row(number: int, *, is_fact: bool, names: Sequence[str] = ()) -> Candidate:
    return Candidate(
        item_id=UUID(int=number), scope=Scope.USER, thread=None, position=None, speaker=None, trust=Trust.USER,
        event_time=NOW, terms=b"", tokens=b"", traits=0, is_fact=is_fact, names=names,
    )  # fmt: skip


def found(facts: int, others: int, *, depth: int, separate_facts: bool, ordered: bool = False) -> ArmHits:
    """What the vector arm brings where every fact is nearer than anything else, and all facts are equally near."""
    rows = [row(number, is_fact=number < facts) for number in range(facts + others)]
    similarity = np.array([0.9] * facts + [0.5 - 0.01 * number for number in range(others)])
    return find_rows(
        Columns(rows=rows), similarity, terms={}, interval=None, bounds=None, entity_keys=[], follows_links=False,
        depths=Depths(vector=depth), separate_facts=separate_facts, ordered=ordered,
    )  # fmt: skip


def test_facts_take_no_place_of_a_message() -> None:
    together = found(5, 5, depth=3, separate_facts=False)
    assert together.vector.tolist() == [0, 1, 2]
    apart = found(5, 5, depth=3, separate_facts=True)
    assert sorted(apart.vector.tolist()) == [0, 1, 2, 5, 6, 7]
    assert found(5, 5, depth=3, separate_facts=True, ordered=True).vector.tolist() == [0, 1, 2, 5, 6, 7]


def test_of_equals_the_same_are_found_with_and_without_a_trace() -> None:
    for depth in range(1, 40):
        plain = found(30, 5, depth=depth, separate_facts=False)
        traced = found(30, 5, depth=depth, separate_facts=False, ordered=True)
        assert set(plain.vector.tolist()) == set(traced.vector.tolist())


def test_a_link_is_followed_through_names_that_few_mention() -> None:
    mentions = {
        "leo": [0],
        "maria": [0, 1],
        "ana": range(0, 40, 2),  # who says everything links nothing
        "porto": [1, 3],  # a third link is not followed
    }
    named = [[name for name, numbers in mentions.items() if number in numbers] for number in range(40)]
    rows = [row(number, is_fact=False, names=names) for number, names in enumerate(named)]

    def looked(*, follows_links: bool) -> ArmHits:
        return find_rows(
            Columns(rows=rows), np.full(40, np.nan), terms={}, interval=None, bounds=None, entity_keys=["leo"],
            follows_links=follows_links, depths=Depths(), separate_facts=False, ordered=True,
        )  # fmt: skip

    assert looked(follows_links=False).entity.tolist() == [0]
    followed = looked(follows_links=True)
    assert followed.entity.tolist() == [0, 1]
    assert np.flatnonzero(followed.results.linked).tolist() == [1]
