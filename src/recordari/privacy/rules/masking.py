"""Personal data and secrets are taken out of a text before anything is made of it (S3).

What is found is masked, dropped or kept by the tenant's policy. Characters that hide words from a reader are taken out
too. Names of people are not looked for: no rule finds them precisely, and a memory without names is of no use.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from recordari.errors import InvalidInput
from recordari.privacy.rules.contacts import addresses_in, births_in, emails_in, machines_in, phones_in
from recordari.privacy.rules.findings import DataType, Finding, Text
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


_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000e0000-\U000e0fff]+"
)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]")
_JOINED_SCRIPT = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u0e00-\u109f\u1700-\u18af\u1900-\u1aaf\u1b00-\u1c7f\ua800-\uabff"
    "\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff]"
)
_UNSPACED_SCRIPT = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1900-\u1aaf\u1b00-\u1b7f\ua9e0-\uaa7f]")
_EMOJI = re.compile("[\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff\U0001f3fb-\U0001f3ff\ufe0f\u20e3]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_HANGUL = re.compile("[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff\u3131-\u318e\uffa1-\uffdc]")
_MONGOLIAN = re.compile("[\u1800-\u18af]")
# England, Scotland, Wales and their like: a black flag, the region in tag letters, the closing tag.
_REGION = re.compile("[\U000e0030-\U000e0039\U000e0061-\U000e007a]{4,6}\U000e007f")

Removed = tuple[tuple[int, int], ...]


def visible(text: str) -> tuple[str, Removed]:
    """The text without what hides in it, and which stretches were taken out."""
    if text.isascii() or _HIDDEN.search(text) is None:
        return text, ()
    has_right_to_left = _RIGHT_TO_LEFT.search(text) is not None
    parts: list[str] = []
    removed: list[tuple[int, int]] = []
    done, last = 0, ""
    for match in _HIDDEN.finditer(text):
        start, end = match.span()
        parts.append(text[done:start])
        last = text[start - 1] if start > done else last
        following = text[end] if end < len(text) else ""
        region = _REGION.match(text, start) if last == "\U0001f3f4" else None
        for index in range(start, end):
            character = text[index]
            in_flag = region is not None and index < region.end()
            after = text[index + 1] if index + 1 < end else following
            if in_flag or _is_honest(character, last, after, has_right_to_left=has_right_to_left):
                parts.append(character)
                last = character
            elif removed and removed[-1][1] == index:
                removed[-1] = (removed[-1][0], index + 1)
            else:
                removed.append((index, index + 1))
        done = end
    parts.append(text[done:])
    return "".join(parts), tuple(removed)


def _is_honest(character: str, before: str, after: str, *, has_right_to_left: bool) -> bool:
    """Whether writing needs the character where it stands: between the last one kept and the next one."""
    code = ord(character)
    if code in (0x200C, 0x200D):  # joiners
        if _JOINED_SCRIPT.match(before):
            return True
        return code == 0x200D and bool(_EMOJI.match(before)) and bool(_EMOJI.match(after))
    if 0xFE00 <= code <= 0xFE0F or 0x180B <= code <= 0x180F:  # variation selectors: one after what it varies
        if code >= 0xFE00:
            return bool(before) and not before.isspace() and not _HIDDEN.match(before)
        return bool(_MONGOLIAN.match(before))
    if 0xE0100 <= code <= 0xE01EF:
        return bool(_HAN.match(before))
    if code == 0x200B:
        return bool(_UNSPACED_SCRIPT.match(before) or _UNSPACED_SCRIPT.match(after))
    if code in (0x200E, 0x200F, 0x061C, 0x034F, 0x202A, 0x202B, 0x202C) or 0x2066 <= code <= 0x2069:
        return has_right_to_left
    if code in (0x115F, 0x1160, 0x3164, 0xFFA0):
        return bool(_HANGUL.match(before) or _HANGUL.match(after))
    return False


def plain_forms(text: str) -> str:
    """The text with full-width letters, other scripts' digits, and every dash and space in their ASCII form.

    It has the same length, so that a place found in it is the place in the text.
    """
    if text.isascii():
        return text
    return text.translate(_plain_table())


@cache
def _plain_table() -> dict[int, str]:
    table = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    for code in (*range(0x660, 0x1FFF), *range(0xA620, 0xAC00), *range(0x104A0, 0x1FBFA)):
        if unicodedata.category(chr(code)) == "Nd":
            table[code] = str(unicodedata.digit(chr(code)))
    table |= dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
    table |= dict.fromkeys((*range(0x2010, 0x2016), 0x2212, 0xFE58, 0xFE63), "-")
    return table
