"""Claims of short statements: subject, relation and value, by rules that run in linear time (English).

A relation is *single-valued* where a new value ends the old one: a person lives in one place, but likes many things.
A statement that no rule recognises claims nothing. Also here: the trend of a fact, and its confidence after feedback.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.text import terms

EXAMINED = 600  # characters; a longer text is no short statement
SELF = "user"
_GENERIC_SPEAKERS = frozenset({"", "user", "human", "me"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Subject, predicate and object of a statement, and the purpose of the object where it is stated."""

    subject: str
    predicate: str
    object: str
    complement: str = ""
    is_single: bool = False
    """A subject has only one value of this predicate (and complement) at a time."""


_ADVERBS = (
    r"(?:\s(?:now|currently|actually|just|recently|really|usually|always|still|also|already|finally|normally"
    r"|officially))"
)
_NAME = r"(?-i:[A-Z][\w-]{1,30}(?:\s[A-Z][\w-]{1,30})?)"
_SUBJECT = (
    rf"^(?P<subject>i|we|(?:the )?user|(?:my|our)(?:\s[\w'-]{{1,30}}){{1,3}}?|{_NAME})"
    rf"(?:'ve|'m|'re|\s(?:have|has|am|is|are))?{_ADVERBS}{{0,2}}"
)
_REST = r"(?P<object>[^.;!?\n]{1,120})"
# A name: "in a small town" does not contradict "in Lund".
_PLACE = r"(?P<object>(?-i:[A-Z][\w'-]{1,40}(?:[ ,]{1,2}[A-Z][\w'-]{1,40}){0,3}))"
# A person has one of each. A budget or a deadline belongs to a matter that the sentence may not name.
_ATTRIBUTE = (
    r"favou?rite(?:\s[\w-]{1,30}){1,3}|name|nickname|surname|age|birthday|birth date|(?:home )?address|e-?mail(?: address)?"
    r"|job|job title|employer|boss|manager|salary|phone(?: number)?|time ?zone|shoe size|weight|height|diet|landlord"
    r"|doctor|dentist|therapist|bedtime|major"
)


def _relation(predicate: str, is_single: bool, pattern: str) -> tuple[str, bool, re.Pattern[str]]:
    return predicate, is_single, re.compile(pattern, re.IGNORECASE)


# The first that matches names the claim.
_RELATIONS = (
    _relation(
        "lives in",
        True,
        rf"{_SUBJECT}\s(?:lives?|living|resides?|based|moved|relocated)(?:\sback)?\s(?:in|to)\s{_PLACE}",
    ),
    _relation("works at", True, rf"{_SUBJECT}\s(?:(?:works?|working|employed)\s(?:at|for|by)|joined)\s{_PLACE}"),
    _relation(
        "prefers",
        False,
        rf"{_SUBJECT}\sprefers?\s(?P<object>[^.;!?\n,]{{1,80}}?)"
        r"(?:\s(?:over|to|rather than|instead of)\s(?P<rejected>[^.;!?\n,]{1,60}))?(?=[.;!?\n,]|$)",
    ),
    _relation(
        "uses",
        True,
        rf"{_SUBJECT}\s(?:uses?|using)\s(?P<object>[^.;!?\n,]{{1,60}}?)\s(?:for|as)\s(?P<complement>[^.;!?\n,]{{1,60}})",
    ),
    _relation("likes", False, rf"{_SUBJECT}\s(?:likes?|loves?|enjoys?)\s{_REST}"),
    _relation("dislikes", False, rf"{_SUBJECT}\s(?:hates?|dislikes?|detests?|loathes?)\s{_REST}"),
    _relation("has", False, rf"{_SUBJECT}\s(?:has|have|own|owns)\s(?!to\b|been\b|not\b){_REST}"),
    _relation(
        "is",
        False,
        rf"^(?P<subject>i|we|(?:the )?user|{_NAME})(?:'m|'re|\s(?:am|is|are)){_ADVERBS}{{0,2}}"
        r"\s(?P<object>an?\s[^.;!?\n,]{1,80})",
    ),
)
_HAS_ATTRIBUTE = re.compile(
    rf"^(?:(?P<mine>my|our|the user's)|(?P<whose>{_NAME}|my(?:\s[\w-]{{1,30}}){{1,2}})'s)\s"
    rf"(?:current\s|new\s)?(?P<attribute>{_ATTRIBUTE})\s(?:is|are|was changed to|has changed to|changed to)"
    rf"{_ADVERBS}?\s{_REST}",
    re.IGNORECASE,
)
_PROCESS = re.compile(
    r"^(?:not|going|getting|coming|being|so|very|really|quite|too|that)\b|^\w{2,30}ing\b", re.IGNORECASE
)
_CLAUSE = re.compile(r"(?:,\s{0,2}|\s)(?:and|but|so)\s|[;:]\s|\s[-–—]\s|,\s")
# What follows is not claimed: "a savings plan for when I have kids".
_SUBORDINATE = re.compile(
    r"(?:^|[,\s])(?:if|when|whenever|once|because|although|though|which|who|since|while|until|unless|before|after"
    r"|as soon as|that)\s",
    re.IGNORECASE,
)


