"""Entries: JSON documents by namespace and key, stored until you delete them or they expire.

They belong to a user, an agent or the tenant. You read them by key, filter them by fields and search them by meaning;
recall finds them like any other item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from recordari.core.checks import check_text
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Scope, optional_choice, require_owner
from recordari.errors import InvalidInput

MAX_VALUE_BYTES = 1024 * 1024
MAX_NAME_BYTES = 2_000  # namespace and key together are in an index, whose entries are bounded
MAX_LABELS = 20
MAX_PAGE = 1_000
LONGEST_TTL = timedelta(days=3650)
ANY_LABEL = "*"

_LABEL_END = "\x1f"
_OPERATORS = {"$eq": "==", "$ne": "==", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_STEP = re.compile(r"([^.\[\]]+)|\[(-?\d+|\*)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    __pydantic_config__ = DESCRIBED

    entry_id: UUID
    scope: Scope
    owner_id: str
    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    version: int
    item_id: UUID | None
    """The item that recall finds; null: it is not indexed."""
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "namespace", tuple(self.namespace))

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntry(Entry):
    """A document of a search, with its score."""

    __pydantic_config__ = DESCRIBED

    score: float | None
    """Higher is better; null without a query, and for a document that does not answer it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryName:
    scope: Scope
    owner_id: str
    namespace: tuple[str, ...]
    key: str = ""

    @property
    def path(self) -> str:
        """The namespace as one text, a prefix of every namespace below it."""
        return "".join(label + _LABEL_END for label in self.namespace)


def entry_name(
    identity: Identity, scope: Scope | str | None, namespace: Sequence[str], key: str | None = None
) -> EntryName:
    """Check the name of an entry, or of a namespace. Without a scope it belongs to the user if there is one, else the agent."""
    scope = optional_choice("scope", Scope, scope) or (
        Scope.AGENT if identity.user_id is None and identity.agent_id is not None else Scope.USER
    )
    if scope is Scope.SESSION:
        raise InvalidInput("an entry cannot have the scope session; use user, agent or tenant", field="scope")
    require_owner(scope, identity, None)
    owner = {Scope.USER: identity.user_id, Scope.AGENT: identity.agent_id}.get(scope) or ""
    if isinstance(namespace, str) or len(namespace) > MAX_LABELS:
        raise InvalidInput(f"namespace must be a list of at most {MAX_LABELS} labels", field="namespace")
    labels = tuple(_checked("namespace", label) for label in namespace)
    name = EntryName(scope=scope, owner_id=owner, namespace=labels, key=_checked("key", key) if key is not None else "")
    if len((name.path + name.key).encode()) > MAX_NAME_BYTES:
        raise InvalidInput(f"namespace and key must have at most {MAX_NAME_BYTES} bytes together", field="key")
    return name


def _checked(field: str, text: object) -> str:
    if not isinstance(text, str) or not text or any(character < " " for character in text):
        raise InvalidInput(f"{field} must be text that is not empty and has no control characters", field=field)
    check_text(field, text)
    return text


def checked_ttl(ttl: timedelta | None) -> timedelta | None:
    if ttl is None:
        return None
    if not timedelta(0) < ttl <= LONGEST_TTL:
        raise InvalidInput(f"ttl must be longer than 0 and at most {LONGEST_TTL.days} days", field="ttl")
    return timedelta(seconds=max(1, round(ttl.total_seconds())))


def indexed_text(value: Mapping[str, Any], index: Sequence[str] | bool | None) -> str | None:
    """Return the searchable text of a value: all its texts, those of some fields, or none (None)."""
    fields = ["$"] if index is None or index is True else index or []
    texts = [text for path in fields for text in _texts(value if path == "$" else _at(value, path))]
    return "\n".join(dict.fromkeys(texts)) or None


