"""The outermost layer of a request: its id, log line, metrics, and an answer whatever goes wrong inside."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recordari.core.ids import new_id
from recordari.core.telemetry import get_log, is_request_id, request_id
from recordari.errors import RecordariError
from recordari.kit.problems import internal_problem, problem

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLIENT_LEFT = 499  # what nginx counts a request as whose client went away

_log = get_log(__name__)


class RequestContext:
    """Gives a request its id and turns every exception into an answer that shows nothing of the inside."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
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
                message.setdefault("headers", [])
                message["headers"] = [*message["headers"], (b"x-request-id", current.encode())]
            await send(message)

        start = time.perf_counter()
        try:
            await self._app(scope, receive, noted)
        except RecordariError as error:
            if status == 0:
                await problem(error)(scope, receive, noted)
            if error.status >= 500:
                _log.error("request_failed", error=error, code=error.code)
        except Exception as error:  # noqa: BLE001  # the last line: nobody foresaw it, and its text may carry content
            _log.error("request_crashed", error=error)
            if status == 0:
                await internal_problem()(scope, receive, noted)
        finally:
            _note(scope, status or CLIENT_LEFT, time.perf_counter() - start)


def _given_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            return text if is_request_id(text) else None
    return None


def _note(scope: Scope, status: int, seconds: float) -> None:
    method = scope["method"] if scope["method"] in METHODS else "OTHER"
    # The template, never the raw path: ids in it would make a metric of each and show what users are called.
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
