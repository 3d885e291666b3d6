"""Rules for what has a name in the calendar: dates, weekdays, feast days, months, seasons, years."""

from collections.abc import Callable
from datetime import date, timedelta

from recordari.recall.rules.temporal.calendar import (
    DAY,
    SEASON_MONTHS,
    WEEK,
    Period,
    day,
    day_part,
    holiday,
    long_weekend,
    months,
    period,
    relative_unit,
    shift,
    weekly,
    yearly,
    yearly_day,
)
from recordari.recall.rules.temporal.grammar import Match, RuleBook

RULES = RuleBook()


@RULES.add("9", r"V[b2cdoOx]?[WwUuPMmESsC]")
def _repetition(phrase: Match) -> Period:
    return period(phrase.clock.now, phrase.clock.now)


# Dates and feast days


@RULES.add("1", r"(?P<date>D)")
def _numeric_date(phrase: Match) -> Period:
    year, month, day_of_month = phrase.numbers("date")[:3]
    return day(date(year, month, day_of_month))


@RULES.add(
    "1",
    r"(?P<y>y)[-/]?(?P<m>[MEm])[-/](?P<d>d)",
    r"(?P<y>y)/(?P<d>d)/(?P<m>[MEm])",
    r"(?<![MEm])h?(?P<d>[dOo2])(?P<u>U(?=f))?[-/f]?(?P<m>[ME])(?:[-/,.fi]?(?P<y>y)|f(?P<yy>d))?",
    r"(?<![MEm])h?(?P<d>[dOo2])(?P<u>U(?=f))?[-/f](?P<m>m)(?:[-/,.fi]?(?P<y>y)|f(?P<yy>d))?",
    r"h?(?P<d>[dOoc])(?P<m>[MEm])[-/,.fi]?(?P<y>y)",
    r"(?P<d>[dO])(?P<m>m)(?=[-.,Q&bJK]|$)",
    r"(?P<m>[MEm])[-/.]?h?(?P<d>O)(?![uU/%])(?:[-/,fi]?(?P<y>y))?",
    r"(?P<m>[MEm])[-/.]?h?(?P<d>d)(?![uU/%]|xU)(?:[-/,fi]?(?P<y>y))?",
    r"(?P<m>[ME])h?(?P<d>[o2])(?:[,fi]?(?P<y>y))?",
    r"(?P<m>m)h?(?P<d>[o2])(?=[-.,QJ&by]|$)(?:[,fi]?(?P<y>y))?",
)
def _day_of_month(phrase: Match) -> Period | None:
    if phrase.has("u") and phrase.text("u") != "day":  # "the first week of June"
        return None
    month, number = phrase.number("m"), phrase.number("d")
    if phrase.has("yy"):
        short = phrase.number("yy")
        return day(date(short + (2000 if short < 70 else 1900), month, number))
    return _day_in_year(phrase, month, number)


def _day_in_year(phrase: Match, month: int, number: int) -> Period | None:
    """A day of the year that the text names, or else of the nearest one."""
    if phrase.has("y"):
        return day(date(phrase.number("y"), month, number))
    return yearly_day(phrase.clock.today, phrase.clock.prefer, month, number)


@RULES.add("1", r"(?P<y>y)(?P<m>d)(?P<d>d)(?![uU/%-])")
def _spaced_date(phrase: Match) -> Period:
    return day(date(phrase.number("y"), phrase.number("m"), phrase.number("d")))


@RULES.add("1", r"(?P<k>k),?(?P<y>y)", r"(?<=[tIJBFGK])(?P<k>k)", *(2 * (r"(?<=1[,b])(?P<k>k)",)))
def _slash_date(phrase: Match) -> Period | None:
    return _day_in_year(phrase, *phrase.numbers("k"))


@RULES.add(
    "1",
    r"(?P<rel>[LNH])?(?P<c>C)[,fi]?(?P<y>y)(?!U)",
    r"(?P<rel>[LNH])(?P<c>C)(?!U)",
    r"(?<!h)(?P<c>C)(?!U)",
    r"h(?P<c>C)(?![xU])",
)
def _feast(phrase: Match) -> Period | None:
    return _occurrence(phrase, lambda year: day(holiday(year, phrase.text("c"))))


@RULES.add("3", r"(?P<rel>[LNH])?(?P<c>C)(?P<u>U)(?:[,fi]?(?P<y>y))?")
def _feast_weekend(phrase: Match) -> Period | None:
    if phrase.text("u") != "weekend":
        return None
    return _occurrence(phrase, lambda year: long_weekend(holiday(year, phrase.text("c"))))


