"""Time expressions: what the words denote, where a question looks, and what is no time at all."""

import time
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recordari.recall.rules.temporal.times import Interval, find_times, question_interval

NOW = datetime(2024, 5, 15, 12, tzinfo=UTC)  # a Wednesday
BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")


def moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


def interval(start: str | None, end: str | None) -> Interval:
    return Interval(start=moment(start), end=moment(end))


def only(text: str, **options: object) -> Interval:
    found = find_times(text, **({"now": NOW, "zone": UTC} | options))  # type: ignore[arg-type]
    assert len(found) == 1, [each.text for each in found]
    return found[0].interval


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("today", "2024-05-15", "2024-05-16"),
        ("yesterday", "2024-05-14", "2024-05-15"),
        ("yesterday's", "2024-05-14", "2024-05-15"),
        ("the day before yesterday", "2024-05-13", "2024-05-14"),
        ("tomorrow", "2024-05-16", "2024-05-17"),
        ("this morning", "2024-05-15T08:00", "2024-05-15T12:00"),
        ("tonight", "2024-05-15T20:00", "2024-05-16"),
        ("last night", "2024-05-14T20:00", "2024-05-15"),
        ("yesterday evening", "2024-05-14T16:00", "2024-05-14T20:00"),
        ("on Friday", "2024-05-10", "2024-05-11"),
        ("on Wednesday", "2024-05-08", "2024-05-09"),
        ("last Monday", "2024-05-13", "2024-05-14"),
        ("next Monday", "2024-05-20", "2024-05-21"),
        ("this Sunday", "2024-05-19", "2024-05-20"),
        ("Tuesday of last week", "2024-05-07", "2024-05-08"),
        ("on Sat", "2024-05-11", "2024-05-12"),
    ],
)
def test_days_near_today_are_read_from_the_day_of_the_question(words: str, start: str, end: str) -> None:
    assert only(f"what did I say {words}?") == interval(start, end)


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("3 days ago", "2024-05-12", "2024-05-13"),
        ("three days ago", "2024-05-12", "2024-05-13"),
        ("a couple of weeks ago", "2024-05-01", "2024-05-02"),
        ("twenty-one days ago", "2024-04-24", "2024-04-25"),
        ("a month ago", "2024-04-15", "2024-04-16"),
        ("a year and a half ago", "2022-11-15", "2022-11-16"),
        ("half a year ago", "2023-11-15", "2023-11-16"),
        ("two years ago", "2022-05-15", "2022-05-16"),
        ("20 minutes ago", "2024-05-15T11:40", "2024-05-15T11:41"),
        ("last week", "2024-05-06", "2024-05-13"),
        ("this month", "2024-05-01", "2024-06-01"),
        ("next year", "2025-01-01", "2026-01-01"),
        ("last quarter", "2024-01-01", "2024-04-01"),
        ("the past 3 days", "2024-05-12", "2024-05-15"),
        ("the last two weeks", "2024-05-01", "2024-05-15"),
        ("the next 5 days", "2024-05-16", "2024-05-21"),
        ("the week before last", "2024-04-29", "2024-05-06"),
        ("in two weeks", "2024-05-29", "2024-05-30"),
        ("two days before Christmas", "2023-12-23", "2023-12-24"),
        ("last weekend", "2024-05-11", "2024-05-13"),
        ("over the weekend", "2024-05-11", "2024-05-13"),
        ("earlier this year", "2024-01-01", "2024-05-15"),
        ("two weekends ago", "2024-05-04", "2024-05-06"),
        ("the week before 3 May", "2024-04-26", "2024-05-03"),
    ],
)
def test_counted_and_relative_units(words: str, start: str, end: str) -> None:
    assert only(f"what happened {words}?") == interval(start, end)


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("in May", "2024-05-01", "2024-06-01"),
        ("in june", "2023-06-01", "2023-07-01"),
        ("in May 2023", "2023-05-01", "2023-06-01"),
        ("on 5 May 2023", "2023-05-05", "2023-05-06"),
        ("on May 5th", "2024-05-05", "2024-05-06"),
        ("on May 5, 2023", "2023-05-05", "2023-05-06"),
        ("on the fifth of May", "2024-05-05", "2024-05-06"),
        ("on Tuesday, 3 October 2023", "2023-10-03", "2023-10-04"),
        ("on 2023-05-04", "2023-05-04", "2023-05-05"),
        ("in 2023-05", "2023-05-01", "2023-06-01"),
        ("on 5/12/2023", "2023-05-12", "2023-05-13"),
        ("on 23/12/2023", "2023-12-23", "2023-12-24"),
        ("on 23.12.2023", "2023-12-23", "2023-12-24"),
        ("in Q3 2024", "2024-07-01", "2024-10-01"),
        ("in the third quarter of 2023", "2023-07-01", "2023-10-01"),
        ("in the spring of 2022", "2022-03-01", "2022-06-01"),
        ("last summer", "2023-06-01", "2023-09-01"),
        ("in 2019", "2019-01-01", "2020-01-01"),
        ("in nineteen eighty six", "1986-01-01", "1987-01-01"),
        ("in the 90s", "1990-01-01", "2000-01-01"),
        ("during the 1980s", "1980-01-01", "1990-01-01"),
        ("in early May", "2024-05-01", "2024-05-16"),
        ("in mid-March", "2024-03-10", "2024-03-21"),
        ("in late 2022", "2022-09-01", "2023-01-01"),
        ("in the first week of June", "2023-05-29", "2023-06-05"),
        ("on the first Monday of June", "2023-06-05", "2023-06-06"),
        ("in the first half of 2023", "2023-01-01", "2023-07-01"),
        ("at Christmas", "2023-12-25", "2023-12-26"),
        ("on Thanksgiving", "2023-11-23", "2023-11-24"),
        ("at Easter 2018", "2018-04-01", "2018-04-02"),
        ("on Easter Monday 2019", "2019-04-22", "2019-04-23"),
        ("on New Year’s Eve", "2023-12-31", "2024-01-01"),
    ],
)
def test_calendar_names(words: str, start: str, end: str) -> None:
    assert only(f"where was I {words}?") == interval(start, end)


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        ("between May 3 and May 9", "2024-05-03", "2024-05-09"),
        ("from April 9th to 17th", "2024-04-09", "2024-04-17"),
        ("from April to June 2017", "2017-04-01", "2017-06-01"),
        ("from November to March", "2023-11-01", "2024-03-01"),
        ("2014-2018", "2014-01-01", "2018-01-01"),
        ("from Monday to Friday", "2024-05-13", "2024-05-17"),
        ("since March", "2024-03-01", None),
        ("after 2019", "2020-01-01", None),
        ("before Christmas", None, "2023-12-25"),
        ("until May 5th", None, "2024-05-05"),
        ("by the end of 2023", None, "2024-01-01"),
        ("more than two weeks ago", None, "2024-05-01"),
        ("yesterday at 14:30", "2024-05-14T14:30", "2024-05-14T14:31"),
        ("on Friday at 3pm", "2024-05-10T15:00", "2024-05-10T16:00"),
        ("yesterday from 2 to 4 pm", "2024-05-14T14:00", "2024-05-14T16:00"),
        ("at 3 pm", "2024-05-15T15:00", "2024-05-15T16:00"),
    ],
)
def test_ranges_bounds_and_times_of_day(words: str, start: str | None, end: str | None) -> None:
    assert only(f"tell me about it {words}.") == interval(start, end)


