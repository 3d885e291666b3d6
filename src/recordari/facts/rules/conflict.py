"""The offline judge: does a newer statement end an older one? Precise rather than eager: in doubt both stay.

A statement ends by another value of a single-valued relation, by its negation, by being named as given up ("switched
from", "instead of", "no longer"), and by another number, time or day in the same frame. Events never end: they accumulate.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from itertools import product
from typing import Any
from uuid import UUID

from recordari.core.items import normalised
from recordari.core.text import terms
from recordari.facts.rules.claims import EXAMINED, Claim, claims_of, is_single
from recordari.memory.rules import Retirement

SAME_FRAME = 0.6
ANCHORED_FRAME = 0.4
SAME_STATEMENT = 0.75
FEWEST_SHARED = 2
NAMED_PART, CLAIMED_PART = 0.25, 0.5


class Verdict(StrEnum):
    SUPERSEDE = "SUPERSEDE"
    KEEP = "KEEP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A fact as the judge sees it."""

    item_id: UUID
    content: str
    valid_at: datetime
    speaker: str | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None

    @classmethod
    def of(cls, row: Any) -> Statement:
        """The statement of an item, or of any row with the same columns."""
        return cls(**{column.name: getattr(row, column.name) for column in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """A verdict and its rule; the name of the rule is audited, never the text."""

    verdict: Verdict
    rule: str


KEEP = Ruling(verdict=Verdict.KEEP, rule="compatible")

_NEGATION = re.compile(
    r"\b(?:not|never|no longer|don't|doesn't|didn't|isn't|aren't|wasn't|can't|cannot|won't|stopped|quit|gave up|without)\b"
    r"|\b(?:any ?more|any longer)\b",
    re.IGNORECASE,
)
_NEGATION_WORDS = """not never no longer don't doesn't didn't isn't aren't wasn't can't cannot won't stop stopped quit gave
    give anymore any more without"""
_PASSING_WORDS = """now currently actually recently really usually always still also already finally normally typically
    today lately about around approximately roughly only even very much quite so far am i'm i've we've it's that's way
    speaking btw changed change new update updated"""
_NEGATION_TERMS = frozenset(terms(_NEGATION_WORDS))
_PASSING_TERMS = frozenset(terms(_PASSING_WORDS))

_GIVEN_UP = re.compile(
    r"\b(?:switched|changed|migrated|moved|upgraded|converted|swapped)\b[^.;!?\n]{0,40}?\bfrom (?P<from>[^.;!?\n,]{1,50}?) to\b"
    r"|\b(?:instead of|in place of|replac(?:es|ed|ing)|ditched|dropped|got rid of|cancell?ed|quit|gave up|stopped using)"
    r" (?P<instead>[^.;!?\n,]{1,50}?)(?= (?:with|by|for|and|because|since|after|in|on)\b|[.;!?\n,]|$)"
    r"|\bno longer (?P<longer>[^.;!?\n,]{1,60})",
    re.IGNORECASE,
)
_STATE_VERB = re.compile(
    r"\b(?:use|uses|using|prefer|prefers|live|lives|work|works|working|drink|drinks|eat|eats|take|takes|play|plays|drive|drives|read"
    r"|reads|subscribe|subscribes|subscribed|attend|attends|member|am|is|are|run|runs|deploy|deploys|practice|practices|study|studies"
    r"|smoke|smokes|like|likes|love|loves|enjoy|enjoys|own|owns|have|has|wear|wears|do|does|go|goes|i'm|i've|we're|we've)\b",
    re.IGNORECASE,
)
_EVENT = re.compile(
    r"\b(?:(?i:i|we|he|she|they|user)|[A-Z][a-z]{1,20}) (?:just |also |recently |finally |actually )?"
    r"(?:went|bought|got|had|saw|met|ate|ran|made|took|found|gave|wrote|won|lost|left|came|spent|told|heard|flew|drove|built"
    r"|sold|paid|brought|was|were|did|set|read|(?!need|used|moved|switched|changed|joined|prefer|liked)\w{2,20}ed)\b"
)
_MONTHS = "january february march april may june july august september october november december".split()
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NOT_NAMES = frozenset(
    [*_MONTHS, *_WEEKDAYS, *(f"{day}s" for day in _WEEKDAYS), "the", "this", "it", "my", "our", "there"]
)
_MEASURES = "hour|minute|day|week|month|year|mile|kilometer|dozen"
_NUMBER_WORDS = {
    word: float(number)
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
_NUMBER_WORD = "|".join(_NUMBER_WORDS)
_VALUE = re.compile(
    r"(?P<clock>\b\d{1,2}(?::\d\d)?\s?(?:am|pm|a\.m\.|p\.m\.)|\b\d{1,2}:\d\d\b)"
    r"|(?P<money>[$€£]\s?\d[\d,]{0,12}(?:\.\d{1,2})?\s?[kKmM]?\b)"
    rf"|(?P<date>\b(?:{'|'.join(_MONTHS)})\s\d{{1,2}}(?:st|nd|rd|th)?\b|\b\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{'|'.join(_MONTHS)})\b"
    r"|\b\d{4}-\d\d-\d\d\b)"
    # "Last Friday" tells when something happened, "on Fridays" how things are.
    rf"|(?P<weekday>(?<!last )(?<!this )(?<!next )(?<!past )\b(?:{'|'.join(_WEEKDAYS)})s?\b)"
    r"|\b(?P<label>page|level|chapter|episode|season|version|week|day|floor|room|grade|rank|step|unit|lesson|gate|seat)"
    r"\s(?P<labelled>\d{1,6}(?:\.\d{1,4})?)\b"
    # "A" and "an" count only what is measured: "a book" is no quantity.
    rf"|\b(?P<count>\d[\d,]{{0,9}}(?:\.\d{{1,3}})?|an?(?=\s(?:{_MEASURES})\b)|{_NUMBER_WORD})(?P<join>\s|-|%\s?)"
    r"(?P<unit>[a-z]{3,20}|km|kg|lb|cm|mm|ml)\b",
    re.IGNORECASE,
)
_UNCOUNTED = frozenset(
    "was is has does its this his hers ours yours plus minus versus always perhaps unless as us".split()
)
_IRREGULAR = frozenset(
    "people children men women feet teeth mice percent dozen km kg lb cm mm ml staff fish sheep".split()
)
# "Contact 4", "order #17": a number that names a thing, and another number names another thing.
_NAMED_BY_NUMBER = re.compile(r"\b(?P<what>[a-z]{3,20})\s(?:#|no\.\s)?(?P<number>\d{1,12})\b", re.IGNORECASE)
_BEFORE_NUMBERS = frozenset(
    """the and for with about around nearly almost over under than from into until till since past only just have has had own
    owns got get gets was were are now read lost last next total exactly approximately roughly least most some another these
    those all scored age aged turned turn costs cost paid pay weigh weighs weight reached reach hit""".split()
)
_CAPITALISED = re.compile(
    r"(?P<first>^|[.!?]\s{1,3})?\b(?P<name>[^\W\d_a-z][^\W\d_A-Z]{1,30})\b(?P<owns>'s)?(?=\s(?P<verb>[a-z]{2,20}s)\b)?"
)
_WRITTEN = re.compile(r"[\s,.]")  # how a value is written, not which it is
_QUOTED = re.compile(r"[\"“«]([^\"”»\n]{3,60})[\"”»]")


def ruling(newer: Statement, older: Statement) -> Ruling:
    if normalised(newer.content) == normalised(older.content):
        return KEEP
    # A long text says several things: ending one of them would end all.
    if max(len(newer.content), len(older.content)) > EXAMINED:
        return KEEP
    new, old = _read(newer), _read(older)
    if _differ(new.numbered, old.numbered) or (newer.subject and older.subject and new.subject != old.subject):
        return KEEP
    for name, rule in _RULES:
        if rule(new, old):
            return Ruling(verdict=Verdict.SUPERSEDE, rule=name)
    return KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A statement with everything the rules need."""

    text: str
    claims: tuple[Claim, ...]
    subject: str | None
    terms: frozenset[str]
    """Without values, negations and passing words."""
    values: Mapping[tuple[str, str], frozenset[float | str]]
    quoted: frozenset[str]
    numbered: frozenset[str]
    """Things named by a number."""
    names: frozenset[str]
    """Words written like names."""
    is_negated: bool
    is_event: bool


@lru_cache(maxsize=2_000)
def _read(statement: Statement) -> _Read:
    """Cached, because a statement is compared with several others."""
    text = statement.content.replace("’", "'")
    claims = claims_of(text, speaker=statement.speaker)
    if statement.subject and statement.predicate and statement.object:
        stated = Claim(
            subject=normalised(statement.subject),
            predicate=normalised(statement.predicate),
            object=statement.object,
            is_single=is_single(statement.predicate),
        )
        claims = (stated, *(claim for claim in claims if claim.subject != stated.subject or not stated.is_single))
    rest = _VALUE.sub(lambda match: " " if _is_value(match) else match[0], text)
    subject = normalised(statement.subject) if statement.subject else claims[0].subject if claims else None
    return _Read(
        text=text,
        claims=claims,
        subject=subject,
        terms=frozenset(terms(rest)) - _NEGATION_TERMS - _PASSING_TERMS,
        values=_values(text),
        quoted=frozenset(map(normalised, _QUOTED.findall(text))),
        numbered=_numbered(rest),
        names=_names(text),
        is_negated=_NEGATION.search(text) is not None,
        is_event=_EVENT.search(text) is not None,
    )


def _values(text: str) -> dict[tuple[str, str], frozenset[float | str]]:
    """Numbers, times and days by what they measure."""
    values: defaultdict[tuple[str, str], set[float | str]] = defaultdict(set)
    for match in filter(_is_value, _VALUE.finditer(text)):
        kind = match.lastgroup
        if match["labelled"]:
            values["label", match["label"].casefold()].add(float(match["labelled"]))
        elif match["count"]:
            number, unit = match["count"].casefold(), " ".join(terms(match["unit"]))
            value = 1.0 if number in {"a", "an"} else _NUMBER_WORDS.get(number)
            values["count", unit].add(float(number.replace(",", "")) if value is None else value)
        elif kind is not None:
            values[kind, ""].add(_WRITTEN.sub("", match[kind].casefold().rstrip("s")))
    return {key: frozenset(group) for key, group in values.items()}


def _is_value(match: re.Match[str]) -> bool:
    """Whether it is a quantity, a time or a day. A quantity counts a plural: "4 answered" is none."""
    if match["count"] is None:
        return True
    number, unit = match["count"].casefold(), match["unit"].casefold()
    if unit in _UNCOUNTED or match.string[: match.start()].endswith("#"):
        return False
    return number in {"a", "an", "one", "1"} or match["join"] != " " or unit.endswith("s") or unit in _IRREGULAR


def _numbered(text: str) -> frozenset[str]:
    """Things named by a number: contact 4, order 17."""
    return frozenset(
        f"{what} {match['number']}"
        for match in _NAMED_BY_NUMBER.finditer(text)
        if (what := match["what"].casefold()) not in _BEFORE_NUMBERS
    )


def _names(text: str) -> frozenset[str]:
    """Words written like names. The first word of a sentence counts only before a verb, or with an apostrophe."""
    return frozenset(
        name
        for match in _CAPITALISED.finditer(text)
        if (name := match["name"].casefold()) not in _NOT_NAMES
        and (match["first"] is None or match["owns"] or match["verb"])
    )


def _differ(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether each has something that the other lacks."""
    return bool(one - other) and bool(other - one)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """The shared part of the shorter one."""
    return len(one & other) / max(min(len(one), len(other)), 1)


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(len(one | other), 1)


def _other_value(new: _Read, old: _Read) -> bool:
    """Same subject and single-valued predicate with another object."""
    if new.is_negated or old.is_negated:
        return False
    for claim, before in product(new.claims, old.claims):
        if not (claim.is_single and before.is_single):
            continue
        if (claim.subject, claim.predicate) != (before.subject, before.predicate):
            continue
        # One object inside the other says the same more exactly: Lund, and Lund in Sweden.
        same_purpose = set(terms(claim.complement)) == set(terms(before.complement))
        if same_purpose and _differ(frozenset(terms(claim.object)), frozenset(terms(before.object))):
            return True
    return False


def _other_preference(new: _Read, old: _Read) -> bool:
    """ "Prefers tea to coffee" after "prefers coffee to tea"; "light mode" after "dark mode"."""
    if new.is_negated or old.is_negated:
        return False
    for claim, before in product(new.claims, old.claims):
        if claim.predicate != "prefers" or before.predicate != "prefers" or claim.subject != before.subject:
            continue
        one, other = terms(claim.object), terms(before.object)
        rejected, rejected_before = terms(claim.complement), terms(before.complement)
        if rejected and (set(rejected) == set(other) or set(one) == set(rejected_before)):
            return True
        two_words = 2 <= len(one) <= 3 and 2 <= len(other) <= 3
        if two_words and one[-1] == other[-1] and not set(one[:-1]) & set(other[:-1]):
            return True
    return False


def _negated(new: _Read, old: _Read) -> bool:
    """The same statement, once with and once without a negation."""
    if new.is_negated == old.is_negated or old.is_event or len(old.terms) == 0 or _differ(new.names, old.names):
        return False
    shared = new.terms & old.terms
    return _likeness(new.terms, old.terms) >= SAME_STATEMENT or (
        "no longer" in new.text.casefold() and len(shared) >= FEWEST_SHARED and _overlap(new.terms, old.terms) >= 1
    )


def _given_up(new: _Read, old: _Read) -> bool:
    """The newer says that the state of the older was given up."""
    if old.is_negated or old.is_event or _STATE_VERB.search(old.text) is None or not _same_subject(new, old):
        return False
    if _GIVEN_UP.search(old.text):  # it reports the same change, or another one
        return False
    for match in _GIVEN_UP.finditer(new.text):
        ended = frozenset(terms(match["from"] or match["instead"] or match["longer"] or ""))
        named = ended - _PASSING_TERMS - _STATE_TERMS
        if not named or not named <= old.terms:
            continue
        claimed = frozenset(term for claim in old.claims for term in terms(claim.object))
        # The older claims it, or it is a good part of the older and they share more than its name.
        if named <= claimed and len(named) >= CLAIMED_PART * len(claimed):
            return True
        if len(named) >= NAMED_PART * len(old.terms) and (new.terms & old.terms) - named:
            return True
    return False


_STATE_TERMS = frozenset(
    terms("use work live drink eat play attend go subscribe take have like wear need want own do read watch practice")
)


def _same_subject(new: _Read, old: _Read) -> bool:
    return new.subject is None or old.subject is None or new.subject == old.subject


def _other_number(new: _Read, old: _Read) -> bool:
    """Another number, time or day in the same frame; events keep theirs."""
    if new.is_negated != old.is_negated or (new.is_event and old.is_event) or not _same_subject(new, old):
        return False
    if _differ(new.names, old.names):
        return False
    shared = new.terms & old.terms
    enough = ANCHORED_FRAME if new.quoted & old.quoted else SAME_FRAME
    is_alike = len(shared) >= FEWEST_SHARED and _overlap(new.terms, old.terms) >= enough
    return any(
        len(values) == 1 and len(old.values.get(key, ())) == 1 and values != old.values[key]
        for key, values in new.values.items()
        if is_alike or (new.terms == old.terms and (shared or key[1]))
    )


_RULES = (
    ("other_value", _other_value),
    ("other_preference", _other_preference),
    ("negated", _negated),
    ("given_up", _given_up),
    ("other_number", _other_number),
)


def is_newer(one: Statement, other: Statement) -> bool:
    """Whether one was true later than the other; at the same moment, whether it was written later."""
    return (one.valid_at, one.item_id) > (other.valid_at, other.item_id)


def retirements(
    new: Statement,
    ended_by_new: Sequence[tuple[Statement, str]],
    ending_new: Sequence[tuple[Statement, str]],
    *,
    most: int,
) -> list[Retirement]:
    """Older statements end by the new one; the new one ends by the earliest that came after it."""
    ended = [
        Retirement(item_id=old.item_id, superseded_by=new.item_id, invalid_at=new.valid_at, rule=rule)
        for old, rule in sorted(ended_by_new, key=lambda pair: pair[0].valid_at, reverse=True)[:most]
    ]
    if ending_new:
        successor, rule = min(ending_new, key=lambda pair: (pair[0].valid_at, pair[0].item_id))
        ended.append(
            Retirement(item_id=new.item_id, superseded_by=successor.item_id, invalid_at=successor.valid_at, rule=rule)
        )
    return ended