def _occurrence(phrase: Match, make: Callable[[int], Period], *, over: date | None = None) -> Period | None:
    """An event that comes every year: in the year named, this year, the next or the last time.

    `over` is the last day on which the last one may have begun; yesterday, if left out.
    """
    today = phrase.clock.today
    if phrase.has("y"):
        return make(phrase.number("y"))
    match phrase.text("rel"):
        case "":
            return yearly(make, today, phrase.clock.prefer)
        case "this" | "current":
            return make(today.year)
        case "next" | "coming" | "upcoming" | "following":
            return yearly(make, today + DAY, "future")
        case _:
            return yearly(make, over or today - DAY, "past")


# Weekdays and near days


@RULES.add("1", r"[LNH]?[Ww][-,.]{0,2}(?P<date>1)")
def _weekday_and_date(phrase: Match) -> Period:
    return phrase.period("date")


RULES.add("1", r"[LNH]?W[-,.]{0,2}(?P<k>k)")(_slash_date)


@RULES.add("1", r"(?P<w>[Ww]),?h?(?P<d>O)", r"(?P<w>[Ww]),?h?(?P<d>[do])(?![-QuUxJ&])")
def _weekday_and_number(phrase: Match) -> Period | None:
    """The nearest month in which that day of the month is that weekday; this month when it fits."""
    return _nearest_month(phrase, 60, lambda candidate: candidate.weekday() == phrase.number("w"))


def _nearest_month(phrase: Match, most: int, fits: Callable[[date], bool]) -> Period | None:
    """The day of that number in the nearest of so many months in which it fits."""
    number, step = phrase.number("d"), -1 if phrase.clock.prefer == "past" else 1
    for distance in range(most):
        month = shift(phrase.clock.today.replace(day=1), step * distance, "month")
        candidate = month + timedelta(days=number - 1)
        if candidate.month == month.month and number > 0 and fits(candidate):
            return day(candidate)
    return None


@RULES.add("1", r"(?P<rel>[LNH])(?P<u>U)[t,]?(?P<w>[Ww])", r"(?P<w>W)[ft]?h?(?P<rel>[LNH])(?P<u>U)")
def _weekday_of_week(phrase: Match) -> Period | None:
    week = relative_unit(phrase.clock.today, phrase.text("rel"), "week")
    if phrase.text("u") != "week" or week.start is None:
        return None
    value = week.start.date() + timedelta(days=phrase.number("w"))
    return day_part(value, phrase.text("p")) if phrase.has("p") else day(value)


RULES.add("4", r"(?P<w>W)(?P<p>P)[ft]?h?(?P<rel>[LNH])(?P<u>U)")(_weekday_of_week)


@RULES.add("1", r"(?P<rel>HL|HN|[LN])h?(?P<w>[Ww])(?!f)", r"(?P<rel>H)(?P<w>W)")
def _relative_weekday(phrase: Match) -> Period:
    today, weekday = phrase.clock.today, phrase.number("w")
    this = today + timedelta(days=weekday - today.weekday())
    match phrase.text("rel"):
        case "this" | "current":
            return day(this)
        case "last" | "past" | "this last" | "this past":
            return weekly(weekday, today, "past")
        case "previous" | "prior":
            return day(this - WEEK)
        case "coming" | "upcoming" | "this coming" | "this upcoming":
            return weekly(weekday, today, "future")
        case _:
            return day(this + WEEK)


@RULES.add("1", r"(?<![oO2])(?P<w>W)(?!U)", r"(?<=t)(?P<w>w)(?!x)")
def _weekday(phrase: Match) -> Period:
    return weekly(phrase.number("w"), phrase.clock.today, phrase.clock.prefer)


@RULES.add("1", r"(?P<r>R)")
def _near_day(phrase: Match) -> Period:
    offset = {"yesterday": -1, "today": 0, "tomorrow": 1}[phrase.text("r")]
    return day(phrase.clock.today + timedelta(days=offset))


@RULES.add("1", r"th?(?P<d>O)(?=[-.,&bT]|$)")
def _number_of_day(phrase: Match) -> Period | None:
    today = phrase.clock.today
    if phrase.clock.prefer == "past":
        return _nearest_month(phrase, 4, lambda candidate: candidate <= today)
    return _nearest_month(phrase, 4, lambda candidate: candidate >= today)


# Months, quarters, seasons, years


@RULES.add("3", r"(?P<ym>Y)")
def _numeric_month(phrase: Match) -> Period:
    year, month = phrase.numbers("ym")
    return months(year, month, 1)


@RULES.add(
    "3",
    r"(?P<m>[ME])[-/,.fi]?(?P<y>y)",
    r"(?P<m>m)[-/,f]?(?P<y>y)",
    r"(?P<y>y)[-/,]?(?P<m>[ME])",
    r"(?P<y>y)[-/,]?(?P<m>m)(?!x)",
)
def _month_of_year(phrase: Match) -> Period:
    return months(phrase.number("y"), phrase.number("m"), 1)


