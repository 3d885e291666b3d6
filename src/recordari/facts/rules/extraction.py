"""The offline extractor: statements of speakers about themselves, word for word (English).

A fact is a span of the text; no words are added, and the speaker is kept beside it. Questions, quoted text, code and
pasted blocks are skipped, so that recalled memory is never extracted again as new. Every rule runs in linear time.
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
    PERSONAL = "personal"
    WORKFLOW = "workflow"
    PREFERENCE = "preference"
    DECISION = "decision"
    LEARNING = "learning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedFact:
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


def _category(category: Category, confidence: float, pattern: str) -> tuple[Category, float, re.Pattern[str]]:
    return category, confidence, re.compile(pattern, re.IGNORECASE)


# The first pattern that matches names the category. The confidence: how rarely such a sentence means something else.
_CATEGORIES = (
    _category(
        Category.DECISION,
        0.8,
        rf"{_ME} (?:decided|chosen|chose|agreed|settled on|opted|concluded|going with|sticking with)\b"
        r"|\b(?:let's|we'll|i'll) (?:go|stick) with\b|\b(?:our|the|my) (?:final )?(?:decision|choice) is\b",
    ),
    _category(
        Category.PREFERENCE,
        0.8,
        rf"{_ME} (?:do not |don't |never )?(?:prefer|like|love|enjoy|hate|dislike|favor|adore|fond of|a fan of|into)\b"
        rf"|{_ME} (?:can't stand|allergic to|vegetarian|vegan)\b|\bmy (?:all-time )?favou?rite\b"
        r"|\bplease (?:always|never)\b|\bi'd rather\b",
    ),
    _category(
        Category.LEARNING,
        0.7,
        rf"{_ME} (?:learned|learnt|realized|realised|discovered|found out|figured out|noticed)\b"
        r"|\bit turns out\b|\bturned out\b",
    ),
    _category(
        Category.WORKFLOW,
        0.7,
        r"\b(?:i|we)(?:'m|'ve)? (?:usually|always|normally|typically|generally|regularly|often)\b"
        rf"|{_ME} (?:use|run|deploy)\b"
        r"|\bmy (?:\w{2,20} )?(?:routine|schedule|workflow|process|setup)\b"
        r"|\b(?:every|each) (?:day|morning|evening|night|week|month|mon|tues|wednes|thurs|fri|satur|sun)"
        r"|\b(?:todo|to-do|action item|next step)s?\b\s?[:–-]"
        r"|\b(?:i|we) (?:need|have|must|plan|promised)(?: to)? \w{2,20}\b|\bremind me to\b|\bdon't forget to\b",
    ),
    _category(
        Category.PERSONAL,
        0.75,
        r"\bmy name is\b|\bcall me\b|\bi(?:'m| am) (?:an?|from|based|named|currently|now|\d{1,3}) "
        rf"|{_ME} (?:live|work|moved|own|have|study|was born|grew up|started|joined|bought|got|adopted|married)\b",
    ),
    _category(
        Category.PERSONAL,
        0.6,
        r"\b(?:i|we)(?:'ve|'m|'re| have| am| are| had| just| recently| also| already| finally| actually| still"
        r"| currently| now){0,3} (?:\w{3,30}ed|\w{2,30}ing|been|went|had|was|were|made|did|took|saw|met|found|began|keep"
        r"|kept|go|play|read|gave|wrote|won|lost|left|came|ran|spent|told|heard|flew|drove|ate|built|taught|sold|brought"
        r"|on|at|in)\b|\bmy (?:new|old|recent|current|own|first|last|next|\w{2,20}'s) \w{2,30}\b"
        r"|\bmy \w{2,30} (?:is|are|was|were|has|have)\b",
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
# A request after a statement.
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
    """The facts that the speaker states, in order; none when the speaker is no person."""
    if (speaker or "").casefold() in NOT_PEOPLE:
        return ()
    facts: dict[str, ExtractedFact] = {}
    for sentence in sentences_of(text):
        fact = _fact(sentence.strip(), speaker)
        if fact is not None:
            facts.setdefault(fact.content.casefold(), fact)
        if len(facts) == MOST_FACTS:
            break
    return tuple(facts.values())


def sentences_of(text: str) -> list[str]:
    """The sentences of a text without what was pasted into it."""
    return _SENTENCE_END.split(_without_pasted(text[:EXAMINED].replace("’", "'")))


def _without_pasted(text: str) -> str:
    """Remove code, quoted lines, and blocks inside tags."""
    text = "\n".join(text.split(FENCE)[::2])
    text = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith((">", "|")))
    pieces, position = [], 0
    for match in _OPENING_TAG.finditer(text):
        if match.start() < position:
            continue
        end = text.find(f"</{match[1]}>", match.end())
        pieces.append(text[position : match.start()])
        if end < 0:  # an unclosed tag may hold everything that follows
            return "".join(pieces)
        position = end + len(match[1]) + 3
    return "".join([*pieces, text[position:]])


def _fact(sentence: str, speaker: str | None) -> ExtractedFact | None:
    content = _LEAD.sub("", sentence).strip(" -–—*•\t")
    is_question = content.endswith("?") or _NO_FACT.search(content)
    aside = _ASIDE.search(content) if is_question else None
    content = aside.group() if aside is not None else _REQUEST_TAIL.sub("", content)
    if not content or content.endswith("?") or len(content) > LONGEST:
        return None
    if _NO_FACT.search(content) or _FIRST_PERSON.search(content) is None:
        return None
    claims = claims_of(content, speaker=speaker)
    if len(set(terms(content))) < FEWEST_TERMS and not claims:
        return None
    for category, confidence, pattern in _CATEGORIES:
        if not pattern.search(content):
            continue
        if not claims:
            predicate = "to do" if _ACTION.search(content) else None
            return ExtractedFact(content=content, category=category, confidence=confidence, predicate=predicate)
        return ExtractedFact(
            content=content,
            category=category,
            confidence=min(confidence + 0.1, 0.9),
            subject=claims[0].subject,
            predicate=claims[0].predicate,
            object=claims[0].object,
        )
    return None
