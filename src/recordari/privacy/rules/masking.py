"""Masking: personal data and secrets are removed from a text before it is used (S3).

The policy of the tenant masks, drops or keeps each finding. Characters that hide words from a reader are removed too.
Names of people are not detected: no rule finds them precisely, and a memory without names is of no use.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from recordari.errors import InvalidInput
from recordari.privacy.rules.contacts import addresses_in, births_in, emails_in, machines_in, phones_in
from recordari.privacy.rules.findings import DataType, Finding, PreparedText
from recordari.privacy.rules.numbers import numbers_in
from recordari.privacy.rules.secrets import is_secret_under, secrets_in

HIDDEN = "hidden_character"  # counted beside the types
MAX_PASSES = 8
SHORTEST_KEY = 16  # characters: no issuer's keys are shorter
MAX_DEPTH = 40
SHORTEST_NUMBER = 10**6  # a number in JSON that may be somebody's
LONGEST_NAMED = 64  # characters of a value that its name can explain
SHORTEST_TAGGED = 6  # characters
_WORD_BREAK = re.compile(r"[_.\s-]+|(?<=[a-z0-9])(?=[A-Z])")
_MEASURE = re.compile(
    r"(?i:[_.-]|^)(?:at|ts|time|timestamp|date|ms|seconds|count|size|bytes|tokens|version|port)$|(?:At|Time|Date|Count)$"
)
_SHORT_CODE = re.compile(r"(?i)\b(?:pin|cvv2?|cvc2?)(?:[ _-]?code)?$")
_GROUPING = re.compile(r"[\s()+./-]+")

Tag = Callable[[str], str]
"""Gives a value a few letters: always the same for the same value, and of no use to somebody who guesses at it."""


class Action(StrEnum):
    MASK = "mask"
    DROP = "drop"
    KEEP = "keep"


# People want an assistant to remember streets and birthdays, and many other texts look like them.
_KEEP_BY_DEFAULT = frozenset({DataType.STREET_ADDRESS, DataType.BIRTH_DATE})
_DEFAULT_ACTIONS = {each: Action.KEEP if each in _KEEP_BY_DEFAULT else Action.MASK for each in DataType}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyPolicy:
    """The action of a tenant for each type of data."""

    enabled: bool = True
    actions: Mapping[DataType, Action] = field(default_factory=lambda: _DEFAULT_ACTIONS)

    @classmethod
    def read(cls, setting: object) -> PrivacyPolicy:
        """Read the setting `privacy` of a tenant; `InvalidInput` if it is wrong.

        `{"enabled": true, "default": "mask", "email": "keep", …}`; every key is optional. `default` is the action for
        types that are not named; without it streets and dates of birth are kept and the rest is masked.
        """
        if setting is None:
            return cls()
        if not isinstance(setting, dict):
            raise InvalidInput("privacy must be an object, such as {'email': 'keep'}", field="privacy")
        rest = dict(setting)
        enabled = rest.pop("enabled", True)
        if not isinstance(enabled, bool):
            raise InvalidInput("privacy.enabled must be true or false", field="privacy")
        actions = dict(_DEFAULT_ACTIONS)
        if "default" in rest:
            actions = dict.fromkeys(DataType, _action("default", rest.pop("default")))
        for name, action in rest.items():
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
    """A text after the policy, and how often each type was masked or dropped."""

    text: str
    counts: Mapping[str, int]


def find(text: str) -> tuple[Finding, ...]:
    """Find all personal data and secrets of a text, in order and without overlaps."""
    shown, removed = visible(text)
    findings = _find(shown)
    return _in_original(findings, removed) if removed else findings


def holds_secret(text: str) -> bool:
    shown, _ = visible(text)
    return any(True for _ in secrets_in(PreparedText.of(plain_forms(shown))))


def sanitise(text: str, *, policy: PrivacyPolicy, tag: Tag | None = None) -> Sanitised:
    """Apply the policy to a text. A second time changes nothing more.

    With a `tag` different values have different masks, so that two addresses do not become the same fact.
    """
    if not policy.enabled or _is_word(text):
        return Sanitised(text=text, counts={})
    counts: Counter[str] = Counter()
    leave = frozenset(each for each in _KEEP_BY_DEFAULT if policy.actions[each] is Action.KEEP)
    # A removal can join other characters to a new finding, so that the search is repeated until there is none.
    for _ in range(MAX_PASSES):
        text, removed = visible(text)
        if removed:
            counts[HIDDEN] += sum(end - start for start, end in removed)
        findings = [each for each in _find(text, leave=leave) if policy.actions[each.type] is not Action.KEEP]
        if not findings:
            break
        counts.update(str(each.type) for each in findings)
        text = _replaced(text, findings, policy, tag)
    return Sanitised(text=text, counts=counts)


def sanitise_value(value: Any, *, policy: PrivacyPolicy, tag: Tag | None = None) -> tuple[Any, Mapping[str, int]]:
    """Apply the policy to every text and every long number in a JSON value; other values stay as they are.

    The key is the context: `{"password": "…"}` contains a secret, whatever it looks like, `{"phone": 4155550132}` a number.
    """
    walk = _Walk(policy=policy, tag=tag, counts=Counter())
    return (_value(value, walk, depth=0) if policy.enabled else value), walk.counts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    policy: PrivacyPolicy
    tag: Tag | None
    counts: Counter[str]

    def text(self, text: str) -> str:
        cleaned = sanitise(text, policy=self.policy, tag=self.tag)
        self.counts.update(cleaned.counts)
        return cleaned.text


def _value(value: Any, walk: _Walk, *, depth: int, name: str = "") -> Any:
    if depth > MAX_DEPTH:
        return value
    match value:
        case bool():
            return value
        case str():
            cleaned = walk.text(value)
            return cleaned if cleaned != value or not name else _named_value(name, value, walk)
        case int() if abs(value) >= (100 if _SHORT_CODE.search(name) else SHORTEST_NUMBER):
            masked = _named_value(name, str(value), walk)
            return value if masked == str(value) else masked
        case list():
            return [_value(each, walk, depth=depth + 1, name=name) for each in value]
        case dict():
            return _members(value, walk, depth=depth)
        case _:
            return value


def _named_value(name: str, value: str, walk: _Walk) -> str:
    """A value that only its name explains: `{"phone": "4155550132"}`, `{"nino": "QQ123456C"}`."""
    if len(value) > LONGEST_NAMED or not any(map(str.isdigit, value)) or _MEASURE.search(name):
        return value
    # `phoneNumber` and `phone_number` are words.
    prefix = f"{_WORD_BREAK.sub(' ', name)}: "
    actions = walk.policy.actions
    for each in _find(prefix + value):
        if each.start == len(prefix) and each.end == len(prefix) + len(value) and actions[each.type] is not Action.KEEP:
            walk.counts[str(each.type)] += 1
            return _mask(each.type, value, walk.tag) if actions[each.type] is Action.MASK else ""
    return value


def _members(value: dict[Any, Any], walk: _Walk, *, depth: int) -> dict[Any, Any]:
    members: dict[Any, Any] = {}
    action = walk.policy.actions[DataType.SECRET]
    for name, each in value.items():
        key = _value(name, walk, depth=depth + 1)
        # Two names may look the same after masking; no value is lost.
        while key != name and (key in members or key in value):
            key += "′"
        is_text = isinstance(name, str) and isinstance(each, str)
        if action is not Action.KEEP and is_text and is_secret_under(name, each):
            walk.counts[str(DataType.SECRET)] += 1
            members[key] = DataType.SECRET.mask if action is Action.MASK else ""
        else:
            members[key] = _value(each, walk, depth=depth + 1, name=name if isinstance(name, str) else "")
    return members


_ORDER = {each: index for index, each in enumerate(DataType)}


def _find(text: str, *, leave: frozenset[DataType] = frozenset()) -> tuple[Finding, ...]:
    """Find everything except the types to `leave`, which are last in precedence."""
    if _is_word(text):
        return ()
    prepared = PreparedText.of(plain_forms(text))
    findings = [*secrets_in(prepared), *machines_in(prepared), *numbers_in(prepared)]
    if "@" in prepared.plain or prepared.mentions("at]", "at)", "at}", " dot "):
        findings += emails_in(prepared)
    if prepared.numeric:
        findings += phones_in(prepared)
    if DataType.BIRTH_DATE not in leave:
        findings += births_in(prepared)
    if DataType.STREET_ADDRESS not in leave:
        findings += addresses_in(prepared)
    return _without_overlaps(findings, len(text)) if findings else ()


def _is_word(text: str) -> bool:
    """Whether a text is a name or a word: findings have digits, signs or blanks."""
    return len(text) < SHORTEST_KEY and text.isascii() and text.isalpha()


def _without_overlaps(findings: Iterable[Finding], length: int) -> tuple[Finding, ...]:
    taken = bytearray(length)
    result = []
    for each in sorted(findings, key=lambda each: (_ORDER[each.type], each.start, -each.end)):
        if taken.find(1, each.start, each.end) < 0:
            taken[each.start : each.end] = b"\x01" * (each.end - each.start)
            result.append(each)
    return tuple(sorted(result, key=lambda each: each.start))


def _replaced(text: str, findings: Iterable[Finding], policy: PrivacyPolicy, tag: Tag | None) -> str:
    parts, done = [], 0
    for each in findings:
        parts.append(text[done : each.start])
        if policy.actions[each.type] is Action.MASK:
            parts.append(_mask(each.type, text[each.start : each.end], tag))
        done = each.end
    parts.append(text[done:])
    return "".join(parts)


def _mask(data_type: DataType, value: str, tag: Tag | None) -> str:
    # A secret leaves nothing behind. A code of a few digits could be found by trying them all.
    if tag is None or data_type is DataType.SECRET or len(value) < SHORTEST_TAGGED:
        return data_type.mask
    plain = plain_forms(value).casefold()
    if data_type is not DataType.EMAIL:  # however it is grouped, and with + or 00 before the country
        plain = _GROUPING.sub("", plain)
        plain = plain.lstrip("0") if data_type is DataType.PHONE else plain
    return data_type.tagged(tag(f"{data_type}:{plain}"))


def _in_original(findings: Iterable[Finding], removed: Removed) -> tuple[Finding, ...]:
    """Return the findings with their positions in the text that still has its hidden characters."""
    # The position of each removed span in the text without them, and the number of characters removed before.
    positions, gone = [], [0]
    for start, end in removed:
        positions.append(start - gone[-1])
        gone.append(gone[-1] + end - start)
    return tuple(
        Finding(
            each.start + gone[bisect_right(positions, each.start)],
            each.end + gone[bisect_right(positions, each.end - 1)],
            each.type,
        )
        for each in findings
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
    """Return the text without hidden characters, and the spans that were removed."""
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
    """Return whether writing needs the character between the one before and the one after."""
    code = ord(character)
    if code in (0x200C, 0x200D):  # joiners
        if _JOINED_SCRIPT.match(before):
            return True
        return code == 0x200D and bool(_EMOJI.match(before)) and bool(_EMOJI.match(after))
    if 0xFE00 <= code <= 0xFE0F or 0x180B <= code <= 0x180F:  # variation selectors: after their base
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
    """Return the text with full-width letters, digits of other scripts, dashes and spaces in their ASCII forms.

    The length is the same, so that positions are the same.
    """
    return text if text.isascii() else text.translate(_plain_table())


@cache
def _plain_table() -> dict[int, str]:
    table = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    for code in (*range(0x660, 0x1FFF), *range(0xA620, 0xAC00), *range(0x104A0, 0x1FBFA)):
        if unicodedata.category(chr(code)) == "Nd":
            table[code] = str(unicodedata.digit(chr(code)))
    table |= dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
    table |= dict.fromkeys((*range(0x2010, 0x2016), 0x2212, 0xFE58, 0xFE63), "-")
    return table
