"""The sections of a context and their budgets, in profiles; and the plan for one question.

The six layers of a context are groups of sections: core and characteristics (fixed in the agent's definition), shared
(the tenant's, read-only to agents), delegated (values for a run), working (the session), long-term.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import StrEnum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from recordari.core.cache import unlocked_property
from recordari.core.frozen import quickly_made
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
    CORE = "core"
    CHARACTERISTICS = "characteristics"
    SHARED = "shared"
    DELEGATED = "delegated"
    WORKING = "working"
    LONG_TERM = "long_term"


class SectionName(StrEnum):
    """All sections, in the order in which they are rendered."""

    CORE = "core"
    CHARACTERISTICS = "characteristics"
    KNOWLEDGE_MAP = "knowledge_map"
    SHARED = "shared"
    PROFILE = "profile"
    ANSWERS = "answers"
    DELEGATED = "delegated"
    EARLIER = "earlier"
    SUMMARY = "summary"
    LONG_TERM = "long_term"
    TEMPORAL = "temporal"
    DAILY_LOG = "daily_log"
    WINDOW = "window"


class Rendering(StrEnum):
    TEXT = "text"
    MESSAGES = "messages"
    SECTIONS = "sections"


class Iteration(StrEnum):
    """Whether a question may be recalled in several rounds (C5)."""

    AUTO = "auto"
    NEVER = "never"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionBudget:
    """The share of a section in a profile."""

    tokens: int
    priority: int
    most: int | None = None

    def scaled(self, factor: float) -> SectionBudget:
        """The share in another budget. More room shows more items; less room shows fewer by itself."""
        most = None if self.most is None else max(self.most, int(self.most * factor))
        return SectionBudget(tokens=max(1, int(self.tokens * factor)), priority=self.priority, most=most)


@dataclass(frozen=True, slots=True)
class SectionRule(SectionBudget):
    """All that differs from section to section, with its default share."""

    layer: Layer
    title: str
    handle: str
    """The letter of references to its items in the text."""
    assured: float = 0.0
    """The part of a small budget in which its best item has a place, however much the others need."""


SECTIONS: Mapping[SectionName, SectionRule] = {
    SectionName.CORE: SectionRule(Layer.CORE, "core", "C", tokens=800, priority=100),
    SectionName.CHARACTERISTICS: SectionRule(Layer.CHARACTERISTICS, "characteristics", "B", tokens=400, priority=95),
    SectionName.KNOWLEDGE_MAP: SectionRule(Layer.SHARED, "what can be looked up", "K", tokens=200, priority=90),
    SectionName.SHARED: SectionRule(Layer.SHARED, "shared by everyone here", "S", tokens=300, priority=65, most=10),
    SectionName.PROFILE: SectionRule(Layer.LONG_TERM, "standing profile", "P", tokens=400, priority=70),
    SectionName.ANSWERS: SectionRule(Layer.LONG_TERM, "standing questions", "Q", tokens=300, priority=66),
    SectionName.DELEGATED: SectionRule(Layer.DELEGATED, "handed over for this task", "D", tokens=400, priority=85),
    SectionName.EARLIER: SectionRule(Layer.LONG_TERM, "earlier sessions", "E", tokens=800, priority=68),
    SectionName.SUMMARY: SectionRule(Layer.WORKING, "this session so far", "N", tokens=500, priority=80),
    SectionName.LONG_TERM: SectionRule(Layer.LONG_TERM, "long-term memory", "L", 0.35, tokens=800, priority=60, most=5),
    SectionName.TEMPORAL: SectionRule(
        Layer.LONG_TERM, "from the time asked about", "T", 0.35, tokens=600, priority=50, most=10
    ),
    SectionName.DAILY_LOG: SectionRule(Layer.LONG_TERM, "daily activity", "A", tokens=400, priority=40, most=10),
    SectionName.WINDOW: SectionRule(Layer.WORKING, "last messages", "W", 0.2, tokens=800, priority=75),
}
INSTRUCTIONS = frozenset({SectionName.CORE, SectionName.CHARACTERISTICS})
"""The agent's own definition; all other sections are data, in blocks."""
_OF_THE_PRESENT = frozenset(
    {
        SectionName.EARLIER,
        SectionName.SUMMARY,
        SectionName.WINDOW,
        SectionName.DELEGATED,
        SectionName.PROFILE,
        SectionName.ANSWERS,
    }
)
_NEEDS_QUESTION = frozenset({SectionName.LONG_TERM, SectionName.TEMPORAL, SectionName.DAILY_LOG})


