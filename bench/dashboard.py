"""The dashboard with a million memories: when each page first shows something, when it rests, and what its scripts cost.

    python bench/dashboard.py [--items 1000000] [--home FOLDER] [--rounds 5]

The items go past the API, in plain SQL, and are then counted; the pages through a real server and Chromium. A page is opened
several times with an empty cache; the middle figure is shown. First paint, heading and complete are by the clock. Script is
the time that the processor spent in scripts of the page, and task all its work with layout and painting: other programs do
not add to these. A folder given by `--home` is kept, and found full it is used again. Prints a table, writes
`bench/results/dashboard.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from playwright.async_api import Browser, async_playwright
from rich.console import Console
from rich.table import Table

from recordari.config import Settings
from recordari.core.identity import job_identity, tenant_id_of
from recordari.db.address import bring_up_to_date, open_address
from recordari.kit.commands import DEVELOPMENT_TENANT
from recordari.tenants import usage
from recordari.tenants.tenants import ensure_tenant
from recordari.wiring import open_resources

RESULTS = Path(__file__).parent / "results"
USERS = 1_000
PATIENCE = 120_000  # milliseconds
PAGES = {
    "Overview": "/",
    "Memories": "/ui/memories",
    "Memories, a search": "/ui/memories?q=ferry+of+user+7&as_user=user-7",
    "Memories, filtered": "/ui/memories?kind=fact&tier=recent&trust=user&as_user=user-7",
    "a memory": "/ui/items/{item}",
    "Playground": "/ui/playground?q=ferry+of+user+7&as_user=user-7",
    "Playground, both": "/ui/playground?q=ferry+of+user+7&show=both&as_user=user-7",
    "Facts": "/ui/facts",
    "Entities": "/ui/entities",
    "Sessions": "/ui/sessions",
    "Workflows": "/ui/workflows",
    "Knowledge": "/ui/knowledge",
    "Operate": "/ui/operate",
    "Operate, audit": "/ui/operate?tab=audit",
    "Operate, server": "/ui/operate?tab=server",
}
FILL = """
    INSERT INTO items (tenant_id, item_id, kind, scope, tier, user_id, source_ref, content, content_hash, trust, event_time,
        created_at, valid_at, subject, tsv, terms, tokens, traits)
    SELECT %(tenant)s, uuidv7(make_interval(secs => n - %(last)s)), CASE WHEN n %% 3 = 0 THEN 'fact' ELSE 'chat_message' END,
        'user', 'recent', 'user-' || n %% %(users)s, 'bench-' || n, text, sha256(text::bytea), 'user', at, at, at,
        CASE WHEN n %% 3 = 0 THEN 'user' END, to_tsvector('english', text), ''::bytea, ''::bytea, 0
    FROM generate_series(%(first)s::int, %(past)s::int - 1) n
    CROSS JOIN LATERAL (SELECT 'User ' || n %% %(users)s || ' takes the ferry number ' || n || ' from Kendwa to Paje' AS text,
        now() - make_interval(secs => (%(last)s - n) * 2.0) AS at) made
"""
NAME = """
    INSERT INTO mentions (tenant_id, entity_id, item_id, user_id)
    SELECT i.tenant_id, e.entity_id, i.item_id, i.user_id FROM items i JOIN entities e ON e.tenant_id = i.tenant_id
        AND abs(hashtext(i.item_id::text || e.key)) %% 40 = 0
    WHERE i.tenant_id = %(tenant)s AND i.item_id IN (
        SELECT item_id FROM items WHERE tenant_id = %(tenant)s ORDER BY item_id DESC LIMIT 20000)
