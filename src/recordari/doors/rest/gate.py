"""The gate: every request is authenticated before anything of it is read.

Every path is closed unless it stands in `PUBLIC_PATHS`.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from recordari.doors.rest.limits import RateLimit
from recordari.kit.rest import bearer
from recordari.tenants.auth import Authenticator

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/version", "/metrics", "/openapi.json"})


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


def _authorization(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    return found[0].decode("latin-1") if len(found) == 1 else None
