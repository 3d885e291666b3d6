"""Rules for what has a name in the calendar: dates, weekdays, feast days, months, seasons, years."""

from collections.abc import Callable
from datetime import date, timedelta

from recordari.recall.rules.temporal.calendar import (
    DAY,
    WEEK,
    Period,
    day,
    day_part,
    holiday,
    long_weekend,
    months,
    period,
    relative_unit,
    season,
    shift,
    weekly,
    yearly,
    yearly_day,
)
from recordari.recall.rules.temporal.grammar import Match, RuleBook

RULES = RuleBook()


@RULES.add("9", r"V[b2cdoOx]?[WwUuPMmESsC]")
def _repetition(found: Match) -> Period:
    return period(found.clock.now, found.clock.now)


# Dates and feast days


@RULES.add("1", r"(?P<date>D)")
def _numeric_date(found: Match) -> Period:
    year, month, day_of_month = found.numbers("date")[:3]
    return day(date(year, month, day_of_month))


@RULES.add(
    "1",
    r"(?P<y>y)[-/]?(?P<m>[MEm])[-/](?P<d>d)",
    r"(?P<y>y)/(?P<d>d)/(?P<m>[MEm])",
    r"(?<![MEm])h?(?P<d>[dOo2])(?P<u>U(?=f))?[-/f]?(?P<m>[ME])(?:[-/,.fi]?(?P<y>y)|f(?P<yy>d))?",
    r"(?<![MEm])h?(?P<d>[dOo2])(?P<u>U(?=f))?[-/f](?P<m>m)(?:[-/,.fi]?(?P<y>y)|f(?P<yy>d))?",
    r"h?(?P<d>[dOoc])(?P<m>[MEm])[-/,.fi]?(?P<y>y)",
    r"(?P<d>[dO])(?P<m>m)(?=[-.,Q&bJK]|$)",
    r"(?P<m>[MEm])[-/.]?h?(?P<d>[dO])(?![uU/%]|xU)(?:[-/,fi]?(?P<y>y))?",
    r"(?P<m>[ME])h?(?P<d>[o2])(?:[,fi]?(?P<y>y))?",
    r"(?P<m>m)h?(?P<d>[o2])(?=[-.,QJ&by]|$)(?:[,fi]?(?P<y>y))?",
)
def _day_of_month(found: Match) -> Period | None:
    if found.has("u") and found.text("u") != "day":  # "the first week of June"
        return None
    month, number = found.number("m"), found.number("d")
    if found.has("y"):
        return day(date(found.number("y"), month, number))
    if found.has("yy"):
        short = found.number("yy")
        return day(date(short + (2000 if short < 70 else 1900), month, number))
    return yearly_day(found.clock.today, found.clock.prefer, month, number)


@RULES.add("1", r"(?P<k>k),?(?P<y>y)", r"(?<=[tIJBFGK])(?P<k>k)", *(2 * (r"(?<=1[,b])(?P<k>k)",)))
def _slash_date(found: Match) -> Period | None:
    month, number = found.numbers("k")
    if found.has("y"):
        return day(date(found.number("y"), month, number))
    return yearly_day(found.clock.today, found.clock.prefer, month, number)


@RULES.add(
    "1",
    r"(?P<rel>[LNH])?(?P<c>C)[,fi]?(?P<y>y)(?!U)",
    r"(?P<rel>[LNH])(?P<c>C)(?!U)",
    r"(?<!h)(?P<c>C)(?!U)",
    r"h(?P<c>C)(?![xU])",
)
def _feast(found: Match) -> Period | None:
    return _feast_as(found, lambda year: day(holiday(year, found.text("c"))))


@RULES.add("3", r"(?P<rel>[LNH])?(?P<c>C)(?P<u>U)(?:[,fi]?(?P<y>y))?")
def _feast_weekend(found: Match) -> Period | None:
    if found.text("u") != "weekend":
        return None
    return _feast_as(found, lambda year: long_weekend(holiday(year, found.text("c"))))


