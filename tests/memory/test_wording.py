"""What a question's wording asks for."""

from __future__ import annotations

import pytest

from recordari.memory.rules import Collection, asked_by


@pytest.mark.parametrize(
    ("question", "present"),
    [
        ("Where do I currently keep my bike?", 1.0),
        ("What is my latest lap time?", 1.0),
        ("How many stamps have I collected so far?", 1.0),
        ("Which lens did I buy most recently?", 1.0),
        ("Does Ana still work at Globex?", 1.0),
        ("What time do I usually get up?", 0.4),
        ("How many bikes do I own?", 0.4),
        ("Where does Ana live?", 0.2),
        ("How much did I pay for the desk?", 0.15),
        ("What was my previous address?", 0.0),
        ("Where did I live before I moved to Lund?", 0.0),
        ("When did I buy the bike?", 0.0),
        ("What was the first film I saw this year?", 0.0),
        ("Where did Ana go?", 0.0),
        ("Can you suggest a film for my evening?", 0.0),
        ("Can you remind me what you said about my diet?", 0.0),
        ("direct ROI framing", 0.0),
    ],
)
def test_how_plainly_a_question_asks_for_the_present(question: str, present: float) -> None:
    assert asked_by(question).present == present


def test_rarity_hardly_tells_terms_apart_in_a_small_memory() -> None:
    small = Collection(items=1, mean_length=5.0, frequencies={"ana": 1})
    large = Collection(items=1_000, mean_length=5.0, frequencies={"ana": 1_000})
    assert small.rarity("drink") < 2 * small.rarity("ana")
    assert large.rarity("drink") > 50 * large.rarity("ana")


@pytest.mark.parametrize(
    ("question", "many"),
    [
        ("How many books did I read?", True),
        ("Which books did I read?", True),
        ("How much did I spend on bikes in total?", True),
        ("What is the total cost of the repairs?", True),
        ("¿Cuántos libros leí?", True),
        ("Combien d'enfants a Ana ?", True),
        ("How much did the desk cost?", False),
        ("How much do I pay for rent?", False),
        ("Combien coûte le vélo ?", False),
        ("¿Qué coche tengo?", False),
    ],
)
def test_an_amount_of_one_thing_is_no_list(question: str, many: bool) -> None:
    assert asked_by(question).many is many
