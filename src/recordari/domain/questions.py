"""Long questions: a text of many sentences asks many things, and one vector or one bag of words tells none of them well.

Such a question is asked sentence by sentence, and what the answers have in common comes first. A short question, which is
what people and agents ask, is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import TypeVar

LONG_CHARACTERS = 600  # a question of at most so many is asked as it is
FEWEST_SENTENCES = 4
SHORTEST_PART = 4  # words; less asks nothing
MOST_PARTS = 24

_END = re.compile(r"(?<=[.!?。！？])[\"'”’)*\]]{0,3}\s+|\n+")

K = TypeVar("K", bound=Hashable)


def parts_of(question: str) -> list[str]:
    """The sentences of a long question, the longest where there are many; of any other the question itself."""
    if len(question) <= LONG_CHARACTERS:
        return [question]
    sentences = [part.strip() for part in _END.split(question)]
    parts = list(dict.fromkeys(part for part in sentences if len(part.split()) >= SHORTEST_PART))
    if len(parts) < FEWEST_SENTENCES:
        return [question]
    chosen = set(sorted(parts, key=len, reverse=True)[:MOST_PARTS])
    return [part for part in parts if part in chosen]


def fused(answers: Sequence[Sequence[tuple[K, float]]]) -> dict[K, float]:
    """Join answers to the parts of one question, best first.

    Each thing counts by how far it stands above the last of each answer that has it: a part that finds nothing in
    particular, whose answers all score alike, has little to say.
    """
    scores: dict[K, float] = {}
    for answer in answers:
        if not answer:
            continue
        floor = min(score for _, score in answer)
        for key, score in answer:
            scores[key] = scores.get(key, 0.0) + score - floor
    return dict(sorted(scores.items(), key=lambda pair: -pair[1]))
