"""What is derived from an item's text so that it can be found: all of it can be dropped and made again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntFlag, StrEnum
from typing import Any
from uuid import UUID

import numpy as np

from recordari.core import text
from recordari.core.items import Kind
from recordari.core.text import STOP_WORDS, terms

PREVIOUS_HEAD = 200  # characters of the turn before that are embedded with a turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    tsv: str
    terms: bytes
    tokens: bytes
    traits: int


def indexed(content: str, *, speaker: str | None, language: str, tokens: bytes) -> Indexed:
    """Derive the index columns. The speaker can be searched for, but is not part of what was said."""
    said = text.terms(content, language)
    return Indexed(
        tsv=text.tsvector_literal([*said, *text.terms(speaker or "", language)]),
        terms=text.hashes(said).tobytes(),
        tokens=tokens,
        traits=int(traits_of(content)),
    )


def searched_text(kind: str, content: str, metadata: dict[str, Any]) -> str:
    """The text that words are found in: what it says, of a document's chunk under the title that it stands under."""
    title = _title(metadata) if kind == Kind.DOCUMENT_CHUNK else None
    return f"{title}\n{content}" if title else content


def embedded_text(
    content: str,
    *,
    speaker: str | None,
    event_time: datetime | None,
    previous_speaker: str | None = None,
    previous_head: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> str:
    """The text whose meaning is embedded: its date, the head of what was said before, who says it, what is said."""
    said = f"{speaker}: {content}" if speaker else content
    if previous_head:
        before = f"{previous_speaker}: {previous_head}" if previous_speaker else previous_head
        said = f"{before}\n{said}"
    title = _title(metadata or {})
    if title:
        said = f"{title}\n{said}"
    return f"[{event_time.day} {event_time:%B %Y}] {said}" if event_time is not None else said


def _title(metadata: dict[str, Any]) -> str | None:
    title = metadata.get("title")
    return title if isinstance(title, str) else None


EXAMINED_WORDING = 1_500  # characters; what a turn is about shows at its beginning


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
class QuestionWording:
    """What a question's wording asks for."""

    about_the_speaker: bool
    """First person, and not about what the assistant said: the answer is likely the user's own words."""
    when: bool
    present: float = 0.0
    """How plainly it asks how things stand now, from 0 to 1: then the last of several answers is the one that holds."""


def traits_of(text: str) -> Trait:
    """What stands out about an item's wording."""
    plain = text[:EXAMINED_WORDING].replace("’", "'").lower()
    found = Trait(0)
    if _TRAILING_NOTE.sub("", text[-EXAMINED_WORDING:]).rstrip().endswith("?"):
        found |= Trait.ASKS
    if _DATED.search(plain):
        found |= Trait.DATED
    told = min(sum(1 for _ in _DISCLOSES.finditer(plain)), 3)
    return found | Trait(told * Trait.DISCLOSES_ONE)


def asked_by(question: str) -> QuestionWording:
    """What a question's wording asks for."""
    plain = question[:EXAMINED_WORDING].replace("’", "'")
    about_the_speaker = _FIRST_PERSON.search(plain) is not None and _ABOUT_THE_ASSISTANT.search(plain) is None
    when = _ASKS_WHEN.match(plain) is not None
    return QuestionWording(
        about_the_speaker=about_the_speaker,
        when=when,
        present=0.0 if when else _present(plain, about_the_speaker),
    )


def _present(plain: str, about_the_speaker: bool) -> float:
    if any(other.search(plain) for other in (_ASKS_BEFORE, _ASKS_ADVICE, _ABOUT_THE_ASSISTANT)):
        return 0.0
    if _ASKS_NOW.search(plain):
        return _NOW
    if _PAST.search(plain):
        return _MY_PAST if about_the_speaker else 0.0
    if _PRESENT.search(plain):
        return _MY_STATE if about_the_speaker else _A_STATE
    return 0.0


EXAMINED = 8_000  # characters of a text that are searched for names
MAX_ENTITIES = 24


class EntityKind(StrEnum):
    PERSON = "person"
    NAME = "name"
    EMAIL = "email"
    IDENTIFIER = "identifier"
    TERM = "term"


@dataclass(frozen=True, slots=True)
class Entity:
    """Something named, and the key under which every spelling of it meets."""

    kind: EntityKind
    name: str

    @property
    def key(self) -> str:
        return " ".join(self.name.casefold().split())


_EMAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}\b")
_IDENTIFIER = re.compile(
    r"\b(?=\w{0,60}\d)(?=\w{0,60}[A-Za-z])\w{4,60}\b|\b[A-Za-z]{1,8}-\d{2,12}\b|\b\w{1,60}_\w{1,60}\b"
)
_QUOTED = re.compile(r"[\"“«]([^\"”»\n]{2,60})[\"”»]")
_NAME = re.compile(r"\b[A-Z][\w'’]{1,30}(?:[ -](?:of |the |de |van |von )?[A-Z][\w'’]{1,30}){0,3}")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;\n]\s{0,10}|[\"“(]\s{0,3})$")
# Capitalised for other reasons than being a name.
_NOT_NAMES = STOP_WORDS | frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december hi hey hello thanks thank yes no yeah wow oh ok okay sure great good well
    also please sorry absolutely definitely congrats congratulations maybe let lets here there now today tomorrow
    yesterday english""".split()
)


def entities_in(text: str, *, speaker: str | None = None) -> tuple[Entity, ...]:
    """What the text names, and who says it; each once, in order of appearance."""
    examined = text[:EXAMINED]
    found: dict[str, Entity] = {}
    if speaker and speaker.casefold() not in {"user", "assistant", "system", "tool"}:
        _add(found, Entity(EntityKind.PERSON, speaker))
    for match in _EMAIL.finditer(examined):
        _add(found, Entity(EntityKind.EMAIL, match.group()))
    for match in _IDENTIFIER.finditer(examined):
        _add(found, Entity(EntityKind.IDENTIFIER, match.group()))
    for match in _QUOTED.finditer(examined):
        _add(found, Entity(EntityKind.TERM, match.group(1).strip()))
    for match in _NAME.finditer(examined):
        name = _trimmed_name(match.group(), starts_sentence=_starts_sentence(examined, match.start()))
        if name:
            _add(found, Entity(EntityKind.NAME, name))
    return tuple(found.values())[:MAX_ENTITIES]


def _starts_sentence(text: str, index: int) -> bool:
    return _SENTENCE_START.search(text[max(0, index - 14) : index]) is not None


def _trimmed_name(found: str, *, starts_sentence: bool) -> str | None:
    """The name inside a run of capitalised words; None when there is none."""
    words = found.replace("’", "'").removesuffix("'s").split(" ")
    while words and words[0].casefold().removesuffix("'s") in _NOT_NAMES:
        words = words[1:]
        starts_sentence = False
    while words and words[-1].casefold() in _NOT_NAMES:
        words = words[:-1]
    # A single capitalised word at the beginning of a sentence is most often just its first word.
    if not words or (len(words) == 1 and (starts_sentence or "'" in words[0])):
        return None
    return " ".join(words)


def _add(found: dict[str, Entity], entity: Entity) -> None:
    if len(entity.key) > 1:
        found.setdefault(entity.key, entity)


SETTING = "extraction"  # of a tenant


class Extraction(StrEnum):
    """Whose messages a tenant takes facts from."""

    OFF = "off"
    USERS = "users"
    ALL = "all"


def extraction_of(settings: Mapping[str, object]) -> Extraction:
    """The tenant's choice; anything else than a known word counts as the default."""
    try:
        return Extraction(str(settings.get(SETTING, Extraction.USERS)))
    except ValueError:
        return Extraction.USERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What is known of all items of the tenant: how many, how long, and how rare each asked term is."""

    items: int
    mean_length: float
    frequencies: Mapping[str, int]

    def rarity(self, term: str) -> float:
        """Inverse document frequency, never negative."""
        found = min(self.frequencies.get(term, 0), self.items)
        return float(np.log1p((self.items - found + 0.5) / (found + 0.5)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """One statement that ends, by which other, and when it stopped being true."""

    item_id: UUID
    superseded_by: UUID
    invalid_at: datetime
    rule: str
