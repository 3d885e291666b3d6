"""Memories of mem0 and Zep are imported once, for their owners, and what is left out is told with its reason (X8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.doors.test_cli import connected

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.errors import InvalidInput
from recordari.transfer.foreign import ANOTHERS, CHANGED
from recordari.transfer.rules import ENDED, NO_ID, NO_OWNER, NO_TEXT, NOT_AN_OBJECT

MEM0: dict[str, Any] = {
    "results": [
        {
            "id": "0a1b",
            "memory": "Prefers green tea",
            "user_id": "ana",
            "metadata": {"source": "chat"},
            "categories": ["preferences"],
            "created_at": "2026-01-05T10:00:00-08:00",
            "updated_at": None,
        },
        {"id": "0a1c", "memory": "Lives in Lisbon", "user_id": "ana", "run_id": "trip", "created_at": "2026-02-01"},
        {"id": "0a1d", "memory": "Answers briefly", "agent_id": "helper"},
        {"id": "0a1e", "memory": "  ", "user_id": "ana"},
        {"id": "0a1f", "memory": "Nobody's"},
        {"memory": "no id", "user_id": "ana"},
        {"id": "0a20", "memory": "bad time", "user_id": "ana", "created_at": "yesterday"},
        "text",
    ]
}
ZEP: dict[str, Any] = {
    "users": [
        {
            "user_id": "ana",
            "edges": [
                {"uuid": "e1", "name": "PREFERS", "fact": "Ana prefers tea", "valid_at": "2026-01-05T10:00:00Z"},
                {"uuid": "e2", "name": "LIVES_IN", "fact": "Ana lives in Porto", "invalid_at": "2026-02-01T00:00:00Z"},
            ],
            "threads": [
                {
                    "thread_id": "t1",
                    "messages": [
                        {"uuid": "m1", "role": "user", "name": "Ana", "content": "The parcel is lost"},
                        {"uuid": "m2", "role": "assistant", "content": "I will look for it", "created_at": 1767600000},
                    ],
                }
            ],
        }
    ]
}


async def test_mem0s_memories_become_facts_of_their_owners(memory: Memory) -> None:
    done = await memory.import_foreign("mem0", MEM0)
    assert (done.read, done.new, done.existing) == (8, 3, 0)
    assert done.skipped == {NO_TEXT: 1, NO_OWNER: 1, NO_ID: 1, "a time in it cannot be read": 1, NOT_AN_OBJECT: 1}
    ana = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana")
    found = await ana.list_items(kinds=["fact"])
    assert {(item.content, item.category) for item in found.items} == {
        ("Prefers green tea", "preferences"),
        ("Lives in Lisbon", "personal"),
    }
    tea = next(item for item in found.items if "tea" in item.content)
    assert (tea.event_time.isoformat(), tea.metadata) == ("2026-01-05T18:00:00+00:00", {"source": "chat"})
    helper = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(agent="helper")
    assert (await helper.recall("answers", scope="agent")).items[0].content == "Answers briefly"


async def test_an_import_done_again_keeps_nothing_twice_and_tells_what_changed(memory: Memory) -> None:
    await memory.import_foreign("mem0", MEM0["results"][:1])
    again = await memory.import_foreign("mem0", MEM0)
    assert (again.new, again.existing) == (2, 1)
    changed = [{**MEM0["results"][0], "memory": "Prefers coffee"}, {"id": "new", "memory": "Runs", "user_id": "ana"}]
    third = await memory.import_foreign("mem0", changed)
    assert (third.new, third.skipped) == (1, {CHANGED: 1})


async def test_zeps_facts_and_threads_are_kept_and_what_ended_is_left_out(memory: Memory) -> None:
    done = await memory.import_foreign("zep", ZEP)
    assert (done.read, done.new, done.skipped) == (4, 3, {ENDED: 1})
    ana = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="ana")
    assert (await ana.recall("parcel", source_kinds=["chat_message"])).items[0].speaker == "Ana"
    (fact,) = (await ana.list_items(kinds=["fact"])).items
    assert (fact.content, fact.predicate) == ("Ana prefers tea", "PREFERS")
    assert (await memory.import_foreign("zep", ZEP)).existing == 3
    single = await memory.acting_as(user="bo").import_foreign("zep", {"edges": [{"uuid": "e9", "fact": "Bo runs"}]})
    assert single.new == 1


async def test_a_user_imports_only_what_is_the_users_own(memory: Memory) -> None:
    bo = memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(user="bo")
    done = await bo.import_foreign("mem0", MEM0)
    assert done.skipped[ANOTHERS] == 2
    assert {item.content for item in (await bo.list_items(kinds=["fact"])).items} == {"Nobody's", "Answers briefly"}


async def test_a_file_of_something_else_is_refused(memory: Memory) -> None:
    for source, document in (("mem0", {"a": 1}), ("mem0", "text"), ("zep", []), ("zep", {"a": 1}), ("nobody", [])):
        with pytest.raises(InvalidInput):
            await memory.import_foreign(source, document)


def test_the_command_line_imports_a_file_and_tells_what_it_left_out(settings: Settings, tmp_path: Path) -> None:
    command = connected(settings, tmp_path, RECORDARI_EMBEDDING_PROFILE="fast")
    (command.folder / "mem0.json").write_text(json.dumps(MEM0))
    (command.folder / "bad.json").write_text("{")
    summary = command.json("import", "--from", "mem0", "mem0.json")
    assert (summary["new"], summary["skipped"][NO_OWNER]) == (3, 1)
    out, _ = command.run("import", "--from", "mem0", "mem0.json")
    assert "8 memories read, 0 new, 3 here already" in out
    assert "1 left out: it has no text" in out
    assert "is not JSON" in command.run("import", "--from", "zep", "bad.json", code=1)[1]
