"""The dashboard's door: how a browser signs in, and what its cookie does not do."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from tests.doors.rest_door import Door, open_door
from tests.doors.test_cli import described
from tests.tenants.test_auth import AUDIENCE, ISSUER, Issuer, issuer, token
from tools.web import ROOT, SCHEMA, written

from recordari.app import Memory
from recordari.core.identity import Identity, Role
from recordari.doors.web.page import PageFiles, page_routes
from recordari.errors import Forbidden
from recordari.kit.resources import Resources
from recordari.recall.rules.ranking import Weights
from recordari.tenants import auth
from recordari.tenants.sign_ins import make_code

__all__ = ["issuer"]  # a fixture

OURS = {"Recordari-Page": "1", "Origin": "http://127.0.0.1"}


async def signed_in(door: Door, key: str = "admin") -> Mapping[str, str]:
    """The header with the cookie of a browser that signed in with a key."""
    answer = await door.client.post("/sign_in", json={"credential": door.keys[key]}, headers=OURS)
    assert answer.status_code == 200, answer.text
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    assert door.keys[key] not in cookie
    door.client.cookies.clear()
    return {"Cookie": cookie.partition(";")[0]}


async def whoami(door: Door, headers: Mapping[str, str]) -> httpx2.Response:
    return await door.client.get("/v1/whoami", headers=dict(headers))


async def test_a_cookie_acts_as_its_key_until_it_signs_out(resources: Resources) -> None:
    async with open_door(resources) as door:
        cookie = await signed_in(door, "alice")
        answer = await whoami(door, cookie)
        assert answer.json()["user_id"] == "alice" and answer.json()["role"] == "agent"
        assert answer.headers["cache-control"] == "no-store"
        assert (await door.client.get("/v1/audit", headers=cookie)).status_code == 403
        gone = await door.client.request("DELETE", "/sign_in", headers={**OURS, **cookie})
        assert gone.status_code == 204
        assert (await whoami(door, cookie)).status_code == 401


async def test_a_cookie_ends_with_its_key(resources: Resources) -> None:
    async with open_door(resources) as door:
        cookie = await signed_in(door, "agent")
        assert (await whoami(door, cookie)).status_code == 200
        (key,) = [each for each in await door.memory.list_keys() if each.name == "agent"]
        assert (await door.request("DELETE", f"/v1/keys/{key.key_id}")).status_code == 200
        assert (await whoami(door, cookie)).status_code == 401


async def test_erasing_a_user_signs_them_out(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "TRUST_SECONDS", 0.0)  # other processes trust a credential for that long
    async with open_door(resources) as door:
        code = await make_code(resources, door.memory.acting_as(user="alice").identity)
        answer = await door.client.post("/sign_in", json={"code": code}, headers=OURS)
        cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        door.client.cookies.clear()
        who = (await whoami(door, cookie)).json()
        assert who["user_id"] == "alice" and who["role"] == "agent", "a user is no administrator"
        await door.memory.erase_user("alice")
        assert (await whoami(door, cookie)).status_code == 401


async def test_a_code_works_once(resources: Resources) -> None:
    async with open_door(resources) as door:
        code = await make_code(resources, door.memory.identity)
        assert (await door.client.post("/sign_in", json={"code": code}, headers=OURS)).status_code == 200
        door.client.cookies.clear()
        assert (await door.client.post("/sign_in", json={"code": code}, headers=OURS)).status_code == 401
        assert (await whoami(door, {"Authorization": f"Bearer {code}"})).status_code == 401
        assert (await whoami(door, {"Cookie": f"recordari={code}"})).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1"},
        {"Recordari-Page": "1"},
        {"Recordari-Page": "1", "Origin": "http://127.0.0.1:9999"},
        {"Recordari-Page": "1", "Origin": "null"},
        {"Recordari-Page": "1", "Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-site"},
    ],
)
async def test_another_page_cannot_use_the_cookie(resources: Resources, headers: dict[str, str]) -> None:
    async with open_door(resources) as door:
        cookie = await signed_in(door)
        body = {"content": "planted", "kind": "fact", "scope": "tenant"}
        refused = await door.client.post("/v1/items", json=body, headers={**cookie, **headers})
        assert refused.status_code == 403
        assert (
            await door.client.post("/sign_in", json={"credential": door.keys["admin"]}, headers=headers)
        ).status_code == 403
        assert (await door.client.request("DELETE", "/sign_in", headers={**cookie, **headers})).status_code == 403
        assert (await whoami(door, cookie)).status_code == 200
        done = await door.client.post("/v1/items", json=body, headers={**cookie, **OURS})
        assert done.status_code == 201


async def test_a_reading_page_of_another_origin_gets_nothing(resources: Resources) -> None:
    async with open_door(resources) as door:
        cookie = await signed_in(door)
        for site in ("cross-site", "same-site"):
            assert (await whoami(door, {**cookie, "Sec-Fetch-Site": site})).status_code == 403


async def test_the_token_of_a_cookie_is_no_key(resources: Resources) -> None:
    async with open_door(resources) as door:
        token = (await signed_in(door))["Cookie"].partition("=")[2]
        assert (await whoami(door, {"Authorization": f"Bearer {token}"})).status_code == 401
        assert (await door.client.post("/sign_in", json={"credential": token}, headers=OURS)).status_code == 401
        assert (await whoami(door, {"Cookie": f"recordari={door.keys['admin']}"})).status_code == 401


async def test_a_key_counts_more_than_a_cookie(resources: Resources) -> None:
    async with open_door(resources) as door:
        cookie = await signed_in(door, "admin")
        answer = await whoami(door, {**cookie, "Authorization": f"Bearer {door.keys['other']}"})
        assert answer.json()["tenant_id"] == str(door.other.identity.tenant_id)


async def test_only_an_administrator_makes_codes(resources: Resources) -> None:
    async with open_door(resources) as door:
        agent = Identity(tenant_id=door.memory.identity.tenant_id, role=Role.AGENT)
        with pytest.raises(Forbidden):
            await make_code(resources, agent)


async def test_the_page_forbids_foreign_and_inline_scripts(resources: Resources) -> None:
    async with open_door(resources) as door:
        for path in ("/", "/ui/memories", "/docs"):
            answer = await door.client.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy and "http" not in policy
        assert (await door.client.get("/assets/nothing.js")).status_code == 404
        assert (await door.client.get("/assets/../page.py")).status_code in {401, 404}


def test_the_page_knows_the_routes_as_they_are() -> None:
    assert SCHEMA.read_text("utf-8") == written(), "run `make routes`"
    shared = SCHEMA.relative_to(ROOT).with_suffix("").as_posix()
    assert f'export * from "../../../{shared}"' in (ROOT / "web" / "src" / "api" / "schema.ts").read_text("utf-8")


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "web" / "package-lock.json").read_text("utf-8"))
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]


async def test_a_copy_without_the_built_page_says_so(tmp_path: Path) -> None:
    app = Starlette(routes=list(page_routes(PageFiles(tmp_path))))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        assert "make web" in (await client.get("/")).text


async def test_a_jwt_signs_in_as_its_user_and_no_longer_than_it_lasts(
    memory: Memory,
    issuer: Issuer,
) -> None:
    settings: dict[str, Any] = {"jwt_jwks_url": issuer.url, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    async with open_door(memory.resources, **settings) as door:
        answer = await door.client.post("/sign_in", json={"credential": token()}, headers=OURS)
        assert answer.status_code == 200, answer.text
        cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        door.client.cookies.clear()
        who = (await whoami(door, cookie)).json()
        assert (who["user_id"], who["role"]) == ("jane", "agent")
        assert (await door.client.get("/v1/audit", headers=cookie)).status_code == 403
        lasts = datetime.fromisoformat(answer.json()["expires_at"]) - datetime.now(UTC)
        assert lasts <= timedelta(hours=1), "the token ends sooner than a sign-in would"
        refused = await door.client.post("/sign_in", json={"credential": token() + "x"}, headers=OURS)
        assert refused.status_code == 401


def test_the_built_page_is_small() -> None:
    files = PageFiles()
    if not files.are_built:
        pytest.skip("the dashboard is not built (make web)")
    assert files.compressed_bytes <= 300_000


SOURCES = ROOT / "web" / "src"


def test_every_command_that_a_page_names_is_one() -> None:
    named = [
        line
        for page in sorted(SOURCES.rglob("*.tsx"))
        for commands in re.findall(r"forTenant\(`(.*?)`\)", page.read_text())
        for line in commands.split("\\n")
    ]
    assert len(named) > 8
    for line in named:
        name, *words = shlex.split(line.partition("| ")[2] or line)
        assert name == "recordari"
        command = described(words[:1])
        if hasattr(command, "commands"):
            command, words = command.commands[words[1]], words[1:]
        command.make_context(command.name, [*words[1:], "--tenant", "other"])  # raises if it is wrong usage


def test_the_playground_tells_what_each_part_of_a_score_means() -> None:
    page = (SOURCES / "pages" / "playground.tsx").read_text()
    told = set(re.findall(r"^  (\w+): \"", page.partition("const MEANS")[2].partition("};")[0], re.MULTILINE))
    of_the_ranker = {"on_the_matter", "archived", "interval_slack", "saturation", "length_share", "request_words"}
    of_the_ranker |= {"repeat", "repeat_of_many", "previous_words", "date_words", "previous_late"}
    assert told == {weight.name for weight in fields(Weights)} - of_the_ranker | {"successor", "folded", "rerank"}
