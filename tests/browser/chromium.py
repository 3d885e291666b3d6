"""A real browser on a real server: what the tests of the dashboard share."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Error, Page, async_playwright
from tests.doors.test_rest_process import served
from tests.patience import PATIENCE

from recordari.app import Memory
from recordari.config import Settings
from recordari.doors.web.page import PageFiles
from recordari.tenants.sign_ins import make_code

PROGRAM = shutil.which("chromium")
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
only_in_full = pytest.mark.skipif(
    os.environ.get("RECORDARI_TEST_BROWSER") != "all", reason="`make test-browser` runs it"
)

STRANGE = {
    "markup": "<b onclick=alert(1)>bold</b><img src=x onerror=alert(2)>",
    "script": "</script><script>window.broken = true</script>{{7*7}}${7*7}",
    "right to left": "\u202eevil\u202c שלום עולם",
    "zero width": "pass\u200bword\u200d\ufeff secret",
    "quotes": "\"'`--; DROP TABLE items; javascript:alert(1)",
}
HUGE = "<b onclick=alert(3)>huge</b>" + "x" * 2**20
"""Texts that a careless page would run, or would be broken by."""


def require_browser() -> str:
    """The browser's program; the test is skipped without it or the built page, except in CI, where that is a failure."""
    reason = None
    if PROGRAM is None:
        reason = "there is no chromium here (tests/setup-system installs it)"
    elif not PageFiles().are_built:
        reason = "the dashboard is not built (make web)"
    if reason is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    assert PROGRAM is not None
    return PROGRAM


@dataclass(kw_only=True)
class Dashboard:
    """A server with one browser; it notes everything that a good page must not do."""

    address: str
    browser: Browser
    page: Page
    problems: list[str] = field(default_factory=list)

    async def open(self, path: str) -> None:
        await self.page.goto(self.address + path)

    async def sign_in(self, memory: Memory) -> None:
        """Come in as an administrator of a tenant, or as the user that it acts for, by an address that works once."""
        code = await make_code(memory.resources, memory.identity)
        await self.open(f"/#code={code}")
        await self.page.locator(".frame").wait_for()

    async def sees(self, text: str | re.Pattern[str], *, within: str = "body") -> None:
        try:
            await self.page.locator(within).get_by_text(text).first.wait_for()
        except Error as waited:
            pytest.fail(f"{self.page.url} does not show {text!r} ({waited}); it shows:\n{(await self.text())[:4000]}")

    async def has_no_serious_fault(self) -> None:
        """Let axe look at the page: nothing that it calls serious or critical may be there."""
        await self.page.evaluate(AXE.read_text())
        found = await self.page.evaluate("axe.run({ resultTypes: ['violations'] })")
        self.problems += [
            f"{self.page.url}: {fault['id']} ({fault['help']}): {fault['nodes'][0]['html'][:200]}"
            for fault in found["violations"]
            if fault["impact"] in {"serious", "critical"}
        ]

    async def text(self) -> str:
        return await self.page.inner_text("body")


@asynccontextmanager
async def dashboard(settings: Settings, folder: Path, **options: object) -> AsyncIterator[Dashboard]:
    """A dashboard in a browser of its own; at the end nothing may have gone wrong in it."""
    program = require_browser()
    async with served(settings, folder / "server.log") as address, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        context = await browser.new_context(**options)  # type: ignore[arg-type]
        made = Dashboard(address=address, browser=browser, page=await context.new_page())
        _watch(context, made)
        made.page.set_default_timeout(PATIENCE * 1000)
        try:
            yield made
        finally:
            await browser.close()
        assert not made.problems, "\n".join(made.problems)


def _watch(context: BrowserContext, made: Dashboard) -> None:
    """Note errors of the console, scripts that fail, dialogs, and requests that leave the origin."""

    def requested(url: str) -> None:
        if not url.startswith((made.address + "/", "data:", "blob:")):
            made.problems.append(f"a request left the origin: {url}")

    context.on("request", lambda request: requested(request.url))
    context.on("weberror", lambda error: made.problems.append(f"a script failed: {error.error}"))
    context.on("console", lambda message: _noted(made, message.type, message.text))
    context.on("dialog", lambda dialog: made.problems.append(f"a dialog opened: {dialog.message}"))


def _noted(made: Dashboard, kind: str, text: str) -> None:
    # The browser itself writes a line for every answer over 399; pages show those.
    if kind in {"error", "warning"} and not text.startswith("Failed to load resource"):
        made.problems.append(f"the console shows {kind}: {text}")
