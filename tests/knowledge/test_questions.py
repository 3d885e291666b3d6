"""Long questions are asked in parts; short ones are left alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recordari.knowledge.rules.questions import LONG_CHARACTERS, MOST_PARTS, FoundDocument, fused, joined, parts_of

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


def test_a_document_whose_title_the_question_has_comes_first() -> None:
    titles = {
        "general": "Moving money between accounts",
        "other": "Closing business savings accounts",
        "asked": "Closing personal checking accounts › Procedure",
        "cards": "Ordering a debit card",
        "rates": "Interest of savings",
    }
    question = "I have two personal accounts. Closing the checking account is what I want. It is a personal one."
    answers = [[("general", 2.0), ("other", 1.9), ("asked", 1.8), ("cards", 1.0), ("rates", 0.5)]]
    documents = {name: FoundDocument(title=title) for name, title in titles.items()}
    assert next(iter(joined(question, answers, documents))) == "asked"


def test_a_document_that_explains_a_tool_of_the_best_one_gains() -> None:
    documents = {
        "best": FoundDocument(title="Filing a dispute", chunks=["First call get_cards_4821, then file the dispute."]),
        **{f"other {number}": FoundDocument(title="Other matters", chunks=["Nothing of it."]) for number in range(6)},
        "tool": FoundDocument(title="Looking up cards", chunks=["get_cards_4821 returns the cards of a customer."]),
    }
    answers = [[(name, 3.0 - number / 10) for number, name in enumerate(documents)]]
    order = list(joined("I want to file a dispute.", answers, documents))
    assert order[:2] == ["best", "other 0"], "what the question itself finds stays first"
    assert order[2] == "tool"


def test_an_identifier_of_many_documents_leads_to_each_of_them_less() -> None:
    chunks = {
        "first": "Call get_cards_4821 with the customer_key.",
        "second": "Also get_cards_4821 is needed.",
        **{f"other {number}": "Nothing of it." for number in range(12)},
        **{f"key {number}": "It has a customer_key." for number in range(3)},
        "tool": "get_cards_4821 returns the cards.",
    }
    documents = {name: FoundDocument(title="Other matters", chunks=[chunk]) for name, chunk in chunks.items()}
    answers = [[(name, 3.0 - number / 10) for number, name in enumerate(documents)]]
    order = list(joined("I want to file a dispute.", answers, documents))
    # Two of the leading documents name the tool, and one of them a key that three others have.
    assert order.index("tool") < order.index("key 0")


def test_a_document_with_a_title_like_that_of_the_best_one_gains() -> None:
    titles = {
        "best": "Silver card: fees abroad",
        "second": "Lost luggage",
        "third": "Opening hours",
        "fourth": "Interest of savings",
        "alike": "Silver card: who can have one",
        "gold": "Gold card: who can have one",
        **{f"other {number}": f"Matter number {number}" for number in range(12)},
    }
    documents = {name: FoundDocument(title=title) for name, title in titles.items()}
    answers = [[(name, 3.0 - number / 20) for number, name in enumerate(titles)]]
    order = list(joined("What do you charge for it in Japan?", answers, documents))
    assert order[:2] == ["best", "second"], "what the question itself finds stays first"
    assert order[2] == "alike"
    assert order.index("gold") > order.index("alike")


def test_documents_without_titles_keep_their_order() -> None:
    documents = {name: FoundDocument(title="") for name in "abcd"}
    assert list(joined("Anything?", [[("a", 4.0), ("b", 3.0), ("c", 2.0), ("d", 1.0)]], documents)) == list("abcd")


def test_nothing_found_is_no_documents() -> None:
    assert joined("Anything?", [[], []], {}) == {}
