"""The grammar of time expressions: rules over coded words, and the match that a rule reads."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Final

from recordari.recall.rules.temporal.calendar import Period, Preference
from recordari.recall.rules.temporal.words import Word

INTERVALS: Final = frozenset("13456")
TIMES_ONLY: Final = frozenset("56")
MOST_FRUITLESS: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The local time of the question, and which way an open date is read."""

    now: datetime
    prefer: Preference

    @property
    def today(self) -> date:
        return self.now.date()


@dataclass(slots=True)
class Match:
    """The words a rule matched, by the group names of its pattern."""

    clock: Clock
    _match: re.Match[str]
    _words: list[Word]

    def all_words(self) -> list[Word]:
        return self._words[self._match.start() : self._match.end()]

    def words(self, name: str) -> list[Word]:
        """The words of a group; none when the pattern has no such group or it did not take part."""
        if name not in self._match.re.groupindex:
            return []
        start, end = self._match.span(name)
        return self._words[start:end] if start >= 0 else []

    @property
    def groups(self) -> frozenset[str]:
        """The names of the groups of its pattern."""
        return frozenset(self._match.re.groupindex)

    def has(self, name: str) -> bool:
        return bool(self.words(name))

    def number(self, name: str) -> int:
        value = self.words(name)[0].value
        assert isinstance(value, int), value
        return value

    def numbers(self, name: str) -> tuple[int, ...]:
        value = self.words(name)[0].value
        assert isinstance(value, tuple), value
        return value

    def text(self, name: str) -> str:
        """The words of a group, normalised."""
        return " ".join(str(word.value) for word in self.words(name))

    def period(self, name: str) -> Period:
        period = self.words(name)[0].period
        assert period is not None
        return period

    def days(self, name: str) -> tuple[date, date]:
        """The first day of a group's period and the day after its last."""
        period = self.period(name)
        if period.start is None or period.end is None:
            raise ValueError("open period")
        return period.start.date(), period.end.date()


Reader = Callable[[Match], Period | None]


class RuleBook:
    def __init__(self) -> None:
        self._rules: list[tuple[str, str, Reader]] = []
        self._fruitless: set[str] = set()

    def add(self, code: str, *patterns: str) -> Callable[[Reader], Reader]:
        """Register a reader for patterns; the word that it folds a match into gets `code`."""

        def register(reader: Reader) -> Reader:
            self._rules.extend((pattern, code, reader) for pattern in patterns)
            return reader

        return register

    @cached_property
    def _compiled(self) -> list[tuple[re.Pattern[str], str, Reader]]:
        # At first use: the command line should not compile a hundred patterns at every start.
        return [(re.compile(pattern), code, reader) for pattern, code, reader in self._rules]

    def fold(self, words: list[Word], clock: Clock) -> list[Word]:
        """Run every rule once, in the order added; a match becomes one word."""
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
            folded = _apply(pattern.finditer(codes), code, reader, clock, words)
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
            period = reader(Match(clock, match, words))
        except (ValueError, OverflowError):  # 30 February, week 60, ten thousand years ago: no time at all
            continue
        if period is None:
            continue
        folded.extend(words[done : match.start()])
        first, last = words[match.start()], words[match.end() - 1]
        folded.append(Word(code=code, value=None, start=first.start, end=last.end, period=period))
        done = match.end()
    return folded + words[done:] if folded else None
