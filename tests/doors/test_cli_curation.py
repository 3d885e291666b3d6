"""What a person does with memory on the command line: correct it, end it, keep it, move it, forget it."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.doors.test_cli import PROGRAM
from tests.patience import PATIENCE

from recordari.config import Settings
from recordari.doors.cli import main

HOSTILE = "Ana keeps \x1b]0;owned\x07 birds \u202eback"


class Here:
    """Runs commands in this process, which is quicker than a process for each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def run(self, *arguments: object, code: int = 0) -> tuple[str, str]:
        self._capsys.readouterr()
        self._monkeypatch.setattr(sys, "argv", ["recordari", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main.main()
        out, err = self._capsys.readouterr()
        assert (left.value.code or 0) == code, f"{arguments}\n{out}\n{err}"
        return out, err

    def json(self, *arguments: object) -> Any:
        return json.loads(self.run(*arguments, "--json")[0])


@pytest.fixture
def here(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Here]:
    assert settings.database_url is not None and settings.database_owner_url is not None
    for name, value in {
        "HOME": str(tmp_path),
        "DATABASE_URL": settings.database_url.get_secret_value(),
        "DATABASE_OWNER_URL": settings.database_owner_url.get_secret_value(),
        "PROFILE": "fast",
        "WORKER": "false",
    }.items():
        monkeypatch.setenv(f"RECORDARI_{name}", value)
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # nobody is there to answer
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield Here(monkeypatch, capsys)
    root.handlers[:], root.level = handlers, level


def kept(here: Here, text: str, *more: str) -> str:
    return str(here.json("remember", text, "--kind", "fact", "--user", "ana", *more)["id"])


def test_a_fact_is_corrected_ended_restored_and_pinned(here: Here) -> None:
    first = kept(here, HOSTILE)
    shown, _ = here.run("facts", "list")
    assert "owned" in shown and not {"\x1b", "\x07", "\u202e"} & set(shown)
    edited = here.json("facts", "edit", first, "Ana keeps birds", "--reason", "tidy")["id"]
    assert [one["superseded_by"] for one in here.json("facts", "history", first)] == [edited, None]
    drawn, _ = here.run("facts", "timeline", first)
    assert drawn.count("    true   ") == 2 and drawn.count("    known  ") == 2
    assert "until" in drawn and "holds" in drawn and "█" in drawn
    here.run("facts", "invalidate", edited)
    assert here.json("facts", "list")["items"] == []
    here.run("facts", "restore", edited)
    here.run("facts", "pin", edited)
    assert [item["item_id"] for item in here.json("facts", "list", "--pinned")["items"]] == [edited]
    assert here.json("facts", "feedback", edited, "useful")["confidence"] > 0.5
    assert here.json("facts", "provenance", edited)["useful"] == 1
    _, err = here.run("facts", "restore", first, code=1)
    assert err.startswith("error: a newer item contradicts this one")


def test_nothing_is_forgotten_without_a_yes(here: Here) -> None:
    item_id = kept(here, "Ana keeps birds")
    for command in (("forget", item_id), ("erase", "ana"), ("erase-agent", "helper"), ("policy", "sweep")):
        _, err = here.run(*command, code=2)
        assert "--yes" in err
    assert here.json("forget", item_id, "--dry-run")["item_ids"] == [item_id]
    here.run("policy", "hold", item_id, "release-7")
    assert here.run("forget", item_id, "--yes", code=1)[1].startswith("error: an action rests on")
    assert [hold["action_id"] for hold in here.json("policy", "holds", item_id)] == ["release-7"]
    here.run("policy", "release", item_id, "release-7", "--yes")
    assert here.json("forget", item_id, "--yes")["item_ids"] == [item_id]
    kept(here, "Ana lives in Lund")
    assert here.json("erase", "ana", "--yes")["items"] == 1
    assert here.json("stats")["by_state"] == {"forgotten": 2}
    here.run("remember", "Refunds need a number", "--kind", "fact", "--agent", "helper")
    assert here.run("erase-agent", "helper", "--memories", "--yes")[0] == "removed, with 1 memory and 0 sessions\n"
    assert "no such agent" in here.run("erase-agent", "helper", "--yes", code=1)[1]


def test_a_policy_is_shown_changed_and_tried(here: Here) -> None:
    assert here.json("policy", "show")["deleted_days"] == 30
    assert here.json("policy", "set", "deleted_days=7")["deleted_days"] == 7
    assert "deleted_days" in here.run("policy", "set", "deleted_days=soon", code=1)[1]
    assert here.json("policy", "dry-run")["counts"] == {"archive": 0, "anonymize": 0, "purge": 0}
    assert here.json("policy", "privacy", "email=keep")["email"] == "keep"
    assert here.json("policy", "decay")["archived"] == 0


def test_an_export_is_imported_again(here: Here, tmp_path: Path) -> None:
    item_id = kept(here, "Ana keeps birds")
    file = tmp_path / "export.jsonl"
    here.run("export", file)
    assert "--yes" in here.run("export", file, code=2)[1]
    assert "Ana keeps birds" in file.read_text()
    here.run("tenant", "create", "acme")
    assert here.json("import", file, "--tenant", "acme")["written"]["item"] == 1
    assert here.json("import", file, "--tenant", "acme")["known_items"] == 1
    assert [one["item_id"] for one in here.json("facts", "list", "--tenant", "acme")["items"]] == [item_id]
    assert here.run("import", tmp_path / "nowhere", code=1)[1].startswith("error: cannot read")


def test_sessions_runs_jobs_and_webhooks_are_listed(here: Here) -> None:
    assert here.json("sessions", "list") == here.json("runs", "list") == here.json("webhooks", "list") == []
    assert here.run("sessions", "show", "nothing", code=1)[1].startswith("error: ")
    assert isinstance(here.json("jobs", "run", "measure_usage")["job_id"], int)
    assert here.json("jobs", "counts")["jobs"]["todo"] >= 1
    assert "decay" in {job["job"] for job in here.json("jobs", "schedule")}
    assert "use one of" in here.run("jobs", "run", "nonsense", code=1)[1]
    assert "must be public" in here.run("webhooks", "add", "http://127.0.0.1/x", code=1)[1]


def test_the_shell_completes_commands_of_commands() -> None:
    for line, expected in (
        ("recordari po", "policy"),
        ("recordari policy dr", "dry-run"),
        ("recordari facts hi", "history"),
    ):
        done = subprocess.run(
            [PROGRAM],
            env={**os.environ, "_RECORDARI_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        assert re.search(rf'"{expected}"', done.stdout), line
