"""What is handed to the model: sections with budgets, in profiles; and the plan for one question, without any I/O.

The six layers of a context are groups of sections: core and characteristics (fixed in the agent's definition), shared
(the tenant's, read-only to agents), delegated (what a task hands to its run), working (the session), long-term.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import StrEnum
from functools import cached_property
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from recordari.core.items import normalised
from recordari.errors import InvalidInput
from recordari.recall.rules.steps import is_multi_step
from recordari.recall.rules.temporal.times import Interval, question_interval
from recordari.sessions.rules.window import Message

BUDGET = 4_000  # C2
LEAST_BUDGET, MOST_BUDGET = 200, 200_000
RECENT = timedelta(days=2)
MOST_PROFILES = 20


class Layer(StrEnum):
    """The six layers (C1)."""

    CORE = "core"
    CHARACTERISTICS = "characteristics"
    SHARED = "shared"
    DELEGATED = "delegated"
    WORKING = "working"
    LONG_TERM = "long_term"


class SectionName(StrEnum):
    """The sections there are, in the order in which they are rendered."""

    CORE = "core"
    CHARACTERISTICS = "characteristics"
    KNOWLEDGE_MAP = "knowledge_map"
    SHARED = "shared"
    PROFILE = "profile"
    DELEGATED = "delegated"
    SUMMARY = "summary"
    LONG_TERM = "long_term"
    TEMPORAL = "temporal"
    DAILY_LOG = "daily_log"
    WINDOW = "window"


class Rendering(StrEnum):
    """How a context is handed over."""

    TEXT = "text"
    MESSAGES = "messages"
    SECTIONS = "sections"


class Iteration(StrEnum):
    """Whether a question may be asked in several rounds (C5)."""

    AUTO = "auto"
    NEVER = "never"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRule:
    """Everything that differs from section to section."""

    layer: Layer
    title: str
    handle: str
    """The letter with which its items are referred to in the text."""
    tokens: int
    priority: int
    most: int | None = None


SECTIONS: Mapping[SectionName, SectionRule] = {
    SectionName.CORE: SectionRule(layer=Layer.CORE, title="core", handle="C", tokens=800, priority=100),
    SectionName.CHARACTERISTICS: SectionRule(
        layer=Layer.CHARACTERISTICS, title="characteristics", handle="B", tokens=400, priority=95
    ),
    SectionName.KNOWLEDGE_MAP: SectionRule(
        layer=Layer.SHARED, title="what can be looked up", handle="K", tokens=200, priority=90
    ),
    SectionName.SHARED: SectionRule(
        layer=Layer.SHARED, title="shared by everyone here", handle="S", tokens=300, priority=65, most=10
    ),
    SectionName.PROFILE: SectionRule(
        layer=Layer.LONG_TERM, title="standing profile", handle="P", tokens=200, priority=70
    ),
    SectionName.DELEGATED: SectionRule(
        layer=Layer.DELEGATED, title="handed over for this task", handle="D", tokens=400, priority=85
    ),
    SectionName.SUMMARY: SectionRule(
        layer=Layer.WORKING, title="this session so far", handle="N", tokens=500, priority=80
    ),
    SectionName.LONG_TERM: SectionRule(
        layer=Layer.LONG_TERM, title="long-term memory", handle="L", tokens=800, priority=60, most=5
    ),
    SectionName.TEMPORAL: SectionRule(
        layer=Layer.LONG_TERM, title="from the time asked about", handle="T", tokens=600, priority=50, most=10
    ),
    SectionName.DAILY_LOG: SectionRule(
        layer=Layer.LONG_TERM, title="daily activity", handle="A", tokens=400, priority=40, most=10
    ),
    SectionName.WINDOW: SectionRule(layer=Layer.WORKING, title="last messages", handle="W", tokens=800, priority=75),
}
INSTRUCTIONS = frozenset({SectionName.CORE, SectionName.CHARACTERISTICS})
"""The agent's own definition; everything else is data and stands in a block."""
_OF_THE_PRESENT = frozenset({SectionName.SUMMARY, SectionName.WINDOW, SectionName.DELEGATED, SectionName.PROFILE})
_ASKED = frozenset({SectionName.LONG_TERM, SectionName.TEMPORAL, SectionName.DAILY_LOG})


