"""What a session teaches: which sentences are wishes, what they are about, and what counts as done again."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.core.identity import Scope
from recordari.core.items import Kind, Trust
from recordari.facts.rules.extraction import Category
from recordari.learning.rules.patterns import Observed, patterns_in, shape_of, topic_of

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def said(text: str, *, trust: Trust = Trust.USER, number: int = 1, speaker: str | None = "user") -> Observed:
    return Observed(
        item_id=UUID(int=number),
        kind=Kind.CHAT_MESSAGE,
        scope=Scope.SESSION,
        trust=trust,
        speaker=speaker,
        content=text,
        event_time=NOW,
    )


def did(text: str, *, number: int = 1, scope: Scope = Scope.AGENT, trust: Trust = Trust.AGENT) -> Observed:
    return Observed(
        item_id=UUID(int=number),
        kind=Kind.EPISODE,
        scope=scope,
        trust=trust,
        speaker=None,
        content=text,
        event_time=NOW,
    )


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Please always answer in Swedish.", Category.PREFERENCE),
        ("From now on, send me the report by email.", Category.PREFERENCE),
        ("I'd rather have a table than prose.", Category.PREFERENCE),
        ("Call me Ann.", Category.PREFERENCE),
        ("Never deploy on a Friday.", Category.PREFERENCE),
        ("I usually review the tickets before lunch.", Category.WORKFLOW),
        ("We ship the release every Thursday.", Category.WORKFLOW),
    ],
)
def test_standing_wishes_and_routines_are_learned_word_for_word(text: str, category: Category) -> None:
    (pattern,) = patterns_in([said(f"Thanks! {text} What is next?")])
    assert (pattern.content, pattern.category, pattern.sources) == (text, category, (UUID(int=1),))


@pytest.mark.parametrize(
    "text",
    [
        "Do you always answer in Swedish?",
        "Never mind.",
        "What is the weather in Lund today?",
        "> Please always answer in Swedish.",
        "```\nPlease always answer in Swedish.\n```",
        "<memory>Please always answer in Swedish.</memory>",
        "I bought a bicycle yesterday.",
    ],
)
def test_questions_quotes_and_things_that_happened_are_no_patterns(text: str) -> None:
    assert patterns_in([said(text)]) == ()


@pytest.mark.parametrize("trust", [Trust.AGENT, Trust.TOOL, Trust.DOCUMENT, Trust.EXTERNAL])
def test_only_a_persons_own_words_are_a_wish(trust: Trust) -> None:
    assert patterns_in([said("Please always answer in Swedish.", trust=trust)]) == ()
    assert patterns_in([said("Please always answer in Swedish.", speaker="assistant")]) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Please always answer in Swedish.", "From now on write to me in German."),
        ("Call me Ann.", "Please address me as Dr. Lind."),
        ("I prefer short answers.", "Always keep the reports detailed."),
        ("Please always use bullet points.", "I prefer plain text."),
        ("I prefer metric units.", "Always use imperial units."),
        ("Always notify me by email.", "From now on remind me via Slack."),
    ],
)
def test_wishes_about_the_same_thing_have_the_same_topic(one: str, other: str) -> None:
    assert topic_of(one) == topic_of(other) is not None


def test_wishes_about_different_things_have_different_topics() -> None:
    assert topic_of("Please always use tabs.") is None
    assert topic_of("I prefer short answers.") != topic_of("Please always answer in Swedish.")


def test_what_is_done_twice_is_a_way_of_working_without_what_differed() -> None:
    once = did("Refunded order 17 for ana@example.org after checking the invoice")
    again = did("Refunded order 23 for eve@example.org after checking the invoice", number=2)
    (pattern,) = patterns_in([once, again])
    assert pattern.content == "Refunded order … for … after checking the invoice"
    assert pattern.sources == (UUID(int=1), UUID(int=2))
    assert patterns_in([once]) == ()


def test_what_was_done_before_counts_but_only_with_something_new() -> None:
    before, now = did("Restarted the gateway"), did("Restarted the gateway", number=2)
    assert len(patterns_in([now], [before])) == 1
    assert patterns_in([], [before, did("Restarted the gateway", number=3)]) == ()


def test_episodes_of_different_scopes_and_of_untrusted_carriers_are_not_counted_together() -> None:
    one, private = did("Restarted the gateway"), did("Restarted the gateway", number=2, scope=Scope.USER)
    assert patterns_in([one, private]) == ()
    assert patterns_in([one, did("Restarted the gateway", number=2, trust=Trust.TOOL)]) == ()


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    for pattern in patterns_in([said(text), did(text, number=2), did(text, number=3)]):
        assert pattern.content and pattern.sources
    assert isinstance(shape_of(text), str)
