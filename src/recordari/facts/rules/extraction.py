"""The offline extractor: what somebody states about themselves, word for word (English).

A fact is a span of the text: nothing is put into words that were not said, and who said it is kept beside it. Questions,
quoted text, code and blocks that were pasted in are passed over, so that what memory once handed out is never learned
again as if it were new. Every rule runs in linear time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from recordari.core.text import terms
from recordari.facts.rules.claims import claims_of

EXAMINED = 8_000
MOST_FACTS = 8  # of one text
LONGEST = 400  # characters of a fact
FEWEST_TERMS = 3
NOT_PEOPLE = frozenset({"assistant", "ai", "bot", "system", "tool", "agent", "model", "function"})


class Category(StrEnum):
    """What sort of thing a fact says about its speaker."""

    PERSONAL = "personal"
    WORKFLOW = "workflow"
    PREFERENCE = "preference"
    DECISION = "decision"
    LEARNING = "learning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFact:
    """A fact found in a text."""

    content: str
    category: Category
    confidence: float
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None


_ME = (
    r"\b(?:i|we)(?:'ve|'m|'re|'d| have| am| are| had| was)?"
    r"(?: (?:just|recently|also|already|finally|actually|really|usually|always|still))?"
)
# The first that fits names the category; the confidence says how rarely such a sentence means something else.
_CATEGORIES: tuple[tuple[Category, float, re.Pattern[str]], ...] = (
    (
        Category.DECISION,
        0.8,
        re.compile(
            rf"{_ME} (?:decided|chosen|chose|agreed|settled on|opted|concluded|going with|sticking with)\b"
            r"|\b(?:let's|we'll|i'll) (?:go|stick) with\b|\b(?:our|the|my) (?:final )?(?:decision|choice) is\b",
            re.IGNORECASE,
        ),
    ),
    (
        Category.PREFERENCE,
        0.8,
        re.compile(
            rf"{_ME} (?:do not |don't |never )?(?:prefer|like|love|enjoy|hate|dislike|favor|adore|fond of|a fan of|into)\b"
            rf"|{_ME} (?:can't stand|allergic to|vegetarian|vegan)\b|\bmy (?:all-time )?favou?rite\b"
            r"|\bplease (?:always|never)\b|\bi'd rather\b",
            re.IGNORECASE,
        ),
    ),
    (
        Category.LEARNING,
        0.7,
        re.compile(
            rf"{_ME} (?:learned|learnt|realized|realised|discovered|found out|figured out|noticed)\b"
            r"|\bit turns out\b|\bturned out\b",
            re.IGNORECASE,
        ),
    ),
    (
        Category.WORKFLOW,
        0.7,
        re.compile(
            r"\b(?:i|we)(?:'m|'ve)? (?:usually|always|normally|typically|generally|regularly|often)\b"
            rf"|{_ME} (?:use|run|deploy)\b"
            r"|\bmy (?:\w{2,20} )?(?:routine|schedule|workflow|process|setup)\b"
            r"|\b(?:every|each) (?:day|morning|evening|night|week|month|mon|tues|wednes|thurs|fri|satur|sun)"
            r"|\b(?:todo|to-do|action item|next step)s?\b\s?[:–-]"
            r"|\b(?:i|we) (?:need|have|must|plan|promised)(?: to)? \w{2,20}\b|\bremind me to\b|\bdon't forget to\b",
            re.IGNORECASE,
        ),
    ),
    (
        Category.PERSONAL,
        0.75,
        re.compile(
            r"\bmy name is\b|\bcall me\b|\bi(?:'m| am) (?:an?|from|based|named|currently|now|\d{1,3}) "
            rf"|{_ME} (?:live|work|moved|own|have|study|was born|grew up|started|joined|bought|got|adopted|married)\b",
            re.IGNORECASE,
        ),
    ),
    (
        Category.PERSONAL,
        0.6,
        re.compile(
            r"\b(?:i|we)(?:'ve|'m|'re| have| am| are| had| just| recently| also| already| finally| actually| still"
            r"| currently| now){0,3} (?:\w{3,30}ed|\w{2,30}ing|been|went|had|was|were|made|did|took|saw|met|found|began|keep"
            r"|kept|go|play|read|gave|wrote|won|lost|left|came|ran|spent|told|heard|flew|drove|ate|built|taught|sold|brought"
            r"|on|at|in)\b|\bmy (?:new|old|recent|current|own|first|last|next|\w{2,20}'s) \w{2,30}\b"
            r"|\bmy \w{2,30} (?:is|are|was|were|has|have)\b",
            re.IGNORECASE,
        ),
    ),
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"”')\]]{0,2}\s{1,20}|\n{1,20}")
_LEAD = re.compile(
    r"^(?:(?:by the way|btw|anyway|also|oh|well|so|yeah|yes|no|hey|hi|hello|thanks|thank you|ok|okay|actually"
    r"|speaking of which|and|but|i think|i mean|you know|fyi|just so you know|for context|wow|haha|sure|great"
    r"|speaking of (?:\w{1,20} ){0,4}\w{1,20},)[,!.]?\s{1,3}){1,4}",
    re.IGNORECASE,
)
# A statement inside a question: "reminders for my gym sessions, which I usually go to at 7 pm?"
_ASIDE = re.compile(
    r"\bmy (?:[\w'-]{2,30} ){0,3}[\w'-]{2,30}, which (?:i|we|is|are|was|has)\b[^.?!;\n]{8,200}", re.IGNORECASE
)
# What follows a statement and asks for something.
_REQUEST_TAIL = re.compile(
    r"[,;]?\s(?:(?:and|so|but)\s)?"
    r"(?:i was wondering|i wonder|can you|could you|would you|do you|what|are there|is there)\b[^.!]{0,400}$",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:i|my|we|our|mine|i'm|i've|i'd|we're|we've)\b", re.IGNORECASE)
# Wishes of the moment, requests and guesses are no facts.
_NO_FACT = re.compile(
    r"^(?:can|could|would|will|do|does|did|is|are|what|how|which|who|where|when|why|please|tell|give|show|write|suggest|recommend|help"
    r"|let me know|imagine|suppose|if|act as|pretend)\b"
    r"|\b(?:i'd like you to|i want you to|i hope (?:you|this|that)|i would appreciate)\b"
    r"|^i(?:'m| am|'ve been| was)(?: also| really| just| currently)? (?:looking for|looking to"
    r"|thinking (?:of|about) (?:\w{2,20}ing\b|what|how|if|an?)|trying to|considering|interested in|curious|wondering"
    r"|not sure|unsure|asking|wanting|hoping)\b|^i (?:wonder|was wondering|want|need help)\b"
    r"|^i(?:'ll| will) (?:check|look|try|definitely|make sure|keep|consider|do that|be sure|give)\b"
    r"|^\d{1,4}[/.-]\d{1,2}|\S@\S"  # a line of a log or of a mail
    r"|^(?:that|this|those|these|it)(?:'s| is| are| sounds| looks)\b[^,;]{0,80}$",
    re.IGNORECASE,
)
_ACTION = re.compile(
    r"\b(?:todo|to-do|action item|next step)s?\b\s?[:–-]|\b(?:i|we) (?:need to|have to|must|promised to)\b|\bremind me to\b"
    r"|\bdon't forget to\b",
    re.IGNORECASE,
)
_OPENING_TAG = re.compile(r"<([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,200})?>")
FENCE = "```"


def facts_in(text: str, *, speaker: str | None = None) -> tuple[ExtractedFact, ...]:
    """What the speaker states about themselves, in the order said; nothing when the speaker is no person."""
    if (speaker or "").casefold() in NOT_PEOPLE:
        return ()
    found: dict[str, ExtractedFact] = {}
    for sentence in _SENTENCE_END.split(own_words(text[:EXAMINED].replace("’", "'"))):
        extracted = _fact(sentence.strip(), speaker)
        if extracted is not None:
            found.setdefault(extracted.content.casefold(), extracted)
        if len(found) == MOST_FACTS:
            break
    return tuple(found.values())


def own_words(text: str) -> str:
    """The text without what was pasted into it: code, quoted lines, and blocks inside tags."""
    parts = text.split(FENCE)
    kept = "\n".join(parts[::2])
    kept = "\n".join(line for line in kept.split("\n") if not line.lstrip().startswith((">", "|")))
    pieces, place = [], 0
    for match in _OPENING_TAG.finditer(kept):
        if match.start() < place:
            continue
        end = kept.find(f"</{match[1]}>", match.end())
        pieces.append(kept[place : match.start()])
        # A tag that nothing closes may hold anything that follows.
        place = len(kept) if end < 0 else end + len(match[1]) + 3
        if end < 0:
            break
    return "".join([*pieces, kept[place:]])


def _fact(sentence: str, speaker: str | None) -> ExtractedFact | None:
    stated = _LEAD.sub("", sentence).strip(" -–—*•\t")
    if stated.endswith("?") or _NO_FACT.search(stated):
        aside = _ASIDE.search(stated)
        stated = aside.group() if aside is not None else _REQUEST_TAIL.sub("", stated)
    else:
        stated = _REQUEST_TAIL.sub("", stated)
    if stated.endswith("?"):
        return None
    if not stated or _NO_FACT.search(stated) or _FIRST_PERSON.search(stated) is None or len(stated) > LONGEST:
        return None
    if len(set(terms(stated))) < FEWEST_TERMS and not claims_of(stated, speaker=speaker):
        return None
    for category, confidence, pattern in _CATEGORIES:
        if pattern.search(stated):
            return _categorised(stated, category, confidence, speaker)
    return None


def _categorised(stated: str, category: Category, confidence: float, speaker: str | None) -> ExtractedFact:
    claim = next(iter(claims_of(stated, speaker=speaker)), None)
    if claim is not None:
        return ExtractedFact(
            content=stated,
            category=category,
            confidence=min(confidence + 0.1, 0.9),
            subject=claim.subject,
            predicate=claim.predicate,
            object=claim.object,
        )
    if _ACTION.search(stated):
        return ExtractedFact(content=stated, category=category, confidence=confidence, predicate="to do")
    return ExtractedFact(content=stated, category=category, confidence=confidence)