@dataclass(frozen=True)
class ContextItem:
    """One text of a context with where it comes from and who vouches for it."""

    content: str
    kind: str
    trust: str
    source_ref: str
    item_id: UUID | None = None
    when: datetime | None = None
    who: str | None = None
    scope: str | None = None
    session_id: str | None = None
    payload_key: str | None = None
    score: float | None = None
    message: Message | None = None

    @cached_property
    def keys(self) -> frozenset[Hashable]:
        """What makes it the same as another one: its id, its text."""
        text = normalised(self.content)
        return frozenset({text}) if self.item_id is None else frozenset({text, self.item_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionBudget:
    """What a profile gives a section."""

    tokens: int
    priority: int
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextProfile:
    """Which sections a context has, with their shares of a budget."""

    name: str
    shares: Mapping[SectionName, SectionBudget]
    budget: int = BUDGET
    steady: bool = False
    """Whether its beginning stays the same to the letter within an epoch of the session, for prompt caches."""


def _shares(*names: SectionName) -> dict[SectionName, SectionBudget]:
    return {
        name: SectionBudget(tokens=rule.tokens, priority=rule.priority, most=rule.most)
        for name in names
        for rule in (SECTIONS[name],)
    }


ROUTER = ContextProfile(name="router", shares=_shares(*SectionName))
STABLE = ContextProfile(
    name="stable",
    shares={
        **_shares(
            SectionName.CORE,
            SectionName.CHARACTERISTICS,
            SectionName.KNOWLEDGE_MAP,
            SectionName.SHARED,
            SectionName.DELEGATED,
        ),
        SectionName.WINDOW: SectionBudget(tokens=1_900, priority=SECTIONS[SectionName.WINDOW].priority),
    },
    steady=True,
)
PROFILES: Mapping[str, ContextProfile] = {profile.name: profile for profile in (ROUTER, STABLE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """What a tenant's setting `context` says: the profile used by default, its own ones, and its counter of tokens."""

    profile: str = ROUTER.name
    profiles: Mapping[str, ContextProfile] = field(default_factory=lambda: PROFILES)

    @classmethod
    def read(cls, setting: object) -> ContextSettings:
        """The settings that `{"profile": "support", "profiles": {"support": {…}}}` describes, or `InvalidInput`.

        A profile of one's own is `{"base": "router", "budget": 6000, "sections": {"temporal": null,
        "long_term": {"tokens": 1200, "most": 8, "priority": 60}}}`: what is left out is as in its base, null takes a
        section away.
        """
        if setting is None:
            return cls()
        given = _object("context", setting, {"profile", "profiles"})
        profiles = dict(PROFILES)
        own = _object("context.profiles", given.get("profiles", {}))
        if len(own) > MOST_PROFILES:
            raise InvalidInput(f"context.profiles has at most {MOST_PROFILES} profiles", field="context")
        for name, described in own.items():
            if name in PROFILES or not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", name):
                raise InvalidInput(
                    "a profile of your own has a name of small letters, digits, - and _, other than "
                    f"{' and '.join(PROFILES)}",
                    field="context",
                )
            profiles[name] = _profile(name, described)
        chosen = given.get("profile", ROUTER.name)
        if chosen not in profiles:
            raise InvalidInput(f"context.profile must be one of {', '.join(profiles)}", field="context")
        return cls(profile=str(chosen), profiles=profiles)

    def find(self, name: str | None) -> ContextProfile:
        """The profile of that name, or the tenant's default."""
        found = self.profiles.get(name or self.profile)
        if found is None:
            raise InvalidInput(f"there is no such profile; use one of {', '.join(self.profiles)}", field="profile")
        return found


def _profile(name: str, described: object) -> ContextProfile:
    given = _object(f"context.profiles.{name}", described, {"base", "budget", "sections"})
    base = PROFILES.get(str(given.get("base", ROUTER.name)))
    if base is None:
        raise InvalidInput(f"context.profiles.{name}.base must be one of {', '.join(PROFILES)}", field="context")
    budget = checked_budget(given.get("budget", base.budget), field="context")
    shares = dict(base.shares)
    for section, share in _object(f"context.profiles.{name}.sections", given.get("sections", {})).items():
        if section not in frozenset(SectionName):
            raise InvalidInput(f"a context knows no such section; use {', '.join(SectionName)}", field="context")
        place = SectionName(section)
        if share is None:
            shares.pop(place, None)
        else:
            shares[place] = _share(f"context.profiles.{name}.sections.{section}", place, share, shares.get(place))
    return replace(base, name=name, budget=budget, shares=shares)


def _share(where: str, section: SectionName, described: object, before: SectionBudget | None) -> SectionBudget:
    given = _object(where, described, {"tokens", "priority", "most"})
    rule = SECTIONS[section]
    before = before or SectionBudget(tokens=rule.tokens, priority=rule.priority, most=rule.most)
    most = given.get("most", before.most)
    return SectionBudget(
        tokens=_number(f"{where}.tokens", given.get("tokens", before.tokens), 1, MOST_BUDGET),
        priority=_number(f"{where}.priority", given.get("priority", before.priority), 0, 100),
        most=None if most is None else _number(f"{where}.most", most, 1, 20),
    )


def _object(where: str, value: object, keys: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be an object", field="context")
    if keys is not None and (unknown := value.keys() - keys):
        known = ", ".join(sorted(keys))
        raise InvalidInput(f"{where} knows no {', '.join(map(repr, sorted(unknown)))}; it has {known}", field="context")
    return value


def _number(where: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"{where} must be a whole number from {least} to {most}", field="context")
    return value


def checked_budget(budget: object, *, field: str = "budget") -> int:
    """Return a budget of tokens that a context can have."""
    if not isinstance(budget, int) or isinstance(budget, bool) or not LEAST_BUDGET <= budget <= MOST_BUDGET:
        raise InvalidInput(f"budget must be a whole number from {LEAST_BUDGET} to {MOST_BUDGET}", field=field)
    return budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known before anything is fetched: the question, and who asks when."""

    question: str | None
    now: datetime
    zone: ZoneInfo | timezone
    has_agent: bool
    has_session: bool
    has_run: bool
    is_past: bool = False
    """Whether the context is asked for as of an earlier moment, which is `now` then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The sections to fetch with their shares, why others are left out, and what the question asks for."""

    profile: ContextProfile
    budget: int
    shares: Mapping[SectionName, SectionBudget]
    left_out: Mapping[SectionName, str]
    interval: Interval | None
    multi_step: bool


def plan(situation: Situation, profile: ContextProfile, *, budget: int | None = None) -> Plan:
    """Decide which sections a question gets; no I/O, in well under 10 ms (C2)."""
    question = situation.question
    interval = question_interval(question, now=situation.now, zone=situation.zone) if question else None
    left_out = {
        name: reason for name in SectionName if (reason := _why_not(name, situation, profile, interval)) is not None
    }
    return Plan(
        profile=profile,
        budget=profile.budget if budget is None else checked_budget(budget),
        shares={name: share for name, share in profile.shares.items() if name not in left_out},
        left_out=left_out,
        interval=interval,
        multi_step=question is not None and is_multi_step(question),
    )


def _why_not(name: SectionName, situation: Situation, profile: ContextProfile, interval: Interval | None) -> str | None:
    """Why a section is left out; None when it belongs to the context."""
    agents = {SectionName.CORE, SectionName.CHARACTERISTICS, SectionName.DAILY_LOG}
    reasons = (
        (name not in profile.shares, "not in the profile"),
        (name in agents and not situation.has_agent, "no agent is named"),
        (name is SectionName.DELEGATED and not situation.has_run, "no run is named"),
        (name in {SectionName.SUMMARY, SectionName.WINDOW} and not situation.has_session, "no session is named"),
        (situation.is_past and name in _OF_THE_PRESENT, "it tells of the present, and the past is asked for"),
        (name in _ASKED and situation.question is None, "there is no question"),
        (name is SectionName.TEMPORAL and interval is None, "the question has no time in it"),
        (
            name is SectionName.DAILY_LOG and not asks_for_activity(situation.question or "", interval, situation.now),
            "the question is not about recent activity",
        ),
    )
    return next((reason for is_so, reason in reasons if is_so), None)


_ACTIVITY = re.compile(
    r"\b(?:(?:what|which|how much|how many|anything|everything|all)\b.{0,40}\b(?:do|did|done|doing|happen\w{0,4}|work\w{0,3} on"
    r"|finish\w{0,3}|complet\w{0,3}|accomplish\w{0,3}|handl\w{0,3}|progress)\b|(?:daily|activity|status|progress) "
    r"(?:log|report|brief|update|summary)|(?:brief|catch|update) me\b|stand-?up|so far today|going on|what's new|whats new)",
    re.IGNORECASE | re.DOTALL,
)


def asks_for_activity(question: str, interval: Interval | None, now: datetime) -> bool:
    """Whether a question is about what was done lately: by its words, and by a time that is not long past."""
    is_recent = interval is None or (
        (interval.end is None or interval.end >= now - RECENT) and _begins_by(interval, now)
    )
    return is_recent and _ACTIVITY.search(question[:2_000]) is not None


def _begins_by(interval: Interval, now: datetime) -> bool:
    return interval.start is None or interval.start <= now


def cache_stable_tail(messages: Sequence[Message], *, most: int, fits: Any) -> Sequence[Message]:
    """The last messages that fit, beginning where they began a message ago whenever that is possible.

    They are followed from the first one on. Only when there are too many is the beginning moved, and then far
    enough that it stays for a while: a prompt cache keeps the rest.
    """
    first = 0
    for last in range(1, len(messages) + 1):
        if last - first > most or not fits(messages[first:last]):
            keep = max(1, min(most, last - first) * 3 // 5)
            first = max(first, last - keep)
            while first < last - 1 and not fits(messages[first:last]):
                first += max(1, (last - first) // 2)
    return messages[first:]
