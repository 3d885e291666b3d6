"""Memories of other products as they export them, read as items: mem0 and Zep.

Each reader takes what the product's own API returns, saved as JSON, and gives for every memory either an item with its owner
or the reason why it is left out. The id that the other product gave is the item's key, so that reading a file again finds
the same items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from typing import Any

from recordari.core.identity import Scope
from recordari.core.items import MAX_LABEL, Kind, NewItem, Trust
from recordari.errors import InvalidInput

MAX_ID = 200
NO_TEXT = "it has no text"
NO_OWNER = "nobody is named as its user or agent"
NO_ID = "it has no id"
ENDED = "it was no longer true"
NOT_AN_OBJECT = "it is not a JSON object"


class ForeignSource(StrEnum):
    """Where memories come from."""

    MEM0 = "mem0"
    ZEP = "zep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """A memory of another product: an item and whose it is, or why it is left out."""

    item: NewItem | None = None
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    left_out: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOwner:
    """Whose memories a part of a file holds, where the memory itself does not say."""

    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None


@dataclass(slots=True, kw_only=True)
class ImportedForeign:
    """How many memories were read, kept, known already, and left out for which reasons."""

    read: int = 0
    new: int = 0
    existing: int = 0
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def read_mem0(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """What `get_all` of mem0 returns, of the platform or of its open-source library: a list, or an object with `results`."""
    memories = document
    if isinstance(document, Mapping):
        memories = document.get("results", document.get("memories"))
        if memories is None and "memory" in document:
            memories = [document]
    if not isinstance(memories, Sequence) or isinstance(memories, str):
        raise InvalidInput("this is not what mem0's get_all returns: a list, or an object with `results`")
    for one in memories:
        yield _read_safely(_mem0_memory, one, owner)


def _mem0_memory(one: Mapping[str, Any], owner: ForeignOwner) -> Foreign:
    text = one.get("memory") or one.get("text") or one.get("data")
    user = _id(one.get("user_id")) or owner.user_id
    agent = _id(one.get("agent_id")) or _id(one.get("app_id")) or owner.agent_id
    session = _id(one.get("run_id")) or owner.session_id
    if user is None and agent is None:
        agent = session  # mem0 keeps memories of a run alone; here an agent of that name has them
    if user is None and agent is None:
        return Foreign(left_out=NO_OWNER)
    categories = one.get("categories") or []
    metadata = dict(one.get("metadata") or {})
    if session is not None:
        metadata["mem0_run_id"] = session
    item = NewItem(
        content=text if isinstance(text, str) else "",
        kind=Kind.FACT,
        scope=Scope.USER if user is not None else Scope.AGENT,
        source_ref=f"mem0:{one['id']}",
        event_time=_moment(one.get("created_at")),
        category=str(categories[0])[:MAX_LABEL] if isinstance(categories, list) and categories else None,
        metadata=metadata,
    )
    return Foreign(item=item, user_id=user, agent_id=agent)


def read_zep(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """What Zep's API returns: facts (`edges` of a user's graph) and threads or sessions with their `messages`.

    An object may hold them under `users`, each with a `user_id`; or they stand at the top, with a `user_id` beside them.
    """
    if not isinstance(document, Mapping):
        raise InvalidInput("this is no export of Zep: an object with `users`, `edges`, `threads` or `messages`")
    known = {"users", "edges", "facts", "threads", "sessions", "messages"}
    if not known & document.keys():
        raise InvalidInput(f"this is no export of Zep: it has none of {', '.join(sorted(known))}")
    user = _id(document.get("user_id")) or owner.user_id
    whose = ForeignOwner(user_id=user, agent_id=owner.agent_id, session_id=_thread_id(document) or owner.session_id)
    for one in _list(document, "users"):
        yield from read_zep({"edges": [], **one}, whose) if isinstance(one, Mapping) else _bad()
    for one in [*_list(document, "edges"), *_list(document, "facts")]:
        yield _read_safely(_zep_fact, one, whose)
    for one in [*_list(document, "threads"), *_list(document, "sessions")]:
        yield from read_zep({"messages": [], **one}, whose) if isinstance(one, Mapping) else _bad()
    for one in _list(document, "messages"):
        yield _read_safely(_zep_message, one, whose)


def _zep_fact(one: Mapping[str, Any], owner: ForeignOwner) -> Foreign:
    if one.get("invalid_at") or one.get("expired_at"):
        return Foreign(left_out=ENDED)
    if owner.user_id is None and owner.agent_id is None:
        return Foreign(left_out=NO_OWNER)
    text = one.get("fact") or one.get("content")
    item = NewItem(
        content=text if isinstance(text, str) else "",
        kind=Kind.FACT,
        scope=Scope.USER if owner.user_id is not None else Scope.AGENT,
        source_ref=f"zep:{one['uuid']}",
        event_time=_moment(one.get("valid_at")) or _moment(one.get("created_at")),
        predicate=str(one["name"])[:MAX_LABEL] if one.get("name") else None,
        metadata=dict(one.get("attributes") or {}),
    )
    return Foreign(item=item, user_id=owner.user_id, agent_id=owner.agent_id)


_TRUSTS = {"user": Trust.USER, "human": Trust.USER, "tool": Trust.TOOL, "function": Trust.TOOL}


def _zep_message(one: Mapping[str, Any], owner: ForeignOwner) -> Foreign:
    if owner.session_id is None:
        return Foreign(left_out="its thread has no id")
    role = str(one.get("role_type") or one.get("role") or "user").lower()
    text = one.get("content")
    item = NewItem(
        content=text if isinstance(text, str) else "",
        kind=Kind.CHAT_MESSAGE,
        scope=Scope.USER if owner.user_id is not None else Scope.SESSION,
        source_ref=f"zep:{one['uuid']}",
        speaker=str(one.get("name") or one.get("role") or role)[:MAX_LABEL],
        event_time=_moment(one.get("created_at")),
        session_id=owner.session_id,
        trust=_TRUSTS.get(role, Trust.AGENT),
        metadata=dict(one.get("metadata") or {}),
    )
    return Foreign(item=item, user_id=owner.user_id, agent_id=owner.agent_id, session_id=owner.session_id)


READERS: dict[ForeignSource, Callable[[Any, ForeignOwner], Iterator[Foreign]]] = {
    ForeignSource.MEM0: read_mem0,
    ForeignSource.ZEP: read_zep,
}


def _read_safely(read: Callable[[Mapping[str, Any], ForeignOwner], Foreign], one: Any, owner: ForeignOwner) -> Foreign:
    """One memory; what is wrong with it is the reason why it is left out, and stops nothing."""
    if not isinstance(one, Mapping):
        return Foreign(left_out=NOT_AN_OBJECT)
    if not (one.get("id") or one.get("uuid")):
        return Foreign(left_out=NO_ID)
    try:
        found = read(one, owner)
    except (KeyError, TypeError):
        return Foreign(left_out=NO_ID)
    except ValueError:
        return Foreign(left_out="a time in it cannot be read")
    if found.item is not None and not found.item.content.strip():
        return Foreign(left_out=NO_TEXT)
    return found


def _bad() -> Iterator[Foreign]:
    yield Foreign(left_out=NOT_AN_OBJECT)


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name) or []
    return list(found) if isinstance(found, list) else []


def _thread_id(document: Mapping[str, Any]) -> str | None:
    return _id(document.get("thread_id")) or _id(document.get("session_id"))


def _id(value: Any) -> str | None:
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text[:MAX_ID] or None


def _moment(value: Any) -> datetime | None:
    if value in {None, ""}:
        return None
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    moment = datetime.fromisoformat(str(value))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


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
