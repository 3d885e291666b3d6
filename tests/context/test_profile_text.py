"""The text of a profile: nothing twice, and nothing lost that only looks alike."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recordari.context.rules.profiles import KnownFact, profile_text, profile_without, say_the_same
from recordari.core.ids import new_id
from recordari.core.items import Kind, Trust


def known(content: str, kind: Kind = Kind.FACT) -> KnownFact:
    return KnownFact(
        item_id=new_id(),
        content=content,
        trust=Trust.USER,
        category="preference",
        confidence=0.9,
        pinned=False,
        valid_at=datetime(2026, 5, 2, tzinfo=UTC),
        kind=kind,
        stated=False,
    )


def test_a_wish_that_was_learnt_twice_is_told_once_with_its_name() -> None:
    wish = known("please always call before 9 am and never ring the bell.", Kind.PROCEDURE)
    fact = known("Mel wants: always call before 9 am and never ring the bell.")
    assert profile_text([wish, fact]) == (f"Preferences: {fact.content}", 1)


@pytest.mark.parametrize(
    ("spoken", "fact", "same"),
    [
        ("I prefer type hints everywhere.", "Tom prefers type hints everywhere.", True),
        ("We usually eat at 6:30 because of Leo.", "Ana and others usually eat at 6:30", True),
        ("from now on show me diffs only.", "Tom wants: from now on show Tom diffs only.", True),
        ("I prefer type hints everywhere.", "Tom prefers tabs everywhere.", False),
        ("Leo is allergic to peanuts.", "Max is allergic to peanuts.", False),
    ],
)
def test_a_wish_and_a_fact_of_the_same_sentence(spoken: str, fact: str, same: bool) -> None:
    assert say_the_same(spoken, fact) is same


def test_what_another_section_shows_in_the_speakers_words_leaves_the_profile() -> None:
    profile = "Preferences: Tom prefers type hints everywhere. Tom prefers tabs in Makefiles."
    assert (
        profile_without(profile, ["I prefer type hints everywhere."]) == "Preferences: Tom prefers tabs in Makefiles."
    )
