"""What the cross-encoder reads, and what its scores change."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from recordari.config import Settings
from recordari.core.identity import Scope
from recordari.core.items import Trust
from recordari.models.pull import needed_models
from recordari.recall.rules.confidence import Signs, confidence_of
from recordari.recall.rules.numbering import Candidate
from recordari.recall.rules.ranking import Ranked
from recordari.recall.rules.reranking import MOST_CHARACTERS, blended, matching_part, passage

MOMENT = datetime(2031, 5, 9, 18, 30, tzinfo=UTC)
FILLER = "The harbour was quiet and the boats were moored side by side. "


def ranked(*scores: float) -> list[Ranked]:
    return [
        Ranked(
            candidate=Candidate(
                item_id=UUID(int=number),
                scope=Scope.USER,
                thread=None,
                position=None,
                speaker=None,
                trust=Trust.USER,
                event_time=MOMENT,
                terms=b"",
                tokens=b"",
                traits=0,
            ),
            row=number,
            score=score,
        )
        for number, score in enumerate(scores)
    ]


def order(items: list[Ranked]) -> list[int]:
    return [item.row for item in items]


def test_a_passage_says_who_and_when() -> None:
    read = passage("I moved to Oslo.", speaker="Ines", moment=MOMENT, terms={"oslo": 1.0}, language="english")
    assert read == "Ines, 09 May 2031: I moved to Oslo."
    assert passage("Rain.", speaker=None, moment=MOMENT, terms={}, language="english") == "09 May 2031: Rain."


@pytest.mark.parametrize("before", [0, 12, 60])
def test_a_long_text_is_cut_to_the_part_that_matches(before: int) -> None:
    content = FILLER * before + "The vault opens with the seventh key. It is brass. " + FILLER * 40
    part = matching_part(content, {"vault": 3.0, "key": 2.0}, language="english")
    assert "The vault opens with the seventh key." in part
    assert len(part) <= MOST_CHARACTERS


def test_a_text_without_an_end_of_sentence_is_cut_too() -> None:
    part = matching_part("x" * 5_000 + " vault " + "y" * 5_000, {"vault": 1.0}, language="english")
    assert 0 < len(part) <= MOST_CHARACTERS


def test_small_differences_of_the_cross_encoder_count() -> None:
    assert order(blended(ranked(1.00, 0.99, 0.98), [0.001, 0.001, 0.04])) == [2, 0, 1]


def test_equal_scores_of_the_cross_encoder_change_nothing() -> None:
    assert order(blended(ranked(3.0, 2.0, 1.0), [0.2, 0.2, 0.2])) == [0, 1, 2]
    assert order(blended(ranked(2.0, 2.0), [0.1, 0.9])) == [1, 0]


def test_a_clear_lead_stands_whatever_the_cross_encoder_says() -> None:
    assert order(blended(ranked(7.0, 2.5), [0.0, 1.0])) == [0, 1]
    assert order(blended(ranked(3.9, 2.5), [0.001, 0.9])) == [1, 0]


def test_a_score_keeps_its_parts_with_what_was_read() -> None:
    (first, second) = blended(ranked(1.0, 0.9), [0.99, 0.01])
    assert first.read is not None and second.read is not None and second.read < 0 < first.read
    assert first.score == pytest.approx(1.0 + first.parts["rerank"], abs=1e-4)


def test_an_answer_that_the_cross_encoder_read_well_is_surer() -> None:
    doubtful, sure = (
        confidence_of(Signs(base=1.2, lead=1.0, other=0.0, agreed=1.0, read=read)) for read in (-8.0, 4.0)
    )
    assert doubtful + 0.2 < sure


@pytest.mark.parametrize("read", [None, 0.0])
def test_an_answer_that_is_nearer_is_surer(read: float | None) -> None:
    """Where the model has one measure for all questions; what fits by words says no more then."""
    far, near = (
        confidence_of(Signs(base=1.2, lead=1.0, other=0.0, agreed=1.0, near=near, read=read)) for near in (0.2, 1.4)
    )
    assert far + 0.1 < near


def test_the_profile_thorough_is_one_setting() -> None:
    assert needed_models(Settings(embedding_profile="thorough")) == (
        "memory-embedder",
        "potion-base-8M",
        "memory-reader",
    )
    assert Settings(embedding_profile="best").reranker == "none"
    assert Settings(embedding_profile="thorough", rerank_provider="tei").reranker == "tei"
