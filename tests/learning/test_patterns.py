"""What a session teaches: which sentences are wishes, what they are about, and what counts as done again."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.core.identity import Scope
from recordari.core.items import Kind, Trust
from recordari.facts.rules.extraction import Category
from recordari.learning.rules.patterns import Observed, patterns_in, topic_of, withdraws
from recordari.learning.rules.ways import shape_of

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


def did(
    text: str, *, number: int = 1, scope: Scope = Scope.AGENT, trust: Trust = Trust.AGENT, session: str | None = None
) -> Observed:
    return Observed(
        item_id=UUID(int=number),
        kind=Kind.EPISODE,
        scope=scope,
        trust=trust,
        speaker=None,
        content=text,
        event_time=NOW,
        session=session,
    )


def days(*sessions: list[str]) -> tuple[list[Observed], list[Observed]]:
    """The actions of the last session, and those of the sessions before it."""
    done = [
        [did(text, number=100 * day + number, session=f"day {day}") for number, text in enumerate(actions, 1)]
        for day, actions in enumerate(sessions)
    ]
    return done[-1], [action for actions in done[:-1] for action in actions]


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("Please always answer in Swedish.", Category.PREFERENCE),
        ("From now on, send me the report by email.", Category.PREFERENCE),
        ("I'd rather have a table than prose.", Category.PREFERENCE),
        ("Call me Ann.", Category.PREFERENCE),
        ("Never deploy on a Friday.", Category.PREFERENCE),
        ("Don't ring me before ten.", Category.PREFERENCE),
        ("As a rule, round the invoices up.", Category.PREFERENCE),
        ("Could you please always leave out exclamation marks?", Category.PREFERENCE),
        ("All reports should have at most ten lines.", Category.PREFERENCE),
        ("Remember to put the order number on every delivery note.", Category.PREFERENCE),
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
        "Never thought it would work.",
        "Always a pleasure, dear friends!",
        "Don't send me the draft yet.",
        "Don't worry about us and the dog.",
        "Could you send the report again?",
        "I would rather exchange it for the smaller one.",
        "I'd prefer to pick them up myself.",
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
    before, now = did("Restarted the gateway after a timeout"), did("Restarted the gateway after a timeout", number=2)
    assert len(patterns_in([now], [before])) == 1
    assert patterns_in([], [before, did("Restarted the gateway after a timeout", number=3)]) == ()


def test_episodes_of_different_scopes_and_of_untrusted_carriers_are_not_counted_together() -> None:
    one, private = (
        did("Restarted the gateway after a timeout"),
        did("Restarted the gateway after a timeout", number=2, scope=Scope.USER),
    )
    assert patterns_in([one, private]) == ()
    assert patterns_in([one, did("Restarted the gateway after a timeout", number=2, trust=Trust.TOOL)]) == ()


def test_a_sequence_that_repeats_is_one_way_of_working() -> None:
    now, before = days(
        [
            "downloaded invoice-221.pdf from the mailbox",
            "checked the VAT number of Meyer",
            "booked 400 euros to account 6300",
        ],
        [
            "downloaded invoice-388.pdf from the mailbox",
            "checked the VAT number of Brandt",
            "asked Ida about the discount",
            "booked 1,210 euros to account 4920",
        ],
    )
    (way,) = patterns_in(now, before)
    assert (
        way.content == "downloaded … from the mailbox; then checked the VAT number of; then booked … euros to account"
    )
    assert len(way.sources) == 6 and way.category is Category.WORKFLOW


def test_what_helped_after_a_failure_is_learned_from_two_steps() -> None:
    failed, helped = "npm install {} failed: registry not found", "ran npm install {} with the proxy instead: ok"
    now, before = days([failed.format("left"), helped.format("left")], [failed.format("right"), helped.format("right")])
    (way,) = patterns_in(now, before)
    assert "proxy instead" in way.content and "left" not in way.content and "right" not in way.content


@pytest.mark.parametrize(
    "actions",
    [
        ["listed the files in the folder", "read the page about {}"],
        ["searched the wiki for {}"],
        ["called {}; reward 0.4"],
    ],
)
def test_looking_at_things_is_no_way_of_working(actions: list[str]) -> None:
    now, before = days([text.format("travel") for text in actions], [text.format("tea") for text in actions])
    assert patterns_in(now, before) == ()


def test_a_wish_for_one_occasion_is_no_standing_wish() -> None:
    assert patterns_in([said("Just this once, always skip the tests.")]) == ()
    assert patterns_in([said("For today please never mind the linter, skip it every time I ask.")]) == ()


def test_a_wish_is_kept_without_what_was_asked_for_that_day() -> None:
    (wish,) = patterns_in([said("Write tests for the tax module, and use the shared fixtures like always")])
    assert wish.content == "use the shared fixtures like always"


def test_a_wish_can_be_taken_back() -> None:
    wish = "From now on send me a text message when a build breaks"
    assert withdraws("Please stop the text messages, the mail is enough", wish)
    assert not withdraws("Please stop the music", wish)
    assert not withdraws("Did the text messages stop?", wish)


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    for pattern in patterns_in([said(text), did(text, number=2), did(text, number=3)]):
        assert pattern.content and pattern.sources
    assert isinstance(shape_of(text), str)


WISHES = [line.split("\t") for line in (Path(__file__).parent / "cases" / "wishes.tsv").read_text("utf-8").splitlines()]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for _, kind, text in WISHES])
def test_wishes_of_six_other_languages(kind: str, text: str) -> None:
    """Each line: language, W for a standing wish or N for none, and what was said."""
    found = patterns_in([said(text)])
    assert [each.content for each in found] == ([text] if kind == "W" else [])


@pytest.mark.parametrize(
    "text", ["Nenn mich Kalle.", "Appelle-moi Jo.", "Llámame Pepe.", "Chama-me Zé.", "Noem me Wim."]
)
def test_of_names_to_use_there_is_one_in_every_language(text: str) -> None:
    (wish,) = patterns_in([said(text)])
    assert wish.topic == "name to use"


@pytest.mark.parametrize(
    ("sentence", "wish"),
    [
        ("Hör bitte auf mit dem täglichen Wetterbericht.", "Schick mir immer den täglichen Wetterbericht."),
        ("Tu peux arrêter: plus besoin du bulletin météo.", "Envoie-moi toujours le bulletin météo."),
        ("Ya no necesito el resumen semanal.", "Mándame siempre el resumen semanal."),
        ("Non ho più bisogno del riepilogo settimanale.", "Mandami sempre il riepilogo settimanale."),
    ],
)
def test_a_wish_is_taken_back_in_other_languages(sentence: str, wish: str) -> None:
    assert withdraws(sentence, wish)
    assert not withdraws(sentence, "Schreib mir bitte Briefe auf Latein.")


def test_a_wish_behind_a_comma() -> None:
    (wish,) = patterns_in([said("Metric please, always metric.")])
    assert wish.topic == "units"
    assert not patterns_in([said("She was kind to us, always smiling.")])
    assert not patterns_in([said("Nope, never been to a game like that.")])
    assert not patterns_in([said("Any time friend, always here to have your back.")])


def test_a_file_that_is_the_same_each_time_stays_in_a_way_of_working() -> None:
    steps = [
        "bumped the version to 4.{}.0",
        "updated CHANGELOG.md",
        "tagged v4.{}.0",
        "announced the release in #general",
    ]
    first, second = (
        [did(step.format(minor), number=10 * minor + place, session=f"s{minor}") for place, step in enumerate(steps)]
        for minor in (2, 3)
    )
    (way,) = patterns_in(second, first)
    assert "updated CHANGELOG.md" in way.content
    assert "4.3.0" not in way.content
