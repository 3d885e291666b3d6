"""Rules for time counted from today, and for parts of a longer period: "three weeks ago", "late May"."""

from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Final, Literal

from recordari.recall.rules.temporal.calendar import (
    DAY,
    MIDNIGHT,
    WEEK,
    Period,
    day,
    days,
    is_next,
    nth_weekday,
    period,
    relative_unit,
    shift,
    slack,
    split_weeks,
    unit_around,
    up_to_today,
)
from recordari.recall.rules.temporal.grammar import Match, RuleBook
from recordari.recall.rules.temporal.words import Word

RULES = RuleBook()
_COUNT: Final = "[acdn~]"
_SPAN: Final = rf"(?P<span>{_COUNT}U(?:[&,]?{_COUNT}U){{0,3}})"
_SHORT_SPAN: Final = rf"(?P<span>{_COUNT}u(?:[&,]?{_COUNT}u){{0,2}})"


def _span(words: list[Word]) -> list[tuple[int, str, bool]]:
    """Count, unit and vagueness of each part of "three months and two weeks"."""
    counts = [word for word in words if word.code not in "Uu&,"]
    units = [word for word in words if word.code in "Uu"]
    parts = []
    for count, unit in zip(counts, units, strict=True):
        assert isinstance(count.value, int), count
        parts.append((count.value, str(unit.value), count.code == "~"))
    return parts


def _move(start: date, words: list[Word], direction: int) -> date:
    for count, unit, _ in _span(words):
        start = shift(start, direction * count, unit)
    return start


def _about(then: date, width: timedelta) -> Period:
    """A day that is named only roughly."""
    start = datetime.combine(then, MIDNIGHT)
    return period(start, start + DAY, slack=width)


@RULES.add("3", rf"h?(?P<rel>HL|HN|[LN]){_SPAN}", r"h?(?P<span>[cdn~](?P<rel>[LN])U)")
def _counted_units(phrase: Match) -> Period | None:
    clock = phrase.clock
    words = [word for word in phrase.words("span") if word.code not in "LN"]
    parts = _span(words)
    if phrase.all_words()[-2].code in "LN" and not words[-1].plural:  # "only three next week"
        return None
    ahead = is_next(phrase.text("rel"))
    if len(parts) == 1 and parts[0][1] == "quarter":
        here = unit_around(clock.today, "quarter")
        assert here.start and here.end
        if ahead:
            return days(here.end.date(), shift(here.end.date(), parts[0][0], "quarter"))
        return days(shift(here.start.date(), -parts[0][0], "quarter"), here.start.date())
    if ahead:
        tomorrow = clock.today + DAY
        return replace(days(tomorrow, _move(tomorrow, words, 1)), loose_start=datetime.combine(clock.today, MIDNIGHT))
    return up_to_today(clock.today, _move(clock.today, words, -1))


@RULES.add("3", r"h?(?P<rel>HL|HN|[LNH])(?P<w>%)?(?P<u>U)(?![f]|BR|FR)")
def _unit(phrase: Match) -> Period | None:
    unit, which = phrase.text("u"), phrase.text("rel")
    if unit == "day" or phrase.words("u")[0].plural:  # "the next day", "the coming weeks"
        return None
    if unit == "weekend" and which == "this past":
        which = "last"
    if phrase.has("w") and unit == "week":
        unit = "workweek"
    whole = relative_unit(phrase.clock.today, which, unit)
    if which == "last" and phrase.all_words()[0].code == "h":
        # "In the last month" is a calendar month by convention, but people mean up to now.
        whole = replace(whole, loose_end=datetime.combine(phrase.clock.today + DAY, MIDNIGHT))
    return whole


@RULES.add("3", r"h?(?P<u>U)(?P<dir>F)N", r"h?(?P<u>U)(?P<dir>B)L")
def _unit_after_next(phrase: Match) -> Period | None:
    unit, count = phrase.text("u"), 2 if phrase.text("dir") == "after" else -2
    return unit_around(shift(phrase.clock.today, count, unit), unit) if unit != "day" else None


