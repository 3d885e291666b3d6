"""The files in deploy/ name settings, commands and metrics that exist."""

from __future__ import annotations

import re
from pathlib import Path

from recordari.config import Settings
from recordari.doors.cli.main import COMMANDS

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = [path for path in DEPLOY.rglob("*") if path.is_file()]


def test_every_setting_of_the_deployment_files_exists() -> None:
    named = {name for file in FILES for name in re.findall(r"\bRECORDARI_[A-Z_]+\b", file.read_text("utf-8"))}
    known = {f"RECORDARI_{name.upper()}" for name in Settings.model_fields}
    assert "RECORDARI_DATABASE_URL" in named
    assert named <= known, sorted(named - known)


def test_every_command_of_the_deployment_files_exists() -> None:
    lines = [line for file in FILES for line in file.read_text("utf-8").splitlines()]
    commands = {found[1] for line in lines if (found := re.match(r"\s*(?:args|command): \[([a-z-]+)[,\]]", line))}
    assert {"serve", "worker", "db"} <= commands
    assert commands - {"redis-server"} <= COMMANDS.keys()


def test_nothing_runs_as_root_or_writes_to_its_image() -> None:
    containerfile = (DEPLOY / "Containerfile").read_text("utf-8")
    final = [stage for stage in containerfile.split("\nFROM ")[1:] if re.search(r"AS (all-in-one|recordari)\n", stage)]
    assert len(final) == 2
    assert all("\nUSER 10001:10001" in stage for stage in final)
    pods = [text for file in FILES if "image: recordari\n" in (text := file.read_text("utf-8"))]
    assert len(pods) == 3
    for text in pods:
        assert "runAsNonRoot: true" in text and "readOnlyRootFilesystem: true" in text and "drop: [ALL]" in text
