"""The reranker that was trained on memories: the memories themselves, and what it reads that web search does not teach."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.local_models import require_model
from tools.training import dialogues

from recordari.models.inference import CrossEncoder
from recordari.models.pull import RERANKER

SAID = (
    "user, 04 May 2026: We moved to a flat in Aarhus, on the fourth floor and without a lift.",
    "user, 04 May 2026: My sister Freja lives for her horses.",
    "user, 11 May 2026: I quit the agency in March and now teach maths at a gymnasium.",
    "user, 11 May 2026: My boss Henrik never answers the phone.",
    "user, 18 May 2026: I sold the Volvo, the cargo bike is enough for us.",
    "user, 18 May 2026: The landlord wants 9,400 kroner a month.",
)


def test_every_memory_to_learn_from_can_be_read() -> None:
    memories = dialogues.read_all()
    questions = [question for memory in memories for question in memory.questions]
    assert len(memories) > 200 and len(questions) > 7_000
    assert 0.2 < sum(not question.evidence for question in questions) / len(questions) < 0.3


@pytest.mark.parametrize("line", ["? Who? | 7", "no turn", "? Who has none"])
def test_a_line_that_is_wrong_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.txt"
    file.write_text(f"= 2026-05-04 10:00\n1 Ana: Hello\n{line}\n", "utf-8")
    with pytest.raises(SystemExit, match=r"wrong\.txt, line 3"):
        dialogues.read(file)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where do I live?", 0),
        ("Is there an elevator in my building?", 0),
        ("What do I do for a living?", 2),
        ("Do I still own a car?", 4),
        ("How much is my rent?", 5),
    ],
)
def test_it_finds_what_is_said_in_other_words(question: str, answer: int) -> None:
    scores = CrossEncoder(require_model(RERANKER)).scores(question, SAID)
    assert scores.index(max(scores)) == answer


@pytest.mark.parametrize("question", ["What is Henrik's phone number?", "How tall am I?", "How old is Freja?"])
def test_it_finds_nothing_where_nothing_is_said(question: str) -> None:
    assert max(CrossEncoder(require_model(RERANKER)).scores(question, SAID)) < 0.5
