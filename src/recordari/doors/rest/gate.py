"""The outermost layers of a request: its id, log and metrics; then authentication, before anything of it is read.

`Gatekeeper` looks even earlier, for the listener: a request of a tenant that is over its share is held unread.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection
from weakref import WeakKeyDictionary

from starlette.datastructures import URL
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recordari.core.cache import BoundedMap
from recordari.core.identity import Identity
from recordari.core.ids import new_id
from recordari.core.telemetry import Tally, get_log, request_id
from recordari.doors.rest.admission import Admission, Answered
from recordari.doors.rest.limits import RateLimit
from recordari.doors.web.browser import browser_token, require_own_page
from recordari.doors.web.page import is_page
from recordari.errors import Overloaded, RateLimited, RecordariError, Unauthenticated
from recordari.kit.problems import internal_problem, problem
from recordari.kit.rest import bearer
from recordari.tenants.auth import Authenticator

PUBLIC_PATHS = frozenset({"/healthz", "/readyz", "/version", "/metrics", "/openapi.json"})
"""All others need a key, except those of the dashboard and the metadata of RFC 9728."""
METADATA_PATH = "/.well-known/oauth-protected-resource"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
CLIENT_LEFT = 499  # nginx's status for a request whose client went away
REFUSAL = "refusal"  # in the state of a request: the listener has refused it
LIMITED_SECONDS = 1.0  # how long a key over its rate is refused without counting again
MOST_LIMITED = 10_000
MOST_UNCHECKED = 16  # requests let through while their credential is checked

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")
_log = get_log(__name__)
_refused = Tally(_log.warning, "requests_refused")


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

        start, refusal = time.perf_counter(), scope.get("state", {}).get(REFUSAL)
        try:
            if refusal is None:
                await self._app(scope, receive, noted)
            else:
                await problem(refusal)(scope, receive, noted)
        except RecordariError as error:
            if status == 0:
                await problem(error)(scope, receive, noted)
            if isinstance(error, Overloaded):
                refusal = error
            elif error.status >= 500:
                _log.error("request_failed", error=error, code=error.code)
        except Exception as error:  # noqa: BLE001  # the last resort; its text may hold content
            _log.error("request_crashed", error=error)
            if status == 0:
                await internal_problem()(scope, receive, noted)
        finally:
            _report(scope, status or CLIENT_LEFT, time.perf_counter() - start, refusal)


def _given_id(scope: Scope) -> str | None:
    """The id that the caller gave, if it is safe to repeat in logs and answers."""
    text = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id"), "")
    return text if _REQUEST_ID.fullmatch(text) else None


def _report(scope: Scope, status: int, seconds: float, refusal: Overloaded | None) -> None:
    method = scope["method"] if scope["method"] in METHODS else "OTHER"
    # The template, never the raw path: ids in it would make one metric each and show names of users.
    route = getattr(scope.get("route"), "path", None) or scope.get("root_path") or "unmatched"
    scope["app"].state.resources.telemetry.count_request(method=method, route=route, status=status, seconds=seconds)
    identity = scope.get("state", {}).get("identity")
    if refusal is not None:
        # A line for each would cost more than the refusal.
        tenant_id = identity.tenant_id if identity else refusal.details.get("tenant_id")
        _refused.count(code=refusal.code, tenant_id=tenant_id)
        return
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


class Gatekeeper:
    """Decides by a request's credential alone whether it is held; only a credential that was just checked counts."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._authenticator: Authenticator | None = None
        self._limited: BoundedMap[Identity, float] = BoundedMap(MOST_LIMITED, seconds=LIMITED_SECONDS)
        self._let_through: WeakKeyDictionary[asyncio.Task[Identity], int] = WeakKeyDictionary()

    def open(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def limit(self, identity: Identity, retry_after: float) -> None:
        """Note that a key is over its rate."""
        self._limited.put(identity, retry_after)

    def hold(self, authorization: str, answer: Answered) -> Callable[[], None] | None:
        """Hold the request of an `Authorization` header if its tenant is over its share; else return None.

        `answer` is called when the wait is over; the function returned gives the request up before that.
        """
        if self._authenticator is None:
            return None
        credential = bearer(authorization)
        identity = self._authenticator.known(credential)
        if identity is None:
            return self._hold_for_check(self._authenticator.checking(credential), answer)
        tenant_id = identity.tenant_id
        if (retry_after := self._limited.get(identity)) is not None:
            limited = RateLimited(retry_after=retry_after, tenant_id=tenant_id)
            return self._admission.hold(tenant_id, answer, refusal=lambda: limited)
        return self._admission.hold(tenant_id, answer) if self._admission.is_full(tenant_id) else None

    def _hold_for_check(self, checking: asyncio.Task[Identity] | None, answer: Answered) -> Callable[[], None] | None:
        """Hold a request while its credential is checked: of a crowd with one key only the first are let through."""
        if checking is None:
            return None
        self._let_through[checking] = self._let_through.get(checking, 0) + 1
        if self._let_through[checking] <= MOST_UNCHECKED:
            return None
        is_over = False
        give_up: Callable[[], None] | None = None

        def checked(done: asyncio.Task[Identity]) -> None:
            nonlocal give_up
            if is_over:
                return
            if done.cancelled() or done.exception() is not None:
                answer(None)  # it is told why
            else:
                give_up = self._admission.hold(done.result().tenant_id, answer)

        def leave() -> None:
            nonlocal is_over
            is_over = True
            if give_up is not None:
                give_up()

        checking.add_done_callback(checked)
        return leave


def is_public(path: str) -> bool:
    return path in PUBLIC_PATHS or path.startswith(METADATA_PATH)


class Gate:
    """Authenticates a request and counts it against its key, before its body is read."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        rate_limit: RateLimit | None,
        gatekeeper: Gatekeeper,
        described: Collection[str] = (),
    ) -> None:
        """`described` are the paths whose metadata (RFC 9728) a caller without a valid credential is led to."""
        self._app = app
        self._rate_limit = rate_limit
        self._gatekeeper = gatekeeper
        self._described = frozenset(described)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_public(scope["path"]) and not is_page(scope["path"]):
            authenticator: Authenticator = scope["app"].state.authenticator
            token = browser_token(scope) if not _has_authorization(scope) else None
            if token is None:
                identity = await self._authenticate(scope, authenticator)
            else:
                require_own_page(scope)
                identity = await authenticator.authenticate_browser(token)
                send = _not_stored(send)
            scope.setdefault("state", {})["identity"] = identity
            if self._rate_limit is not None:
                try:
                    await self._rate_limit.hit(f"{identity.tenant_id}/{identity.actor}")
                except RateLimited as error:
                    self._gatekeeper.limit(identity, error.retry_after)
                    raise
        await self._app(scope, receive, send)

    async def _authenticate(self, scope: Scope, authenticator: Authenticator) -> Identity:
        try:
            return await authenticator.authenticate(bearer(_authorization(scope)))
        except Unauthenticated as error:
            if scope["path"] not in self._described:
                raise
            url = URL(scope=scope).replace(path=f"{METADATA_PATH}{scope['path']}", query="")
            raise Unauthenticated(error.message, resource_metadata=str(url)) from None


def _not_stored(send: Send) -> Send:
    """Say that the browser must not store the answer: the next person at it may be of another tenant."""

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"cache-control", b"no-store")]
        await send(message)

    return marked


def _has_authorization(scope: Scope) -> bool:
    return any(name == b"authorization" for name, _ in scope["headers"])


def _authorization(scope: Scope) -> str | None:
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    return values[0].decode("latin-1") if len(values) == 1 else None
