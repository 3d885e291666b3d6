"""Questions that need several steps: recognised by their form, and continued with the first answers (C5, English).

A question with two parts is asked part by part. One that reaches its object by way of another ("the town where the
woman who trained Leo was born") is asked again with the names in the first answers.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import TypeVar

from recordari.memory.rules import entities_in

K = TypeVar("K", bound=Hashable)

EXAMINED = 600  # characters of a question
READ = 3  # answers of the first round whose names lead on
MOST_NAMES = 4
MOST_PARTS = 3

_ASKS = r"(?:who|whom|whose|what|which|when|where|why|how)"
_THING = (
    r"(?:person|people|man|woman|guy|friend|colleague|boss|manager|client|customer|company|team|place|city|town|country"
    r"|book|film|movie|song|project|event|trip|restaurant|shop|school|one|doctor|teacher|artist|author|band)"
)
_PARTS = re.compile(rf"[,;?]?\s+and(?: also)?,?\s+(?={_ASKS}\b)|\?\s+(?={_ASKS}\b)", re.IGNORECASE)
_BRIDGE = re.compile(
    rf"\b(?:the|a|an|that) (?:\w{{2,20}} ){{0,2}}{_THING} (?:who|whom|whose|that|which|where|with whom)\b"
    rf"|\b{_ASKS}\b.{{2,80}}\bwhose\b|\w's \w{{2,20}}'s \w"
    r"|\bthe \w{2,20} of (?:the )?\w{2,20} (?:of|who|that)\b",
    re.IGNORECASE,
)
_COMPARES = re.compile(
    r"\b(?:have|has|had|got) in common\b|\bdifferences? between\b|\bcompared? (?:to|with)\b|\bboth (?:of )?\w"
    r"|\b(?:first|earlier|later|before|after)\b.{0,60}\bor\b",
    re.IGNORECASE,
)


def is_multi_step(question: str) -> bool:
    """Whether a question has several parts, compares, or is bridging."""
    examined = question[:EXAMINED]
    return bool(
        len(parts_of(examined)) > 1
        or is_bridging(examined)
        or (_COMPARES.search(examined) and len(entities_in(examined)) > 1)
    )


def is_bridging(question: str) -> bool:
    """Whether a question reaches its object by way of another: "the town where the woman who …"."""
    return _BRIDGE.search(question[:EXAMINED]) is not None


def parts_of(question: str) -> list[str]:
    """The parts of a question that can be asked alone; the question itself when there is only one."""
    parts = [part.strip(" ?,;") for part in _PARTS.split(question[:EXAMINED])]
    whole = [part for part in parts if len(part.split()) > 2]
    return whole[:MOST_PARTS] if len(whole) > 1 else [question]


def next_questions(question: str, answers: Sequence[tuple[str, datetime]]) -> list[str]:
    """The next questions: the parts of this one, or this one with names of the first answers."""
    parts = parts_of(question)
    if len(parts) > 1:
        return parts
    entities = entities_in(question)
    if _COMPARES.search(question[:EXAMINED]) and len(entities) > 1:
        names = [entity.name for entity in entities]
        return [_about_one(question, name, names) for name in names[:MOST_PARTS]]
    keys = {entity.key for entity in entities}
    new = (entity.name for text, _ in answers[:READ] for entity in entities_in(text) if entity.key not in keys)
    names = list(dict.fromkeys(new))[:MOST_NAMES]
    return [f"{question} {' '.join(names)}"] if names else []


def _about_one(question: str, name: str, names: Sequence[str]) -> str:
    """The question as if it were about one of several names."""
    others = "|".join(re.escape(other) for other in names if other != name)
    return re.sub(rf"\b(?:{others})\b(?:\s*,|\s+and\b)?|\band\s+(?:{others})\b", " ", question)


def joined(first: Sequence[K], later: Sequence[Sequence[K]], *, kept: int, more: int) -> list[K]:
    """One list of all rounds: the best `kept` of the first stay in front, then `more` that only later rounds found.

    Items of a single pass are never displaced. Measured: items of later rounds are worth adding, and not worth a better rank.
    """
    in_turn = [
        round_[rank] for rank in range(max(map(len, later), default=0)) for round_ in later if rank < len(round_)
    ]
    new = [item for item in dict.fromkeys(in_turn) if item not in frozenset(first[:kept])][:more]
    return list(dict.fromkeys([*first[:kept], *new, *first[kept:]]))
