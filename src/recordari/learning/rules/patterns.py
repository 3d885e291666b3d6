"""What a closed session teaches: standing wishes of a person and ways in which an agent works (P3), by rules (English).

A wish is a sentence of a person's own, word for word: "please always …", "from now on …", "I prefer …". A way of working is
what an agent did at least twice: the episodes say the same but for numbers, names of things and quoted words, which are left
out. Where wishes are about the same thing, of which there is one at a time, the later one takes the place of the earlier.
Every rule runs in linear time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.identity import Scope
from recordari.core.items import KINDS, Kind, Trust, normalised
from recordari.core.text import terms
from recordari.facts.rules.extraction import LONGEST, NOT_PEOPLE, Category, own_words

EXAMINED = 8_000
MOST_PATTERNS = 20  # of one session
FEWEST_TERMS = 2
REPEATED = 2  # times that something is done before it counts as a way of working
WISHED_CONFIDENCE = 0.9
LEFT_OUT = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Something that happened in a session, to learn from."""

    item_id: UUID
    kind: Kind
    scope: Scope
    trust: Trust
    speaker: str | None
    content: str
    event_time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Something that holds beyond its session, and what it was learned from."""

    content: str
    category: Category
    confidence: float
    sources: tuple[UUID, ...]
    topic: str | None = None
    """What it is about where only one can hold at a time, such as `language of answers`."""


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
# Of these there is one at a time: the later wish takes the place of the earlier.
_TOPICS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("name to use", re.compile(r"\b(?:call|address) me\b", re.IGNORECASE)),
    (
        "language of answers",
        re.compile(
            r"\b(?:answers?|repl(?:y|ies)|respon(?:d|ses?)|writ(?:e|ing)|speak|talk)\b.{0,40}\bin (?-i:[A-Z][a-z]{2,20})\b",
            re.IGNORECASE,
        ),
    ),
    (
        "length of answers",
        re.compile(
            r"\b(?:answers?|repl(?:y|ies)|respon(?:d|ses?)|summar(?:y|ies)|it|them|reports?)\b.{0,40}"
            r"\b(?:short|brief|concise|long|longer|shorter|detailed|thorough|under \d+|at most \d+|in one sentence)\b"
            r"|\b(?:short|brief|concise|long|detailed|thorough)"
            r" (?:answers?|repl(?:y|ies)|responses?|summar(?:y|ies)|reports?)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "format of answers",
        re.compile(
            r"\b(?:bullet points?|bullets|prose|tables?|markdown|plain text|json|numbered lists?)\b", re.IGNORECASE
        ),
    ),
    ("tone of answers", re.compile(r"\b(?:formal|informal|casual|formally|informally|casually)\b", re.IGNORECASE)),
    ("units", re.compile(r"\b(?:metric|imperial|celsius|fahrenheit)\b", re.IGNORECASE)),
    (
        "channel",
        re.compile(
            r"\b(?:send|notify|contact|reach|tell|remind|message|write)\b.{0,60}"
            r"\b(?:by|via|through|on|over) (?:e-?mail|slack|sms|text|phone|teams|whatsapp|signal)\b",
            re.IGNORECASE,
        ),
    ),
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”')\]]{0,2}\s{1,20}|\n{1,20}")
_LEAD = re.compile(
    r"^(?:(?:by the way|btw|also|oh|well|so|yes|no|hey|hi|thanks|thank you|ok|okay|great|perfect|fine)[,!.]?\s{1,3}){1,3}",
    re.IGNORECASE,
)
# What differs each time although the same is done: numbers and codes, addresses, quoted words.
_PARTICULAR = re.compile(
    r"[\"“«][^\"”»\n]{1,200}[\"”»]|\S{1,100}@\S{1,100}|https?://\S{1,400}|\b(?=\w{0,40}\d)[\w#./:-]{1,80}|#\w{1,40}"
)


def patterns_in(observed: Sequence[Observed], earlier: Sequence[Observed] = ()) -> tuple[Pattern, ...]:
    """What a session teaches, in the order observed; `earlier` are episodes of the same agent from before it."""
    found = [*_wishes(observed), *_ways(observed, earlier)]
    return tuple(found[:MOST_PATTERNS])


def trusted(observed: Observed) -> bool:
    """Whether something may be learned from: text that a tool, a document or a stranger carried may not (P3)."""
    return observed.trust in KINDS[observed.kind].learnt_from


def topic_of(content: str) -> str | None:
    """What a wish is about, where only one can hold at a time."""
    return next((topic for topic, pattern in _TOPICS if pattern.search(content)), None)


def pattern_ref(scope: Scope, owner: str, content: str) -> str:
    """The reference of a pattern: the same words of the same owner are the same pattern."""
    return f"pattern:{scope}:{owner}:{hashlib.sha256(normalised(content).encode()).hexdigest()[:16]}"


def shape_of(content: str) -> str:
    """What an episode says with everything left out that differs from time to time."""
    return _PARTICULAR.sub(LEFT_OUT, content)


def _wishes(observed: Sequence[Observed]) -> list[Pattern]:
    found: dict[str, Pattern] = {}
    for one in observed:
        if one.kind is not Kind.CHAT_MESSAGE or not trusted(one) or (one.speaker or "").casefold() in NOT_PEOPLE:
            continue
        for sentence in _SENTENCE_END.split(own_words(one.content[:EXAMINED].replace("’", "'"))):
            said = _LEAD.sub("", sentence).strip(" -–—*•\t")
            category = _category(said)
            if category is None:
                continue
            key = normalised(said)
            before = found.get(key)
            found[key] = Pattern(
                content=said,
                category=category,
                confidence=WISHED_CONFIDENCE,
                sources=(*before.sources, one.item_id) if before is not None else (one.item_id,),
                topic=topic_of(said) if category is Category.PREFERENCE else None,
            )
    return list(found.values())


def _category(said: str) -> Category | None:
    if not said or said.endswith("?") or len(said) > LONGEST or len(set(terms(said))) < FEWEST_TERMS:
        return None
    if _WISH.search(said):
        return Category.PREFERENCE
    return Category.WORKFLOW if _ROUTINE.search(said) else None


def _ways(observed: Sequence[Observed], earlier: Sequence[Observed]) -> list[Pattern]:
    """What the agent did again and again: in this session, or in this one and before."""
    seen: dict[tuple[Scope, str], list[Observed]] = {}
    for one in (*earlier, *observed):
        if one.kind is Kind.EPISODE and trusted(one):
            seen.setdefault((one.scope, normalised(shape_of(one.content))), []).append(one)
    now = {one.item_id for one in observed}
    return [
        Pattern(
            content=shape_of(same[-1].content)[:LONGEST],
            category=Category.WORKFLOW,
            confidence=round(1 - 0.5 ** len(same), 4),
            sources=tuple(one.item_id for one in same),
        )
        for (_, shape), same in seen.items()
        if len(same) >= REPEATED and any(one.item_id in now for one in same) and len(set(terms(shape))) >= FEWEST_TERMS
    ]
