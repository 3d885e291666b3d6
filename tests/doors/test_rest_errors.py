"""Every error has one shape, and neither it nor the log carries what was sent."""

from __future__ import annotations

import inspect

import pytest
from tests.doors.rest_door import REQUEST_ID, furnish, logs, open_door

from recordari import errors
from recordari.errors import ProviderError, QuotaExceeded, RecordariError
from recordari.kit.resources import Resources
from recordari.kit.rest import AgentCaller

ERRORS = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, RecordariError) and error is not RecordariError
]
CANARY = "CANARY7a3f9"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
async def test_each_of_our_errors_becomes_a_problem_with_its_status_and_code(
    resources: Resources, error: type[RecordariError]
) -> None:
    async with open_door(resources) as door:

        async def failing(caller: AgentCaller) -> None:
            named = {"service": "the embedding model"} if error is ProviderError else {}
            raise error(secret=CANARY, **named)

        door.app.add_api_route("/v1/failing", failing)
        answer = await door.request("GET", "/v1/failing")
        assert answer.status_code == error.status
        assert answer.headers["content-type"] == "application/problem+json"
        body = answer.json()
        assert set(body) == {"type", "title", "status", "code", "detail", "instance"}
        assert body["code"] == error.code
        assert body["type"] == f"urn:recordari:problem:{error.code}"
        assert body["status"] == error.status
        assert body["instance"] == answer.headers["x-request-id"] == REQUEST_ID
        comes_back = error.status in {429, 503} and error is not QuotaExceeded  # a budget may never refill by itself
        assert ("retry-after" in answer.headers) == comes_back
        assert CANARY not in answer.text


async def test_an_unforeseen_exception_shows_its_id_and_nothing_of_its_inside(resources: Resources) -> None:
    async with open_door(resources) as door:

        async def crashing(caller: AgentCaller) -> None:
            raise RuntimeError(CANARY)

        door.app.add_api_route("/v1/crashing", crashing)
        with logs() as written:
            answer = await door.request("GET", "/v1/crashing")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert CANARY not in answer.text
        assert CANARY not in written.getvalue()
        assert "RuntimeError" in written.getvalue()
        assert "crashing" in written.getvalue(), "the place in the code is there for who must mend it"
        assert REQUEST_ID in written.getvalue()


async def test_a_validation_error_names_the_field_and_not_the_value(resources: Resources) -> None:
    async with open_door(resources) as door:
        body = {"name": {"deep": CANARY}, "role": CANARY, "expires_at": CANARY, f"{CANARY} {CANARY}": 1}
        answer = await door.request("POST", "/v1/keys", json=body)
        assert answer.status_code == 422
        assert CANARY not in answer.text
        assert {"body.name", "body.role", "body.expires_at", "body.?"} == {
            error["field"] for error in answer.json()["errors"]
        }
        misspelt = await door.request("PUT", "/v1/users/ann", json={"timezone": "UTC"})
        assert misspelt.json()["errors"] == [
            {"field": "body.timezone", "message": "is not a known field; did you mean time_zone?"}
        ]
        nested = {"messages": [{"content": "hello", "when": "today"}]}
        unknown = await door.request("POST", "/v1/sessions/one/messages", json=nested)
        (error,) = unknown.json()["errors"]
        assert error["field"] == "body.messages.0.when"
        assert error["message"].startswith("is not a known field; known are ")
        assert {"content", "role", "event_time"} <= set(error["message"].partition("known are ")[2].split(", "))


async def test_a_body_that_is_no_json_is_told_what_it_should_be(resources: Resources) -> None:
    async with open_door(resources) as door:
        form = {"Content-Type": "application/x-www-form-urlencoded"}  # what curl sends unless told otherwise
        for headers, body, message in (
            (form, b'{"query": "tea"}', "must be a JSON object, sent with `Content-Type: application/json`"),
            ({"Content-Type": "application/json"}, b'{"query":', "must be valid JSON; it breaks off at character 9"),
        ):
            answer = await door.request("POST", "/v1/recall", content=body, headers=headers)
            assert answer.status_code == 422
            assert answer.json()["errors"] == [{"field": "body", "message": message}]


