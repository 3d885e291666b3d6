"""Time expressions in questions, as half-open UTC intervals in the user's zone (C2).

`find_times` says what the words denote by convention: "two weeks ago" is one day, "from May to July" ends
where July begins, and a week starts on Monday. `question_interval` says where to look for memories when
somebody asks with these words: people are not that exact, so vague words are widened, and the last period
of a range belongs to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timezone
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from recordari.recall.rules.temporal.calendar import Preference
from recordari.recall.rules.temporal.dates import RULES as DATES
from recordari.recall.rules.temporal.grammar import INTERVALS, TIMES_ONLY, Clock
from recordari.recall.rules.temporal.ranges import RULES as RANGES
from recordari.recall.rules.temporal.spans import RULES as SPANS
from recordari.recall.rules.temporal.translate import read_words
from recordari.recall.rules.temporal.words import Word

# A question is short. Of a long text the beginning and the end are read, where people put the question.
EXAMINED_CHARACTERS: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A half-open stretch of time in UTC; None: no bound on that side."""

    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeExpression:
    """Words of a text that name a time: their position and the interval they denote."""

    text: str
    start_index: int
    end_index: int
    interval: Interval


def find_times(
    text: str, *, now: datetime, zone: ZoneInfo | timezone, prefer: Preference = "past"
) -> tuple[TimeExpression, ...]:
    """Find the time expressions of a text, in order, none overlapping another.

    `now` must be aware. `prefer` settles words that name no year or week: "in May", "on Friday". The month
    comes first in 5/12/2023, as in America, unless it cannot.
    """
    return tuple(
        TimeExpression(text=text[word.start : word.end], start_index=word.start, end_index=word.end, interval=interval)
        for word in _folded(text, now, zone, prefer)
        if word.period and (interval := _interval(word.period.start, word.period.end, zone))
    )


def question_interval(text: str, *, now: datetime, zone: ZoneInfo | timezone) -> Interval | None:
    """The one interval that a question about the past is about, or None when it names no time.

    Several expressions narrow each other where they overlap ("after 2016 and before 2018"); otherwise the
    interval spans them all ("in May or in July"). A time of day alone counts only when there is no date.
    """
    words = _folded(text, now, zone, "past")
    dated = [word for word in words if word.code not in TIMES_ONLY] or words
    intervals = [
        interval
        for word in dated
        if word.period and (interval := _interval(word.period.loose_start, word.period.loose_end, zone))
    ]
    if not intervals:
        return None
    common = Interval(
        start=max((each.start for each in intervals if each.start), default=None),
        end=min((each.end for each in intervals if each.end), default=None),
    )
    if common.start is None or common.end is None or common.start < common.end:
        return common
    starts, ends = [each.start for each in intervals], [each.end for each in intervals]
    span = Interval(
        start=None if None in starts else min(each for each in starts if each),
        end=None if None in ends else max(each for each in ends if each),
    )
    return span if span.start or span.end else None


def _folded(text: str, now: datetime, zone: ZoneInfo | timezone, prefer: Preference) -> list[Word]:
    if now.tzinfo is None:
        raise ValueError("now must carry a time zone")
    clock = Clock(now=now.astimezone(zone).replace(tzinfo=None), prefer=prefer)
    intervals: list[Word] = []
    for offset, piece in _windows(text):
        words = list(_read_words(piece, offset))
        for rules in (DATES, SPANS, RANGES):
            words = rules.fold(words, clock)
        intervals.extend(word for word in words if word.code in INTERVALS)
    return intervals


@lru_cache(maxsize=64)
def _read_words(text: str, offset: int) -> tuple[Word, ...]:
    """The plan of a context and the recalls for it read the same question one after the other."""
    return tuple(read_words(text, offset))


def _windows(text: str) -> Iterator[tuple[int, str]]:
    """Choose the parts of a text to read, with their positions; a word at a cut is left out."""
    if len(text) <= EXAMINED_CHARACTERS:
        yield 0, text
        return
    half = EXAMINED_CHARACTERS // 2
    yield 0, text[:half].rpartition(" ")[0]
    tail = text[-half:].partition(" ")[2]
    yield len(text) - len(tail), tail


def _interval(start: datetime | None, end: datetime | None, zone: ZoneInfo | timezone) -> Interval | None:
    """Local wall-clock bounds as UTC; None when the calendar cannot hold them."""
    try:
        first, last = (bound and bound.replace(tzinfo=zone).astimezone(UTC) for bound in (start, end))
        if first and last and start and end and last <= first:
            # A stretch that begins inside the hour a clock skips in spring: keep its length.
            last = first + (end - start)
    except (OverflowError, ValueError):
        return None
    if first and last and last <= first:
        return None
    return Interval(start=first, end=last)


def written_interval(interval: Interval | None) -> dict[str, str | None] | None:
    """An interval as a trace shows it."""
    if interval is None:
        return None
    bounds = {"start": interval.start, "end": interval.end}
    return {name: bound.isoformat() if bound else None for name, bound in bounds.items()}
