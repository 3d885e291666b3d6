"""Whom a key may act for: any user, one, some, or none; through REST, MCP, mem0's routes, the library and the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.doors.rest_door import Door, open_door
from tests.doors.test_cli import Cli, connected
from tests.doors.test_mcp import called
from tests.doors.test_mcp import connected as mcp_client

from recordari.app import Memory
from recordari.config import Settings
from recordari.errors import Forbidden, InvalidInput
from recordari.kit.resources import Resources
from recordari.tenants.tenants import authenticate_key

SECRET = "the alarm code is zebra"


@asynccontextmanager
async def furnished(resources: Resources) -> AsyncIterator[Door]:
    """A door with one key of each sort, and a secret of Ana's."""
    async with open_door(resources, rate_limit="") as opened:
        for name, users in {"some": ["ana", "cleo"], "none": []}.items():
            opened.keys[name] = (await opened.memory.create_key(name, users=users)).key
        opened.keys["ben"] = (await opened.memory.create_key("ben", user_id="ben")).key
        ana = opened.memory.acting_as(user="ana", agent="support", session="visit")
        await ana.remember_fact(SECRET, scope="user")
        await ana.open_session("visit")
        await ana.add_note("visit", SECRET)
        await ana.put_entry(["codes"], "alarm", {"text": SECRET}, scope="user")
        await ana.set_state("draft", SECRET)
        yield opened


def headers(user: str | None = None) -> dict[str, str]:
    acting = {"Recordari-Agent": "support"}
    return acting | {"Recordari-User": user} if user else acting


async def remember(door: Door, key: str, user: str | None, text: str) -> int:
    body = {"content": text, "kind": "fact", "scope": "user" if user else "agent"}
    return (await door.request("POST", "/v1/items", key=key, json=body, headers=headers(user))).status_code


@pytest.mark.parametrize(
    ("key", "allowed", "refused"),
    [
        ("agent", ["ana", "ben", "cleo", None], []),
        ("ben", ["ben", None], ["ana", "cleo"]),
        ("some", ["ana", "cleo", None], ["ben", "ANA", "an", "ana,cleo"]),
        ("none", [None], ["ana", "ben", "cleo"]),
    ],
)
async def test_a_key_acts_for_the_users_it_was_made_for_and_for_no_other(
    resources: Resources, key: str, allowed: list[str | None], refused: list[str]
) -> None:
    async with furnished(resources) as door:
        for user in allowed:
            if not (key == "ben" and user is None):  # bound to Ben, it writes for Ben
                assert await remember(door, key, user, f"{key} was here for {user}") == 201
        for user in refused:
            assert await remember(door, key, user, f"{key} was here for {user}") == 403
        written = {item.content for item in (await door.memory.list_items(kinds=["fact"])).items}
        assert not written & {f"{key} was here for {user}" for user in refused}


@pytest.mark.parametrize("key", ["agent", "none", "some", "ben"])
async def test_a_key_that_names_no_user_finds_nothing_of_any(resources: Resources, key: str) -> None:
    async with furnished(resources) as door:
        reads: list[tuple[str, str, dict[str, Any], str]] = [
            ("POST", "/v1/recall", {"query": "alarm code", "top_k": 20}, "zebra"),
            ("POST", "/v1/context", {"question": "What is the alarm code?"}, "zebra"),
            ("GET", "/v1/items", {}, "zebra"),
            ("GET", "/v1/sessions", {}, '"ana"'),
            ("GET", "/v1/sessions/visit", {}, '"ana"'),
            ("GET", "/v1/sessions/visit/notes", {}, "zebra"),
            ("GET", "/v1/state/session/visit", {}, "zebra"),
            ("GET", "/v1/users/ana", {}, '"ana"'),
        ]
        for method, path, body, hers in reads:
            more: dict[str, Any] = {"json": body} if method == "POST" else {}
            own = await door.request(method, path, headers=headers("ana"), **more)
            assert hers in own.text, "it is there to be found"
            answer = await door.request(method, path, key=key, headers=headers(), **more)
            assert answer.status_code < 500 and hers not in answer.text, (path, answer.text)