async def test_a_request_id_is_made_when_none_or_an_odd_one_is_given(resources: Resources) -> None:
    async with open_door(resources) as door:
        seen = set()
        for odd in (f"{CANARY} has spaces", "short", "x" * 65, "a/b/c/d/e/f", "<script>x"):
            answer = await door.request("GET", "/healthz", key=None, headers={"X-Request-Id": odd})
            assert answer.headers["x-request-id"] != odd
            seen.add(answer.headers["x-request-id"])
        assert len(seen) == 5
        for good in ("a" * 8, "018f-AB_c.9"):
            answer = await door.request("GET", "/healthz", key=None, headers={"X-Request-Id": good})
            assert answer.headers["x-request-id"] == good


async def test_no_canary_reaches_a_log_a_metric_or_an_error_body(resources: Resources) -> None:
    async with open_door(resources, max_body_bytes=4096) as door:
        with logs() as written:
            await furnish(door, f"{CANARY} stored")
            refused = []
            for method, path, body in (
                ("PUT", f"/v1/users/{CANARY}", {"time_zone": CANARY}),
                ("PUT", f"/v1/users/{CANARY}", {"display_name": CANARY * 100}),
                ("PATCH", "/v1/tenant", {"language": CANARY}),
                ("PATCH", "/v1/tenant", {"settings": CANARY}),
                ("PATCH", "/v1/tenant", {"settings": {CANARY: CANARY * 1000}}),
                ("POST", "/v1/keys", {"name": f" {CANARY}", "role": "agent"}),
                ("POST", "/v1/keys", {"name": CANARY, "expires_at": CANARY}),
                ("DELETE", f"/v1/keys/{CANARY}", None),
                ("GET", f"/v1/users/{CANARY}", None),
                ("GET", f"/v1/agents/{CANARY}?limit={CANARY}", None),
                ("GET", f"/v1/audit?subject_kind={CANARY}", None),
                ("GET", f"/v1/users?cursor={CANARY}&limit=1", None),
                ("GET", f"/v1/{CANARY}", None),
                (CANARY, "/v1/users", None),
            ):
                answer = await door.request(method, path, json=body)
                assert 400 <= answer.status_code < 500, (method, path, answer.status_code)
                refused.append(answer.text)
            refused.append((await door.request("GET", "/v1/whoami", key=CANARY)).text)
            accepted = await door.request("PUT", f"/v1/users/{CANARY}", json={"display_name": CANARY})
            assert accepted.status_code == 200
            metrics = await door.request("GET", "/metrics", key=None)
        assert not [text for text in refused if CANARY in text]
        assert CANARY not in metrics.text
        assert CANARY not in written.getvalue()
        assert door.keys["admin"] not in written.getvalue()


async def test_a_query_parameter_that_nobody_knows_is_refused(resources: Resources) -> None:
    async with open_door(resources) as door:
        assert (await door.request("GET", "/v1/items?kind=fact&limit=3")).status_code == 200
        refused = await door.request("GET", "/v1/items?kinds=fact")
        assert refused.status_code == 422
        assert "kind, known_at, limit" in refused.json()["detail"] and "kinds" not in refused.json()["detail"]


async def test_a_number_that_the_database_cannot_keep_is_refused(resources: Resources) -> None:
    async with open_door(resources) as door:
        chat = {"Recordari-User": "ana", "Recordari-Agent": "helper", "Recordari-Session": "s1"}
        await door.request("POST", "/v1/sessions", json={"session_id": "s1"}, headers=chat)
        note = {"content": "call the carrier", "importance": 1e-320}
        refused = await door.request("POST", "/v1/sessions/s1/notes", json=note, headers=chat)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input"), refused.text