@RULES.add("3", r"(?P<rel>[LNH])(?P<m>[ME])", r"(?P<rel>[LNH])(?P<m>m)(?!x)")
def _relative_month(phrase: Match) -> Period | None:
    today, month = phrase.clock.today, phrase.number("m")

    def in_year(year: int) -> Period:
        return months(year, month, 1)

    match phrase.text("rel"):
        case "this" | "current":
            return in_year(today.year)
        case "next" | "coming" | "upcoming" | "following":
            return yearly(in_year, today + DAY, "future")
        case _:
            return in_year(today.year if month < today.month else today.year - 1)


@RULES.add(
    "3",
    r"(?P<m>[ME])f?h?(?P<rel>[LNH])(?P<u>U)",
    r"(?:(?<=[iIJBFG])(?P<m>m)|(?P<may>m)f)h?(?P<rel>[LNH])(?P<u>U)",
    r"(?P<s>[Ss])f?h?(?P<rel>[LNH])(?P<u>U)",
)
def _month_of_relative_year(phrase: Match) -> Period | None:
    """ "May of last year", "the summer of this year"."""
    year = relative_unit(phrase.clock.today, phrase.text("rel"), "year").start
    if phrase.text("u") != "year" or year is None:
        return None
    if phrase.has("s"):
        return months(year.year, SEASON_MONTHS[phrase.text("s")], 3)
    return months(year.year, phrase.number("m" if phrase.has("m") else "may"), 1)


@RULES.add(
    "3",
    r"(?P<m>M)",
    r"(?<=[ifIJBFGKevr])(?P<m>E)",
    r"(?<=[ifIJBFGK])(?P<m>m)",
    r"(?<=[evr])(?P<m>m)(?!x)",
    r"(?<=[vr]-)(?P<m>[Em])",
    r"(?P<m>[Em])(?=[-Q][3MEm])",
    r"(?<=3[-Q&b])(?P<m>[Em])",
)
def _month(phrase: Match) -> Period | None:
    return _occurrence(phrase, lambda year: months(year, phrase.number("m"), 1))


@RULES.add("3", r"(?P<q>q)[-/,f]?(?P<y>y)", r"(?P<y>y)[-/]?(?P<q>q)", r"(?<=[iIJBFGQK])(?P<q>q)")
def _quarter(phrase: Match) -> Period | None:
    length, number = phrase.numbers("q")
    if not phrase.has("y") and length != 3:
        return None
    return _occurrence(phrase, lambda year: months(year, length * (number - 1) + 1, length))


@RULES.add(
    "3",
    r"(?P<s>[Ss])[,f]?(?P<y>y)",
    r"(?P<rel>[LNH])(?P<s>[Ss])",
    r"(?P<y>y)(?P<s>[Ss])",
    r"(?<=[iIJBFGevr])h?(?P<s>[Ss])(?![Uf])",
)
def _season(phrase: Match) -> Period | None:
    name, today = phrase.text("s"), phrase.clock.today

    def in_year(year: int) -> Period:
        return months(year, SEASON_MONTHS[name], 3)

    if name == "winter" and today.month < 3 and not phrase.has("y") and phrase.text("rel") in ("this", "current"):
        return in_year(today.year - 1)
    # The last one that is over: "last summer" in July is that of the year before.
    return _occurrence(phrase, in_year, over=today.replace(day=1) - timedelta(days=75))


@RULES.add("3", r"h?(?P<u>U)f?(?P<y>y)", r"(?<![xahH])(?P<y>y)(?![uU%])", r"(?P<y>y)(?![uU%x])")
def _year(phrase: Match) -> Period | None:
    # Between other words ("a 2018 Honda", "the 2008 crisis") a year is a name, not the time of the sentence.
    # Far in the future a bare number is hardly a year.
    year = phrase.number("y")
    is_year = phrase.text("u") == "year" if phrase.has("u") else 1900 <= year <= phrase.clock.today.year + 20
    return months(year, 1, 12) if is_year else None


@RULES.add("3", r"[hi](?P<short>X)", r"(?P<long>X)")
def _decade(phrase: Match) -> Period | None:
    is_placed = phrase.has("short")
    (decade,) = phrase.numbers("short" if is_placed else "long")
    if decade < 100:
        if not is_placed:  # "my thirties" is an age
            return None
        decade += 1900 if decade >= 30 else 2000
    return months(decade, 1, 120)


@RULES.add("3", r"h?(?P<o>[Oo2])(?P<u>U)(?![f])")
def _century(phrase: Match) -> Period | None:
    return months((phrase.number("o") - 1) * 100, 1, 1200) if phrase.text("u") == "century" else None
