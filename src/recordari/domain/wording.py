"""What the wording of a text and of a question tells a ranker, by rules that run in linear time (English)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntFlag

from recordari.core.text import terms

EXAMINED = 1_500  # characters; what a turn is about shows at its beginning


class Trait(IntFlag):
    """What stands out about an item's wording; written with the item."""

    ASKS = 1
    """It is a question itself, and rarely answers one."""
    DATED = 2
    """It says when something was or will be."""
    DISCLOSES_ONE = 4
    DISCLOSES_TWO = 8
    """How much its speaker tells of themselves, 0 to 3 in two bits."""


_TRAILING_NOTE = re.compile(r"\[[^\[\]]{0,400}\]\s{0,20}$")  # such as [image: a sunset]
# These two read what is in lower case: a pattern for either case takes twice as long.
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|april|june|july|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_DATED = re.compile(
    rf"\b(?:yesterday|today|tonight|tomorrow|ago|recently|just|since|weekend|days|weeks|months|years|{_WEEKDAY}|{_MONTH}"
    rf"|(?:last|next|this) (?:night|morning|week|weekend|month|year|spring|summer|fall|autumn|winter|{_WEEKDAY})"
    r"|(?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th))\b"
)
_DISCLOSES = re.compile(
    r"\b(?:i|we)(?:'ve| have| had| just| recently| also| already| finally| actually| even| usually| always| still| really){0,3}"
    r" (?:\w{2,30}ed|got|bought|went|had|was|were|made|did|took|saw|met|found|began|have|own|love|prefer|like|enjoy|use|work"
    r"|live|keep|go|play|read|been|am|gave|wrote|won|lost|left|came|ran|spent|felt|told|heard|flew|drove|ate|built|chose"
    r"|taught|thought|sold|brought)\b|\b(?:i|we)'ve \w{2,30}|\bmy \w{2,30}"
)

_FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|i'm|i've|we|our)\b", re.IGNORECASE)
_ABOUT_THE_ASSISTANT = re.compile(
    r"\byour?\b[^.?!]{0,25}\b(?:said|say|told|tell|mention\w{0,4}|recommend\w{0,6}|suggest\w{0,6}|gave|give|made|provid\w{0,4}"
    r"|list\w{0,3}|describ\w{0,4}|explain\w{0,4}|shared?|wrote|advis\w{0,3})\b|\bremind me\b"
    r"|\b(?:previous|earlier|last|past) (?:chat|conversation|discussion|session)\b",
    re.IGNORECASE,
)
_ASKS_WHEN = re.compile(
    r"\s{0,20}(?:when|what (?:date|day|month|year)|how long|which (?:month|year|date))\b", re.IGNORECASE
)

# A question of how things stand: what was said last about the matter answers it, unless it names another time.
_ASKS_NOW = re.compile(
    r"\b(?:currently|current|now|nowadays|these days|at the moment|at present|still|so far|to date|as of today|latest|newest"
    r"|most recent(?:ly)?|any ?more|lately)\b",
    re.IGNORECASE,
)
_ASKS_BEFORE = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|used to|original(?:ly)?|initial(?:ly)?|first|ago|before|earlier|when|after|during"
    r"|then)\b",
    re.IGNORECASE,
)
_ASKS_ADVICE = re.compile(
    r"\b(?:suggest\w{0,6}|recommend\w{0,7}|tips?|advice|advise|ideas?|should (?:i|we)|help me|good idea)\b",
    re.IGNORECASE,
)
_PAST = re.compile(r"\b(?:did|was|were|had)\b", re.IGNORECASE)
_PRESENT = re.compile(r"\b(?:do|does|am|is|are|have|has|can)\b|'(?:m|re|ve|s)\b", re.IGNORECASE)
# How plainly the wording asks for the present, from 0 to 1.
_NOW, _MY_STATE, _A_STATE, _MY_PAST = 1.0, 0.4, 0.2, 0.15

# Words that phrase a request and say nothing of its subject.
_REQUEST_WORDS = """suggest suggestion suggestions recommend recommended recommendation recommendations advice tip tips idea
    ideas remind tell know think thinking thought want wanted wonder wondering look looking going back previous previously
    conversation conversations discussion chat talked discussed follow mention mentioned please help total number many much
    often lately recently currently current planning plan said say told ask asked"""
REQUEST_TERMS = frozenset(terms(_REQUEST_WORDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a question's wording asks for."""

    about_the_speaker: bool
    """First person, and not about what the assistant said: the answer is likely the user's own words."""
    when: bool
    present: float = 0.0
    """How plainly it asks how things stand now, from 0 to 1: then the last of several answers is the one that holds."""


def traits_of(text: str) -> Trait:
    """What stands out about an item's wording."""
    plain = text[:EXAMINED].replace("’", "'").lower()
    found = Trait(0)
    if _TRAILING_NOTE.sub("", text[-EXAMINED:]).rstrip().endswith("?"):
        found |= Trait.ASKS
    if _DATED.search(plain):
        found |= Trait.DATED
    told = min(sum(1 for _ in _DISCLOSES.finditer(plain)), 3)
    return found | Trait(told * Trait.DISCLOSES_ONE)


def asked_by(question: str) -> Asked:
    """What a question's wording asks for."""
    plain = question[:EXAMINED].replace("’", "'")
    about_the_speaker = _FIRST_PERSON.search(plain) is not None and _ABOUT_THE_ASSISTANT.search(plain) is None
    when = _ASKS_WHEN.match(plain) is not None
    return Asked(
        about_the_speaker=about_the_speaker,
        when=when,
        present=0.0 if when else _present(plain, about_the_speaker),
    )


def _present(plain: str, about_the_speaker: bool) -> float:
    """How plainly a question asks for the present."""
    if any(other.search(plain) for other in (_ASKS_BEFORE, _ASKS_ADVICE, _ABOUT_THE_ASSISTANT)):
        return 0.0
    if _ASKS_NOW.search(plain):
        return _NOW
    if _PAST.search(plain):
        return _MY_PAST if about_the_speaker else 0.0
    if _PRESENT.search(plain):
        return _MY_STATE if about_the_speaker else _A_STATE
    return 0.0
