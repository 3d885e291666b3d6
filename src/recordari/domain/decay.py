"""How recent memory fades: importance, strength, retention; what is archived and what is promoted (T2).

    retention = exp(-0.1 × hours / S)

An item is archived when its retention falls below 0.3, which takes 12.04 × S hours: 7 days for the weakest (S = 14), 30
days for the strongest (S = 60). Hours are counted from when it was kept or last recalled, whichever is later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from recordari.core.items import KINDS, Kind, Tier, Trust, Typology

RATE = 0.1  # seed 002: retention = exp(-0.1 × hours), stretched by the strength
ARCHIVE_BELOW = 0.3  # seed 002: items below 0.3 are archived
WEAKEST, STRONGEST = 14.0, 60.0  # 7 and 30 days until 0.3
PROMOTE_FROM = 0.8
ACCESS_LEAVES = 0.9  # part of the distance to the strongest that each access leaves over

BASE = {
    Kind.CHAT_MESSAGE: 0.20,
    Kind.TOOL_OUTPUT: 0.10,
    Kind.EPISODE: 0.20,
    Kind.SESSION_SUMMARY: 0.40,
    Kind.FACT: 0.50,
    Kind.PROCEDURE: 0.50,
    Kind.DOCUMENT_CHUNK: 0.30,
}
MOST_FREQUENCY, HALF_FREQUENCY = 0.30, 4  # half of the boost after 4 accesses
MOST_RECENCY, RECENCY_DAYS = 0.15, 7.0
MOST_RICHNESS, RICH_TERMS, RICH_NAMES = 0.20, 60, 4

REVIEWED_TRUST = frozenset({Trust.USER, Trust.AGENT})
"""Carriers whose text may last without a person's review; a tool's, a document's or a stranger's may not."""
CORROBORATION = 2  # sources that a fact must rest on before it lasts


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What is known of an item's use, to decide what becomes of it."""

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
    """Separate items of trusted carriers that say what it says; only facts have any."""
    is_pinned: bool = False


class Fate(StrEnum):
    """What becomes of an item of recent memory."""

    KEEP = "keep"
    ARCHIVE = "archive"
    PROMOTE = "promote"


def importance(trace: Trace, *, now: datetime) -> float:
    """How much an item matters, from 0 to 1: base + frequency + recency + richness."""
    frequency = MOST_FREQUENCY * trace.accesses / (trace.accesses + HALF_FREQUENCY)
    recency = MOST_RECENCY * math.exp(-_hours(trace, now) / 24 / RECENCY_DAYS)
    richness = MOST_RICHNESS * (0.6 * min(1.0, trace.terms / RICH_TERMS) + 0.4 * min(1.0, trace.names / RICH_NAMES))
    return min(1.0, BASE[trace.kind] + frequency + recency + richness)


def strength(importance: float, accesses: int) -> float:
    """S: from 14 to 60, growing with importance and with every access."""
    weight = 1 - (1 - min(1.0, max(0.0, importance))) * ACCESS_LEAVES ** max(0, accesses)
    return WEAKEST + (STRONGEST - WEAKEST) * weight


def retention(hours: float, s: float) -> float:
    """How much of an item is left after so many hours, from 1 down to 0."""
    return math.exp(-RATE * max(0.0, hours) / s)


def lifetime(s: float) -> timedelta:
    """How long it takes an item of that strength to fall to the threshold."""
    return timedelta(hours=-math.log(ARCHIVE_BELOW) * s / RATE)


def fate(trace: Trace, *, now: datetime) -> Fate:
    """Decide about one item of recent memory."""
    weight = importance(trace, now=now)
    if weight >= PROMOTE_FROM and may_last(trace):
        return Fate.PROMOTE
    if trace.is_pinned:
        return Fate.KEEP
    left = retention(_hours(trace, now), strength(weight, trace.accesses))
    return Fate.ARCHIVE if left < ARCHIVE_BELOW else Fate.KEEP


def may_last(trace: Trace) -> bool:
    """Whether an item may become persistent: its kind allows it, its carrier is trusted, a fact is corroborated (F6)."""
    rule = KINDS[trace.kind]
    if Tier.PERSISTENT not in rule.tiers or trace.trust not in REVIEWED_TRUST:
        return False
    return rule.typology is not Typology.SEMANTIC or trace.sources >= CORROBORATION


def review_of(trace: Trace, *, now: datetime) -> str | None:
    """Why an item that matters does not last by itself and a person should look; None where it does, or never could."""
    if importance(trace, now=now) < PROMOTE_FROM or Tier.PERSISTENT not in KINDS[trace.kind].tiers or may_last(trace):
        return None
    return "carrier" if trace.trust not in REVIEWED_TRUST else "uncorroborated"


def _hours(trace: Trace, now: datetime) -> float:
    since = max(trace.created_at, trace.last_at) if trace.last_at is not None else trace.created_at
    return max(0.0, (now - since).total_seconds() / 3600)
