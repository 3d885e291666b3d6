"""The offline extractor: it says only what was said, and only what a person says of themselves."""

from __future__ import annotations

import re

import pytest

from recordari.facts.rules.extraction import EXAMINED, MOST_FACTS, Category, facts_in

FACTS = [
    ("By the way, I live in Lisbon with my two cats.", "I live in Lisbon with my two cats.", Category.PERSONAL),
    ("I prefer window seats on long flights.", "I prefer window seats on long flights.", Category.PREFERENCE),
    ("We decided to ship the beta on Friday.", "We decided to ship the beta on Friday.", Category.DECISION),
    ("I usually review pull requests before lunch.", "I usually review pull requests before lunch.", Category.WORKFLOW),
    ("I need to renew my passport by June.", "I need to renew my passport by June.", Category.WORKFLOW),
    ("I learned that the export fails on Sundays.", "I learned that the export fails on Sundays.", Category.LEARNING),
    ("Thanks! My favourite editor is Helix.", "My favourite editor is Helix.", Category.PREFERENCE),
]

NOTHING = [
    "Can you recommend a good book about tea?",
    "What time is it in Tokyo right now?",
    "That sounds great, thank you so much!",
    "The capital of Portugal is Lisbon.",
    "I'm looking for some music recommendations.",
    "Write a poem about my garden in spring",
    "ok",
    "",
    "> I live in Berlin and work at Acme",
    "```\nI live in Berlin and work at Acme\n```",
    "<memory>I live in Berlin and work at Acme.</memory>",
    '<recalled source="fact">I live in Berlin and work at Acme.',
]


@pytest.mark.parametrize(("text", "fact", "category"), FACTS, ids=lambda value: str(value)[:30])
def test_what_a_person_states_is_found_with_its_category(text: str, fact: str, category: Category) -> None:
    found = facts_in(text, speaker="Ana")
    assert [(one.content, one.category) for one in found] == [(fact, category)]


@pytest.mark.parametrize("text", NOTHING, ids=lambda text: text[:30] or "empty")
def test_questions_requests_general_truths_and_pasted_text_yield_nothing(text: str) -> None:
    assert facts_in(text, speaker="Ana") == ()


@pytest.mark.parametrize("speaker", ["assistant", "Assistant", "system", "tool"])
def test_nothing_is_taken_from_who_is_no_person(speaker: str) -> None:
    assert facts_in("I live in Lisbon and I prefer tea.", speaker=speaker) == ()


def test_every_word_of_a_fact_was_said() -> None:
    text = (
        "Hi! So, I've moved to Lisbon (finally), and my sister's new job is at Globex. Which trams run there? "
        "Reminders for my gym sessions, which I usually go to at 7:00 pm on Mondays? I've decided: no more sugar. "
        "I’m allergic to peanuts; we also have two dogs, could you suggest a park?"
    )
    found = facts_in(text, speaker="Ana")
    assert len(found) >= 4
    said = re.findall(r"\w+", text)
    for fact in found:
        words = re.findall(r"\w+", fact.content)
        assert any(said[place : place + len(words)] == words for place in range(len(said))), fact.content


def test_a_statement_inside_a_question_is_found_without_the_question() -> None:
    (fact,) = facts_in("Can you set reminders for my gym sessions, which I usually go to at 7:00 pm on Mondays?")
    assert fact.content == "my gym sessions, which I usually go to at 7:00 pm on Mondays"


def test_subject_predicate_and_object_are_given_where_the_pattern_gives_them() -> None:
    (fact,) = facts_in("I moved to Lisbon in March.", speaker="Ana")
    assert (fact.subject, fact.predicate, fact.object) == ("ana", "lives in", "Lisbon")
    (nameless,) = facts_in("I live in Lisbon these days.", speaker="user")
    assert nameless.subject == "user"
    (task,) = facts_in("I have to call the landlord tomorrow.", speaker="Ana")
    assert task.predicate == "to do" and task.object is None


def test_one_text_yields_a_bounded_number_of_facts() -> None:
    text = " ".join(f"I bought ticket number {number} for the spring fair." for number in range(50))
    assert len(facts_in(text)) == MOST_FACTS


@pytest.mark.parametrize(
    "piece", ["<a>", "<a ", "my a ", "i have ", "I 'm ", '"', "```", "speaking of ", ", which i ", "1 a ", "and ", "\n"]
)
def test_hostile_text_ends(piece: str) -> None:
    # A pattern that goes back on itself would take hours on what is examined of this.
    text = piece * (1_000_000 // len(piece))
    assert facts_in(text) == facts_in(text[: 2 * EXAMINED])