def _at(value: Any, path: str) -> list[Any]:
    """Return the values at a path such as `title`, `author.name`, `chapters[*].text` or `tags[-1]`."""
    steps = list(_STEP.finditer(path))
    if "".join(match[0] for match in steps) != path.replace(".", "") or not steps:
        raise InvalidInput("a path of index must look like `title`, `author.name` or `chapters[*].text`", field="index")
    values = [value]
    for match in steps:
        values = [inner for each in values for inner in _step(each, match[1], match[2])]
    return values


def _step(value: Any, name: str | None, index: str | None) -> list[Any]:
    if name is not None:
        return [value[name]] if isinstance(value, Mapping) and name in value else []
    if not isinstance(value, list):
        return []
    if index == "*":
        return value
    number = int(index or 0)
    return [value[number]] if -len(value) <= number < len(value) else []


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value] if value.strip() else []
        case int() | float() if not isinstance(value, bool):
            return [str(value)]
        case list() | Mapping():
            inner = value.values() if isinstance(value, Mapping) else value
            return [text for each in inner for text in _texts(each)]
        case _:
            return []


def filter_path(fields: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """Return a filter as a JSON path predicate and its values.

    A field is compared with a value, or with operators: `{"status": "open", "score": {"$gte": 3}}`. An object without
    operators compares its own fields, a list must be equal.
    """
    values: dict[str, Any] = {}
    conditions = _conditions("$", fields or {}, values)
    return " && ".join(conditions) or "1 == 1", values


def _conditions(path: str, fields: Mapping[str, Any], values: dict[str, Any]) -> list[str]:
    return [
        condition
        for name, value in fields.items()
        for condition in _compared(f"{path}.{json.dumps(str(name))}", value, values)
    ]


def _compared(path: str, value: Any, values: dict[str, Any]) -> list[str]:
    if isinstance(value, Mapping):
        if not any(str(name).startswith("$") for name in value):
            return [f'({path}.type() == "object")', *_conditions(path, value, values)]
        return [_operated(path, str(operator), each, values) for operator, each in value.items()]
    if isinstance(value, list | tuple):
        parts = [f'({path}.type() == "array")', f"({path}.size() == {len(value)})"]
        for number, each in enumerate(value):
            parts.extend(_compared(f"{path}[{number}]", each, values))
        return parts
    return [_operated(path, "$eq", value, values)]


def _operated(path: str, operator: str, value: Any, values: dict[str, Any]) -> str:
    if operator not in _OPERATORS:
        raise InvalidInput(f"a filter knows the operators {', '.join(_OPERATORS)}", field="filter")
    if isinstance(value, Mapping | list | tuple):
        if operator not in {"$eq", "$ne"}:
            raise InvalidInput("a filter orders numbers and texts only", field="filter")
        same = " && ".join(_compared(path, value, values))
    elif value is None and operator in {"$eq", "$ne"}:
        same = f"!exists({path}) || {path} == null"  # a missing field counts as null
    else:
        name = f"v{len(values)}"
        values[name] = value
        # A path looks into a list by itself, but a list does not equal its members.
        same = f'{path}.type() != "array" && {path} {_OPERATORS[operator]} ${name}'
    # Values of different types are unequal: their comparison is unknown.
    return f"(!({same}) || ({same}) is unknown)" if operator == "$ne" else f"({same})"


def matching(
    namespaces: Sequence[tuple[str, ...]],
    *,
    prefix: Sequence[str] = (),
    suffix: Sequence[str] = (),
    max_depth: int | None = None,
) -> list[tuple[str, ...]]:
    """Return the namespaces with this prefix and suffix (`*` is any label), cut to a depth, each once and in order."""
    return sorted(
        {
            labels[:max_depth]
            for labels in namespaces
            if len(labels) >= max(len(prefix), len(suffix))
            and _same(labels[: len(prefix)], prefix)
            and _same(labels[len(labels) - len(suffix) :], suffix)
        }
    )


def _same(labels: Sequence[str], pattern: Sequence[str]) -> bool:
    return all(expected in {ANY_LABEL, label} for label, expected in zip(labels, pattern, strict=True))
