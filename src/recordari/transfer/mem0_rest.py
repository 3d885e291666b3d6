"""The routes that mem0's client calls: `MemoryClient(host=…, api_key="rcd_…")` works against this server as it is.

A memory of mem0 is a fact here. Its owner follows from mem0's ids: `user_id` is the user (or the user that the credential is
bound to); else `agent_id`, `app_id` or `run_id` is the agent. docs/migrate-from-mem0.md lists the differences.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from recordari.core.identity import Identity, Role, Scope, checked_id
from recordari.core.items import Item, Kind
from recordari.errors import InvalidInput, NotFound
from recordari.facts import curate
from recordari.facts.rules.extraction import facts_in, states_something
from recordari.kit.rest import PROBLEMS, AdminCaller, AgentCaller
from recordari.kit.verbs import Caller
from recordari.lifetime import erase
from recordari.lifetime import forget as forget_verbs
from recordari.memory import items, remember
from recordari.memory.versions import item_history
from recordari.privacy.sanitise import clean_reason, sanitise_json
from recordari.recall import recall as recall_verbs
from recordari.recall.request import MAX_TOP_K, RecalledItem
from recordari.sessions.messages import add_messages
from recordari.sessions.rules.window import TRUST, MessageRole, NewMessage, role_named
from recordari.tenants import tenants
from recordari.transfer.rules import OWNERS, fits, owners_in

MOST_OWNERS = 20
MOST_LISTED = 10_000
PAGE = 100
NO_SUCH_MEMORY = "there is no such memory"
NO_SUCH_ENTITY = "there is no such entity"

router = APIRouter(tags=["mem0"], responses=PROBLEMS)


class Loose(BaseModel):
    """A body of another product's client: unknown fields are no error."""

    model_config = ConfigDict(extra="allow")


class OwnedRequest(Loose):
    """A body that names owners by ids or by filters."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    filters: dict[str, Any] | None = None

    def all_filters(self) -> dict[str, Any]:
        return {**(self.filters or {}), **self.model_dump(include=set(OWNERS), exclude_none=True)}


class AddRequest(OwnedRequest):
    """Messages to extract memories from."""

    messages: list[dict[str, Any]] | str = Field(max_length=1_000_000)
    metadata: dict[str, Any] | None = None
    infer: bool | None = None
    timestamp: int | None = None
    expiration_date: str | None = None


class AskRequest(OwnedRequest):
    query: str | None = None
    top_k: int | None = None
    limit: int | None = None
    rerank: bool | None = None
    show_expired: bool | None = None


class ChangeRequest(Loose):
    text: str | None = None


class BatchRequest(Loose):
    memories: list[dict[str, Any]] = Field(min_length=1, max_length=1000)


class MemoryFeedback(Loose):
    memory_id: UUID
    feedback: str | None = None
    feedback_reason: str | None = Field(default=None, max_length=500)


@dataclass(frozen=True, slots=True)
class Owner:
    scope: Scope
    caller: Caller
    ids: dict[str, str]


@router.get("/v1/ping/", operation_id="mem0_ping")
async def ping(caller: AgentCaller) -> dict[str, Any]:
    """Check the key: the client's first call."""
    return {"status": "ok", "org_id": str(caller.identity.tenant_id), "project_id": "recordari", "user_email": None}


@router.post("/v3/memories/add/", operation_id="mem0_add")
@router.post("/v1/memories/", operation_id="mem0_add_v1")
async def add(caller: AgentCaller, body: AddRequest) -> dict[str, Any]:
    """Save messages and extract memories from them at once."""
    filters = body.all_filters()
    owner = _owner(caller, {name: str(filters[name]) for name in OWNERS if filters.get(name) is not None})
    texts = [{"role": "user", "content": body.messages}] if isinstance(body.messages, str) else body.messages
    at = datetime.fromtimestamp(body.timestamp, UTC) if body.timestamp is not None else None
    metadata = {**(body.metadata or {}), **{f"mem0_{name}": owner_id for name, owner_id in owner.ids.items()}}
    if body.expiration_date is not None:
        metadata["mem0_expiration_date"] = body.expiration_date
    messages = [_message(text, at) for text in texts]
    infer = body.infer is not False
    if infer and messages:
        session = owner.ids.get("run_id") or f"mem0:{next(iter(owner.ids.values()))}"
        await add_messages(*owner.caller, messages, session_id=session, scope=owner.scope)
    results = []
    for message in messages:
        for said in _memories_of(message, infer=infer):
            text = await sanitise_json(*owner.caller, said)  # the answer shows it, and may be kept
            fact = await remember.remember_fact(
                *owner.caller, text, scope=owner.scope, trust=TRUST[message.role], metadata=metadata, event_time=at
            )
            results.append({"id": str(fact.id), "memory": text, "event": "ADD" if fact.was_new else "NONE"})
    return {"results": results}


