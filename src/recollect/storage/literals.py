"""Values written out in SQL, for transactions that are sent as one message.

The driver can do it too, but looks for the way to write each value anew, which takes longer than the database needs for
the whole transaction. Only what our own queries hand over is written; anything else is refused. Strings rely on
`standard_conforming_strings`, which every connection switches on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from psycopg.types.json import Jsonb


def literal(value: object) -> str:
    """The value as SQL; numbers and lists are of the type that the query gives them."""
    if value is None:
        return "NULL"
    if type(value) in _PLAIN:
        return f"'{_text(value)}'"  # there is nothing in it to be escaped
    if isinstance(value, list | tuple):
        return _quoted("{" + ",".join([_element(one) for one in value]) + "}")
    return _quoted(value if type(value) is str else _text(value))


def halves(vector: np.ndarray) -> str:
    """A vector as `halfvec` reads it, equal in every bit to the vector in half precision.

    Whole numbers are written several times faster than fractions, and 1e-8 is finer than any half.
    """
    scaled = np.rint(vector.astype(np.float16).astype(np.float64) * 1e8).astype(np.int64)
    return "[" + "e-8,".join(map(str, scaled.tolist())) + "e-8]"


def _element(value: object) -> str:
    """The value inside an array."""
    if value is None:
        return "NULL"
    escaped = _text(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(value: object) -> str:
    """The value as PostgreSQL reads it from a string."""
    write = _WRITERS.get(type(value))
    if write is None:
        if not isinstance(value, str):
            raise TypeError(f"a value of type {type(value).__name__} cannot be written out")
        return str(value)  # of a type of ours that is text, such as a kind
    return write(value)


def _quoted(text: str) -> str:
    if "\x00" in text:
        raise ValueError("text with U+0000 cannot be written out")
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _json(value: Any) -> str:
    return json.dumps(value.obj)


_WRITERS: Mapping[type, Callable[[Any], str]] = {
    str: lambda value: value,
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    bytes: lambda value: f"\\x{value.hex()}",
    UUID: str,
    datetime: datetime.isoformat,
    Jsonb: _json,
}
_PLAIN = frozenset({bool, int, float, bytes, UUID, datetime})
