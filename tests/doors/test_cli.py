"""The command line as a person or a script meets it: the real program in processes of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
import typer
from psycopg.conninfo import make_conninfo
from tests.folders import open_folder
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT

from recordari.config import Settings
from recordari.db.embedded.server import EmbeddedServer
from recordari.db.migrate import Migration
from recordari.doors.cli import main
from recordari.errors import Unauthenticated
from recordari.kit.resources import Resources
from recordari.tenants.tenants import authenticate_key

PROGRAM = Path(sys.executable).with_name("recordari")


class Cli:
    """Runs `recordari` in one environment and nothing else of ours."""

    def __init__(self, folder: Path, **environment: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RECORDARI_")}
        self.environment = {**kept, "COLUMNS": "200", **environment}
        self.folder = folder

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, *arguments],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def anyhow(self, *arguments: str) -> tuple[int, str, str]:
        """Return its exit code, and what it wrote to standard output and standard error."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        """Return what it wrote to standard output and standard error."""
        ended, out, err = self.anyhow(*arguments)
        assert ended == code, f"{arguments}: {ended}\n{out}\n{err}"
        return out, err

    def json(self, *arguments: str, code: int = 0) -> Any:
        out, _ = self.run(*arguments, "--json", code=code)
        return json.loads(out)


@contextmanager
def new_home() -> Iterator[Path]:
    folder = open_folder("recordari-cli-")
    try:
        yield folder
    finally:
        server_of(folder).stop("immediate")
        shutil.rmtree(folder)


def server_of(folder: Path) -> EmbeddedServer:
    """Make the handle by which a test looks at a home's server without a further process."""
    return EmbeddedServer(folder / "postgres", cache_dir=folder / "cache")


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Make a home whose database stays up between the commands of this module."""
    with new_home() as folder:
        Cli(folder, RECORDARI_HOME=str(folder)).run("db", "start")
        yield folder


@pytest.fixture
def at_home(home: Path) -> Cli:
    """Use the command line on the shared home."""
    return Cli(home, RECORDARI_HOME=str(home))


def connected(settings: Settings, folder: Path, **environment: str) -> Cli:
    """Use the command line on a PostgreSQL of the user's own."""
    assert settings.database_url is not None
    assert settings.database_owner_url is not None
    chosen = {
        "RECORDARI_HOME": str(folder),
        "RECORDARI_DATABASE_URL": settings.database_url.get_secret_value(),
        "RECORDARI_DATABASE_OWNER_URL": settings.database_owner_url.get_secret_value(),
        **PATIENT_ENVIRONMENT,
    }
    return Cli(folder, **{**chosen, **environment})


@pytest.fixture
def on_clone(settings: Settings, tmp_path: Path) -> Cli:
    """Use the command line on a fresh, migrated database."""
    return connected(settings, tmp_path)


def described(command: list[str]) -> Any:
    """Find a command in the tree as Typer has made it."""
    found: Any = typer.main.get_command(main.build(command[0] if command else None))
    for name in command:
        found = found.commands[name]
    return found


def commands() -> list[list[str]]:
    """List every command and sub-command there is."""
    found: list[list[str]] = [[]]
    for name in main.COMMANDS:
        found += [[name], *([name, inner] for inner in getattr(described([name]), "commands", ()))]
    return sorted(found)


# -- Usage


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_explains_itself(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["recordari", *command, "--help"])
    with pytest.raises(SystemExit) as left:
        main.main()
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert not set(shown) & set("│╭╰\x1b"), "lines that a pipe can carry"
    words = " ".join(shown.split())
    assert words.startswith(" ".join(["Usage: recordari", *command, "["]))
    found = described(command)
    assert " ".join(found.help.split()) in words
    for inner in getattr(found, "commands", {}).values():
        assert inner.name in words and " ".join(inner.short_help.split()) in words
    for parameter in found.params:
        assert parameter.help, f"{parameter.name} says nothing"
    silent = (
        not command
        or hasattr(found, "commands")
        or " ".join(command) in {"serve", "demo", "proxy", "worker", "mcp", "db psql"}
    )
    assert any("--json" in parameter.opts for parameter in found.params) != silent


