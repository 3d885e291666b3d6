"""Data derived from the text of an item to find it: index columns, traits, entities. All of it can be derived again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import IntFlag, StrEnum
from functools import lru_cache
from typing import Any
from uuid import UUID

from recordari.core import text
from recordari.core.described import DESCRIBED
from recordari.core.frozen import quickly_made
from recordari.core.items import Kind
from recordari.core.text import STOP_WORDS, terms
from recordari.privacy.rules.findings import LONGEST_MASK, MASK

PREVIOUS_HEAD = 200  # characters of the message before that are embedded with a message
LONG_TEXT = 3_000  # characters; a longer text is also searched passage by passage
PASSAGE = 1_500  # characters of a passage: a model reads about so many as one thought
LONGEST_PASSAGE = 2_000
MOST_PASSAGES = 1_000  # of one text


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    tsv: str
    terms: bytes
    tokens: bytes
    traits: int


def indexed(content: str, *, speaker: str | None, language: str, tokens: bytes) -> Indexed:
    """Derive the index columns. You can search for the speaker, who is not part of the content."""
    words = text.search_terms(content, language)
    return Indexed(
        tsv=text.tsvector_literal([*words, *text.terms(speaker or "", language)]),
        terms=text.hashes(words).tobytes(),
        tokens=tokens,
        traits=int(traits_of(content)),
    )


def searched_text(kind: str, content: str, metadata: dict[str, Any]) -> str:
    """The text that is searched by words: the content, and the title of a document's chunk."""
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
    """The text that is embedded: date, title, head of the message before, speaker, content."""
    lines = [f"{speaker}: {content}" if speaker else content]
    if previous_head:
        lines.insert(0, f"{previous_speaker}: {previous_head}" if previous_speaker else previous_head)
    if title := _title(metadata or {}):
        lines.insert(0, title)
    date = f"[{event_time.day} {event_time:%B %Y}] " if event_time is not None else ""
    return date + "\n".join(lines)


