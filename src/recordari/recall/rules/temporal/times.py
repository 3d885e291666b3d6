"""Time expressions in English questions, as half-open UTC intervals in the user's zone (C2).

`find_times` says what the words denote by convention: "two weeks ago" is one day, "from May to July" ends
where July begins, and a week starts on Monday. `question_interval` says where to look for memories when
somebody asks with these words: people are not that exact, so the vague ones are widened, and the last period
of a range belongs to it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timezone
from functools import cached_property
from typing import Final
from zoneinfo import ZoneInfo

from recordari.recall.rules.temporal.calendar import Period, Preference
from recordari.recall.rules.temporal.dates import RULES as DATES
from recordari.recall.rules.temporal.ranges import RULES as RANGES
from recordari.recall.rules.temporal.spans import RULES as SPANS
from recordari.recall.rules.temporal.words import Word, scan

# A question is short. Of a long text the beginning and the end are read, where people put the question.
EXAMINED_CHARACTERS: Final = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A half-open stretch of time in UTC; None on a side means that it has no bound there."""

    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeExpression:
    """Words of a text that name a time: where they stand and the interval they denote."""

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
    found = []
    for word in _folded(text, now, zone, prefer):
        interval = word.period and _interval(word.period.start, word.period.end, zone)
        if interval:
            words = text[word.start : word.end]
            found.append(TimeExpression(text=words, start_index=word.start, end_index=word.end, interval=interval))
    return tuple(found)


def question_interval(text: str, *, now: datetime, zone: ZoneInfo | timezone) -> Interval | None:
    """Give the one interval that a question about the past is about, or None when it names no time.

    Several expressions narrow each other where they overlap ("after 2016 and before 2018"); otherwise the
    interval spans them all ("in May or in July"). A time of day alone counts only when there is no date.
    """
    found = _folded(text, now, zone, "past")
    dated = [word for word in found if word.code not in TIMES_ONLY] or found
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
    found: list[Word] = []
    for offset, piece in _windows(text):
        words = scan(piece, offset)
        for rules in (DATES, SPANS, RANGES):
            words = rules.fold(words, clock)
        found.extend(word for word in words if word.code in INTERVALS)
    return found


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


INTERVALS: Final = frozenset("13456")
TIMES_ONLY: Final = frozenset("56")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The local time of the question, and which way an open date is read."""

    now: datetime
    prefer: Preference

    @property
    def today(self) -> date:
        """The local day of the question."""
        return self.now.date()


class Match:
    """The words a rule matched, by the group names of its pattern."""

    __slots__ = ("_match", "_words", "clock")

    def __init__(self, clock: Clock, match: re.Match[str], words: list[Word]) -> None:
        self.clock = clock
        self._match = match
        self._words = words

    def all_words(self) -> list[Word]:
        """List every word the rule matched."""
        return self._words[self._match.start() : self._match.end()]

    def words(self, name: str) -> list[Word]:
        """List the words of a group; none when the pattern has no such group or it did not take part."""
        if name not in self._match.re.groupindex:
            return []
        start, end = self._match.span(name)
        return self._words[start:end] if start >= 0 else []

    def has(self, name: str) -> bool:
        """Tell whether the group took part."""
        return bool(self.words(name))

    def number(self, name: str) -> int:
        """Give the number of a group's only word."""
        value = self.words(name)[0].value
        assert isinstance(value, int), value
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        """Give the numbers of a group's only word."""
        value = self.words(name)[0].value
        assert isinstance(value, tuple), value
        return value

    def text(self, name: str) -> str:
        """Give the words of a group, normalised."""
        return " ".join(str(word.value) for word in self.words(name))

    def period(self, name: str) -> Period:
        """Give the period a group was folded into."""
        found = self.words(name)[0].period
        assert found is not None
        return found

    def days(self, name: str) -> tuple[date, date]:
        """Give the first day of a group's period and the day after its last."""
        found = self.period(name)
        if found.start is None or found.end is None:
            raise ValueError("open period")
        return found.start.date(), found.end.date()


Reader = Callable[[Match], Period | None]
MOST_FRUITLESS = 4_096


class RuleBook:
    """Rules in the order in which they were added."""

    def __init__(self) -> None:
        self._rules: list[tuple[str, str, Reader]] = []
        self._fruitless: set[str] = set()

    def add(self, code: str, *patterns: str) -> Callable[[Reader], Reader]:
        """Register a reader for patterns; what it folds gets `code`."""

        def register(reader: Reader) -> Reader:
            self._rules.extend((pattern, code, reader) for pattern in patterns)
            return reader

        return register

    @cached_property
    def _compiled(self) -> list[tuple[re.Pattern[str], str, Reader]]:
        # At first use: the command line should not compile a hundred patterns at every start.
        return [(re.compile(pattern), code, reader) for pattern, code, reader in self._rules]

    def fold(self, words: list[Word], clock: Clock) -> list[Word]:
        """Run every rule once over the words and give back what is left."""
        codes = "".join(word.code for word in words)
        if codes in self._fruitless:
            return words
        if not any(pattern.search(codes) for pattern, _, _ in self._compiled):
            # Most questions name no time, and few codes tell them apart.
            if len(self._fruitless) >= MOST_FRUITLESS:
                self._fruitless.clear()
            self._fruitless.add(codes)
            return words
        for pattern, code, reader in self._compiled:
            matches = pattern.finditer(codes)
            folded = _apply(matches, code, reader, clock, words)
            if folded is not None:
                words = folded
                codes = "".join(word.code for word in words)
        return words


def _apply(
    matches: Iterable[re.Match[str]], code: str, reader: Reader, clock: Clock, words: list[Word]
) -> list[Word] | None:
    folded: list[Word] = []
    done = 0
    for match in matches:
        try:
            found = reader(Match(clock, match, words))
        except (ValueError, OverflowError):  # 30 February, week 60, ten thousand years ago: no time at all
            continue
        if found is None:
            continue
        folded.extend(words[done : match.start()])
        first, last = words[match.start()], words[match.end() - 1]
        folded.append(Word(code=code, value=None, start=first.start, end=last.end, period=found))
        done = match.end()
    return folded + words[done:] if folded else None
