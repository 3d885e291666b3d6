"""The outermost layers of a request: its id, log and metrics; then authentication, before anything of it is read."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recordari.core.ids import new_id
from recordari.core.telemetry import get_log, is_request_id, request_id
from recordari.doors.rest.limits import RateLimit
from recordari.errors import RecordariError
from recordari.kit.problems import internal_problem, problem
from recordari.kit.rest import bearer
from recordari.tenants.auth import Authenticator

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/version", "/metrics", "/openapi.json"})  # all others need a key
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLIENT_LEFT = 499  # nginx's status for a request whose client went away

_log = get_log(__name__)


class RequestContext:
    """The outermost layer: gives a request its id, log line and metrics, and turns exceptions into answers.

    The answer to an unexpected exception shows nothing of its text.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        current = _given_id(scope) or str(new_id())
        token = request_id.set(current)
        try:
            await self._serve(scope, receive, send, current)
        finally:
            request_id.reset(token)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, current: str) -> None:
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", current.encode())]
            await send(message)

        start = time.perf_counter()
        try:
            await self._app(scope, receive, noted)
        except RecordariError as error:
            if status == 0:
                await problem(error)(scope, receive, noted)
            if error.status >= 500:
                _log.error("request_failed", error=error, code=error.code)
        except Exception as error:  # noqa: BLE001  # the last resort; its text may hold content
            _log.error("request_crashed", error=error)
            if status == 0:
                await internal_problem()(scope, receive, noted)
        finally:
            _report(scope, status or CLIENT_LEFT, time.perf_counter() - start)


def _given_id(scope: Scope) -> str | None:
    text = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), "")
    return text if is_request_id(text) else None


def _report(scope: Scope, status: int, seconds: float) -> None:
    method = scope["method"] if scope["method"] in METHODS else "OTHER"
    # The template, never the raw path: ids in it would make one metric each and show names of users.
    route = getattr(scope.get("route"), "path", None) or scope.get("root_path") or "unmatched"
    scope["app"].state.resources.telemetry.count_request(method=method, route=route, status=status, seconds=seconds)
    identity = scope.get("state", {}).get("identity")
    write = _log.info if route.startswith("/v1/") or status >= 400 else _log.debug
    write(
        "request",
        method=method,
        route=route,
        status=status,
        ms=round(seconds * 1000, 1),
        tenant_id=identity.tenant_id if identity else None,
        actor=identity.actor if identity and identity.actor.startswith("key:") else None,
    )


class Gate:
    """Authenticates a request and counts it against its key, before its body is read."""

    def __init__(self, app: ASGIApp, *, rate_limit: RateLimit | None) -> None:
        self._app = app
        self._rate_limit = rate_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PUBLIC_PATHS:
            authenticator: Authenticator = scope["app"].state.authenticator
            identity = await authenticator.authenticate(bearer(_authorization(scope)))
            if self._rate_limit is not None:
                await self._rate_limit.hit(f"{identity.tenant_id}/{identity.actor}")
            scope.setdefault("state", {})["identity"] = identity
        await self._app(scope, receive, send)


def _authorization(scope: Scope) -> str | None:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    return values[0].decode("latin-1") if len(values) == 1 else None
