"""How recent memory fades: the figures that the design promises."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.core.items import KINDS, Kind, Tier, Trust
from recordari.lifetime.rules import (
    ARCHIVE_BELOW,
    DecayDecision,
    Trace,
    decay_decision,
    forecast,
    importance,
    lifetime,
    may_last,
    retention,
    strength,
)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TRACE = Trace(
    item_id=UUID(int=1),
    kind=Kind.CHAT_MESSAGE,
    tier=Tier.RECENT,
    trust=Trust.USER,
    created_at=NOW,
    accesses=0,
    last_at=None,
    terms=10,
    names=0,
    sources=0,
)


@pytest.mark.parametrize(("s", "days"), [(14, 7), (60, 30)])
def test_strength_fourteen_lasts_seven_days_and_sixty_thirty(s: float, days: int) -> None:
    assert lifetime(s).total_seconds() / 86_400 == pytest.approx(days, abs=0.15)
    assert retention(days * 24 * 0.98, s) > ARCHIVE_BELOW > retention(days * 24 * 1.02, s)


def test_the_formula_is_the_one_of_the_design() -> None:
    assert retention(10, 1) == pytest.approx(0.36788, abs=1e-5)
    assert retention(0, 14) == 1.0


@given(st.floats(0, 1), st.integers(0, 1_000))
def test_strength_stays_within_seven_and_thirty_days(weight: float, accesses: int) -> None:
    assert 14 <= strength(weight, accesses) <= 60
    assert strength(weight, accesses + 1) >= strength(weight, accesses)
    assert strength(min(1.0, weight + 0.1), accesses) >= strength(weight, accesses)


def test_importance_is_base_and_boosts() -> None:
    plain = replace(TRACE, terms=0)
    old = NOW + timedelta(days=365)
    assert importance(plain, now=old) == pytest.approx(KINDS[Kind.CHAT_MESSAGE].importance)
    assert importance(plain, now=NOW) > importance(plain, now=old), "recency"
    assert importance(replace(plain, accesses=5), now=old) > importance(plain, now=old), "frequency"
    assert importance(replace(plain, terms=60, names=4), now=old) > importance(plain, now=old), "richness"
    assert importance(replace(plain, kind=Kind.FACT, accesses=10_000, terms=500, names=50), now=NOW) <= 1


def test_what_is_never_recalled_is_archived_and_what_is_recalled_begins_again() -> None:
    later = NOW + timedelta(days=35)
    assert decay_decision(TRACE, now=NOW + timedelta(days=5)) is DecayDecision.KEEP
    assert decay_decision(TRACE, now=later) is DecayDecision.ARCHIVE
    recalled = replace(TRACE, accesses=3, last_at=later - timedelta(days=2))
    assert decay_decision(recalled, now=later) is DecayDecision.KEEP
    assert decay_decision(replace(TRACE, is_pinned=True), now=later) is DecayDecision.KEEP


def test_only_trusted_and_corroborated_memory_lasts() -> None:
    fact = replace(TRACE, kind=Kind.FACT, accesses=50, last_at=NOW, terms=60, names=4, sources=2)
    assert decay_decision(fact, now=NOW) is DecayDecision.PROMOTE
    assert decay_decision(replace(fact, sources=1), now=NOW) is DecayDecision.KEEP
    for carrier in (Trust.TOOL, Trust.DOCUMENT, Trust.EXTERNAL):
        assert decay_decision(replace(fact, trust=carrier), now=NOW) is DecayDecision.KEEP
    assert may_last(replace(fact, kind=Kind.SESSION_SUMMARY, sources=0))
    assert not may_last(replace(fact, kind=Kind.CHAT_MESSAGE)), "no persistent episodic memory"


def test_a_forecast_says_when_decay_will_archive() -> None:
    seen = forecast(TRACE, now=NOW + timedelta(days=1))
    assert seen.archive_at is not None
    assert decay_decision(TRACE, now=seen.archive_at) is DecayDecision.ARCHIVE
    assert decay_decision(TRACE, now=seen.archive_at - timedelta(hours=2)) is DecayDecision.KEEP
    assert len(seen.retention) == 31
    assert list(seen.retention) == sorted(seen.retention, reverse=True)
    recalled = forecast(replace(TRACE, accesses=3, last_at=NOW), now=NOW + timedelta(days=1))
    assert recalled.archive_at is not None and recalled.archive_at > seen.archive_at


def test_what_is_pinned_or_persistent_has_no_day_of_archiving() -> None:
    assert forecast(replace(TRACE, is_pinned=True), now=NOW).archive_at is None
    lasting = forecast(replace(TRACE, tier=Tier.PERSISTENT), now=NOW)
    assert lasting.archive_at is None and lasting.retention == ()
