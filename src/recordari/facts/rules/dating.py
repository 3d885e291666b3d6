"""When: words such as "tomorrow" and "on Friday" get the date they mean, and a day of a month its year."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from recordari.facts.rules.grammar import words_of
from recordari.facts.rules.spoken import Speech
from recordari.recall.rules.temporal.times import TimeExpression, find_times

_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")
_SINCE = re.compile(r"\b(?:since|seit|depuis|desde|dal|dalla|sinds)\b", re.IGNORECASE)
NEAR = 14
# Behind these a weekday is a habit.
_HABIT = re.compile(
    r"(?:every|each|jeden|jeder|le|les|chaque|los|cada|todos os|todas as|às|aos|il|la|ogni|elke|iedere)\s$",
    re.IGNORECASE,
)
# "On Wednesday afternoons" too.
_EACH = re.compile(r"\s(?:mornings|afternoons|evenings|nights|lunchtimes)\b", re.IGNORECASE)
# Beside these the year of a month stands apart: "last March (2026)".
_RELATIVE = re.compile(
    r"\b(?:last|past|next|this|coming|letzte|vorige|nächste|kommende|diese|dernier|prochain|pasad|próxim|passad|scors|prossim"
    r"|afgelopen|volgende|komende|aanstaande)\w{0,2}\b",
    re.IGNORECASE,
)
_HOUR = re.compile(r"\s(?:at|um|à|a las|às|alle|om)\s\d{1,2}(?:[:.h]\d\d)?(?:\s?[ap]m| uhr| h)?$", re.IGNORECASE)
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)$", re.IGNORECASE)
# "Two months ago" is exact to the month, "in two years" to the year.
_MONTHS = re.compile(r"\b(?:months?|monate?n?|mois|mes|meses|mês|mesi|maand(?:en)?)\b", re.IGNORECASE)
_YEARS = re.compile(r"\b(?:years?|jahre?n?|ans?|années?|años?|anos?|ann[oi]|jaar|jaren)\b", re.IGNORECASE)
_WITH_DE = frozenset({"es", "pt"})
LONG = timedelta(days=27)
LONGER = timedelta(days=32)
YEAR = timedelta(days=360)


def dated(text: str, *, at: datetime, speech: Speech, is_past: bool) -> str:
    """The text with the dates that its words mean, seen from the time it was said."""
    pieces, done = [], 0
    is_habit = speech.has("always", text)
    past = find_times(text, now=at, zone=UTC, prefer="past")
    future = find_times(text, now=at, zone=UTC, prefer="future")
    for before, after in zip(past, future, strict=False):
        is_since = _SINCE.search(text[max(before.start_index - NEAR, 0) : before.end_index]) is not None
        found = before if is_past or is_since else after
        is_again = is_habit or _EACH.match(text, found.end_index) is not None
        date = _written(found, text[done : found.start_index], speech, is_habit=is_again)
        if date is None:
            continue
        end = found.end_index
        hour = _HOUR.search(text[found.start_index : end])
        if hour is not None and not date.startswith(" ("):  # "on 12 July at 6": the year belongs to the month
            end = found.start_index + hour.start()
        pieces.append(text[done:end] + date)
        done = end
    return "".join([*pieces, text[done:]])


def _written(found: TimeExpression, before: str, speech: Speech, *, is_habit: bool) -> str | None:
    """What to add behind the words; None where they say it all, or no day, month or year is meant."""
    start, end = found.interval.start, found.interval.end
    if _YEAR.search(found.text) or (start is None and end is None):
        return None
    months = list(words_of(speech.code).values["months"])
    de = " de" if speech.code in _WITH_DE else ""
    if any(name in found.text.casefold() for name in months):
        moment = start or end
        if moment is None or _RELATIVE.search(found.text) is None:
            return f"{de} {moment.year}" if moment is not None else None
        return f" ({moment.year})"
    if start is None or end is None:
        return None
    if speech.has("weekday", found.text) and end - start < timedelta(days=1):  # "on Friday at 2"
        start, end = (moment.replace(hour=0, minute=0) for moment in (start, start + timedelta(days=1)))
    if start.hour or end.hour or end - start < timedelta(days=1):
        return None
    if is_habit or _HABIT.search(before) or _ORDINAL.search(found.text) or _is_plural_weekday(found.text, speech):
        return None
    month = months[start.month - 1]
    month = month.capitalize() if speech.code in {"en", "de"} else month
    length = end - start
    if _YEARS.search(found.text) or (length > YEAR and start.day == 1):
        return f" ({start.year})"
    if _MONTHS.search(found.text) or (LONG < length < LONGER and start.day == 1):
        return f" ({month}{de} {start.year})"
    dot = "." if speech.code == "de" else ""
    return f" ({start.day}{dot}{de} {month}{de} {start.year})" if length == timedelta(days=1) else None


def _is_plural_weekday(text: str, speech: Speech) -> bool:
    """Whether it means every such day: "Mondays", "montags"."""
    words = text.casefold().split()
    return bool(words) and words[-1].endswith("s") and words[-1][:-1] in words_of(speech.code).values["weekdays"]
