"""Proposals: what says the same, what is to be retired, and when a proposal is void."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from recordari.core.items import Kind, Trust
from recordari.learning.rules.proposals import (
    Input,
    InputNow,
    NewProposal,
    Proposal,
    ProposalKind,
    ProposalStatus,
    ReviewedItem,
    changed,
    contradiction_of,
    merge_of,
    proposal_policy,
    retirement_of,
    says_the_same,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ONE = ReviewedItem(
    item_id=UUID(int=1),
    kind=Kind.FACT,
    content="Ana prefers tea without sugar",
    trust=Trust.USER,
    valid_at=NOW,
    created_at=NOW,
    confidence=None,
    sources=1,
    accesses=0,
    last_at=None,
    useful=0,
    wrong=0,
    is_pinned=False,
    is_held=False,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana prefers tea without sugar", "ana prefers tea, without sugar."),
        ("The release is on 14 May", "On 14 May is the release"),
        ("I live in Lund", "I live in Lund, which is nice"),
    ],
)
def test_other_words_for_the_same_are_the_same(one: str, other: str) -> None:
    assert says_the_same(one, other) and says_the_same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The release is on 14 May", "The release is on 15 May"),
        ("Ana eats fish", "Ana does not eat fish"),
        ("I live in Lund", "I live in Malmö"),
        ("The blue printer is broken", "The red scanner works"),
        ("", "Ana eats fish"),
    ],
)
def test_another_number_negation_or_value_is_not_the_same(one: str, other: str) -> None:
    assert not says_the_same(one, other)


def test_what_is_pinned_trusted_and_borne_out_stays() -> None:
    other = replace(ONE, item_id=UUID(int=2), content="Without sugar Ana prefers tea")
    for better in (
        replace(other, is_pinned=True),
        replace(other, sources=3),
    ):
        merge = merge_of(ONE, [better])
        assert merge is not None and merge.successor_id == better.item_id and merge.item_ids == (ONE.item_id,)
    read = merge_of(ONE, [replace(other, sources=3, trust=Trust.TOOL)])
    assert read is not None and read.successor_id == ONE.item_id
    assert merge_of(replace(ONE, is_pinned=True), [replace(other, is_pinned=True)]) is None
    assert merge_of(ONE, []) is None
    assert merge_of(ONE, [replace(other, kind=Kind.PROCEDURE)]) is None, "a wish is both, and shown once"


def test_what_nobody_uses_is_retired_and_what_somebody_does_is_not() -> None:
    later = NOW + timedelta(days=181)
    unused = retirement_of(ONE, now=later)
    assert unused is not None and unused.rule == "unused"
    assert retirement_of(ONE, now=NOW + timedelta(days=179)) is None
    for kept in (
        replace(ONE, last_at=later),
        replace(ONE, sources=2),
        replace(ONE, useful=1),
        replace(ONE, is_pinned=True),
        replace(ONE, is_held=True),
    ):
        assert retirement_of(kept, now=later) is None
    doubted = retirement_of(replace(ONE, wrong=1, confidence=0.2), now=NOW)
    assert doubted is not None and doubted.rule == "doubted"


def test_an_untrusted_carrier_needs_a_person_to_end_what_a_person_said() -> None:
    newer = replace(ONE, item_id=UUID(int=2), trust=Trust.TOOL)
    proposal = contradiction_of(ONE, newer)
    assert proposal is not None and proposal.needs_person
    by_person = contradiction_of(newer, ONE)
    assert by_person is not None and not by_person.needs_person
    assert contradiction_of(replace(ONE, is_held=True), newer) is None


def test_a_proposal_is_known_by_its_kind_and_inputs() -> None:
    one = NewProposal(kind=ProposalKind.MERGE, rule="same", item_ids=(UUID(int=1),), successor_id=UUID(int=2))
    assert one.key == replace(one, item_ids=(UUID(int=2),), successor_id=UUID(int=1), rule="other").key
    assert one.key != replace(one, kind=ProposalKind.RETIRE).key


def test_a_proposal_stands_while_its_inputs_do() -> None:
    proposal = Proposal(
        proposal_id=UUID(int=9),
        kind=ProposalKind.RETIRE,
        status=ProposalStatus.OPEN,
        rule="unused",
        item_ids=(UUID(int=1),),
        successor_id=None,
        proposed_at=NOW,
        decided_at=None,
        decided_by=None,
        reason=None,
    )
    before = [Input(item_id=UUID(int=1), tier="persistent", sources=1, confidence=0.5)]
    now = InputNow(
        item_id=UUID(int=1),
        live=True,
        is_pinned=False,
        is_held=False,
        tier="persistent",
        sources=1,
        confidence=0.5,
        last_at=NOW - timedelta(days=200),
    )
    assert changed(proposal, before, [now]) is None
    for other in (
        replace(now, live=False),
        replace(now, is_pinned=True),
        replace(now, is_held=True),
        replace(now, tier="recent"),
        replace(now, sources=2),
        replace(now, confidence=0.7),
        replace(now, last_at=NOW + timedelta(days=1)),
    ):
        assert changed(proposal, before, [other])
    assert changed(proposal, before, []) and changed(proposal, [], [])


@pytest.mark.parametrize(
    "settings", [{}, {"proposals": 3}, {"proposals": {"accept": ["promote"]}}, {"proposals": {"accept": [1]}}]
)
def test_a_policy_that_makes_no_sense_accepts_nothing(settings: dict[str, object]) -> None:
    assert proposal_policy(settings).accept == ()
