"""Claude's memory tool over Recordari: the same words as the SDK's own implementation, and nothing outside `/memories`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anthropic.lib.tools")

from anthropic import Anthropic
from anthropic.lib.tools import ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaAsyncLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.json_server import Reply, Request, json_server

from recordari.integrations.anthropic import AsyncRecordariMemoryTool, RecordariMemoryTool, path_of
from recordari.integrations.base import Verbs
from recordari.sync import Facade

NOTES = "/memories/notes.txt"
SCRIPT: list[dict[str, Any]] = [
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": NOTES},
    {"command": "create", "path": NOTES, "file_text": "one\ntwo\nthree\ntwo\n"},
    {"command": "create", "path": NOTES, "file_text": "again"},
    {"command": "create", "path": "/memories/work/plans/q3.md", "file_text": "# Plan\n" + "x" * 1600},
    {"command": "create", "path": "/memories/work/.hidden", "file_text": "secret"},
    {"command": "create", "path": "/memories/empty.txt", "file_text": ""},
    {"command": "create", "path": "/memories/ünïcode name.txt", "file_text": "größe"},
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/work"},
    {"command": "view", "path": NOTES},
    {"command": "view", "path": NOTES, "view_range": [2, 3]},
    {"command": "view", "path": NOTES, "view_range": [3, -1]},
    {"command": "view", "path": "/memories/empty.txt"},
    {"command": "str_replace", "path": NOTES, "old_str": "three", "new_str": "3\n3b"},
    {"command": "str_replace", "path": NOTES, "old_str": "two", "new_str": "2"},
    {"command": "str_replace", "path": NOTES, "old_str": "absent", "new_str": "2"},
    {"command": "str_replace", "path": "/memories/none.txt", "old_str": "a", "new_str": "b"},
    {"command": "str_replace", "path": "/memories/work", "old_str": "a", "new_str": "b"},
    {"command": "insert", "path": NOTES, "insert_line": 0, "insert_text": "zero\n"},
    {"command": "insert", "path": NOTES, "insert_line": 2, "insert_text": "one and a half"},
    {"command": "insert", "path": NOTES, "insert_line": 99, "insert_text": "far"},
    {"command": "insert", "path": NOTES, "insert_line": -1, "insert_text": "far"},
    {"command": "insert", "path": "/memories/none.txt", "insert_line": 0, "insert_text": "x"},
    {"command": "view", "path": NOTES},
    {"command": "rename", "old_path": NOTES, "new_path": "/memories/work/plans/q3.md"},
    {"command": "rename", "old_path": "/memories/none.txt", "new_path": "/memories/any.txt"},
    {"command": "rename", "old_path": "/memories/work", "new_path": "/memories/archive/2026"},
    {"command": "rename", "old_path": NOTES, "new_path": "/memories/archive/notes.txt"},
    {"command": "rename", "old_path": "/memories", "new_path": "/memories/x"},
    {"command": "view", "path": "/memories/archive"},
    {"command": "view", "path": "/memories/archive/2026/plans/q3.md", "view_range": [1, 1]},
    {"command": "delete", "path": "/memories"},
    {"command": "delete", "path": "/memories/none.txt"},
    {"command": "delete", "path": "/memories/archive/2026"},
    {"command": "delete", "path": "/memories/archive/notes.txt"},
    {"command": "delete", "path": "/memories/empty.txt"},
    {"command": "view", "path": "/memories/archive/notes.txt"},
    {"command": "view", "path": "/memories/../etc/passwd"},
    {"command": "view", "path": "/etc/passwd"},
]


async def told(tool: Any, command: dict[str, Any]) -> str:
    """What the model would read; sizes of folders, which only a file system knows, left out."""
    try:
        answer = str(await tool.call(command))
    except ToolError as error:
        answer = f"refused: {error.content}"
    return re.sub(r"^[\d.]+[BKMG](\t.*/|\t/memories(?:/work|/archive)?)$", r"folder\1", answer, flags=re.MULTILINE)


async def test_every_command_answers_word_for_word_as_the_sdks_own_tool(verbs: Verbs, tmp_path: Path) -> None:
    ours = AsyncRecordariMemoryTool(verbs, user="ana")
    theirs = BetaAsyncLocalFilesystemMemoryTool(str(tmp_path))
    assert ours.to_dict() == theirs.to_dict()
    for command in SCRIPT:
        assert await told(ours, command) == await told(theirs, command), command


async def test_what_a_file_says_is_recalled_and_belongs_to_its_user(verbs: Verbs) -> None:
    tool = AsyncRecordariMemoryTool(verbs, user="ana")
    await tool.call({"command": "create", "path": "/memories/tea.md", "file_text": "Ana prefers oolong"})
    assert (await verbs.acting_as(user="ana").recall("which oolong")).items[0].content == "Ana prefers oolong"
    other = AsyncRecordariMemoryTool(verbs, user="bo")
    with pytest.raises(ToolError, match="does not exist"):
        await other.call({"command": "view", "path": "/memories/tea.md"})
    assert "tea.md" not in str(await other.call({"command": "view", "path": "/memories"}))
    shared = [AsyncRecordariMemoryTool(verbs, user=user, agent="helper", scope="agent") for user in ("ana", "bo")]
    await shared[0].call({"command": "create", "path": "/memories/how.md", "file_text": "Ask first"})
    assert "Ask first" in str(await shared[1].call({"command": "view", "path": "/memories/how.md"}))
    assert await tool.clear_all_memory() == "All memory cleared"
    assert "tea.md" not in str(await tool.call({"command": "view", "path": "/memories"}))


@pytest.mark.parametrize(
    "path",
    [
        "/memories/../secret",
        "/memories/a/../../b",
        "/memories/..",
        "/memories/./a",
        "/memories//a",
        "/memories/%2e%2e/secret",
        "/memories/%252e%252e%252fsecret",
        "/memories/..%2fsecret",
        "/memories%2f..%2fsecret",
        "/memories/..\\secret",
        "/memories/a\x00b",
        "/memories/a\nb",
        "/memories/\u2025/secret",  # one sign that looks like two dots
        "/memories/\uff0e\uff0e/secret",
        "/memories/..\uff0fsecret",
        "/memories\u2044..",
        "/memories/a\u202eb",
        "/memoriesX/a",
        "/memories.txt",
        "memories/a",
        "/Memories/a",
        "/etc/passwd",
        "",
        "~/memories",
        "file:///memories/a",
    ],
)
def test_a_path_outside_is_refused_however_it_is_written(path: str) -> None:
    with pytest.raises(ToolError):
        path_of(path)


@settings(max_examples=300)
@given(st.text(alphabet="./%2ef\\\u2025\uff0e\uff0fmemoris a", max_size=24))
def test_whatever_is_accepted_lies_below_the_folder(rest: str) -> None:
    try:
        place = path_of("/memories/" + rest)
    except ToolError:
        return
    assert not {"", ".", ".."} & set(place.labels)
    assert all("/" not in label and "\\" not in label for label in place.labels)


async def test_a_file_is_no_folder_and_a_folder_does_not_move_into_itself(verbs: Verbs) -> None:
    tool = AsyncRecordariMemoryTool(verbs, user="ana")
    await tool.call({"command": "create", "path": "/memories/a/b.txt", "file_text": "x"})
    for command, words in (
        ({"command": "create", "path": "/memories/a/b.txt/c", "file_text": "x"}, "is not a directory"),
        ({"command": "create", "path": "/memories/a", "file_text": "x"}, "already exists"),
        ({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/a/c"}, "into itself"),
        ({"command": "create", "path": "/memories/big", "file_text": "x" * 2**20}, "at most"),
    ):
        with pytest.raises(ToolError) as refused:
            await tool.call(command)
        assert words in str(refused.value.content)


def test_claude_writes_a_file_through_the_sdks_tool_runner(waiting: Facade) -> None:
    """The real client and its loop against a local server that speaks for the model."""

    def answer(request: Request) -> Reply:
        results = [part for message in request.body["messages"] for part in message["content"] if part != "text"]
        done = any(isinstance(part, dict) and part.get("type") == "tool_result" for part in results)
        call = {"command": "create", "path": "/memories/ana.md", "file_text": "Ana drinks tea"}
        content = (
            [{"type": "text", "text": "Noted."}]
            if done
            else [{"type": "tool_use", "id": "toolu_1", "name": "memory", "input": call}]
        )
        return Reply(
            body={
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-test",
                "content": content,
                "stop_reason": "end_turn" if done else "tool_use",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
            headers={"content-type": "application/json"},
        )

    memory = waiting.acting_as(user="ana")
    with json_server(answer) as server:
        claude = Anthropic(api_key="test", base_url=server.url, max_retries=0)
        runner = claude.beta.messages.tool_runner(
            model="claude-test",
            max_tokens=100,
            messages=[{"role": "user", "content": "Remember that I drink tea"}],
            tools=[RecordariMemoryTool(waiting, user="ana")],
        )
        last = runner.until_done()
        claude.close()
    assert last.content[0].text == "Noted."  # type: ignore[union-attr]
    assert server.requests[0].body["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    result = server.requests[1].body["messages"][-1]["content"][0]
    assert "File created successfully at: /memories/ana.md" in str(result["content"])
    assert memory.recall("what does Ana drink").items[0].content == "Ana drinks tea"
