"""Parts that routes share: the role that a route declares, bodies, pages, cursors and entity tags.

A route states its role by taking `AgentCaller` or `AdminCaller`; a test walks all routes and fails on one that states
none.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import NoneType
from typing import Annotated, Any, Generic, TypeVar, get_args
from uuid import UUID

from fastapi import Depends, Header, Query, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)
from pydantic_core import to_json
from starlette.types import Scope

from recordari.core.identity import Identity, Role, narrowed
from recordari.errors import Forbidden, InvalidInput, PreconditionFailed, Unauthenticated
from recordari.kit.problems import error_responses
from recordari.kit.resources import Resources
from recordari.kit.verbs import Caller

bearer_scheme = HTTPBearer(
    scheme_name="bearer",
    description="An API key (`rcd_…`) or a JWT of the configured issuer.",
    auto_error=False,
)


async def known_query(request: Request) -> None:
    """Refuse an unknown query parameter: a misspelled filter must not show everything."""
    known = _query_names(request.scope["route"]) if request.query_params else frozenset()
    if any(name not in known for name in request.query_params):
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise InvalidInput(f"there is a query parameter that this route does not know; {takes}")


def _query_names(route: APIRoute) -> frozenset[str]:
    dependants, names = [route.dependant], set()
    while dependants:
        dependant = dependants.pop()
        names |= {field.alias for field in dependant.query_params}
        dependants += dependant.dependencies
    return frozenset(names)


class Requires:
    """The dependency by which a route declares its role; it gives the route its `Caller`."""

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(
        self,
        request: Request,
        _: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer_scheme)],
        user: Annotated[str | None, Header(alias="Recordari-User", description="Act for this user.")] = None,
        agent: Annotated[str | None, Header(alias="Recordari-Agent", description="Act as this agent.")] = None,
        session: Annotated[str | None, Header(alias="Recordari-Session", description="In this session.")] = None,
        run: Annotated[str | None, Header(alias="Recordari-Run", description="In this run.")] = None,
    ) -> Caller:
        return caller_of(request.scope, self.role)  # the parameters are there for OpenAPI


_ACTING = {
    b"recordari-user": "user",
    b"recordari-agent": "agent",
    b"recordari-session": "session",
    b"recordari-run": "run",
}


def caller_of(scope: Scope, role: Role) -> Caller:
    """The caller of a request, who must have the role: its credential, narrowed by its headers."""
    acting: dict[str, str | None] = dict.fromkeys(_ACTING.values())
    for header, value in scope["headers"]:
        if header in _ACTING and acting[_ACTING[header]] is None:
            acting[_ACTING[header]] = value.decode("latin-1")
    identity = acting_identity(scope, **acting)
    if role is Role.ADMIN and identity.role is not Role.ADMIN:
        raise Forbidden("this needs a key with the role admin")
    return Caller(resources_of(scope), identity)


def resources_of(scope: Scope) -> Resources:
    """The resources of a request; with an `Idempotency-Key`, those whose writes commit together with its answer.

    What only reads keeps no answer: it might show what was forgotten since.
    """
    held: Resources | None = scope.get("state", {}).get("held")
    resources: Resources = scope["app"].state.resources
    if held is None:
        return resources
    extra = getattr(scope.get("route"), "openapi_extra", None) or {}
    return resources if extra.get(CLIENT, {}).get("reads") else held


AgentCaller = Annotated[Caller, Depends(Requires(Role.AGENT))]
"""For routes that any key of the tenant may call."""

AdminCaller = Annotated[Caller, Depends(Requires(Role.ADMIN))]
"""For routes that govern the tenant."""


def acting_identity(
    scope: Scope, *, user: str | None, agent: str | None, session: str | None, run: str | None
) -> Identity:
    """Return the identity of a request: its credential, narrowed by its raw headers."""
    identity: Identity | None = scope.get("state", {}).get("identity")
    if identity is None:
        raise Unauthenticated
    return narrowed(identity, user=_utf8(user), agent=_utf8(agent), session=_utf8(session), run=_utf8(run))


def _utf8(header: str | None) -> str | None:
    """Decode a header: servers read it as Latin-1, clients send UTF-8."""
    try:
        return header.encode("latin-1").decode("utf-8") if header is not None else None
    except UnicodeError:
        raise InvalidInput("a Recordari header must be UTF-8") from None


T = TypeVar("T")
Row = TypeVar("Row")

MAX_PAGE = 100


class Body(BaseModel):
    """The body of a request: no unknown field, and null for an optional field means that it is omitted."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, body: object) -> object:
        if not isinstance(body, dict) or None not in body.values():
            return body
        optional = {
            name
            for name, field in cls.model_fields.items()
            if not field.is_required() and NoneType not in get_args(field.annotation)
        }
        return {name: value for name, value in body.items() if value is not None or name not in optional}


class Strict(Body):
    """A body without conversions: no text where a number belongs."""

    model_config = ConfigDict(strict=True)


class Shown(BaseModel):
    """An object as callers see it, made from the attributes of another."""

    model_config = ConfigDict(from_attributes=True)


def _only_text(value: object) -> object:
    if not isinstance(value, str | datetime):
        raise ValueError("must be a date and time such as 2027-01-31T09:00:00Z")  # noqa: TRY004  # pydantic's way
    return value


