"""Quotas: how much a tenant of a plan may keep and write, when to warn and when to refuse (T7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from typing import Any

from recordari.errors import QuotaExceeded

SETTING = "quotas"
"""The key of a tenant's settings that raises or lowers single limits of its plan."""
WARN_FROM = 0.8
DEFAULT_PLAN = "standard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of a plan; None: without a limit."""

    items: int | None
    bytes: int | None
    writes_per_day: int | None


PLANS: dict[str, Quota] = {
    "free": Quota(items=10_000, bytes=100 * 2**20, writes_per_day=5_000),
    "standard": Quota(items=2_000_000, bytes=20 * 2**30, writes_per_day=2_000_000),
    "unlimited": Quota(items=None, bytes=None, writes_per_day=None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tenant keeps, and what it wrote on a day."""

    items: int = 0
    bytes: int = 0
    writes: int = 0
    day: date = date.min

    def grown(self, *, items: int, bytes: int, day: date) -> Usage:  # noqa: A002 - the name of the limit
        """The same with more written on that day."""
        return Usage(
            items=self.items + items,
            bytes=self.bytes + bytes,
            writes=items + (self.writes if self.day == day else 0),
            day=day,
        )


def quota_of(plan: str, settings: Mapping[str, Any]) -> Quota:
    """The limits of a plan with what the tenant's settings say of single ones; what is not valid there is passed over."""
    quota = PLANS.get(plan, PLANS[DEFAULT_PLAN])
    given = settings.get(SETTING)
    if not isinstance(given, Mapping):
        return quota
    valid = {
        field.name: given[field.name]
        for field in fields(Quota)
        if field.name in given and (given[field.name] is None or _is_limit(given[field.name]))
    }
    return replace(quota, **valid)


def _is_limit(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def shares(quota: Quota, usage: Usage, *, day: date) -> dict[str, float]:
    """How much of each limit is used; 1 is all of it."""
    used = {"items": usage.items, "bytes": usage.bytes, "writes_per_day": usage.writes if usage.day == day else 0}
    limits = {name: getattr(quota, name) for name in used}
    return {
        name: (used[name] / limit if limit else float(used[name] > 0) + 1)
        for name, limit in limits.items()
        if limit is not None
    }


def warnings_of(quota: Quota, usage: Usage, *, day: date) -> list[str]:
    """What a person should know before writes are refused."""
    return [
        f"{share:.0%} of the quota of {name.replace('_', ' ')} is used"
        for name, share in shares(quota, usage, day=day).items()
        if share >= WARN_FROM
    ]


def require_room(quota: Quota, after: Usage, *, day: date) -> None:
    """Raise `QuotaExceeded` when what would be kept after a write is past a limit."""
    for name, share in shares(quota, after, day=day).items():
        if share > 1:
            limit = getattr(quota, name)
            advice = "it is free again tomorrow (UTC)" if name == "writes_per_day" else "forget something"
            raise QuotaExceeded(
                f"the quota of {limit:,} {name.replace('_', ' ')} is used up; {advice}, or ask for another plan",
                quota=name,
                limit=limit,
            )