def test_a_command_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    _, err = Cli(tmp_path).run("remember-everything", code=2)
    assert "remember-everything" in err


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    command = Cli(tmp_path)
    assert command.json("version")["recordari"] == command.run("--version")[0].strip()


def test_the_settings_are_listed_without_their_values(tmp_path: Path) -> None:
    command = Cli(tmp_path, RECORDARI_LLM_API_KEY="hunter2", RECORDARI_LLM_TIMEOUT="7")
    listed = command.json("settings")
    assert len(listed) == len(Settings.model_fields)
    found = {one["variable"]: (one["default"], one["is_set"]) for one in command.json("settings", "llm_")}
    assert found["RECORDARI_LLM_TIMEOUT"] == ("20.0", True) and found["RECORDARI_LLM_API_KEY"] == ("", True)
    assert found["RECORDARI_LLM_MODEL"] == ("", False) and len(found) < 10
    out, _ = command.run("settings", "llm_")
    assert "Seconds to wait for the language model." in out and "hunter2" not in out


def test_a_wrong_setting_is_named_without_its_value(tmp_path: Path) -> None:
    out, err = Cli(tmp_path, RECORDARI_PORT="hunter2").run("tenant", "list", code=1)
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "RECORDARI_PORT" in err
    assert "hunter2" not in err
    _, err = Cli(tmp_path, RECORDARI_DOCUMENT_FOLDERS="/srv/hunter2").run("tenant", "list", code=1)
    assert "RECORDARI_DOCUMENT_FOLDERS must be JSON" in err
    assert "hunter2" not in err


# -- Tenants and keys


def test_tenants_are_created_listed_shown_and_changed(on_clone: Cli) -> None:
    made = on_clone.json("tenant", "create", "acme", "--language", "swedish")
    assert (made["name"], made["language"]) == ("acme", "swedish")
    _, err = on_clone.run("tenant", "create", "acme", code=1)
    assert "recordari tenant set" in err
    _, err = on_clone.run("tenant", "set", "acme", "--plan", "large", code=1)
    assert "one of free, standard, unlimited" in err
    changed = on_clone.json("tenant", "set", "acme", "--plan", "unlimited", "--setting", "days=30", "--setting", "a=b")
    assert (changed["plan"], changed["settings"]) == ("unlimited", {"days": 30, "a": "b"})
    assert on_clone.json("tenant", "show", "acme") == changed
    assert on_clone.json("tenant", "list") == [changed]


def test_tenants_are_grouped_into_organisations(on_clone: Cli) -> None:
    for name in ("sales", "support"):
        on_clone.run("tenant", "create", name)
        assert on_clone.json("org", "add", "acme", name)["organisation"] == "acme"
    assert [member["tenant"] for member in on_clone.json("org", "list")] == ["sales", "support"]
    _, err = on_clone.run("org", "add", "other", "sales", code=1)
    assert "acme" in err
    on_clone.run("org", "remove", "support", code=2)  # nothing is ended unasked
    on_clone.run("org", "remove", "support", "--yes")
    assert [member["tenant"] for member in on_clone.json("org", "list")] == ["sales"]


def test_a_tenant_that_does_not_exist_is_an_error_and_is_not_made(on_clone: Cli) -> None:
    for command in (["tenant", "show", "nobody"], ["key", "create", "--tenant", "nobody"]):
        _, err = on_clone.run(*command, code=1)
        assert err.startswith("error: there is no ")
    assert on_clone.json("tenant", "list") == []


def test_stored_text_cannot_act_on_the_terminal(on_clone: Cli) -> None:
    on_clone.run("tenant", "create", "acme")
    on_clone.run("tenant", "set", "acme", "--setting", "note=\x1b]0;owned\x07\x9b2J\u202etxt")
    shown, _ = on_clone.run("tenant", "show", "acme")
    assert "owned" in shown
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)


