"""What says the same takes one place of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from recordari.core.identity import Scope
from recordari.core.items import EDITED_FROM, Item, Kind, Tier, Trust
from recordari.recall.rules.folding import Folded, folded
from recordari.recall.rules.numbering import Candidate
from recordari.recall.rules.ranking import Ranked

NOW = datetime(2026, 5, 2, tzinfo=UTC)


def ranked(number: int, score: float) -> Ranked:
    candidate = Candidate(
        item_id=UUID(int=number), scope=Scope.USER, thread=None, position=None, speaker=None, trust=Trust.USER,
        event_time=NOW, terms=b"", tokens=b"", traits=0, similarity=None, is_hit=True, text_rank=1, vector_rank=None,
        time_rank=None, entity_rank=None,
    )  # fmt: skip
    return Ranked(candidate=candidate, row=0, score=score)


def item(number: int, content: str, kind: Kind = Kind.FACT, metadata: dict[str, Any] | None = None) -> Item:
    return Item(
        item_id=UUID(int=number), kind=kind, scope=Scope.USER, tier=Tier.RECENT, user_id=None, agent_id=None,
        session_id=None, run_id=None, source_ref=str(number), content=content, speaker=None, trust=Trust.USER,
        event_time=NOW, created_at=NOW, valid_at=NOW, invalid_at=None, superseded_by=None, subject=None, predicate=None,
        object=None, confidence=None, category=None, payload_key=None, metadata=metadata or {},
    )  # fmt: skip


def fold(given: Sequence[Item], links: Sequence[tuple[int, int]]) -> Folded:
    """The items ranked in the order given."""
    best = [ranked(one.item_id.int, 10.0 - place) for place, one in enumerate(given)]
    return folded(best, {one.item_id: one for one in given}, [(UUID(int=a), UUID(int=b)) for a, b in links])


def kept(answer: Folded) -> list[int]:
    return [one.candidate.item_id.int for one in answer.kept]


def test_a_fact_is_shown_as_its_turn_at_the_better_place() -> None:
    answer = fold([item(1, "fact"), item(2, "other"), item(3, "turn", Kind.CHAT_MESSAGE)], [(1, 3)])
    assert kept(answer) == [3, 2]
    assert (answer.kept[0].score, answer.kept[0].parts) == (10.0, {"folded": 2.0})
    assert answer.same_as == {UUID(int=3): [UUID(int=1)]} and answer.facts == [UUID(int=1)]


def test_all_facts_of_a_turn_are_one_with_it_and_a_fact_of_two_turns_hides_neither() -> None:
    turns = [item(1, "turn", Kind.CHAT_MESSAGE), item(2, "another turn", Kind.CHAT_MESSAGE)]
    answer = fold([*turns, item(3, "fact"), item(4, "another fact")], [(3, 2), (3, 1), (4, 1)])
    assert kept(answer) == [1, 2]
    assert answer.same_as == {UUID(int=1): [UUID(int=3), UUID(int=4)]}


def test_a_corrected_fact_is_shown_instead_of_its_turn() -> None:
    corrected = item(2, "corrected", metadata={EDITED_FROM: "9"})
    answer = fold([item(1, "turn", Kind.CHAT_MESSAGE), corrected, item(3, "other fact of it")], [(2, 1), (3, 1)])
    assert kept(answer) == [2, 3]
    assert answer.same_as == {UUID(int=2): [UUID(int=1)]}


def test_equal_texts_of_one_kind_are_shown_once_and_unlinked_items_stay() -> None:
    answer = fold([item(1, "Tea."), item(2, "tea"), item(3, "tea", Kind.CHAT_MESSAGE)], [])
    assert kept(answer) == [1, 3]
    assert answer.duplicates == [UUID(int=2)] and answer.facts == []
