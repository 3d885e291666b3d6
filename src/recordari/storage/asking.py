"""Queries that are sent together: asked one by one where they belong, and answered in one round trip."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from recordari.storage.queries import Query, with_bound

T = TypeVar("T")
Record = dict[str, Any]


class Asked(Generic[T]):
    """A query that only reads, with its parameters; `answer` is there once `Database.together` has sent it."""

    __slots__ = ("_found", "_parameters", "_read", "query")

    def __init__(self, query: Query, read: Callable[[list[Record]], T], **parameters: Any) -> None:
        self.query = query
        self._read = read
        self._parameters = parameters
        self._found: list[Record] | None = None

    @property
    def answer(self) -> T:
        """What was found."""
        assert self._found is not None, "it was not sent yet"
        return self._read(self._found)

    def parameters(self, bound: Mapping[str, Any]) -> Mapping[str, Any]:
        """The parameters by name; those that are bound cannot be given."""
        return with_bound(bound, self._parameters)

    def answered(self, rows: list[Record]) -> None:
        """Note what was found."""
        self._found = rows


def all_as(into: type[T]) -> Callable[[list[Record]], list[T]]:
    """Read every row as `into`."""
    return lambda rows: [into(**row) for row in rows]


def first_as(into: type[T]) -> Callable[[list[Record]], T | None]:
    """Read the first row as `into`; None when there is none."""
    return lambda rows: into(**rows[0]) if rows else None
