"""Reads exports of other products and transcripts of coding agents as items, and evaluates mem0's filters.

A reader takes the answer of the product's own API, saved as JSON, and yields for every memory either an item with its owner
or the reason why it is left out. The product's own id becomes the item's reference, so that a second import finds the same
items.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from typing import Any

from recordari.core.identity import Scope
from recordari.core.items import MAX_LABEL, PROJECT, Kind, NewItem
from recordari.errors import InvalidInput
from recordari.sessions.rules.window import TRUST, role_named

MAX_ID = 200
NO_TEXT = "it has no text"
NO_OWNER = "nobody is named as its user or agent"
NO_ID = "it has no id"
ENDED = "it was no longer true"
NOT_AN_OBJECT = "it is not a JSON object"
_CODEX_NOTE = "# AGENTS.md instructions"  # what Codex says in the user's name


class ForeignSource(StrEnum):
    MEM0 = "mem0"
    ZEP = "zep"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    OPENMEMORY = "openmemory"
    MARKDOWN = "markdown"

    @property
    def is_lines(self) -> bool:
        """Whether its files are JSON Lines."""
        return self in {ForeignSource.CLAUDE_CODE, ForeignSource.CODEX}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOwner:
    """The owner of memories that name none themselves."""

    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A file of notes, which becomes a document."""

    source: str
    name: str
    text: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign(ForeignOwner):
    """A memory of another product: an item and its owner, a note, or why it is left out."""

    item: NewItem | None = None
    note: Note | None = None
    left_out: str | None = None


@dataclass(slots=True, kw_only=True)
class ImportedForeign:
    """The numbers of memories that were read, new, imported before, and left out for each reason.

    After a dry run they say what would be, and `facts` what would be learnt.
    """

    read: int = 0
    new: int = 0
    existing: int = 0
    sessions: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    facts: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        return self.new + self.existing + sum(self.skipped.values())

    def describe(self, memories: Sequence[Foreign]) -> None:
        """Note the sessions and the time that the memories are from."""
        moments = [one.item.event_time for one in memories if one.item is not None and one.item.event_time is not None]
        self.first_at, self.last_at = min(moments, default=None), max(moments, default=None)
        self.sessions = len({one.session_id for one in memories if one.session_id is not None})

    def skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1