def _feast_as(found: Match, make: Callable[[int], Period]) -> Period | None:
    today = found.clock.today
    if found.has("y"):
        return make(found.number("y"))
    match found.text("rel"):
        case "":
            return yearly(make, today, found.clock.prefer)
        case "this" | "current":
            return make(today.year)
        case "next" | "coming" | "upcoming" | "following":
            return yearly(make, today + DAY, "future")
        case _:
            return yearly(make, today - DAY, "past")


# Weekdays and near days


@RULES.add("1", r"[LNH]?[Ww][-,.]{0,2}(?P<date>1)")
def _weekday_and_date(found: Match) -> Period:
    return found.period("date")


@RULES.add("1", r"[LNH]?W[-,.]{0,2}(?P<k>k)")
def _weekday_and_slash_date(found: Match) -> Period | None:
    return yearly_day(found.clock.today, found.clock.prefer, *found.numbers("k"))


@RULES.add("1", r"(?P<w>[Ww]),?h?(?P<d>O)", r"(?P<w>[Ww]),?h?(?P<d>[do])(?![-QuUxJ&])")
def _weekday_and_number(found: Match) -> Period | None:
    """Find the nearest month in which that day of the month is that weekday; this month when it fits."""
    weekday, number = found.number("w"), found.number("d")
    today = found.clock.today
    step = -1 if found.clock.prefer == "past" else 1
    for distance in range(60):
        month = shift(today.replace(day=1), step * distance, "month")
        candidate = month + timedelta(days=number - 1)
        if candidate.month == month.month and candidate.weekday() == weekday and number > 0:
            return day(candidate)
    return None


@RULES.add("1", r"(?P<rel>[LNH])(?P<u>U)[t,]?(?P<w>[Ww])", r"(?P<w>W)[ft]?h?(?P<rel>[LNH])(?P<u>U)")
def _weekday_of_week(found: Match) -> Period | None:
    week = relative_unit(found.clock.today, found.text("rel"), "week")
    if found.text("u") != "week" or week.start is None:
        return None
    return day(week.start.date() + timedelta(days=found.number("w")))


@RULES.add("4", r"(?P<w>W)(?P<p>P)[ft]?h?(?P<rel>[LNH])(?P<u>U)")
def _weekday_part_of_week(found: Match) -> Period | None:
    week = relative_unit(found.clock.today, found.text("rel"), "week")
    if found.text("u") != "week" or week.start is None:
        return None
    return day_part(week.start.date() + timedelta(days=found.number("w")), found.text("p"))


@RULES.add("1", r"(?P<rel>HL|HN|[LN])h?(?P<w>[Ww])(?!f)", r"(?P<rel>H)(?P<w>W)")
def _relative_weekday(found: Match) -> Period:
    today, weekday = found.clock.today, found.number("w")
    monday = today - timedelta(days=today.weekday())
    match found.text("rel"):
        case "this" | "current":
            return day(monday + timedelta(days=weekday))
        case "last" | "past" | "this last" | "this past":
            return weekly(weekday, today, "past")
        case "previous" | "prior":
            return day(monday - WEEK + timedelta(days=weekday))
        case "coming" | "upcoming" | "this coming" | "this upcoming":
            return weekly(weekday, today, "future")
        case _:
            return day(monday + WEEK + timedelta(days=weekday))


@RULES.add("1", r"(?<![oO2])(?P<w>W)(?!U)", r"(?<=t)(?P<w>w)(?!x)")
def _weekday(found: Match) -> Period:
    return weekly(found.number("w"), found.clock.today, found.clock.prefer)


@RULES.add("1", r"(?P<r>R)")
def _near_day(found: Match) -> Period:
    offset = {"yesterday": -1, "today": 0, "tomorrow": 1}[found.text("r")]
    return day(found.clock.today + timedelta(days=offset))


@RULES.add("1", r"th?(?P<d>O)(?=[-.,&bT]|$)")
def _number_of_day(found: Match) -> Period | None:
    today, number = found.clock.today, found.number("d")
    step = -1 if found.clock.prefer == "past" else 1
    for distance in range(4):
        month = shift(today.replace(day=1), step * distance, "month")
        candidate = month + timedelta(days=number - 1)
        if candidate.month == month.month and number > 0 and (candidate - today).days * step >= 0:
            return day(candidate)
    return None


# Months, quarters, seasons, years


