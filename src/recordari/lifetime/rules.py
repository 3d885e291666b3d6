"""Decides how recent memory decays (T2) and what the retention policy does with ended items.

    retention = exp(-0.1 × hours / S)

An item is archived when its retention falls below 0.3, which takes 12.04 × S hours: 7 days for the weakest (S = 14), 30
days for the strongest (S = 60). Hours count from its creation or its last recall, whichever is later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, TypedDict
from uuid import UUID

from pydantic import Field

from recordari.core.described import DESCRIBED
from recordari.core.identity import UserId
from recordari.core.items import CORROBORATION, KINDS, REVIEWED_TRUST, Kind, Tier, Trust, Typology
from recordari.errors import InvalidInput
from recordari.sessions.rules.sessions import Fold

RATE = 0.1  # seed 002: retention = exp(-0.1 × hours), stretched by the strength
ARCHIVE_BELOW = 0.3  # seed 002: items below 0.3 are archived
WEAKEST, STRONGEST = 14.0, 60.0  # 7 and 30 days until 0.3
PROMOTE_FROM = 0.8
ACCESS_LEAVES = 0.9  # each access leaves this part of the distance to the strongest

MOST_FREQUENCY, HALF_FREQUENCY = 0.30, 4  # half of the boost after 4 accesses
MOST_RECENCY, RECENCY_DAYS = 0.15, 7.0
MOST_RICHNESS, RICH_TERMS, RICH_NAMES = 0.20, 60, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """How an item of recent memory was used."""

    item_id: UUID
    kind: Kind
    tier: Tier
    trust: Trust
    created_at: datetime
    accesses: int
    last_at: datetime | None
    terms: int
    names: int
    sources: int
    """Separate items of trusted carriers that support it; only facts have any."""
    is_pinned: bool = False


class DecayDecision(StrEnum):
    KEEP = "keep"
    ARCHIVE = "archive"
    PROMOTE = "promote"


def importance(trace: Trace, *, now: datetime) -> float:
    """How much an item matters, from 0 to 1: base + frequency + recency + richness."""
    frequency = MOST_FREQUENCY * trace.accesses / (trace.accesses + HALF_FREQUENCY)
    recency = MOST_RECENCY * math.exp(-_hours(trace, now) / 24 / RECENCY_DAYS)
    richness = MOST_RICHNESS * (0.6 * min(1.0, trace.terms / RICH_TERMS) + 0.4 * min(1.0, trace.names / RICH_NAMES))
    return min(1.0, KINDS[trace.kind].importance + frequency + recency + richness)


def strength(importance: float, accesses: int) -> float:
    """S: from 14 to 60, growing with importance and with every access."""
    weight = 1 - (1 - min(1.0, max(0.0, importance))) * ACCESS_LEAVES ** max(0, accesses)
    return WEAKEST + (STRONGEST - WEAKEST) * weight


def retention(hours: float, s: float) -> float:
    """The part of an item that is left after so many hours, from 1 down to 0."""
    return math.exp(-RATE * max(0.0, hours) / s)


def lifetime(s: float) -> timedelta:
    """How long it takes an item of that strength to fall to the threshold."""
    return timedelta(hours=-math.log(ARCHIVE_BELOW) * s / RATE)


def decay_decision(trace: Trace, *, now: datetime) -> DecayDecision:
    weight = importance(trace, now=now)
    if weight >= PROMOTE_FROM and may_last(trace):
        return DecayDecision.PROMOTE
    if trace.is_pinned:
        return DecayDecision.KEEP
    is_faded = _left(trace, now) < ARCHIVE_BELOW
    return DecayDecision.ARCHIVE if is_faded else DecayDecision.KEEP


def may_last(trace: Trace) -> bool:
    """Whether an item may become persistent: its kind allows it, its carrier is trusted, a fact has other sources (F6)."""
    rule = KINDS[trace.kind]
    if Tier.PERSISTENT not in rule.tiers or trace.trust not in REVIEWED_TRUST:
        return False
    return rule.typology is not Typology.SEMANTIC or trace.sources >= CORROBORATION


def review_of(trace: Trace, *, now: datetime) -> str | None:
    """Why an important item needs a person to make it persistent; None if it needs none, or never can be."""
    if importance(trace, now=now) < PROMOTE_FROM or Tier.PERSISTENT not in KINDS[trace.kind].tiers or may_last(trace):
        return None
    return "carrier" if trace.trust not in REVIEWED_TRUST else "uncorroborated"


FORECAST_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """How an item was used, and how it will fade if nobody recalls it."""

    __pydantic_config__ = DESCRIBED

    tier: Tier
    is_pinned: bool
    accesses: int
    """How often recall or a context used it."""
    last_at: datetime | None
    """When that was last."""
    importance: float
    retention: tuple[float, ...]
    """The part that is left, today and on each of the next 30 days; empty if it is not recent memory, which alone fades."""
    archive_at: datetime | None
    """When it would leave recall; null if it stays."""


def forecast(trace: Trace, *, now: datetime) -> Forecast:
    """How an item fades from now on. Its importance sinks too, while nobody recalls it."""
    fades = trace.tier is Tier.RECENT
    days = [now + timedelta(days=day) for day in range(FORECAST_DAYS + 1)]
    archive_at = None
    if fades and not trace.is_pinned:
        since = max(trace.created_at, trace.last_at or trace.created_at)
        hours = range(int(_hours(trace, now)), int(lifetime(STRONGEST).total_seconds() // 3600) + 2)
        moments = (since + timedelta(hours=hour) for hour in hours)
        archive_at = next((moment for moment in moments if _left(trace, moment) < ARCHIVE_BELOW), None)
    return Forecast(
        tier=trace.tier,
        is_pinned=trace.is_pinned,
        accesses=trace.accesses,
        last_at=trace.last_at,
        importance=importance(trace, now=now),
        retention=tuple(_left(trace, day) for day in days) if fades else (),
        archive_at=archive_at,
    )


def _left(trace: Trace, moment: datetime) -> float:
    return retention(_hours(trace, moment), strength(importance(trace, now=moment), trace.accesses))


def _hours(trace: Trace, now: datetime) -> float:
    since = max(trace.created_at, trace.last_at) if trace.last_at is not None else trace.created_at
    return max(0.0, (now - since).total_seconds() / 3600)


SETTING = "memory_retention"
"""The key of the policy in a tenant's settings."""
MOST_DAYS = 36_500


