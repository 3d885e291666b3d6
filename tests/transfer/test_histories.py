"""Histories that people have: data exports of chats, and transcripts of coding agents."""

from __future__ import annotations

import gzip
import json
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
from tests.doors.test_cli import connected

from recordari.app import Memory
from recordari.config import Settings
from recordari.errors import InvalidInput
from recordari.transfer.files import read_document
from recordari.transfer.rules import ENDED, READERS, ForeignOwner, ForeignSource

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


ODD: dict[ForeignSource, list[Any]] = {
    ForeignSource.CHATGPT: [
        {"mapping": {"a": {"message": {"author": "x", "content": {"parts": 7}}, "parent": []}}, "current_node": "a"}
    ],
    ForeignSource.CLAUDE: [{"uuid": "c", "chat_messages": [7, {"uuid": "m", "sender": [], "text": 7}]}],
    ForeignSource.CLAUDE_CODE: [
        {"type": "user", "message": 7},
        {"type": ["user"]},
        {"type": "user", "uuid": {}, "message": {"content": [7]}},
    ],
    ForeignSource.CODEX: [
        {"type": "session_meta", "payload": 7},
        {"type": "response_item", "payload": {"type": "message", "role": []}},
    ],
}


@pytest.mark.parametrize("source", ODD, ids=str)
def test_odd_parts_of_a_file_are_left_out_and_stop_nothing(source: ForeignSource) -> None:
    history = [*ODD[source], *cast("list[Any]", HISTORIES[source])]
    read = [one.item.content for one in READERS[source](history, OWNER) if one.item is not None]
    assert read == ["My sister Noor lives in Bergen.", "Noted."]


def test_what_codex_writes_at_once_or_in_your_name_is_told_apart() -> None:
    note = response("user", "input_text", "# AGENTS.md instructions for /src/atlas\n\nUse tabs.")
    lines = [CODEX[0], note, *(response("user", "input_text", text) for text in ("First.", "Second."))]
    read = [one.item for one in READERS[ForeignSource.CODEX](lines, OWNER) if one.item is not None]
    assert [item.content for item in read] == ["First.", "Second."]
    assert len({item.source_ref for item in read}) == 2


async def test_a_history_is_imported_once_and_recalled(memory: Memory) -> None:
    ana = memory.acting_as(user="ana")
    for source, history in HISTORIES.items():
        first = await ana.import_foreign(source, history)
        assert (first.new, first.existing) == (2, 0)
        again = await ana.import_foreign(source, history)
        assert (again.new, again.existing) == (0, 2), "it can be stopped and started again"
    found = await ana.recall("Where does Noor live?")
    assert found.items[0].content == "My sister Noor lives in Bergen."


