"""The routes that mem0's client calls: `MemoryClient(host=…, api_key="rcd_…")` works against this server as it is.

A memory of mem0 is a fact here. Whose it is follows from the ids that mem0 names: `user_id` is the user; else `agent_id`,
`app_id` or `run_id` is the agent. docs/migrate-from-mem0.md says what differs.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from recordari.core.identity import Identity, Role, Scope, checked_id
from recordari.core.items import Item, Kind
from recordari.errors import InvalidInput, NotFound
from recordari.facts import curate
from recordari.facts.rules.extraction import facts_in
from recordari.kit.rest import PROBLEMS, AdminCaller, AgentCaller
from recordari.kit.verbs import Caller
from recordari.lifetime import erase
from recordari.lifetime import forget as forget_verbs
from recordari.memory import items, remember, versions
from recordari.recall import recall as recall_verbs
from recordari.recall.request import MAX_TOP_K, RecalledItem
from recordari.sessions.messages import add_messages
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.tenants import tenants
from recordari.transfer.rules import OWNERS, fits, owners_in

MOST_OWNERS = 20
MOST_LISTED = 10_000
PAGE = 100
NO_SUCH_MEMORY = "there is no such memory"
NO_SUCH_ENTITY = "there is no such entity"

router = APIRouter(tags=["mem0"], responses=PROBLEMS)


class Loose(BaseModel):
    """A body of another product's client: what we do not know is no error."""

    model_config = ConfigDict(extra="allow")


class AddRequest(Loose):
    """Messages to make memories of."""

    messages: list[dict[str, Any]] | str = Field(max_length=1_000_000)
    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    filters: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    infer: bool | None = None
    timestamp: int | None = None
    expiration_date: str | None = None


class AskRequest(Loose):
    """A question, or a list of all."""

    query: str | None = None
    filters: dict[str, Any] | None = None
    top_k: int | None = None
    limit: int | None = None
    rerank: bool | None = None
    show_expired: bool | None = None
    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None


class ChangeRequest(Loose):
    """Another text for a memory."""

    text: str | None = None


class BatchRequest(Loose):
    """Several memories by id."""

    memories: list[dict[str, Any]] = Field(min_length=1, max_length=1000)