class DecayOutcome(StrEnum):
    KEEP = "keep"
    ARCHIVE = "archive"
    ANONYMIZE = "anonymize"
    PURGE = "purge"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How long a tenant keeps ended items."""

    __pydantic_config__ = DESCRIBED

    deleted_days: int = 30  # seed 004
    superseded_days: int = 90  # seed 004
    archived_days: int | None = None
    """Days after which archived items are removed; null keeps them."""
    transient_days: int = 30
    """Days that items of a run or session outlive it."""
    batch_size: int = 100
    safety_share: float = 0.25
    """A sweep that would end more than this part of the tenant's items is refused."""
    dry_run: bool = False


class RetentionChanges(TypedDict, total=False):
    """Values of a retention policy to change; the others stay."""

    deleted_days: int
    superseded_days: int
    archived_days: int | None
    transient_days: int
    batch_size: int
    safety_share: float
    dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    item_id: UUID
    tier: Tier
    deleted_at: datetime | None
    invalid_at: datetime | None
    archived_at: datetime | None
    scope_ended_at: datetime | None
    """When its run or session was closed; None for a tier that does not end with one."""
    is_held: bool
    is_pinned: bool


def checked_policy(values: Mapping[str, Any]) -> RetentionPolicy:
    """The policy with these values; `InvalidInput` names the one that is not valid."""
    names = {field.name for field in fields(RetentionPolicy)}
    if unknown := sorted(set(values) - names):
        raise InvalidInput(f"a retention policy has no {unknown[0]!r}; it has {', '.join(sorted(names))}")
    policy = RetentionPolicy(**values)
    for name in ("deleted_days", "superseded_days", "transient_days"):
        _check_whole(name, getattr(policy, name), 0, MOST_DAYS)
    _check_whole("batch_size", policy.batch_size, 1, 10_000)
    if policy.archived_days is not None:
        _check_whole("archived_days", policy.archived_days, 0, MOST_DAYS)
    share: object = policy.safety_share
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InvalidInput("safety_share must be above 0 and at most 1", field="safety_share")
    if not isinstance(policy.dry_run, bool):
        raise InvalidInput("dry_run must be true or false", field="dry_run")
    return policy


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}", field=name)


