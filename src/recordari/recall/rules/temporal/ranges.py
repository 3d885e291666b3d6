"""Rules that combine: times of day, from one time to another, since, before and after."""

from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Final

from recordari.recall.rules.temporal.calendar import DAY, Period, day, day_part, period, yearly_day
from recordari.recall.rules.temporal.grammar import Match, RuleBook
from recordari.recall.rules.temporal.words import Word

RULES = RuleBook()


@RULES.add("4", r"(?P<g>g)", r"(?P<rel>H)(?P<p>P)", r"(?P<rel>L)(?P<p>P)")
def _this_part(phrase: Match) -> Period | None:
    today = phrase.clock.today
    if not phrase.has("p"):
        return day_part(today, "night")
    if phrase.text("rel") == "last":
        return day_part(today - DAY, phrase.text("p")) if phrase.text("p") in ("night", "evening") else None
    return day_part(today, phrase.text("p")) if phrase.text("rel") == "this" else None


@RULES.add("4", r"(?P<day>1),?[ti]?h?[er]?(?P<p>P)", r"(?P<p>P)[ft]?h?(?P<day>1)")
def _part_of_day(phrase: Match) -> Period:
    return day_part(phrase.days("day")[0], phrase.text("p"))


def _clock_time(value: tuple[int, ...], *, late: bool | None) -> tuple[time, timedelta]:
    """A time of day and its grain; `late` settles the half of the day where it is open."""
    hour, minute, second, parts, is_open = value
    if is_open and hour < 12 and (late or (late is None and hour < 7)):
        hour += 12
    grain = (timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1))[parts - 1]
    return time(hour, minute, second), grain


def _at(of: date, value: tuple[int, ...], *, late: bool | None = None) -> Period:
    moment, grain = _clock_time(value, late=late)
    start = datetime.combine(of, moment)
    return period(start, start + grain, slack=timedelta(hours=1))


def _hours(word: Word) -> tuple[int, ...]:
    if isinstance(word.value, tuple):
        return word.value
    if isinstance(word.value, int) and 0 <= word.value <= 24:
        return (word.value % 24, 0, 0, 1, 1 if 1 <= word.value <= 12 else 0)
    raise ValueError("no hour")


def _hours_range(of: date, phrase: Match, *, late: bool | None) -> Period:
    left, right = (_hours(word) for name in ("a", "b", "a2", "b2") for word in phrase.words(name))
    end_time, _ = _clock_time(right, late=late)
    if left[4] and not right[4] and left[0] % 12 <= end_time.hour % 12 and end_time.hour >= 12:
        late = True  # "2 to 4 pm"
    start_time, _ = _clock_time(left, late=late)
    start, end = datetime.combine(of, start_time), datetime.combine(of, end_time)
    return period(start, end if end > start else end + DAY)


_TIMES: Final = r"(?:(?P<a>T)(?:[-QJ]|(?P<and>&))p?(?P<b>[Td])|(?P<a2>d)(?:[-QJ]|(?P<and2>&))(?P<b2>T))"
_AT: Final = rf"(?:[GKp]{{0,2}}{_TIMES}|p?(?P<t>T)|p(?P<d>d))"


@RULES.add("4", rf"(?P<day>[14]),?[ti]?{_AT}(?![uU])", rf"{_AT}(?![uU]),?[tfi]?h?(?P<day>[14])")
def _day_and_time(phrase: Match) -> Period | None:
    word = phrase.words("day")[0]
    if word.period is None or word.period.start is None:
        return None
    late = word.period.start.hour >= 12 if word.code == "4" else None
    of = word.period.start.date()
    if phrase.has("t") or phrase.has("d"):
        return _at(of, _hours((phrase.words("t") or phrase.words("d"))[0]), late=late)
    return _hours_range(of, phrase, late=late)


@RULES.add("6", rf"[GKp]{{0,2}}{_TIMES}(?![uUx])")
def _times(phrase: Match) -> Period | None:
    if (phrase.has("and") or phrase.has("and2")) and "K" not in (word.code for word in phrase.all_words()):
        return None
    return _hours_range(phrase.clock.today, phrase, late=None)


@RULES.add("5", r"p?(?P<t>T)")
def _time(phrase: Match) -> Period:
    return _at(phrase.clock.today, phrase.numbers("t"))


# Ranges and bounds


@RULES.add("3", r"(?:t|[GK])?h?(?P<a>1)(?P<j>[-QJ]|&)h?(?P<d>[dOo])(?![uUx/%])")
def _to_day_number(phrase: Match) -> Period | None:
    """ "April 9th through 17th": the second number is a day of the same month."""
    if phrase.text("j") == "and" and phrase.all_words()[0].code != "K":
        return None
    first = phrase.days("a")[0]
    last = first.replace(day=phrase.number("d"))
    return _through(day(first), day(last)) if last > first else None