class MemoryFeedback(Loose):
    """What somebody thinks of a memory."""

    memory_id: UUID
    feedback: str | None = None
    feedback_reason: str | None = Field(default=None, max_length=500)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memories are meant, and the memory that acts for them."""

    scope: Scope
    caller: Caller
    ids: dict[str, str]


@router.get("/v1/ping/", operation_id="mem0_ping")
async def ping(caller: AgentCaller) -> dict[str, Any]:
    """Whether the key opens anything: the first call of the client."""
    return {"status": "ok", "org_id": str(caller.identity.tenant_id), "project_id": "recordari", "user_email": None}


@router.post("/v3/memories/add/", operation_id="mem0_add")
@router.post("/v1/memories/", operation_id="mem0_add_v1")
async def add(caller: AgentCaller, wanted: AddRequest) -> dict[str, Any]:
    """Keep what was said, and make memories of it at once."""
    given = {**(wanted.filters or {}), **wanted.model_dump(include=set(OWNERS), exclude_none=True)}
    owner = _owner(caller, {name: str(given[name]) for name in OWNERS if given.get(name) is not None})
    said = [{"role": "user", "content": wanted.messages}] if isinstance(wanted.messages, str) else wanted.messages
    at = datetime.fromtimestamp(wanted.timestamp, UTC) if wanted.timestamp is not None else None
    metadata = {**(wanted.metadata or {}), **{f"mem0_{name}": each for name, each in owner.ids.items()}}
    if wanted.expiration_date is not None:
        metadata["mem0_expiration_date"] = wanted.expiration_date
    messages = [_message(one, at) for one in said]
    if wanted.infer is not False and messages:
        session = owner.ids.get("run_id") or f"mem0:{next(iter(owner.ids.values()))}"
        await add_messages(*owner.caller, messages, session_id=session, scope=owner.scope)
    results = []
    for message in messages:
        for text in _memories_of(message, infer=wanted.infer is not False):
            kept = await remember.remember_fact(
                *owner.caller,
                text,
                scope=owner.scope,
                metadata=metadata,
                event_time=at,
            )
            results.append({"id": str(kept.id), "memory": text, "event": "ADD" if kept.was_new else "NONE"})
    return {"results": results}


@router.get("/v1/memories/{memory_id}/", operation_id="mem0_get")
async def get(caller: AgentCaller, memory_id: UUID) -> dict[str, Any]:
    """One memory; an id from before an update leads to what it says now."""
    found, _ = await _current(caller, memory_id)
    return {**_shown(found), "id": str(memory_id)}


@router.post("/v3/memories/", operation_id="mem0_get_all")
@router.post("/v2/memories/", operation_id="mem0_get_all_v2")
async def get_all(
    caller: AgentCaller,
    wanted: AskRequest,
    page: Annotated[int, Query(ge=1, le=10_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> dict[str, Any]:
    """Every memory that fits the filters, the latest first."""
    found = await _listed(caller, _filters(wanted), show_expired=bool(wanted.show_expired))
    first = (page - 1) * page_size
    return {
        "count": len(found),
        "next": f"/v3/memories/?page={page + 1}&page_size={page_size}" if first + page_size < len(found) else None,
        "previous": f"/v3/memories/?page={page - 1}&page_size={page_size}" if page > 1 else None,
        "results": found[first : first + page_size],
    }


@router.get("/v1/memories/", operation_id="mem0_get_all_v1")
async def get_all_v1(
    caller: AgentCaller,
    user_id: str | None = None,
    agent_id: str | None = None,
    app_id: str | None = None,
    run_id: str | None = None,
) -> dict[str, Any]:
    """The same for older clients."""
    wanted = AskRequest(user_id=user_id, agent_id=agent_id, app_id=app_id, run_id=run_id)
    return {"results": await _listed(caller, _filters(wanted), show_expired=False)}


@router.post("/v3/memories/search/", operation_id="mem0_search")
@router.post("/v2/memories/search/", operation_id="mem0_search_v2")
@router.post("/v1/memories/search/", operation_id="mem0_search_v1")
async def search(caller: AgentCaller, wanted: AskRequest) -> dict[str, Any]:
    """Memories that answer a question and fit the filters, best first."""
    filters = _filters(wanted)
    most = min(wanted.top_k or wanted.limit or 10, MAX_TOP_K)
    found: dict[UUID, tuple[float, dict[str, Any]]] = {}
    for owner in _owners(caller, filters):
        answer = await recall_verbs.recall(
            *owner.caller,
            wanted.query or "",
            top_k=MAX_TOP_K,
            source_kinds=[Kind.FACT],
            scope=owner.scope,
            enable_rerank=bool(wanted.rerank),
        )
        for one in answer.items:
            shown = _shown(one, owner)
            if fits(shown, filters) and (wanted.show_expired or not _is_expired(one)):
                found[one.id] = (one.score, shown)
    best = sorted(found.values(), key=lambda each: each[0], reverse=True)[:most]
    return {"results": [{**shown, "score": score} for score, shown in best]}


@router.put("/v1/memories/{memory_id}/", operation_id="mem0_update")
async def update(caller: AgentCaller, memory_id: UUID, wanted: ChangeRequest) -> dict[str, Any]:
    """Give a memory another text; the old one stays in its history."""
    return await _update(caller, memory_id, wanted.text)


@router.delete("/v1/memories/{memory_id}/", operation_id="mem0_delete")
async def delete(caller: AgentCaller, memory_id: UUID) -> dict[str, str]:
    """Forget a memory with everything derived from it."""
    await _delete(caller, memory_id)
    return {"message": "Memory deleted successfully!"}


@router.delete("/v1/memories/", operation_id="mem0_delete_all")
async def delete_all(caller: AgentCaller, request: Request) -> dict[str, str]:
    """Forget every memory of an owner; without one, nothing is deleted."""
    given = request.query_params
    filters: dict[str, Any] = _literal(given["filters"]) if "filters" in given else {}
    filters |= {name: given[name] for name in OWNERS if name in given}
    for shown in await _listed(caller, filters, show_expired=True):
        await _delete(caller, UUID(shown["id"]))
    return {"message": "Memories deleted successfully!"}


@router.get("/v1/memories/{memory_id}/history/", operation_id="mem0_history")
async def history(caller: AgentCaller, memory_id: UUID) -> list[dict[str, Any]]:
    """What a memory said before, oldest first."""
    current, owner = await _current(caller, memory_id)
    lines = await versions.item_history(*owner, current.item_id)
    texts = [None, *(one.content for one in lines)]
    return [
        {
            "id": str(one.item_id),
            "memory_id": str(memory_id),
            "old_memory": texts[place],
            "new_memory": one.content,
            "event": "UPDATE" if place else "ADD",
            "created_at": one.created_at.isoformat(),
            "updated_at": one.created_at.isoformat(),
            "user_id": one.user_id,
            "metadata": _own_metadata(one.metadata),
        }
        for place, one in enumerate(lines)
    ]


@router.get("/v1/entities/", operation_id="mem0_entities")
async def entities(caller: AdminCaller) -> dict[str, Any]:
    """The users and agents of the tenant."""
    users = [(one.user_id, "user", one.created_at) for one in await tenants.list_users(*caller, limit=PAGE)]
    agents = [(one.agent_id, "agent", one.created_at) for one in await tenants.list_agents(*caller, limit=PAGE)]
    results = [
        {"id": name, "name": name, "type": kind, "created_at": made.isoformat()} for name, kind, made in users + agents
    ]
    return {"count": len(results), "next": None, "previous": None, "results": results}


@router.delete("/v2/entities/{entity_type}/{entity_name}/", operation_id="mem0_delete_entity")
async def delete_entity(caller: AdminCaller, entity_type: str, entity_name: str) -> dict[str, str]:
    """Erase a user everywhere, or forget every memory of an agent, app or run."""
    if entity_type == "user":
        try:
            await tenants.get_user(*caller, entity_name)
        except NotFound:
            raise NotFound(NO_SUCH_ENTITY) from None
        await erase.erase_user(*caller, entity_name)
    elif f"{entity_type}_id" in OWNERS:
        for shown in await _listed(caller, {f"{entity_type}_id": entity_name}, show_expired=True):
            await _delete(caller, UUID(shown["id"]))
    else:
        raise NotFound(NO_SUCH_ENTITY)
    return {"message": "Entity deleted successfully!"}


@router.put("/v1/batch/", operation_id="mem0_batch_update")
async def batch_update(caller: AgentCaller, wanted: BatchRequest) -> dict[str, str]:
    """Give several memories other texts, one after the other."""
    for one in wanted.memories:
        await _update(caller, _id(one), one.get("text"))
    return {"message": f"Successfully updated {len(wanted.memories)} memories"}


@router.delete("/v1/batch/", operation_id="mem0_batch_delete")
async def batch_delete(caller: AgentCaller, wanted: BatchRequest) -> dict[str, str]:
    """Forget several memories, one after the other."""
    for one in wanted.memories:
        await _delete(caller, _id(one))
    return {"message": f"Successfully deleted {len(wanted.memories)} memories"}


@router.post("/v1/feedback/", operation_id="mem0_feedback")
async def feedback(caller: AgentCaller, wanted: MemoryFeedback) -> dict[str, Any]:
    """Say that a memory was useful or wrong."""
    current, owner = await _current(caller, wanted.memory_id)
    if wanted.feedback is not None:
        opinion = "useful" if wanted.feedback.upper() == "POSITIVE" else "wrong"
        await curate.give_feedback(*owner, current.item_id, opinion, reason=wanted.feedback_reason)
    return {"id": str(wanted.memory_id), "feedback": wanted.feedback, "feedback_reason": wanted.feedback_reason}


def _message(said: dict[str, Any], at: datetime | None) -> NewMessage:
    content = said.get("content")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput("each message needs a content that is text", field="messages")
    role = str(said.get("role", "user"))
    return NewMessage(
        content=content,
        role=MessageRole(role) if role in set(MessageRole) else MessageRole.USER,
        speaker=said.get("name"),
        event_time=at,
    )


def _memories_of(message: NewMessage, *, infer: bool) -> list[str]:
    """The memories of a message: what it states, or all of it when it is to be kept as it is or states nothing we know."""
    if not infer:
        return [message.content] if message.role is not MessageRole.SYSTEM else []
    if message.role is not MessageRole.USER:
        return []
    return [one.content for one in facts_in(message.content)] or [message.content]


def _filters(wanted: AskRequest) -> dict[str, Any]:
    return {**(wanted.filters or {}), **wanted.model_dump(include=set(OWNERS), exclude_none=True)}


def _owner(caller: Caller, ids: dict[str, str]) -> Owner:
    """Who the ids of mem0 are here; a credential that is bound to somebody acts for nobody else."""
    if user := ids.get("user_id"):
        scope, who = Scope.USER, {"user_id": user, "agent_id": ids.get("agent_id")}
    elif other := ids.get("agent_id") or ids.get("app_id") or ids.get("run_id"):
        scope, who = Scope.AGENT, {"user_id": None, "agent_id": other}
    else:
        raise InvalidInput(f"name whose memories are meant by one of {', '.join(OWNERS)}", field="filters")
    own = caller.identity
    for noun, named in who.items():
        bound = getattr(own, noun)
        if named is not None and bound is not None and bound != checked_id(noun, named):
            raise NotFound(NO_SUCH_MEMORY)
    return Owner(scope, caller.bound(own.narrowed(**who)), ids)


def _owners(caller: Caller, filters: dict[str, Any]) -> list[Owner]:
    found = owners_in(filters)
    if not found or len(found) > MOST_OWNERS:
        raise InvalidInput(
            f"name whose memories are meant by one of {', '.join(OWNERS)}; at most {MOST_OWNERS}", field="filters"
        )
    return [_owner(caller, ids) for ids in found]


async def _listed(caller: Caller, filters: dict[str, Any], *, show_expired: bool) -> list[dict[str, Any]]:
    found: dict[UUID, dict[str, Any]] = {}
    for owner in _owners(caller, filters):
        before: UUID | None = None
        while len(found) < MOST_LISTED:
            page = await curate.list_items(
                *owner.caller, kinds=[Kind.FACT], scope=owner.scope, before=before, limit=PAGE
            )
            for one in page.items:
                # An administrator's list has everybody's.
                mine = one.user_id if owner.scope is Scope.USER else one.agent_id
                whose = owner.caller.identity.user_id if owner.scope is Scope.USER else owner.caller.identity.agent_id
                shown = _shown(one)
                if mine == whose and fits(shown, filters) and (show_expired or not _is_expired(one)):
                    found[one.item_id] = shown
            before = page.next_before
            if before is None:
                break
    return list(found.values())


async def _current(caller: Caller, memory_id: UUID) -> tuple[Item, Caller]:
    """What a memory says now, and the memory that acts for its owner.

    mem0 names no user with an id. A credential that is bound to nobody may act for any user of its tenant, and so may look
    the owner up; one that is bound sees what is its own.
    """
    own = caller.identity
    looking = caller.bound(replace(own, role=Role.ADMIN, user_id=None))
    seen: set[UUID] = set()
    item = await items.get_item(*looking, memory_id)
    while item.superseded_by is not None and item.item_id not in seen:
        seen.add(item.item_id)
        item = await items.get_item(*looking, item.superseded_by)
    hidden = item.kind != Kind.FACT or item.invalid_at is not None or not _reaches(own, item)
    if hidden:
        raise NotFound("there is no such item")
    return item, caller.bound(replace(own, user_id=item.user_id, agent_id=item.agent_id))


def _reaches(own: Identity, item: Item) -> bool:
    if item.scope == Scope.USER:
        return own.user_id in {None, item.user_id}
    return item.scope == Scope.AGENT and own.agent_id in {None, item.agent_id}


async def _update(caller: Caller, memory_id: UUID, text: str | None) -> dict[str, Any]:
    if not text:
        raise InvalidInput("only the text of a memory can be changed; give text", field="text")
    current, owner = await _current(caller, memory_id)
    await curate.edit_item(*owner, current.item_id, text, reason="updated through mem0's client")
    changed, _ = await _current(caller, memory_id)
    return {**_shown(changed), "id": str(memory_id)}


async def _delete(caller: Caller, memory_id: UUID) -> None:
    current, owner = await _current(caller, memory_id)
    await forget_verbs.forget(*owner, current.item_id, reason="deleted through mem0's client")


def _id(one: dict[str, Any]) -> UUID:
    try:
        return UUID(str(one.get("memory_id")))
    except ValueError:
        raise InvalidInput("each memory needs its memory_id", field="memories") from None


def _literal(text: str) -> dict[str, Any]:
    """Filters in a query: JSON, or what Python's client writes of a dict."""
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text[:4_000])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            return value
    raise InvalidInput("filters must be a JSON object", field="filters")


