"""Every code block of the documentation runs as it stands, page by page, against a server a reader would start.

Blocks of `python` and `sh` run; one that cannot has `<!-- not run: why -->` on the line before it. Blocks of other
languages are shown only.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from tests.docs.served import Interpreter, Served, serving
from tests.stored import drop_database

from recordari.db.address import APP_LOGIN
from recordari.db.embedded.server import EmbeddedServer

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in page.relative_to(ROOT).parts),
]
FENCE = re.compile(
    r"^(?P<note><!-- not run: (?P<why>[^>]+) -->\n\n?)?(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
SHOWN_ONLY = {"", "text", "json", "sql", "ini", "toml", "yaml", "http", "typescript"}


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code on a page."""

    language: str
    code: str
    why_not: str | None


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order."""
    found = []
    for match in FENCE.finditer(page.read_text()):
        code = re.sub(rf"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
        found.append(Block(match["language"], code, match["why"]))
    return found


@pytest.fixture(scope="module")
def served(server: EmbeddedServer) -> Iterator[Served]:
    """The server of a reader, and an empty database that stands for one of their own."""
    name = f"docs_{uuid.uuid4().hex[:12]}"
    theirs = {
        "postgresql://admin:…@db.example/recordari": server.dsn(database=name),
        "postgresql://recordari:…@db.example/recordari": server.dsn(user=APP_LOGIN, database=name),
    }
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with serving(theirs) as started:
        yield started
    drop_database(server, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs_as_it_stands(page: Path, served: Served, tmp_path: Path) -> None:
    interpreter = Interpreter(served, tmp_path)
    try:
        for block in blocks(page):
            if block.why_not is not None or block.language in SHOWN_ONLY:
                continue
            if block.language == "python":
                interpreter.run(block.code)
            elif block.language == "sh":
                served.run_shell(block.code, tmp_path)
            else:
                pytest.fail(f"nobody knows how to run {block.language!r}: use python, sh, or one that is only shown")
    finally:
        interpreter.close()


def test_links_between_pages_lead_somewhere() -> None:
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text())
        if "reference/" not in target
    ]
    assert len(links) > 100, "they must be seen, or this shows nothing"
    assert [
        f"{page.relative_to(ROOT)}: {target}" for page, target in links if not (page.parent / target).exists()
    ] == []
