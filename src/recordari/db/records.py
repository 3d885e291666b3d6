"""How the rows of a query become values: dataclasses with enums and tuples, as their fields declare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Record = dict[str, Any]


def all_as(into: type[T]) -> Callable[[list[Record]], list[T]]:
    read = reader(into)
    return lambda rows: [read(**row) for row in rows]


def first_as(into: type[T]) -> Callable[[list[Record]], T | None]:
    """Read the first row as `into`; None when there is none."""
    read = reader(into)
    return lambda rows: read(**rows[0]) if rows else None


def reader(into: type[T]) -> Callable[..., T]:
    """How a row becomes `into`: texts become members of the enums that its fields declare, arrays become tuples."""
    conversions: list[tuple[str, Callable[[Any], Any]]] = _conversions(cast("Any", into))
    if not conversions:
        return into

    def read(**row: Any) -> T:
        for name, convert in conversions:
            if row.get(name) is not None:
                row[name] = convert(row[name])
        return into(**row)

    return read


@cache
def _conversions(into: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    hints = get_type_hints(into) if is_dataclass(into) else {}
    return [(name, convert) for name, hint in hints.items() if (convert := _conversion(hint)) is not None]


def _conversion(hint: Any) -> Callable[[Any], Any] | None:
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        members: dict[str, StrEnum] = {str(member): member for member in hint}
        return lambda value: members.get(value) or hint(value)
    parts = get_args(hint)
    if NoneType in parts:
        return next((convert for part in parts if (convert := _conversion(part)) is not None), None)
    if get_origin(hint) is tuple and parts[-1:] == (...,):
        member = _conversion(parts[0])
        return tuple if member is None else lambda values: tuple(member(value) for value in values)
    return None
