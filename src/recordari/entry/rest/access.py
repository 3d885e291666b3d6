"""Who may call what: the gate that authenticates before anything is read, and the role each route declares.

Every path is closed unless it stands in `PUBLIC_PATHS`. A route states its role by taking `AgentMemory` or
`AdminMemory`; a test walks all routes and fails on one that states none.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import ASGIApp, Receive, Scope, Send

from recordari.app import Memory
from recordari.core.identity import Identity, Role
from recordari.entry.auth import Authenticator, bearer, narrowed
from recordari.entry.rest.limits import RateLimit
from recordari.errors import Forbidden, InvalidInput, Unauthenticated

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/version", "/metrics", "/openapi.json"})

bearer_scheme = HTTPBearer(
    scheme_name="bearer",
    description="An API key (`rcd_…`) or a JWT of the configured issuer.",
    auto_error=False,
)


class Gate:
    """Authenticates a request and counts it against its key, before its body is read."""

    def __init__(self, app: ASGIApp, *, rate_limit: RateLimit | None) -> None:
        self._app = app
        self._rate_limit = rate_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or raise `Unauthenticated` or `RateLimited`."""
        if scope["type"] == "http" and scope["path"] not in PUBLIC_PATHS:
            authenticator: Authenticator = scope["app"].state.authenticator
            identity = await authenticator.authenticate(bearer(_authorization(scope)))
            if self._rate_limit is not None:
                await self._rate_limit.hit(f"{identity.tenant_id}/{identity.actor}")
            scope.setdefault("state", {})["identity"] = identity
        await self._app(scope, receive, send)


async def known_query(request: Request) -> None:
    """Refuse a query parameter that the route does not know: a filter that is misspelled must not show everything."""
    if not request.query_params:
        return
    known = _query_names(request.scope["route"])
    if any(name not in known for name in request.query_params):
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise InvalidInput(f"there is a query parameter that this route does not know; {takes}")


def _query_names(route: APIRoute) -> frozenset[str]:
    asked, names = [route.dependant], set()
    while asked:
        one = asked.pop()
        names |= {field.alias for field in one.query_params}
        asked += one.dependencies
    return frozenset(names)


class Requires:
    """The dependency by which a route declares its role; it gives the route its `Memory`."""

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
    ) -> Memory:
        """The memory of who asks, or `Forbidden`."""
        identity = acting_identity(request, user=user, agent=agent, session=session, run=run)
        if self.role is Role.ADMIN and identity.role is not Role.ADMIN:
            raise Forbidden("this needs a key with the role admin")
        return Memory(request.app.state.resources, identity)


AgentMemory = Annotated[Memory, Depends(Requires(Role.AGENT))]
"""For routes that any key of the tenant may call."""

AdminMemory = Annotated[Memory, Depends(Requires(Role.ADMIN))]
"""For routes that govern the tenant."""


def acting_identity(
    request: Request, *, user: str | None, agent: str | None, session: str | None, run: str | None
) -> Identity:
    """Who a request acts as: its credential, narrowed by its headers as they came."""
    identity: Identity | None = getattr(request.state, "identity", None)
    if identity is None:
        raise Unauthenticated
    return narrowed(identity, user=_utf8(user), agent=_utf8(agent), session=_utf8(session), run=_utf8(run))


def _authorization(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    return found[0].decode("latin-1") if len(found) == 1 else None


def _utf8(header: str | None) -> str | None:
    """A header's text: servers hand it on as Latin-1, clients mean UTF-8."""
    try:
        return header.encode("latin-1").decode("utf-8") if header is not None else None
    except UnicodeError:
        raise InvalidInput("a Recordari header must be UTF-8") from None