async def test_a_key_opens_the_door_until_it_is_revoked(on_clone: Cli, resources: Resources) -> None:
    text, note = on_clone.run("key", "create", "laptop", "--role", "admin", "--expires", "30d")
    assert text.strip() not in note
    assert (await authenticate_key(resources, text.strip())).role == "admin"
    (listed,) = on_clone.json("key", "list")
    assert listed["name"] == "laptop"
    assert "key_hash" not in listed
    _, refusal = on_clone.run("key", "revoke", listed["key_id"], code=2)
    assert "--yes" in refusal
    assert (await authenticate_key(resources, text.strip())).role == "admin"
    assert on_clone.json("key", "revoke", listed["key_id"], "--yes")["revoked_at"]
    with pytest.raises(Unauthenticated):
        await authenticate_key(resources, text.strip())


# -- The database


def test_the_embedded_database_reports_stops_and_starts(at_home: Cli, home: Path) -> None:
    assert at_home.json("db", "status")["running"] is True
    at_home.run("db", "stop")
    assert at_home.json("db", "status", code=3)["pid"] is None
    at_home.run("db", "start")
    assert server_of(home).status().running


def test_a_backup_brings_the_same_data_to_another_home_and_spares_a_home_in_use(at_home: Cli, home: Path) -> None:
    at_home.run("tenant", "create", "acme")
    at_home.run("key", "create", "first", "--tenant", "acme")
    file = home / "memory.dump"
    assert at_home.json("db", "backup", str(file))["bytes"] == file.stat().st_size
    assert file.stat().st_mode & 0o077 == 0
    _, refusal = at_home.run("db", "backup", str(file), code=2)
    assert "--yes" in refusal
    before = [at_home.json("tenant", "list"), at_home.json("key", "list", "--tenant", "acme")]

    with new_home() as folder:
        other = Cli(folder, RECORDARI_HOME=str(folder))
        server_of(folder).start_detached()
        counts = other.json("db", "restore", str(file))["counts"]
        assert (counts["tenants"], counts["api_keys"]) == (len(before[0]), 1)
        assert [other.json("tenant", "list"), other.json("key", "list", "--tenant", "acme")] == before

    _, err = at_home.run("db", "restore", str(file), code=1)
    assert "holds tenants already" in err
    assert at_home.json("tenant", "list") == before[0]


def test_a_file_that_is_no_backup_is_refused(on_clone: Cli, tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"not a dump")
    _, err = on_clone.run("db", "restore", "holiday.jpg", code=1)
    assert "not a backup" in err


def test_a_backup_that_would_lack_rows_is_refused(server: EmbeddedServer, settings: Settings, tmp_path: Path) -> None:
    role = f"operator_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN IN ROLE recordari_owner, recordari_search")
        try:
            assert settings.database_owner_url is not None
            owner = make_conninfo(settings.database_owner_url.get_secret_value(), user=role)
            command = connected(settings, tmp_path, RECORDARI_DATABASE_OWNER_URL=owner)
            _, err = command.run("db", "backup", "memory.dump", code=1)
        finally:
            connection.execute(f"DROP ROLE {role}")
    assert "row-level security would hide rows" in err
    assert list(tmp_path.iterdir()) == []


def test_the_script_for_an_administrator_names_the_logins_and_no_password(tmp_path: Path) -> None:
    command = Cli(
        tmp_path,
        RECORDARI_DATABASE_URL="postgresql://applogin:hunter2@db.invalid/memory",
        RECORDARI_DATABASE_OWNER_URL="postgresql://boss:hunter3@db.invalid/memory",
    )
    script, _ = command.run("db", "init", "--print-sql")
    assert 'GRANT recordari_app TO "applogin"' in script
    assert 'GRANT recordari_owner, recordari_search TO "boss"' in script
    assert "hunter" not in script