async def test_a_limited_key_keeps_its_limit_over_mcp_and_over_mem0s_routes(resources: Resources) -> None:
    async with furnished(resources) as door:
        for user, found in (("ana", True), ("cleo", False)):
            async with mcp_client(door, key="some", headers=headers(user)) as client:
                shown = await called(client, "list_memories")
                assert (SECRET in str(shown)) is found
        refused = await door.request("POST", "/mcp", key="some", headers=headers("ben"), json={})
        assert refused.status_code == 403
        (item,) = (await door.memory.acting_as(user="ana").list_items(kinds=["fact"])).items
        for key, status in (("agent", 200), ("some", 200), ("none", 404), ("ben", 404)):
            answer = await door.request("GET", f"/v1/memories/{item.item_id}/", key=key)
            assert answer.status_code == status, (key, answer.text)
        for key in ("none", "ben"):
            body = {"query": "alarm", "filters": {"user_id": "ana"}}
            assert "zebra" not in (await door.request("POST", "/v2/memories/search/", key=key, json=body)).text


async def test_what_a_bound_user_says_through_mem0s_routes_is_that_users(resources: Resources) -> None:
    """mem0's clients name an agent without meaning to share what the user said with its other users."""
    async with furnished(resources) as door:
        said = {"messages": [{"role": "user", "content": "Ben keeps okapis"}], "agent_id": "support", "infer": False}
        for path in ("/v1/memories/", "/v3/memories/add/"):
            assert (await door.request("POST", path, key="ben", json=said)).status_code == 200
        for filters in ({"agent_id": "support"}, {"user_id": "ben"}):
            listed = await door.request("POST", "/v2/memories/", key="ben", json={"filters": filters})
            assert "okapis" in listed.text, filters
        for key, user in (("some", "ana"), ("agent", "cleo"), ("none", None)):
            for path, body in (
                ("/v1/recall", {"query": "okapis", "top_k": 20}),
                ("/v2/memories/", {"filters": {"agent_id": "support"}}),
            ):
                answer = await door.request("POST", path, key=key, json=body, headers=headers(user))
                assert answer.status_code == 200 and "okapis" not in answer.text, (key, path)


async def test_a_limit_that_makes_no_sense_is_refused_and_makes_no_key(memory: Memory) -> None:
    for wrong in (
        {"users": ["ana"], "user_id": "ana"},
        {"users": ["ana"], "role": "admin"},
        {"users": [], "role": "admin"},
        {"users": ["ana", ""]},
        {"users": ["ana", "b\x00"]},
        {"users": [f"u{number}" for number in range(1_001)]},
    ):
        with pytest.raises(InvalidInput) as caught:
            await memory.create_key("bot", **wrong)
        assert caught.value.details["field"] == "users"
    assert await memory.list_keys() == []


async def test_a_user_who_is_erased_is_struck_off_every_key(memory: Memory) -> None:
    both = await memory.create_key("both", users=["ana", "ben", "ana"])
    only = await memory.create_key("only", users=["ana"])
    assert both.users == ("ana", "ben")
    await memory.save_user("ana")
    await memory.erase_user("ana")
    assert {key.key_id: key.users for key in await memory.list_keys()} == {both.key_id: ("ben",), only.key_id: ()}
    identity = await authenticate_key(memory.resources, only.key)
    with pytest.raises(Forbidden):
        identity.narrowed(user_id="ana")


async def test_the_command_line_limits_a_key_and_shows_the_limit(settings: Settings, tmp_path: Any) -> None:
    command: Cli = connected(settings, tmp_path)
    command.run("key", "create", "some", "--only-user", "ana", "--only-user", "cleo")
    command.run("key", "create", "none", "--no-user")
    command.run("key", "create", "any")
    command.run("key", "create", "both", "--no-user", "--only-user", "ana", code=2)
    assert {key["name"]: key["users"] for key in command.json("key", "list")} == {
        "some": ["ana", "cleo"],
        "none": [],
        "any": None,
    }
