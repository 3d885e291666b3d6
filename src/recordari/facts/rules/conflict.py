"""The offline judge: does a newer statement end an older one? Precise rather than eager: in doubt both stay.

A question, a plan, a rumour, a memory of old times and "also" end nothing. Another person, thing, identifier or qualifier
keeps both. Then one of the rules in `changes.py` must be sure. Statements with a subject and a single-valued predicate
need no reading: another object ends the older one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.items import normalised
from recordari.core.text import terms
from recordari.facts.rules.changes import OF_TIMES, RULES
from recordari.facts.rules.claims import EXAMINED, is_single
from recordari.facts.rules.frames import (
    CHANGES,
    has_other_times,
    has_same_number,
    is_of_another_day,
    is_same_thing,
    is_turned,
    puts_right,
    qualifies,
)
from recordari.facts.rules.grammar import Token, alike, language_of
from recordari.facts.rules.owners import is_changed_for_another, is_done_by_another, is_holder_gone, is_new_holder
from recordari.facts.rules.reading import Reading, read
from recordari.memory.rules import Retirement


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRuling:
    """A fact that was ended by another one, and why."""

    __pydantic_config__ = DESCRIBED

    ruling_id: UUID
    at: datetime
    rule: str
    """The name of the rule; `language_model` where a model ruled, `edited` where a person did."""
    judge: str
    """Who ruled: `offline`, the name of a model, or a person."""
    item_id: str
    """The fact that ended."""
    superseded_by: str
    content: str | None
    """The text of the fact that ended; none after erasure."""
    successor: str | None
    """The text of the fact that took its place."""
    is_undone: bool


KEEP = Ruling(verdict=Verdict.KEEP, rule="compatible")

_OF = frozenset("of de di do da del della d' von van du".split())
_UNSURE = frozenset({"plan", "says", "if", "also"})
_STRONG = frozenset({"stop", "longer", "more", "change", "move", "takeover", "rename", "fix", "maybe"})


def ruling(newer: Statement, older: Statement) -> Ruling:
    """Rule whether the newer statement ends the older one."""
    if len(newer.content) > EXAMINED or len(older.content) > EXAMINED:
        return KEEP
    if normalised(newer.content) == normalised(older.content):
        return KEEP
    if _has_other_object(newer, older):
        return Ruling(verdict=Verdict.SUPERSEDE, rule="other_object")
    code = language_of(older.content, newer.content)
    speaker = newer.speaker or older.speaker or ""
    new, old = read(newer.content, code, speaker), read(older.content, code, speaker)
    if not new.main or not old.main or _is_unsure(new, old):  # a text without words says nothing
        return KEEP
    if puts_right(new, old):
        return Ruling(verdict=Verdict.SUPERSEDE, rule="corrected")
    if _is_about_another(newer, older, new, old):
        return KEEP
    times_differ = has_other_times(new, old)
    for name, rule in RULES:
        if (name in OF_TIMES or not times_differ) and rule(new, old):
            return Ruling(verdict=Verdict.SUPERSEDE, rule=name)
    return KEEP


def name_different_things(one: str, other: str) -> bool:
    """Whether two texts are about different things: each names something else, or one says which depot it means."""
    code = language_of(one, other)
    first, second = read(one, code), read(other, code)
    if first.identifiers != second.identifiers or (first.labels ^ second.labels) & _TURNING:
        return True
    if first.subject and second.subject and not any(_is_in(token, first.subject) for token in second.subject):
        return True
    if any(is_turned(first, second, token) for token in first.contents):
        return True
    if any(qualifies(first, second, token) for token in first.contents if second.mentions(token)):
        return True
    if any(qualifies(second, first, token) for token in second.contents if first.mentions(token)):
        return True
    return bool(first.lacks(second.contents)) and bool(second.lacks(first.contents))


_TURNING = frozenset("like hate stop longer past plan says if rename".split())
"""Labels that make another statement of the same words."""
_SAID_ALIKE = frozenset(
    """function be me my third their now kin favourite contact season daypart profession act countries languages at when
    cost""".split()
)
"""Labels that do not change what is said."""


def say_as_much(one: str, other: str) -> bool:
    """Whether two texts say the same in other forms: "has a peanut allergy", "is allergic to peanuts".

    The same content of the same subject, with the same values, and no word in one of them that turns it.
    """
    code = language_of(one, other)
    first, second = read(one, code), read(other, code)
    if first.is_question or second.is_question or (first.labels ^ second.labels) - _SAID_ALIKE:
        return False
    if first.lacks(second.contents) or second.lacks(first.contents) or not first.contents:
        return False
    if first.lacks(second.subject) or any(not _is_in(each, first.subject) for each in second.subject):
        return False
    if len(first.subject) != len(second.subject) or first.identifiers != second.identifiers:
        return False
    if {"me", "my"} & first.labels and not {"me", "my"} & second.labels:
        return False
    amounts = [sorted((value.kind, str(value.amount)) for value in each.values) for each in (first, second)]
    return amounts[0] == amounts[1] and not any(is_turned(first, second, token) for token in first.contents)


def _is_in(token: Token, tokens: Sequence[Token]) -> bool:
    return any(alike(token.key, each.key) for each in tokens)


def _has_other_object(newer: Statement, older: Statement) -> bool:
    """Both have a subject and a single-valued predicate, the same ones, and objects of which none is part of the other."""
    if not (newer.subject and newer.predicate and newer.object and older.subject and older.predicate and older.object):
        return False
    if normalised(newer.subject) != normalised(older.subject) or normalised(newer.predicate) != normalised(
        older.predicate
    ):
        return False
    one, other = set(terms(newer.object)), set(terms(older.object))
    return is_single(newer.predicate) and bool(one - other) and bool(other - one)


def _is_unsure(new: Reading, old: Reading) -> bool:
    """A question, a plan, hearsay, a condition or an addition; or one of them tells of old times."""
    unsure = new.labels & _UNSURE | old.labels & {"plan", "says", "if"}
    if new.is_question or old.is_question or (unsure and not (unsure == {"plan"} and _are_both_duties(new, old))):
        return True
    if new.tokens[0].text in _OF - new.determiners and 1 not in new.valued:
        return True  # "Of the budget, a third is for …" tells of a part
    if "past" in old.labels and not new.labels & {"fix", "maybe"}:
        return True
    return "past" in new.labels and not new.labels & _STRONG


def _are_both_duties(new: Reading, old: Reading) -> bool:
    """ "Reports should go to Ann", and "reports should go to Ben from now on"."""
    plans = [{token.text for token in each.tokens if "plan" in token.labels} for each in (new, old)]
    return plans[0] == plans[1] and (plans[0] == {"may"} or (plans[0] == {"should"} and "now" in new.labels))


def _is_about_another(newer: Statement, older: Statement, new: Reading, old: Reading) -> bool:
    """Another person, thing or identifier."""
    if not _identifiers(old, new) <= new.all_identifiers or not _identifiers(new, new) <= old.all_identifiers:
        return True
    if is_of_another_day(new, old) or _is_of_other_hours(new, old) or _is_of_other_age(new, old):
        return True
    if _names_other_relative(new, old) or _names_other_possession(new, old) or _is_one_of_them(new, old):
        return True
    if not old.subject and _person(new) != _person(old) and _person(new) and _person(old):
        return True
    if _tells_what_exists(new) != _tells_what_exists(old) and {"me"} & (new.labels | old.labels):
        return True
    if old.speaks_of_self:
        if newer.speaker and older.speaker and normalised(newer.speaker) != normalised(older.speaker):
            return True
        return _speaks_of_somebody(new, old) and not _is_what_we_pay(new, old)
    return bool(old.subject) and not _is_same_subject(new, old)


def _identifiers(reading: Reading, new: Reading) -> frozenset[str]:
    """What says which thing it is about; a version says so unless the newer tells of a change of it."""
    if not new.labels & CHANGES:
        return reading.identifiers
    return frozenset(each for each in reading.identifiers if not _VERSION.search(each))


_VERSION = re.compile(r" \d{1,4}(?:\.\d{1,4}){1,3}$|^(?:vers|releas)")


def _is_one_of_them(new: Reading, old: Reading) -> bool:
    """The team, and the *marketing* team: the newer says something of a part or of another one."""
    if "my" in old.main[0].labels and _says_who_it_is(new, old):
        return True
    if old.main[0].text not in old.determiners or new.main[0].text not in new.determiners:
        return False
    same = [token for token in new.subject if any(alike(token.key, each.key) for each in old.subject)]
    heads = {token.place + 1 for token in same if new.words.code in _HEAD_LAST}
    if any(token.place in heads and not old.mentions(token) for token in new.subject):
        return True  # the lamp, and the lamp *shop*
    return any(qualifies(new, old, token) for token in same)


_HEAD_LAST = frozenset({"en", "de", "nl"})
_WHERE_FROM = frozenset("from at of von aus bei de du di da van uit".split())


def _says_who_it_is(new: Reading, old: Reading) -> bool:
    """ "Ana, my boss," is not "my cousin Ana"."""
    for before, mine, noun in zip(new.tokens, new.tokens[1:], new.tokens[2:], strict=False):
        if before.text == "," and "my" in mine.labels and noun.place < new.verb and not old.mentions(noun):
            return True
        is_same = (before.is_name or not before.place) and any(alike(before.key, each.key) for each in old.subject)
        if is_same and mine.text in _WHERE_FROM and noun.place <= new.verb:
            return True  # "Vera from work"
    return False


def _tells_what_exists(reading: Reading) -> bool:
    """ "There are 14 episodes" says nothing about the speaker."""
    return bool(reading.main) and reading.main[0].text == "there"


def _is_of_other_hours(new: Reading, old: Reading) -> bool:
    """The morning shift, and the night shift."""
    one, other = (
        {token.text for token in each.tokens if "daypart" in token.labels and token.place < each.verb}
        for each in (new, old)
    )
    return bool(one) and bool(other) and one != other


def _is_of_other_age(new: Reading, old: Reading) -> bool:
    """The old kitchen, and the new kitchen."""
    ages = [{_AGES[token.text] for token in each.tokens if token.text in _AGES} for each in (new, old)]
    if all(ages):
        return ages[0] != ages[1]
    return "new" in ages[0] and not ages[1] and _has_new_one(new, old)


def _has_new_one(new: Reading, old: Reading) -> bool:
    """ "The new jam contains" is said of another jam; "the new price is" of the same thing."""
    if new.main[0].text not in new.determiners or new.verb >= len(new.tokens):
        return False
    is_told = any(_AGES.get(token.text) == "new" and token.place < new.verb for token in new.main[:3])
    return is_told and "be" not in new.tokens[new.verb].labels and bool(old.values)


_AGES = dict.fromkeys(
    """old alte alter altes alten ancien ancienne vieux vieille viejo vieja antiguo antigua velho velha vecchio
    vecchia oude""".split(),
    "old",
) | dict.fromkeys("new neue neuer neues neuen nouveau nouvelle nuevo nueva novo nova nuovo nuova nieuwe".split(), "new")


def _names_other_relative(new: Reading, old: Reading) -> bool:
    """ "Her sister", "Tim's father", "my son": a person whom the older does not name."""
    main = new.tokens if new.words.phrases is not None else new.main
    for token in main:
        if "kin" not in token.labels or old.mentions(token) or token.place > new.verb:
            continue
        before = new.tokens[token.place - 1] if token.place else None
        after = new.tokens[token.place + 1] if token.place + 1 < len(new.tokens) else None
        belongs = before is not None and (before.kind == "owns" or before.labels & {"my", "their"})
        of_name = after is not None and after.text in {"of", "de", "von", "di", "van", "d'", "do", "da", "del"}
        if belongs or of_name or new.words.phrases is not None:
            return True
    return False


def _names_other_possession(new: Reading, old: Reading) -> bool:
    """ "Carla's husband left", "Ninas Mann", "la tienda de Ramón": none is about the one who is named."""
    owners = {token.key: token for token in old.subject if token.is_name or not token.place}
    for token in new.main:
        owner = owners.get(token.key) or owners.get(token.text.removesuffix("s"))
        if owner is None:
            continue
        after = new.tokens[token.place + 1 : token.place + 3]
        if after and after[0].kind == "owns":
            owned = after[1] if len(after) > 1 else None
        elif token.text == f"{owner.text}s" and after:
            owned = after[0]
        elif token.place > 1 and new.tokens[token.place - 1].text in _OF and not _is_owned(old, owner):
            owned = new.tokens[token.place - 2]
        else:
            continue
        if owned is not None and owned.is_content and owned.place not in new.valued and not old.mentions(owned):
            return True
    return False


def _is_owned(old: Reading, owner: Token) -> bool:
    return bool(owner.place) and old.tokens[owner.place - 1].text in _OF


def _person(reading: Reading) -> str:
    """Whether its subject is I or we, or he, she, it or they; nothing where it has another subject."""
    if reading.subject:
        return ""
    found = (token.labels & {"me", "third"} for token in reading.main if token.place <= reading.verb)
    return next((min(labels) for labels in found if labels), "")


def _is_what_we_pay(new: Reading, old: Reading) -> bool:
    """ "We pay 55 euros for the line", and "the provider raised the price of the line to 62 euros"."""
    is_price = all(any(value.kind == "money" for value in each.values) for each in (new, old))
    is_raised = "cost" in old.labels and "change" in new.labels
    return is_price and is_raised and bool(old.contents) and not new.lacks(old.contents)


def _speaks_of_somebody(new: Reading, old: Reading) -> bool:
    """Whether the newer leaves the first person of the older for somebody with a name."""
    if new.labels & {"me", "my"} or not old.labels & {"me", "my"}:
        return False
    if new.subject and not any(map(old.mentions, new.subject)):
        return True
    return any(not old.mentions(token) and (token.is_name or not token.place) for token in new.subject)


def _is_same_subject(new: Reading, old: Reading) -> bool:
    lacking = new.lacks(old.subject)
    if _reach_the_same(new, old, lacking):
        return True
    if is_same_thing(new, old.subject) or has_same_number(new, old):
        return True
    if "third" in new.labels and not new.subject:
        return any(old.mentions(token) for token in new.contents) and _all_names(lacking)
    if is_done_by_another(new, old) or is_new_holder(new, old) or is_changed_for_another(new, old):
        return True
    if is_holder_gone(new, old) or _is_what_we_had(new, old):
        return True
    # The newer may name the thing that the older says something about.
    if "lead" in old.labels and "lead" in new.labels and "now" in new.labels:
        return bool(old.predicate) and not new.lacks(old.predicate)
    is_renamed = {"name", "now"} <= new.labels and "name" in old.labels
    is_left = any(
        {"stop", "takeover"} <= token.labels for token in new.tokens
    )  # "stepped down" tells of one's own office
    is_taken = bool(new.labels & {"takeover", "rename"}) and not (is_left and new.subject)
    return (is_renamed or is_taken) and any(new.mentions(token) for token in old.predicate)


def _is_what_we_had(new: Reading, old: Reading) -> bool:
    """ "Our firm prints a catalogue", and "the catalogue has been discontinued"."""
    is_ours = "my" in old.main[0].labels and all("light" in token.labels for token in old.subject)
    return is_ours and new.is_given_up and bool(new.subject) and not old.lacks(new.contents)


def _reach_the_same(new: Reading, old: Reading, lacking: Sequence[Token]) -> bool:
    """ "Anna's e-mail is …", and "write to Anna at …"."""
    units = [{value.unit for value in each.values if value.kind == "contact"} for each in (new, old)]
    is_named = len(lacking) < len(old.subject) or ("my" in old.labels and not new.subject)
    return bool(units[0] & units[1]) and is_named and all("contact" in token.labels for token in lacking)


def _all_names(tokens: Sequence[Token]) -> bool:
    return all(token.is_name or not token.place for token in tokens)


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
