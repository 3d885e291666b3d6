"""Which statements answer a standing question, by their scores."""

from __future__ import annotations

from uuid import uuid4

from recordari.context.rules.questions import Evidence, related
from recordari.core.items import Trust


def statement(content: str, score: float, *, is_taste: bool = False) -> Evidence:
    return Evidence(item_id=uuid4(), content=content, trust=Trust.USER, score=score, is_fact=True, is_taste=is_taste)


def test_a_taste_comes_first_and_takes_no_place_from_what_is_near_by_itself() -> None:
    recalled = [
        statement("Ana wants deliveries at the bakery.", 2.0, is_taste=True),
        statement("Ana has the deliveries of May sent to Porto.", 1.9),
        statement("Ana likes quiet streets.", 0.4, is_taste=True),
        statement("Ana works in Porto.", 0.4),
    ]
    found = [each.content.split()[1] for each in related("What does this customer want for deliveries?", recalled)]
    assert found == ["wants", "has", "likes"]
    asked_plainly = related("Where do deliveries go?", recalled)
    assert [each.content.split()[1] for each in asked_plainly] == ["wants", "has"]