def test_the_script_for_an_administrator_makes_what_is_missing_and_may_run_twice(
    server: EmbeddedServer, settings: Settings, tmp_path: Path
) -> None:
    assert settings.database_owner_url is not None
    login = f"app_{uuid.uuid4().hex[:12]}"
    url = f"postgresql://{login}:hunter2@db.invalid/memory"
    script, _ = Cli(tmp_path, RECORDARI_DATABASE_URL=url).run("db", "init", "--print-sql")
    with psycopg.connect(settings.database_owner_url.get_secret_value(), autocommit=True) as connection:
        for statement in 2 * Migration(name="script", sql=script).statements:  # one by one, as psql does
            connection.execute(statement.encode())
        found = connection.execute(
            "SELECT rolcanlogin, rolbypassrls, pg_has_role(rolname, 'recordari_app', 'usage') "
            "FROM pg_roles WHERE rolname = %s",
            [login],
        ).fetchone()
        connection.execute(f'DROP ROLE "{login}"'.encode())
    assert found == (True, False, True)


def test_migrating_an_up_to_date_database_does_nothing(on_clone: Cli) -> None:
    assert on_clone.json("db", "migrate") == {"applied": []}


# -- Doctor


def test_the_doctor_finds_a_new_home_in_order(at_home: Cli) -> None:
    report = at_home.json("doctor")
    assert report["ok"] is True
    states = {check["name"]: check["state"] for check in report["checks"]}
    for name in (
        "python",
        "time zones",
        "data folder",
        "postgres programs",
        "database",
        "extensions",
        "role",
    ):
        assert states[name] == "ok", report


def test_the_doctor_says_what_to_do_about_a_database_that_is_away(tmp_path: Path) -> None:
    command = Cli(tmp_path, RECORDARI_HOME=str(tmp_path), RECORDARI_DATABASE_URL="postgresql://a@127.0.0.1:1/b")
    report = command.json("doctor", code=1)
    (failed,) = [check for check in report["checks"] if check["state"] == "fail"]
    assert failed["name"] == "database"
    assert failed["advice"]


# -- Serving


def first_lines(process: subprocess.Popen[str]) -> list[str]:
    """Read what the server says until it says where it listens."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "listens on" in line:
            return lines
    raise AssertionError(f"it did not start: {lines} {process.communicate()}")


def stopped(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    return process.returncode


def test_the_server_answers_shows_its_first_key_once_and_leaves_nothing_behind() -> None:
    with new_home() as folder:
        command = Cli(folder, RECORDARI_HOME=str(folder))
        process = command.start("serve", "--port", "0")
        try:
            lines = first_lines(process)
            url = lines[-1].split()[-1]
            (key,) = [line.strip() for line in lines if line.strip().startswith("rcd_")]
            assert httpx2.get(f"{url}/healthz", timeout=60).status_code == 200
            assert httpx2.get(f"{url}/v1/tenant", timeout=60).status_code == 401
            answer = httpx2.get(f"{url}/v1/tenant", headers={"Authorization": f"Bearer {key}"}, timeout=60)
            assert answer.json()["name"] == "default"
            checks = Cli(folder, **command.environment, RECORDARI_PORT=url.rpartition(":")[2]).json("doctor")["checks"]
            assert "served by Recordari" in {check["name"]: check["found"] for check in checks}["port"]
        finally:
            assert stopped(process) == 0
        assert server_of(folder).status().pid is None

        process = command.start("serve", "--port", "0", "--no-worker")
        try:
            assert "rcd_" not in "".join(first_lines(process))
        finally:
            assert stopped(process) == 0
        assert server_of(folder).status().pid is None
        assert not any(key.encode() in path.read_bytes() for path in folder.rglob("*.log"))


def test_a_port_in_use_is_a_clear_error(on_clone: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        _, err = on_clone.run("serve", "--port", port, code=1)
    assert port in err
    assert "--port" in err
    assert on_clone.json("tenant", "list") == []