@quickly_made
@dataclass(frozen=True)
class ContextItem:
    """One text of a context, with its source and trust."""

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

    written: dict[tuple[int, bool], str] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Its line without the reference, by the length of the text and whether it was cut."""

    @unlocked_property
    def keys(self) -> frozenset[Hashable]:
        text = normalised(self.content)
        return frozenset({text}) if self.item_id is None else frozenset({text, self.item_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextProfile:
    """The sections of a context, with their shares of a budget."""

    name: str
    shares: Mapping[SectionName, SectionBudget]
    budget: int = BUDGET
    cache_stable: bool = False
    """Whether its beginning stays exactly the same within an epoch of the session, for prompt caches."""
    recalls_history: bool = False
    """Whether long-term memory includes what was said in other sessions of the user."""


ROUTER = ContextProfile(
    name="router", shares={name: rule for name, rule in SECTIONS.items() if name is not SectionName.EARLIER}
)
_STABLE = (
    SectionName.CORE,
    SectionName.CHARACTERISTICS,
    SectionName.KNOWLEDGE_MAP,
    SectionName.SHARED,
    SectionName.DELEGATED,
)
STABLE = ContextProfile(
    name="stable",
    shares={
        **{name: SECTIONS[name] for name in _STABLE},
        SectionName.WINDOW: replace(SECTIONS[SectionName.WINDOW], tokens=1_900),
    },
    cache_stable=True,
)
_START = (
    SectionName.CORE,
    SectionName.CHARACTERISTICS,
    SectionName.KNOWLEDGE_MAP,
    SectionName.SHARED,
    SectionName.PROFILE,
    SectionName.ANSWERS,
    SectionName.EARLIER,
    SectionName.SUMMARY,
    SectionName.LONG_TERM,
)
START = ContextProfile(name="start", shares={name: SECTIONS[name] for name in _START}, recalls_history=True)
PROFILES: Mapping[str, ContextProfile] = {profile.name: profile for profile in (ROUTER, STABLE, START)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """The tenant's setting `context`: its default profile, and its own profiles."""

    profile: str = ROUTER.name
    profiles: Mapping[str, ContextProfile] = field(default_factory=lambda: PROFILES)

    @classmethod
    def read(cls, setting: object) -> ContextSettings:
        """Read `{"profile": "support", "profiles": {"support": {…}}}`, or raise `InvalidInput`.

        A profile is, for example, `{"base": "router", "budget": 6000, "sections": {"temporal": null,
        "long_term": {"tokens": 1200, "most": 8, "priority": 60}}}`: a missing value is that of the base, null removes a
        section.
        """
        if setting is None:
            return cls()
        values = _object("context", setting, {"profile", "profiles"})
        profiles = dict(PROFILES)
        own = _object("context.profiles", values.get("profiles", {}))
        if len(own) > MOST_PROFILES:
            raise InvalidInput(f"context.profiles may have at most {MOST_PROFILES} profiles", field="context")
        for name, value in own.items():
            if name in PROFILES or not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", name):
                raise InvalidInput(
                    "the name of your own profile must consist of small letters, digits, - and _, and must not be "
                    f"{' or '.join(PROFILES)}",
                    field="context",
                )
            profiles[name] = _profile(name, value)
        default = values.get("profile", ROUTER.name)
        if default not in profiles:
            raise InvalidInput(f"context.profile must be one of {', '.join(profiles)}", field="context")
        return cls(profile=str(default), profiles=profiles)

    def find(self, name: str | None) -> ContextProfile:
        """The profile with this name, or the tenant's default."""
        profile = self.profiles.get(name or self.profile)
        if profile is None:
            raise InvalidInput(f"there is no such profile; use one of {', '.join(self.profiles)}", field="profile")
        return profile


