"""Takes pictures of every page of the dashboard with the memory of `recordari demo`, in both colours and two widths.

All of them go to `build/screenshots/`; those that README and the docs show also to `docs/images/`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, async_playwright

ROOT = Path(__file__).parents[1]
EVERYTHING = ROOT / "build" / "screenshots"
SHOWN = {
    "overview-light-1280": "dashboard-overview.png",
    "context-light-1280": "dashboard-playground.png",
    "item-dark-1280": "dashboard-item.png",
    "search-light-1280": "dashboard-memories.png",
    "run-light-1280": "dashboard-run.png",
    "workflow-dark-1280": "dashboard-workflow.png",
    "entities-dark-400": "dashboard-entities.png",
    "facts-light-400": "dashboard-narrow.png",
}
"""Pictures of the docs; each may have 180 kB."""
MOST_BYTES = 180_000
WIDTHS = {1280: 860, 400: 860}
START_SECONDS = 300
PATIENCE = 120_000  # milliseconds

ACTING = "as_user=ingrid&as_agent=mila&as_session=ingrid-spring"
PAGES = {
    "overview": "/",
    "memories": "/ui/memories",
    "search": f"/ui/memories?q=Where+does+Ingrid+live%3F&{ACTING}",
    "item": "item",
    "playground": f"/ui/playground?q=Where+does+Ingrid+live+and+work%3F&{ACTING}",
    "compare": f"/ui/playground?q=Who+repairs+the+brake%3F&compare=1&kind_2=chat_message&{ACTING}",
    "both": f"/ui/playground?q=Who+repairs+the+brake%3F&show=both&{ACTING}",
    "subject": "/ui/facts?subject=user&as_user=ingrid",
    "context": f"/ui/playground?q=Who+repairs+the+brake%3F&show=context&{ACTING}",
    "facts": "/ui/facts",
    "rulings": "/ui/facts?tab=rulings",
    "proposals": "/ui/facts?tab=proposals",
    "entities": "/ui/entities",
    "sessions": "/ui/sessions",
    "session": "/ui/sessions/tomas-refund?as_user=tomas",
    "run": "/ui/runs/refund-hh-20417?as_user=tomas",
    "workflows": "/ui/workflows",
    "workflow": "workflow",
    "knowledge": "/ui/knowledge",
    "document": "document",
    "databases": "/ui/knowledge?tab=databases",
    "sources": "/ui/knowledge?tab=sources",
    "runs": "/ui/sessions?tab=runs",
    "operate": "/ui/operate",
    "retention": "/ui/operate?tab=retention",
    "data": "/ui/operate?tab=data",
    "people": "/ui/operate?tab=people",
    "webhooks": "/ui/operate?tab=webhooks",
    "audit": "/ui/operate?tab=audit",
    "server": "/ui/operate?tab=server",
    "docs": "/docs",
}
FIND = {
    "item": "/v1/rulings?limit=1",
    "workflow": "/v1/workflows?limit=1",
    "document": "/v1/documents?limit=1",
}
"""Where the id of a page of one thing comes from."""


async def _address_in(lines: asyncio.StreamReader) -> str:
    async for line in lines:
        if found := re.search(rb"http://\S+/#code=\S+", line):
            return found.group().decode()
    raise RuntimeError("the demonstration did not start; is the dashboard built (make web)?")


@asynccontextmanager
async def demo() -> AsyncIterator[str]:
    """The demonstration, and the address that signs in to it."""
    program = Path(sys.executable).with_name("recordari")
    process = await asyncio.create_subprocess_exec(
        program, "demo", "--port", "0", stdout=asyncio.subprocess.PIPE, stderr=sys.stderr, cwd=os.sep
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            address = await _address_in(process.stdout)
        yield address
    finally:
        process.terminate()
        await process.wait()


async def addresses(page: Page) -> dict[str, str]:
    """The address of each page; that of one thing by the first thing of its list."""
    read = "path => fetch(path).then(answer => answer.json()).then(page => page.items[0])"
    rows = {name: await page.evaluate(read, path) for name, path in FIND.items()}
    own = {
        "item": f"/ui/items/{rows['item']['superseded_by']}",
        "workflow": f"/ui/workflows/{rows['workflow']['workflow_id']}",
        "document": f"/ui/documents/{rows['document']['document_id']}",
    }
    return {name: own.get(path, path) for name, path in PAGES.items()}


async def take(only: set[str]) -> None:
    EVERYTHING.mkdir(parents=True, exist_ok=True)
    async with demo() as address, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        context = await browser.new_context(reduced_motion="reduce")
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        await page.goto(address)
        await page.locator(".frame").wait_for()
        places = await addresses(page)
        for name, path in places.items():
            if only and name not in only:
                continue
            for width, height in WIDTHS.items():
                await page.set_viewport_size({"width": width, "height": height})
                for colour in ("light", "dark"):
                    await page.emulate_media(color_scheme=colour)
                    await page.goto(address.partition("/#")[0] + path)
                    await page.locator("main h1, main .kind").first.wait_for()
                    await page.locator(".skeleton").first.wait_for(state="detached")
                    await page.wait_for_timeout(900)  # for pictures only: what comes later, and the graph rests
                    await page.screenshot(path=EVERYTHING / f"{name}-{colour}-{width}.png")
        await browser.close()


def keep_some() -> None:
    for name, shown in SHOWN.items():
        picture = EVERYTHING / f"{name}.png"
        if picture.exists():
            size = picture.stat().st_size
            if size > MOST_BYTES:
                sys.exit(f"{picture} has {size} bytes; {MOST_BYTES} are allowed in the docs")
            shutil.copyfile(picture, ROOT / "docs" / "images" / shown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help=f"only these: {', '.join(PAGES)}")
    asyncio.run(take(set(parser.parse_args().pages)))
    keep_some()
