"""The reference pages are made from the code, and leave nothing out."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from tools.reference import pages, setting_topics

from recordari.app import Memory
from recordari.config import Settings
from recordari.doors.cli.main import COMMANDS


def test_every_verb_command_setting_and_tool_is_described() -> None:
    made = pages()
    for name, method in inspect.getmembers(Memory, inspect.isfunction):
        if not name.startswith("_"):
            assert inspect.getdoc(method), f"Memory.{name} says nothing of itself"
            assert f"### `{name}`" in made["python.md"]
    for command in COMMANDS:
        assert f"`recordari {command}`" in made["cli.md"]
    for name, field in Settings.model_fields.items():
        assert field.description, f"the setting {name} says nothing of itself"
        assert f"`RECORDARI_{name.upper()}`" in made["settings.md"]
    assert [name for names in setting_topics().values() for name in names] == list(Settings.model_fields)
    assert all(f"\n## {topic}\n\n| variable | default | meaning |" in made["settings.md"] for topic in setting_topics())
    assert "### `POST /v1/recall`" in made["rest.md"]
    assert "### `recall`" in made["mcp.md"]
    assert "`not_found`" in made["errors.md"]


def test_the_site_leads_to_every_page() -> None:
    root = Path(__file__).parents[2]
    nav = (root / "mkdocs.yml").read_text().partition("\nnav:")[2]
    by_hand = {str(page.relative_to(root / "docs")) for page in (root / "docs").rglob("*.md")}
    assert set(re.findall(r"\S+\.md", nav)) == by_hand | {f"reference/{name}" for name in pages()}


def test_every_file_that_the_pages_name_is_there() -> None:
    root = Path(__file__).parents[2]
    named = {
        name
        for page in ["CONTRIBUTING.md", "docs/architecture.md", "docs/ranking.md", "docs/vocabulary.md"]
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.(?:py|sql|md|json))(?::|`)", (root / page).read_text())
    }
    assert len(named) > 50
    assert [
        name for name in named if not any((folder / name).exists() for folder in (root, root / "src/recordari"))
    ] == []