@pytest.mark.parametrize(
    "text",
    [
        "What do we know about her?",
        "May I ask what this may mean?",
        "They march every spring, and prices may fall.",
        "The team will march on and spring into action.",
        "Give me a second, this is the second time.",
        "We sat in the sun; the sun was hot and the cat sat down.",
        "Temperatures fall and leaves fall down.",
        "The fall of Rome",
        "April said that June and August are her cousins.",
        "I go running every Monday and each weekend.",
        "On the weekends I rest.",
        "She is in her thirties.",
        "Add 1/2 cup of sugar to 3/4 cup of milk.",
        "Call me at 555-1234 or 133-03-03-2020.",
        "It costs $2019 and has a 4:3 screen.",
        "He is the best player of the day.",
        "2023-02-30 and 13/45/2023",
        "Rome was not built in a day.",
        "We have not talked in a few days.",
        "Is my 2018 Honda better than the Cyberpunk 2077 car?",
        "He will be 5 in a bit, just wed and mon ami.",
        "The most up to date phone",
        "There are two to four people in the room",
        "version 3.10 and order 20191",
    ],
)
def test_ordinary_words_are_no_times(text: str) -> None:
    assert find_times(text, now=NOW, zone=UTC) == ()
    assert question_interval(text, now=NOW, zone=UTC) is None


