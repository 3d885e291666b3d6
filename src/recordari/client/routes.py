"""The one table of the client: which route serves which verb. A verb that is added here is there.

A line says the method, the path and, where the wire differs from the library, how the arguments are written. What the path
names is taken from the arguments; the rest is the body, or the query of a GET or DELETE.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from string import Formatter, ascii_letters
from typing import Any
from urllib.parse import quote

import httpx2
from pydantic_core import to_jsonable_python

from recordari.context.rules.context import ContextItem, SectionName
from recordari.core.identity import Scope, tenant_id_of
from recordari.core.items import Trust
from recordari.errors import InvalidInput
from recordari.learning.rules.bandit import Posterior
from recordari.learning.rules.workflows import Choice, Procedure
from recordari.sessions.rules.window import MessageRole
from recordari.tenants.rules import AgentDefinition

Arguments = dict[str, Any]
Who = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A request as it goes out."""

    path: str
    query: dict[str, Any] = field(default_factory=dict)
    body: Arguments | None = None
    headers: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] | None = None
    files: dict[str, tuple[str, bytes, str]] | None = None
    """Of a form: name, content and media type of each file."""
    lines: AsyncIterator[bytes] | None = None
    """A body that is made while it is sent, which can be done once."""


@dataclass(frozen=True, slots=True)
class Route:
    """How one verb is asked over REST."""

    method: str
    path: str
    part: str | None = None
    """The field of the answer that holds the result; None: the answer is the result."""
    written: Callable[[Arguments, Who], Arguments] | None = None
    """How arguments become fields of the request, where the names or values differ."""
    cursor: str | None = None
    """The argument that the route takes as a cursor."""
    reads: bool = False
    """A POST that changes nothing."""
    read: Callable[[Any], Any] | None = None
    """How the answer becomes what the library returns, where fields differ."""
    whole: Callable[[httpx2.Response], Any] | None = None
    """How the answer is read where its JSON is not all that it says."""
    by_name: str | None = None
    """The argument that is a name or an id in the library and a name on the wire."""
    unkept: bool = False
    """A POST whose answer the server does not keep for a second one."""

    @property
    def is_keyed(self) -> bool:
        """Whether it carries an `Idempotency-Key`, by which the server does it once."""
        return self.method == "POST" and not self.reads and not self.unkept

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice does no harm."""
        return self.method in {"GET", "POST"} and not self.unkept


def wire_of(route: Route, arguments: Arguments, who: Who) -> Wire:
    """The request for a verb called with these arguments."""
    given = route.written(dict(arguments), who) if route.written is not None else dict(arguments)
    headers = given.pop("headers", {})
    if route.cursor is not None and (position := given.pop(route.cursor, None)):
        given["cursor"] = base64.urlsafe_b64encode(str(position).encode()).decode().rstrip("=")
    names = [name for _, name, _, _ in Formatter().parse(route.path) if name]
    place = {name: quote(str(given.pop(name)), safe="") for name in names}
    rest: Arguments = to_jsonable_python(given)
    path = route.path.format(**place)
    if route.method in {"GET", "DELETE"}:
        return Wire(path=path, query={name: _plain(value) for name, value in rest.items()}, headers=headers)
    return Wire(path=path, body=rest, headers=headers)


def answer_of(route: Route, response: httpx2.Response) -> Any:
    """What the answer to a verb says, in the fields of the library."""
    if route.whole is not None:
        return route.whole(response)
    body: Any = response.json() if response.content else None
    answer = body[route.part] if route.part is not None else body
    return route.read(answer) if route.read is not None else answer


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _seconds(name: str) -> Callable[[Arguments, Who], Arguments]:
    """A length of time is written in seconds: `ttl` as `ttl_seconds`, `idle_limit` as `idle_seconds`."""

    def written(given: Arguments, who: Who) -> Arguments:
        length = given.pop(name, None)
        if isinstance(length, timedelta):
            given[f"{name.removesuffix('_limit')}_seconds"] = int(length.total_seconds())
        return given

    return written


def _own(noun: str) -> Callable[[Arguments, Who], Arguments]:
    """The session or run that acts, where the call names none."""

    def written(given: Arguments, who: Who) -> Arguments:
        given.setdefault(f"{noun}_id", who.get(noun))
        if given[f"{noun}_id"] is None:
            raise InvalidInput(f"give {noun}_id, or act in a {noun}", field=f"{noun}_id")
        return given

    return written


def _state(given: Arguments, who: Who) -> Arguments:
    owner = given.setdefault("owner", "session")
    given.setdefault("owner_id", who.get(str(owner)))
    if given["owner_id"] is None:
        raise InvalidInput(f"state of a {owner} needs its id: give owner_id, or act as a {owner}", field="owner_id")
    if "key" in given:
        given["state_key"] = given.pop("key")
    return _seconds("ttl")(given, who)


def _messages(given: Arguments, who: Who) -> Arguments:
    given["messages"] = given.pop("new")
    return _own("session")(given, who)


def _procedure(given: Arguments, who: Who) -> Arguments:
    prior = given.pop("prior", None)
    return {**given, "alpha": prior.alpha, "beta": prior.beta} if isinstance(prior, Posterior) else given


def _target(given: Arguments, who: Who) -> Arguments:
    match given.pop("target"):
        case Choice(choice_id=target_id) | Procedure(procedure_id=target_id):
            return {**given, "target_id": target_id}
        case target_id:
            return {**given, "target_id": target_id}


def _definition(given: Arguments, who: Who) -> Arguments:
    definition, expected = given.pop("definition"), given.pop("expected_version", None)
    if not isinstance(definition, AgentDefinition):
        raise InvalidInput("definition must be an AgentDefinition", field="definition")
    if expected is not None:
        given["headers"] = {"If-Match": f'"{expected}"'} if expected else {"If-None-Match": "*"}
    return {**given, **to_jsonable_python(definition)}


def _with(**unseen: Any) -> Callable[[Any], Any]:
    """Fields that no door shows, as they are for somebody who cannot see them."""

    def read(answer: Any) -> Any:
        return [{**unseen, **one} for one in answer] if isinstance(answer, list) else {**unseen, **answer}

    return read


def _named(**names: str) -> Callable[[Arguments, Who], Arguments]:
    """Arguments that have another name on the wire."""

    def written(given: Arguments, who: Who) -> Arguments:
        return {names.get(name, name): value for name, value in given.items()}

    return written


def _journal(given: Arguments, who: Who) -> Arguments:
    if "file" in given:
        raise InvalidInput("a server reads its own journal of erasures; leave `file` out", field="file")
    return given


def _policy(given: Arguments, who: Who) -> Arguments:
    setting = given.pop("setting")
    if not isinstance(setting, Mapping):
        raise InvalidInput("privacy must be an object, such as {'email': 'keep'}", field="privacy")
    own = {name: setting[name] for name in ("enabled", "default") if name in setting}
    return {**given, **own, "actions": {name: action for name, action in setting.items() if name not in own}}


def _tables(given: Arguments, who: Who) -> Arguments:
    """Names alone stand for whole tables."""
    if isinstance(tables := given.get("tables"), list | tuple | set | frozenset):
        given["tables"] = dict.fromkeys(tables)
    return given


def _database(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_database(one) for one in answer]
    return {**answer, "schema": answer["table_schema"]}


def _shares(given: Arguments, who: Who) -> Arguments:
    if "before" in given:
        given["before"] = " ".join(str(one) for one in given["before"])
    return given


def _tenant(field: str) -> Callable[[Any], Any]:
    """The id of a tenant follows from its name, which is all that is shown."""

    def read(answer: Any) -> Any:
        if isinstance(answer, list):
            return [read(one) for one in answer]
        return {**answer, field: tenant_id_of(answer["tenant"])}

    return read


def _new_webhook(answer: Any) -> Any:
    return {**answer, "webhook": {**answer["webhook"], "secret": ""}}


def _file(response: httpx2.Response) -> tuple[bytes, str]:
    return response.content, response.headers.get("content-type", "").partition(";")[0]


def _is_new(response: httpx2.Response) -> bool:
    return response.status_code == httpx2.codes.CREATED


def _context(answer: Any) -> Any:
    return {**answer, "sections": [_section(one) for one in answer["sections"]]}


def _section(shown: Any) -> Any:
    kept = []
    for each in shown["items"]:
        item = {name: each[name] for name in _ITEM if name in each}
        if each["is_cut"]:  # what is missing is not sent; that it is missing can be told by the length
            item["content"] += "…"
        if shown["name"] == SectionName.WINDOW and each["item_id"] is not None:
            item["message"] = _window_message(each)
        kept.append({"item": item, "content": each["content"], "tokens": each["tokens"]})
    return {"name": shown["name"], "budget": shown["budget"], "items": kept}


def _window_message(shown: Any) -> Any:
    """A message as far as a context shows it: above all its place in the session, after which it is called."""
    return {
        **{name: shown[name] for name in ("item_id", "content", "tokens", "payload_key", "trust")},
        "position": int(shown["ref"].lstrip(ascii_letters)),
        "role": _ROLES.get(shown["trust"], MessageRole.ASSISTANT),
        "speaker": shown["who"],
        "scope": shown["scope"] or Scope.SESSION,
        "event_time": shown["when"],
        "message_id": shown["source_ref"] if shown["source_ref"] != shown["item_id"] else None,
    }


def _item_page(answer: Any) -> Any:
    cursor = answer["next_cursor"]
    before = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode() if cursor else None
    return {"items": answer["items"], "next_before": before}


UNPIN = Route("DELETE", "/v1/items/{item_id}/pin")
IDENTITY = Route("GET", "/v1/whoami")
USER_PROFILE = Route("GET", "/v1/users/{user_id}/profile")

_LINK = _named(tenant="tenant_name")
_LINKED = _tenant("from_tenant_id")
_ITEM = frozenset(one.name for one in fields(ContextItem))
_ROLES = {Trust.USER: MessageRole.USER, Trust.TOOL: MessageRole.TOOL}

ROUTES: dict[str, Route] = {
    "remember": Route("POST", "/v1/items"),
    "remember_many": Route("POST", "/v1/items/batch", "items"),
    "remember_fact": Route("POST", "/v1/remember_fact"),
    "get_item": Route("GET", "/v1/items/{item_id}"),
    "recall": Route("POST", "/v1/recall", reads=True),
    "search_knowledge": Route("POST", "/v1/search_knowledge", reads=True, by_name="source"),
    "get_context": Route("POST", "/v1/context", reads=True, read=_context),
    "read_tool_output": Route("GET", "/v1/tool_outputs/{key}"),
    "open_session": Route("POST", "/v1/sessions", written=_seconds("idle_limit")),
    "list_sessions": Route("GET", "/v1/sessions", "items", cursor="before"),
    "get_session": Route("GET", "/v1/sessions/{session_id}"),
    "close_session": Route("POST", "/v1/sessions/{session_id}/close"),
    "resume_session": Route("GET", "/v1/sessions/{session_id}/resume"),
    "add_messages": Route("POST", "/v1/sessions/{session_id}/messages", written=_messages),
    "list_messages": Route("GET", "/v1/sessions/{session_id}/messages"),
    "get_window": Route("GET", "/v1/sessions/{session_id}/window"),
    "report_usage": Route("POST", "/v1/sessions/{session_id}/usage"),
    "add_note": Route("POST", "/v1/sessions/{session_id}/notes"),
    "list_notes": Route("GET", "/v1/sessions/{session_id}/notes"),
    "get_turn_state": Route("GET", "/v1/sessions/{session_id}/turn_state"),
    "start_run": Route("POST", "/v1/runs"),
    "list_runs": Route("GET", "/v1/runs", "items", cursor="before"),
    "get_run": Route("GET", "/v1/runs/{run_id}"),
    "start_turn": Route("POST", "/v1/runs/{run_id}/turns"),
    "end_turn": Route("POST", "/v1/runs/{run_id}/turns/end"),
    "complete_run": Route("POST", "/v1/runs/{run_id}/complete"),
    "fail_run": Route("POST", "/v1/runs/{run_id}/fail"),
    "record_tool_calls": Route("POST", "/v1/runs/{run_id}/tool_calls"),
    "replay_run": Route("GET", "/v1/runs/{run_id}/replay"),
    "delegate": Route("PUT", "/v1/runs/{run_id}/delegated/{name}", written=_own("run")),
    "delegated": Route("GET", "/v1/runs/{run_id}/delegated", written=_own("run")),
    "append_episode": Route("POST", "/v1/episodes"),
    "last_episodes": Route("GET", "/v1/episodes/last"),
    "set_state": Route("PUT", "/v1/state/{owner}/{owner_id}/{state_key}", written=_state),
    "get_state": Route("GET", "/v1/state/{owner}/{owner_id}/{state_key}", written=_state),
    "list_state": Route("GET", "/v1/state/{owner}/{owner_id}", written=_state),
    "delete_state": Route("DELETE", "/v1/state/{owner}/{owner_id}/{state_key}", written=_state),
    "put_entry": Route("PUT", "/v1/entries", written=_seconds("ttl")),
    "get_entry": Route("GET", "/v1/entries"),
    "delete_entry": Route("DELETE", "/v1/entries"),
    "search_entries": Route("POST", "/v1/entries/search", reads=True),
    "list_namespaces": Route("POST", "/v1/entries/namespaces", reads=True),
    "save_procedure": Route("PUT", "/v1/procedures", written=_procedure),
    "list_procedures": Route("GET", "/v1/procedures", "items", cursor="after"),
    "active_procedures": Route("GET", "/v1/procedures/active"),
    "procedure_history": Route("GET", "/v1/procedures/history"),
    "choose": Route("POST", "/v1/procedures/choose"),
    "reward": Route("POST", "/v1/procedures/reward", written=_target),
    "get_procedure": Route("GET", "/v1/procedures/{procedure_id}"),
    "retire_procedure": Route("POST", "/v1/procedures/{procedure_id}/retire"),
    "list_outcomes": Route("GET", "/v1/procedures/{procedure_id}/outcomes", "items", cursor="before"),
    "get_tenant": Route("GET", "/v1/tenant"),
    "update_tenant": Route("PATCH", "/v1/tenant"),
    "list_users": Route("GET", "/v1/users", "items", cursor="after"),
    "get_user": Route("GET", "/v1/users/{user_id}"),
    "save_user": Route("PUT", "/v1/users/{user_id}"),
    "list_agents": Route("GET", "/v1/agents", "items", cursor="after"),
    "get_agent": Route("GET", "/v1/agents/{agent_id}"),
    "save_agent": Route("PUT", "/v1/agents/{agent_id}", written=_definition),
    "delete_agent": Route("DELETE", "/v1/agents/{agent_id}"),
    "create_key": Route("POST", "/v1/keys"),
    "list_keys": Route("GET", "/v1/keys", "items"),
    "revoke_key": Route("DELETE", "/v1/keys/{key_id}"),
    "list_audit": Route("GET", "/v1/audit", "items", cursor="before"),
    "start_reindex": Route("POST", "/v1/reindex", "job_id"),
    "start_reembed": Route("POST", "/v1/reembed", "job_id"),
    "list_jobs": Route("GET", "/v1/jobs", "items"),
    "list_dead_letters": Route("GET", "/v1/jobs/dead_letters", "items"),
    "replay_dead_letter": Route("POST", "/v1/jobs/dead_letters/{dead_letter_id}/replay"),
    "discard_dead_letter": Route("DELETE", "/v1/jobs/dead_letters/{dead_letter_id}"),
    "list_reports": Route("GET", "/v1/reports", "items", cursor="before"),
    "make_daily_brief": Route("POST", "/v1/reports/daily_brief"),
    "get_report": Route("GET", "/v1/reports/{report_id}"),
    "list_items": Route("GET", "/v1/items", written=_named(kinds="kind"), cursor="before", read=_item_page),
    "item_history": Route("GET", "/v1/items/{item_id}/history"),
    "item_provenance": Route("GET", "/v1/items/{item_id}/provenance"),
    "edit_item": Route("PATCH", "/v1/items/{item_id}"),
    "invalidate_item": Route("POST", "/v1/items/{item_id}/invalidate"),
    "restore_item": Route("POST", "/v1/items/{item_id}/restore"),
    "pin_item": Route("PUT", "/v1/items/{item_id}/pin"),
    "give_feedback": Route("POST", "/v1/items/{item_id}/feedback", "confidence"),
    "forget": Route("POST", "/v1/items/{item_id}/forget"),
    "hold": Route("PUT", "/v1/items/{item_id}/holds/{action_id}", whole=_is_new),
    "list_holds": Route("GET", "/v1/items/{item_id}/holds"),
    "release": Route("DELETE", "/v1/items/{item_id}/holds/{action_id}"),
    "consolidate_session": Route("POST", "/v1/sessions/{session_id}/consolidate"),
    "add_database": Route("POST", "/v1/databases", written=_tables, read=_database),
    "list_databases": Route("GET", "/v1/databases", read=_database),
    "get_database": Route("GET", "/v1/databases/{database_id}", read=_database),
    "update_database": Route("PATCH", "/v1/databases/{database_id}", written=_tables, read=_database),
    "refresh_database": Route("POST", "/v1/databases/{database_id}/refresh", read=_database),
    "remove_database": Route("DELETE", "/v1/databases/{database_id}"),
    "query_data": Route("POST", "/v1/query_data", reads=True, by_name="database"),
    "list_proposals": Route("GET", "/v1/proposals", "items", cursor="before"),
    "review_memory": Route("POST", "/v1/proposals/review"),
    "get_proposal_policy": Route("GET", "/v1/proposals/policy"),
    "set_proposal_policy": Route("PUT", "/v1/proposals/policy"),
    "get_proposal": Route("GET", "/v1/proposals/{proposal_id}"),
    "accept_proposal": Route("POST", "/v1/proposals/{proposal_id}/accept"),
    "reject_proposal": Route("POST", "/v1/proposals/{proposal_id}/reject"),
    "undo_proposal": Route("POST", "/v1/proposals/{proposal_id}/undo"),
    "get_organisation": Route("GET", "/v1/shares/organisation"),
    "share": Route("POST", "/v1/shares", written=_named(with_tenants="tenants")),
    "get_job": Route("GET", "/v1/jobs/{job_id}"),
    "job_counts": Route("GET", "/v1/jobs/counts"),
    "enqueue_job": Route("POST", "/v1/jobs", "job_id"),
    "memory_stats": Route("GET", "/v1/stats"),
    "quota_usage": Route("GET", "/v1/quota"),
    "get_retention_policy": Route("GET", "/v1/retention"),
    "set_retention_policy": Route("PATCH", "/v1/retention"),
    "sweep": Route("POST", "/v1/retention/sweep"),
    "fade": Route("POST", "/v1/decay"),
    "start_erasing_user": Route("POST", "/v1/erasures", read=_with(user_hash="")),
    "get_erasure": Route("GET", "/v1/erasures/{erasure_id}", read=_with(user_hash="")),
    "list_protected_sources": Route("GET", "/v1/protected_sources"),
    "unprotect_source": Route("DELETE", "/v1/protected_sources/{source_id}"),
    "list_webhooks": Route("GET", "/v1/webhooks", read=_with(secret="")),
    "get_webhook": Route("GET", "/v1/webhooks/{webhook_id}", read=_with(secret="")),
    "set_webhook_active": Route("PATCH", "/v1/webhooks/{webhook_id}", read=_with(secret="")),
    "delete_webhook": Route("DELETE", "/v1/webhooks/{webhook_id}"),
    "list_sources": Route("GET", "/v1/sources", "items", cursor="after", read=_with(folder=None)),
    "add_source": Route("POST", "/v1/sources", read=_with(folder=None)),
    "get_source": Route("GET", "/v1/sources/{source_id}", read=_with(folder=None)),
    "update_source": Route("PATCH", "/v1/sources/{source_id}", read=_with(folder=None)),
    "remove_source": Route("DELETE", "/v1/sources/{source_id}"),
    "start_sync": Route("POST", "/v1/sources/{source_id}/sync", "job_id"),
    "add_document": Route("POST", "/v1/documents", unkept=True, by_name="source"),
    "list_documents": Route("GET", "/v1/documents", "items", cursor="after", by_name="source"),
    "get_document": Route("GET", "/v1/documents/{document_id}"),
    "read_document": Route("GET", "/v1/documents/{document_id}/text"),
    "read_original": Route("GET", "/v1/documents/{document_id}/original", whole=_file),
    "delete_document": Route("DELETE", "/v1/documents/{document_id}"),
    "copy_memories": Route("POST", "/v1/agents/{agent_id}/copy"),
    "knowledge_map": Route("GET", "/v1/knowledge/map", "text"),
    "protect_source": Route("PUT", "/v1/protected_sources/{source_id}", "texts"),
    "replay_dead_letters": Route("POST", "/v1/jobs/dead_letters/replay", "replayed"),
    "withdraw": Route("DELETE", "/v1/shares/{item_id}", "tenants"),
    "list_shares": Route("GET", "/v1/shares", "items", _shares, "before", read=_tenant("to_tenant_id")),
    "list_share_links": Route("GET", "/v1/share_links", read=_LINKED),
    "accept_share_link": Route("POST", "/v1/share_links/{tenant_name}/accept", written=_LINK, read=_LINKED),
    "decline_share_link": Route("POST", "/v1/share_links/{tenant_name}/decline", written=_LINK, read=_LINKED),
    "profile": Route("GET", "/v1/agents/{agent_id}/profile"),
    "get_privacy_policy": Route("GET", "/v1/privacy"),
    "set_privacy_policy": Route("PUT", "/v1/privacy", written=_policy),
    "reapply_erasures": Route("POST", "/v1/erasures/reapply", written=_journal),
    "list_events": Route("GET", "/v1/events", "items", written=_named(types="type")),
    "follow_events": Route("GET", "/v1/events", written=_named(types="type")),
    "create_webhook": Route("POST", "/v1/webhooks", read=_new_webhook),
    "export": Route("GET", "/v1/export"),
    "import_export": Route("POST", "/v1/import_export", unkept=True),
}
