"""The real programs, against an imitation of their models: `make test-hosts` installs and runs them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests import folders
from tests.hosts.models import Asked, Model, imitation
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT
from tests.ports import free_port

from recordari.hosts.rules import jsonc
from recordari.hosts.rules.hosts import HOOK_SECONDS

PROGRAMS = os.environ.get("RECORDARI_TEST_HOSTS", "")
pytestmark = pytest.mark.skipif(not PROGRAMS, reason="run it with `make test-hosts`")

GREETING = "Good morning!"
FACT = "Remember that the staging database of this project listens on port 6433."
QUESTION = "Which port does the staging database listen on?"
HARM = "Does anything harm you in the middle of a session?"
LAST = "Is all that was said still there?"
ANSWERS = {  # by the last prompt: a later session is shown the earlier ones
    LAST: "All of it is still there, noted.",
    HARM: "Nothing here harms me, noted.",
    QUESTION: f"As you said, {FACT.removeprefix('Remember that ')} The port is noted.",
    FACT: "All right, the port is noted.",
    GREETING: "Good morning, noted.",
}


class Machine:
    """A person's machine: a home, a project, Recordari, and a model that is not in any cloud."""

    def __init__(self, folder: Path, model: Model) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "atlas"
        self.model = model
        self.port = free_port()
        self.harmed = self.killed = False
        self.environment = {
            "PATH": f"{PROGRAMS}/node_modules/.bin:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": tempfile.gettempdir(),
            "LANG": "C.UTF-8",
            **PATIENT_ENVIRONMENT,
            "RECORDARI_HOME": str(folder / "recordari"),
            "RECORDARI_PORT": str(self.port),
            "RECORDARI_EMBEDDING_PROVIDER": "none",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
        for made in (self.home, self.project / ".git"):
            made.mkdir(parents=True)

    def recordari(self, *arguments: str) -> Any:
        result = self.run(sys.executable, "-m", "recordari", *arguments, "--json")
        return json.loads(result)

    def run(self, *command: str, **environment: str) -> str:
        """Run a program in the project; it must end well."""
        result = subprocess.run(
            command,
            cwd=self.project,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
        )
        assert result.returncode == 0, f"{command[0]} ended with {result.returncode}: {result.stdout}\n{result.stderr}"
        return result.stdout

    def files(self) -> dict[Path, bytes]:
        """All files that a host has: of the person, and of the project."""
        found = (file for folder in (self.home, self.project) for file in folder.rglob("*"))
        return {file: file.read_bytes() for file in found if file.is_file() and not file.is_symlink()}

    def write(self, name: str, text: str) -> None:
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def until_served(self) -> None:
        """Wait until the server that a hook started answers."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if httpx2.get(f"http://127.0.0.1:{self.port}/readyz").status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(0.2)
        log = self.folder / "recordari" / "hosts" / "server.log"
        raise AssertionError(f"no server: {log.read_text() if log.exists() else 'no hook has started one'}")

    def log(self) -> str:
        return (self.folder / "recordari" / "hosts" / "hook.log").read_text()

    def is_served(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def said(self) -> list[str]:
        """All messages that were kept."""
        file = self.folder / "export.jsonl"
        self.recordari("export", str(file), "--yes")
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()[1:]]
        rows = [line["row"] for line in lines if line["type"] == "item"]
        texts = [row["content"] for row in rows if row["kind"] == "chat_message"]
        return [text.strip('"') for text in texts]  # OpenCode puts a prompt of its command line in quotes

    def kill_server(self) -> None:
        pid = int((self.folder / "recordari" / "hosts" / "server.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while self.is_served():
            assert time.monotonic() < deadline, "the server does not die"
            time.sleep(0.1)
        self.killed = True


@pytest.fixture
def machine() -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(prefix="hosts-", dir=folders.place()))  # not our name: it is looked for
    folder.chmod(0o755)
    with imitation() as model:
        made = Machine(folder, model)
        model.answer = partial(answer, made)
        yield made
        for host in made.recordari("status")["hosts"]:
            made.recordari("uninstall", host["host"])
        made.recordari("db", "stop") if (folder / "recordari").exists() else None
    shutil.rmtree(folder, ignore_errors=True)


def answer(machine: Machine, asked: Asked) -> str:
    """What the model says: it repeats what memory showed it, and our server dies while it thinks."""
    if HARM in asked.text and not machine.harmed:
        machine.harmed = True
        machine.kill_server()
    return next((said for prompt, said in ANSWERS.items() if prompt in asked.text), "Noted.")


def check_host(machine: Machine, host: str, ask: Callable[[str], str], files: dict[str, str]) -> None:
    """What is said in one session is in the next; a server that dies harms nothing; the settings come back."""
    for name, text in files.items():
        machine.write(name, text)
    ask(GREETING)  # the first time, a host writes settings of its own
    before = machine.files()
    machine.recordari("install", host)
    assert machine.files() != before
    machine.recordari("uninstall", host)
    assert machine.files() == before, "all files of the host come back to the byte, and no other file is left"
    machine.recordari("install", host)
    settings = machine.folder / "recordari" / "hosts" / f"{host}.json"
    patient = {**json.loads(settings.read_text()), "seconds": HOOK_SECONDS - 1}
    settings.write_text(json.dumps(patient))  # a starved machine is no failure
    ask(FACT)  # its hooks start the server
    machine.until_served()
    assert "noted" in ask(QUESTION)
    asked = machine.model.last(QUESTION)
    assert "6433" in asked.text, f"the next session knows it: {machine.log()}"
    status = machine.recordari("status")
    assert status["waiting"] == 0 and status["hosts"][0]["calls"] >= 4, status
    assert "noted" in ask(HARM), "the host goes on when our server dies in the middle"
    assert machine.killed
    machine.until_served()  # the hook after it has started another one
    assert "noted" in ask(LAST)
    assert machine.recordari("status")["waiting"] == 0
    said = machine.said()
    for prompt in (FACT, QUESTION, HARM, LAST):
        assert said.count(prompt) == 1, f"{prompt!r} is kept once: {said}"
    assert [text for text in said if "6433" in text] == [FACT], "memory's own words are not kept as new ones"
    assert {ANSWERS[FACT], ANSWERS[HARM], ANSWERS[LAST]} <= {*said} and any("As you said, …" in text for text in said)
    settings_came_back(machine, host, before)
    print(json.dumps(status["hosts"], indent=1))


def settings_came_back(machine: Machine, host: str, before: dict[Path, bytes]) -> None:
    """Uninstalling gives a file back to the byte; where the host has written to it meanwhile, only ours goes."""
    (installed,) = machine.recordari("status")["hosts"]
    written = {Path(name): Path(name).read_bytes() for name in installed["files"] if Path(name).exists()}
    machine.recordari("uninstall", host)
    after = machine.files()
    for file in map(Path, installed["files"]):
        if str(file) not in installed["changed_since"]:
            assert after.get(file) == before.get(file), f"{file} is as it was, to the byte"
            continue
        assert b"recordari" not in after[file], f"nothing of ours is left in {file}"
        now, during = parsed(file, after[file]), parsed(file, written[file])
        theirs = {name: value for name, value in during.items() if "recordari" not in json.dumps(value)}
        assert theirs.items() <= now.items(), f"what {host} wrote to {file} itself stays"
        assert file not in before or parsed(file, before[file]).keys() <= now.keys()


def parsed(file: Path, content: bytes) -> dict[str, Any]:
    read: dict[str, Any] = tomllib.loads(content.decode()) if file.suffix == ".toml" else jsonc.read(content.decode())
    return read


def test_claude_code(machine: Machine) -> None:
    environment = {
        "ANTHROPIC_BASE_URL": machine.model.url,
        "ANTHROPIC_API_KEY": "sk-ant-local",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }

    def ask(prompt: str) -> str:
        return machine.run("claude", "-p", prompt, **environment)

    files = {".claude/settings.json": '{\n  "model": "sonnet", "env": {}\n}\n', ".claude.json": '{"numStartups": 2}'}
    check_host(machine, "claude-code", ask, files)


def test_codex(machine: Machine) -> None:
    provider = (
        '# mine\nmodel = "gpt-5"\nmodel_provider = "local"\n\n[model_providers.local]\nname = "local"\n'
        f'base_url = "{machine.model.url}/v1"\nwire_api = "responses"\nenv_key = "LOCAL_KEY"\n'
    )

    def ask(prompt: str) -> str:
        return machine.run("codex", "exec", "--dangerously-bypass-hook-trust", prompt, LOCAL_KEY="x")

    machine.run("git", "init", "-q", ".")
    check_host(machine, "codex", ask, {".codex/config.toml": provider})


def test_gemini_cli(machine: Machine) -> None:
    environment = {
        "GEMINI_API_KEY": "local",
        "GOOGLE_GEMINI_BASE_URL": machine.model.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    own = (
        "{\n  // mine\n"
        + json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {}})[1:]
        + "\n"
    )

    def ask(prompt: str) -> str:
        return machine.run("gemini", "-p", prompt, **environment)

    check_host(machine, "gemini-cli", ask, {".gemini/settings.json": own})


def test_opencode(machine: Machine) -> None:
    options = {"baseURL": f"{machine.model.url}/v1", "apiKey": "local"}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "local",
        "options": options,
        "models": {"small": {"name": "small"}},
    }
    own = json.dumps(
        {"provider": {"local": provider}, "model": "local/small", "autoupdate": False, "share": "disabled"}
    )

    def ask(prompt: str) -> str:
        return machine.run("opencode", "run", "--model", "local/small", prompt)

    check_host(machine, "opencode", ask, {".config/opencode/opencode.json": own})


def test_openclaw(machine: Machine) -> None:
    model = {"id": "small", "name": "small", "contextWindow": 32_000, "maxTokens": 1_000}
    provider = {"baseUrl": f"{machine.model.url}/v1", "apiKey": "x", "api": "openai-completions", "models": [model]}
    agents = {"defaults": {"model": {"primary": "local/small"}}}
    own = "// mine\n" + json.dumps({"models": {"providers": {"local": provider}}, "agents": agents}, indent=2) + "\n"
    sessions = iter(["zero", "one", "two", "three", "four"])

    def ask(prompt: str) -> str:
        return machine.run("openclaw", "agent", "--local", "--session-id", next(sessions), "--message", prompt)

    check_host(machine, "openclaw", ask, {".openclaw/openclaw.json": own})
