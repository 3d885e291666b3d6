"""The route of each verb, and how arguments and answers differ between the library and the wire.

Method and path of every operation come from the declarations of the REST routes. The parameters of the path are taken from
the arguments; the rest is the body, or the query of a GET or DELETE.
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

from recordari.errors import InvalidInput
from recordari.learning.rules.workflows import Choice, Posterior, Workflow
from recordari.tenants.rules import AgentDefinition

Arguments = dict[str, Any]
Who = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    path: str
    query: dict[str, Any] = field(default_factory=dict)
    body: Arguments | None = None
    headers: dict[str, str] = field(default_factory=dict)
    form: dict[str, str] | None = None
    files: dict[str, tuple[str, bytes, str]] | None = None
    """Of a form: name, content and media type of each file."""
    lines: AsyncIterator[bytes] | None = None
    """A body that is generated while it is sent, and so can be sent only once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The route of one verb."""

    method: str
    path: str
    part: str | None = None
    """The field of the answer that holds the result; None: the answer is the result."""
    written: Callable[[Arguments, Who], Arguments] | None = None
    """Turns arguments into fields of the request, if names or values differ."""
    cursor: str | None = None
    """The argument that the route takes as a cursor."""
    reads: bool = False
    """A POST that changes nothing."""
    read: Callable[[httpx2.Response], Any] | None = None
    """Turns the response into the library's result, if it is more than the part of its JSON."""
    by_name: str | None = None
    """The argument that is a name or an id in the library and a name on the wire."""
    not_idempotent: bool = False
    """A POST whose answer the server does not store under an `Idempotency-Key`."""

    @property
    def is_keyed(self) -> bool:
        """Whether it carries an `Idempotency-Key`, so that the server does it once."""
        return self.method == "POST" and not self.reads and not self.not_idempotent

    @property
    def is_repeatable(self) -> bool:
        """Whether it is safe to send it twice."""
        return self.method in {"GET", "POST"} and not self.not_idempotent


def wire_of(route: Route, arguments: Arguments, who: Who) -> Wire:
    """The request for a verb called with these arguments."""
    fields = route.written(dict(arguments), who) if route.written is not None else dict(arguments)
    headers = fields.pop("headers", {})
    if route.cursor is not None and (position := fields.pop(route.cursor, None)):
        text = " ".join(map(str, position)) if isinstance(position, tuple) else str(position)
        fields["cursor"] = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    names = [name for _, name, _, _ in Formatter().parse(route.path) if name]
    parameters = {name: fields.pop(name) if name in fields else _acting(name, who) for name in names}
    path = route.path.format(**{name: quote(str(value), safe="") for name, value in parameters.items()})
    rest: Arguments = to_jsonable_python(dict(_in_seconds(name, value) for name, value in fields.items()))
    if route.method in {"GET", "DELETE"}:
        query = {name: str(value).lower() if isinstance(value, bool) else value for name, value in rest.items()}
        return Wire(path=path, query=query, headers=headers)
    return Wire(path=path, body=rest, headers=headers)


def _acting(name: str, who: Who) -> str:
    """The session or run of the identity, if the call names none."""
    noun = name.removesuffix("_id")
    if noun not in who:
        raise InvalidInput(f"give {name}, or act in a {noun}", field=name)
    return who[noun]


def _in_seconds(name: str, value: Any) -> tuple[str, Any]:
    """Durations are sent in seconds: `ttl` as `ttl_seconds`."""
    return (f"{name}_seconds", int(value.total_seconds())) if isinstance(value, timedelta) else (name, value)


def answer_of(route: Route, response: httpx2.Response) -> Any:
    """The result of a verb, in the fields of the library."""
    if route.read is not None:
        return route.read(response)
    body: Any = response.json() if response.content else None
    return body[route.part] if route.part is not None else body


def _state(arguments: Arguments, who: Who) -> Arguments:
    owner = arguments.setdefault("owner", "session")
    arguments.setdefault("owner_id", who.get(str(owner)))
    if arguments["owner_id"] is None:
        raise InvalidInput(f"state of a {owner} needs its id: give owner_id, or act as a {owner}", field="owner_id")
    return arguments


def _workflow(arguments: Arguments, who: Who) -> Arguments:
    prior = arguments.pop("prior", None)
    return {**arguments, "alpha": prior.alpha, "beta": prior.beta} if isinstance(prior, Posterior) else arguments


def _target(arguments: Arguments, who: Who) -> Arguments:
    match arguments.pop("target"):
        case Choice(choice_id=target_id) | Workflow(workflow_id=target_id):
            return {**arguments, "target_id": target_id}
        case target_id:
            return {**arguments, "target_id": target_id}


def _definition(arguments: Arguments, who: Who) -> Arguments:
    definition, expected = arguments.pop("definition"), arguments.pop("expected_version", None)
    if not isinstance(definition, AgentDefinition):
        raise InvalidInput("definition must be an AgentDefinition", field="definition")
    if expected is not None:
        arguments["headers"] = {"If-Match": f'"{expected}"'} if expected else {"If-None-Match": "*"}
    return {**arguments, **to_jsonable_python(definition)}


def _kind(arguments: Arguments, who: Who) -> Arguments:
    return {"kind" if name == "kinds" else name: value for name, value in arguments.items()}


def _journal(arguments: Arguments, who: Who) -> Arguments:
    if "file" in arguments:
        raise InvalidInput("a server reads its own journal of erasures; leave `file` out", field="file")
    return arguments


def _policy(arguments: Arguments, who: Who) -> Arguments:
    setting = arguments.pop("setting")
    if not isinstance(setting, Mapping):
        raise InvalidInput("privacy must be an object, such as {'email': 'keep'}", field="privacy")
    own = {name: setting[name] for name in ("enabled", "default") if name in setting}
    return {**arguments, **own, "actions": {name: action for name, action in setting.items() if name not in own}}


def _file(response: httpx2.Response) -> tuple[bytes, str]:
    return response.content, response.headers.get("content-type", "").partition(";")[0]


def _item_page(response: httpx2.Response) -> Any:
    page = response.json()
    cursor = page["next_cursor"]
    before = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode() if cursor else None
    return {"items": page["items"], "next_before": before}


# The differences between the library and the wire, by verb. Other verbs are the same on both.
_WRITTEN: dict[str, Callable[[Arguments, Who], Arguments]] = {
    "set_state": _state,
    "get_state": _state,
    "list_state": _state,
    "delete_state": _state,
    "save_workflow": _workflow,
    "reward": _target,
    "save_agent": _definition,
    "list_items": _kind,
    "set_privacy_policy": _policy,
    "reapply_erasures": _journal,
}
_READ: dict[str, Callable[[httpx2.Response], Any]] = {"list_items": _item_page, "read_original": _file}

# `make routes` writes the file from the declarations of the REST routes.
OPERATIONS = {
    verb: Route(**declared, written=_WRITTEN.get(verb), read=_READ.get(verb))
    for verb, declared in json.loads(resources.files(__package__).joinpath("routes.json").read_text("utf-8")).items()
}