def is_long(kind: str, content: str, payload_key: str | None) -> bool:
    """Whether a text is cut into passages; chunks of documents are passages already."""
    return kind != Kind.DOCUMENT_CHUNK and (payload_key is not None or len(content) > LONG_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A passage of a long text; `start` counts bytes of the whole."""

    start: int
    content: str


def passages_of(whole: str) -> list[Cut]:
    """Cut a long text into passages: between paragraphs, lines or sentences, else between words."""
    cuts: list[Cut] = []
    first = start = 0
    while first < len(whole) and len(cuts) < MOST_PASSAGES:
        past = _passage_end(whole, first)
        part = whole[first:past]
        if part.strip():
            lead = part[: len(part) - len(part.lstrip())]
            cuts.append(Cut(start=start + len(lead.encode()), content=part.strip()))
        start += len(part.encode())
        first = past
    return cuts


_BREAKS = tuple(re.compile(each) for each in (r"\n\s*\n", r"\n", r"[.!?…؟।][\"'”’»)\]]*\s|[。！？｡]", r"[\s,;]"))


def _passage_end(whole: str, first: int) -> int:
    """Where the passage ends that begins there: after the last break of the strongest sort near its usual length."""
    if len(whole) - first <= LONGEST_PASSAGE:
        return len(whole)
    for breaks in _BREAKS:
        ends = [match.end() for match in breaks.finditer(whole, first + PASSAGE // 2, first + LONGEST_PASSAGE)]
        if ends:
            return min(ends, key=lambda end: abs(end - first - PASSAGE))
    return first + PASSAGE


def _title(metadata: dict[str, Any]) -> str | None:
    title = metadata.get("title")
    return title if isinstance(title, str) else None


EXAMINED_WORDING = 1_500  # characters; the beginning of a message shows its topic


class Trait(IntFlag):
    """Marks of an item's wording; written with the item."""

    ASKS = 1
    """A question, which rarely answers another one."""
    DATED = 2
    """It says when something happened or will happen."""
    DISCLOSES_ONE = 4
    DISCLOSES_TWO = 8
    """How much its speaker discloses, 0 to 3 in two bits."""
    WISHES = 16
    """A standing wish: it says how requests of a kind are to be answered."""


_TRAILING_NOTE = re.compile(r"\[[^\[\]]{0,400}\]\s{0,20}$")  # such as [image: a sunset]
# These two match lower case only: ignoring case takes twice as long.
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

# How requests of a kind are to be answered: "always … when I ask about …", "from now on …". Not what people always do.
_WISHES = re.compile(
    r"\b(?:when|whenever|if|(?:every|each|any) ?time) (?:i|we)(?:'m| am|'re| are)? (?:ever )?"
    r"(?:ask|asking|request|inquire|(?:want|need) (?:your|feedback|help|advice|suggestions|ideas))\b"
    r"|(?:^|[.!?\n]\s{0,3}|\b(?:please|you should|you must) )(?:always|never)\b"
    r"(?! (?:been|had|have|was|were|did|got|the|a|my)\b)"
    r"|\b(?:from now on|going forward|in future|don't ever)\b"
)
# A text without any of these has no wish: to look for them takes a twentieth of the time.
_WISH_STEMS = (
    "always", "never", "when i", "when we", "if i", "if we", "time i", "time we", "from now on", "going forward", "in future",
    "don't ever",
)  # fmt: skip

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

# A question about the present: the last statement answers it, unless it names another time.
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
# A question whose answer may be in many places: a list, or a count of them.
_ASKS_FOR_MANY = re.compile(
    r"^\W*(?:which (?:of|(?:\w{2,30} )?(?!does|is|was|has)\w{2,30}(?<!s)s)|how many|list|name|welche|wie viele"
    r"|quel(?:le)?s|combien d['e]|cuáles|cuánt[oa]s)\b"
    r"|\bwhat (?:are|were|all|kinds?|types?|sorts?)\b|\bwhat \w{2,30}s (?:did|does|do|has|have|is|are|was|were)\b"
    r"|\ball (?:the|of)\b|\b(?:in total|total (?:amount|cost|money|number|of|spent)|altogether|combined)\b",
    re.IGNORECASE,
)
_PAST = re.compile(r"\b(?:did|was|were|had)\b", re.IGNORECASE)
_PRESENT = re.compile(r"\b(?:do|does|am|is|are|have|has|can)\b|'(?:m|re|ve|s)\b", re.IGNORECASE)
# How plainly the wording asks for the present, from 0 to 1.
_NOW, _MY_STATE, _A_STATE, _MY_PAST = 1.0, 0.4, 0.2, 0.15

# Words of a request that say nothing about its subject: how it is put, and function words that an index keeps.
_REQUEST_WORDS = """suggest suggestion suggestions recommend recommended recommendation recommendations advice tip tips idea
    ideas remind tell know think thinking thought want wanted wonder wondering look looking going back previous previously
    conversation conversations discussion chat talked discussed follow mention mentioned please help total number many much
    often lately recently currently current now nowadays still latest newest planning plan said say told ask asked
    am being having doing could should shall might must ought any anything anyone anybody some something someone somebody
    about also too very really actually ever already because here both each such same else"""
REQUEST_TERMS = frozenset(terms(_REQUEST_WORDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionWording:
    """The marks of a question's wording."""

    about_the_speaker: bool
    """First person, and not about the assistant's words: the answer is likely in the user's own words."""
    when: bool
    present: float = 0.0
    """How plainly it asks about the present, from 0 to 1: then the last of several answers holds."""
    many: bool = False
    """It asks for a list or a count: what answers it may be in several sessions."""


_ASKS, _DATES, _DISCLOSES_ONE, _WISH = map(int, (Trait.ASKS, Trait.DATED, Trait.DISCLOSES_ONE, Trait.WISHES))


def traits_of(text: str) -> Trait:
    plain = text[:EXAMINED_WORDING].replace("’", "'").lower()
    disclosures = min(sum(1 for _ in _DISCLOSES.finditer(plain)), 3)
    traits = disclosures * _DISCLOSES_ONE  # as numbers: each operation with members of the enum takes a microsecond
    if _TRAILING_NOTE.sub("", text[-EXAMINED_WORDING:]).rstrip().endswith("?"):
        traits |= _ASKS
    if _DATED.search(plain):
        traits |= _DATES
    if any(stem in plain for stem in _WISH_STEMS) and _WISHES.search(plain):
        traits |= _WISH
    return Trait(traits)


def asked_by(question: str) -> QuestionWording:
    plain = question[:EXAMINED_WORDING].replace("’", "'")
    about_the_speaker = _FIRST_PERSON.search(plain) is not None and _ABOUT_THE_ASSISTANT.search(plain) is None
    when = _ASKS_WHEN.match(plain) is not None
    return QuestionWording(
        about_the_speaker=about_the_speaker,
        when=when,
        present=0.0 if when else _present(plain, about_the_speaker),
        many=_ASKS_FOR_MANY.search(plain) is not None,
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


@quickly_made
@dataclass(frozen=True, slots=True)
class Entity:
    """A name; its key is the same for every spelling."""

    kind: EntityKind
    name: str

    @property
    def key(self) -> str:
        return " ".join(self.name.casefold().split())


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityNode:
    """A person, thing or place, and how many of the items looked at mention it."""

    entity_id: UUID
    kind: EntityKind
    name: str
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityLink:
    """Two entities that the same items mention."""

    __pydantic_config__ = DESCRIBED

    one_id: UUID
    other_id: UUID
    items: int
    item_ids: tuple[UUID, ...]
    """The newest of these items, at most three."""


_EMAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}\b")
# A number with its unit is none: 14th, 10am, 1990s, 250ml.
_IDENTIFIER = re.compile(
    r"\b(?!\d{1,60}(?:[a-z]{1,3}|[KMGT]i?B)\b)(?=\w{0,60}\d)(?=\w{0,60}[A-Za-z])\w{4,60}\b|\b[A-Za-z]{1,8}-\d{2,12}\b|\b\w{1,60}_\w{1,60}\b"
)
_CODED = re.compile(r"(?<!\S)[^\s\d_]*[\d_]\S*")  # runs that may contain an identifier
_QUOTED = re.compile(r"[\"“«]([^\"”»\n]{2,60})[\"”»]")
_BEFORE_JSON, _AFTER_JSON = re.compile(r"(?:[\[{]|\":)\s{0,4}$"), re.compile(r"\s{0,4}[:\]}]")
# What stands where somebody masked a value: our masks, and those that other programs leave, such as <PERSON> or [REDACTED].
_MASKED = re.compile(rf"{MASK.pattern}|<[A-Z][A-Z_]{{1,30}}>|\[[A-Z][A-Z_]{{1,30}}\]")
_NAME = re.compile(r"\b[A-Z][\w'’]{1,30}(?:[ -](?:of |the |de |van |von )?[A-Z][\w'’]{1,30}){0,3}")
_SENTENCE_START = re.compile(r"(?:^|[.!?…:;\n]\s{0,10}|[\"“(]\s{0,3})$")
# Capitalised for other reasons than being a name.
_NOT_NAMES = STOP_WORDS | frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december hi hey hello thanks thank yes no yeah wow oh ok okay sure great good well
    also please sorry absolutely definitely congrats congratulations maybe let lets here there now today tomorrow
    yesterday english mondays tuesdays wednesdays thursdays fridays saturdays sundays""".split()
)
_CONTRACTED = re.compile(r"(?:n't|'(?:m|re|ve|ll|d|s))$")  # "I'm" of "I'm Rosa Falk"


def entities_in(text: str, *, speaker: str | None = None) -> tuple[Entity, ...]:
    """The names in a text, and its speaker; each once, in order of appearance. A mask is no name."""
    entities: dict[str, Entity] = {}
    for entity in _all_entities(_unmasked(text), speaker):
        key = entity.key
        if len(key) > 1:
            entities.setdefault(key, entity)
    return tuple(entities.values())[:MAX_ENTITIES]


def _unmasked(text: str) -> str:
    """The part of a text that is searched for names, with NUL, which no stored text has, in place of its masks."""
    examined = text[: EXAMINED + LONGEST_MASK]
    if "[" in examined or "<" in examined:
        examined = _MASKED.sub(lambda mask: "\0" * len(mask.group()), examined)
    return examined[:EXAMINED]


def _all_entities(text: str, speaker: str | None) -> Iterator[Entity]:
    if speaker and speaker.casefold() not in {"user", "assistant", "system", "tool"} and not _MASKED.search(speaker):
        yield Entity(EntityKind.PERSON, speaker)
    ends: dict[int, int] = {}  # of the address or identifier around each position
    emails = _EMAIL.finditer(text) if "@" in text else ()
    identifiers = (match for run in _CODED.finditer(text) for match in _IDENTIFIER.finditer(text, *run.span()))
    for kind, matches in ((EntityKind.EMAIL, emails), (EntityKind.IDENTIFIER, identifiers)):
        for match in matches:
            ends |= dict.fromkeys(range(*match.span()), match.end())
            yield Entity(kind, match.group())
    if '"' in text or "“" in text or "«" in text:
        quoted = (match.group(1).strip() for match in _QUOTED.finditer(text) if _is_term(match))
        yield from (Entity(EntityKind.TERM, words) for words in quoted)
    for match in _NAME.finditer(text):
        if ends.get(match.start(), 0) >= match.end():
            continue  # "HH" of "HH-204" is not a name
        before = text[max(0, match.start() - 14) : match.start()]
        name = _trimmed_name(match.group(), starts_sentence=_SENTENCE_START.search(before) is not None)
        if name:
            yield Entity(EntityKind.NAME, name)


def _is_term(quoted: re.Match[str]) -> bool:
    """Return whether words are quoted: no mask, no number, and not what JSON quotes for its grammar."""
    words, text = quoted.group(1), quoted.string
    if "\0" in words or not any(map(str.isalpha, words)):
        return False
    before = text[max(0, quoted.start() - 6) : quoted.start()]
    return not _BEFORE_JSON.search(before) and not _AFTER_JSON.match(text, quoted.end())


@lru_cache(maxsize=20_000)
def _trimmed_name(run: str, *, starts_sentence: bool) -> str | None:
    """The name inside a run of capitalised words; None when there is none."""
    words = run.replace("’", "'").removesuffix("'s").split(" ")
    while words and _CONTRACTED.sub("", words[0].casefold()) in _NOT_NAMES:
        words = words[1:]
        starts_sentence = False
    while words and words[-1].casefold() in _NOT_NAMES:
        words = words[:-1]
    # A single capitalised word at the beginning of a sentence is most often just its first word.
    if not words or (len(words) == 1 and (starts_sentence or "'" in words[0])):
        return None
    return " ".join(words)


SETTING = "extraction"  # of a tenant


class Extraction(StrEnum):
    """The setting of a tenant: whose messages yield facts."""

    OFF = "off"
    USERS = "users"
    ALL = "all"


def extraction_of(settings: Mapping[str, object]) -> Extraction:
    """The tenant's choice; an unknown word counts as the default."""
    try:
        return Extraction(str(settings.get(SETTING, Extraction.USERS)))
    except ValueError:
        return Extraction.USERS


OTHER_ITEMS = 20
"""Supposed items that have no term of a question, beside those of a memory: of few items, frequencies say little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Statistics of a tenant's items, with the frequencies of the terms of a question."""

    items: int
    mean_length: float
    frequencies: Mapping[str, int]

    def rarity(self, term: str) -> float:
        """Inverse document frequency, never negative. In a small memory it hardly tells terms apart."""
        count, items = min(self.frequencies.get(term, 0), self.items), self.items + OTHER_ITEMS
        return math.log1p((items - count + 0.5) / (count + 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """The end of an item: its successor, the time, and the rule."""

    item_id: UUID
    superseded_by: UUID
    invalid_at: datetime
    rule: str
