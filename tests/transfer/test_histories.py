"""Histories that people have: data exports of chats, and transcripts of coding agents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recordari.app import Memory
from recordari.errors import InvalidInput
from recordari.transfer.cli import _planned, _read_lines
from recordari.transfer.rules import READERS, ForeignOwner, ForeignSource

OWNER = ForeignOwner(user_id="ana")
AT = "2026-03-04T10:00:00Z"


def node(name: str, parent: str | None, role: str, text: str) -> dict[str, object]:
    content = {"content_type": "text", "parts": [text]}
    return {
        "id": name,
        "parent": parent,
        "message": {"id": name, "author": {"role": role}, "create_time": 1.7e9, "content": content},
    }


CHATGPT = [
    {
        "id": "c1",
        "current_node": "d",
        "mapping": {
            "a": {"id": "a", "parent": None, "message": None},
            "b": node("b", "a", "user", "My sister Noor lives in Bergen."),
            "c": node("c", "b", "assistant", "An answer that was thrown away."),
            "d": node("d", "b", "assistant", "Noted."),
        },
    }
]
CLAUDE = [
    {
        "uuid": "c2",
        "chat_messages": [
            {"uuid": "m1", "sender": "human", "text": "My sister Noor lives in Bergen.", "created_at": AT},
            {"uuid": "m2", "sender": "assistant", "content": [{"type": "text", "text": "Noted."}], "created_at": AT},
            {"uuid": "m3", "sender": "human", "text": "", "created_at": AT},
        ],
    }
]


def line(kind: str, name: str, content: object, **more: object) -> dict[str, object]:
    """A line of Claude Code."""
    return {"type": kind, "uuid": name, "sessionId": "s1", "timestamp": AT, "message": {"content": content}, **more}


def response(role: str, kind: str, text: str) -> dict[str, object]:
    """A line of Codex."""
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"type": "response_item", "timestamp": AT, "payload": payload}


CODE = [
    {"type": "summary", "summary": "x"},
    line("user", "u1", "My sister Noor lives in Bergen.", cwd="/src/atlas"),
    line("user", "u2", [{"type": "tool_result", "content": "7"}]),
    line("user", "u3", "Caveat", isMeta=True),
    line("assistant", "u4", [{"type": "text", "text": "Noted."}]),
]
CODEX = [
    {"type": "session_meta", "timestamp": AT, "payload": {"id": "s2", "cwd": "C:\\src\\atlas\\"}},
    response("user", "input_text", "<environment_context>"),
    response("user", "input_text", "My sister Noor lives in Bergen."),
    {"type": "response_item", "timestamp": AT, "payload": {"type": "function_call", "name": "shell"}},
    response("assistant", "output_text", "Noted."),
]
HISTORIES = {
    ForeignSource.CHATGPT: CHATGPT,
    ForeignSource.CLAUDE: CLAUDE,
    ForeignSource.CLAUDE_CODE: CODE,
    ForeignSource.CODEX: CODEX,
}


@pytest.mark.parametrize("source", HISTORIES, ids=str)
def test_what_was_said_is_read_and_nothing_else(source: ForeignSource) -> None:
    read = [one for one in READERS[source](HISTORIES[source], OWNER) if one.item is not None]
    assert [(one.item.speaker, one.item.content) for one in read if one.item] == [
        ("user", "My sister Noor lives in Bergen."),
        ("assistant", "Noted."),
    ]
    if source.is_lines:
        assert read[0].item is not None and read[0].item.metadata == {"project": "atlas"}
    with pytest.raises(InvalidInput, match="this is no"):
        list(READERS[source]({"some": "thing"}, OWNER))


async def test_a_history_is_imported_once_and_recalled(memory: Memory) -> None:
    ana = memory.acting_as(user="ana")
    for source, history in HISTORIES.items():
        first = await ana.import_foreign(source, history)
        assert (first.new, first.existing) == (2, 0)
        again = await ana.import_foreign(source, history)
        assert (again.new, again.existing) == (0, 2), "it can be stopped and started again"
    found = await ana.recall("Where does Noor live?")
    assert found.items[0].content == "My sister Noor lives in Bergen."


def test_a_dry_run_says_what_would_be_imported(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in CODE) + '{"cut sho')
    plan = _planned(ForeignSource.CLAUDE_CODE, _read_lines(tmp_path), OWNER)
    assert plan.data == {"read": 2, "importable": 2, "sessions": 1, "skipped": {}}
    left_out = _planned(ForeignSource.CLAUDE, CLAUDE, OWNER)
    assert left_out.data == {"read": 3, "importable": 2, "sessions": 1, "skipped": {"it has no text": 1}}
