"""Named queries: SQL lives in `<stem>.sql` beside the module that uses it, one comment sentence each.

A file reads::

    -- name: find_agent
    -- The definition of one agent.
    SELECT … WHERE tenant_id = %(tenant_id)s AND agent_id = %(agent_id)s
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

_HEADER = re.compile(r"^-- name: (\w+)\n-- (.+)\n", re.MULTILINE)

_PLACEHOLDER = re.compile(r"%\((\w+)\)[sb]")


@dataclass(frozen=True, slots=True)
class Query:
    """One named SQL statement."""

    name: str
    purpose: str
    sql: str

    def filled(self, **fragments: str | int) -> Query:
        """The same query with its `{placeholders}` filled in by our own fragments or by whole numbers."""
        text: str = self.sql
        for name, fragment in fragments.items():
            text = text.replace(f"{{{name}}}", str(fragment))
        return Query(self.name, self.purpose, text)

    @property
    def numbered(self) -> tuple[str, tuple[str, ...]]:
        """The same text with `$1`, `$2` … as the server reads it, and the names in that order."""
        return _numbered(self.sql)


@lru_cache(maxsize=256)
def _numbered(text: str) -> tuple[str, tuple[str, ...]]:
    names: dict[str, int] = {}
    numbered = _PLACEHOLDER.sub(lambda match: f"${names.setdefault(match.group(1), len(names) + 1)}", text)
    return numbered.replace("%%", "%"), tuple(names)


def with_bound(bound: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a query; those that its identity binds cannot be given."""
    if bound.keys() & given.keys():
        raise TypeError("the tenant of a query is fixed by its identity")
    return {**bound, **given}


class Queries:
    """The queries of the `.sql` file beside a module, as attributes."""

    def __init__(self, module: str) -> None:
        """`module` is the `__name__` of the module that the file belongs to."""
        package, _, leaf = module.rpartition(".")
        text = resources.files(package).joinpath(f"{leaf}.sql").read_text("utf-8")
        self.stem = stem = module.partition(".")[2]
        self._queries: dict[str, Query] = {}
        headers = list(_HEADER.finditer(text))
        for header, following in zip(headers, [*headers[1:], None], strict=True):
            body = text[header.end() : following.start() if following else len(text)].strip().rstrip(";")
            name = header.group(1)
            if name in self._queries:
                raise ValueError(f"{stem}.sql has two queries named {name}")
            self._queries[name] = Query(f"{stem}.{name}", header.group(2), body)

    def __getattr__(self, name: str) -> Query:
        try:
            return self._queries[name]
        except KeyError:
            raise AttributeError(f"{self.stem}.sql has no query named {name}") from None

    def __iter__(self) -> Iterator[Query]:
        return iter(self._queries.values())
