"""Writes the reference pages under docs/reference/ from the code, so that they cannot fall behind; `make docs` runs it."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from recordari import errors
from recordari.app import Memory
from recordari.config import Settings, list_settings
from recordari.doors.cli.main import COMMANDS, build
from recordari.doors.mcp.profiles import PROFILES
from recordari.doors.mcp.tools import MemoryTool
from recordari.doors.rest.app import create_app

PAGES = Path(__file__).parents[1] / "docs" / "reference"
Schema = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table, or nothing when it would have no rows."""
    lines = [_row(cells) for cells in rows]
    return [_row(head), _row(["---"] * len(head)), *lines, ""] if lines else []


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _type(schema: Schema, defined: Schema) -> str:
    """The type of a JSON schema in a few words; `defined` are the schemas that it may refer to."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return _type(defined[name], defined) if "enum" in defined.get(name, {}) else name
    if several := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(_type(one, defined) for one in several))
    if "enum" in schema:
        return " · ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}), defined)}"
    return str(schema.get("format") or schema.get("type") or "any")


def _fields(schema: Schema, defined: Schema) -> list[str]:
    required = set(schema.get("required", ()))
    rows = [
        (
            f"`{name}`" + (" *" if name in required else ""),
            _type(field, defined),
            f"`{field['default']}`" if field.get("default") not in (None, {}, []) else "",
            field.get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    return table(["field", "type", "default", ""], rows)


def rest() -> list[str]:
    """Every route, by noun, with its parameters and bodies."""
    document = create_app(Settings()).openapi()
    schemas = document["components"]["schemas"]
    lines = [
        "# REST",
        "",
        "The OpenAPI document is at `/openapi.json`. A `*` marks required fields.",
        "",
        "Every route but those of health needs `Authorization: Bearer <key>`. Routes of an agent also take the headers",
        "`Recordari-User`, `Recordari-Agent`, `Recordari-Session` and `Recordari-Run`, which narrow the identity of the key.",
        "",
    ]
    for tag in document["tags"]:
        lines += [f"## {tag['name']}", "", tag["description"], ""]
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation.get("tags", ()):
                    lines += _operation(method.upper(), path, operation, schemas)
    return lines


def _operation(method: str, path: str, operation: Schema, schemas: Schema) -> list[str]:
    lines = [f"### `{method} {path}`", "", operation.get("description", operation["summary"]).split("\n\n")[0], ""]
    lines += table(
        ["parameter", "in", "type", ""],
        [
            (
                f"`{one['name']}`" + (" *" if one.get("required") else ""),
                one["in"],
                _type(one["schema"], schemas),
                one.get("description", ""),
            )
            for one in operation.get("parameters", ())
            if not one["name"].startswith("Recordari-")
        ],
    )
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        name = _type(content.get("schema", {}), schemas)
        lines += [f"Body: `{kind}`" + (f", {name}" if name in schemas else ""), ""]
        lines += _fields(schemas.get(name, {}), schemas)
    good = {status: answer for status, answer in operation["responses"].items() if status.startswith("2")}
    contents = [one for answer in good.values() for one in answer.get("content", {}).values()]
    given = [_type(one.get("schema", {}), schemas) for one in contents]
    lines += [f"Answers {' or '.join(good)}" + (f": {', '.join(dict.fromkeys(given))}" if given else ""), ""]
    for name in dict.fromkeys(given):
        lines += _fields(schemas.get(name, {}), schemas)
    return lines


def mcp() -> list[str]:
    """Every tool of every profile."""
    lines = [
        "# MCP tools",
        "",
        "The identity is never an argument: it comes from the credential. A `*` marks required arguments.",
        "",
    ]
    shown: set[MemoryTool] = set()
    for profile in PROFILES.values():
        address = "/mcp" if profile.name == "default" else f"/mcp/{profile.name}"
        lines += [f"## Profile `{profile.name}`: `{address}`, `recordari mcp --profile {profile.name}`", ""]
        lines += ["Tools: " + ", ".join(f"`{tool.name}`" for tool in profile.tools), ""]
        for tool in profile.tools:
            if tool not in shown:
                shown.add(tool)
                lines += [f"### `{tool.name}`", "", tool.description, ""]
                schema = tool.takes.model_json_schema()
                lines += _fields(schema, schema.get("$defs", {}))
    return lines


def cli() -> list[str]:
    """Every command with its arguments and options."""
    lines = ["# Command line", "", "Every command takes `--help`; those that print data take `--json`.", ""]
    for name in COMMANDS:
        root = typer.main.get_command(build(name))
        assert isinstance(root, TyperGroup)
        lines += _command(f"recordari {name}", root.commands[name])
    return lines


def _command(path: str, command: Any) -> list[str]:
    if isinstance(command, TyperGroup):
        lines = [f"## `{path}`", "", (command.help or "").strip(), ""]
        for name, inner in command.commands.items():
            lines += _command(f"{path} {name}", inner)
        return lines
    depth = "##" if path.count(" ") == 1 else "###"
    lines = [f"{depth} `{path}`", "", inspect.cleandoc(command.help or ""), ""]
    rows = []
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            rows.append(
                (f"`{parameter.name}`" + (" *" if parameter.required else ""), getattr(parameter, "help", "") or "")
            )
        elif isinstance(parameter, TyperOption) and not parameter.hidden:
            rows.append((", ".join(f"`{one}`" for one in parameter.opts), parameter.help or ""))
    return lines + table(["argument or option", ""], rows)


def settings() -> list[str]:
    """Every setting by topic, with its default and its meaning."""
    lines = [
        "# Settings",
        "",
        "Set them in the environment or in a `.env` file in the working folder. Lists and objects are written as JSON.",
        "",
    ]
    described = {one.variable: one for one in list_settings(Settings())}
    for topic, names in setting_topics().items():
        found = [described[f"RECORDARI_{name.upper()}"] for name in names]
        rows = [(f"`{one.variable}`", f"`{one.default}`" if one.default else "", one.meaning) for one in found]
        lines += [f"## {topic}", "", *table(["variable", "default", "meaning"], rows)]
    return lines


def setting_topics() -> dict[str, list[str]]:
    """The names of the settings by the comment above their group, in the order of the source."""
    topics: dict[str, list[str]] = {}
    for line in inspect.getsource(Settings).splitlines():
        if heading := re.fullmatch(r" {4}# (.+)", line):
            names = topics.setdefault(heading[1], [])
        elif (field := re.match(r" {4}(\w+): ", line)) and field[1] in Settings.model_fields:
            names.append(field[1])
    return topics


def error_page() -> list[str]:
    """Every error with its code, its status and its usual message."""
    kinds = [getattr(errors, name) for name in errors.__all__]
    rows = [
        (f"`{kind.__name__}`", f"`{kind.code}`", str(kind.status), (kind.__doc__ or "").strip())
        for kind in sorted(kinds, key=lambda kind: (kind.status, kind.code))
    ]
    head = [
        "# Errors",
        "",
        "The library raises these; REST answers them as `application/problem+json` with `code` and the status;",
        "MCP and the command line say `code: message`.",
        "",
    ]
    return head + table(["exception", "code", "status", "usual message"], rows)


def python() -> list[str]:
    """Every verb of `Memory`."""
    lines = [
        "# Python",
        "",
        "`recordari.Memory` is asynchronous; `recordari.sync.Memory` has the same verbs without `await`.",
        "",
    ]
    for name, method in inspect.getmembers(Memory, inspect.isfunction):
        if not name.startswith("_"):
            signature = str(inspect.signature(method)).replace("(self, ", "(").replace("(self)", "()").replace("'", "")
            lines += [f"### `{name}`", "", "```text", f"{name}{signature}", "```", "", inspect.getdoc(method) or "", ""]
    return lines


WRITERS: Mapping[str, Callable[[], list[str]]] = {
    "rest.md": rest,
    "mcp.md": mcp,
    "cli.md": cli,
    "settings.md": settings,
    "errors.md": error_page,
    "python.md": python,
}


def pages() -> dict[str, str]:
    """The text of every page by its file name."""
    return {name: "\n".join(write()).rstrip() + "\n" for name, write in WRITERS.items()}


def main() -> None:
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text)
        sys.stdout.write(f"docs/reference/{name}: {text.count(chr(10))} lines\n")


if __name__ == "__main__":
    main()
