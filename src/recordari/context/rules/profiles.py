"""The standing profile of a user or an agent: its facts in a few hundred tokens (X4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.items import Trust
from recordari.core.tokens import estimated_tokens

PROFILE_TOKENS = 300
UNSAID_CONFIDENCE = 0.9  # of a fact that was stated without a confidence
MOST_FACTS = 200  # read for a profile, the best first

# In this order; other categories follow by name.
_CATEGORIES = {
    "personal": "Personal",
    "preference": "Preferences",
    "workflow": "Way of working",
    "decision": "Decisions",
    "learning": "Learned",
}
_OTHER = "Other"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFact:
    item_id: UUID
    content: str
    trust: Trust
    category: str | None
    confidence: float | None
    pinned: bool
    valid_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The facts about a user or an agent in short."""

    __pydantic_config__ = DESCRIBED

    content: str
    facts: int
    """How many facts it contains."""
    writer: str
    """`offline` for the rules, or the name of a model."""
    made_at: datetime | None
    """Null if there are no facts."""


def profile_text(facts: Sequence[KnownFact], *, most_tokens: int = PROFILE_TOKENS) -> tuple[str, int]:
    """The text of a profile and its number of facts: by category; pinned first, then by confidence, then the newest.

    Categories take turns, so that many facts of one category do not crowd out the others.
    """
    grouped = _by_category(facts)
    chosen: dict[str, list[str]] = {name: [] for name in grouped}
    spent = 0
    for turn in zip_longest(*([(name, fact) for fact in group] for name, group in grouped.items())):
        for name, fact in filter(None, turn):
            sentence = _sentence(fact.content)
            cost = estimated_tokens(sentence) + 1 + (0 if chosen[name] else estimated_tokens(name) + 2)
            if spent + cost <= most_tokens:  # if not, a shorter one may still fit
                chosen[name].append(sentence)
                spent += cost
    lines = [f"{name}: {' '.join(sentences)}" for name, sentences in chosen.items() if sentences]
    return "\n".join(lines), sum(map(len, chosen.values()))


def _by_category(facts: Sequence[KnownFact]) -> dict[str, list[KnownFact]]:
    grouped: dict[str, list[KnownFact]] = {}
    for fact in sorted(facts, key=_rank, reverse=True):
        grouped.setdefault(fact.category or "", []).append(fact)
    named = sorted(name for name in grouped if name and name not in _CATEGORIES)
    titles = {**_CATEGORIES, **{name: name.capitalize() for name in named}, "": _OTHER}
    return {title: grouped[name] for name, title in titles.items() if name in grouped}


def _rank(fact: KnownFact) -> tuple[bool, float, datetime, int]:
    confidence = UNSAID_CONFIDENCE if fact.confidence is None else fact.confidence
    return fact.pinned, round(confidence, 1), fact.valid_at, fact.item_id.int


def _sentence(content: str) -> str:
    text = " ".join(content.split())
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
