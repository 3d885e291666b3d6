"""Every page of the dashboard, driven as a person would, with texts that a careless page would run."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from tests.browser.chromium import HUGE, STRANGE, Dashboard, dashboard, only_in_full
from tests.patience import until
from tests.stored import rows
from tests.working import work_off

from recordari.app import Memory
from recordari.core.identity import Identity, Role
from recordari.runner import background_worker
from recordari.sessions.rules.runs import NewToolCall
from recordari.sessions.rules.window import NewMessage
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition

MARKUP = STRANGE["markup"]


@dataclass(frozen=True, kw_only=True)
class Filled:
    """What is on the pages of a tenant that has strange texts everywhere."""

    item: UUID
    huge: UUID
    workflow: UUID
    document: UUID


async def filled(memory: Memory) -> Filled:
    ana = memory.acting_as(user="ana", agent="support", session="strange")
    await memory.save_user("ana", display_name=MARKUP)
    await memory.save_agent("support", AgentDefinition(core=MARKUP))
    await memory.create_key(MARKUP)
    facts = [(await ana.remember_fact(f"{name}: {text}", scope="user")).id for name, text in STRANGE.items()]
    await ana.edit_item(facts[-1], f"quoted “{MARKUP}” twice", reason=MARKUP)
    added = await ana.add_messages([NewMessage(content=text) for text in (*STRANGE.values(), HUGE)])
    await ana.start_run(run_id="strange", input={"text": MARKUP})
    await ana.record_tool_calls(
        "strange",
        [
            NewToolCall(name="<i>tool</i>", arguments=MARKUP, result=STRANGE["script"], number=1),
            NewToolCall(name="huge", arguments="{}", result=HUGE, number=2, error=MARKUP),
        ],
    )
    saved = await memory.save_workflow(MARKUP, {"steps": [MARKUP]}, agent_type="support", task_type=MARKUP)
    await memory.reward(await ana.choose("support", MARKUP, seed=1), 0.7)
    text = f"# {MARKUP}\n\nWhat is bold: {MARKUP}\n\n{STRANGE['script']}"
    document = await memory.add_document("odd.txt", text.encode(), metadata={"title": MARKUP})
    await work_off(memory)
    rows(
        memory.resources.settings,
        """INSERT INTO outbox (topic, tenant_id, ref, attempts, last_error, parked_at)
           VALUES ('embed', %s, %s, 8, %s, now()) RETURNING 1""",
        memory.identity.tenant_id,
        facts[0],
        MARKUP,
    )
    return Filled(
        item=facts[0],
        huge=added.messages[-1].id,
        workflow=saved.workflow.workflow_id,
        document=document.document.document_id,
    )


def addresses(made: Filled) -> dict[str, str]:
    """Each page, and a text that is on it."""
    bold, acting = "<b onclick", "as_user=ana&as_agent=support&as_session=strange"
    return {
        "/": "Overview",
        f"/ui/memories?{acting}": bold,
        f"/ui/items/{made.item}?{acting}": bold,
        f"/ui/items/{made.huge}?{acting}": bold,
        f"/ui/memories?q=bold&{acting}": bold,
        f"/ui/playground?q=bold&{acting}": bold,
        f"/ui/playground?q=bold&show=context&{acting}": bold,
        f"/ui/facts?{acting}": bold,
        "/ui/facts?tab=rulings": "Rulings",
        "/ui/facts?tab=proposals": "Review memory now",
        "/ui/entities": "entities",
        f"/ui/sessions?{acting}": "strange",
        f"/ui/sessions/strange?{acting}": bold,
        f"/ui/runs/strange?{acting}": bold,
        "/ui/workflows": bold,
        f"/ui/workflows/{made.workflow}": bold,
        "/ui/knowledge": bold,
        "/ui/knowledge?q=bold": bold,
        "/ui/knowledge?tab=sources": "documents",
        "/ui/knowledge?tab=databases": "No database is connected",
        f"/ui/documents/{made.document}": bold,
        "/ui/operate": bold,
        "/ui/operate?tab=retention": "Save the policy",
        "/ui/operate?tab=data": "Nobody has been erased yet",
        "/ui/operate?tab=people": bold,
        "/ui/operate?tab=webhooks": "No webhook yet",
        "/ui/operate?tab=audit": bold,
        "/ui/operate?tab=server": "PostgreSQL",
        "/docs": "API",
    }


async def test_every_page_shows_strange_texts_as_texts(memory: Memory, tmp_path: Path) -> None:
    made = await filled(memory)
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        for path, text in addresses(made).items():
            await board.open(path)
            await board.sees(text, within="main")
            assert await board.page.locator("main b, main img, main i[onclick], main script").count() == 0, path
        assert await board.page.evaluate("window.broken") is None


async def test_a_page_that_is_painted_late_shows_what_came_before(memory: Memory, tmp_path: Path) -> None:
    """On a busy machine the answers are there before the first frame."""
    late = """
        const inTime = setTimeout;
        window.requestAnimationFrame = (run) => inTime(run, 1000);
        window.setTimeout = (run, wait, ...more) => inTime(run, wait < 1000 ? 1000 : wait, ...more);
    """
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.page.add_init_script(late)
        await board.sign_in(memory)
        for path, text in (("/", "Overview"), ("/ui/workflows", "No workflow yet")):
            await board.open(path)
            await board.sees(text, within="main")


@only_in_full
@pytest.mark.parametrize("colour", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
async def test_no_page_has_a_serious_fault_or_is_wider_than_the_screen(
    memory: Memory, tmp_path: Path, width: int, colour: str
) -> None:
    made = await filled(memory)
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": colour, "reduced_motion": "reduce"}
    async with dashboard(memory.resources.settings, tmp_path, **options) as board:
        await board.open("/")
        await board.page.get_by_label("Key or JWT").wait_for()
        await board.has_no_serious_fault()
        await board.sign_in(memory)
        for path, text in addresses(made).items():
            await board.open(path)
            await board.sees(text, within="main")
            await board.has_no_serious_fault()
            wide = "document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth"
            assert await board.page.evaluate(wide) <= 1, path


async def test_an_operator_erases_a_user_and_replays_dead_work(memory: Memory, tmp_path: Path) -> None:
    await filled(memory)
    async with dashboard(memory.resources.settings, tmp_path) as board, background_worker(memory.resources):
        await board.sign_in(memory)
        page = board.page
        await page.get_by_role("link", name="Operate").click()
        await page.get_by_role("button", name="Replay", exact=True).click()
        await board.sees("Nothing failed for good.")
        await page.get_by_role("link", name="Erasure and export").click()
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download").click()
        assert "ferry" not in (text := (await (await download.value).path()).read_text()) and "onerror" in text
        await page.get_by_label("User id").fill("ana")
        await page.get_by_role("button", name="Erase…").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_text(re.compile(r"go \d+ memories and 1 session")).wait_for()
        await dialog.get_by_label("to confirm").fill("ana")
        await dialog.get_by_role("button", name="Erase for good").click()
        report = page.get_by_role("table", name="Erasures")
        await report.get_by_text("finished").nth(1).wait_for()
        assert "ana" not in (await report.inner_text()).split()
        assert not (await memory.acting_as(user="ana").list_items(kinds=["fact"])).items
        await page.get_by_role("link", name="Audit").click()
        await page.get_by_label("Action").fill("user.erase")
        await page.get_by_role("table", name="Audit").get_by_text("user.erase.start").wait_for()


@only_in_full
async def test_rulings_proposals_and_runs_are_governed(memory: Memory, tmp_path: Path) -> None:
    ana = memory.acting_as(user="ana", agent="support", session="s-1")
    await ana.add_messages([NewMessage(content="I live in Kendwa.")])
    await work_off(memory)
    await ana.add_messages([NewMessage(content="I moved, I live in Paje now.")])
    await work_off(memory)
    for text in ("Ana prefers answers in English.", "Ana prefers to get answers in English."):
        await ana.remember_fact(text, scope="user")
    await work_off(memory)
    await memory.review_memory()
    await ana.start_run(run_id="nightly", input={"goal": "ferries"})
    calls = [NewToolCall(name=f"step_{number}", arguments="{}", result="ok", number=number) for number in (1, 2, 3)]
    await ana.record_tool_calls("nightly", calls)
    await ana.complete_run("nightly", output="done")
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        page = board.page
        await page.get_by_role("link", name=re.compile("^Facts")).click()
        await page.get_by_role("link", name="Rulings").click()
        await page.get_by_role("button", name="Undo").first.click()
        await page.get_by_text("undone", exact=True).first.wait_for()
        await page.get_by_role("link", name=re.compile("^Proposals")).click()
        await page.get_by_text("would end").first.wait_for()
        await page.get_by_role("button", name="Accept").first.click()
        await board.sees("Nothing waits for you.")
        await page.get_by_label("Status").select_option("accepted")
        await page.get_by_role("button", name="Undo").first.click()
        await board.sees("No proposal is accepted.")
        await board.open("/ui/runs/nightly?as_user=ana")
        await page.get_by_role("button", name="Start").click()
        for number in (1, 2, 3, 4):
            await page.get_by_role("button", name="Next step").click()
            await board.sees(f"step {number} of 4")
        await page.get_by_text("output", exact=True).wait_for()


@only_in_full
async def test_entities_documents_databases_and_workflows(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECORDARI_DATABASE_FILES", str(tmp_path))
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (article TEXT)")
        shop.execute("INSERT INTO orders VALUES (?)", (MARKUP,))
    shop.close()
    await memory.add_database("shop", "sqlite:///shop.db", tables=["orders"])
    await memory.remember_fact("Otto Krall repairs boats in Bergen.", scope="tenant")
    await memory.save_workflow("slow", {"steps": []}, agent_type="support", task_type="reply")
    await work_off(memory)
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        page = board.page
        await page.get_by_role("link", name="Entities").click()
        await page.get_by_role("button", name="Otto Krall").click()
        await page.get_by_role("button", name="Bergen").click()
        await page.get_by_role("link", name=re.compile("Otto Krall repairs boats in Bergen")).wait_for()
        await page.get_by_role("link", name="Knowledge").click()
        await page.get_by_label("A document to add").set_input_files(
            {"name": "tides.md", "mimeType": "text/markdown", "buffer": b"# Tides\n\nHigh water is at nine."}
        )
        await page.get_by_role("link", name="tides.md").or_(page.get_by_role("link", name="Tides")).first.click()
        await board.sees("High water is at nine.")
        await page.get_by_role("button", name="Remove…").click()
        await page.get_by_label("to confirm").fill("remove")
        await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        await board.sees("No document yet.")
        await page.get_by_role("link", name="Databases").click()
        await page.get_by_label("one SELECT").fill("SELECT article FROM orders")
        await page.get_by_role("button", name="Ask").click()
        await page.get_by_role("table", name="Answer").get_by_text("<b onclick").wait_for()
        await page.get_by_label("one SELECT").fill("DELETE FROM orders")
        await page.get_by_role("button", name="Ask").click()
        await page.get_by_role("alert").wait_for()
        await page.get_by_label("one SELECT").fill("How many orders are there?")
        await page.get_by_role("button", name="Ask").click()
        await page.get_by_role("alert").get_by_text("need a language model").wait_for()
        assert (await page.get_by_role("alert").inner_text()).count("need a language model") == 1, "it is said once"
        await page.get_by_role("link", name="Workflows").click()
        await page.get_by_role("link", name=re.compile("^slow")).click()
        await page.get_by_role("button", name="Retire…").click()
        await page.get_by_label("to confirm").fill("retire")
        await page.get_by_role("dialog").get_by_role("button", name="Retire").click()
        await board.sees(re.compile("retired on"))


@only_in_full
async def test_keys_webhooks_and_retention(memory: Memory, tmp_path: Path) -> None:
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        page = board.page
        await board.open("/ui/operate?tab=people")
        await page.get_by_role("button", name="New key…").click()
        await page.get_by_label("Name").fill("night shift")
        await page.get_by_role("button", name="Make the key").click()
        key = await page.get_by_role("dialog").locator("pre").inner_text()
        assert key.startswith("rcd_")
        await page.get_by_role("button", name="I have it").click()
        assert key not in await page.content()
        await page.get_by_role("button", name="Revoke…").click()
        await page.get_by_label("to confirm").fill("revoke")
        await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        await page.get_by_text("revoked", exact=True).wait_for()
        await page.get_by_role("link", name="Webhooks").click()
        await page.get_by_label("Address").fill("https://192.0.2.1/hook")
        await page.get_by_role("button", name="Add").click()
        await page.get_by_role("button", name="I have it").or_(page.get_by_role("alert")).first.wait_for()
        await page.keyboard.press("Escape")
        await page.get_by_role("link", name="Retention").click()
        await page.get_by_label("Days that an old version is kept").fill("12")
        await page.get_by_role("button", name="Save the policy").click()
        await until(lambda: _has_days(memory, 12))
        await page.get_by_role("button", name="What would go now?").click()
        await board.sees("Nothing is old enough to go.")


async def _has_days(memory: Memory, days: int) -> bool:
    return (await memory.get_retention_policy()).superseded_days == days


@only_in_full
async def test_a_user_sees_what_is_known_about_them_and_no_more(memory: Memory, tmp_path: Path) -> None:
    ana = memory.acting_as(user="ana")
    said = [NewMessage(content="I bought a blue dhow last year.")]
    await memory.acting_as(user="ana", session="a-1").add_messages(said)
    await work_off(memory)
    await ana.remember_fact("Ana Mwinyi lives in Paje", scope="user")
    await ana.remember_fact(f"Ana said {MARKUP}", scope="user")
    await memory.acting_as(user="bob").remember_fact("Bob Juma lives in Uroa", scope="user")
    await memory.acting_as(user="bob", session="b-1").add_messages([NewMessage(content="Uroa is calm")])
    await work_off(memory)
    theirs = (await memory.acting_as(user="bob").list_items(kinds=["fact"])).items[0].item_id
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(ana)
        page = board.page
        await page.get_by_role("heading", name="What is known about you").wait_for()
        for hidden in ("Facts", "Operate"):
            assert await page.get_by_role("link", name=hidden).count() == 0
        for path in (
            "/",
            "/ui/memories",
            "/ui/memories?q=Uroa",
            "/ui/entities",
            "/ui/sessions",
            "/ui/playground?q=Uroa",
        ):
            await board.open(path)
            await page.get_by_role("heading").first.wait_for()
            await page.wait_for_load_state("networkidle")
            assert "Juma" not in await board.text() and "calm" not in await board.text(), path
        await board.open("/ui/operate")
        await board.sees("There is no such page here")
        await board.open(f"/ui/items/{theirs}")
        await board.sees("there is no such item")
        await board.open("/ui/memories?q=blue+dhow")
        await page.get_by_role("list", name="Memories found").get_by_text("dhow last year").first.click()
        await page.get_by_test_id("text").get_by_text("dhow").first.wait_for()
        await board.open("/")
        await page.get_by_role("link", name=re.compile("Ana Mwinyi lives in Paje")).first.click()
        await page.get_by_role("button", name="Correct").click()
        await page.get_by_role("dialog").get_by_role("textbox").first.fill("Ana Mwinyi lives in Jambiani")
        await page.get_by_role("button", name="Save the new version").click()
        await page.get_by_test_id("text").get_by_text("Jambiani").wait_for()
        await page.get_by_role("button", name="Forget…").click()
        await page.get_by_label("to confirm").fill("forget")
        await page.get_by_role("dialog").get_by_role("button", name="Forget", exact=True).click()
        await page.get_by_role("heading", name="Memories").wait_for()
        kept = {item.content for item in (await ana.list_items(kinds=["fact"])).items}
        assert {text for text in kept if "dhow" not in text} == {f"Ana said {MARKUP}"}


@only_in_full
async def test_two_tenants_after_each_other_see_only_their_own_on_every_page(memory: Memory, tmp_path: Path) -> None:
    await filled(memory)
    tenant = await tenants.ensure_tenant(memory.resources, "other")
    other = Memory(memory.resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))
    async with dashboard(memory.resources.settings, tmp_path) as board:
        await board.sign_in(memory)
        paths = (
            "/ui/memories",
            "/ui/sessions",
            "/ui/workflows",
            "/ui/knowledge",
            "/ui/operate",
            "/ui/operate?tab=people",
        )
        await _seen(board, paths, "onclick")
        await board.page.get_by_role("button", name="Sign out").click()
        await board.page.get_by_label("Key or JWT").wait_for()
        await board.sign_in(other)
        for path in paths:
            await board.open(path)
            await board.page.wait_for_load_state("networkidle")
            assert "onclick" not in await board.text(), path


async def _seen(board: Dashboard, paths: tuple[str, ...], text: str) -> None:
    for path in paths:
        await board.open(path)
        await board.page.get_by_role("heading").first.wait_for()
        await board.page.wait_for_load_state("networkidle")
        if path != "/ui/sessions":
            assert text in await board.text(), path
