"""Who a pronoun is when an earlier message of the session named the person."""

from __future__ import annotations

import pytest

from recordari.facts.rules.extraction import facts_in
from recordari.facts.rules.naming import EarlierMessage, refers_to_somebody, with_person_before


def own(*texts: str) -> list[EarlierMessage]:
    return [EarlierMessage(content=text, is_own=True) for text in texts]


def answered(text: str) -> EarlierMessage:
    return EarlierMessage(content=text, is_own=False)


@pytest.mark.parametrize(
    ("before", "text", "fact"),
    [
        ("My sister Mona called yesterday.", "She moved to Lyon.", "Ana's sister Mona moved to Lyon."),
        ("My brother Tom called.", "And he works at the harbour.", "Ana's brother Tom works at the harbour."),
        (
            "My sister Mona called.",
            "Anyway, her husband works at the port.",
            "Ana's sister Mona's husband works at the port.",
        ),
        ("Marisol is my boss.", "She's a trained nurse.", "Ana's boss Marisol is a trained nurse."),
        ("My sister called.", "She lives in Lyon.", "Ana's sister lives in Lyon."),
        ("Ma sœur Mona a appelé.", "Elle habite à Lyon.", "La sœur Mona de Ana habite à Lyon."),
        ("Mi hermana Mona llamó.", "Ella vive en Lugo.", "La hermana Mona de Ana vive en Lugo."),
        ("A minha irmã Mona ligou.", "Ela mora em Faro.", "A irmã Mona de Ana mora em Faro."),
        ("Mijn broer Tom belde.", "Hij werkt nu in de haven.", "Anas broer Tom werkt nu in de haven."),
    ],
)
def test_a_pronoun_is_the_one_person_named_before(before: str, text: str, fact: str) -> None:
    assert refers_to_somebody(text)
    resolved = with_person_before(text, own(before), "Ana")
    assert [each.content for each in facts_in(resolved, speaker="Ana")] == [fact]


@pytest.mark.parametrize(
    "before",
    [
        own(),
        own("My brother Tom called."),
        own("My sister Mona met Clara."),
        own("My sister Mona called.", "My cousin Eva did too."),
        own("My parents called."),
        own("I love that film about the dancer."),
        [*own("My sister Mona called."), answered("And how is your aunt?")],
        [answered("My sister Mona called.")],
    ],
)
def test_in_doubt_there_is_no_fact(before: list[EarlierMessage]) -> None:
    text = "She moved to Lyon in May."
    assert with_person_before(text, before, "Ana") == text
    assert facts_in(text, speaker="Ana") == ()


def test_an_answer_that_repeats_the_person_changes_nothing() -> None:
    before = [*own("My sister Mona called."), answered("How is Mona, and where does your sister live?")]
    assert with_person_before("She lives in Lyon.", before, "Ana") == "My sister Mona lives in Lyon."


@pytest.mark.parametrize("text", ["Bo thinks she moved to Lyon.", "My aunt says she moved.", "I told her so."])
def test_who_is_named_in_the_message_itself_comes_first(text: str) -> None:
    assert with_person_before(text, own("My sister Mona called."), "Ana") == text