def read_mem0(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """Read the answer of mem0's `get_all`, platform or open source: a list, or an object with `results`."""
    memories = document
    if isinstance(document, Mapping):
        memories = document.get("results", document.get("memories"))
        if memories is None and "memory" in document:
            memories = [document]
    if not isinstance(memories, Sequence) or isinstance(memories, str):
        raise InvalidInput("this is not what mem0's get_all returns: a list, or an object with `results`")
    for memory in memories:
        yield _read_safely(_mem0_memory, memory, owner)


def _mem0_memory(memory: Mapping[str, Any], owner: ForeignOwner) -> Foreign:
    text = memory.get("memory") or memory.get("text") or memory.get("data")
    user = _id(memory.get("user_id")) or owner.user_id
    agent = _id(memory.get("agent_id")) or _id(memory.get("app_id")) or owner.agent_id
    session = _id(memory.get("run_id")) or owner.session_id
    if user is None and agent is None:
        agent = session  # mem0 has memories of a run alone; here they belong to an agent of that name
    if user is None and agent is None:
        return Foreign(left_out=NO_OWNER)
    categories = memory.get("categories") or []
    metadata = dict(memory.get("metadata") or {})
    if session is not None:
        metadata["mem0_run_id"] = session
    item = NewItem(
        content=text if isinstance(text, str) else "",
        kind=Kind.FACT,
        scope=Scope.USER if user is not None else Scope.AGENT,
        source_ref=f"mem0:{memory['id']}",
        event_time=_time(memory.get("created_at")),
        category=str(categories[0])[:MAX_LABEL] if isinstance(categories, list) and categories else None,
        metadata=metadata,
    )
    return Foreign(item=item, user_id=user, agent_id=agent)


def read_openmemory(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """Read the memories of OpenMemory: lines of its backup, or an answer of its API; only active ones are taken."""
    memories = document.get("items", document.get("memories")) if isinstance(document, Mapping) else document
    if not isinstance(memories, list) or not all(isinstance(one, Mapping) and "content" in one for one in memories):
        raise InvalidInput("this is no backup of OpenMemory: memories with `content`, as in its memories.jsonl.gz")
    for memory in memories:
        if memory.get("state", "active") != "active":
            yield Foreign(left_out=ENDED)
        else:
            app = memory.get("app_name") or memory.get("app")
            more = memory.get("metadata_") or memory.get("metadata")
            given = {**memory, "memory": memory["content"], "app_id": app, "metadata": {**(more or {}), "app": app}}
            yield _read_safely(_mem0_memory, given, owner)


def read_zep(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """Read answers of Zep's API: facts (`edges` of a user's graph) and threads or sessions with their `messages`.

    They are under `users`, each with a `user_id`, or at the top with a `user_id`.
    """
    if not isinstance(document, Mapping):
        raise InvalidInput("this is no export of Zep: an object with `users`, `edges`, `threads` or `messages`")
    known = {"users", "edges", "facts", "threads", "sessions", "messages"}
    if not known & document.keys():
        raise InvalidInput(f"this is no export of Zep: it has none of {', '.join(sorted(known))}")
    owner = ForeignOwner(
        user_id=_id(document.get("user_id")) or owner.user_id,
        agent_id=owner.agent_id,
        session_id=_id(document.get("thread_id")) or _id(document.get("session_id")) or owner.session_id,
    )
    for user in _list(document, "users"):
        yield from _read_nested(user, owner, "edges")
    for fact in [*_list(document, "edges"), *_list(document, "facts")]:
        yield _read_safely(_zep_fact, fact, owner)
    for thread in [*_list(document, "threads"), *_list(document, "sessions")]:
        yield from _read_nested(thread, owner, "messages")
    for message in _list(document, "messages"):
        yield _read_safely(_zep_message, message, owner)


def _read_nested(document: Any, owner: ForeignOwner, required: str) -> Iterator[Foreign]:
    if isinstance(document, Mapping):
        yield from read_zep({required: [], **document}, owner)
    else:
        yield Foreign(left_out=NOT_AN_OBJECT)


def _zep_fact(fact: Mapping[str, Any], owner: ForeignOwner) -> Foreign:
    if fact.get("invalid_at") or fact.get("expired_at"):
        return Foreign(left_out=ENDED)
    if owner.user_id is None and owner.agent_id is None:
        return Foreign(left_out=NO_OWNER)
    text = fact.get("fact") or fact.get("content")
    item = NewItem(
        content=text if isinstance(text, str) else "",
        kind=Kind.FACT,
        scope=Scope.USER if owner.user_id is not None else Scope.AGENT,
        source_ref=f"zep:{fact['uuid']}",
        event_time=_time(fact.get("valid_at")) or _time(fact.get("created_at")),
        predicate=str(fact["name"])[:MAX_LABEL] if fact.get("name") else None,
        metadata=dict(fact.get("attributes") or {}),
    )
    return Foreign(item=item, user_id=owner.user_id, agent_id=owner.agent_id)


def _zep_message(message: Mapping[str, Any], owner: ForeignOwner) -> Foreign:
    if owner.session_id is None:
        return Foreign(left_out="its thread has no id")
    role = str(message.get("role_type") or message.get("role") or "user").lower()
    text = message.get("content")
    item = NewItem(
        content=text if isinstance(text, str) else "",
        kind=Kind.CHAT_MESSAGE,
        scope=Scope.USER if owner.user_id is not None else Scope.SESSION,
        source_ref=f"zep:{message['uuid']}",
        speaker=str(message.get("name") or message.get("role") or role)[:MAX_LABEL],
        event_time=_time(message.get("created_at")),
        session_id=owner.session_id,
        trust=TRUST[role_named(role)],
        metadata=dict(message.get("metadata") or {}),
    )
    return Foreign(item=item, user_id=owner.user_id, agent_id=owner.agent_id, session_id=owner.session_id)


def read_chatgpt(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """Read `conversations.json` of ChatGPT's data export: of each conversation the branch that was shown last."""
    for conversation in _conversations(document, "mapping", "ChatGPT"):
        nodes = _object(conversation["mapping"])
        branch: list[Mapping[str, Any]] = []
        node = _object(nodes.get(str(conversation.get("current_node"))))
        while node and len(branch) <= len(nodes):
            branch.append(_object(node.get("message")))
            node = _object(nodes.get(str(node.get("parent"))))
        session = _id(conversation.get("conversation_id") or conversation.get("id"))
        for message in reversed(branch):
            role = str(_object(message.get("author")).get("role"))
            parts = _list(_object(message.get("content")), "parts")
            text = "\n".join(part for part in parts if isinstance(part, str))
            if role in {"user", "assistant"} and text.strip():
                yield _said("chatgpt", owner, session, message.get("id"), role, text, message.get("create_time"))


def read_claude(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """Read `conversations.json` of Claude's data export."""
    for conversation in _conversations(document, "chat_messages", "Claude"):
        session = _id(conversation.get("uuid"))
        for message in map(_object, _list(conversation, "chat_messages")):
            role = "user" if message.get("sender") == "human" else "assistant"
            text = _text_parts(message.get("text")) or _text_parts(message.get("content"))
            yield _said("claude", owner, session, message.get("uuid"), role, text, message.get("created_at"))


def read_claude_code(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """Read transcripts of Claude Code: what you and the model said; not the results of tools, nor its own notes."""
    for line in _lines_of(document, "Claude Code"):
        if str(line.get("type")) not in {"user", "assistant"} or line.get("isMeta") or line.get("isSidechain"):
            continue
        text = _text_parts(_object(line.get("message")).get("content"))
        if text.strip() and not text.lstrip().startswith("<"):
            session, moment = _id(line.get("sessionId")), line.get("timestamp")
            yield _said("claude-code", owner, session, line.get("uuid"), line["type"], text, moment, line.get("cwd"))


def read_codex(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """Read transcripts of Codex: what you and the model said; not the results of tools, nor its own notes."""
    session, folder, names = None, None, Counter[str]()
    for number, line in enumerate(_lines_of(document, "Codex")):
        payload = _object(line.get("payload"))
        if line.get("type") == "session_meta":
            session, folder = _id(payload.get("id")), payload.get("cwd")
        elif line.get("type") == "response_item" and payload.get("type") == "message":
            role, text = str(payload.get("role")), _text_parts(payload.get("content"))
            if role in {"user", "assistant"} and text.strip() and not text.lstrip().startswith(("<", _CODEX_NOTE)):
                name = f"{session}:{line.get('timestamp') or number}:{role}"
                names[name] += 1  # several are written at once
                name += f":{names[name]}" if names[name] > 1 else ""
                yield _said("codex", owner, session, name, role, text, line.get("timestamp"), folder)


def _said(
    product: str,
    owner: ForeignOwner,
    session: str | None,
    message_id: Any,
    role: str,
    text: str,
    moment: Any,
    folder: Any = None,
) -> Foreign:
    """One message of a conversation, in the project that its folder names."""
    if session is None or not message_id:
        return Foreign(left_out=NO_ID)
    if not text.strip():
        return Foreign(left_out=NO_TEXT)
    try:
        event_time = _time(moment)
    except ValueError:
        return Foreign(left_out="a time in it cannot be read")
    project = str(folder).rstrip("/\\").replace("\\", "/").rpartition("/")[2] if folder else ""
    item = NewItem(
        content=text,
        kind=Kind.CHAT_MESSAGE,
        scope=Scope.USER if owner.user_id is not None else Scope.SESSION,
        source_ref=f"{product}:{message_id}",
        speaker=role,
        event_time=event_time,
        session_id=session,
        trust=TRUST[role_named(role)],
        metadata={PROJECT: project} if project else {},
    )
    return Foreign(item=item, user_id=owner.user_id, agent_id=owner.agent_id, session_id=session)


def _conversations(document: Any, member: str, product: str) -> Iterator[Mapping[str, Any]]:
    conversations = document if isinstance(document, list) else []
    found = [one for one in conversations if isinstance(one, Mapping) and one.get(member)]
    if (conversations and not found) or not isinstance(document, list):
        raise InvalidInput(f"this is no `conversations.json` of {product}: a list of conversations with `{member}`")
    yield from found


def _lines_of(document: Any, product: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(document, list) or not any(isinstance(line, Mapping) and line.get("type") for line in document):
        raise InvalidInput(f"this is no transcript of {product}: lines of JSON, each with a `type`")
    yield from (line for line in document if isinstance(line, Mapping))


def _text_parts(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    kinds = {"text", "input_text", "output_text"}
    return "\n".join(
        str(one.get("text") or "") for one in parts if isinstance(one, Mapping) and one.get("type") in kinds
    )


_HEAD = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^(\w[\w -]*):[ \t]*(.*)$", re.MULTILINE)
_EMBEDDED = re.compile(r"!\[\[[^\]\n]*\]\]")
_LINK = re.compile(r"\[\[(?:[^\]|\n]*\|)?([^\]|\n]+)\]\]")


def read_markdown(document: Any, owner: ForeignOwner) -> Iterator[Foreign]:
    """Read a folder of Markdown files (`folder`, and `files` by path): links become their words, the head becomes metadata."""
    if not isinstance(document, Mapping) or not isinstance(document.get("files"), Mapping):
        raise InvalidInput("this is no folder of Markdown files")
    for path, text in document["files"].items():
        head = _HEAD.match(text)
        body = text[head.end() :] if head else text
        metadata = {name: value.strip().strip("\"'") for name, value in _FIELD.findall(head[1])} if head else {}
        body = _LINK.sub(lambda link: link[1].rpartition("#")[2], _EMBEDDED.sub("", body))
        if not body.strip():
            yield Foreign(left_out=NO_TEXT)
            continue
        title = metadata.get("title") or str(path).rpartition("/")[2].removesuffix(".md")
        kept = {name: value for name, value in metadata.items() if value}
        yield Foreign(
            note=Note(source=document["folder"], name=path, text=body, metadata={**kept, "title": title}),
        )


READERS: dict[ForeignSource, Callable[[Any, ForeignOwner], Iterator[Foreign]]] = {
    ForeignSource.MEM0: read_mem0,
    ForeignSource.ZEP: read_zep,
    ForeignSource.CHATGPT: read_chatgpt,
    ForeignSource.CLAUDE: read_claude,
    ForeignSource.CLAUDE_CODE: read_claude_code,
    ForeignSource.CODEX: read_codex,
    ForeignSource.OPENMEMORY: read_openmemory,
    ForeignSource.MARKDOWN: read_markdown,
}


def _read_safely(
    read: Callable[[Mapping[str, Any], ForeignOwner], Foreign], memory: Any, owner: ForeignOwner
) -> Foreign:
    """Read one memory; one that cannot be read is left out with the reason, and stops nothing."""
    if not isinstance(memory, Mapping):
        return Foreign(left_out=NOT_AN_OBJECT)
    if not (memory.get("id") or memory.get("uuid")):
        return Foreign(left_out=NO_ID)
    try:
        foreign = read(memory, owner)
    except (KeyError, TypeError):
        return Foreign(left_out=NO_ID)
    except ValueError:
        return Foreign(left_out="a time in it cannot be read")
    if foreign.item is not None and not foreign.item.content.strip():
        return Foreign(left_out=NO_TEXT)
    return foreign


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    values = document.get(name)
    return values if isinstance(values, list) else []


def _id(value: Any) -> str | None:
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text[:MAX_ID] or None


def _time(value: Any) -> datetime | None:
    if value in {None, ""}:
        return None
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    time = datetime.fromisoformat(str(value))
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


OWNERS = ("user_id", "agent_id", "app_id", "run_id")
ANY = "*"
MAX_DEPTH = 8


def owners_in(filters: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each owner that the filters name: `{"user_id": "ana"}` names one, an OR of two users names two."""
    owners = _alternatives(filters, 0)
    return [owner for number, owner in enumerate(owners) if owner and owner not in owners[:number]]


def _alternatives(filters: Mapping[str, Any], depth: int) -> list[dict[str, str]]:
    """The owner ids that the conditions name together, once for each way to fulfil them."""
    if depth > MAX_DEPTH:
        raise InvalidInput("filters are nested too deeply", field="filters")
    ways: list[list[dict[str, str]]] = []
    for name, condition in filters.items():
        nested = [each for each in condition if isinstance(each, Mapping)] if isinstance(condition, list) else None
        if name in OWNERS:
            ways.append([{name: value} for value in _values(condition) if value != ANY] or [{}])
        elif name == "AND" and nested is not None:
            ways.extend(_alternatives(each, depth + 1) for each in nested)
        elif name == "OR" and nested is not None:
            ways.append([way for each in nested for way in _alternatives(each, depth + 1)] or [{}])
    return [{name: value for part in way for name, value in part.items()} for way in product(*ways)][:1000]


def _values(condition: Any) -> list[str]:
    match condition:
        case str() | int():
            return [str(condition)]
        case {"in": [*values]}:
            return [str(value) for value in values]
        case {"eq": value}:
            return [str(value)]
        case _:
            return []


def fits(memory: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    """Whether a memory matches the filters; a field that it does not have is looked up in its metadata."""
    return all(_matches(memory, name, condition) for name, condition in filters.items())


def _matches(memory: Mapping[str, Any], name: str, condition: Any) -> bool:
    if name in {"AND", "OR", "NOT"}:
        results = [fits(memory, each) for each in (condition if isinstance(condition, list) else [condition])]
        return {"AND": all(results), "OR": any(results), "NOT": not any(results)}[name]
    if name == "metadata" and isinstance(condition, Mapping):
        return fits({**(memory.get("metadata") or {}), "metadata": {}}, condition)
    value = memory[name] if name in memory else (memory.get("metadata") or {}).get(name)
    if condition == ANY:
        return value is not None
    if not isinstance(condition, Mapping):
        return value == condition or (isinstance(value, list) and condition in value)
    return all(_compare(value, operator_name, operand) for operator_name, operand in condition.items())


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "in": lambda value, operand: value in operand or (isinstance(value, list) and any(v in operand for v in value)),
    "nin": lambda value, operand: value not in operand,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "contains": lambda value, operand: str(operand) in str(value),
    "icontains": lambda value, operand: str(operand).casefold() in str(value).casefold(),
}


def _compare(value: Any, operator_name: str, operand: Any) -> bool:
    if operator_name not in _OPERATORS:
        raise InvalidInput("filters know eq, ne, in, nin, gt, gte, lt, lte, contains and icontains", field="filters")
    try:
        return bool(_OPERATORS[operator_name](value, operand))
    except TypeError:
        return False
