"""Entries: JSON documents by namespace and key, kept until they are deleted or their time has passed.

What state is to a run, entries are to a user, an agent or the tenant: written and read by key. They can also be filtered by
their fields and found by meaning, and recall finds them like anything else that is remembered.
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
from recordari.core.identity import Identity, Scope
from recordari.core.items import require_owner
from recordari.errors import InvalidInput

MAX_VALUE_BYTES = 1024 * 1024
MAX_NAME_BYTES = 2_000  # namespace and key together stand in an index, whose entries are bounded
MAX_LABELS = 20
MAX_PAGE = 1_000
LONGEST_TTL = timedelta(days=3650)
ANY_LABEL = "*"

_CLOSES = "\x1f"
_OPERATORS = {"$eq": "==", "$ne": "==", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_STEP = re.compile(r"([^.\[\]]+)|\[(-?\d+|\*)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One document."""

    __pydantic_config__ = DESCRIBED

    entry_id: UUID
    scope: Scope
    owner_id: str
    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    version: int
    item_id: UUID | None
    """What recall finds of it; null: it is not indexed."""
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "namespace", tuple(self.namespace))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEntry(Entry):
    """A document of an answer; `score` is None where nothing was asked, or nothing in it answers."""

    __pydantic_config__ = DESCRIBED

    score: float | None
    """Higher is better; null where nothing was asked, or nothing in it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryName:
    """What names an entry: whose it is, where it lies and what it is called."""

    scope: Scope
    owner_id: str
    namespace: tuple[str, ...]
    key: str = ""

    @property
    def path(self) -> str:
        """The namespace as one text under which everything below it begins."""
        return "".join(label + _CLOSES for label in self.namespace)


def entry_name(
    identity: Identity, scope: Scope | None, namespace: Sequence[str], key: str | None = None, *, writes: bool = False
) -> EntryName:
    """Name an entry, or with no key a namespace: a user's if a user asks, else the agent's, unless a scope is given."""
    scope = scope or (Scope.AGENT if identity.user_id is None and identity.agent_id is not None else Scope.USER)
    if scope is Scope.SESSION:
        raise InvalidInput("an entry cannot have the scope session; use user, agent or tenant", field="scope")
    require_owner(scope, identity, None)
    owner = {Scope.USER: identity.user_id, Scope.AGENT: identity.agent_id}.get(scope) or ""
    if isinstance(namespace, str) or len(namespace) > MAX_LABELS:
        raise InvalidInput(f"namespace must be a list of at most {MAX_LABELS} labels", field="namespace")
    if writes and not namespace:
        raise InvalidInput("namespace must have a label at least", field="namespace")
    labels = tuple(_checked("namespace", label) for label in namespace)
    name = EntryName(scope=scope, owner_id=owner, namespace=labels, key=_checked("key", key) if key is not None else "")
    if len((name.path + name.key).encode()) > MAX_NAME_BYTES:
        raise InvalidInput(f"namespace and key must have at most {MAX_NAME_BYTES} bytes together", field="key")
    return name


def _checked(field: str, text: object) -> str:
    if not isinstance(text, str) or not text or any(character < " " for character in text):
        raise InvalidInput(f"{field} must be of text that is not empty and has no control characters", field=field)
    check_text(field, text)
    return text


def checked_ttl(ttl: timedelta | None) -> timedelta | None:
    """Return a lifetime in whole seconds, if it can be one."""
    if ttl is None:
        return None
    if not timedelta(0) < ttl <= LONGEST_TTL:
        raise InvalidInput(f"ttl must be longer than 0 and at most {LONGEST_TTL.days} days", field="ttl")
    return timedelta(seconds=max(1, round(ttl.total_seconds())))


def indexed_text(value: Mapping[str, Any], index: Sequence[str] | bool | None) -> str | None:
    """What recall finds of a value: all its texts, those at the fields named, or nothing (None)."""
    if index is False or (not isinstance(index, bool) and index is not None and not index):
        return None
    fields = ["$"] if index is None or index is True else list(index)
    found = [text for each in fields for text in _texts(value if each == "$" else _at(value, each))]
    return "\n".join(dict.fromkeys(found)) or None


def _at(value: Any, path: str) -> list[Any]:
    """Everything at a path such as `title`, `author.name`, `chapters[*].text` or `tags[-1]`."""
    steps = list(_STEP.finditer(path))
    if "".join(match[0] for match in steps) != path.replace(".", "") or not steps:
        raise InvalidInput("a path of index must look like `title`, `author.name` or `chapters[*].text`", field="index")
    places = [value]
    for match in steps:
        following: list[Any] = []
        for place in places:
            if match[1] is not None and isinstance(place, Mapping) and match[1] in place:
                following.append(place[match[1]])
            elif match[2] == "*" and isinstance(place, list):
                following.extend(place)
            elif match[2] not in {None, "*"} and isinstance(place, list) and -len(place) <= int(match[2]) < len(place):
                following.append(place[int(match[2])])
        places = following
    return places


def _texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value] if value.strip() else []
        case bool() | None:
            return []
        case int() | float():
            return [str(value)]
        case list():
            return [text for each in value for text in _texts(each)]
        case Mapping():
            return [text for each in value.values() for text in _texts(each)]
        case _:
            return []


def filter_path(wanted: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """A filter as a JSON path predicate and the values it names.

    A field is compared with a value, or with operators: `{"status": "open", "score": {"$gte": 3}}`. An object without
    operators compares its own fields, a list must be equal.
    """
    values: dict[str, Any] = {}
    conditions = _conditions("$", wanted or {}, values)
    return " && ".join(conditions) or "1 == 1", values


def _conditions(place: str, wanted: Mapping[str, Any], values: dict[str, Any]) -> list[str]:
    return [
        condition
        for name, each in wanted.items()
        for condition in _compared(f"{place}.{json.dumps(str(name))}", each, values)
    ]


def _compared(place: str, wanted: Any, values: dict[str, Any]) -> list[str]:
    if isinstance(wanted, Mapping):
        if not any(str(name).startswith("$") for name in wanted):
            return [f'({place}.type() == "object")', *_conditions(place, wanted, values)]
        return [_operated(place, str(operator), each, values) for operator, each in wanted.items()]
    if isinstance(wanted, list | tuple):
        parts = [f'({place}.type() == "array")', f"({place}.size() == {len(wanted)})"]
        for number, each in enumerate(wanted):
            parts.extend(_compared(f"{place}[{number}]", each, values))
        return parts
    return [_operated(place, "$eq", wanted, values)]


def _operated(place: str, operator: str, wanted: Any, values: dict[str, Any]) -> str:
    if operator not in _OPERATORS:
        raise InvalidInput(f"a filter knows the operators {', '.join(_OPERATORS)}", field="filter")
    if isinstance(wanted, Mapping | list | tuple):
        if operator not in {"$eq", "$ne"}:
            raise InvalidInput("a filter orders numbers and texts only", field="filter")
        same = " && ".join(_compared(place, wanted, values))
    elif wanted is None and operator in {"$eq", "$ne"}:
        same = f"!exists({place}) || {place} == null"  # what is not there is null
    else:
        name = f"v{len(values)}"
        values[name] = wanted
        # A path looks into a list by itself; a list is not what is in it.
        same = f'{place}.type() != "array" && {place} {_OPERATORS[operator]} ${name}'
    # Values of different types cannot be compared, which makes them unequal.
    return f"(!({same}) || ({same}) is unknown)" if operator == "$ne" else f"({same})"


def matching(
    namespaces: Sequence[tuple[str, ...]],
    *,
    prefix: Sequence[str] = (),
    suffix: Sequence[str] = (),
    max_depth: int | None = None,
) -> list[tuple[str, ...]]:
    """The namespaces that begin and end so (`*` stands for any label), cut to a depth, each once and in order."""
    fitting = [
        each
        for each in namespaces
        if len(each) >= max(len(prefix), len(suffix))
        and _same(each[: len(prefix)], prefix)
        and _same(each[len(each) - len(suffix) :], suffix)
    ]
    return sorted({each[:max_depth] for each in fitting})


def _same(labels: Sequence[str], pattern: Sequence[str]) -> bool:
    return all(wanted in {ANY_LABEL, label} for label, wanted in zip(labels, pattern, strict=True))
