"""Memories in the browser: find, correct, pin, end, forget; and long lists."""

from __future__ import annotations

import re
from pathlib import Path

from tests.browser.chromium import dashboard, only_in_full
from tests.patience import until
from tests.working import work_off

from recordari.app import Memory
from recordari.core.identity import Scope
from recordari.core.items import Kind, NewItem
from recordari.sessions.rules.window import NewMessage


async def test_a_memory_is_found_corrected_and_forgotten(memory: Memory, tmp_path: Path) -> None:
    ana = memory.acting_as(user="ana")
    await ana.remember_fact("Ana's ferry leaves Kendwa at nine", scope="user")
    await ana.remember_fact("Ana likes mangoes", scope="user")
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        page = board.page
        await page.keyboard.press("/")
        await page.keyboard.type("When does the ferry leave?")
        await page.keyboard.press("Enter")
        await page.get_by_text("You act for no user").get_by_role("button", name="ana", exact=True).click()
        await page.get_by_role("list", name="Memories found").get_by_text("ferry leaves Kendwa at nine").first.click()
        await page.get_by_role("button", name="Pin", exact=True).click()
        await page.get_by_text("pinned: only a person ends it").wait_for()
        await page.keyboard.press("e")
        await page.get_by_role("dialog").get_by_role("textbox").first.fill("Ana's ferry leaves Kendwa at ten")
        await page.get_by_role("button", name="Save the new version").click()
        await page.get_by_test_id("text").get_by_text("at ten").wait_for()
        await board.sees("2 versions")
        assert await _is_gone(ana, "at nine")
        await page.get_by_role("link", name="Overview").click()
        await board.sees(re.compile("the judge ended nothing this week"))
        await page.go_back()
        await page.get_by_role("button", name="Forget…").click()
        button = page.get_by_role("dialog").get_by_role("button", name="Forget", exact=True)
        assert await button.is_disabled(), "it is asked twice"
        await page.get_by_label("to confirm").fill("forget")
        await button.click()
        await page.get_by_role("heading", name="Memories").wait_for()
        await until(lambda: _is_gone(ana, "ferry"))


async def test_an_administrator_acts_as_a_user(memory: Memory, tmp_path: Path) -> None:
    await memory.acting_as(user="ana").remember_fact("Ana likes mangoes", scope="user")
    await memory.acting_as(user="bob").remember_fact("Bob likes plums", scope="user")
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        page = board.page
        await page.get_by_role("button", name="all users").click()
        await page.get_by_label("User", exact=True).fill("ana")
        await page.get_by_role("button", name="Act", exact=True).click()
        await page.get_by_role("link", name="Memories").click()
        await board.sees("Ana likes mangoes")
        assert "as_user=ana" in page.url and await page.get_by_text("Bob likes plums").count() == 0


@only_in_full
async def test_on_a_phone_whom_to_act_for_can_be_chosen(memory: Memory, tmp_path: Path) -> None:
    await memory.acting_as(user="ana").remember_fact("Ana likes mangoes", scope="user")
    async with dashboard(memory.resources.settings, tmp_path, viewport={"width": 400, "height": 800}) as board:
        await board.sign_in(memory)
        page = board.page
        await page.get_by_role("button", name="all users").click()
        box = await page.locator(".popover").bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 400
        await page.get_by_label("User", exact=True).fill("ana")
        await page.get_by_role("button", name="Act", exact=True).click()
        await page.wait_for_url(re.compile("as_user=ana"))


async def _is_gone(memory: Memory, text: str) -> bool:
    return not any(text in item.content for item in (await memory.list_items()).items)


@only_in_full
async def test_filters_choose_among_what_was_found_and_the_way_back_keeps_them(memory: Memory, tmp_path: Path) -> None:
    trip = memory.acting_as(user="ana", session="trip")
    await trip.add_messages([NewMessage(content="The ferry to Paje leaves at nine.")])
    await memory.acting_as(user="ana").remember_fact("Ana takes the ferry to Uroa", scope="user")
    await work_off(memory)
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        page = board.page
        await board.open("/ui/memories?as_user=ana")
        await page.get_by_label("Question").fill("ferry")
        found = page.get_by_role("list", name="Memories found")
        await found.get_by_text("Uroa").first.wait_for()
        await page.get_by_label("Session", exact=True).fill("trip")
        await found.get_by_text("Uroa").wait_for(state="detached")
        await found.get_by_text("Paje").first.click()
        await page.get_by_test_id("text").get_by_text("Paje").first.wait_for()
        await page.get_by_role("link", name="← Memories").click()
        await found.get_by_text("Paje").first.wait_for()
        assert await page.get_by_label("Session", exact=True).input_value() == "trip"


@only_in_full
async def test_the_overview_shows_a_change_as_it_happens(memory: Memory, tmp_path: Path) -> None:
    await memory.remember_fact("The harbour of Kendwa closes at six", scope="tenant")
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        await board.page.get_by_text("live", exact=True).first.wait_for()
        await memory.remember_fact("The lighthouse of Paje is white", scope="tenant")
        await board.page.get_by_role("link", name="The lighthouse of Paje is white").first.wait_for()
        await board.sees("2 live memories")


@only_in_full
async def test_a_long_list_keeps_few_rows_in_the_document(memory: Memory, tmp_path: Path) -> None:
    news = [NewItem(content=f"memory number {number}", scope=Scope.TENANT, kind=Kind.FACT) for number in range(400)]
    await memory.remember_many(news)
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        await board.open("/ui/memories")
        await board.sees("memory number 399")
        last = board.page.get_by_text("memory number 0", exact=True)

        async def is_at_the_end() -> bool:
            await board.page.locator("main").evaluate("main => main.scrollTo(0, main.scrollHeight)")
            return await last.is_visible()

        await until(is_at_the_end, pause=0.2)
        assert await board.page.get_by_role("listitem").count() < 80