def test_may_is_a_month_only_where_it_stands_as_one() -> None:
    (found,) = find_times("It may be that we met in may", now=NOW, zone=UTC)
    assert (found.text, found.start_index, found.end_index) == ("may", 25, 28)


def test_open_dates_follow_the_preference() -> None:
    assert only("on Friday", prefer="future") == interval("2024-05-17", "2024-05-18")
    assert only("in March", prefer="future") == interval("2025-03-01", "2025-04-01")
    assert only("on May 15") == interval("2024-05-15", "2024-05-16")


def test_a_day_is_the_users_day() -> None:
    late = datetime(2024, 5, 14, 23, 30, tzinfo=UTC)  # already Wednesday in Berlin, still Tuesday in New York
    assert only("today", now=late, zone=BERLIN) == interval("2024-05-14T22:00", "2024-05-15T22:00")
    assert only("today", now=late, zone=NEW_YORK) == interval("2024-05-14T04:00", "2024-05-15T04:00")
    assert only("today", now=late, zone=timezone(timedelta(hours=5, minutes=30))) == interval(
        "2024-05-14T18:30", "2024-05-15T18:30"
    )


def test_days_of_a_clock_change_are_23_and_25_hours_long() -> None:
    spring = only("on 10 March 2024", zone=NEW_YORK)
    autumn = only("on 3 November 2024", zone=NEW_YORK)
    assert spring == interval("2024-03-10T05:00", "2024-03-11T04:00")
    assert autumn == interval("2024-11-03T04:00", "2024-11-04T05:00")


def test_a_time_that_the_clock_skips_still_has_a_length() -> None:
    skipped = only("from 2:30am to 3am on 10 March 2024", zone=NEW_YORK)
    assert skipped.start is not None
    assert skipped.end == skipped.start + timedelta(minutes=30)


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What did I do two weeks ago?", "2024-04-28", "2024-05-05"),
        ("What did I do yesterday?", "2024-05-14", "2024-05-15"),
        ("Where was I from May 3 to May 5?", "2024-05-03", "2024-05-06"),
        ("What happened between 2020 and 2022?", "2020-01-01", "2023-01-01"),
        ("What did I buy in the last month?", "2024-04-01", "2024-05-16"),
        ("What did I eat in the last 3 days?", "2024-05-12", "2024-05-16"),
        ("Who came after 2016 and before 2018?", "2017-01-01", "2018-01-01"),
        ("Did it rain in March or in April?", "2024-03-01", "2024-05-01"),
        ("What did I plan yesterday, the call at 3pm?", "2024-05-14", "2024-05-15"),
        ("What did I hear this morning?", "2024-05-15T04:00", "2024-05-15T13:00"),
        ("What have I said since March?", "2024-03-01", None),
    ],
)
def test_a_question_looks_where_a_person_would(question: str, start: str, end: str | None) -> None:
    assert question_interval(question, now=NOW, zone=UTC) == interval(start, end)


def test_a_question_that_names_no_time_has_no_interval() -> None:
    assert question_interval("Who is my boss now?", now=NOW, zone=UTC) is None
    assert question_interval("sales before 2010 or after 2018", now=NOW, zone=UTC) is None
    assert question_interval("", now=NOW, zone=UTC) is None


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        find_times("today", now=datetime(2024, 5, 15), zone=UTC)