def _within_calendar(value: datetime) -> datetime:
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie within the years 1 to 9999 in UTC") from None
    return value


Moment = Annotated[
    AwareDatetime,
    Field(strict=False),
    BeforeValidator(_only_text, json_schema_input_type=datetime),
    AfterValidator(_within_calendar),
]
"""A moment in a body: ISO 8601 text with its offset, never a bare number."""


_PAGES: dict[type[Any], type[BaseModel]] = {}


class Page(BaseModel, Generic[T]):
    """A part of a list, and the cursor of the next part."""

    items: list[T]
    next_cursor: str | None = Field(description="Give it as `cursor` to get the next page; null at the end.")

    def __class_getitem__(cls, kind: type[Any]) -> type[BaseModel]:  # type: ignore[override]
        """Return the page of a class, with a readable name in OpenAPI: `ItemPage`."""
        if kind not in _PAGES:
            page: Any = super().__class_getitem__(kind)
            _PAGES[kind] = create_model(f"{kind.__name__}Page", __base__=page, __doc__=cls.__doc__)
        return _PAGES[kind]


Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Most items of a page.")]
Cursor = Annotated[str | None, Query(max_length=1024, description="Where to go on: `next_cursor` of the page before.")]


CLIENT = "x-recordari-client"


def client(
    *,
    part: str | None = None,
    cursor: str | None = None,
    by_name: str | None = None,
    reads: bool = False,
    not_idempotent: bool = False,
) -> dict[str, Any]:
    """Describe a route for clients, beyond its schema; part of the OpenAPI description.

    `part`: the field of the answer that the verb returns. `cursor`: the verb's argument that the route takes as a cursor.
    `by_name`: the argument that is a name or an id in the library and a name here. `reads`: a POST that changes nothing.
    `not_idempotent`: a POST whose answer is not stored for a repetition.
    """
    values = {"part": part, "cursor": cursor, "by_name": by_name, "reads": reads, "not_idempotent": not_idempotent}
    return {CLIENT: {name: value for name, value in values.items() if value}}


def paged(kind: type[Any], *, cursor: str | None = None) -> dict[str, Any]:
    """Return the options of a route that answers with pages; `cursor` as in `client`."""
    return {"openapi_extra": client(part="items", cursor=cursor), "response_model": Page[kind]}  # type: ignore[valid-type]


def position(cursor: str | None) -> str | None:
    """Decode a cursor; `InvalidInput` when it is not one of ours."""
    return read_position(cursor, str)


def id_position(cursor: str | None) -> UUID | None:
    return read_position(cursor, UUID)


def number_position(cursor: str | None) -> int | None:
    return read_position(cursor, feed_number)


def read_position(cursor: str | None, read: Callable[[str], T]) -> T | None:
    """Decode a cursor and read its text; `read` raises `ValueError` for a wrong text."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return read(base64.b64decode(padded, altchars=b"-_", validate=True).decode("utf-8"))
    except ValueError:
        raise InvalidInput("this is not a cursor; take `next_cursor` of a page", field="cursor") from None


def feed_number(text: str) -> int:
    """Read a number of at most 18 ASCII digits; `ValueError` otherwise."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError("not a number")
    return int(text)


def cursor_of(position: object | None) -> str | None:
    """Encode a position as a cursor; None at the end."""
    return base64.urlsafe_b64encode(str(position).encode()).decode().rstrip("=") if position is not None else None


def page_of(rows: Sequence[Row], limit: int, key: Callable[[Row], object]) -> dict[str, Any]:
    """Return a page of at most `limit` rows. One row more was read, to see whether there are more."""
    return {"items": rows[:limit], "next_cursor": cursor_of(key(rows[limit - 1]) if len(rows) > limit else None)}


PROBLEMS = error_responses(
    {
        401: "No valid credential.",
        403: "The credential does not reach this.",
        404: "Missing, or not yours.",
        409: "The present state forbids it, or the `Idempotency-Key` was used for another request.",
        413: "Too large.",
        422: "Not valid.",
        429: "Too many requests, or a quota is used up.",
        503: "At capacity, or the database is away.",
        504: "It took too long.",
    }
)
"""The error responses of every route."""


IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", max_length=200, description="Change it only if it is still as under this `ETag`."),
]

MISMATCH = error_responses({412: "It is no longer as under that `ETag`; read it again."})


def etag_of(shown: object) -> str:
    """Return the tag of an object as callers see it; it changes with every change."""
    return f'"{hashlib.sha256(to_json(shown)).hexdigest()[:32]}"'


def require_match(if_match: str | None, etag: str) -> None:
    """Raise `PreconditionFailed` unless the header is left out, `*`, or lists the tag."""
    if if_match is not None and not {"*", etag} & {tag.strip() for tag in if_match.split(",")}:
        raise PreconditionFailed


def bearer(authorization: str | None) -> str | None:
    """Return the credential of an `Authorization` header, if any. The client of mem0 writes `Token` for `Bearer`."""
    scheme, _, credential = (authorization or "").partition(" ")
    return credential.strip() or None if scheme.lower() in {"bearer", "token"} else None


def host_name(scope: Scope) -> str:
    """Return the `Host` header without its port, in lower case; empty unless there is exactly one."""
    hosts: list[str] = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
    return without_port(hosts[0]) if len(hosts) == 1 else ""


def without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host
