"""The offline judge: it ends what cannot be true any longer, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from recordari.facts.rules.claims import Opinion, Trend, revised_confidence, trend_of
from recordari.facts.rules.conflict import Statement, Verdict, is_newer, retirements, ruling

NOW = datetime(2026, 5, 2, tzinfo=UTC)


def said(content: str, *, day: int = 0, speaker: str | None = "Ana", **claim: str) -> Statement:
    return Statement(
        item_id=UUID(int=day + 1), content=content, valid_at=NOW + timedelta(days=day), speaker=speaker, **claim
    )


ENDED = [
    ("I live in Berlin", "I moved to Lisbon last month"),
    ("Ana lives in Berlin", "Ana now lives in Lisbon"),
    ("I work at Acme as an engineer", "I joined Globex in May"),
    ("My favourite colour is green", "My favourite colour is now blue"),
    ("My email address is ana@old.example", "My email address has changed to ana@new.example"),
    ("I prefer tea over coffee", "I prefer coffee over tea"),
    ("Ana prefers dark mode", "Ana prefers light mode"),
    ("I prefer detailed answers", "I prefer concise answers"),
    ("I use Jira for issue tracking", "I use Linear for issue tracking"),
    ("I eat meat", "I no longer eat meat"),
    ("I like cilantro", "I don't like cilantro anymore"),
    ("We use Jira for tickets", "We switched from Jira to Linear"),
    ("I drink coffee every morning", "I now drink tea instead of coffee"),
    ("I usually go to the gym at 7:00 pm", "I usually go to the gym at 6:00 pm"),
    ("We deploy on Fridays", "We deploy on Tuesdays"),
    ("I've been giving about an hour each day to exercises", "I've been giving about two hours each day to exercises"),
    ("I'm reading \"A Story of Tea\", I'm on page 20", 'I just opened "A Story of Tea" again - I\'m now on page 90'),
    ("The rent is $1,200 a month", "The rent is $1,350 a month"),
    ("The project deadline is March 3", "The project deadline is now March 17"),
    ("I have 3 bikes in the garage", "I now have 4 bikes in the garage"),
    ("Our team has 8 people at the Lund office", "Our team now has 12 people at the Lund office"),
    ("Order 17 is due on Mondays", "Order 17 is due on Thursdays"),
]

KEPT = [
    ("I like tea", "I like coffee"),
    ("I have two cats", "I have a dog"),
    ("I live in Berlin", "I live in Berlin, Germany"),
    ("I live in Berlin", "My sister moved to Lisbon"),
    ("I live in Berlin", "I want to move to Lisbon one day"),
    ("Ana lives in Berlin", "Bob lives in Lisbon"),
    ("I live in a small town", "I live in Lund"),
    ("I bought 3 books on Monday", "I bought 5 books on Friday"),
    ("I ran 5 miles yesterday", "I ran 8 miles today"),
    ("My sister is a nurse", "My sister is coming tomorrow"),
    ("I prefer short emails", "I prefer trains to planes"),
    ("I prefer window seats", "I prefer morning meetings"),
    ("I use Python for data work", "I use Go for services"),
    ("I don't eat meat", "I love grilled vegetables"),
    ("I usually go to the gym at 7:00 pm", "I usually go to bed at 11:00 pm"),
    ('I\'m on page 20 of "Dune"', 'I\'m on page 90 of "Emma"'),
    ("My favourite colour is green", "My favourite food is ramen"),
    ("I switched from the bus to the bike", "I use the bus map for planning"),
    ("I am an engineer", "I am a mother of two"),
    ("contact responded to direct ROI framing", "contact responded to case studies"),
    ("I live in Berlin.", "i live in  BERLIN"),
    ("I got it at a garage sale for $200, a steal!", "I have a comic from a garage sale for $200."),
    ("I recently switched from Docs to Scrivener", "I also switched from Docs to Scrivener this year"),
    ("We stopped at Bixby Bridge on our way", "I love Bixby Bridge"),
    ("My budget is around $200 per night", "Our budget is around $500 for the venue"),
    ("We like to wear many hats here!", "I'm getting rid of some old shoes that I no longer wear"),
    ("I have a new slow cooker from Bed and Bath", "I read on the couch instead of my bed"),
    ("I usually work from 9 am, and I need breaks", "I have some old laptops that I no longer need"),
    ("Something nice happened at my project last Thursday", "Last Friday something happened on my project"),
    ("I spent $120 on groceries last Sunday", "I spent $90 on groceries last Sunday"),
    ("Contact 0 responded positively to direct ROI framing", "Contact 4 responded positively to direct ROI framing"),
    ("Contact 3 of account 3 waits for 2 offers", "Contact 8 of account 3 waits for 5 offers"),
    ("Order 17 was refunded to the customer", "Order 18 was not refunded to the customer"),
    ("Ticket #12 takes 3 days to close", "Ticket #13 takes 5 days to close"),
    ("This is entry number 17 of the ledger", "This is entry number 18 of the ledger"),
    ("Anna's dog weighs 12 kilos", "Bella's dog weighs 14 kilos"),
    ("The flight from Malmö takes 2 hours", "The flight from Lisbon takes 4 hours"),
    ("Erik does not eat fish", "Maria does eat fish"),
]


@pytest.mark.parametrize(("older", "newer"), ENDED, ids=lambda text: text[:40])
def test_a_contradicted_statement_ends(older: str, newer: str) -> None:
    assert ruling(said(newer, day=1), said(older)).verdict is Verdict.SUPERSEDE


@pytest.mark.parametrize(("older", "newer"), KEPT, ids=lambda text: text[:40])
def test_compatible_statements_both_stay(older: str, newer: str) -> None:
    assert ruling(said(newer, day=1), said(older)).verdict is Verdict.KEEP


@pytest.mark.parametrize(
    ("older", "newer", "ends"),
    [
        ("Mira won't miss a rehearsal.", "Mira doesn't eat fish.", False),
        ("Mira won't quit the choir.", "Mira won't let her neighbours down.", False),
        ("Mira has been taking a pottery class lately.", "Last week Mira tried something new.", False),
        ("Mira is in charge of the kiln at Mira's studio.", "Mira just got a new kayak.", False),
        ("Mira has been practising for 20 minutes every day.", "Mira has been practising for two years now.", False),
        ("Mira lives in Graz.", "Mira moved to Linz.", True),
        ("Mira's rent is 700 euros.", "Mira's rent went up to 760 euros.", True),
        ("Mira doesn't eat fish.", "Mira eats fish now.", True),
    ],
)
def test_the_name_of_the_speaker_is_nothing_that_two_statements_share(older: str, newer: str, ends: bool) -> None:
    found = ruling(said(newer, day=1, speaker="Mira"), said(older, speaker="Mira"))
    assert (found.verdict is Verdict.SUPERSEDE) is ends, found.rule


def test_a_named_predicate_with_one_value_ends_the_other_object() -> None:
    old = said("Account 7 is at 9:00 in the west", subject="account:7", predicate="time_zone", object="UTC-8")
    new = said("Account 7 sits in the east", day=1, subject="account:7", predicate="time_zone", object="UTC-5")
    assert ruling(new, old).verdict is Verdict.SUPERSEDE


def test_a_named_predicate_with_many_values_ends_nothing() -> None:
    old = said("Replied well to ROI framing", subject="contact:1", predicate="responded_positively_to", object="roi")
    new = said("Replied well to a demo", day=1, subject="contact:1", predicate="responded_positively_to", object="demo")
    assert ruling(new, old).verdict is Verdict.KEEP


def test_a_long_text_ends_nothing_and_is_not_ended() -> None:
    long = "I live in Berlin. " + "There is much more to say about it. " * 20
    assert ruling(said("I moved to Lisbon", day=1), said(long)).verdict is Verdict.KEEP


def test_the_later_truth_is_the_newer_whatever_came_in_first() -> None:
    assert is_newer(said("now", day=3), said("then", day=1))
    assert not is_newer(said("then", day=1), said("now", day=3))


def test_one_write_ends_a_bounded_number_the_newest_first() -> None:
    older = [(said(f"version {day}", day=day), "other_value") for day in range(6)]
    ended = retirements(said("new", day=9), older, [], most=3)
    assert [one.item_id.int for one in ended] == [6, 5, 4]
    assert {one.invalid_at for one in ended} == {NOW + timedelta(days=9)}


def test_a_late_one_is_ended_by_the_earliest_that_followed() -> None:
    later = [(said("last", day=9), "other_value"), (said("next", day=5), "other_value")]
    (ended,) = retirements(said("late", day=2), [], later, most=3)
    assert ended.superseded_by.int == 6 and ended.invalid_at == NOW + timedelta(days=5)


@pytest.mark.parametrize(
    ("days_ago", "trend"),
    [
        ([2], Trend.NEW),
        ([20, 2], Trend.STRENGTHENING),
        ([50, 20, 10], Trend.STRENGTHENING),
        ([100, 45, 10], Trend.STABLE),
        ([50, 40, 10], Trend.WEAKENING),
        ([170], Trend.WEAKENING),
        ([400, 200], Trend.STALE),
        ([], Trend.STALE),
    ],
)
def test_the_trend_compares_the_last_month_with_the_one_before(days_ago: list[int], trend: Trend) -> None:
    assert trend_of([NOW - timedelta(days=days) for days in days_ago], now=NOW) is trend


def test_an_opinion_takes_the_place_of_the_same_persons_earlier_one() -> None:
    useful = revised_confidence(0.6, before=None, opinion=Opinion.USEFUL)
    assert useful > 0.6
    changed = revised_confidence(useful, before=Opinion.USEFUL, opinion=Opinion.WRONG)
    assert changed == pytest.approx(revised_confidence(0.6, before=None, opinion=Opinion.WRONG), abs=1e-3)
    assert 0 < revised_confidence(None, before=None, opinion=Opinion.WRONG) < 0.5


@pytest.mark.parametrize("wordless", ["!!!", "…", "😀", "—", "¿?", "(…)"])
def test_a_text_without_words_ends_nothing_and_is_not_ended(wordless: str) -> None:
    sentence = "Of the budget, a third is for travel"
    for newer, older in ((wordless, sentence), (sentence, wordless), (wordless, "?!")):
        assert ruling(said(newer, day=1), said(older)).verdict is Verdict.KEEP
