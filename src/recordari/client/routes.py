"""Which route serves which verb, and how arguments and answers differ between the library and the wire.

Method and path of every operation come from the declarations of the REST routes. What the path names is taken from the
arguments; the rest is the body, or the query of a GET or DELETE.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import resources
from string import Formatter
from typing import Any
from urllib.parse import quote

import httpx2
from pydantic_core import to_jsonable_python

from recordari.core.identity import tenant_id_of
from recordari.errors import InvalidInput
from recordari.learning.rules.bandit import Posterior
from recordari.learning.rules.workflows import Choice, Procedure
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    not_idempotent: bool = False
    """A POST whose answer the server does not keep for a second one."""

    @property
    def is_keyed(self) -> bool:
        """Whether it carries an `Idempotency-Key`, by which the server does it once."""
        return self.method == "POST" and not self.reads and not self.not_idempotent

    @property
    def is_repeatable(self) -> bool:
        """Whether sending it twice does no harm."""
        return self.method in {"GET", "POST"} and not self.not_idempotent


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


def _item_page(answer: Any) -> Any:
    cursor = answer["next_cursor"]
    before = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode() if cursor else None
    return {"items": answer["items"], "next_before": before}


_LINK = _named(tenant="tenant_name")
_LINKED = _tenant("from_tenant_id")

# What differs between the library and the wire, by verb. A verb that is not here is the same on both.
_WRITTEN: dict[str, Callable[[Arguments, Who], Arguments]] = {
    "open_session": _seconds("idle_limit"),
    "add_messages": _messages,
    "delegate": _own("run"),
    "delegated": _own("run"),
    "set_state": _state,
    "get_state": _state,
    "list_state": _state,
    "delete_state": _state,
    "put_entry": _seconds("ttl"),
    "save_procedure": _procedure,
    "reward": _target,
    "save_agent": _definition,
    "list_items": _named(kinds="kind"),
    "add_database": _tables,
    "update_database": _tables,
    "share": _named(with_tenants="tenants"),
    "list_shares": _shares,
    "accept_share_link": _LINK,
    "decline_share_link": _LINK,
    "set_privacy_policy": _policy,
    "reapply_erasures": _journal,
    "list_events": _named(types="type"),
    "follow_events": _named(types="type"),
}
_READ: dict[str, Callable[[Any], Any]] = {
    "list_items": _item_page,
    "add_database": _database,
    "list_databases": _database,
    "get_database": _database,
    "update_database": _database,
    "refresh_database": _database,
    "start_erasing_user": _with(user_hash=""),
    "get_erasure": _with(user_hash=""),
    "list_webhooks": _with(secret=""),
    "get_webhook": _with(secret=""),
    "set_webhook_active": _with(secret=""),
    "list_shares": _tenant("to_tenant_id"),
    "list_share_links": _LINKED,
    "accept_share_link": _LINKED,
    "decline_share_link": _LINKED,
    "create_webhook": _new_webhook,
}
_WHOLE: dict[str, Callable[[httpx2.Response], Any]] = {
    "hold": _is_new,
    "read_original": _file,
}


def _routes() -> dict[str, Route]:
    """Every operation of the server: `make routes` writes the file from the declarations of the REST routes."""
    listed = json.loads(resources.files(__package__).joinpath("routes.json").read_text("utf-8"))
    return {
        verb: Route(**said, written=_WRITTEN.get(verb), read=_READ.get(verb), whole=_WHOLE.get(verb))
        for verb, said in listed.items()
    }


OPERATIONS = _routes()
