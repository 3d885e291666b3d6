"""What a fact rests on: how it fares over time, and how sure it is after people spoke of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from recordari.core.described import DESCRIBED

RECENT = timedelta(days=30)
STALE = timedelta(days=180)
UNKNOWN_CONFIDENCE = 0.5
LEAST, MOST = 0.02, 0.98


class Trend(StrEnum):
    """How a fact fares: said for the first time, ever more often, as before, ever less often, no more."""

    NEW = "new"
    STRENGTHENING = "strengthening"
    STABLE = "stable"
    WEAKENING = "weakening"
    STALE = "stale"


class Opinion(StrEnum):
    """What somebody thinks of an item."""

    USEFUL = "useful"
    WRONG = "wrong"


# In log-odds: a wrong memory does more harm than a useful one does good.
_EFFECT = {Opinion.USEFUL: 0.7, Opinion.WRONG: -1.4}


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSource:
    """Something that a fact was taken from, when it was said and in which session."""

    __pydantic_config__ = DESCRIBED

    item_id: UUID
    event_time: datetime
    session_id: str | None


def trend_of(said: Sequence[datetime], *, now: datetime) -> Trend:
    """How a fact fares, from the moments at which it was said.

    The last 30 days are compared with the 30 days before them; what was not said for 180 days is stale.
    """
    moments = sorted(moment for moment in said if moment <= now)
    if not moments:
        return Trend.STALE
    if now - moments[-1] > STALE:
        return Trend.STALE
    if now - moments[0] <= RECENT:
        return Trend.NEW if len(moments) == 1 else Trend.STRENGTHENING
    lately = sum(now - moment <= RECENT for moment in moments)
    before = sum(RECENT < now - moment <= 2 * RECENT for moment in moments)
    if lately > before:
        return Trend.STRENGTHENING
    if lately < before or now - moments[-1] > 2 * RECENT:
        return Trend.WEAKENING
    return Trend.STABLE


def revised_confidence(confidence: float | None, *, before: Opinion | None, opinion: Opinion) -> float:
    """How sure an item is once an opinion took the place of an earlier one of the same person."""
    sure = min(max(UNKNOWN_CONFIDENCE if confidence is None else confidence, LEAST), MOST)
    odds = math.log(sure / (1 - sure)) - (_EFFECT[before] if before is not None else 0.0) + _EFFECT[opinion]
    return round(min(max(1 / (1 + math.exp(-odds)), LEAST), MOST), 4)
