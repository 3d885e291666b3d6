"""The files in deploy/ and the entry for the MCP registry name settings, commands and metrics that exist."""

from __future__ import annotations

import json
import re
import tomllib
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


def test_the_entry_of_the_mcp_registry_starts_this_version() -> None:
    root = DEPLOY.parent
    entry = json.loads((root / "server.json").read_text("utf-8"))
    about = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    (package,) = entry["packages"]
    assert (package["identifier"], package["version"], entry["version"]) == (
        about["name"],
        about["version"],
        about["version"],
    )
    # The limits of the registry's schema of 2025-12-11.
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"]) and len(entry["description"]) <= 100
    assert f"mcp-name: {entry['name']} " in (root / "README.md").read_text("utf-8")
    arguments = package["packageArguments"]
    assert {argument["type"] for argument in arguments + package["runtimeArguments"]} <= {"named", "positional"}
    command, *options = arguments
    assert command["value"] == "mcp" and "mcp" in COMMANDS
    assert {option["name"] for option in options} == {"--user", "--agent"}
    assert {variable["name"].removeprefix("RECORDARI_").lower() for variable in package["environmentVariables"]} <= set(
        Settings.model_fields
    )
    assert package["runtimeArguments"][0]["value"] == about["optional-dependencies"]["mcp"][0]
    assert package["transport"] == {"type": "stdio"}


def test_nothing_runs_as_root_or_writes_to_its_image() -> None:
    containerfile = (DEPLOY / "Containerfile").read_text("utf-8")
    final = [stage for stage in containerfile.split("\nFROM ")[1:] if re.search(r"AS (all-in-one|recordari)\n", stage)]
    assert len(final) == 2
    assert all("\nUSER 10001:10001" in stage for stage in final)
    pods = [text for file in FILES if "image: recordari\n" in (text := file.read_text("utf-8"))]
    assert len(pods) == 3
    for text in pods:
        assert "runAsNonRoot: true" in text and "readOnlyRootFilesystem: true" in text and "drop: [ALL]" in text
