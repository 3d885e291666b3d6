"""Which names a text has."""

from __future__ import annotations

import pytest

from recordari.memory.rules import EXAMINED, entities_in
from recordari.privacy.rules.findings import DataType


def names(text: str, *, speaker: str | None = None) -> list[str]:
    return [entity.name for entity in entities_in(text, speaker=speaker)]


@pytest.mark.parametrize("masked", list(DataType))
def test_a_mask_is_no_name(masked: DataType) -> None:
    for mask in (masked.mask, masked.tagged("kqzab")):
        assert names(f"Ring {mask} or ask Anna Berg") == ["Anna Berg"]
        assert names(f'She wrote "mine is {mask}" to Rosa') == ["Rosa"], "nor a quotation around it"
        assert names("see above", speaker=mask) == []
        assert names("x" * (EXAMINED - 4) + mask) == [], "nor its beginning, where the search ends"


@pytest.mark.parametrize("mask", ["<PERSON>", "[PHONE_NUMBER]", "[REDACTED]"])
def test_nor_is_the_mask_of_another_program(mask: str) -> None:
    assert names(f"Ring {mask} or ask Anna Berg about the <b>lock</b> in [Lund]") == ["Anna Berg", "Lund"]


def test_a_part_of_an_identifier_is_no_name() -> None:
    assert names("The order HH-20417 of Tomas went to Tomas.Lie@Example.com") == [
        "Tomas.Lie@Example.com",
        "HH-20417",
        "Tomas",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("we meet on the 14th at 10am, as in the 1990s", []),
        ("the kit 2023a1 weighs 250ml with 16GB", ["2023a1"]),
        ("Good day, I'm Rosa Falk and she's Ilse Brandt", ["Rosa Falk", "Ilse Brandt"]),
        ("the workshop is open on Saturdays in Lund", ["Lund"]),
        ("we call it \"the yellow one\", and that 'seat'", ["the yellow one"]),
        ('the clock says "10:00"', []),
        ('find({"order": "HH-204", "tags": ["new", "paid"]}) gave {"by":"post", "open": "no"}', ["HH-204"]),
    ],
)
def test_quantities_contractions_and_the_grammar_of_json_are_no_names(text: str, found: list[str]) -> None:
    assert names(text) == found
