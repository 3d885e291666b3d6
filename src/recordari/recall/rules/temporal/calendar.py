"""Calendar arithmetic for time expressions: periods of local time, units, seasons and feast days."""

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Final, Literal

Preference = Literal["past", "future"]
DAY: Final = timedelta(days=1)
WEEK: Final = timedelta(days=7)
MIDNIGHT: Final = time()


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A half-open stretch of local time, with what the grammar must know to combine it.

    `loose_start` and `loose_end` are the wider stretch in which a person who said these words would look:
    "two weeks ago" is a day, but nobody means exactly that day. `first_from` gives the first such period that
    starts on or after a day, for words that name no year ("May", "Friday").
    """

    start: datetime | None
    end: datetime | None
    loose_start: datetime | None
    loose_end: datetime | None
    first_from: Callable[[date], "Period"] | None = None
    edge: Literal["start", "end"] | None = None  # "the end of …": a range up to it includes all of it


def period(start: datetime | None, end: datetime | None, *, slack: timedelta = timedelta()) -> Period:
    """A period whose loose reading is wider by `slack` on both sides."""
    return Period(start=start, end=end, loose_start=start and start - slack, loose_end=end and end + slack)


def days(first: date, after_last: date) -> Period:
    return period(datetime.combine(first, MIDNIGHT), datetime.combine(after_last, MIDNIGHT))


def day(value: date) -> Period:
    return days(value, value + DAY)


def add_months(value: date, count: int) -> date:
    """The same day some months later, or the last day of a shorter month."""
    year, month = divmod(value.year * 12 + value.month - 1 + count, 12)
    return date(year, month + 1, min(value.day, monthrange(year, month + 1)[1]))


_UNIT_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "workweek": 7, "weekend": 7, "fortnight": 14}


def shift(value: date, count: int, unit: str) -> date:
    """Move a date by `count` units of a day or more."""
    if unit in _UNIT_MONTHS:
        return add_months(value, count * _UNIT_MONTHS[unit])
    return value + timedelta(days=count * _UNIT_DAYS[unit])


def slack(count: int, unit: str, *, vague: bool) -> timedelta:
    """How far off "two weeks ago" or "a few months ago" may be."""
    spread = {"day": 0, "fortnight": 4, "month": 15, "quarter": 45, "year": 183, "decade": 1830}.get(unit, 3)
    if unit == "day" and count >= 7:
        spread = 1
    if vague:
        spread += _UNIT_DAYS.get(unit, 30 * _UNIT_MONTHS.get(unit, 1)) * max(1, count - 1)
    return timedelta(days=spread)


def unit_around(value: date, unit: str) -> Period:
    """The calendar unit that contains a day: its ISO week, month, quarter, year, decade, century."""
    monday = value - timedelta(days=value.weekday())
    match unit:
        case "day":
            return day(value)
        case "week":
            return days(monday, monday + WEEK)
        case "workweek":
            return days(monday, monday + 5 * DAY)
        case "weekend":
            return days(monday + 5 * DAY, monday + WEEK)
        case "fortnight":
            return days(monday, monday + 2 * WEEK)
        case _:
            count = _UNIT_MONTHS[unit]
            year, month = divmod((value.year * 12 + value.month - 1) // count * count, 12)
            return months(year, month + 1, count)


def relative_unit(today: date, which: str, unit: str) -> Period:
    """The unit before, around or after today: "last week", "this month", "the past year"."""
    if which in ("past", "this past") and unit not in ("weekend", "quarter"):
        return up_to_today(today, shift(today, -1, unit))
    step = 0 if which in ("this", "current", "the") else 1 if is_next(which) else -1
    anchor = today if unit != "month" else today.replace(day=1)
    return unit_around(shift(anchor, step, unit), unit)


def is_next(which: str) -> bool:
    return which.split()[-1] in ("next", "coming", "upcoming", "following")


def up_to_today(today: date, first: date) -> Period:
    """From a day up to today; loosely, today is part of it."""
    return replace(days(first, today), loose_end=datetime.combine(today + DAY, MIDNIGHT))


# Hours of a part of the day, and the wider hours in which people use the word.
_DAY_PARTS: Final = {
    "morning": (8, 12, 4, 13),
    "afternoon": (12, 16, 12, 18),
    "evening": (16, 20, 16, 24),
    "night": (20, 24, 18, 28),
    "noon": (12, 13, 11, 14),
    "midday": (12, 13, 11, 14),
    "midnight": (0, 1, -2, 3),
}


def day_part(of: date, name: str) -> Period:
    midnight = datetime.combine(of, MIDNIGHT)
    start, end, loose_start, loose_end = (midnight + timedelta(hours=hour) for hour in _DAY_PARTS[name])
    return Period(start=start, end=end, loose_start=loose_start, loose_end=loose_end)


def months(year: int, month: int, count: int) -> Period:
    first = date(year, month, 1)
    return days(first, add_months(first, count))


def split_weeks(year: int, month: int | None) -> tuple[date, date]:
    """The first and last Monday of a year's or month's weeks; a week belongs where its Thursday is."""
    first = date(year, month or 1, 1)
    after = add_months(first, 1 if month else 12)
    return _monday_of_first_thursday(first), _monday_of_first_thursday(after) - WEEK


def _monday_of_first_thursday(first: date) -> date:
    return first + timedelta(days=(3 - first.weekday()) % 7 - 3)


def yearly(make: Callable[[int], Period | None], today: date, prefer: Preference) -> Period | None:
    """Choose the year of something that comes once a year, when the text names none."""

    def first_from(start: date) -> Period:
        for year in range(start.year, start.year + 9):  # nine: 29 February may wait eight years
            if (whole := make(year)) and whole.start and whole.start.date() >= start:
                return replace(whole, first_from=first_from)
        raise ValueError("never comes")

    if prefer == "future":
        return first_from(today)
    for year in range(today.year, today.year - 9, -1):
        if (whole := make(year)) and whole.start and whole.start.date() <= today:
            return replace(whole, first_from=first_from)
    return None


def yearly_day(today: date, prefer: Preference, month: int, number: int) -> Period | None:

    def in_year(year: int) -> Period | None:
        try:
            return day(date(year, month, number))
        except ValueError:  # 29 February
            return None

    return yearly(in_year, today, prefer)


def weekly(weekday: int, today: date, prefer: Preference) -> Period:
    """The nearest such weekday, never today itself: people call that "today"."""

    def first_from(start: date) -> Period:
        return replace(day(start + timedelta(days=(weekday - start.weekday()) % 7)), first_from=first_from)

    return first_from(today + DAY if prefer == "future" else today - WEEK)


# Meteorological seasons of the north; a winter is named after the year it starts in.
SEASON_MONTHS: Final = {"spring": 3, "summer": 6, "autumn": 9, "winter": 12}


_FIXED: Final = {
    "new_year": (1, 1),
    "valentine": (2, 14),
    "st_patrick": (3, 17),
    "april_fools": (4, 1),
    "earth_day": (4, 22),
    "juneteenth": (6, 19),
    "independence_day": (7, 4),
    "halloween": (10, 31),
    "veterans_day": (11, 11),
    "christmas_eve": (12, 24),
    "christmas": (12, 25),
    "boxing_day": (12, 26),
    "new_years_eve": (12, 31),
}
_FROM_EASTER: Final = {"ash_wednesday": -46, "palm_sunday": -7, "good_friday": -2, "easter": 0, "easter_monday": 1}
# month, weekday (Monday 0), which one (-1: the last), days after it
_NTH: Final = {
    "mlk_day": (1, 0, 3, 0),
    "presidents_day": (2, 0, 3, 0),
    "mothers_day": (5, 6, 2, 0),
    "memorial_day": (5, 0, -1, 0),
    "fathers_day": (6, 6, 3, 0),
    "labor_day": (9, 0, 1, 0),
    "columbus_day": (10, 0, 2, 0),
    "thanksgiving": (11, 3, 4, 0),
    "black_friday": (11, 3, 4, 1),
    "cyber_monday": (11, 3, 4, 4),
}


def holiday(year: int, name: str) -> date:
    """The day of a feast in a year (the American one where countries differ)."""
    if name in _FIXED:
        return date(year, *_FIXED[name])
    if name in _FROM_EASTER:
        return _easter(year) + timedelta(days=_FROM_EASTER[name])
    month, weekday, which, later = _NTH[name]
    return nth_weekday(year, month, weekday, which) + timedelta(days=later)


def nth_weekday(year: int, month: int, weekday: int, which: int) -> date:
    """The first, second … or last (-1) such weekday of a month."""
    first = date(year, month, 1)
    if which < 0:
        last = add_months(first, 1) - DAY
        return last - timedelta(days=(last.weekday() - weekday) % 7)
    nth = first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (which - 1))
    if nth.month != month:
        raise ValueError("no such weekday in the month")
    return nth


def long_weekend(feast: date) -> Period:
    weekday = feast.weekday()
    if weekday == 0:
        return days(feast - 2 * DAY, feast + DAY)
    saturday = feast + timedelta(days=5 - weekday)
    return days(feast if weekday in (3, 4) else saturday, saturday + 2 * DAY)


def _easter(year: int) -> date:
    """Western Easter Sunday, by the rules of the Gregorian calendar."""
    golden = year % 19
    century, rest = divmod(year, 100)
    epact = (19 * golden + century - century // 4 - (century - (century + 8) // 25 + 1) // 3 + 15) % 30
    offset = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    correction = (golden + 11 * epact + 22 * offset) // 451
    month, day_of_month = divmod(epact + offset - 7 * correction + 114, 31)
    return date(year, month, day_of_month + 1)