@router.get("/v1/memories/{memory_id}/", operation_id="mem0_get")
async def get(caller: AgentCaller, memory_id: UUID) -> dict[str, Any]:
    """One memory; the id of an older version returns the current text."""
    item, _ = await _current(caller, memory_id)
    return {**_shown(item), "id": str(memory_id)}


@router.post("/v3/memories/", operation_id="mem0_get_all")
@router.post("/v2/memories/", operation_id="mem0_get_all_v2")
async def get_all(
    caller: AgentCaller,
    body: AskRequest,
    page: Annotated[int, Query(ge=1, le=10_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> dict[str, Any]:
    """Every memory that matches the filters, the latest first."""
    memories = await _list(caller, body.all_filters(), show_expired=bool(body.show_expired))
    first = (page - 1) * page_size
    return {
        "count": len(memories),
        "next": f"/v3/memories/?page={page + 1}&page_size={page_size}" if first + page_size < len(memories) else None,
        "previous": f"/v3/memories/?page={page - 1}&page_size={page_size}" if page > 1 else None,
        "results": memories[first : first + page_size],
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
    owner = OwnedRequest(user_id=user_id, agent_id=agent_id, app_id=app_id, run_id=run_id)
    return {"results": await _list(caller, owner.all_filters(), show_expired=False)}


@router.post("/v3/memories/search/", operation_id="mem0_search")
@router.post("/v2/memories/search/", operation_id="mem0_search_v2")
@router.post("/v1/memories/search/", operation_id="mem0_search_v1")
async def search(caller: AgentCaller, body: AskRequest) -> dict[str, Any]:
    """Memories that answer a question and match the filters, best first."""
    filters = body.all_filters()
    limit = min(body.top_k or body.limit or 10, MAX_TOP_K)
    hits: dict[UUID, tuple[float, dict[str, Any]]] = {}
    for owner in _owners(caller, filters):
        answer = await recall_verbs.recall(
            *owner.caller,
            body.query or "",
            top_k=MAX_TOP_K,
            source_kinds=[Kind.FACT],
            scope=owner.scope,
            enable_rerank=bool(body.rerank),
        )
        for item in answer.items:
            shown = _shown(item, owner)
            if fits(shown, filters) and (body.show_expired or not _is_expired(item)):
                hits[item.id] = (item.score, shown)
    best = sorted(hits.values(), key=lambda hit: hit[0], reverse=True)[:limit]
    return {"results": [{**shown, "score": score} for score, shown in best]}


@router.put("/v1/memories/{memory_id}/", operation_id="mem0_update")
async def update(caller: AgentCaller, memory_id: UUID, body: ChangeRequest) -> dict[str, Any]:
    """Change the text of a memory; the old one stays in its history."""
    return await _update(caller, memory_id, body.text)


@router.delete("/v1/memories/{memory_id}/", operation_id="mem0_delete")
async def delete(caller: AgentCaller, memory_id: UUID) -> dict[str, str]:
    """Forget a memory with everything derived from it."""
    await _delete(caller, memory_id)
    return {"message": "Memory deleted successfully!"}


@router.delete("/v1/memories/", operation_id="mem0_delete_all")
async def delete_all(
    caller: AgentCaller,
    user_id: str | None = None,
    agent_id: str | None = None,
    app_id: str | None = None,
    run_id: str | None = None,
    filters: str | None = None,
) -> dict[str, str]:
    """Forget every memory of an owner; without one, nothing is deleted."""
    given = _literal(filters) if filters is not None else None
    owner = OwnedRequest(user_id=user_id, agent_id=agent_id, app_id=app_id, run_id=run_id, filters=given)
    for memory in await _list(caller, owner.all_filters(), show_expired=True):
        await _delete(caller, UUID(memory["id"]))
    return {"message": "Memories deleted successfully!"}


@router.get("/v1/memories/{memory_id}/history/", operation_id="mem0_history")
async def history(caller: AgentCaller, memory_id: UUID) -> list[dict[str, Any]]:
    """The versions of a memory, oldest first."""
    current, owner = await _current(caller, memory_id)
    versions = await item_history(*owner, current.item_id)
    older_texts = [None, *(version.content for version in versions)]
    return [
        {
            "id": str(version.item_id),
            "memory_id": str(memory_id),
            "old_memory": older_text,
            "new_memory": version.content,
            "event": "ADD" if version is versions[0] else "UPDATE",
            "created_at": version.created_at.isoformat(),
            "updated_at": version.created_at.isoformat(),
            "user_id": version.user_id,
            "metadata": _own_metadata(version.metadata),
        }
        for version, older_text in zip(versions, older_texts, strict=False)
    ]


@router.get("/v1/entities/", operation_id="mem0_entities")
async def entities(caller: AdminCaller) -> dict[str, Any]:
    """The users and agents of the tenant."""
    users = [(user.user_id, "user", user.created_at) for user in await tenants.list_users(*caller, limit=PAGE)]
    agents = [(agent.agent_id, "agent", agent.created_at) for agent in await tenants.list_agents(*caller, limit=PAGE)]
    results = [
        {"id": name, "name": name, "type": kind, "created_at": at.isoformat()} for name, kind, at in users + agents
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
        for memory in await _list(caller, {f"{entity_type}_id": entity_name}, show_expired=True):
            await _delete(caller, UUID(memory["id"]))
    else:
        raise NotFound(NO_SUCH_ENTITY)
    return {"message": "Entity deleted successfully!"}


@router.put("/v1/batch/", operation_id="mem0_batch_update")
async def batch_update(caller: AgentCaller, body: BatchRequest) -> dict[str, str]:
    """Change the texts of several memories."""
    for memory in body.memories:
        await _update(caller, _memory_id(memory), memory.get("text"))
    return {"message": f"Successfully updated {len(body.memories)} memories"}


@router.delete("/v1/batch/", operation_id="mem0_batch_delete")
async def batch_delete(caller: AgentCaller, body: BatchRequest) -> dict[str, str]:
    """Forget several memories."""
    for memory in body.memories:
        await _delete(caller, _memory_id(memory))
    return {"message": f"Successfully deleted {len(body.memories)} memories"}


@router.post("/v1/feedback/", operation_id="mem0_feedback")
async def feedback(caller: AgentCaller, body: MemoryFeedback) -> dict[str, Any]:
    """Rate a memory as useful or wrong."""
    current, owner = await _current(caller, body.memory_id)
    reason = await clean_reason(*owner, body.feedback_reason)
    if body.feedback is not None:
        opinion = "useful" if body.feedback.upper() == "POSITIVE" else "wrong"
        await curate.give_feedback(*owner, current.item_id, opinion, reason=reason)
    return {"id": str(body.memory_id), "feedback": body.feedback, "feedback_reason": reason}


def _message(message: dict[str, Any], at: datetime | None) -> NewMessage:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    if not isinstance(content, str) or not content.strip():
        raise InvalidInput("each message needs a content that is text", field="messages")
    return NewMessage(
        content=content,
        role=role_named(str(message.get("role", "user"))),
        speaker=message.get("name"),
        event_time=at,
    )


def _memories_of(message: NewMessage, *, infer: bool) -> list[str]:
    """The facts in a message; the whole message without `infer`, or if it states something in which we find no fact."""
    if not infer:
        return [message.content] if message.role is not MessageRole.SYSTEM else []
    if message.role is not MessageRole.USER:
        return []
    facts = facts_in(message.content, speaker=message.speaker, at=message.event_time)
    if facts or not states_something(message.content):
        return [fact.content for fact in facts]
    return [message.content]


def _owner(caller: Caller, ids: dict[str, str]) -> Owner:
    """The owner that mem0's ids name; a credential that is bound to one user or agent acts for no other.

    Who acts for a user writes and finds that user's memories, also under the name of an agent: mem0 has no word for sharing.
    """
    if user := ids.get("user_id") or (caller.identity.user_id if ids else None):
        scope, named = Scope.USER, {"user_id": user, "agent_id": ids.get("agent_id")}
    elif other := ids.get("agent_id") or ids.get("app_id") or ids.get("run_id"):
        scope, named = Scope.AGENT, {"user_id": None, "agent_id": other}
    else:
        raise InvalidInput(f"name whose memories are meant by one of {', '.join(OWNERS)}", field="filters")
    for name, value in named.items():
        bound = getattr(caller.identity, name)
        if value is not None and bound is not None and bound != checked_id(name, value):
            raise NotFound(NO_SUCH_MEMORY)
    return Owner(scope, caller.bound(caller.identity.narrowed(**named)), ids)


def _owners(caller: Caller, filters: dict[str, Any]) -> list[Owner]:
    owners = owners_in(filters)
    if not owners or len(owners) > MOST_OWNERS:
        raise InvalidInput(
            f"name whose memories are meant by one of {', '.join(OWNERS)}; at most {MOST_OWNERS}", field="filters"
        )
    return [_owner(caller, ids) for ids in owners]


async def _list(caller: Caller, filters: dict[str, Any], *, show_expired: bool) -> list[dict[str, Any]]:
    memories: dict[UUID, dict[str, Any]] = {}
    for owner in _owners(caller, filters):
        before: UUID | None = None
        owner_field = "user_id" if owner.scope is Scope.USER else "agent_id"
        while len(memories) < MOST_LISTED:
            page = await curate.list_items(
                *owner.caller, kinds=[Kind.FACT], scope=owner.scope, before=before, limit=PAGE
            )
            for item in page.items:
                # An administrator's list has the items of all owners.
                is_owned = getattr(item, owner_field) == getattr(owner.caller.identity, owner_field)
                shown = _shown(item)
                if is_owned and fits(shown, filters) and (show_expired or not _is_expired(item)):
                    memories[item.item_id] = shown
            before = page.next_before
            if before is None:
                break
    return list(memories.values())


async def _current(caller: Caller, memory_id: UUID) -> tuple[Item, Caller]:
    """The current version of a memory, and the caller that acts for its owner.

    mem0 sends no user with an id. A credential that is bound to no user may act for any user of its tenant, or for those
    that it is limited to, and so may look up the owner; a bound one sees only its own memories.
    """
    own = caller.identity
    admin = caller.bound(replace(own, role=Role.ADMIN, user_id=None))
    seen: set[UUID] = set()
    item = await items.get_item(*admin, memory_id)
    while item.superseded_by is not None and item.item_id not in seen:
        seen.add(item.item_id)
        item = await items.get_item(*admin, item.superseded_by)
    if item.kind != Kind.FACT or item.invalid_at is not None or not _reaches(own, item):
        raise NotFound("there is no such item")
    user_id = item.user_id if item.scope == Scope.USER else own.user_id
    return item, caller.bound(replace(own, user_id=user_id, agent_id=item.agent_id))


def _reaches(own: Identity, item: Item) -> bool:
    if item.scope == Scope.USER:
        return own.user_id in {None, item.user_id} and (own.users is None or item.user_id in own.users)
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


def _memory_id(memory: dict[str, Any]) -> UUID:
    try:
        return UUID(str(memory.get("memory_id")))
    except ValueError:
        raise InvalidInput("each memory needs its memory_id", field="memories") from None


def _literal(text: str) -> dict[str, Any]:
    """Filters in a query: JSON, or the repr of a dict, which the Python client sends."""
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text[:4_000])
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, dict):
            return value
    raise InvalidInput("filters must be a JSON object", field="filters")


def _shown(item: Item | RecalledItem, owner: Owner | None = None) -> dict[str, Any]:
    """A fact in the form of mem0's memories."""
    metadata = item.metadata
    user_id: str | None = None
    agent_id: str | None = None
    category: str | None = None
    if isinstance(item, Item):
        item_id, updated_at, category = item.item_id, item.created_at, item.category
        created_at = item.event_time  # a changed text is a new row of the same event
        user_id, agent_id = item.user_id if item.scope == Scope.USER else None, item.agent_id
    else:
        item_id, created_at, updated_at = item.id, item.event_time, item.event_time
    if owner is not None:
        user_id, agent_id = owner.ids.get("user_id"), owner.ids.get("agent_id")
    return {
        "id": str(item_id),
        "memory": item.content,
        "user_id": user_id,
        "agent_id": metadata.get("mem0_agent_id", agent_id if user_id is None else None),
        "app_id": metadata.get("mem0_app_id"),
        "run_id": metadata.get("mem0_run_id"),
        "metadata": _own_metadata(metadata),
        "categories": [category] if category else [],
        "trust": str(item.trust),
        "expiration_date": metadata.get("mem0_expiration_date"),
        "created_at": created_at.isoformat(),
        "updated_at": updated_at.isoformat(),
    }


def _own_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if not name.startswith("mem0_") and name != "edited_from"}


def _is_expired(item: Item | RecalledItem) -> bool:
    until = item.metadata.get("mem0_expiration_date")
    return isinstance(until, str) and until < datetime.now(UTC).date().isoformat()
