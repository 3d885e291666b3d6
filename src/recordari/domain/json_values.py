"""JSON that callers hand in: checked before it is kept, and written in one way only."""

from __future__ import annotations

import json
import math
from typing import Any

from recordari.domain.given import check_text
from recordari.errors import InvalidInput

MAX_DEPTH = 32
MAX_INTEGER_BITS = 1024  # more than any float holds; far fewer than would make reading it slow


def json_text(value: object, *, field: str, sort_keys: bool = False) -> str:
    """Write a value as compact JSON, or raise `InvalidInput` for what JSON or the database cannot hold."""
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
            for each in value:
                _check(each, field, depth=depth + 1)
        case dict():
            for name, each in value.items():
                if not isinstance(name, str):
                    raise InvalidInput(f"{field} holds an object with a key that is not text", field=field)
                check_text(field, name)
                _check(each, field, depth=depth + 1)
        case _:
            raise InvalidInput(
                f"{field} holds a {type(value).__name__}, which is not JSON; use objects, lists, text, numbers, "
                "true, false and null",
                field=field,
            )
