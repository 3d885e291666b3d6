"""Long questions are asked in parts; short ones are left alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recordari.knowledge.rules.chunks import LONG_CHARACTERS, MOST_PARTS, fused, parts_of

LONG = "My card was declined twice today. " + "I was at the airport with two children and no cash at all. " * 12


@given(st.text(max_size=LONG_CHARACTERS))
def test_a_short_question_is_asked_as_it_is(question: str) -> None:
    assert parts_of(question) == [question]


def test_a_long_one_is_asked_sentence_by_sentence() -> None:
    parts = parts_of(LONG + "Can I raise the limit? Which card has no fee abroad? What if I lose it? Thanks.")
    assert parts[0] == "My card was declined twice today."
    assert "Which card has no fee abroad?" in parts
    assert len(parts) == len(set(parts)) <= MOST_PARTS
    assert "Thanks." not in parts


def test_one_long_sentence_stays_whole() -> None:
    question = "word " * 400
    assert parts_of(question) == [question]


def test_what_several_parts_find_comes_first() -> None:
    answers = [[("a", 3.0), ("b", 2.0), ("c", 1.0)], [("d", 3.0), ("b", 2.5), ("c", 1.0)], []]
    assert list(fused(answers)) == ["b", "a", "d", "c"]


def test_a_part_that_finds_nothing_in_particular_has_little_to_say() -> None:
    alike = [(name, 2.0) for name in "xyz"]
    assert next(iter(fused([alike, alike, [("a", 1.0), ("b", 0.5)]]))) == "a"
