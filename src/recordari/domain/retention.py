"""Retention: which verdict a policy gives, when a sweep is too large, and what a session keeps of its summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.items import Tier
from recordari.errors import InvalidInput
from recordari.sessions.rules.sessions import Fold

SETTING = "memory_retention"
"""The key of a tenant's settings under which its policy stands."""
MOST_DAYS = 36_500
SAFE_ROWS = 100
"""A sweep of fewer rows is never refused: in a small tenant any number is a large share."""


class Verdict(StrEnum):
    """What becomes of an item."""

    KEEP = "keep"
    ARCHIVE = "archive"
    ANONYMIZE = "anonymize"
    PURGE = "purge"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How long a tenant keeps what it has ended."""

    deleted_days: int = 30  # seed 004
    superseded_days: int = 90  # seed 004
    archived_days: int | None = None
    """Days after which archived memory goes; None: it stays."""
    transient_days: int = 30
    """Days for which memory of a run or session outlives it."""
    batch_size: int = 100
    safety_share: float = 0.25
    """A sweep that would end more than this part of the tenant's items is refused."""
    dry_run: bool = False

    def written(self) -> dict[str, Any]:
        """The policy as it stands in a tenant's settings."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An item that something has ended, and when."""

    item_id: UUID
    tier: Tier
    deleted_at: datetime | None
    invalid_at: datetime | None
    archived_at: datetime | None
    scope_ended_at: datetime | None
    """When its run or session was closed; None for a tier that does not end with one."""
    is_held: bool
    is_pinned: bool


def checked_policy(given: Mapping[str, Any]) -> RetentionPolicy:
    """The policy with these values; `InvalidInput` names what is wrong."""
    known = {field.name for field in fields(RetentionPolicy)}
    if unknown := sorted(set(given) - known):
        raise InvalidInput(f"a retention policy has no {unknown[0]!r}; it has {', '.join(sorted(known))}")
    policy = RetentionPolicy(**given)
    for name, least in (("deleted_days", 0), ("superseded_days", 0), ("transient_days", 0), ("batch_size", 1)):
        _check_whole(name, getattr(policy, name), least, 10_000 if name == "batch_size" else MOST_DAYS)
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
    """A tenant's policy, and whether what stands in its settings is valid; the defaults where it is not."""
    given = settings.get(SETTING, {})
    try:
        return checked_policy(given), True
    except (InvalidInput, TypeError, AttributeError):
        return RetentionPolicy(), False


def verdict(item: Ended, policy: RetentionPolicy, *, now: datetime) -> Verdict:
    """What the policy says of an item: the strongest that applies, and nothing while an action rests on it (T4)."""
    if item.is_held:
        return Verdict.KEEP

    def passed(since: datetime | None, days: int | None) -> bool:
        return since is not None and days is not None and since + timedelta(days=days) <= now

    if passed(item.deleted_at, policy.deleted_days):
        return Verdict.ANONYMIZE
    if item.is_pinned:
        return Verdict.KEEP
    if passed(item.invalid_at, policy.superseded_days):
        return Verdict.ANONYMIZE
    is_transient = item.tier in {Tier.RUN, Tier.SESSION}
    if is_transient and passed(item.scope_ended_at, policy.transient_days):
        return Verdict.PURGE
    if passed(item.archived_at, policy.archived_days):
        return Verdict.ANONYMIZE if item.tier is Tier.PERSISTENT else Verdict.PURGE
    if is_transient and item.archived_at is None and passed(item.scope_ended_at, 1):
        return Verdict.ARCHIVE
    return Verdict.KEEP


def is_too_much(ending: int, total: int, policy: RetentionPolicy) -> bool:
    """Whether a sweep would end so much at once that a person should look first."""
    return ending > SAFE_ROWS and ending > policy.safety_share * total


def without_fold(
    folds: Sequence[Fold], folded_to: int, position: int
) -> tuple[tuple[Fold, ...], int, tuple[UUID, ...]]:
    """The lasting summaries of a session that do not tell what stood at a place, how far they reach, and the others.

    Where none covers the place, one that does may be in the making: the last is given up too, so that whoever makes it
    finds that the session was changed.
    """
    first_told = next((n for n, fold in enumerate(folds) if fold.first <= position <= fold.last), None)
    if first_told is None:
        if position <= folded_to:
            return tuple(folds), folded_to, ()
        first_told = len(folds) - 1
    if first_told < 0:
        return (), min(0, folded_to) - 1, ()
    kept, told = folds[:first_told], folds[first_told:]
    return tuple(kept), told[0].first - 1, tuple(fold.summary_id for fold in told)