@RULES.add("3", r"(?P<ym>Y)")
def _numeric_month(found: Match) -> Period:
    year, month = found.numbers("ym")
    return months(year, month, 1)


@RULES.add(
    "3",
    r"(?P<m>[ME])[-/,.fi]?(?P<y>y)",
    r"(?P<m>m)[-/,f]?(?P<y>y)",
    r"(?P<y>y)[-/,]?(?P<m>[ME])",
    r"(?P<y>y)[-/,]?(?P<m>m)(?!x)",
)
def _month_of_year(found: Match) -> Period:
    return months(found.number("y"), found.number("m"), 1)


@RULES.add("3", r"(?P<rel>[LNH])(?P<m>[ME])", r"(?P<rel>[LNH])(?P<m>m)(?!x)")
def _relative_month(found: Match) -> Period | None:
    today, month = found.clock.today, found.number("m")

    def in_year(year: int) -> Period:
        return months(year, month, 1)

    match found.text("rel"):
        case "this" | "current":
            return in_year(today.year)
        case "next" | "coming" | "upcoming" | "following":
            return yearly(in_year, today + DAY, "future")
        case _:
            return in_year(today.year if month < today.month else today.year - 1)


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
def _month(found: Match) -> Period | None:
    month = found.number("m")
    return yearly(lambda year: months(year, month, 1), found.clock.today, found.clock.prefer)


@RULES.add("3", r"(?P<q>q)[-/,f]?(?P<y>y)", r"(?P<y>y)[-/]?(?P<q>q)", r"(?<=[iIJBFGQK])(?P<q>q)")
def _quarter(found: Match) -> Period | None:
    length, number = found.numbers("q")

    def in_year(year: int) -> Period:
        return months(year, length * (number - 1) + 1, length)

    if found.has("y"):
        return in_year(found.number("y"))
    return yearly(in_year, found.clock.today, found.clock.prefer) if length == 3 else None


@RULES.add(
    "3",
    r"(?P<s>[Ss])[,f]?(?P<y>y)",
    r"(?P<rel>[LNH])(?P<s>[Ss])",
    r"(?P<y>y)(?P<s>[Ss])",
    r"(?<=[iIJBFGevr])h?(?P<s>[Ss])(?![Uf])",
)
def _season(found: Match) -> Period | None:
    name = found.text("s")

    def in_year(year: int) -> Period:
        return season(year, name)

    today = found.clock.today
    if found.has("y"):
        return in_year(found.number("y"))
    match found.text("rel"):
        case "":
            return yearly(in_year, today, found.clock.prefer)
        case "this" | "current":
            return in_year(today.year - 1 if name == "winter" and today.month < 3 else today.year)
        case "next" | "coming" | "upcoming" | "following":
            return yearly(in_year, today + DAY, "future")
        case _:
            # The last one that is over: "last summer" in July is that of the year before.
            return yearly(in_year, (today.replace(day=1) - timedelta(days=75)), "past")


@RULES.add("3", r"h?(?P<u>U)f?(?P<y>y)", r"(?<![xahH])(?P<y>y)(?![uU%])", r"(?P<y>y)(?![uU%x])")
def _year(found: Match) -> Period | None:
    # Between other words ("a 2018 Honda", "the 2008 crisis") a year is a name, not the time of the sentence.
    year = found.number("y")
    if found.has("u"):
        return months(year, 1, 12) if found.text("u") == "year" else None
    # Far in the future a bare number is hardly a year.
    return months(year, 1, 12) if 1900 <= year <= found.clock.today.year + 20 else None


@RULES.add("3", r"[hi](?P<short>X)", r"(?P<long>X)")
def _decade(found: Match) -> Period | None:
    is_placed = found.has("short")
    (decade,) = found.numbers("short" if is_placed else "long")
    if decade < 100:
        if not is_placed:  # "my thirties" is an age
            return None
        decade += 1900 if decade >= 30 else 2000
    return months(decade, 1, 120)


@RULES.add("3", r"h?(?P<o>[Oo2])(?P<u>U)(?![f])")
def _century(found: Match) -> Period | None:
    if found.text("u") != "century":
        return None
    return months((found.number("o") - 1) * 100, 1, 1200)
