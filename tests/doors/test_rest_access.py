"""Every route × every kind of key, and that another tenant's things look like nothing at all."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest
from fastapi.routing import APIRoute
from pydantic import SecretStr
from tests.doors.rest_door import client_of, furnish, open_door

from recordari.core.identity import Role
from recordari.doors.rest.gate import PUBLIC_PATHS
from recordari.kit.resources import Resources
from recordari.kit.rest import Requires
from recordari.routes import ROUTERS

SECRET = "canary-of-tenant-test"
ROUTES = [
    (method, route.path, route)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute)
    for method in sorted(route.methods or ())
]
CLOSED = [entry for entry in ROUTES if entry[1] not in PUBLIC_PATHS]


def declared_role(route: APIRoute) -> Role | None:
    roles = [dep.call.role for dep in route.dependant.dependencies if isinstance(dep.call, Requires)]
    return roles[0] if roles else None


def filled(path: str, ids: dict[str, str]) -> str:
    return re.sub(r"{(\w+)(?::\w+)?}", lambda match: ids.get(match[1], str(uuid4())), path)


@pytest.mark.parametrize(("method", "path", "route"), CLOSED, ids=lambda part: part if isinstance(part, str) else "")
def test_a_route_that_is_not_public_declares_its_role(method: str, path: str, route: APIRoute) -> None:
    assert declared_role(route) is not None


async def test_the_routers_are_all_that_is_served(resources: Resources) -> None:
    async with open_door(resources) as door:
        described = {
            (method.upper(), path) for path, methods in door.app.openapi()["paths"].items() for method in methods
        }
        assert described == {(method, path.replace(":path", "")) for method, path, _ in ROUTES}


async def test_every_route_answers_each_kind_of_key_as_it_declares(resources: Resources) -> None:
    async with open_door(resources, rate_limit="") as door:
        ids = await furnish(door, SECRET)
        public_part = "_".join(door.keys["admin"].split("_")[:2])
        wrong = {"none": None, "no key": "nonsense", "guessed": f"{public_part}_{'A' * 43}"}
        for method, path, route in CLOSED:
            target = filled(path, ids)
            answers = [await door.request(method, target, key=key, json={}) for key in wrong.values()]
            assert {answer.status_code for answer in answers} == {401}, (method, path)
            assert len({answer.content for answer in answers}) == 1, (method, path)
            assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
            foreign = await door.request(method, target, key="other", json={})
            assert foreign.status_code < 500, (method, path)
            assert SECRET not in foreign.text, (method, path)
            answer = await door.request(method, target, key="agent", json={})
            if declared_role(route) is Role.ADMIN:
                assert answer.status_code == 403, (method, path)
            else:
                assert answer.status_code < 500, (method, path)
        user = await door.memory.get_user("alice")
        assert user.display_name == SECRET, "the other tenant's calls changed something"
        assert (await door.memory.get_agent("support")).core == SECRET
        keys = await door.memory.list_keys()
        assert keys and all(key.revoked_at is None for key in keys)
        for method, path, _ in CLOSED:
            # Named as an agent too: without one, what belongs to an agent is answered with 401.
            acting = {"Recordari-Agent": "support"}
            answer = await door.request(method, filled(path, ids), key="admin", json={}, headers=acting)
            if answer.status_code == 401:  # it belongs to a user
                acting |= {"Recordari-User": "alice"}
                answer = await door.request(method, filled(path, ids), key="admin", json={}, headers=acting)
            assert answer.status_code < 500, (method, path)
            assert answer.status_code not in {401, 403}, (method, path)


async def test_public_routes_need_no_key(resources: Resources) -> None:
    async with open_door(resources) as door:
        for path in sorted(PUBLIC_PATHS):
            assert (await door.request("GET", path, key=None)).status_code == 200, path


async def test_an_unknown_path_is_closed_too(resources: Resources) -> None:
    async with open_door(resources) as door:
        assert (await door.request("GET", "/v1/nothing", key=None)).status_code == 401
        assert (await door.request("GET", "/v1/nothing")).status_code == 404
        assert (await door.request("POST", "/v1/whoami", json={})).status_code == 405


async def test_a_foreign_id_answers_byte_for_byte_like_a_missing_one(resources: Resources) -> None:
    async with open_door(resources) as door:
        ids = await furnish(door, SECRET)
        missing = {
            "user_id": "nobody",
            "agent_id": "nobody",
            "key_id": str(uuid4()),
            "key": "tout_nothing",
            "owner": "session",
            "job_id": "999999999",
        }
        compared = 0
        for method, path, _ in CLOSED:
            if "{" not in path or method == "PUT":
                continue
            foreign = await door.request(method, filled(path, ids), key="other")
            absent = await door.request(method, filled(path, missing), key="other")
            assert foreign.status_code == absent.status_code, (method, path)
            assert foreign.content == absent.content, (method, path)
            assert sorted(foreign.headers.items()) == sorted(absent.headers.items())
            compared += 1
        assert compared >= 8


async def test_headers_narrow_a_key_only_where_it_is_open(resources: Resources) -> None:
    async with open_door(resources) as door:
        narrowing = {"Recordari-User": "bob", "Recordari-Session": "s1", "Recordari-Run": "r1"}
        identity = (await door.request("GET", "/v1/whoami", key="agent", headers=narrowing)).json()
        assert (identity["user_id"], identity["session_id"], identity["run_id"]) == ("bob", "s1", "r1")
        assert identity["role"] == "agent"
        refused = await door.request("GET", "/v1/whoami", key="alice", headers={"Recordari-User": "bob"})
        assert refused.status_code == 403
        same = await door.request("GET", "/v1/whoami", key="alice", headers={"Recordari-User": "alice"})
        assert same.json()["user_id"] == "alice"


async def test_a_narrowing_header_may_be_in_any_script_and_must_be_an_id(resources: Resources) -> None:
    async with open_door(resources) as door:
        greek = {"Recordari-User": "Ελένη".encode()}
        assert (await door.request("GET", "/v1/whoami", headers=greek)).json()["user_id"] == "Ελένη"
        for bad in (b"\xff\xfe", b"", b"x" * 201):
            answer = await door.request("GET", "/v1/whoami", headers={"Recordari-User": bad})
            assert answer.status_code == 422, bad


async def test_no_header_or_argument_moves_a_key_to_another_tenant(resources: Resources) -> None:
    async with open_door(resources) as door:
        other = str(door.other.identity.tenant_id)
        answer = await door.request("GET", "/v1/tenant", headers={"Recordari-Tenant": other, "X-Tenant": "other"})
        assert answer.json()["name"] == "test"
        assert (await door.request("GET", f"/v1/tenant?tenant_id={other}&tenant=other")).status_code == 422


async def test_a_key_cannot_change_the_plan_of_its_tenant(resources: Resources) -> None:
    async with open_door(resources) as door:
        assert (await door.request("PATCH", "/v1/tenant", json={"plan": "unlimited"})).status_code == 422


async def test_metrics_are_open_to_this_machine_and_need_the_token_from_elsewhere(
    resources: Resources,
) -> None:
    async with open_door(resources, metrics_token=SecretStr("let-me-see")) as door:
        await door.request("GET", "/v1/users/alice")
        near = await door.request("GET", "/metrics", key=None)
        assert 'route="/v1/users/{user_id}"' in near.text
        assert "alice" not in near.text
        assert "recordari_pool" in near.text
        assert 'recordari_admission{state="running"} 0.0' in near.text
        proxied = await door.request("GET", "/metrics", key=None, headers={"X-Forwarded-For": "10.0.0.7"})
        assert proxied.status_code == 401
        async with client_of(door.app, address="10.0.0.7") as far:
            assert (await far.get("/metrics")).status_code == 401
            admin = {"Authorization": f"Bearer {door.keys['admin']}"}
            assert (await far.get("/metrics", headers=admin)).status_code == 401
            token = {"Authorization": "Bearer let-me-see"}
            assert (await far.get("/metrics", headers=token)).status_code == 200


async def test_metrics_name_the_tools_of_agents_to_the_operator_only(resources: Resources) -> None:
    """Their names are a tenant's own words, and programs of any tenant may run on the same machine."""
    async with open_door(resources, metrics_token=SecretStr("let-me-see")) as door:
        await door.request("POST", "/v1/runs", key="agent", json={"run_id": "r"}, headers={"Recordari-User": "ana"})
        calls = {"calls": [{"name": "look-for-okapis", "arguments": "{}", "result": "nine", "latency_ms": 3}]}
        noted = await door.request(
            "POST", "/v1/runs/r/tool_calls", key="agent", json=calls, headers={"Recordari-User": "ana"}
        )
        assert noted.is_success, noted.text
        near = await door.request("GET", "/metrics", key=None)
        assert near.status_code == 200 and "okapis" not in near.text
        told = await door.request("GET", "/metrics", key=None, headers={"Authorization": "Bearer let-me-see"})
        assert 'kind="agent"' in told.text and 'tool="look-for-okapis"' in told.text
