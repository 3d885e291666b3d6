"""The hosts: which files they have, how they name their hooks, and what is written for them."""

from __future__ import annotations

import json
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any

from recordari.errors import Conflict, InvalidInput
from recordari.hosts.rules import jsonc

NAME = "recordari"
"""Our name in the files of a host."""
_TOML_BEGIN, _TOML_END = "# begin recordari", "# end recordari"


class HostName(StrEnum):
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"
    GEMINI_CLI = "gemini-cli"
    OPENCODE = "opencode"
    OPENCLAW = "openclaw"
    MCP = "mcp"


class Place(StrEnum):
    """Whose settings are changed: those of one project, or yours for every project."""

    PROJECT = "project"
    USER = "user"


class HookEvent(StrEnum):
    """The moments at which a host calls the hook program, by our names."""

    START = "start"
    PROMPT = "prompt"
    TOOL = "tool"
    STOP = "stop"
    COMPACT = "compact"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRule:
    """All that differs from host to host."""

    title: str
    events: Mapping[str, HookEvent] = field(default_factory=dict)
    """The host's name of each event that it has a hook for."""
    tools: str | None = None
    """The pattern of tools whose results are looked at."""
    answers: str = "hookSpecificOutput"
    """The member of the answer that carries a context."""
    plugin: str | None = None
    """The file of the plugin, for a host whose hooks are programs of its own."""
    has_projects: bool = True
    """Whether a project may have settings of its own."""
    remark: str | None = None
    """What you have to do yourself."""


_CLAUDE_EVENTS = {
    "SessionStart": HookEvent.START,
    "UserPromptSubmit": HookEvent.PROMPT,
    "PostToolUse": HookEvent.TOOL,
    "Stop": HookEvent.STOP,
    "PreCompact": HookEvent.COMPACT,
}
HOSTS: Mapping[HostName, HostRule] = {
    HostName.CLAUDE_CODE: HostRule(
        title="Claude Code",
        events={**_CLAUDE_EVENTS, "SessionEnd": HookEvent.END},
        tools=f"Bash|Edit|MultiEdit|Write|NotebookEdit|WebFetch|WebSearch|mcp__{NAME}__.*",
    ),
    HostName.CODEX: HostRule(
        title="Codex",
        events=_CLAUDE_EVENTS,
        tools=f"Bash|shell|apply_patch|Edit|Write|mcp__{NAME}__.*",
        remark="Codex runs new hooks only after you have trusted them: start it, and open /hooks once",
    ),
    HostName.CURSOR: HostRule(
        title="Cursor",
        events={
            "sessionStart": HookEvent.START,
            "beforeSubmitPrompt": HookEvent.PROMPT,
            "afterFileEdit": HookEvent.TOOL,
            "afterShellExecution": HookEvent.TOOL,
            "afterAgentResponse": HookEvent.STOP,
            "preCompact": HookEvent.COMPACT,
            "sessionEnd": HookEvent.END,
        },
        answers="additional_context",
    ),
    HostName.GEMINI_CLI: HostRule(
        title="Gemini CLI",
        events={
            "SessionStart": HookEvent.START,
            "BeforeAgent": HookEvent.PROMPT,
            "AfterTool": HookEvent.TOOL,
            "AfterAgent": HookEvent.STOP,
            "PreCompress": HookEvent.COMPACT,
            "SessionEnd": HookEvent.END,
        },
        tools=f"run_shell_command|write_file|replace|web_fetch|google_web_search|mcp_+{NAME}_.*",
    ),
    HostName.OPENCODE: HostRule(title="OpenCode", answers="context", plugin="opencode.js"),
    HostName.OPENCLAW: HostRule(
        title="OpenClaw",
        answers="context",
        plugin="openclaw.js",
        has_projects=False,
        remark="if its gateway runs, restart it: openclaw gateway restart",
    ),
    HostName.MCP: HostRule(title="an MCP host"),
}
HOOK_SECONDS = 10  # after which a host gives up on a hook; ours gives up much earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The commands that a host runs."""

    hook: Sequence[str]
    """The hook program with its file of settings; the event follows."""
    mcp: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    plugin: str = ""
    """The text of the plugin, for a host whose hooks are programs of its own."""

    def hook_line(self, event: HookEvent) -> str:
        return shlex.join([*self.hook, event])


