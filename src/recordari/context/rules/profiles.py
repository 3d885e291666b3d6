"""The standing profile of a user or an agent: what is known of them, in a few hundred tokens (X4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.tokens import estimated_tokens

PROFILE_TOKENS = 300
UNSAID_CONFIDENCE = 0.9  # somebody stated it outright and said nothing of how sure it is
MOST_FACTS = 200  # that are looked at: the best by the same order

# The order in which people want to read them; others follow by name.
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
    """A fact as a profile weighs it."""

    item_id: UUID
    content: str
    category: str | None
    confidence: float | None
    pinned: bool
    valid_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is known of a user or an agent."""

    __pydantic_config__ = DESCRIBED

    content: str
    facts: int
    """How many facts it tells."""
    writer: str
    """Who wrote it: the offline rules, or a model."""
    made_at: datetime | None
    """When it was made; null where nothing is known."""


def profile_text(facts: Sequence[KnownFact], *, most_tokens: int = PROFILE_TOKENS) -> tuple[str, int]:
    """Write a profile: by category, pinned, surest and newest first; and how many facts it tells.

    Categories take turns, so that many facts of one kind do not keep the others out.
    """
    waiting = _by_category(facts)
    chosen: dict[str, list[str]] = {name: [] for name in waiting}
    told = spent = 0
    while waiting:
        for name in list(waiting):
            fact = waiting[name].pop(0)
            said = _sentence(fact.content)
            cost = estimated_tokens(said) + 1 + (0 if chosen[name] else estimated_tokens(name) + 2)
            if not waiting[name]:
                del waiting[name]
            if spent + cost > most_tokens:
                continue  # a shorter one may still fit
            chosen[name].append(said)
            spent += cost
            told += 1
    return "\n".join(f"{name}: {' '.join(said)}" for name, said in chosen.items() if said), told


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
    said = " ".join(content.split())
    return said if said.endswith((".", "!", "?", "…")) else f"{said}."
