"""Patterns in a closed session: standing wishes of a person and ways in which an agent works (P3), by rules (English).

A wish is a sentence of a person, word for word: "please always …", "from now on …", "I prefer …". A way of working is
something an agent did at least twice: the episodes are equal without their numbers, names and quoted words. Of some topics
there is one wish at a time: the later wish supersedes the earlier. Every rule runs in linear time.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.identity import Scope
from recordari.core.items import KINDS, Kind, Trust, normalised
from recordari.core.text import terms
from recordari.facts.rules.extraction import LONGEST, NOT_PEOPLE, Category, sentences_of

MOST_PATTERNS = 20  # of one session
FEWEST_TERMS = 2
REPEATED = 2  # times that an agent must do something before it is a way of working
WISHED_CONFIDENCE = 0.9
LEFT_OUT = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A message or an episode of a session."""

    item_id: UUID
    kind: Kind
    scope: Scope
    trust: Trust
    speaker: str | None
    content: str
    event_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A wish or a way of working, with its sources."""

    content: str
    category: Category
    confidence: float
    sources: tuple[UUID, ...]
    topic: str | None = None
    """Set where only one pattern can hold at a time, such as `language of answers`."""


_WISH = re.compile(
    r"^(?:please |and |but |also |so )?(?:always|never(?! mind))\b|\b(?:please|you should|you must|i want you to|make sure to)"
    r"(?: \w{2,20})? (?:always|never)\b"
    r"|\b(?:please|and|you should) do(?:n't| not) (?:ever )?\w{2,20}\b.{0,200}\b(?:again|any ?more)\b"
    r"|\b(?:from now on|going forward|in (?:the )?future|next time|every time (?:you|i|we)|whenever (?:you|i|we))\b"
    r"|\bi(?:'d| would)? (?:strongly |really |usually |always )?prefer\b|\bi(?:'d| would) rather\b|\bmy preference is\b"
    r"|\bi (?:do not |don't )?like (?:it when (?:you|we)|my \w{2,20})\b"
    r"|^(?:please )?(?:call|address) me\b|^(?:please )?(?:answer|reply|respond|write)(?: to)?(?: me)? in (?-i:[A-Z])",
    re.IGNORECASE,
)
_DAYS = "day|morning|evening|week|month|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_ROUTINE = re.compile(
    r"\b(?:i|we)(?:'ve)? (?:usually|always|normally|typically|generally|regularly)\b"
    r"|\bmy (?:\w{2,20} )?(?:routine|workflow|process)\b"
    rf"|\b(?:every|each) (?:{_DAYS})\b.{{0,80}}\b(?:i|we)\b|\b(?:i|we)\b.{{0,80}}\b(?:every|each) (?:{_DAYS})\b",
    re.IGNORECASE,
)
# Of each topic there is one wish at a time: the later one supersedes the earlier.
_TOPICS = {
    topic: re.compile(pattern, re.IGNORECASE)
    for topic, pattern in {
        "name to use": r"\b(?:call|address) me\b",
        "language of answers": r"\b(?:answers?|repl(?:y|ies)|respon(?:d|ses?)|writ(?:e|ing)|speak|talk)\b.{0,40}"
        r"\bin (?-i:[A-Z][a-z]{2,20})\b",
        "length of answers": r"\b(?:answers?|repl(?:y|ies)|respon(?:d|ses?)|summar(?:y|ies)|it|them|reports?)\b.{0,40}"
        r"\b(?:short|brief|concise|long|longer|shorter|detailed|thorough|under \d+|at most \d+|in one sentence)\b"
        r"|\b(?:short|brief|concise|long|detailed|thorough)"
        r" (?:answers?|repl(?:y|ies)|responses?|summar(?:y|ies)|reports?)\b",
        "format of answers": r"\b(?:bullet points?|bullets|prose|tables?|markdown|plain text|json|numbered lists?)\b",
        "tone of answers": r"\b(?:formal|informal|casual|formally|informally|casually)\b",
        "units": r"\b(?:metric|imperial|celsius|fahrenheit)\b",
        "channel": r"\b(?:send|notify|contact|reach|tell|remind|message|write)\b.{0,60}"
        r"\b(?:by|via|through|on|over) (?:e-?mail|slack|sms|text|phone|teams|whatsapp|signal)\b",
    }.items()
}
_LEAD = re.compile(
    r"^(?:(?:by the way|btw|also|oh|well|so|yes|no|hey|hi|thanks|thank you|ok|okay|great|perfect|fine)[,!.]?\s{1,3}){1,3}",
    re.IGNORECASE,
)
# Parts that differ each time the same is done: numbers and codes, addresses, quoted words.
_PARTICULAR = re.compile(
    r"[\"“«][^\"”»\n]{1,200}[\"”»]|\S{1,100}@\S{1,100}|https?://\S{1,400}|\b(?=\w{0,40}\d)[\w#./:-]{1,80}|#\w{1,40}"
)


def patterns_in(observed: Sequence[Observed], earlier: Sequence[Observed] = ()) -> tuple[Pattern, ...]:
    """The patterns of a session, in the order observed; `earlier` are episodes of the same agent before the session."""
    return tuple([*_wishes(observed), *_ways(observed, earlier)][:MOST_PATTERNS])


def trusted(observed: Observed) -> bool:
    """Whether patterns may come from it: never from text of a tool, a document or a stranger (P3)."""
    return observed.trust in KINDS[observed.kind].learnt_from


def topic_of(content: str) -> str | None:
    return next((topic for topic, pattern in _TOPICS.items() if pattern.search(content)), None)


def pattern_ref(scope: Scope, owner: str, content: str) -> str:
    """The reference of a pattern: the same words of the same owner are the same pattern."""
    return f"pattern:{scope}:{owner}:{hashlib.sha256(normalised(content).encode()).hexdigest()[:16]}"


def shape_of(content: str) -> str:
    """The text of an episode without the parts that differ each time."""
    return _PARTICULAR.sub(LEFT_OUT, content)


def _wishes(observed: Sequence[Observed]) -> list[Pattern]:
    wishes: dict[str, Pattern] = {}
    for item in observed:
        if item.kind is not Kind.CHAT_MESSAGE or not trusted(item) or (item.speaker or "").casefold() in NOT_PEOPLE:
            continue
        for sentence in sentences_of(item.content):
            content = _LEAD.sub("", sentence).strip(" -–—*•\t")
            if (category := _category(content)) is None:
                continue
            key = normalised(content)
            earlier = wishes[key].sources if key in wishes else ()
            wishes[key] = Pattern(
                content=content,
                category=category,
                confidence=WISHED_CONFIDENCE,
                sources=(*earlier, item.item_id),
                topic=topic_of(content) if category is Category.PREFERENCE else None,
            )
    return list(wishes.values())


def _category(sentence: str) -> Category | None:
    if sentence.endswith("?") or len(sentence) > LONGEST or len(set(terms(sentence))) < FEWEST_TERMS:
        return None
    if _WISH.search(sentence):
        return Category.PREFERENCE
    return Category.WORKFLOW if _ROUTINE.search(sentence) else None


def _ways(observed: Sequence[Observed], earlier: Sequence[Observed]) -> list[Pattern]:
    """Episodes that repeat: all in this session, or some before it."""
    groups: defaultdict[tuple[Scope, str], list[Observed]] = defaultdict(list)
    for item in (*earlier, *observed):
        if item.kind is Kind.EPISODE and trusted(item):
            groups[item.scope, normalised(shape_of(item.content))].append(item)
    now = {item.item_id for item in observed}
    return [
        Pattern(
            content=shape_of(same[-1].content)[:LONGEST],
            category=Category.WORKFLOW,
            confidence=round(1 - 0.5 ** len(same), 4),
            sources=tuple(item.item_id for item in same),
        )
        for (_, shape), same in groups.items()
        if len(same) >= REPEATED
        and any(item.item_id in now for item in same)
        and len(set(terms(shape))) >= FEWEST_TERMS
    ]
