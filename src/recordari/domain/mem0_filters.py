"""Filters as mem0's client writes them: fields, comparisons and AND, OR, NOT; and whose memories they name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from recordari.errors import InvalidInput

OWNERS = ("user_id", "agent_id", "app_id", "run_id")
ANY = "*"
MAX_DEPTH = 8


def owners_in(filters: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each owner that the filters name: `{"user_id": "ana"}` is one, an OR of two users are two."""
    found = _named(filters, 0)
    return [owner for place, owner in enumerate(found) if owner and owner not in found[:place]]


def _named(filters: Mapping[str, Any], depth: int) -> list[dict[str, str]]:
    """What the conditions name together: one map for each way to fulfil them."""
    if depth > MAX_DEPTH:
        raise InvalidInput("filters are nested too deeply", field="filters")
    ways: list[list[dict[str, str]]] = []
    for name, wanted in filters.items():
        if name in OWNERS:
            ways.append([{name: each} for each in _values(wanted) if each != ANY] or [{}])
        elif name == "AND" and isinstance(wanted, list):
            ways.extend(_named(each, depth + 1) for each in wanted if isinstance(each, Mapping))
        elif name == "OR" and isinstance(wanted, list):
            ways.append(
                [way for each in wanted if isinstance(each, Mapping) for way in _named(each, depth + 1)] or [{}]
            )
    return [{name: value for part in way for name, value in part.items()} for way in product(*ways)][:1000]


def _values(wanted: Any) -> list[str]:
    match wanted:
        case str() | int():
            return [str(wanted)]
        case {"in": [*values]}:
            return [str(value) for value in values]
        case {"eq": value}:
            return [str(value)]
        case _:
            return []


def fits(memory: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    """Whether a memory fits the filters; a field that it has not is looked for in its metadata."""
    return all(_fulfilled(memory, name, wanted) for name, wanted in filters.items())


def _fulfilled(memory: Mapping[str, Any], name: str, wanted: Any) -> bool:
    if name in {"AND", "OR", "NOT"}:
        each = [fits(memory, one) for one in (wanted if isinstance(wanted, list) else [wanted])]
        return {"AND": all(each), "OR": any(each), "NOT": not any(each)}[name]
    if name == "metadata" and isinstance(wanted, Mapping):
        return fits({**(memory.get("metadata") or {}), "metadata": {}}, wanted)
    value = memory[name] if name in memory else (memory.get("metadata") or {}).get(name)
    return _compared(value, wanted)


def _compared(value: Any, wanted: Any) -> bool:
    if wanted == ANY:
        return value is not None
    if not isinstance(wanted, Mapping):
        return value == wanted or (isinstance(value, list) and wanted in value)
    return all(_operated(value, operator, operand) for operator, operand in wanted.items())


def _operated(value: Any, operator: str, operand: Any) -> bool:
    try:
        match operator:
            case "eq":
                return bool(value == operand)
            case "ne":
                return bool(value != operand)
            case "in":
                return value in operand or (isinstance(value, list) and any(each in operand for each in value))
            case "nin":
                return value not in operand
            case "gt":
                return bool(value > operand)
            case "gte":
                return bool(value >= operand)
            case "lt":
                return bool(value < operand)
            case "lte":
                return bool(value <= operand)
            case "contains":
                return str(operand) in str(value)
            case "icontains":
                return str(operand).casefold() in str(value).casefold()
    except TypeError:
        return False
    raise InvalidInput("filters know eq, ne, in, nin, gt, gte, lt, lte, contains and icontains", field="filters")
