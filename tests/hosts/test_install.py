"""Recordari in the settings of hosts: merged, and removed again as if it had never been there."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.hosts.serving import Workbench, workbench

from recordari.errors import ConfigurationError, Conflict, InvalidInput, NotFound
from recordari.hosts import install
from recordari.hosts.rules import jsonc
from recordari.hosts.rules.hosts import HOSTS, HostName, Place
from recordari.kit.resources import Resources
from recordari.tenants import tenants

OWN = {
    ".claude/settings.json": '{\n  "model": "opus",\n  "hooks": {"Stop": [{"hooks": [{"command": "true"}]}]}\n}\n',
    ".claude.json": '{"numStartups": 3, "mcpServers": {"other": {"command": "x"}}}',
    ".codex/config.toml": '# mine\nmodel = "o5"  # the best\n\n[mcp_servers.other]\ncommand = "x"',
    ".cursor/mcp.json": '{"mcpServers": {}}\n',
    ".gemini/settings.json": '// mine\n{\n\t"theme": "GitHub", // light\n}\n',
    ".config/opencode/opencode.jsonc": '{\n  "$schema": "https://opencode.ai/config.json", // schema\n}\n',
    ".openclaw/openclaw.json": "{\n  agents: {}, // mine\n  plugins: { allow: ['other'], slots: { memory: 'old' } }\n}\n",
}
PROGRAMS = [host for host in HostName if host is not HostName.MCP]


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def folders_in(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_dir()}


def read(file: Path) -> object:
    return tomllib.loads(file.read_text()) if file.suffix == ".toml" else jsonc.read(file.read_text())


def hooks_of(bench: Workbench) -> str:
    return "\n".join(file.read_text() for file in [*bench.home.rglob("*"), *bench.project.rglob("*")] if file.is_file())


@pytest.fixture
async def bench(resources: Resources, tmp_path: Path) -> Workbench:
    return await workbench(resources, tmp_path)


async def test_every_host_gets_its_settings_back_to_the_byte(bench: Workbench) -> None:
    for name, text in OWN.items():
        (bench.home / name).parent.mkdir(parents=True, exist_ok=True)
        (bench.home / name).write_text(text)
    before = files_in(bench.home), files_in(bench.project)
    folders = folders_in(bench.home) | folders_in(bench.project)
    for host in PROGRAMS:
        for place in Place if HOSTS[host].has_projects else [Place.USER]:
            made = await bench.install(host=host, place=place)
            written = files_in(bench.home), files_in(bench.project)
            assert written != before
            for name, text in OWN.items():
                kept, now = jsonc.read(text) if "toml" not in name else tomllib.loads(text), read(bench.home / name)
                assert isinstance(now, dict) and kept.keys() <= now.keys(), "nothing of the host's own is lost"
            assert f"{host}" in hooks_of(bench) and (not HOSTS[host].events or "-I -S" in hooks_of(bench))
            again = await bench.install(host=host, place=place)
            assert (files_in(bench.home), files_in(bench.project)) == written, "a second time changes nothing"
            assert [file.before for file in again.files] == [file.before for file in made.files]
            await bench.uninstall(again)
            assert (files_in(bench.home), files_in(bench.project)) == before
            assert folders_in(bench.home) | folders_in(bench.project) == folders
    keys = await tenants.list_keys(*bench.caller)
    assert all(key.revoked_at is not None for key in keys), "no key outlives its host"


async def test_what_the_host_wrote_meanwhile_stays(bench: Workbench) -> None:
    claude = bench.home / ".claude.json"
    claude.write_text('{"numStartups": 3}')
    made = await bench.install(host=HostName.CLAUDE_CODE)
    claude.write_text(json.dumps({**json.loads(claude.read_text()), "numStartups": 4}))
    settings = bench.home / ".claude/settings.json"
    own = {"type": "command", "command": "true"}
    changed = jsonc.append(settings.read_text(), ("hooks", "Stop"), {"hooks": [own]})
    settings.write_text(jsonc.set_member(changed, (), "model", "opus"))
    assert install.status(bench.resources.settings).hosts[0].changed_since
    await bench.uninstall(made)
    assert json.loads(claude.read_text()) == {"numStartups": 4}
    assert json.loads(settings.read_text()) == {"hooks": {"Stop": [{"hooks": [own]}]}, "model": "opus"}


async def test_a_file_that_was_empty_or_linked_is_so_again(bench: Workbench) -> None:
    settings, linked = bench.home / ".claude/settings.json", bench.home / ".claude.json"
    settings.parent.mkdir()
    settings.write_text("\n")
    (bench.home / "dotfiles").mkdir()
    linked.symlink_to("dotfiles/claude.json")  # to a file that does not exist yet
    made = await bench.install(host=HostName.CLAUDE_CODE)
    assert linked.is_symlink() and "recordari" in (bench.home / "dotfiles/claude.json").read_text()
    settings.write_text(jsonc.set_member(settings.read_text(), (), "model", "opus"))
    again = await bench.install(host=HostName.CLAUDE_CODE)
    await bench.uninstall(again)
    assert json.loads(settings.read_text()) == {"model": "opus"}
    assert linked.is_symlink() and not linked.exists()
    settings.write_text("\n")
    made = await bench.install(host=HostName.CLAUDE_CODE)
    settings.write_text(settings.read_text().replace("  ", "    "))  # as an editor does that formats
    await bench.uninstall(made)
    assert settings.read_text() == "\n"


async def test_hooks_are_removed_though_python_is_another_one_by_then(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await bench.install(host=HostName.CODEX)
    file = bench.home / ".codex/hooks.json"
    file.write_text(jsonc.set_member(file.read_text(), (), "note", "mine"))
    monkeypatch.setattr("sys.executable", "/opt/newer/bin/python")
    await bench.uninstall(made)
    assert json.loads(file.read_text()) == {"note": "mine"}


async def test_a_file_that_cannot_be_written_leaves_all_others_as_they_were(bench: Workbench) -> None:
    (bench.home / ".claude.json").symlink_to("missing/folder/claude.json")
    with pytest.raises(InvalidInput, match=r"cannot write .*claude\.json: No such file.*nothing was changed"):
        await bench.install(host=HostName.CLAUDE_CODE)
    assert not (bench.home / ".claude").exists() and not install.installations(bench.resources.settings)
    assert all(key.revoked_at is not None for key in await tenants.list_keys(*bench.caller))
    (bench.home / ".claude.json").unlink()
    (bench.home / ".claude.json").mkdir()
    with pytest.raises(InvalidInput, match=r"cannot read .*claude\.json: Is a directory"):
        await bench.install(host=HostName.CLAUDE_CODE)
    assert not (bench.home / ".claude").exists()
    await bench.install(host=HostName.CODEX)
    with pytest.raises(Conflict, match="uninstall it first"):
        await bench.install(host=HostName.CODEX, tenant="other")


async def test_without_the_package_for_mcp_nothing_is_installed(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'recordari\[mcp\]'"):
        await bench.install(host=HostName.GEMINI_CLI)
    assert not files_in(bench.home) and not await tenants.list_keys(*bench.caller)


async def test_a_slot_that_was_another_plugins_is_given_back(bench: Workbench) -> None:
    file = bench.home / ".openclaw/openclaw.json"
    file.parent.mkdir()
    file.write_text('{"plugins": {"allow": ["old"], "slots": {"memory": "old"}}}')
    made = await bench.install(host=HostName.OPENCLAW)
    plugins = json.loads(file.read_text())["plugins"]
    assert plugins["slots"] == {"memory": "recordari"} and plugins["allow"] == ["old", "recordari"]
    file.write_text(jsonc.set_member(file.read_text(), ("gateway",), "port", 1))
    await bench.uninstall(made)
    assert json.loads(file.read_text()) == {
        "plugins": {"allow": ["old"], "slots": {"memory": "old"}},
        "gateway": {"port": 1},
    }
    assert not (bench.home / ".openclaw/extensions").exists()
    with pytest.raises(InvalidInput, match="no settings for a project"):
        await bench.install(host=HostName.OPENCLAW, place=Place.PROJECT)


async def test_settings_that_cannot_be_read_stop_everything_before_anything_is_written(bench: Workbench) -> None:
    broken = bench.home / ".codex/config.toml"
    broken.parent.mkdir()
    broken.write_text("model = ")
    with pytest.raises(
        InvalidInput, match=r"config\.toml was not changed, and neither was anything else: it is not TOML"
    ):
        await bench.install(host=HostName.CODEX)
    assert files_in(bench.home) == {".codex/config.toml": b"model = "}
    assert not await tenants.list_keys(*bench.caller) and not install.installations(bench.resources.settings)
    with pytest.raises(NotFound, match="not installed in Codex"):
        install.find_installation(bench.resources.settings, HostName.CODEX, Place.USER, bench.project, None)


async def test_any_mcp_host_has_its_file_merged(bench: Workbench) -> None:
    file = bench.home / "claude_desktop_config.json"
    file.write_text('{"mcpServers": {"other": {"command": "x"}}}')
    made = await bench.install(host=HostName.MCP, file=file)
    servers = json.loads(file.read_text())["mcpServers"]
    assert servers.keys() == {"other", "recordari"}
    assert servers["recordari"]["args"][-4:] == ["--user", "ana", "--agent", "mcp"]
    assert "rcd_" not in file.read_text(), "no key in a file of the host"
    await bench.uninstall(made)
    assert file.read_text() == '{"mcpServers": {"other": {"command": "x"}}}'


async def test_the_mcp_server_of_a_host_takes_nothing_from_the_project_that_it_is_started_in(bench: Workbench) -> None:
    settings = bench.resources.settings
    made = await bench.install(host=HostName.CURSOR)
    entry = json.loads((bench.home / ".cursor/mcp.json").read_text())["mcpServers"]["recordari"]
    assert "env" not in entry and settings.database_url is not None
    address = settings.database_url.get_secret_value()
    assert address not in "".join(file.read_text() for file in bench.home.rglob("*") if file.is_file())
    (private,) = install.folder_of(settings).glob("cursor.json")
    assert private.stat().st_mode & 0o077 == 0

    (bench.project / ".env").write_text("RECORDARI_DATABASE_URL=postgresql://nobody@127.0.0.1:9/stolen\n")
    (bench.project / "json.py").write_text("raise SystemExit('this is the project, not Python')\n")
    server = StdioServerParameters(
        command=entry["command"], args=[*entry["args"], "--tenant", "test"], env={}, cwd=bench.project
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        answer = await session.call_tool("remember_fact", {"content": "The quay of Horta is painted white."})
        assert not answer.is_error, answer
    found = await bench.memory.recall("What colour is the quay of Horta?")
    assert "painted white" in found.items[0].content
    await bench.uninstall(made)
