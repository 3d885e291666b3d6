"""What a cross-encoder reads of each candidate, and how its scores join ours.

It reads speaker, date and the part of the text that matches: without the first two it cannot tell who said it and when, and
its time goes by length. What it says of a candidate is one more part of its score.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate

import numpy as np

from recordari.core import text
from recordari.recall.rules.ranking import Ranked

WEIGHT = 0.3
"""The weight of the cross-encoder's log-odds."""
LEAST, MOST = -6.0, 4.0
"""Log-odds beyond these count no more."""
MOST_CHARACTERS = 480  # about 120 tokens
_SENTENCE = re.compile(r"(?:[^.!?。！？\n]|[.!?](?=\S)){1,240}[.!?。！？\n]*\s*")
_SMALLEST = 1e-6


def passage(content: str, *, speaker: str | None, moment: datetime, terms: Mapping[str, float], language: str) -> str:
    """The candidate as the cross-encoder reads it; `terms` are those of the question with their weights."""
    heading = f"{speaker}, {moment:%d %B %Y}" if speaker else f"{moment:%d %B %Y}"
    return f"{heading}: {matching_part(content, terms, language=language)}"


def matching_part(content: str, terms: Mapping[str, float], *, language: str, limit: int = MOST_CHARACTERS) -> str:
    """The sentences in a row that have the most of the question's terms, as many as fit."""
    plain = " ".join(content[: 40 * limit].split())
    if len(plain) <= limit:
        return plain
    sentences = [found.group() for found in _SENTENCE.finditer(plain)] or [plain]
    found = [terms.keys() & set(text.terms(sentence, language)) for sentence in sentences]
    ends = list(accumulate(map(len, sentences)))
    best, part = -1.0, plain[:limit]
    for first in range(len(sentences)):
        start = ends[first] - len(sentences[first])
        last = max(first, int(np.searchsorted(ends, start + limit, side="right")) - 1)
        worth = _worth(found[first : last + 1], terms)
        if worth > best:
            best, part = worth, "".join(sentences[first : last + 1])[:limit]
    return part.strip()


def _worth(found: Sequence[Collection[str]], terms: Mapping[str, float]) -> float:
    return sum(terms[term] for term in set().union(*found))


def log_odds(score: float) -> float:
    """Of a score of the cross-encoder, 0 to 1. A turn that gives one of several items of an answer is often below a tenth."""
    return math.log((score + _SMALLEST) / (1 - score + _SMALLEST))


def blended(head: Sequence[Ranked], scores: Sequence[float]) -> list[Ranked]:
    """The candidates by our score with what the cross-encoder (0 to 1) adds, best first."""
    joined = []
    for item, score in zip(head, scores, strict=True):
        odds = log_odds(score)
        more = WEIGHT * min(max(odds, LEAST), MOST)
        joined.append(replace(item, score=item.score + more, parts={**item.parts, "rerank": round(more, 4)}, read=odds))
    return sorted(joined, key=lambda item: -item.score)
