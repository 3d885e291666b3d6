"""Checks of arguments: text, times and JSON that can be stored, or an error that names the field."""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin
from uuid import UUID

from recordari.errors import InvalidInput


def check_text(field: str, text: str) -> None:
    """Raise `InvalidInput` for text that no database takes: with U+0000, or not valid Unicode."""
    if "\x00" in text:
        raise InvalidInput(f"{field} must not contain the character U+0000", field=field)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{field} contains half a surrogate pair, which is not valid text", field=field) from None


def checked_content(content: str, *, field: str = "content") -> str:
    """Return the text, or raise `InvalidInput` if it is empty or cannot be stored."""
    if not isinstance(content, str):
        raise InvalidInput(f"{field} must be text", field=field)
    if not content.strip():
        raise InvalidInput(f"{field} must not be empty", field=field)
    check_text(field, content)
    return content


def check_label(field: str, text: str, most: int) -> None:
    """Raise `InvalidInput` for a short text that is empty, too long or cannot be stored."""
    if not text.strip() or len(text) > most:
        raise InvalidInput(f"{field} must have 1 to {most} characters", field=field)
    check_text(field, text)


_NOUNS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    datetime: "a datetime",
    timedelta: "a timedelta",
    UUID: "a UUID",
    Mapping: "a dict",
    Sequence: "a list",
}


class TypeCheck(NamedTuple):
    """The classes that a value may have, that of its elements if it is a list, and how a message names them."""

    accepted: tuple[type, ...]
    noun: str
    element: type | None = None


def type_checks(declared: Mapping[str, Any]) -> dict[str, TypeCheck]:
    """The checks of the names whose declared type is simple: a number, text, a time, an id, a choice, a list, or None."""
    checks: dict[str, TypeCheck] = {}
    for name, hint in declared.items():
        options = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
        types = [_simple(option) for option in options]
        if None not in types:
            noun = " or ".join(dict.fromkeys(_NOUNS[member] for member in types if member in _NOUNS))
            # What most values are is named too: to see that a dict is a mapping, or a choice a text, takes longer.
            usual = [(int, float in types), (dict, Mapping in types)] + [
                (option, _is_choice(option)) for option in options
            ]
            accepted = tuple(member for member in types if member is not None)
            accepted += tuple(member for member, is_accepted in usual if is_accepted)
            element = next(filter(None, map(_element, options)), None)
            checks[name] = TypeCheck(accepted, f"{noun} of {element.__name__}" if element else noun, element)
    return checks


def _simple(option: Any) -> type | None:
    option = getattr(option, "__supertype__", option)
    if _is_choice(option):
        return str  # a choice may be given by its name
    if (origin := get_origin(option)) in {Mapping, dict}:
        return Mapping
    if origin in {Sequence, list}:
        return Sequence
    return option if option is NoneType or option in _NOUNS else None


def _is_choice(option: Any) -> bool:
    return isinstance(option, type) and issubclass(option, StrEnum)


def _element(option: Any) -> type | None:
    """The class of the elements of a list of ours."""
    inner = get_args(option)[:1] if get_origin(option) in {Sequence, list} else ()
    return inner[0] if inner and is_dataclass(inner[0]) and isinstance(inner[0], type) else None


def check_type(field: str, value: object, check: TypeCheck) -> None:
    """Raise `InvalidInput` for a value of another type than the declared one."""
    if type(value) not in check.accepted and not _fits(value, check):
        raise InvalidInput(f"{field} must be {check.noun}", field=field)


def _fits(value: object, check: TypeCheck) -> bool:
    if isinstance(value, bool | str | bytes):  # a bool is an int too, and a text a list
        return any(isinstance(value, each) for each in check.accepted if each in {bool, str, bytes})
    if Sequence in check.accepted and isinstance(value, Iterable) and not isinstance(value, Mapping):
        element = check.element
        return element is None or not isinstance(value, Sequence) or all(isinstance(each, element) for each in value)
    return isinstance(value, check.accepted)


MAX_REASON = 500


def check_reason(reason: str | None) -> None:
    """Raise `InvalidInput` for a reason that is too long for the audit."""
    if reason is not None and len(reason) > MAX_REASON:
        raise InvalidInput(f"reason must have at most {MAX_REASON} characters", field="reason")


