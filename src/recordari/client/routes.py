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

from recordari.errors import InvalidInput
from recordari.learning.rules.workflows import Choice, Posterior, Workflow
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
        written = " ".join(map(str, position)) if isinstance(position, tuple) else str(position)
        given["cursor"] = base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")
    names = [name for _, name, _, _ in Formatter().parse(route.path) if name]
    place = {name: quote(str(given.pop(name) if name in given else _acting(name, who)), safe="") for name in names}
    rest: Arguments = to_jsonable_python(dict(_in_seconds(name, value) for name, value in given.items()))
    path = route.path.format(**place)
    if route.method in {"GET", "DELETE"}:
        return Wire(path=path, query={name: _plain(value) for name, value in rest.items()}, headers=headers)
    return Wire(path=path, body=rest, headers=headers)


def _acting(name: str, who: Who) -> str:
    """The session or run that acts, where the call names none."""
    noun = name.removesuffix("_id")
    if noun not in who:
        raise InvalidInput(f"give {name}, or act in a {noun}", field=name)
    return who[noun]


def _in_seconds(name: str, value: Any) -> tuple[str, Any]:
    """A length of time goes in seconds: `ttl` as `ttl_seconds`."""
    return (f"{name}_seconds", int(value.total_seconds())) if isinstance(value, timedelta) else (name, value)


def answer_of(route: Route, response: httpx2.Response) -> Any:
    """What the answer to a verb says, in the fields of the library."""
    if route.whole is not None:
        return route.whole(response)
    body: Any = response.json() if response.content else None
    answer = body[route.part] if route.part is not None else body
    return route.read(answer) if route.read is not None else answer


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _state(given: Arguments, who: Who) -> Arguments:
    owner = given.setdefault("owner", "session")
    given.setdefault("owner_id", who.get(str(owner)))
    if given["owner_id"] is None:
        raise InvalidInput(f"state of a {owner} needs its id: give owner_id, or act as a {owner}", field="owner_id")
    return given


def _workflow(given: Arguments, who: Who) -> Arguments:
    prior = given.pop("prior", None)
    return {**given, "alpha": prior.alpha, "beta": prior.beta} if isinstance(prior, Posterior) else given


def _target(given: Arguments, who: Who) -> Arguments:
    match given.pop("target"):
        case Choice(choice_id=target_id) | Workflow(workflow_id=target_id):
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


def _file(response: httpx2.Response) -> tuple[bytes, str]:
    return response.content, response.headers.get("content-type", "").partition(";")[0]


def _item_page(answer: Any) -> Any:
    cursor = answer["next_cursor"]
    before = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode() if cursor else None
    return {"items": answer["items"], "next_before": before}


# What differs between the library and the wire, by verb. A verb that is not here is the same on both.
_WRITTEN: dict[str, Callable[[Arguments, Who], Arguments]] = {
    "set_state": _state,
    "get_state": _state,
    "list_state": _state,
    "delete_state": _state,
    "save_workflow": _workflow,
    "reward": _target,
    "save_agent": _definition,
    "list_items": _named(kinds="kind"),
    "set_privacy_policy": _policy,
    "reapply_erasures": _journal,
}
_READ: dict[str, Callable[[Any], Any]] = {
    "list_items": _item_page,
}
_WHOLE: dict[str, Callable[[httpx2.Response], Any]] = {
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
