"""The standing profile of a user or an agent: its facts in a few hundred tokens (X4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import Scope
from recordari.core.items import Kind, Trust
from recordari.core.text import terms
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
_OF_PROCEDURES = {Scope.USER: "preference", Scope.AGENT: "workflow"}  # without a category of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFact:
    item_id: UUID
    content: str
    trust: Trust
    category: str | None
    confidence: float | None
    pinned: bool
    valid_at: datetime
    kind: Kind = Kind.FACT
    scope: Scope = Scope.USER
    stated: bool = True
    """Whether somebody told it to be remembered; else it was extracted from what was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The facts about a user or an agent in short."""

    __pydantic_config__ = DESCRIBED

    content: str
    facts: int
    """How many facts and procedures it contains."""
    writer: str
    """`offline` for the rules, or the name of a model."""
    made_at: datetime | None
    """Null if there are no facts."""


def profile_text(facts: Sequence[KnownFact], *, most_tokens: int = PROFILE_TOKENS) -> tuple[str, int]:
    """The text of a profile and its number of facts, by category: pinned, then stated, then sure, then new ones first.

    Categories take turns, so that many facts of one category do not crowd out the others. A fact that says less than
    another one is left out.
    """
    grouped = _by_category(_distinct(sorted(facts, key=_rank, reverse=True)))
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


def profile_without(text: str, contents: Sequence[str]) -> str:
    """A profile without the facts that a context shows elsewhere, as the offline rules wrote them."""
    written = [f" {_sentence(content)} " for content in contents]
    others = [_said(content) for content in contents]
    lines = []
    for line in text.splitlines():
        title, mark, sentences = line.partition(": ")
        padded = f" {sentences.strip()} "
        for sentence in written:
            if sentence in padded:
                padded = f" {padded.replace(sentence, ' ', 1).strip()} "
        told = [sentence for sentence in _ENDED.split(padded.strip()) if not any(map(_said(sentence).equals, others))]
        sentences = " ".join(told)
        if sentences:
            lines.append(f"{title}{mark}{sentences}")
    return "\n".join(lines)


def say_the_same(one: str, other: str) -> bool:
    """Whether a fact and a learnt wish come from the same sentence: "Please use maps", and "Ana wants: use maps"."""
    return _said(one).equals(_said(other))


@dataclass(frozen=True, slots=True)
class _Said:
    """What a sentence says: in the words of the speaker or told of somebody, and with which words, as numbers."""

    is_spoken: bool
    words: frozenset[int]
    """Without the names that what is told begins with."""

    def equals(self, other: _Said) -> bool:
        if self.is_spoken is other.is_spoken:
            return False
        told, spoken = (other.words, self.words) if self.is_spoken else (self.words, other.words)
        return len(told) >= FEWEST_SHARED and told <= spoken


def _said(text: str) -> _Said:
    key = (len(text), hash(text))
    said = _SAID.get(key)
    if said is None:
        if len(_SAID) >= MOST_SAID:
            _SAID.clear()
        words = _told(text)
        is_spoken = _SPOKEN.search(text) is not None
        names = _NAMES.match(text) if not is_spoken else None
        words -= _told(names.group()) if names is not None else frozenset()
        said = _SAID[key] = _Said(is_spoken, frozenset(map(hash, words)))
    return said


_SAID: dict[tuple[int, int], _Said] = {}
"""By length and hash, without the text: every turn compares the same sentences again."""
MOST_SAID = 10_000  # about 10 MB
FEWEST_SHARED = 3  # words
_ENDED = re.compile(r"(?<=[.!?…])\s")
_SPOKEN = re.compile(
    r"\b(?:i|i'm|i've|i'd|me|my|we|we're|we've|our|us)\b"
    r"|^(?:please|always|never|from now on|don't|do not|call|answer|reply|respond|write|use|keep|send|stop|no)\b",
    re.IGNORECASE,
)
"""In the words of the speaker."""
_NAMES = re.compile(r"^(?:[A-ZÀ-ÖØ-Þ][\w'-]{0,40}\s)+")
_UNTOLD = frozenset(terms("please kindly want wants others"))


def _told(content: str) -> frozenset[str]:
    return frozenset(terms(content)) - _UNTOLD


def _distinct(facts: Sequence[KnownFact]) -> list[KnownFact]:
    """The facts, best first, except those whose words are all in one that is kept.

    Of a wish that was learnt as a procedure and as a fact, the fact is kept: it names who wishes.
    """
    kept: list[KnownFact] = []
    words: list[frozenset[str]] = []
    for fact in facts:
        same = [
            place
            for place, one in enumerate(kept)
            if one.kind is not fact.kind and say_the_same(one.content, fact.content)
        ]
        said = frozenset(terms(fact.content))
        if same and fact.kind is Kind.FACT:
            kept[same[0]], words[same[0]] = fact, said
        elif not same and not any(said <= others for others in words):
            kept.append(fact)
            words.append(said)
    return kept


def _by_category(facts: Sequence[KnownFact]) -> dict[str, list[KnownFact]]:
    grouped: dict[str, list[KnownFact]] = {}
    for fact in facts:
        category = fact.category or (_OF_PROCEDURES.get(fact.scope) if fact.kind is Kind.PROCEDURE else None)
        grouped.setdefault(category or "", []).append(fact)
    named = sorted(name for name in grouped if name and name not in _CATEGORIES)
    titles = {**_CATEGORIES, **{name: name.capitalize() for name in named}, "": _OTHER}
    return {title: grouped[name] for name, title in titles.items() if name in grouped}


def _rank(fact: KnownFact) -> tuple[bool, bool, float, datetime, int]:
    confidence = UNSAID_CONFIDENCE if fact.confidence is None else fact.confidence
    return fact.pinned, fact.stated, round(confidence, 1), fact.valid_at, fact.item_id.int


def _sentence(content: str) -> str:
    text = " ".join(content.split())
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
