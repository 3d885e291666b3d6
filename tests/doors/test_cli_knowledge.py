"""`recordari document`, `source` and `profile`, in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.doors.test_cli import Cli, connected
from tests.pdf_writer import written

from recordari.config import Settings


@pytest.fixture
def command(settings: Settings, tmp_path: Path) -> Cli:
    folders = json.dumps([str(tmp_path / "shelf")])
    return connected(settings, tmp_path, RECORDARI_EMBEDDING_PROFILE="fast", RECORDARI_DOCUMENT_FOLDERS=folders)


def test_files_are_added_found_by_meaning_and_removed(command: Cli, tmp_path: Path) -> None:
    file = tmp_path / "pump.pdf"
    file.write_bytes(written(["The puppy is fed at noon."]))
    out, _ = command.run("document", "add", str(file), "--metadata", '{"title": "Pets"}')
    assert "pump.pdf  added, 1 chunk" in out
    shown, _ = command.run("document", "search", "When does the dog eat?")
    assert "pump.pdf (revision 1, page 1, chunk 0)" in shown and "fed at noon" in shown
    document_id = out.split()[0]
    assert command.run("document", "read", document_id)[0] == "The puppy is fed at noon.\n"
    assert command.run("document", "remove", document_id)[0] == "removed\n"
    _, err = command.run("document", "add", str(tmp_path / "missing.md"), code=1)
    assert "missing.md: it cannot be read" in err


def test_a_folder_is_synchronised_where_the_operator_allows_it(command: Cli, tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "a.md").write_text("# A\n\nFirst book")
    command.run("source", "add", "books", "--folder", str(shelf), "--description", "What we read")
    out, _ = command.run("source", "sync", "books")
    assert out == "1 added, 0 revised, 0 unchanged, 0 removed, 0 failed\n"
    assert "- search_knowledge: books (1 document), What we read" in command.run("source", "map")[0]
    _, err = command.run("source", "add", "all", "--folder", "/", code=1)
    assert "RECORDARI_DOCUMENT_FOLDERS" in err
    assert command.run("source", "remove", "books", "--yes")[0] == "removed, with 1 document\n"


def test_a_profile_and_a_standing_answer_are_printed(command: Cli) -> None:
    command.run("remember", "Ana plays chess", "--kind", "fact", "--user", "ana")
    assert command.run("profile", "--user", "ana")[0] == "Personal: Ana plays chess.\n"
    command.run("questions", "save", "games", "Which games does this customer play?")
    assert "games" in command.run("questions", "list")[0]
    out, note = command.run("questions", "answer", "games", "--user", "ana")
    assert out == "Ana plays chess\n" and "offline" in note
    assert "nothing is known" in command.run("questions", "answer", "games", "--user", "bob")[0]
    assert command.run("questions", "remove", "games")[0] == "removed games\n"
    assert "no such question" in command.run("questions", "answer", "games", "--user", "ana", code=1)[1]