async def test_a_dry_run_says_what_would_be_learnt_and_keeps_nothing(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    secret = line("user", "u9", "My partner's mail is kay@example.com, and my cat is called Pixel.")
    lines = [*CODE, line("assistant", "u5", [{"type": "text", "text": "I live in a data centre."}]), secret]
    (tmp_path / "a" / "one.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + '{"cut sho')
    document = read_document(ForeignSource.CLAUDE_CODE, tmp_path)
    ana = memory.acting_as(user="ana")
    plan = await ana.import_foreign("claude-code", document, dry_run=True)
    assert (plan.read, plan.new, plan.existing, plan.sessions) == (4, 4, 0, 1)
    assert plan.first_at == plan.last_at == datetime.fromisoformat(AT)
    assert any("Noor" in fact and "Bergen" in fact for fact in plan.facts)
    assert any("Pixel" in fact for fact in plan.facts)
    assert not any("kay@example.com" in fact or "data centre" in fact for fact in plan.facts), "as it would be kept"
    assert not (await ana.list_items(kinds=["chat_message", "fact"])).items
    await ana.import_foreign("claude-code", document)
    again = await ana.import_foreign("claude-code", document, dry_run=True)
    assert (again.new, again.existing, again.facts) == (0, 4, [])
    left_out = await ana.import_foreign("claude", CLAUDE, dry_run=True)
    assert (left_out.new, left_out.skipped) == (2, {"it has no text": 1})
    mem0 = await ana.import_foreign("mem0", [{"id": "1", "memory": "Prefers green tea"}], dry_run=True)
    assert mem0.facts == ["Prefers green tea"]


def test_an_export_is_read_as_it_was_downloaded(tmp_path: Path) -> None:
    """Chats come in an archive, in several files where there are many; OpenMemory's texts are packed lines."""
    with zipfile.ZipFile(tmp_path / "chats.zip", "w") as archive:
        archive.writestr("export/conversations-000.json", json.dumps(CHATGPT))
        archive.writestr("export/conversations-001.json", json.dumps([{**CHATGPT[0], "id": "c9"}]))
        archive.writestr("export/user.json", "{}")
    chats = read_document(ForeignSource.CHATGPT, tmp_path / "chats.zip")
    sessions = [one.session_id for one in READERS[ForeignSource.CHATGPT](chats, OWNER)]
    assert sessions == ["c1", "c1", "c9", "c9"]
    with zipfile.ZipFile(tmp_path / "chats.zip") as archive:
        archive.extractall(tmp_path / "unpacked")
    assert read_document(ForeignSource.CHATGPT, tmp_path / "unpacked") == chats
    memories = [
        {"id": "o1", "content": "Grows tomatoes", "state": "active", "app": "cursor", "created_at": AT},
        {"id": "o2", "content": "Grew beans", "state": "archived"},
    ]
    with zipfile.ZipFile(tmp_path / "openmemory.zip", "w") as archive:
        archive.writestr("memories.json", json.dumps({"memories": [{"id": "o1"}]}))
        archive.writestr("memories.jsonl.gz", gzip.compress("".join(f"{json.dumps(m)}\n" for m in memories).encode()))
    backup = read_document(ForeignSource.OPENMEMORY, tmp_path / "openmemory.zip")
    first, second = READERS[ForeignSource.OPENMEMORY](backup, OWNER)
    assert first.item is not None and (first.item.content, first.user_id) == ("Grows tomatoes", "ana")
    assert second.left_out == ENDED
    (tmp_path / "broken.zip").write_bytes((tmp_path / "chats.zip").read_bytes()[:-30])
    for source, file in (
        ("chatgpt", "openmemory.zip"),
        ("chatgpt", "broken.zip"),
        ("claude", "none"),
        ("markdown", "chats.zip"),
    ):
        with pytest.raises(InvalidInput):
            read_document(ForeignSource(source), tmp_path / file)


async def test_notes_become_documents_and_are_imported_once(memory: Memory, tmp_path: Path) -> None:
    vault = tmp_path / "Vault"
    (vault / "Garden").mkdir(parents=True)
    (vault / ".obsidian").mkdir()
    (vault / ".obsidian" / "plugin.md").write_text("hidden")
    (vault / "Empty.md").write_text("---\ntitle: x\n---\n")
    (vault / "Garden" / "Pears.md").write_text(
        "---\ntitle: Pear trees\ntags: fruit\n---\nPrune the [[Trees/Pear|pear trees]] in [[February]].\n![[photo.png]]\n"
    )
    document = read_document(ForeignSource.MARKDOWN, vault)
    plan = await memory.import_foreign("markdown", document, dry_run=True)
    assert (plan.new, plan.existing, plan.skipped) == (1, 0, {"it has no text": 1})
    assert (await memory.list_documents()) == []
    first = await memory.import_foreign("markdown", document)
    again = await memory.import_foreign("markdown", document)
    assert (first.new, again.new, again.existing) == (1, 0, 1)
    (found,) = (await memory.search_knowledge("When are pear trees pruned?", source="Vault")).items
    assert found.content.strip() == "Prune the pear trees in February."
    assert found.citation is not None and found.citation.document == "Garden/Pears.md"
    (vault / "Garden" / "Pears.md").write_text("Prune them in March.")
    changed = await memory.import_foreign("markdown", read_document(ForeignSource.MARKDOWN, vault))
    assert (changed.new, changed.existing) == (1, 0), "its next revision"


def test_the_command_plans_and_imports(settings: Settings, tmp_path: Path) -> None:
    command = connected(settings, tmp_path, RECORDARI_EMBEDDING_PROFILE="fast")
    (command.folder / "conversations.json").write_text(json.dumps(CHATGPT))
    arguments = ("import", "conversations.json", "--from", "chatgpt", "--user", "ana")
    shown, _ = command.run(*arguments, "--dry-run")
    assert "2 memories of 1 session would be imported" in shown and "- " in shown and "Bergen" in shown
    assert command.json(*arguments, "--dry-run")["new"] == 2
    assert command.json(*arguments)["new"] == 2
    assert command.json(*arguments, "--dry-run")["new"] == 0


async def test_a_session_that_hooks_have_kept_is_not_imported_again(memory: Memory) -> None:
    ana = memory.acting_as(user="ana")
    await ana.open_session("s1", metadata={"host": "claude-code", "project": "atlas"})
    left = await ana.import_foreign("claude-code", CODE)
    assert left.new == 0 and list(left.skipped.values()) == [2] and "hooks" in next(iter(left.skipped))
    other = await memory.acting_as(user="bo").import_foreign("claude-code", CODE)
    assert other.new == 2, "the hooks of one user say nothing about another"
