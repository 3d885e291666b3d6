"""Personal data and secrets are taken out of a text before anything is made of it (S3).

What is found is masked, dropped or kept by the tenant's policy. Characters that hide words from a reader are taken out
too. Names of people are not looked for: no rule finds them precisely, and a memory without names is of no use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.errors import InvalidInput
from recordari.privacy.rules.contacts import addresses_in, births_in, emails_in, machines_in, phones_in
from recordari.privacy.rules.findings import DataType, Finding, Text
from recordari.privacy.rules.hidden import Removed, plain_forms, visible
from recordari.privacy.rules.numbers import numbers_in
from recordari.privacy.rules.secrets import is_secret_under, secrets_in

HIDDEN = "hidden_character"  # counted beside the types
MAX_PASSES = 8
SHORTEST_KEY = 16  # characters: no issuer's keys are shorter
MAX_DEPTH = 40


class Action(StrEnum):
    """What is done with a type of data."""

    MASK = "mask"
    DROP = "drop"
    KEEP = "keep"


# Streets and birthdays are what people want an assistant to remember, and words of many other meanings look like them.
_KEPT_BY_DEFAULT = frozenset({DataType.STREET_ADDRESS, DataType.BIRTH_DATE})
_DEFAULT_ACTIONS = {each: Action.KEEP if each in _KEPT_BY_DEFAULT else Action.MASK for each in DataType}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyPolicy:
    """What a tenant wants done with each type of data."""

    enabled: bool = True
    actions: Mapping[DataType, Action] = field(default_factory=lambda: _DEFAULT_ACTIONS)

    @classmethod
    def read(cls, setting: object) -> PrivacyPolicy:
        """The policy that a tenant's setting `privacy` describes, or `InvalidInput`.

        `{"enabled": true, "default": "mask", "email": "keep", …}`; everything may be left out. `default` is the action
        for every type that is not named; without it streets and dates of birth are kept and the rest is masked.
        """
        if setting is None:
            return cls()
        if not isinstance(setting, dict):
            raise InvalidInput("privacy must be an object, such as {'email': 'keep'}", field="privacy")
        given = dict(setting)
        enabled = given.pop("enabled", True)
        if not isinstance(enabled, bool):
            raise InvalidInput("privacy.enabled must be true or false", field="privacy")
        actions = dict(_DEFAULT_ACTIONS)
        if "default" in given:
            actions = dict.fromkeys(DataType, _action("default", given.pop("default")))
        for name, action in given.items():
            if name not in frozenset(DataType):
                raise InvalidInput(f"privacy knows no such type; use {', '.join(DataType)}", field="privacy")
            actions[DataType(name)] = _action(name, action)
        return cls(enabled=enabled, actions=actions)


def _action(name: str, action: object) -> Action:
    if action not in frozenset(Action):
        raise InvalidInput(f"privacy.{name} must be one of {', '.join(Action)}", field="privacy")
    return Action(str(action))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitised:
    """A text that may be kept, and how often each type was masked or dropped."""

    text: str
    counts: Mapping[str, int]


def find(text: str) -> tuple[Finding, ...]:
    """All personal data and secrets of a text in order, none overlapping another."""
    seen, removed = visible(text)
    found = _find(seen)
    return _in_original(found, removed) if removed else found


def holds_secret(text: str) -> bool:
    """Whether there is a secret in a text; of all that may be found, it comes first."""
    seen, _ = visible(text)
    return any(True for _ in secrets_in(Text.of(plain_forms(seen))))


def sanitise(text: str, *, policy: PrivacyPolicy) -> Sanitised:
    """Apply the policy to a text. Doing it again changes nothing more."""
    counts: Counter[str] = Counter()
    if not policy.enabled:
        return Sanitised(text=text, counts=counts)
    leave = frozenset(each for each in _KEPT_BY_DEFAULT if policy.actions[each] is Action.KEEP)
    # What is taken out can bring other things together, so that the text is looked at until nothing is found.
    for _ in range(MAX_PASSES):
        text, removed = visible(text)
        if removed:
            counts[HIDDEN] += sum(end - start for start, end in removed)
        acted = [each for each in _find(text, leave=leave) if policy.actions[each.type] is not Action.KEEP]
        if not acted:
            break
        counts.update(str(each.type) for each in acted)
        text = _replaced(text, acted, policy)
    return Sanitised(text=text, counts=counts)


def sanitise_value(value: Any, *, policy: PrivacyPolicy) -> tuple[Any, Mapping[str, int]]:
    """Apply the policy to every text inside a JSON value; what is no JSON is handed back as it is.

    The key of a text is its context: `{"password": "…"}` holds a secret whatever it looks like.
    """
    counts: Counter[str] = Counter()
    return (_value(value, policy, counts, depth=0) if policy.enabled else value), counts


def _value(value: Any, policy: PrivacyPolicy, counts: Counter[str], *, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return value
    match value:
        case str():
            cleaned = sanitise(value, policy=policy)
            counts.update(cleaned.counts)
            return cleaned.text
        case list():
            return [_value(each, policy, counts, depth=depth + 1) for each in value]
        case dict():
            return _members(value, policy, counts, depth=depth)
        case _:
            return value


def _members(value: dict[Any, Any], policy: PrivacyPolicy, counts: Counter[str], *, depth: int) -> dict[Any, Any]:
    members: dict[Any, Any] = {}
    action = policy.actions[DataType.SECRET]
    for name, each in value.items():
        key = _value(name, policy, counts, depth=depth + 1)
        if key != name:
            # Two names may look the same once they are masked; none of their values is lost.
            while key in members or key in value:
                key += "′"
        if (
            action is not Action.KEEP
            and isinstance(name, str)
            and isinstance(each, str)
            and is_secret_under(name, each)
        ):
            counts[str(DataType.SECRET)] += 1
            members[key] = DataType.SECRET.mask if action is Action.MASK else ""
        else:
            members[key] = _value(each, policy, counts, depth=depth + 1)
    return members


_ORDER = {each: index for index, each in enumerate(DataType)}


def _find(text: str, *, leave: frozenset[DataType] = frozenset()) -> tuple[Finding, ...]:
    """What there is, but for types to `leave`, which stand last in precedence and need not be looked for."""
    if len(text) < SHORTEST_KEY and text.isascii() and text.isalpha():
        return ()  # a name or a word: everything else that is found has digits, signs or blanks
    read = Text.of(plain_forms(text))
    found: list[Finding] = [*secrets_in(read), *machines_in(read), *numbers_in(read)]
    if "@" in read.plain:
        found += emails_in(read)
    if read.numeric:
        found += phones_in(read)
    if DataType.BIRTH_DATE not in leave:
        found += births_in(read)
    if DataType.STREET_ADDRESS not in leave:
        found += addresses_in(read)
    return _without_overlaps(found, len(text)) if found else ()


def _without_overlaps(found: Iterable[Finding], length: int) -> tuple[Finding, ...]:
    taken = bytearray(length)
    kept = []
    for each in sorted(found, key=lambda each: (_ORDER[each.type], each.start, -each.end)):
        if taken.find(1, each.start, each.end) < 0:
            taken[each.start : each.end] = b"\x01" * (each.end - each.start)
            kept.append(each)
    return tuple(sorted(kept, key=lambda each: each.start))


def _replaced(text: str, findings: Iterable[Finding], policy: PrivacyPolicy) -> str:
    parts, done = [], 0
    for each in findings:
        parts.append(text[done : each.start])
        if policy.actions[each.type] is Action.MASK:
            parts.append(each.type.mask)
        done = each.end
    parts.append(text[done:])
    return "".join(parts)


def _in_original(found: Iterable[Finding], removed: Removed) -> tuple[Finding, ...]:
    """The same stretches in the text that still had its hidden characters."""
    # Where each removed stretch stood in the text without them, and how much was gone by then.
    places, gone = [], [0]
    for start, end in removed:
        places.append(start - gone[-1])
        gone.append(gone[-1] + end - start)
    return tuple(
        Finding(
            each.start + gone[bisect_right(places, each.start)],
            each.end + gone[bisect_right(places, each.end - 1)],
            each.type,
        )
        for each in found
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedSource:
    """A source that memory must not copy."""

    __pydantic_config__ = DESCRIBED

    source_id: UUID
    protected_at: datetime
    texts: int
    """Texts of it that are guarded."""
