"""Quotas of a tenant: what it may use, what it uses, and what to know before writes are refused (T7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recordari.core.identity import Identity
from recordari.domain.quotas import Quota, Usage, shares, warnings_of
from recordari.kit.resources import Resources
from recordari.service.tenants import require_admin


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaStanding:
    """A tenant's limits and how much of them is used."""

    quota: Quota
    usage: Usage
    shares: dict[str, float]
    warnings: list[str]


async def quota_standing(resources: Resources, identity: Identity) -> QuotaStanding:
    """Count what the tenant uses, and compare it with its plan."""
    require_admin(identity)
    now = resources.clock()
    quota, used = await resources.usages.look(identity, now=now)
    day = now.date()
    return QuotaStanding(
        quota=quota, usage=used, shares=shares(quota, used, day=day), warnings=warnings_of(quota, used, day=day)
    )


async def measure(resources: Resources, identity: Identity, **_: Any) -> None:
    """Count what the tenant really keeps. A daily job."""
    await resources.usages.look(identity, now=resources.clock())