def retention_policy(settings: Mapping[str, Any]) -> tuple[RetentionPolicy, bool]:
    """A tenant's policy, and whether its settings are valid; the defaults if they are not."""
    try:
        return checked_policy(settings.get(SETTING, {})), True
    except (InvalidInput, TypeError, AttributeError):
        return RetentionPolicy(), False


def verdict(item: Ended, policy: RetentionPolicy, *, now: datetime) -> DecayOutcome:
    """The outcome of the policy for an item: the strongest that applies, and none while an action holds it (T4)."""
    if item.is_held:
        return DecayOutcome.KEEP

    def passed(since: datetime | None, days: int | None) -> bool:
        return since is not None and days is not None and since + timedelta(days=days) <= now

    if passed(item.deleted_at, policy.deleted_days):
        return DecayOutcome.ANONYMIZE
    if item.is_pinned:
        return DecayOutcome.KEEP
    if passed(item.invalid_at, policy.superseded_days):
        return DecayOutcome.ANONYMIZE
    is_transient = item.tier in {Tier.RUN, Tier.SESSION}
    if is_transient and passed(item.scope_ended_at, policy.transient_days):
        return DecayOutcome.PURGE
    if passed(item.archived_at, policy.archived_days):
        return DecayOutcome.ANONYMIZE if item.tier is Tier.PERSISTENT else DecayOutcome.PURGE
    if is_transient and item.archived_at is None and passed(item.scope_ended_at, 1):
        return DecayOutcome.ARCHIVE
    return DecayOutcome.KEEP


def is_too_much(ending: int, total: int, policy: RetentionPolicy) -> bool:
    """Whether a sweep would end so many items that a person should look first."""
    return ending > policy.safety_share * total


def without_fold(
    folds: Sequence[Fold], folded_to: int, position: int
) -> tuple[tuple[Fold, ...], int, tuple[UUID, ...]]:
    """A session's folds before the one that includes a position, the last position they cover, and the ids of the others.

    If none includes the position, a job may be making one that does: the last fold is dropped too, so that the job
    finds that the session has changed.
    """
    cut = next((number for number, fold in enumerate(folds) if fold.first <= position <= fold.last), None)
    if cut is None:
        if position <= folded_to:
            return tuple(folds), folded_to, ()
        cut = len(folds) - 1
    if cut < 0:
        return (), min(0, folded_to) - 1, ()
    return tuple(folds[:cut]), folds[cut].first - 1, tuple(fold.summary_id for fold in folds[cut:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """An action that holds an item: nothing may remove it meanwhile."""

    item_id: UUID
    action_id: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The progress of a user's erasure; the user's id is kept only while it runs."""

    __pydantic_config__ = DESCRIBED

    erasure_id: UUID
    user_id: UserId | None
    user_hash: Annotated[bytes, Field(exclude=True)] = b""
    """No door shows it."""
    requested_at: datetime
    items: int
    """Items erased so far."""
    sessions: int
    """Sessions erased so far."""
    finished_at: datetime | None
    """Null while it runs."""
