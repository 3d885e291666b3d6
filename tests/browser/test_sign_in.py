"""Coming in and going out: a one-time address, a key, another tenant afterwards, and what stays behind (nothing)."""

from __future__ import annotations

from pathlib import Path

from tests.browser.chromium import Dashboard, dashboard, only_in_full

from recordari.app import Memory
from recordari.core.identity import Identity, Role
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition
from recordari.tenants.sign_ins import make_code


async def test_an_address_signs_in_once_and_a_key_any_time(memory: Memory, tmp_path: Path) -> None:
    key = (await memory.create_key("person", role=Role.ADMIN)).key
    code = await make_code(memory.resources, memory.identity)
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.open(f"/#code={code}")
        await board.page.get_by_role("heading", name="Overview").wait_for()
        assert "code" not in board.page.url
        (cookie,) = await board.page.context.cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        assert await board.page.evaluate("document.cookie") == ""
        await board.page.get_by_role("button", name="Sign out").click()
        await board.page.get_by_label("Key or JWT").wait_for()
        assert await board.page.context.cookies() == []
        await board.open(f"/#code={code}")
        await board.sees("This address was used before")
        await board.page.get_by_label("Key or JWT").fill("rcd_nonsense")
        await board.page.get_by_role("button", name="Sign in").click()
        await board.sees("This key or token is not valid")
        await board.page.get_by_label("Key or JWT").fill(key)
        await board.page.get_by_role("button", name="Sign in").click()
        await board.page.get_by_role("heading", name="Overview").wait_for()
        stored = "JSON.stringify([{...localStorage}, {...sessionStorage}])"
        assert await board.page.evaluate(stored) == "[{},{}]"


@only_in_full
async def test_a_second_tenant_sees_nothing_of_the_first(memory: Memory, tmp_path: Path) -> None:
    secret = "The harbour of Kendwa closes at six"
    await memory.remember_fact(secret, scope="tenant")
    other_tenant = await tenants.ensure_tenant(memory.resources, "other")
    other = Memory(memory.resources, Identity(tenant_id=other_tenant.tenant_id, role=Role.ADMIN))
    await other.remember_fact("The lighthouse of Paje is white", scope="tenant")
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        await board.page.get_by_role("link", name="Memories").click()
        await board.sees(secret)
        await board.page.get_by_role("button", name="Sign out").click()
        await board.page.get_by_label("Key or JWT").wait_for()
        assert "harbour" not in await board.page.content()
        await board.sign_in(other)
        await board.page.get_by_role("link", name="Memories").click()
        await board.sees("The lighthouse of Paje is white")
        assert "harbour" not in await board.page.content()
        await board.page.go_back()
        await board.page.get_by_role("heading", name="Overview").wait_for()
        assert "harbour" not in await board.page.content()


@only_in_full
async def test_the_memory_of_the_page_ends_with_the_sign_in(memory: Memory, tmp_path: Path) -> None:
    await memory.save_agent("harbour-master", AgentDefinition(core="Counts the boats of Kendwa"))
    other_tenant = await tenants.ensure_tenant(memory.resources, "other")
    other = Memory(memory.resources, Identity(tenant_id=other_tenant.tenant_id, role=Role.ADMIN))
    async with dashboard(memory.resources.settings, tmp_path) as board:
        page = board.page
        await board.sign_in(memory)
        await page.evaluate("window.isTheSame = true")
        await _open_people(board)
        await board.sees("harbour-master")
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label("Key or JWT").wait_for()
        await board.sign_in(other)
        assert await page.evaluate("window.isTheSame"), "the page was not loaded anew, so that it could remember"
        await page.route("**/v1/agents*", lambda route: route.abort())
        await _open_people(board)
        await board.sees("The server does not answer")
        assert "harbour-master" not in await page.content()


async def _open_people(board: Dashboard) -> None:
    await board.page.get_by_role("link", name="Operate").click()
    await board.page.get_by_role("link", name="People and keys").click()
    await board.page.get_by_role("heading", name="Agents").wait_for()