def test_a_question_at_the_end_of_a_long_text_is_read() -> None:
    text = "last week " + "lorem ipsum " * 2000 + "what did I do yesterday?"
    found = find_times(text, now=NOW, zone=UTC)
    assert [each.text for each in found] == ["last week", "yesterday"]
    assert all(text[each.start_index : each.end_index] == each.text for each in found)


WORDS = [
    "last",
    "next",
    "this",
    "past",
    "the",
    "a",
    "an",
    "of",
    "in",
    "on",
    "at",
    "from",
    "to",
    "between",
    "and",
    "or",
    "since",
    "before",
    "after",
    "until",
    "by",
    "early",
    "mid",
    "late",
    "end",
    "today",
    "yesterday",
    "tomorrow",
    "tonight",
    "now",
    "monday",
    "sat",
    "may",
    "march",
    "june",
    "december",
    "spring",
    "summer",
    "christmas",
    "easter",
    "week",
    "weekend",
    "month",
    "year",
    "quarter",
    "decade",
    "century",
    "day",
    "days",
    "hours",
    "minutes",
    "ago",
    "first",
    "second",
    "third",
    "5th",
    "31st",
    "1",
    "5",
    "31",
    "99",
    "2023",
    "20230230",
    "2023-02-30",
    "13/45",
    "2/29",
    "2/29/2023",
    "5/12/2023",
    "3pm",
    "14:30",
    "25:00",
    "12:00am",
    "q3",
    "h2",
    "1990s",
    "twenty",
    "five",
    "hundred",
    "thousand",
    "half",
    "few",
    "couple",
    "every",
    "more",
    "than",
    "rest",
    ",",
    "-",
    "/",
    ".",
    "(",
    ")",
    "morning",
    "night",
    "9999",
    "999999999",
    "60",
    "o'clock",
]
NOWS = st.datetimes(
    min_value=datetime(1990, 1, 1),
    max_value=datetime(2060, 1, 1),
    timezones=st.just(UTC),
)


@settings(deadline=None, max_examples=300)
@example(text="9999 centuries ago 0 days ago 999999999 years before today", now=NOW, zone=NEW_YORK)
@example(text="İ İ İ last week ı ß", now=NOW, zone=UTC)
@given(
    text=st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join) | st.text(max_size=200),
    now=NOWS,
    zone=st.sampled_from([UTC, BERLIN, NEW_YORK, ZoneInfo("Pacific/Apia")]),
)
def test_any_text_gives_ordered_intervals_with_a_length(text: str, now: datetime, zone: ZoneInfo) -> None:
    for prefer in ("past", "future"):
        found = find_times(text, now=now, zone=zone, prefer=prefer)
        for each in found:
            start, end = each.interval.start, each.interval.end
            assert start or end
            assert not (start and end) or start < end
            assert text[each.start_index : each.end_index] == each.text
        assert all(a.end_index <= b.start_index for a, b in pairwise(found))
    asked = question_interval(text, now=now, zone=zone)
    assert asked is None or asked.start is None or asked.end is None or asked.start < asked.end


@pytest.mark.parametrize(
    "unit",
    [
        "may ",
        "1 ",
        "in may ",
        "last monday from 5 to 6pm, ",
        "twenty ",
        "a b ",
        "5/5-",
        "1-",
        "1,1",
        "1.",
        "xa'",
    ],
)
def test_the_work_grows_no_faster_than_the_text(unit: str) -> None:
    def cost(length: int) -> float:
        text = (unit * length)[:length]
        best = float("inf")
        for _ in range(5):
            began = time.process_time()
            find_times(text, now=NOW, zone=UTC)
            best = min(best, time.process_time() - began)
        return best

    # Eight times the text: linear work costs eight times, quadratic sixty-four; the rest is room for noise.
    assert cost(2000) < 30 * cost(250) + 0.002