def _profile(name: str, value: object) -> ContextProfile:
    values = _object(f"context.profiles.{name}", value, {"base", "budget", "sections"})
    base = PROFILES.get(str(values.get("base", ROUTER.name)))
    if base is None:
        raise InvalidInput(f"context.profiles.{name}.base must be one of {', '.join(PROFILES)}", field="context")
    budget = checked_budget(values.get("budget", base.budget), field="context")
    shares = dict(base.shares)
    for key, share in _object(f"context.profiles.{name}.sections", values.get("sections", {})).items():
        if key not in frozenset(SectionName):
            raise InvalidInput(f"there is no such section; use {', '.join(SectionName)}", field="context")
        section = SectionName(key)
        if share is None:
            shares.pop(section, None)
        else:
            default = shares.get(section, SECTIONS[section])
            shares[section] = _share(f"context.profiles.{name}.sections.{section}", share, default)
    return replace(base, name=name, budget=budget, shares=shares)


def _share(path: str, value: object, default: SectionBudget) -> SectionBudget:
    values = _object(path, value, {"tokens", "priority", "most"})
    most = values.get("most", default.most)
    return SectionBudget(
        tokens=_number(f"{path}.tokens", values.get("tokens", default.tokens), 1, MOST_BUDGET),
        priority=_number(f"{path}.priority", values.get("priority", default.priority), 0, 100),
        most=None if most is None else _number(f"{path}.most", most, 1, 20),
    )


def _object(path: str, value: object, keys: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} must be an object", field="context")
    if keys is not None and (unknown := value.keys() - keys):
        names = ", ".join(map(repr, sorted(unknown)))
        raise InvalidInput(f"{path} has no {names}; use {', '.join(sorted(keys))}", field="context")
    return value


def _number(path: str, value: object, least: int, most: int, *, field: str = "context") -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"{path} must be a whole number from {least} to {most}", field=field)
    return value


def checked_budget(budget: object, *, field: str = "budget") -> int:
    return _number("budget", budget, LEAST_BUDGET, MOST_BUDGET, field=field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a plan depends on: the question, its time, and the identity."""

    question: str | None
    now: datetime
    zone: ZoneInfo | timezone
    has_agent: bool
    has_session: bool
    has_run: bool
    is_past: bool = False
    """Whether `now` is an earlier moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The sections to fetch with their shares, why others are left out, and the properties of the question."""

    profile: ContextProfile
    budget: int
    shares: Mapping[SectionName, SectionBudget]
    left_out: Mapping[SectionName, str]
    interval: Interval | None
    multi_step: bool


def plan(situation: Situation, profile: ContextProfile, *, budget: int | None = None) -> Plan:
    """Decide which sections a question gets, in well under 10 ms (C2)."""
    question = situation.question
    interval = question_interval(question, now=situation.now, zone=situation.zone) if question else None
    left_out = {
        name: reason for name in SectionName if (reason := _why_not(name, situation, profile, interval)) is not None
    }
    total = profile.budget if budget is None else checked_budget(budget)
    return Plan(
        profile=profile,
        budget=total,
        shares={
            name: share.scaled(total / profile.budget) for name, share in profile.shares.items() if name not in left_out
        },
        left_out=left_out,
        interval=interval,
        multi_step=question is not None and is_multi_step(question),
    )


def _why_not(name: SectionName, situation: Situation, profile: ContextProfile, interval: Interval | None) -> str | None:
    """Why a section is left out; None when it is part of the context."""
    agents = {SectionName.CORE, SectionName.CHARACTERISTICS, SectionName.DAILY_LOG}
    reasons = (
        (name not in profile.shares, "not in the profile"),
        (name in agents and not situation.has_agent, "no agent is named"),
        (name is SectionName.DELEGATED and not situation.has_run, "no run is named"),
        (name in {SectionName.SUMMARY, SectionName.WINDOW} and not situation.has_session, "no session is named"),
        (situation.is_past and name in _OF_THE_PRESENT, "it exists only for the present"),
        (name in _NEEDS_QUESTION and situation.question is None, "there is no question"),
        (name is SectionName.EARLIER and situation.question is not None, "there is a question: it is recalled for"),
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
    """Whether a question is about recent activity: by its words, and by a time that is not long ago."""
    is_recent = interval is None or (
        (interval.end is None or interval.end >= now - RECENT) and (interval.start is None or interval.start <= now)
    )
    return is_recent and _ACTIVITY.search(question[:2_000]) is not None
