"""Odd texts in every text argument of every MCP tool, and of the commands that take text: never an error of ours."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from tests.doors.rest_door import open_door
from tests.doors.test_cli import Cli, connected
from tests.doors.test_mcp import connected as mcp_connected
from tests.doors.test_rest_weird import SLOWEST, WEIRD, collection

from recordari.config import Settings
from recordari.doors.mcp.profiles import PROFILES
from recordari.kit.resources import Resources

LONGEST_ARGUMENT = 100_000  # of a command; the operating system takes no longer ones
ACTING = ("--user", "ana", "--agent", "helper", "--session", "chat-1")


def text_arguments(schema: dict[str, Any]) -> Iterator[str]:
    """The names of the arguments that take free text."""
    for name, field in schema["properties"].items():
        options = field.get("anyOf", [field])
        if any(one.get("type") in {"string", "object"} and "enum" not in one for one in options):
            yield name


def required(schema: dict[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(schema.get("required", ()), "x")


async def feed(resources: Resources, texts: list[str]) -> tuple[list[str], float]:
    """Hand every text to every tool; which failed for a reason of ours, and the longest that one took."""
    wrong, slowest = [], 0.0
    async with open_door(resources, rate_limit="") as door:
        for profile in PROFILES.values():
            path = "/mcp" if profile.name == "default" else f"/mcp/{profile.name}"
            async with mcp_connected(door, key="admin", path=path) as client:
                for tool in profile.tools:
                    schema = tool.takes.model_json_schema()
                    for name in text_arguments(schema):
                        for number, text in enumerate(texts):
                            start = time.perf_counter()
                            try:
                                result = await client.call_tool(tool.name, {**required(schema), name: text})
                            except (MCPError, UnicodeEncodeError):
                                # Refused before any tool: no JSON text may have these.
                                if not re.search("[\0\ud800-\udfff]", text):
                                    wrong.append(f"{tool.name}.{name}, text {number}: no answer")
                                continue
                            slowest = max(slowest, time.perf_counter() - start)
                            said = result.content[0].text  # type: ignore[union-attr]
                            if result.is_error and said.startswith(("internal", "configuration:", "timed_out")):
                                wrong.append(f"{tool.name}.{name}, text {number}: {said[:200]}")
    return wrong, slowest


async def test_no_text_breaks_a_tool(resources: Resources) -> None:
    wrong, _ = await feed(resources, WEIRD)
    assert not wrong


async def test_no_text_of_the_collection_breaks_a_tool_or_takes_long(resources: Resources) -> None:
    texts = collection()
    wrong, slowest = await feed(resources, texts)
    assert not wrong
    assert slowest < SLOWEST


def commands(text: str) -> Iterator[tuple[str, ...]]:
    """The commands that take text of a person, each with it in one place."""
    yield "remember", "--kind", "chat_message", *ACTING, "--speaker", text, "--", text
    yield "recall", *ACTING, "--", text
    yield "context", *ACTING, "--", text
    yield "facts", "list", "--kind", "chat_message", "--category", text


def fed(command: Cli, texts: list[str]) -> list[str]:
    wrong = []
    for number, text in enumerate(texts):
        if "\0" in text or len(text.encode("utf-8", "surrogatepass")) > LONGEST_ARGUMENT:
            continue  # no shell hands such an argument over
        for arguments in commands(text.encode("utf-8", "replace").decode()):
            code, out, err = command.anyhow(*arguments)
            if code not in {0, 1, 2} or "Traceback" in err or "internal" in err:
                wrong.append(f"{arguments[0]}, text {number}: {code} {err[-300:]}")
            if any((ord(sign) < 32 and sign not in "\n\t") or sign in "\u202e\u2066\x7f" for sign in out):
                wrong.append(f"{arguments[0]}, text {number}: control characters are printed")
    return wrong


def test_no_text_breaks_a_command(settings: Settings, tmp_path: Path) -> None:
    assert not fed(connected(settings, tmp_path, RECORDARI_EMBEDDING_PROFILE="fast"), WEIRD[1:3])


@pytest.mark.timeout(1800)
def test_no_text_of_the_collection_breaks_a_command(settings: Settings, tmp_path: Path) -> None:
    assert not fed(connected(settings, tmp_path, RECORDARI_EMBEDDING_PROFILE="fast"), collection())
