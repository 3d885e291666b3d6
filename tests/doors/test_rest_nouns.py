"""Tenant, users, agents, keys and audit through REST."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.doors.rest_door import open_door

from recordari.kit.resources import Resources


async def test_the_tenant_can_be_read_and_changed(resources: Resources) -> None:
    async with open_door(resources) as door:
        changed = await door.request("PATCH", "/v1/tenant", json={"language": "german", "settings": {"a": [1, None]}})
        assert changed.status_code == 200
        assert (await door.request("GET", "/v1/tenant", key="agent")).json() == changed.json()
        assert changed.json()["settings"] == {"a": [1, None]}
        unknown = await door.request("PATCH", "/v1/tenant", json={"language": "klingon"})
        assert unknown.json()["errors"][0]["field"] == "language"


async def test_users_are_saved_found_and_listed_in_pages(resources: Resources) -> None:
    async with open_door(resources) as door:
        for name in ("ann", "bob", "cid"):
            saved = await door.request("PUT", f"/v1/users/{name}", json={"display_name": name.title()})
            assert saved.status_code == 200
        assert (await door.request("GET", "/v1/users/bob")).json()["display_name"] == "Bob"
        first = (await door.request("GET", "/v1/users?limit=2")).json()
        rest = (await door.request("GET", "/v1/users", params={"limit": 2, "cursor": first["next_cursor"]})).json()
        assert [user["user_id"] for user in first["items"] + rest["items"]] == ["ann", "bob", "cid"]
        assert rest["next_cursor"] is None
        assert (await door.request("GET", "/v1/users?cursor=!!!")).status_code == 422
        assert (await door.request("GET", "/v1/users?limit=0")).status_code == 422


async def test_a_key_of_a_user_may_change_that_user_only(resources: Resources) -> None:
    async with open_door(resources) as door:
        zone = {"time_zone": "Europe/Stockholm"}
        assert (await door.request("PUT", "/v1/users/alice", key="alice", json=zone)).status_code == 200
        assert (await door.request("PUT", "/v1/users/bob", key="alice", json=zone)).status_code == 403


async def test_an_agent_is_saved_only_over_the_version_named(resources: Resources) -> None:
    async with open_door(resources) as door:
        path = "/v1/agents/support"
        first = await door.request("PUT", path, json={"core": "one"}, headers={"If-None-Match": "*"})
        assert (first.status_code, first.headers["etag"]) == (200, '"1"')
        again = await door.request("PUT", path, json={"core": "two"}, headers={"If-None-Match": "*"})
        assert (again.status_code, again.json()["code"]) == (412, "precondition_failed")
        second = await door.request("PUT", path, json={"core": "two"}, headers={"If-Match": '"1"'})
        assert second.headers["etag"] == '"2"'
        for stale in ('"1"', "nonsense", '"99999999999999"'):
            assert (await door.request("PUT", path, json={}, headers={"If-Match": stale})).status_code == 412
        found = await door.request("GET", path, key="agent")
        assert (found.json()["core"], found.headers["etag"]) == ("two", '"2"')
        deleted = await door.request("DELETE", path)
        assert deleted.status_code == 200 and not any(deleted.json().values())
        assert (await door.request("GET", path)).status_code == 404


async def test_agents_are_listed_in_pages(resources: Resources) -> None:
    async with open_door(resources) as door:
        for name in ("a", "b"):
            await door.request("PUT", f"/v1/agents/{name}", json={})
        page = (await door.request("GET", "/v1/agents?limit=1", key="agent")).json()
        assert [agent["agent_id"] for agent in page["items"]] == ["a"]
        assert page["next_cursor"]


async def test_a_key_is_shown_once_works_and_dies_at_once(resources: Resources) -> None:
    async with open_door(resources) as door:
        body = {"name": "bot", "agent_id": "support", "expires_at": "2999-01-01T00:00:00Z"}
        made = (await door.request("POST", "/v1/keys", json=body)).json()
        text, key_id = made["key"], made["key_id"]
        assert (await door.request("GET", "/v1/whoami", key=text)).json()["agent_id"] == "support"
        listed = await door.request("GET", "/v1/keys")
        assert key_id in {key["key_id"] for key in listed.json()["items"]}
        assert text not in listed.text
        assert "hash" not in listed.text
        revoked = await door.request("DELETE", f"/v1/keys/{key_id}")
        assert revoked.json()["revoked_at"] is not None
        assert (await door.request("GET", "/v1/whoami", key=text)).status_code == 401


async def test_moments_and_roles_are_taken_strictly(resources: Resources) -> None:
    async with open_door(resources) as door:
        past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
        for wrong in (
            {"expires_at": 4102444800},
            {"expires_at": "2999-01-01T00:00:00"},
            {"expires_at": past},
            {"role": "owner"},
            {"role": 1},
            {"name": 7},
            {"unknown": True},
        ):
            answer = await door.request("POST", "/v1/keys", json={"name": "bot", **wrong})
            assert answer.status_code == 422, wrong
        made = await door.request("POST", "/v1/keys", json={"name": "bot", "role": "admin"})
        assert made.status_code == 201


async def test_the_audit_says_who_did_what(resources: Resources) -> None:
    async with open_door(resources) as door:
        await door.request("PUT", "/v1/users/ann", json={})
        await door.request("PUT", "/v1/users/bob", json={})
        of_ann = (await door.request("GET", "/v1/audit?subject_kind=user&subject_id=ann")).json()["items"]
        whoami = (await door.request("GET", "/v1/whoami")).json()
        assert [(entry["action"], entry["actor"]) for entry in of_ann] == [("user.save", whoami["actor"])]
        page = (await door.request("GET", "/v1/audit?limit=1")).json()
        assert page["items"][0]["subject_id"] == "bob"
        following = (await door.request("GET", "/v1/audit", params={"cursor": page["next_cursor"]})).json()
        assert following["items"][0]["subject_id"] == "ann"
        assert (await door.request("GET", "/v1/audit?subject_kind=user")).status_code == 422
        assert (await door.request("GET", "/v1/audit?cursor=bm90LWEtdXVpZA")).status_code == 422


async def test_the_schema_has_verbs_tags_examples_and_the_bearer_scheme(resources: Resources) -> None:
    async with open_door(resources) as door:
        schema = (await door.request("GET", "/openapi.json", key=None)).json()
        operations = [operation for path in schema["paths"].values() for operation in path.values()]
        assert {"get_tenant", "save_agent", "list_audit", "whoami"} <= {op["operationId"] for op in operations}
        assert all(operation["tags"] for operation in operations)
        assert schema["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
        assert all(
            operation["security"] == [{"bearer": []}]
            for path, methods in schema["paths"].items()
            for operation in methods.values()
            if path.startswith("/v1/")
        )
        assert schema["components"]["schemas"]["UserChange"]["examples"]


async def test_health_readiness_and_version(resources: Resources) -> None:
    async with open_door(resources) as door:
        foreign_host = {"Host": "10.1.2.3"}
        assert (await door.request("GET", "/healthz", key=None, headers=foreign_host)).json() == {"status": "ok"}
        assert (await door.request("GET", "/readyz", key=None)).status_code == 200
        assert (await door.request("GET", "/version", key=None)).json()["version"]
        await resources.database.close()
        away = await door.request("GET", "/readyz", key=None)
        assert (away.status_code, away.json()["code"]) == (503, "database_unavailable")
        assert away.headers["retry-after"] == "1"
        assert (await door.request("GET", "/healthz", key=None)).status_code == 200
        assert (await door.request("GET", "/v1/tenant", key="agent")).status_code == 503
