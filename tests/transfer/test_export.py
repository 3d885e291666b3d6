"""Export and import: what goes out comes back the same, again changes nothing, and forgotten things stay away."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.stored import rows

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.errors import Forbidden, InvalidInput
from recordari.facts import storage as facts_storage
from recordari.facts.storage import Link
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.tenants import tenants

YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@pytest.fixture
def chat(memory: Memory) -> Memory:
    return memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(
        user="ana", agent="helper", session="chat-1"
    )


@pytest.fixture
async def elsewhere(memory: Memory) -> Memory:
    tenant = await tenants.ensure_tenant(memory.resources, "elsewhere")
    return memory.bound(Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))


async def lines_of(memory: Memory, **more: Any) -> list[str]:
    return [line async for line in memory.export(**more)]


async def filled(memory: Memory, chat: Memory, settings: Settings) -> None:
    """A tenant with a bit of everything."""
    await tenants.save_user(memory.resources, memory.identity, "ana", display_name="Ana", time_zone="Europe/Stockholm")
    await chat.add_messages(
        [NewMessage(role=MessageRole.USER, content="We decided to move to Malmö.", message_id="m1")]
    )
    old = await chat.remember_fact(
        "Ana lives in Lund", subject="Ana", predicate="lives in", object="Lund", confidence=0.75
    )
    new = await chat.remember_fact("Ana lives in Malmö", metadata={"naïve": ["ü", 1.5, None]})
    rows(
        settings,
        "UPDATE items SET invalid_at = now(), superseded_by = %s, valid_at = %s WHERE item_id = %s RETURNING 1",
        new.id,
        YESTERDAY,
        old.id,
    )
    await chat.remember("row " * 6_000, kind="tool_output", source_ref="call-1")
    await chat.remember("file " * 40_000, kind="tool_output", source_ref="call-2")
    async with memory.resources.database.transaction(memory.identity) as tx:
        link = Link(item_id=new.id, source_item_id=old.id, event_time=YESTERDAY)
        await facts_storage.insert_links(tx, [link])
    await chat.set_state("draft", {"b": 1, "a": [1.0]})
    await chat.acting_as(user="bob", session="chat-2").remember_fact("Bob likes tea")


def without_derived(lines: list[str]) -> list[dict[str, Any]]:
    said = [json.loads(line) for line in lines[1:]]
    return sorted(said, key=lambda line: json.dumps(line, sort_keys=True))


async def test_an_export_comes_back_the_same_in_another_tenant(
    memory: Memory, chat: Memory, elsewhere: Memory, settings: Settings
) -> None:
    await filled(memory, chat, settings)
    exported = await lines_of(memory)
    assert json.loads(exported[0])["format"] == "recordari-export"
    done = await elsewhere.import_export(exported)
    assert (done.written["item"], done.known_items, done.forgotten_items) == (6, 0, 0)
    assert without_derived(await lines_of(elsewhere)) == without_derived(exported)
    there = elsewhere.bound(Identity(tenant_id=elsewhere.identity.tenant_id)).acting_as(
        user="ana", agent="helper", session="chat-1"
    )
    assert [item.content for item in (await there.recall("lives in", scope="user")).items] == ["Ana lives in Malmö"]
    for key in [row["payload_key"] for row in rows(settings, "SELECT DISTINCT payload_key FROM payloads")]:
        assert (await there.read_tool_output(key)).content == (await chat.read_tool_output(key)).content
    assert (await there.get_state("draft")).value == {"b": 1, "a": [1.0]}


async def test_importing_again_changes_nothing(
    memory: Memory, chat: Memory, elsewhere: Memory, settings: Settings
) -> None:
    await filled(memory, chat, settings)
    exported = await lines_of(memory)
    await elsewhere.import_export(exported)
    before = await lines_of(elsewhere)
    again = await elsewhere.import_export(exported)
    assert again.written["item"] == 0 and again.known_items == 6
    assert without_derived(await lines_of(elsewhere)) == without_derived(before)


async def test_one_user_is_exported_without_the_others(memory: Memory, chat: Memory, settings: Settings) -> None:
    await filled(memory, chat, settings)
    of_ana = "\n".join(await lines_of(memory, user_id="ana"))
    assert "Ana lives in Malmö" in of_ana and "Bob" not in of_ana
    assert "\n".join(await lines_of(chat, user_id="ana")).partition("\n")[2] == of_ana.partition("\n")[2]
    for not_mine in ({"user_id": "bob"}, {}):
        with pytest.raises(Forbidden):
            await lines_of(chat, **not_mine)
    with pytest.raises(Forbidden):
        await chat.import_export([])


async def test_an_older_export_does_not_bring_back_what_was_forgotten(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    said = await chat.add_messages(
        [
            NewMessage(
                role=MessageRole.USER, content="We decided to hire Quillfeather.", message_id="m1", event_time=YESTERDAY
            )
        ]
    )
    fact = await chat.remember_fact("Quillfeather joins in May", event_time=YESTERDAY)
    kept = await chat.remember_fact("Ana likes tea", event_time=YESTERDAY)
    rows(settings, "UPDATE sessions SET summary = 'Quillfeather is hired', summarised_to = 1 RETURNING 1")
    older = await lines_of(memory)
    await chat.forget(said.messages[0].id)
    await chat.forget(fact.id)
    rows(settings, "WITH gone AS (DELETE FROM sessions RETURNING 1) SELECT FROM gone")
    rows(settings, "WITH gone AS (DELETE FROM items RETURNING 1) SELECT FROM gone")
    done = await memory.import_export(older)
    assert (done.written["item"], done.forgotten_items) == (1, 2)
    assert (await chat.get_item(kept.id)).content == "Ana likes tea"
    assert "Quillfeather" not in "\n".join(await lines_of(memory))
    assert (await chat.recall("Quillfeather")).items == ()


async def test_an_older_export_does_not_bring_back_an_erased_user(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    await filled(memory, chat, settings)
    older = await lines_of(memory)
    await memory.erase_user("ana")
    done = await memory.import_export(older)
    assert done.written["item"] == 0 and done.forgotten_items == 5
    assert [row["user_id"] for row in rows(settings, "SELECT user_id FROM users")] == ["bob"]
    assert "ana" not in {row["user_id"] for row in rows(settings, "SELECT user_id FROM sessions")}
    assert rows(settings, "SELECT FROM state") == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"format": "other"}', "another format"),
        ('{"format": "recordari-export", "version": 99}', "version 3 only"),
        ("nonsense", "not a JSON object"),
        ("[1]", "not a JSON object"),
    ],
)
async def test_a_file_that_is_no_export_is_refused(memory: Memory, line: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        await memory.import_export([line])


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "secret"},
        {"item_id": "x"},
        {"content": ""},
        {"content": "x" * 20_000},
        {"event_time": "soon"},
        {"tier": None},
        {"position": "first"},
        {"content_hash": None},
    ],
)
async def test_a_damaged_item_is_refused_with_its_line(
    memory: Memory, chat: Memory, elsewhere: Memory, change: dict[str, Any]
) -> None:
    await chat.remember("fine", source_ref="m1")
    exported = await lines_of(memory)
    number = next(n for n, line in enumerate(exported) if '"type": "item"' in line)
    damaged = json.loads(exported[number])
    exported[number] = json.dumps({**damaged, "row": {**damaged["row"], **change}})
    with pytest.raises(InvalidInput) as refused:
        await elsewhere.import_export(exported)
    assert not isinstance(refused.value.details.get("line"), str)
    assert rows_of(await lines_of(elsewhere), "item") == []


def rows_of(lines: list[str], kind: str) -> list[dict[str, Any]]:
    return [said["row"] for said in map(json.loads, lines[1:]) if said["type"] == kind]


async def test_a_file_cannot_write_into_another_tenant(memory: Memory, chat: Memory, elsewhere: Memory) -> None:
    await chat.remember("fine", source_ref="m1")
    exported = await lines_of(memory)
    forged = [
        json.dumps({**said, "row": {**said["row"], "tenant_id": str(memory.identity.tenant_id)}})
        if "row" in said
        else line
        for line in exported
        for said in [json.loads(line)]
    ]
    await elsewhere.import_export(forged)
    assert len(rows_of(await lines_of(elsewhere), "item")) == 1