def _shown(item: Item | RecalledItem, owner: Owner | None = None) -> dict[str, Any]:
    """A fact as mem0 shows a memory."""
    metadata = item.metadata
    whose = item if isinstance(item, Item) else None
    user_id: str | None = whose.user_id if whose is not None and whose.scope == Scope.USER else None
    agent_id: str | None = whose.agent_id if whose is not None else None
    if owner is not None:
        user_id, agent_id = owner.ids.get("user_id"), owner.ids.get("agent_id")
    made = item.created_at if isinstance(item, Item) else item.event_time
    category = whose.category if whose is not None else None
    return {
        "id": str(item.item_id if isinstance(item, Item) else item.id),
        "memory": item.content,
        "user_id": user_id,
        "agent_id": metadata.get("mem0_agent_id", agent_id if user_id is None else None),
        "app_id": metadata.get("mem0_app_id"),
        "run_id": metadata.get("mem0_run_id"),
        "metadata": _own_metadata(metadata),
        "categories": [category] if category else [],
        "expiration_date": metadata.get("mem0_expiration_date"),
        "created_at": made.isoformat(),
        "updated_at": made.isoformat(),
    }


def _own_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if not name.startswith("mem0_") and name != "edited_from"}


def _is_expired(item: Item | RecalledItem) -> bool:
    until = item.metadata.get("mem0_expiration_date")
    return isinstance(until, str) and until < datetime.now(UTC).date().isoformat()