def check_times(**moments: datetime | None) -> None:
    """Raise `InvalidInput` for a value that is no datetime, and for one without a time zone."""
    for name, moment in moments.items():
        if moment is not None and not isinstance(moment, datetime):
            raise InvalidInput(f"{name} must be a datetime", field=name)
        if moment is not None and moment.tzinfo is None:
            raise InvalidInput(f"{name} must carry a time zone, as in 2026-05-02T14:23:01Z", field=name)


BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
END = datetime(9999, 12, 31, tzinfo=UTC)


def check_moment(name: str, moment: datetime) -> None:
    """Raise `InvalidInput` for a time at the edge of the calendar, which could be written but not read again."""
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{name} must lie within the years 1 to 9999 in UTC", field=name) from None


MAX_DEPTH = 32
MAX_INTEGER_BITS = 1024  # more than any float holds; far fewer than would make reading it slow


def json_text(value: object, *, field: str, sort_keys: bool = False) -> str:
    """Write a value as compact JSON, or raise `InvalidInput` for a value that JSON or the database cannot hold."""
    _check(value, field, depth=0)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)


def _check(value: Any, field: str, *, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{field} is nested deeper than {MAX_DEPTH} levels", field=field)
    match value:
        case None | bool():
            pass
        case str():
            check_text(field, value)
        case int():
            if value.bit_length() > MAX_INTEGER_BITS:
                raise InvalidInput(f"{field} holds a whole number that is too large", field=field)
        case float():
            if not math.isfinite(value):
                raise InvalidInput(f"{field} holds NaN or an infinite number, which JSON does not know", field=field)
        case list():
            for member in value:
                _check(member, field, depth=depth + 1)
        case dict():
            for name, member in value.items():
                if not isinstance(name, str):
                    raise InvalidInput(f"{field} holds an object with a key that is not text", field=field)
                check_text(field, name)
                _check(member, field, depth=depth + 1)
        case _:
            raise InvalidInput(
                f"{field} holds a {type(value).__name__}, which is not JSON; use objects, lists, text, numbers, "
                "true, false and null",
                field=field,
            )


Progress = Callable[[int, int], None]
"""Called with the amount done and the total; the total is 0 while it is not known."""


def check_json(body: bytes, *, max_depth: int) -> None:
    """Raise `InvalidInput` unless the text is UTF-8, not too deep, and of storable characters and numbers."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput("the body must be UTF-8") from None
    if b"\0" in body:
        raise InvalidInput("text must not contain the character U+0000")
    if _RISKY_ESCAPE.search(body) is not None and _SOUND_ESCAPES.fullmatch(body) is None:
        raise InvalidInput("text must not contain U+0000, half of a surrogate pair, or a broken escape")
    deep = body.count(b"[") + body.count(b"{") > max_depth
    odd = b"NaN" in body or b"Infinity" in body or _HUGE_NUMBER.search(body) is not None
    if deep or odd:
        skeleton = _STRING.sub(b'""', body)
        if deep:
            _check_depth(skeleton, max_depth)
        if odd and (b"NaN" in skeleton or b"Infinity" in skeleton):
            raise InvalidInput("JSON has no NaN or Infinity")
        if odd and _HUGE_NUMBER.search(skeleton) is not None:
            raise InvalidInput("a number in the body is too large")


# Every pattern here is possessive or anchored, so that it runs in linear time on any input.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SOUND_ESCAPES = re.compile(
    rb"(?:[^\\]++|\\[^u]|\\u(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}"
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+",
    re.DOTALL,
)
_RISKY_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# More than 100 digits, or an exponent of 200 or more: together they keep every number within a double.
_HUGE_NUMBER = re.compile(rb"[0-9](?:[eE]\+?0*+(?:[2-9][0-9]{2}|[1-9][0-9]{3})|(?<![0-9][0-9])[0-9]{100})")
_SAME_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _check_depth(skeleton: bytes, max_depth: int) -> None:
    # Each pass removes the innermost brackets, at the speed of bytes.replace.
    brackets = skeleton.translate(_SAME_BRACKETS, _NOT_BRACKETS)
    if b"[" * (max_depth + 1) not in brackets:
        for _ in range(max_depth):
            brackets = brackets.replace(b"[]", b"")
    if brackets:
        raise InvalidInput(f"JSON may be nested at most {max_depth} levels deep")


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


TEXT_TYPE = "text/plain; charset=utf-8"


def is_readable(media_type: str) -> bool:
    """Whether bodies of this media type are text, JSON included; others are shown in Base64."""
    name = media_type.partition(";")[0].strip().casefold()
    return name.startswith("text/") or name == "application/json" or name.endswith("+json")