"""


async def fill(settings: Settings, items: int) -> None:
    async with open_resources(settings) as resources:
        await ensure_tenant(resources, DEVELOPMENT_TENANT)
    tenant = tenant_id_of(DEVELOPMENT_TENANT)
    async with open_address(settings) as address:
        await bring_up_to_date(settings, address)
        assert address.owner_dsn is not None
        with psycopg.connect(address.owner_dsn, autocommit=True) as connection:
            connection.execute("SET search_path = recordari, public")
            connection.execute("SET session_replication_role = replica")  # no trigger counts these rows
            (present,) = connection.execute("SELECT count(*) FROM items").fetchone() or (0,)
            for first in range(present, items, 50_000):
                past = min(first + 50_000, items)
                values = {"tenant": tenant, "first": first, "past": past, "last": items, "users": USERS}
                connection.execute(FILL, values)
                print(f"{past:,} items", file=sys.stderr)
            if not present:
                connection.execute(
                    "INSERT INTO entities (tenant_id, entity_id, kind, name, key) "
                    "SELECT %s, gen_random_uuid(), 'name', 'Place ' || n, 'place ' || n FROM generate_series(1, 400) n",
                    (tenant,),
                )
                connection.execute(NAME, {"tenant": tenant})
            connection.execute("ANALYZE items, mentions, entities")
    async with open_resources(settings) as resources:
        await usage.measure(resources, job_identity(tenant, "measure_usage"))


@asynccontextmanager
async def serving(home: Path) -> AsyncIterator[str]:
    environment = {
        **os.environ,
        "RECORDARI_HOME": str(home),
        "RECORDARI_PORT": "0",
        "RECORDARI_EMBEDDING_PROFILE": "fast",
    }
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("recordari"),
        "serve",
        "--no-worker",
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            if found := re.search(rb"http://\S+/#code=\S+", line):
                yield found.group().decode()
                return
        raise RuntimeError("the server did not start; is the dashboard built (make web)?")
    finally:
        process.terminate()
        await process.wait()


async def measure(browser: Browser, address: str, *, rounds: int) -> dict[str, dict[str, float]]:
    context = await browser.new_context(viewport={"width": 1280, "height": 860})
    await context.route("**/v1/events", lambda route: route.abort())  # the change feed never rests
    page = await context.new_page()
    page.set_default_timeout(PATIENCE)
    session = await context.new_cdp_session(page)
    await session.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
    await session.send("Performance.enable")
    await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    await page.goto(address)
    await page.locator(".frame").wait_for()
    item = await page.evaluate("fetch('/v1/items?limit=1').then(a => a.json()).then(p => p.items[0].item_id)")
    figures: dict[str, dict[str, float]] = {}
    for name, path in PAGES.items():
        taken: dict[str, list[float]] = {}
        for _ in range(rounds):
            began = time.monotonic()
            await page.goto(address.partition("/#")[0] + path.format(item=item))
            await page.locator("main h1, main .kind").first.wait_for()
            heading = time.monotonic() - began
            await page.wait_for_load_state("networkidle")
            rested = time.monotonic() - began - 0.5  # which the browser waits to be sure
            paint = await page.evaluate(
                "performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)[0] ?? 0"
            )
            metrics = {one["name"]: one["value"] for one in (await session.send("Performance.getMetrics"))["metrics"]}
            now = {"first_paint_ms": paint, "heading_ms": heading * 1000, "complete_ms": rested * 1000}
            now |= {"script_ms": metrics["ScriptDuration"] * 1000, "task_ms": metrics["TaskDuration"] * 1000}
            for key, value in now.items():
                taken.setdefault(key, []).append(value)
        figures[name] = {key: round(statistics.median(values)) for key, values in taken.items()}
    return figures


def show(figures: dict[str, dict[str, float]], items: int) -> None:
    table = Table(title=f"The dashboard with {items:,} memories, in milliseconds", box=None)
    for column in ("page", *next(iter(figures.values()))):
        table.add_column(column.removesuffix("_ms").replace("_", " "), justify="left" if column == "page" else "right")
    for name, taken in figures.items():
        table.add_row(name, *(f"{value:.0f}" for value in taken.values()))
    Console().print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "dashboard.json").write_text(json.dumps({"items": items, "pages": figures}, indent=1) + "\n")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recordari-dashboard-") as folder:
        home = options.home or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o755)
        await fill(Settings(home=home, embedding_profile="fast"), options.items)
        async with serving(home) as address, async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            show(await measure(browser, address, rounds=options.rounds), options.items)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