@RULES.add("3", r"h?(?P<rel>[LN])(?P<n>[cd])%U")
def _working_days(phrase: Match) -> Period | None:
    today, count = phrase.clock.today, phrase.number("n")
    if count > 1000:
        return None
    step = DAY if is_next(phrase.text("rel")) else -DAY
    working: list[date] = []
    while len(working) < count:
        today += step
        if today.weekday() < 5:
            working.append(today)
    return days(min(working), max(working) + DAY)


@RULES.add("3", rf"(?P<more>x)\?{_SPAN}(?:A|(?P<dir>[BF])(?P<day>1))")
def _more_than(phrase: Match) -> Period | None:
    """ "More than two weeks ago": everything before that day."""
    if phrase.text("more") != "more":
        return None
    ahead = phrase.text("dir") == "after"
    anchor = phrase.days("day")[0] if phrase.has("day") else phrase.clock.today
    then = datetime.combine(_move(anchor, phrase.words("span"), 1 if ahead else -1), MIDNIGHT)
    return period(then, None) if ahead else period(None, then)


@RULES.add("1", r"ja(?P<u>U)A", r"(?P<n>[ac])(?P<u>U)&ajA", r"(?P<n>c)&a?j(?P<u>U)A")
def _halves_ago(phrase: Match) -> Period | None:
    """ "Half a year ago", "a year and a half ago"."""
    whole = phrase.number("n") if phrase.has("n") else 0
    smaller = {"decade": ("year", 5), "year": ("month", 6), "month": ("day", 15), "week": ("day", 3)}
    unit = phrase.text("u")
    if unit not in smaller:
        return None
    part, count = smaller[unit]
    then = shift(shift(phrase.clock.today, -whole, unit), -count, part)
    return _about(then, slack(whole or count, unit if whole else part, vague=False))


@RULES.add("1", rf"(?<!j){_SPAN}A")
def _ago(phrase: Match) -> Period:
    words = phrase.words("span")
    then = _move(phrase.clock.today, words, -1)
    count, unit, vague = _span(words)[-1]
    return unit_around(then, unit) if unit == "weekend" else _about(then, slack(count, unit, vague=vague))


_SHORT: Final = {"hour": timedelta(hours=1), "minute": timedelta(minutes=1), "second": timedelta(seconds=1)}


def _short_span(words: list[Word]) -> timedelta:
    return sum((count * _SHORT[unit] for count, unit, _ in _span(words)), timedelta())


@RULES.add("4", rf"{_SHORT_SPAN}A", rf"(?P<in>i){_SHORT_SPAN}", rf"{_SHORT_SPAN}(?P<in>G)Z")
def _hours_away(phrase: Match) -> Period | None:
    words = phrase.words("span")
    span, now = _short_span(words), phrase.clock.now
    unit = _SHORT[_span(words)[-1][1]]
    match phrase.text("in"):
        case "within":
            return period(now, now + span)
        case "" | "in" | "from" as direction:
            then = now + span if direction else now - span
            return period(then, then + unit, slack=max(span / 4, unit))
        case _:
            return None


@RULES.add("4", r"h?(?P<rel>[LN])(?P<span>[acdn~]u)", r"h?(?P<span>[cdn~](?P<rel>[LN])u)")
def _counted_hours(phrase: Match) -> Period:
    now = phrase.clock.now
    span = _short_span([word for word in phrase.words("span") if word.code not in "LN"])
    return period(now, now + span) if is_next(phrase.text("rel")) else period(now - span, now)


@RULES.add("1", rf"i{_SPAN}Ih?U?(?P<day>[13])")
def _days_after_start(phrase: Match) -> Period:
    """ "In two years since 2011"."""
    return day(_move(phrase.days("day")[0], phrase.words("span"), 1))


@RULES.add("1", rf"(?P<in>i){_SPAN}(?![fGBI])")
def _days_ahead(phrase: Match) -> Period | None:
    words = phrase.words("span")
    if phrase.text("in") != "in" or (words[0].code, words[1].value) == ("a", "day"):  # "twice in a day"
        return None
    then = _move(phrase.clock.today, words, 1)
    count, unit, vague = _span(words)[-1]
    if vague and phrase.clock.prefer == "past":  # "we have not talked in a few days"
        return None
    return _about(then, slack(count, unit, vague=vague))


