"""Values of prepared statements as they travel to the server.

The driver can write them too, but looks for the way to write each value anew, which takes longer than the database needs
for a small statement. Only what our own queries hand over is written; anything else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from psycopg.types.json import Jsonb

_TEXT, _BINARY = 0, 1


def written(values: Iterable[object]) -> tuple[list[bytes | None], list[int]]:
    """The values and the format of each; they are of the types that the query gives them.

    Raises `psycopg.DataError` for text that PostgreSQL cannot keep, before anything is sent.
    """
    found: list[bytes | None] = []
    formats: list[int] = []
    for value in values:
        if value is None:
            found.append(None)
            formats.append(_TEXT)
        elif (write := _BINARIES.get(type(value))) is not None:
            found.append(write(value))
            formats.append(_BINARY)
        else:
            text = (_array(value) if isinstance(value, list | tuple) else _text(value)).encode()
            if b"\x00" in text:
                raise psycopg.DataError("text must not contain NUL (0x00)")
            found.append(text)
            formats.append(_TEXT)
    return found, formats


def _array(values: Iterable[object]) -> str:
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: object) -> str:
    """The value inside an array."""
    if value is None:
        return "NULL"
    escaped = _text(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(value: object) -> str:
    """The value as PostgreSQL reads it from a string."""
    write = _TEXTS.get(type(value))
    if write is not None:
        return write(value)
    if not isinstance(value, str):
        raise TypeError(f"a value of type {type(value).__name__} cannot be written out")
    return str(value)  # of a type of ours that is text, such as a kind


def _halves(vector: np.ndarray) -> bytes:
    """A vector as a `halfvec`: its length, two empty bytes, and the numbers in half precision."""
    return len(vector).to_bytes(2, "big") + b"\x00\x00" + vector.astype(">f2").tobytes()


_TEXTS: Mapping[type, Callable[[Any], str]] = {
    str: lambda value: value,
    bool: lambda value: "true" if value else "false",
    int: str,
    float: repr,
    bytes: lambda value: f"\\x{value.hex()}",
    UUID: str,
    datetime: datetime.isoformat,
    Jsonb: lambda value: json.dumps(value.obj),
}
_BINARIES: Mapping[type, Callable[[Any], bytes]] = {bytes: lambda value: value, np.ndarray: _halves}
