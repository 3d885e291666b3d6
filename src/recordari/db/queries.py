"""Named queries: SQL is in `<stem>.sql` beside the module that uses it, one comment sentence each. And their rows as values.

A file reads::

    -- name: find_agent
    -- The definition of one agent.
    SELECT … WHERE tenant_id = %(tenant_id)s AND agent_id = %(agent_id)s

The columns of an item are written `{item_columns}`, or `{i.item_columns}` where the table has the alias i.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache, lru_cache
from importlib import resources
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from recordari.core.items import READ_COLUMNS, WRITTEN_COLUMNS

T = TypeVar("T")
Record = dict[str, Any]

_HEADER = re.compile(r"^-- name: (\w+)\n-- (.+)\n", re.MULTILINE)
_COLUMNS = re.compile(r"\{(\w\.)?(item_columns|written_columns|written_values|written_arrays)\}")
_PLACEHOLDER = re.compile(r"%\((\w+)\)[sb]")


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    purpose: str
    sql: str
    binary: bool = False
    """Whether its rows come in binary form, which is faster to read."""
    is_planned_anew: bool = False
    """Whether it is planned each time, for its parameters: a plan for all tenants cannot use one tenant's index."""
    is_delegated: bool = False
    """Whether a cluster runs it as a function on the node of the tenant (`recordari.db.delegation`)."""

    def filled(self, **fragments: str | int) -> Query:
        """The same query with its `{placeholders}` replaced by our own fragments or by whole numbers."""
        text: str = self.sql
        for name, fragment in fragments.items():
            text = text.replace(f"{{{name}}}", str(fragment))
        return replace(self, sql=text)

    @property
    def numbered(self) -> tuple[str, tuple[str, ...]]:
        """The SQL with `$1`, `$2` … as the server reads it, and the names in that order."""
        return _numbered(self.sql)


_DELEGATED: dict[str, Query] = {}


def delegated(query: Query) -> Query:
    """The same query, which a cluster runs as a function on the node of the tenant: for statements that are run often."""
    marked = _DELEGATED[query.name] = replace(query, is_delegated=True)
    return marked


def delegated_queries() -> list[Query]:
    """The queries that the modules of this process have marked."""
    return list(_DELEGATED.values())


@lru_cache(maxsize=256)
def _numbered(text: str) -> tuple[str, tuple[str, ...]]:
    names: dict[str, int] = {}
    numbered = _PLACEHOLDER.sub(lambda match: f"${names.setdefault(match.group(1), len(names) + 1)}", text)
    return numbered.replace("%%", "%"), tuple(names)


def _columns(match: re.Match[str]) -> str:
    alias, fragment = match.group(1) or "", match.group(2)
    if fragment == "item_columns":
        return ", ".join(alias + name for name in READ_COLUMNS)
    if fragment == "written_columns":
        return ", ".join(alias + name for name in WRITTEN_COLUMNS)
    if fragment == "written_values":
        return ", ".join(f"%({name})s::{type_name}" for name, type_name in WRITTEN_COLUMNS.items())
    # Bytes go in binary: an array of them as text would be twice as long.
    return ", ".join(
        f"%({name}){'b' if type_name == 'bytea' else 's'}::{type_name}[]" for name, type_name in WRITTEN_COLUMNS.items()
    )


def with_bound(bound: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a query; `values` must not name those that the identity binds."""
    if bound.keys() & values.keys():
        raise TypeError("the tenant of a query is fixed by its identity")
    return {**bound, **values}


def columns_of(row: Any, **others: Any) -> dict[str, Any]:
    """The fields of a dataclass as parameters, with others added or replaced; a query uses those that it names."""
    return {column.name: getattr(row, column.name) for column in fields(row)} | others


class Queries:
    """The queries of the `.sql` file beside the module with this `__name__`, as attributes."""

    def __init__(self, module: str) -> None:
        package, _, leaf = module.rpartition(".")
        text = resources.files(package).joinpath(f"{leaf}.sql").read_text("utf-8")
        self.stem = stem = module.partition(".")[2]
        self._queries: dict[str, Query] = {}
        _, *parts = _HEADER.split(text)
        for name, purpose, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            if name in self._queries:
                raise ValueError(f"{stem}.sql has two queries named {name}")
            self._queries[name] = Query(f"{stem}.{name}", purpose, _COLUMNS.sub(_columns, body).strip().rstrip(";"))

    def __getattr__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(f"{self.stem}.sql has no query named {name}") from None

    def __iter__(self) -> Iterator[Query]:
        return iter(self._queries.values())


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
