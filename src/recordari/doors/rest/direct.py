"""Routes that are served without the framework: most take a credential, a body or none, and ids in their path.

The framework matches a route twice, and resolves and checks every header and parameter on its own, which costs more than
many verbs do. What is not plainly a good request goes its way, and its answer says what is wrong. OpenAPI is made from the
same routes.
"""

from __future__ import annotations

import inspect
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi.datastructures import DefaultPlaceholder
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from recordari.core.identity import Role
from recordari.doors.rest.limits import replayed
from recordari.errors import RecordariError
from recordari.kit.problems import problem
from recordari.kit.rest import Requires, caller_of

_JSON = (b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8")
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


class DirectRoute:
    """One route, called with what its signature names."""

    def __init__(self, route: APIRoute, role: Role) -> None:
        (caller,) = route.dependant.dependencies
        assert caller.name is not None and route.response_field is not None
        self.route = route
        self._role = role
        self._caller = caller.name
        self._path = route.dependant.path_params
        self._body = route.dependant.body_params[0] if route.dependant.body_params else None
        self._answer = route.response_field
        self._status = route.status_code or 200

    @classmethod
    def of(cls, route: APIRoute) -> DirectRoute | None:
        """The route, or None if it takes or gives more than this class knows."""
        dependant = route.dependant
        others = (dependant.query_params, dependant.header_params, dependant.cookie_params)
        injected = (dependant.request_param_name, dependant.response_param_name, dependant.background_tasks_param_name)
        plain = not any(others) and not any(injected) and dependant.security_scopes_param_name is None
        answers = route.response_field is not None and route.status_code != 204
        if not plain or not answers or not isinstance(route.response_class, DefaultPlaceholder):
            return None
        if not inspect.iscoroutinefunction(route.endpoint) or len(dependant.body_params) > 1:
            return None
        for body in dependant.body_params:
            kind = body.field_info.annotation
            if body is not route.body_field or not isinstance(kind, type) or not issubclass(kind, BaseModel):
                return None
        roles = [need.call.role for need in dependant.dependencies if isinstance(need.call, Requires)]
        return cls(route, roles[0]) if len(roles) == len(dependant.dependencies) == 1 else None

    async def serve(self, scope: Scope, receive: Receive, send: Send, path: Mapping[str, str]) -> Receive | None:
        """Serve a request; or return how to receive it again, if the framework has to look at it."""
        values: dict[str, Any] = {}
        for field in self._path:
            values[field.name], errors = field.validate(path[field.alias])
            if errors:
                return receive
        if self._body is not None:
            message = await receive()
            body = message.get("body", b"")
            if message["type"] != "http.request" or message.get("more_body") or not _is_json(scope):
                return replayed(message, receive)
            try:
                values[self._body.name], errors = self._body.validate(json.loads(body))
            except ValueError:
                return replayed(message, receive)
            if errors:
                return replayed(message, receive)
        scope["route"] = self.route
        values[self._caller] = caller_of(scope, self._role)
        answer, errors = self._answer.validate(await self.route.endpoint(**values))
        if errors:
            raise TypeError("a route gave another answer than it declares")
        content = self._answer.serialize_json(answer)
        headers = [(b"content-length", str(len(content)).encode()), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": content})
        return None


def _is_json(scope: Scope) -> bool:
    types = [value for name, value in scope["headers"] if name == b"content-type"]
    return len(types) == 1 and types[0].lower() in _JSON


class Direct:
    """The innermost layer: serves what needs no framework, and hands on the rest."""

    def __init__(self, app: ASGIApp, *, routes: Iterable[APIRoute]) -> None:
        self._framework = app
        self._routes = DirectRoutes(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        unread: Receive | None = receive
        if scope["type"] == "http":
            try:
                unread = await self._routes.serve(scope, receive, send)
            except RecordariError as error:
                await problem(error)(scope, receive, send)
                return
        if unread is not None:
            await self._framework(scope, unread, send)


class DirectRoutes:
    """Finds the route of a request among all of them, in their order."""

    def __init__(self, routes: Iterable[APIRoute]) -> None:
        self._by_path: dict[tuple[str, str], DirectRoute | None] = {}
        self._by_beginning: defaultdict[str, list[tuple[APIRoute, DirectRoute | None]]] = defaultdict(list)
        for route in routes:
            direct = DirectRoute.of(route)
            self._by_beginning[beginning(route.path)].append((route, direct))
        for known in self._by_beginning.values():
            for route, direct in known:
                if not route.param_convertors:
                    for method in route.methods or ():
                        first = self._first(known, method, route.path)
                        self._by_path[method, route.path] = direct if first and first[0] is route else None

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> Receive | None:
        """Serve a request; or return how to receive it, if the framework has to."""
        method, path = scope["method"], scope["path"]
        if scope["query_string"] or method not in _METHODS or scope.get("root_path"):
            return receive
        if (method, path) in self._by_path:
            direct = self._by_path[method, path]
            return await direct.serve(scope, receive, send, {}) if direct is not None else receive
        found = self._first(self._by_beginning.get(beginning(path), ()), method, path)
        if found is None or found[1] is None:
            return receive
        return await found[1].serve(scope, receive, send, found[2])

    def _first(
        self, known: Sequence[tuple[APIRoute, DirectRoute | None]], method: str, path: str
    ) -> tuple[APIRoute, DirectRoute | None, dict[str, str]] | None:
        for route, direct in known:
            if method in (route.methods or ()) and (match := route.path_regex.match(path)) is not None:
                return route, direct, match.groupdict()
        return None


def beginning(path: str) -> str:
    """The first two segments of a path: each belongs to few routers."""
    return "/".join(path.split("/", 3)[:3])