@RULES.add("3", r"[GK]?h?(?P<d>[dOo])(?P<j>[-QJ]|&)h?(?P<b>1)")
def _from_day_number(phrase: Match) -> Period | None:
    """ "Between 3 and 12 of September"."""
    if phrase.text("j") == "and" and phrase.all_words()[0].code != "K":
        return None
    last = phrase.days("b")[0]
    first = last.replace(day=phrase.number("d"))
    return _through(day(first), day(last)) if first < last else None


@RULES.add("3", r"[GK]h?(?P<a>[dOo])(?:[-QJ&])h?(?P<b>[dOo])[fi]h?(?P<in>3)")
def _day_numbers_in_month(phrase: Match) -> Period | None:
    first, after = phrase.days("in")
    if (after - first).days > 31:
        return None
    return _through(day(first.replace(day=phrase.number("a"))), day(first.replace(day=phrase.number("b"))))


@RULES.add(
    "3",
    r"(?P<open>[GK])h?(?P<a>[1345kZ])(?P<j>[-QJ]|&)h?(?P<b>[1345kZ])",
    r"(?P<a>[134])(?P<j>[-Q])h?(?P<b>[134])",
    r"(?P<a>k)(?P<j>[-Q])(?P<b>1)",
)
def _range(phrase: Match) -> Period | None:
    joint, opening = phrase.text("j"), phrase.text("open")
    if joint == "and" and opening != "between":
        return None
    whole_days = any(word.code in "13" for name in "ab" for word in phrase.words(name))
    first = _end_point(phrase, "a", whole_days=whole_days)
    last = _end_point(phrase, "b", whole_days=whole_days)
    start, end = first and first.start, last and last.start
    if not first or not last or not start or not end:
        return None
    if last.first_from and (opening or end < start):
        last = last.first_from(start.date())
    elif first.first_from and last.first_from is None:
        # "from April to June 2017": the year said at the end holds for both.
        occurrence = first.first_from
        first = occurrence(date(end.year, 1, 1))
        if first.start and first.start > end:
            first = occurrence(date(end.year - 1, 1, 1))
    return _through(first, last)


def _end_point(phrase: Match, name: str, *, whole_days: bool) -> Period | None:
    word = phrase.words(name)[0]
    if word.code == "Z":
        return day(phrase.clock.today) if whole_days else period(phrase.clock.now, phrase.clock.now)
    if word.code == "k":
        return yearly_day(phrase.clock.today, phrase.clock.prefer, *phrase.numbers(name))
    return word.period


def _through(first: Period, last: Period) -> Period | None:
    """From the start of one period to the start of another; loosely, the last one is part of it."""
    end = last.end if last.edge == "end" else last.start
    if first.start is None or last.end is None or end is None or end < first.start:
        return None
    if end == first.start:
        end = last.end
    return Period(start=first.start, end=end, loose_start=first.loose_start, loose_end=last.loose_end)


def _from(whole: Period) -> Period:
    return replace(whole, end=None, loose_end=None, first_from=None, edge=None)


@RULES.add("3", r"[GI]h?(?P<a>[13])Q(?P<date>x)")
def _to_date(phrase: Match) -> Period | None:
    return _through(phrase.period("a"), day(phrase.clock.today)) if phrase.text("date") == "date" else None


@RULES.add("3", r"(?P<x>[13])(?:[&b](?:[Fr]|(?P<more>x))(?=[.,]|$)|l)")
def _and_later(phrase: Match) -> Period | None:
    if phrase.has("more") and phrase.text("more") not in ("greater", "newer"):
        return None
    return _from(phrase.period("x"))


@RULES.add("3", r"(?P<how>[xe])\?h?(?P<x>[13])")
def _compared(phrase: Match) -> Period | None:
    """ "Greater than 2015", "older than last week"."""
    whole = phrase.period("x")
    match phrase.text("how"):
        case "greater" | "newer":
            return period(whole.end, None)
        case "less" | "older" | "earlier":
            return period(None, whole.start)
        case _:
            return None


@RULES.add("3", r"(?P<how>[IBFJ])[tpi]?h?(?P<x>[134])", r"(?P<how>r\?)h?(?P<x>[134])")
def _bound(phrase: Match) -> Period | None:
    whole = phrase.period("x")
    if whole.start is None or whole.end is None:
        return None
    match phrase.text("how"):
        case "since" | "starting" | "beginning":
            return _from(whole)
        case "after" | "later than":
            return period(whole.start if whole.edge == "start" else whole.end, None)
        case "before" | "until" | "till" | "by" as how:
            end = whole.end if whole.edge == "end" else whole.start
            return replace(period(None, end), loose_end=end if how == "before" else whole.loose_end)
        case _:
            return None