@RULES.add("1", rf"i?{_SPAN}(?P<dir>[BFG])(?P<day>1|Z)", r"h?(?P<span>U)(?P<dir>[BF])(?P<day>1)")
def _days_from(phrase: Match) -> Period | None:
    words = phrase.words("span")
    anchor = phrase.days("day")[0] if phrase.words("day")[0].period else phrase.clock.today
    direction = -1 if phrase.text("dir") == "before" else 1
    if len(words) == 1:
        return day(anchor + direction * DAY) if words[0].value == "day" else None
    return day(_move(anchor, words, direction))


@RULES.add("3", r"h?(?P<u>U)(?P<dir>[BF])h?(?P<anchor>[13])")
def _unit_beside(phrase: Match) -> Period | None:
    """ "The week before 3 August": the seven days that end there."""
    unit, (first, after) = phrase.text("u"), phrase.days("anchor")
    if unit not in ("week", "month", "year"):
        return None
    if phrase.text("dir") == "before":
        return days(shift(first, -1, unit), first)
    return days(after, shift(after, 1, unit))


@RULES.add("3", rf"{_SPAN}(?P<how>I)t?(?P<day>1)", rf"(?P<how>x){_SPAN}G(?P<day>1)")
def _span_starting(phrase: Match) -> Period | None:
    if phrase.text("how") not in ("starting", "beginning", "for"):
        return None
    first = phrase.days("day")[0]
    return days(first, _move(first, phrase.words("span"), 1))


@RULES.add("3", r"h?(?P<u>U)fh?(?P<day>1)", r"h(?P<u>U)fh?(?P<o>O)")
def _unit_of_day(phrase: Match) -> Period | None:
    unit = phrase.text("u")
    if unit not in ("week", "weekend"):
        return None
    if phrase.has("day"):
        return unit_around(phrase.days("day")[0], unit)
    number, today = phrase.number("o"), phrase.clock.today
    anchor = today.replace(day=number)
    if anchor > today and phrase.clock.prefer == "past":
        anchor = shift(today.replace(day=1), -1, "month").replace(day=number)
    return unit_around(anchor, unit)


@RULES.add("3", r"(?<=[itpI])h?(?P<u>U)(?![f])", r"(?<=x)h?(?P<u>U)(?=[.,]*$)")
def _weekend(phrase: Match) -> Period | None:
    if phrase.text("u") != "weekend" or phrase.words("u")[0].plural:  # "on the weekends": a habit
        return None
    this = unit_around(phrase.clock.today, "weekend")
    if phrase.clock.prefer == "past" and this.start and this.start > phrase.clock.now:
        return unit_around(phrase.clock.today - WEEK, "weekend")
    return this


# Parts of a longer period


def _inside(phrase: Match) -> tuple[date, date]:
    """The days of the enclosing period: one that was folded, or "the year"."""
    word = phrase.words("in")[0]
    if word.period is not None:
        return phrase.days("in")
    around = unit_around(phrase.clock.today, str(word.value))
    if around.start is None or around.end is None or word.value == "day":
        raise ValueError("no enclosing period")
    return around.start.date(), around.end.date()


@RULES.add("1", r"h?(?P<o>[oO2L])(?P<w>W)[fi]h?(?P<in>3|U)")
def _nth_weekday(phrase: Match) -> Period | None:
    first, after = _inside(phrase)
    if (after - first).days > 31:
        return None
    which = -1 if phrase.words("o")[0].code == "L" else phrase.number("o")
    return day(nth_weekday(first.year, first.month, phrase.number("w"), which))


@RULES.add("3", r"h?(?P<o>[oO2L])(?P<n>[cd~])?(?P<u>U)[fi]h?(?P<in>3|U)")
def _nth_unit(phrase: Match) -> Period | None:
    first, after = _inside(phrase)
    unit = phrase.text("u")
    from_end = phrase.words("o")[0].code == "L"
    if from_end and phrase.text("o") != "last":
        return None
    number = 1 if from_end else phrase.number("o")
    count = phrase.number("n") if phrase.has("n") else 1
    if phrase.has("n") and number != 1:
        return None
    if unit == "week":
        head, tail = split_weeks(first.year, first.month if (after - first).days <= 31 else None)
        start = tail - (count - 1) * WEEK if from_end else head + (number - 1) * WEEK
        return days(start, start + count * WEEK) if start < after else None
    if unit not in ("day", "month", "quarter", "year", "decade", "weekend"):
        return None
    if unit == "weekend":
        saturday = first + timedelta(days=(5 - first.weekday()) % 7) + (number - 1) * WEEK
        return None if from_end else days(saturday, saturday + 2 * DAY)
    start = shift(after, -count, unit) if from_end else shift(first, number - 1, unit)
    end = shift(start, count, unit)
    return days(start, end) if first <= start and end <= after else None