def claims_of(text: str, *, speaker: str | None = None) -> tuple[Claim, ...]:
    """The claims of a statement, clause by clause; the first person is its speaker."""
    name = (speaker or "").casefold()
    me = SELF if name in _GENERIC_SPEAKERS else name
    clauses = (_main(clause) for clause in _CLAUSE.split(text[:EXAMINED].replace("’", "'")))
    claims = (_attribute_claim(clause, me) or _relation_claim(clause, me) for clause in clauses)
    return tuple(claim for claim in claims if claim is not None)


def _main(clause: str) -> str:
    """A clause without what is subordinate in it."""
    subordinate = _SUBORDINATE.search(clause)
    return (clause[: subordinate.start()] if subordinate is not None else clause).strip()


def _attribute_claim(clause: str, me: str) -> Claim | None:
    """ "My favourite colour is green": an attribute of which there is one."""
    match = _HAS_ATTRIBUTE.search(clause)
    if match is None or _PROCESS.search(match["object"]):
        return None
    subject = me if match["mine"] else match["whose"].casefold()
    attribute = " ".join(terms(match["attribute"]))
    return Claim(subject=subject, predicate=attribute, object=match["object"].strip(), is_single=True)


def _relation_claim(clause: str, me: str) -> Claim | None:
    for predicate, is_single, pattern in _RELATIONS:
        if (match := pattern.search(clause)) is None:
            continue
        groups = match.groupdict()
        return Claim(
            subject=_subject(groups["subject"], me),
            predicate=predicate,
            object=groups["object"].strip(),
            complement=(groups.get("complement") or groups.get("rejected") or "").strip(),
            is_single=is_single,
        )
    return None


def _subject(name: str, me: str) -> str:
    name = name.casefold()
    if name in {"i", "we"}:
        return me
    if name in {"user", "the user"}:
        return SELF
    return " ".join(terms(name)) if name.startswith(("my ", "our ")) else name


SINGLE_PREDICATES = frozenset(
    """lives_in live_in located_in resides_in works_at works_for employer is_named name timezone time_zone email phone
    address birthday age job job_title role title status manager reports_to deadline due_date budget goal version
    language currency home_city prefers_channel owner owned_by price salary married_to""".split()
)


def is_single(predicate: str) -> bool:
    """Whether a predicate of a caller is known to have one value at a time."""
    name = "_".join(predicate.casefold().replace("-", "_").split())
    return name in SINGLE_PREDICATES or name.startswith(("favorite_", "favourite_", "current_", "preferred_"))


RECENT = timedelta(days=30)
STALE = timedelta(days=180)
UNKNOWN_CONFIDENCE = 0.5
LEAST, MOST = 0.02, 0.98


class Trend(StrEnum):
    """How often a fact is stated: for the first time, more often, as before, less often, no more."""

    NEW = "new"
    STRENGTHENING = "strengthening"
    STABLE = "stable"
    WEAKENING = "weakening"
    STALE = "stale"


class Opinion(StrEnum):
    USEFUL = "useful"
    WRONG = "wrong"


# In log-odds: a wrong memory does more harm than a useful one does good.
_EFFECT = {Opinion.USEFUL: 0.7, Opinion.WRONG: -1.4}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceSource:
    """A message that a fact was taken from."""

    __pydantic_config__ = DESCRIBED

    item_id: UUID
    event_time: datetime
    session_id: str | None


def trend_of(times: Sequence[datetime], *, now: datetime) -> Trend:
    """The trend of a fact, from the times at which it was stated.

    The last 30 days are compared with the 30 days before them. A fact that was not stated for 180 days is stale.
    """
    moments = sorted(moment for moment in times if moment <= now)
    if not moments or now - moments[-1] > STALE:
        return Trend.STALE
    if now - moments[0] <= RECENT:
        return Trend.NEW if len(moments) == 1 else Trend.STRENGTHENING
    lately = sum(now - moment <= RECENT for moment in moments)
    before = sum(RECENT < now - moment <= 2 * RECENT for moment in moments)
    if lately > before:
        return Trend.STRENGTHENING
    if lately < before or now - moments[-1] > 2 * RECENT:
        return Trend.WEAKENING
    return Trend.STABLE


def revised_confidence(confidence: float | None, *, before: Opinion | None, opinion: Opinion) -> float:
    """The confidence of an item after an opinion replaced an earlier one of the same person."""
    prior = min(max(UNKNOWN_CONFIDENCE if confidence is None else confidence, LEAST), MOST)
    odds = math.log(prior / (1 - prior)) - (_EFFECT[before] if before is not None else 0.0) + _EFFECT[opinion]
    return round(min(max(1 / (1 + math.exp(-odds)), LEAST), MOST), 4)
