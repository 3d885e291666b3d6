"""Plain routes are served without the framework; a caller cannot tell."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.routing import APIRoute

from recordari.doors.rest.direct import DirectRoute, DirectRoutes
from recordari.routes import ROUTERS

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def test_the_routes_of_a_turn_are_plain() -> None:
    plain = {route.operation_id for route in ROUTES if DirectRoute.of(route) is not None}
    assert {"get_context", "recall", "add_messages", "whoami"} <= plain


@pytest.mark.parametrize(
    ("method", "path", "headers", "body"),
    [
        ("POST", "/v1/recall", {"content-type": "text/plain"}, b'{"query": "a"}'),
        ("POST", "/v1/recall", {"content-type": "application/json"}, b'{"query": 5}'),
        ("POST", "/v1/recall", {"content-type": "application/json"}, b'{"query": '),
        ("POST", "/v1/nothing", {"content-type": "application/json"}, b"{}"),
        ("PUT", "/v1/recall", {"content-type": "application/json"}, b"{}"),
        ("GET", "/v1/items/not-an-id", {}, b""),
    ],
)
async def test_what_is_not_plainly_good_is_handed_on_whole(
    method: str, path: str, headers: dict[str, str], body: bytes
) -> None:
    """The framework gets the same request, with its body unread, and says what is wrong."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": raw, "state": {}}
    again = await DirectRoutes(ROUTES).serve(scope, receive, send)
    assert again is not None and not sent
    assert (await again())["body"] == body