Edit = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one file: how ours is added to its text, and how it is removed again."""

    file: PurePath
    add: Edit
    remove: Callable[[str, str], str]
    """Takes the text and what it was before ours was added."""
    empty: str = "{}\n"
    """What is left of a file that had nothing else; it is then deleted."""


def changes(host: HostName, place: Place, *, home: PurePath, project: PurePath, programs: Programs) -> list[Change]:
    """The changes that install Recordari into a host."""
    if place is Place.PROJECT and not HOSTS[host].has_projects:
        raise InvalidInput(f"{HOSTS[host].title} has no settings for a project; leave out --project")
    base = project if place is Place.PROJECT else home
    match host:
        case HostName.CLAUDE_CODE:
            settings = ".claude/settings.local.json" if place is Place.PROJECT else ".claude/settings.json"
            path = ("projects", str(project), "mcpServers") if place is Place.PROJECT else ("mcpServers",)
            return [
                _hooks(host, base / settings, programs),
                _members(home / ".claude.json", {path: {"type": "stdio", **_server(programs)}}),
            ]
        case HostName.CODEX:
            folder = base / ".codex"
            return [_hooks(host, folder / "hooks.json", programs), _toml(folder / "config.toml", programs)]
        case HostName.CURSOR:
            folder = base / ".cursor"
            return [
                _hooks(host, folder / "hooks.json", programs),
                _members(folder / "mcp.json", {("mcpServers",): _server(programs)}),
            ]
        case HostName.GEMINI_CLI:
            file = base / ".gemini" / "settings.json"
            return [_joined(_hooks(host, file, programs), _members(file, {("mcpServers",): _server(programs)}))]
        case HostName.OPENCODE:
            folder, plugins = (base, base / ".opencode") if place is Place.PROJECT else 2 * (base / ".config/opencode",)
            return [
                _members(folder / "opencode.json", {("mcp",): _opencode_server(programs)}),
                _whole(plugins / "plugins" / f"{NAME}.js", programs.plugin),
            ]
        case HostName.OPENCLAW:
            folder = base / ".openclaw"
            return [_openclaw(folder / "openclaw.json"), *_openclaw_plugin(folder / "extensions" / NAME, programs)]
        case HostName.MCP:
            return []


def server_entry(programs: Programs) -> dict[str, Any]:
    """The entry of our MCP server, as most hosts want it."""
    return {"mcpServers": {NAME: _server(programs)}}


def generic_change(file: PurePath, programs: Programs) -> Change:
    """The change of a file of some MCP host."""
    return _members(file, {("mcpServers",): _server(programs)})


def _server(programs: Programs) -> dict[str, Any]:
    command, *arguments = programs.mcp
    entry: dict[str, Any] = {"command": command, "args": arguments}
    return {**entry, "env": dict(programs.environment)} if programs.environment else entry


def _opencode_server(programs: Programs) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "local", "command": list(programs.mcp), "enabled": True}
    return {**entry, "environment": dict(programs.environment)} if programs.environment else entry


def _openclaw(file: PurePath) -> Change:
    """Enable the plugin, allow it where others are listed as allowed, and put it into the slot for memory."""
    allowed, slots = ("plugins", "allow"), ("plugins", "slots")
    entries = _members(file, {("plugins", "entries"): {"enabled": True, "hooks": {"allowConversationAccess": True}}})

    def add(text: str) -> str:
        plugins = jsonc.read(text).get("plugins", {})
        if NAME not in plugins.get("allow", [NAME]):
            text = jsonc.append(text, allowed, NAME)
        return jsonc.set_member(entries.add(text), slots, "memory", NAME)

    def remove(text: str, before: str) -> str:
        known, earlier = jsonc.paths_of(before), jsonc.read(before).get("plugins", {})
        if NAME not in earlier.get("allow", []):
            text = jsonc.remove_items(text, allowed, json.dumps(NAME))
        if jsonc.read(text).get("plugins", {}).get("slots", {}).get("memory") == NAME:
            if (memory := earlier.get("slots", {}).get("memory")) is not None:
                text = jsonc.set_member(text, slots, "memory", memory)
            else:
                text = _pruned(jsonc.remove_member(text, slots, "memory"), slots, known)
        return entries.remove(text, before)

    return Change(file=file, add=add, remove=remove)


def _openclaw_plugin(folder: PurePath, programs: Programs) -> list[Change]:
    package = {"name": NAME, "private": True, "type": "module", "openclaw": {"extensions": ["./index.js"]}}
    manifest = {
        "id": NAME,
        "name": "Recordari",
        "description": "Long-term memory on this machine.",
        "kind": "memory",
        "activation": {"onStartup": True},
        "configSchema": {"type": "object", "additionalProperties": False},
        "mcpServers": {NAME: {"transport": "stdio", **_server(programs)}},
    }
    return [
        _whole(folder / "package.json", json.dumps(package, indent=2) + "\n"),
        _whole(folder / "openclaw.plugin.json", json.dumps(manifest, indent=2) + "\n"),
        _whole(folder / "index.js", programs.plugin),
    ]


def _hooks(host: HostName, file: PurePath, programs: Programs) -> Change:
    rule = HOSTS[host]
    mark = json.dumps(shlex.quote(programs.hook[-1]))[1:-1]  # the file of settings: Python may be another one by then

    def add(text: str) -> str:
        if host is HostName.CURSOR and "version" not in jsonc.read(text):
            text = jsonc.set_member(text, (), "version", 1)
        for name, event in rule.events.items():
            text = jsonc.append(text, ("hooks", name), _hook(host, event, programs))
        return text

    def remove(text: str, before: str) -> str:
        known = jsonc.paths_of(before)
        for name in rule.events:
            text = jsonc.remove_items(text, ("hooks", name), mark)
            text = _pruned(text, ("hooks", name), known)
        if host is HostName.CURSOR and "version" not in jsonc.read(before):
            text = jsonc.remove_member(text, (), "version")
        return text

    return Change(file=file, add=add, remove=remove)


def _hook(host: HostName, event: HookEvent, programs: Programs) -> dict[str, Any]:
    line, rule = programs.hook_line(event), HOSTS[host]
    if host is HostName.CURSOR:
        return {"command": line, "timeout": HOOK_SECONDS}
    entry: dict[str, Any] = {"type": "command", "command": line, "timeout": HOOK_SECONDS}
    if host is HostName.GEMINI_CLI:
        entry = {"name": f"{NAME}-{event}", **entry, "timeout": 1000 * HOOK_SECONDS}
    if event is HookEvent.TOOL and rule.tools is not None:
        return {"matcher": rule.tools, "hooks": [entry]}
    return {"hooks": [entry]}


def _members(file: PurePath, members: Mapping[tuple[str, ...], Any]) -> Change:
    """Set the member of our name in objects of a file."""

    def add(text: str) -> str:
        for path, value in members.items():
            text = jsonc.set_member(text, path, NAME, value)
        return text

    def remove(text: str, before: str) -> str:
        known = jsonc.paths_of(before)
        for path in members:
            text = _pruned(jsonc.remove_member(text, path, NAME), path, known)
        return text

    return Change(file=file, add=add, remove=remove)


def _joined(first: Change, second: Change) -> Change:
    return Change(
        file=first.file,
        add=lambda text: second.add(first.add(text)),
        remove=lambda text, before: first.remove(second.remove(text, before), before),
    )


def _pruned(text: str, path: tuple[str, ...], known: frozenset[tuple[str, ...]]) -> str:
    """Without the objects and lists on the path that are empty now and were not there before."""
    for depth in range(len(path), 0, -1):
        if path[:depth] in known or not jsonc.is_empty(text, path[:depth]):
            break
        text = jsonc.remove_member(text, path[: depth - 1], path[depth - 1])
    return text


def _toml(file: PurePath, programs: Programs) -> Change:
    """A table at the end of the file, between two comments."""
    server = _server(programs)
    lines = [
        f"[mcp_servers.{NAME}]",
        f"command = {json.dumps(server['command'])}",
        f"args = {json.dumps(server['args'])}",
    ]
    if environment := server.get("env"):
        pairs = ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in environment.items())
        lines.append(f"env = {{ {pairs} }}")

    def add(text: str) -> str:
        if NAME in _toml_value(text).get("mcp_servers", {}):
            raise Conflict(f"there is an MCP server {NAME!r} that this command did not write; remove it first")
        gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        changed = text + gap + "\n".join([_TOML_BEGIN, *lines, _TOML_END, ""])
        _toml_value(changed)
        return changed

    def remove(text: str, before: str) -> str:
        start, end = text.find(_TOML_BEGIN), text.find(_TOML_END)
        if not 0 <= start < end:
            return text
        head, tail = text[:start], text[end + len(_TOML_END) :].removeprefix("\n")
        return before + tail if head.rstrip("\n") == before.rstrip("\n") else head + tail

    return Change(file=file, add=add, remove=remove, empty="")


def _toml_value(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"it is not TOML: {error}") from None


def _whole(file: PurePath, text: str) -> Change:
    """A file that is all ours."""
    return Change(file=file, add=lambda _: text, remove=lambda *_: "", empty="")
