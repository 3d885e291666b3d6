"""Verdicts of a retention policy, its validation, the safety floor, folds and quotas: all pure."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.core.items import Tier
from recordari.errors import InvalidInput, QuotaExceeded
from recordari.lifetime.rules import (
    DecayOutcome,
    Ended,
    RetentionPolicy,
    checked_policy,
    is_too_much,
    retention_policy,
    verdict,
    without_fold,
)
from recordari.sessions.rules.sessions import Fold
from recordari.tenants.rules import (
    PLANS,
    Quota,
    Usage,
    check_plan,
    check_quotas,
    quota_of,
    require_room,
    warnings_of,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LIVE = Ended(
    item_id=UUID(int=1),
    tier=Tier.PERSISTENT,
    deleted_at=None,
    invalid_at=None,
    archived_at=None,
    scope_ended_at=None,
    is_held=False,
    is_pinned=False,
)
POLICY = RetentionPolicy()


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (LIVE, DecayOutcome.KEEP),
        (replace(LIVE, deleted_at=ago(29)), DecayOutcome.KEEP),
        (replace(LIVE, deleted_at=ago(30)), DecayOutcome.ANONYMIZE),
        (replace(LIVE, invalid_at=ago(89)), DecayOutcome.KEEP),
        (replace(LIVE, invalid_at=ago(90)), DecayOutcome.ANONYMIZE),
        (replace(LIVE, archived_at=ago(5_000)), DecayOutcome.KEEP),
        (replace(LIVE, tier=Tier.SESSION, scope_ended_at=ago(2)), DecayOutcome.ARCHIVE),
        (replace(LIVE, tier=Tier.SESSION, scope_ended_at=ago(2), archived_at=ago(1)), DecayOutcome.KEEP),
        (replace(LIVE, tier=Tier.RUN, scope_ended_at=ago(31)), DecayOutcome.PURGE),
        (replace(LIVE, tier=Tier.RUN, scope_ended_at=ago(31), is_held=True), DecayOutcome.KEEP),
        (replace(LIVE, deleted_at=ago(31), is_held=True), DecayOutcome.KEEP),
        (replace(LIVE, invalid_at=ago(91), is_pinned=True), DecayOutcome.KEEP),
        (replace(LIVE, deleted_at=ago(31), is_pinned=True), DecayOutcome.ANONYMIZE),
    ],
)
def test_the_default_policy(item: Ended, expected: DecayOutcome) -> None:
    assert verdict(item, POLICY, now=NOW) is expected


moments = st.none() | st.integers(0, 400).map(ago)


@given(
    st.builds(
        Ended,
        item_id=st.just(UUID(int=1)),
        tier=st.sampled_from(list(Tier)),
        deleted_at=moments,
        invalid_at=moments,
        archived_at=moments,
        scope_ended_at=moments,
        is_held=st.booleans(),
        is_pinned=st.booleans(),
    ),
    st.none() | st.integers(0, 100),
)
def test_persistent_memory_is_never_purged_and_held_memory_is_never_touched(
    item: Ended, archived_days: int | None
) -> None:
    found = verdict(item, replace(POLICY, archived_days=archived_days), now=NOW)
    if item.tier is Tier.PERSISTENT:
        assert found is not DecayOutcome.PURGE
    if item.is_held:
        assert found is DecayOutcome.KEEP


@pytest.mark.parametrize(
    "wrong",
    [
        {"deleted_days": -1},
        {"superseded_days": 1.5},
        {"batch_size": 0},
        {"batch_size": True},
        {"safety_share": 0},
        {"safety_share": "half"},
        {"dry_run": "no"},
        {"archived_days": -3},
        {"colour": "red"},
    ],
)
def test_what_is_not_valid_is_named_and_falls_back(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        checked_policy(wrong)
    assert retention_policy({"memory_retention": wrong}) == (RetentionPolicy(), False)


def test_a_policy_is_read_as_it_is_written() -> None:
    policy = checked_policy({"deleted_days": 1, "archived_days": 9, "safety_share": 1})
    assert retention_policy({"memory_retention": asdict(policy)}) == (policy, True)
    assert retention_policy({}) == (RetentionPolicy(), True)


def test_a_sweep_of_too_much_is_one_of_a_large_share_in_a_tenant_of_any_size() -> None:
    assert is_too_much(1, 3, POLICY) and not is_too_much(1, 4, POLICY)
    assert is_too_much(100, 100, POLICY)
    assert is_too_much(101, 400, POLICY)
    assert not is_too_much(101, 404, POLICY)
    assert not is_too_much(10_000, 10_000, replace(POLICY, safety_share=1.0))


def fold(number: int, first: int, last: int) -> Fold:
    return Fold(summary_id=UUID(int=number), first=first, last=last)


def test_the_folds_that_tell_a_place_are_given_up() -> None:
    folds = [fold(1, 1, 10), fold(2, 11, 20), fold(3, 21, 30)]
    assert without_fold(folds, 30, 15) == ((folds[0],), 10, (UUID(int=2), UUID(int=3)))
    assert without_fold(folds, 30, 35) == ((folds[0], folds[1]), 20, (UUID(int=3),)), "one may be in the making"
    assert without_fold([], 0, 5) == ((), -1, ())
    assert without_fold([], -1, 5) == ((), -2, ())


NOON = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
TODAY = NOON.date()
SMALL = Quota(items=10, bytes=1_000, writes_per_day=5)


def test_quotas_warn_near_the_limit_and_refuse_past_it() -> None:
    used = Usage(items=8, bytes=10, writes=2, day=TODAY)
    assert warnings_of(SMALL, used, day=TODAY) == ["80% of the quota of items is used"]
    require_room(SMALL, used.grown(items=2, bytes=1, day=TODAY), now=NOON)
    with pytest.raises(QuotaExceeded, match="10 items is used up; forget something") as full:
        require_room(SMALL, used.grown(items=3, bytes=1, day=TODAY), now=NOON)
    assert full.value.retry_after is None, "waiting does not help"
    with pytest.raises(QuotaExceeded, match="tomorrow") as daily:
        require_room(SMALL, Usage(writes=6, day=TODAY), now=NOON)
    assert daily.value.retry_after == 11.5 * 3600
    require_room(SMALL, Usage(writes=6, day=TODAY), now=NOON + timedelta(days=1))


def test_settings_change_single_limits_of_a_plan() -> None:
    assert quota_of("nonsense", {}) == PLANS["standard"]
    assert quota_of("free", {"quotas": {"items": 5, "bytes": -1, "other": 3}}) == replace(PLANS["free"], items=5)
    assert quota_of("free", {"quotas": "nonsense"}) == PLANS["free"]
    assert quota_of("free", {"quotas": {"items": None}}).items is None
    with pytest.raises(QuotaExceeded):
        require_room(replace(SMALL, items=0), Usage(items=1), now=NOON)


@pytest.mark.parametrize("wrong", [7, "none", [], {"items": -1}, {"items": True}, {"items": 1.5}, {"writes": 3}])
def test_limits_that_mean_nothing_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="quotas"):
        check_quotas(wrong)


def test_plans_are_known_by_name() -> None:
    check_quotas({"items": 5, "writes_per_day": None})
    for plan in PLANS:
        check_plan(plan)
    for wrong in ("gold", "", "Free"):
        with pytest.raises(InvalidInput, match="one of free, standard, unlimited"):
            check_plan(wrong)