@RULES.add("1", r"h?(?P<d>[Oo])fh?(?P<in>3)")
def _day_of_relative_month(phrase: Match) -> Period | None:
    """ "The 5th of last month"."""
    first, after = phrase.days("in")
    return day(first.replace(day=phrase.number("d"))) if 28 <= (after - first).days <= 31 else None


@RULES.add("3", r"h?(?P<o>[o2L])jfh?(?P<in>3|U)")
def _half(phrase: Match) -> Period | None:
    first, after = _inside(phrase)
    length = (after - first).days
    middle = shift(first, 6, "month") if length > 300 else first + timedelta(days=(length + 1) // 2)
    return days(first, middle) if phrase.words("o")[0].code == "o" else days(middle, after)


@RULES.add(
    "3",
    r"(?P<sure>(?<=[it])h?|(?<=[it]h))(?P<u>U)(?P<d>d)(?![fi,]*3|f)",
    r"(?P<u>U)(?P<d>d)(?P<sure>)(?=T)",
    r"(?P<u>U)(?P<d>d)(?:[fi,]?(?P<in>3))?(?!f)",
)
def _week_number(phrase: Match) -> Period | None:
    number = phrase.number("d")
    # Small numbers without a year and a preposition count the weeks of a course, not of the calendar.
    is_sure = "sure" in phrase.groups or phrase.has("in") or number > 12
    if phrase.text("u") != "week" or not is_sure:
        return None
    year = phrase.days("in")[0].year if phrase.has("in") else phrase.clock.today.year
    monday = date.fromisocalendar(year, number, 1)
    return days(monday, monday + WEEK)


@RULES.add("3", r"h?(?P<part>[evrI])[-fi]?h?(?P<in>3)", r"h?(?P<part>[evrI])[fi]h?(?P<in>U)")
def _part(phrase: Match) -> Period | None:
    first, after = _inside(phrase)
    name, today = phrase.text("part"), phrase.clock.today
    if name in ("since", "starting") or (name == "beginning" and "f" not in (w.code for w in phrase.all_words())):
        return None
    which = {"e": 0, "I": 0, "v": 1, "r": 2}[phrase.words("part")[0].code]
    around_now = not phrase.words("in")[0].period or first <= today < after
    if name == "later" and around_now and (after - first).days <= 31:
        first = max(first, today)
    elif name == "earlier" and around_now:
        after = max(first + DAY, today)
    else:
        first, after = _third(first, after, which, around_now=around_now)
    edge: Literal["start", "end"] | None = "start" if name in ("start", "beginning") else None
    return replace(days(first, after), edge="end" if which == 2 else edge)


def _third(first: date, after: date, which: int, *, around_now: bool) -> tuple[date, date]:
    """Cut out the early, middle or late part; of the running year "early" and "late" are its halves."""
    length = (after - first).days
    if length <= 7:
        cuts = ((0, 3), (2, 4), (3, length))
    elif length <= 31:
        cuts = ((0, 15), (9, 20), (15, length))
    else:
        count = round(length / 30.4)
        if around_now and which != 1:
            middle = shift(first, count // 2, "month")
            return (first, middle) if which == 0 else (middle, after)
        edges = (first, shift(first, count // 3, "month"), shift(first, count * 2 // 3, "month"), after)
        return edges[which], edges[which + 1]
    start, end = cuts[which]
    return first + timedelta(days=start), first + timedelta(days=end)


@RULES.add("3", r"h?(?P<rest>x)fh?(?P<in>3|U)")
def _rest(phrase: Match) -> Period | None:
    first, after = _inside(phrase)
    today = phrase.clock.today
    return (
        days(today, after)
        if phrase.text("rest") in ("rest", "remainder", "remaining") and first <= today < after
        else None
    )
