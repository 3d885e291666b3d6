"""Memories in the browser: find, correct, pin, end, forget; and strange texts, which stay texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.browser.chromium import STRANGE, dashboard, only_in_full
from tests.patience import until

from recordari.app import Memory
from recordari.core.identity import Scope
from recordari.core.items import Kind, NewItem
from recordari.sessions.rules.runs import NewToolCall
from recordari.sessions.rules.window import NewMessage


async def test_a_memory_is_found_corrected_and_forgotten(memory: Memory, tmp_path: Path) -> None:
    ana = memory.acting_as(user="ana")
    await ana.remember_fact("Ana's ferry leaves Kendwa at nine", scope="user")
    await ana.remember_fact("Ana likes mangoes", scope="user")
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        page = board.page
        await page.get_by_role("button", name="all users").click()
        await page.get_by_label("User", exact=True).fill("ana")
        await page.get_by_role("button", name="Act", exact=True).click()
        await page.keyboard.press("/")
        await page.keyboard.type("When does the ferry leave?")
        await page.keyboard.press("Enter")
        await page.get_by_role("list", name="Memories found").get_by_text("ferry leaves Kendwa at nine").first.click()
        await page.get_by_role("button", name="Pin", exact=True).click()
        await page.get_by_text("pinned: only a person ends it").wait_for()
        await page.keyboard.press("e")
        await page.get_by_role("dialog").get_by_role("textbox").first.fill("Ana's ferry leaves Kendwa at ten")
        await page.get_by_role("button", name="Save the new version").click()
        await page.get_by_test_id("text").get_by_text("at ten").wait_for()
        await board.sees("2 versions")
        assert await _is_gone(ana, "at nine")
        await page.get_by_role("button", name="Forget…").click()
        button = page.get_by_role("dialog").get_by_role("button", name="Forget", exact=True)
        assert await button.is_disabled(), "it is asked twice"
        await page.get_by_label("to confirm").fill("forget")
        await button.click()
        await page.get_by_role("heading", name="Memories").wait_for()
        await until(lambda: _is_gone(ana, "ferry"))


async def _is_gone(memory: Memory, text: str) -> bool:
    return not any(text in item.content for item in (await memory.list_items()).items)


async def test_strange_texts_are_shown_as_texts(memory: Memory, tmp_path: Path) -> None:
    working = memory.acting_as(user="ana", agent="support", session="strange")
    items = {}
    for name, text in STRANGE.items():
        items[name] = (await working.remember_fact(f"{name}: {text}", scope="user")).id
    await working.add_messages([NewMessage(content=text) for text in STRANGE.values()])
    await working.start_run(run_id="strange", input={"text": STRANGE["script"]})
    await working.start_turn("strange")
    await working.record_tool_calls(
        "strange", [NewToolCall(name="<i>tool</i>", arguments=STRANGE["markup"], result=STRANGE["script"], number=1)]
    )
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        acting = "as_user=ana&as_agent=support&as_session=strange"
        await board.open(f"/ui/memories?{acting}")
        await board.sees("onerror=alert(2)")
        for path in (
            f"/ui/items/{items['markup']}",
            "/ui/memories?q=bold",
            "/ui/playground?q=bold",
            "/ui/playground?q=bold&show=context",
            "/ui/facts",
            "/ui/sessions/strange",
            "/ui/runs/strange",
        ):
            await board.open(f"{path}{'&' if '?' in path else '?'}{acting}")
            await board.sees("<b onclick")
            assert await board.page.locator("main b, main img, main i[onclick], main script").count() == 0, path
        assert await board.page.evaluate("window.broken") is None


@only_in_full
async def test_a_user_sees_and_corrects_only_their_own(memory: Memory, tmp_path: Path) -> None:
    await memory.acting_as(user="ana").remember_fact("Ana lives in Paje", scope="user")
    await memory.acting_as(user="bob").remember_fact("Bob lives in Uroa", scope="user")
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory.acting_as(user="ana"))
        await board.page.get_by_role("heading", name="What is known about you").wait_for()
        await board.sees("Ana lives in Paje")
        assert "Uroa" not in await board.text()
        assert await board.page.get_by_role("link", name="Facts").count() == 0
        await board.page.get_by_role("link", name="Memories", exact=True).click()
        await board.sees("Ana lives in Paje")
        assert "Uroa" not in await board.text()


@only_in_full
@pytest.mark.parametrize("width", [1280, 400])
async def test_no_page_is_wider_than_the_screen(memory: Memory, tmp_path: Path, width: int) -> None:
    fact = await memory.remember_fact("long" * 200, scope="tenant")
    async with dashboard(memory.resources.settings, tmp_path, viewport={"width": width, "height": 800}) as board:
        await board.sign_in(memory)
        for path in ("/", "/ui/memories", f"/ui/items/{fact.id}", "/ui/playground?q=long", "/ui/facts", "/ui/sessions"):
            await board.open(path)
            await board.page.get_by_role("heading").first.wait_for()
            wide = "document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth"
            assert await board.page.evaluate(wide) <= 1, path


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
