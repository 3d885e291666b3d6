"""A tenant that moves by export and import loses nothing it owns, gains nothing of others, and goes on where it stood."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.stored import rows
from tests.transfer.test_export import lines_of, rows_of, without_derived
from tests.working import work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role
from recordari.core.items import Kind
from recordari.errors import Conflict, InvalidInput, NotFound
from recordari.facts import storage as facts_storage
from recordari.facts.storage import Link
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition
from recordari.transfer import export
from recordari.transfer import storage as transfer_storage

TWICE = ("Ana prefers tea without sugar in the morning", "In the morning Ana prefers tea without any sugar")
RULE = (
    "Every travel request above two thousand crowns needs the written consent of the head of department, and is "
    "kept together with its receipts for seven years."
)
GUIDE = f"# Travel\n\n{RULE}\n\n# Sick leave\n\nCall before nine on the first day. " + "A note is needed later. " * 60
LONGER = GUIDE + "\n\n# Bicycles\n\nThey are lent at the front desk. " + "Bring them back clean. " * 60

LEFT_OUT = {
    "api_keys": "secret",
    "sign_ins": "secret",
    "webhooks": "secret",
    "databases": "secret",
    "tombstones": "made with a secret",
    "erasures": "made with a secret",
    "audit": "what happened here",
    "answers": "what happened here",
    "events": "what happened here",
    "uses": "what happened here",
    "event_feeds": "what happened here",
    "memberships": "between tenants",
    "shares": "between tenants",
    "share_links": "between tenants",
    "vectors": "derived",
    "entities": "derived",
    "mentions": "derived",
    "passages": "derived",
    "profiles": "derived",
    "profile_changes": "derived",
    "question_answers": "derived",
    "protected_texts": "derived",
    "memory_versions": "derived",
    "usage": "derived",
    "item_counts": "derived",
    "reviews": "derived",
    "discarded_objects": "derived",
    "schema_migrations": "of no tenant",
}
"""Tables that an export leaves out, and why."""
CARRIED = {
    "tenant": ["tenants"],
    "entry": ["entries"],
    "feedback": ["feedback"],
    "state": ["state"],
    "evidence": ["evidence"],
    "run": ["runs", "turns", "tool_calls"],
    "item": ["items", "payloads", "access"],
    "chunk": ["document_chunks"],
    "file": ["payloads"],
    "proposal": ["proposals", "proposal_inputs"],
}
"""Types whose tables are not named by adding an s."""

DAMAGED: list[tuple[str, dict[str, Any]]] = [
    ("tenant", {"settings": {"privacy": {"default": "shout"}}}),
    ("source", {"kind": "oracle"}),
    ("document", {"chunks": -1}),
    ("document", {"updated_at": "infinity"}),
    ("chunk", {"heading": "x"}),
    ("file", {"part": 2}),
    ("file", {"body": "%"}),
    ("feedback", {"opinion": "fine"}),
    ("hold", {"action_id": ""}),
    ("question", {"question": ""}),
    ("question", {"changed_at": "infinity"}),
    ("workflow", {"prior_alpha": "NaN"}),
    ("workflow", {"spec_text": "[]"}),
    ("outcome", {"score": 2}),
    ("proposal", {"items": "all"}),
    ("proposal", {"status": "sure"}),
    ("report", {"kind": "secret"}),
]


def agent_of(memory: Memory, user: str = "ana", session: str = "chat-1") -> Memory:
    return memory.bound(Identity(tenant_id=memory.identity.tenant_id)).acting_as(
        user=user, agent="helper", session=session
    )


@pytest.fixture
async def elsewhere(memory: Memory) -> Memory:
    tenant = await tenants.ensure_tenant(memory.resources, "elsewhere")
    return memory.bound(Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))


async def linked(memory: Memory, item_id: UUID, source_id: UUID) -> None:
    async with memory.resources.database.transaction(memory.identity) as tx:
        link = Link(item_id=item_id, source_item_id=source_id, event_time=datetime.now(UTC))
        await facts_storage.insert_links(tx, [link])


async def filled(memory: Memory) -> dict[str, Any]:
    """A tenant that has something of everything, made through the public verbs; ids by name."""
    ana, bob = agent_of(memory), agent_of(memory, "bob", "chat-2")
    made: dict[str, Any] = {}
    await memory.set_retention_policy(deleted_days=7)
    await memory.save_user("ana", display_name="Ana")
    await memory.save_agent("helper", AgentDefinition(core="You help."))
    await ana.add_messages([NewMessage(role=MessageRole.USER, content="We decided to move.", message_id="m1")])
    await bob.add_messages([NewMessage(role=MessageRole.USER, content="Hello.", message_id="m3")])
    await ana.set_state("draft", {"b": 1, "a": [1.0]})
    run = await ana.start_run(run_id="r1", session_id="chat-1", input={"goal": "book"})
    await ana.end_turn(run.run.run_id, state={"step": 2})
    await ana.put_entry(("wishes",), "seat", {"text": "aisle"})
    await memory.save_question("care", "What does Ana prefer?")
    await memory.save_question("care", "What does this customer care about?", agent="helper")
    for text in TWICE:
        await ana.remember_fact(text)
    made["bobs"] = (await bob.remember_fact("Bob likes climbing on granite")).id
    await work_off(memory, "embed")
    await memory.review_memory()
    # The older fact rests on the newer message: what is pointed to comes later in the file.
    await linked(memory, made["bobs"], (await bob.remember("I climb", session_id="chat-2", source_ref="m2")).id)
    await bob.pin_item(made["bobs"])
    await bob.give_feedback(made["bobs"], "useful")
    made["held"] = (await ana.remember_fact("Ana signed the lease", scope="user")).id
    await ana.give_feedback(made["held"], "useful")
    await memory.hold(made["held"], "contract-7")
    await ana.recall("lease")
    source = await memory.add_source("handbook", description="Rules of the house")
    made["source"] = source.source_id
    await memory.add_document("guide.md", text=GUIDE, source="handbook")
    made["document"] = (await memory.add_document("guide.md", text=LONGER, source="handbook")).document.document_id
    await memory.protect_source(source.source_id)
    await _with_workflows(memory, made)
    await memory.make_daily_brief()
    made["key"] = (await memory.create_key(name="a key")).key
    return made


async def _with_workflows(memory: Memory, made: dict[str, Any]) -> None:
    named: dict[str, Any] = {"agent_type": "helper", "task_type": "book"}
    await memory.save_workflow(**named, name="fast", spec={"z": 1, "a": [1.0]})
    second = await memory.save_workflow(**named, name="fast", spec={"z": 2})
    await memory.save_workflow(**named, name="safe", spec={"steps": ["ask"]})
    made["choice"] = (await agent_of(memory).choose("helper", "book", seed=1)).choice_id
    await memory.reward(made["choice"], 0.3)
    await memory.reward(second.workflow.workflow_id, 0.7, outcome_id="o-1")
    made["workflow"] = second.workflow.workflow_id


def forged(lines: list[str], kind: str, row: Mapping[str, Any]) -> list[str]:
    return [*lines, json.dumps({"type": kind, "row": row})]


def test_every_table_is_carried_or_left_out_for_a_reason(settings: Settings) -> None:
    carried = {table for kind in transfer_storage.EXPORTED for table in CARRIED.get(kind, [f"{kind}s"])}
    assert carried.isdisjoint(LEFT_OUT)
    found = rows(settings, "SELECT tablename FROM pg_tables WHERE schemaname = 'recordari'")
    assert {row["tablename"] for row in found} == carried | LEFT_OUT.keys()


async def test_everything_a_tenant_owns_comes_back_the_same(
    memory: Memory, elsewhere: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PART", 900)  # so that the file takes several lines
    monkeypatch.setattr(export, "PAGE", 2)
    made = await filled(memory)
    exported = await lines_of(memory)
    assert made["key"] not in "".join(exported) and "a key" not in "".join(exported)
    types = {json.loads(line)["type"] for line in exported[1:]}
    assert types == set(transfer_storage.EXPORTED)
    assert len(rows_of(exported, "file")) > 1
    done = await elsewhere.import_export(exported)
    assert all(done.written[kind] for kind in types), done.written
    assert without_derived(await lines_of(elsewhere)) == without_derived(exported)
    again = await elsewhere.import_export(exported)
    assert not any(again.written.values()) and again.forgotten_items == 0, again.written
    assert without_derived(await lines_of(elsewhere)) == without_derived(exported)
    (proposal,) = await elsewhere.list_proposals()
    assert (await elsewhere.accept_proposal(proposal.proposal_id)).status == "accepted"


async def test_a_tenant_goes_on_elsewhere_where_it_stood(memory: Memory, elsewhere: Memory) -> None:
    made = await filled(memory)
    await elsewhere.import_export(await lines_of(memory))
    there = agent_of(elsewhere)
    before = await memory.get_workflow(made["workflow"])
    assert await elsewhere.get_workflow(made["workflow"]) == before and before.rewards > 0
    history = [(one.version, one.superseded_by) for one in await elsewhere.workflow_history("helper", "book", "fast")]
    assert history == [(2, None), (1, made["workflow"])]
    assert not (await elsewhere.reward(made["choice"], 0.3)).was_new, "a reward that was given is not counted twice"
    here, drawn = await memory.choose("helper", "book", seed=7), await elsewhere.choose("helper", "book", seed=7)
    assert (here.workflow, here.sample) == (drawn.workflow, drawn.sample)
    with pytest.raises(Conflict, match="rest"):
        await elsewhere.forget(made["held"])
    with pytest.raises(InvalidInput, match="copies a protected document"):
        await there.remember_fact((await elsewhere.read_document(made["document"])).chunks[0].content)
    standing = await elsewhere.item_provenance(made["bobs"])
    assert (standing.useful, len(standing.sources)) == (1, 1)
    assert (await elsewhere.get_retention_policy()).deleted_days == 7
    assert [one.day for one in await elsewhere.list_reports()] == [one.day for one in await memory.list_reports()]


async def test_a_document_is_read_revised_cited_and_deleted_elsewhere(memory: Memory, elsewhere: Memory) -> None:
    await memory.add_source("handbook")
    document = (await memory.add_document("guide.md", text=GUIDE, source="handbook")).document
    await elsewhere.import_export(await lines_of(memory))
    assert await elsewhere.list_documents() == [document]
    assert [one.documents for one in await elsewhere.list_sources()] == [1]
    text = (await elsewhere.read_document(document.document_id)).text
    assert text == (await memory.read_document(document.document_id)).text and "travel request" in text
    assert (await elsewhere.read_original(document.document_id))[0].decode() == GUIDE
    found = await elsewhere.search_knowledge("consent for a travel request")
    assert found.items[0].citation is not None and found.items[0].citation.document_id == document.document_id
    same = await elsewhere.add_document("guide.md", text=GUIDE, source="handbook")
    assert not same.changed
    revised = await elsewhere.add_document("guide.md", text=LONGER, source="handbook")
    assert revised.document.revision == 2 and revised.chunks_kept > 0 and revised.chunks_added > 0
    await elsewhere.delete_document(document.document_id)
    assert (await elsewhere.search_knowledge("consent for a travel request")).items == ()
    assert [one.documents for one in await elsewhere.list_sources()] == [0]


async def test_what_the_receiving_tenant_has_of_its_own_stands(memory: Memory, elsewhere: Memory) -> None:
    await memory.set_retention_policy(deleted_days=7)
    await memory.add_document("guide.md", text=GUIDE)
    await memory.add_document("other.md", text="# Other\n\nParking is free on Sundays.")
    mine = await elsewhere.add_document("guide.md", text="# Guide\n\nNothing is known of journeys here.")
    await elsewhere.import_export(await lines_of(memory))
    assert (await elsewhere.get_retention_policy()).deleted_days == 30, (
        "an import changes no settings of a tenant in use"
    )
    (source,) = await elsewhere.list_sources()
    assert source.documents == 2, "sources of one name are one"
    kept = {one.name: one.document_id for one in await elsewhere.list_documents(source="documents")}
    assert kept["guide.md"] == mine.document.document_id and "other.md" in kept
    found = (await elsewhere.search_knowledge("travel request, journeys")).items
    assert "journeys" in found[0].content and all("travel" not in one.content for one in found)
    assert (await elsewhere.search_knowledge("parking")).items[0].citation is not None


async def test_settings_are_taken_by_an_empty_tenant_only(memory: Memory, elsewhere: Memory) -> None:
    await memory.set_retention_policy(deleted_days=7)
    await memory.update_tenant(language="german", settings={"quotas": {"items": 10**9}})
    exported = await lines_of(memory)
    await elsewhere.set_retention_policy(deleted_days=9)
    await elsewhere.import_export(exported)
    assert (await elsewhere.get_retention_policy()).deleted_days == 9
    fresh = await tenants.ensure_tenant(memory.resources, "fresh")
    there = memory.bound(Identity(tenant_id=fresh.tenant_id, role=Role.ADMIN))
    await there.import_export(exported)
    taken = await there.get_tenant()
    assert (await there.get_retention_policy()).deleted_days == 7 and taken.language == "german"
    assert "quotas" not in taken.settings, "limits are the operator's"


async def test_what_was_ended_here_does_not_come_back(memory: Memory, settings: Settings) -> None:
    made = await filled(memory)
    other = await memory.add_document("other.md", text="# Other\n\nParking is free on Sundays.")
    older = await lines_of(memory)
    chunk = (await memory.read_document(made["document"])).chunks[0]
    await memory.forget(chunk.item_id)
    await memory.delete_document(other.document.document_id)
    await memory.release(made["held"], "contract-7")
    await memory.erase_user("ana")
    for table in ("document_chunks", "payloads", "documents", "choices"):
        condition = "document_id IS NOT NULL" if table != "choices" else "true"
        rows(settings, f"WITH gone AS (DELETE FROM {table} WHERE {condition} RETURNING 1) SELECT FROM gone")
    await memory.import_export(older)
    (document,) = await memory.list_documents()
    assert document.document_id == made["document"], "what was deleted stays deleted"
    assert chunk.item_id not in {one.item_id for one in (await memory.read_document(made["document"])).chunks}
    with pytest.raises(NotFound):
        await memory.read_original(made["document"])
    for table, column in (("feedback", "given_by"), ("choices", "session_id"), ("holds", "action_id")):
        told = {row[column] for row in rows(settings, f"SELECT {column} FROM {table}")}
        assert told.isdisjoint({"user:ana", "chat-1", "contract-7"}), table
    assert rows(settings, "SELECT FROM turn_states") == rows(settings, "SELECT FROM state_owners") == []


async def test_a_users_export_holds_and_writes_what_is_that_users(memory: Memory, elsewhere: Memory) -> None:
    made = await filled(memory)
    of_ana = await lines_of(memory, user_id="ana")
    types = {json.loads(line)["type"] for line in of_ana[1:]}
    assert types <= transfer_storage.OF_A_USER and {"feedback", "turn_state", "state_owner"} <= types
    text = "\n".join(of_ana)
    assert "bob" not in text.lower() and "climbing" not in text and "handbook" not in text
    await elsewhere.import_export(of_ana)
    assert without_derived(await lines_of(elsewhere, user_id="ana")) == without_derived(of_ana)
    assert rows_of(await lines_of(elsewhere), "tenant")[0]["settings"] == {}
    bobs = next(row for row in rows_of(await lines_of(memory), "item") if row["item_id"] == str(made["bobs"]))
    for kind, row in (
        ("item", bobs),
        ("item", {**bobs, "user_id": None, "scope": "tenant"}),
        ("user", {"user_id": "bob", "time_zone": "UTC", "created_at": "2026-01-01T00:00:00Z"}),
        ("feedback", {"item_id": str(made["bobs"]), "given_by": "user:bob", "opinion": "wrong"}),
        ("entry", {"scope": "tenant", "owner_id": ""}),
        ("tenant", {"language": "german", "settings": {}}),
        ("hold", {"item_id": str(made["bobs"]), "action_id": "x", "created_at": "2026-01-01T00:00:00Z"}),
    ):
        with pytest.raises(InvalidInput, match="not that user's"):
            await elsewhere.import_export(forged(of_ana[:1], kind, row))
    session = next(row for row in rows_of(await lines_of(memory), "session") if row["user_id"] == "bob")
    await elsewhere.import_export(forged([json.dumps({**json.loads(of_ana[0]), "user_id": None})], "session", session))
    thread = "session:user:bob\x1fchat-2"
    whispered = {**bobs, "user_id": None, "scope": "session", "session_id": "chat-2", "thread": thread}
    note = {"session_id": "chat-2", "note_id": str(uuid4()), "kind": "note", "content": "x", "importance": 1}
    for kind, row in (
        ("item", whispered),
        ("item", {**whispered, "user_id": "ana"}),
        ("note", {**note, "owned_by": "user:bob", "created_at": "2026-01-01T00:00:00Z"}),
    ):
        with pytest.raises(InvalidInput, match="not that user's"):  # nothing is said into another user's session
            await elsewhere.import_export(forged(of_ana[:1], kind, row))
    bound = elsewhere.bound(replace(elsewhere.identity, user_id=bobs["user_id"]))
    with pytest.raises(InvalidInput, match="another user's"):
        await bound.import_export(of_ana)


async def test_a_crafted_line_reaches_no_other_tenant(memory: Memory, elsewhere: Memory, settings: Settings) -> None:
    made = await filled(memory)
    before = without_derived(await lines_of(memory))
    exported = await lines_of(memory)
    new = [line for line in exported[1:] if json.loads(line)["type"] not in {"item", "source", "workflow", "tenant"}]
    pointing = [
        json.dumps({**said, "row": {**said["row"], "tenant_id": str(memory.identity.tenant_id)}})
        for said in map(json.loads, new)
        if said["type"]
        in {"document", "chunk", "feedback", "hold", "choice", "outcome", "proposal", "evidence", "file"}
    ]
    done = await elsewhere.import_export([exported[0], *pointing])
    assert not any(done.written.values()), "rows that point to another tenant's are not written"
    assert without_derived(await lines_of(memory)) == before
    moment = "2026-01-01T00:00:00+00:00"
    source = {"source_id": str(uuid4()), "name": "s", "kind": "documents", "description": "", "folder": "/etc"}
    await elsewhere.import_export(
        forged(exported[:1], "source", {**source, "created_at": moment, "updated_at": moment})
    )
    (taken,) = await elsewhere.list_sources()
    assert taken.folder is None, "a file opens no folder of the server"
    assert made["source"] != taken.source_id


async def test_a_damaged_row_is_refused_with_its_line(memory: Memory, elsewhere: Memory) -> None:
    await filled(memory)
    exported = await lines_of(memory)
    for kind, change in DAMAGED:
        number = next(n for n, line in enumerate(exported) if n and json.loads(line)["type"] == kind)
        said = json.loads(exported[number])
        damaged = json.dumps({**said, "row": {**said["row"], **change}})
        with pytest.raises(InvalidInput) as refused:
            await elsewhere.import_export([*exported[:number], damaged, *exported[number + 1 :]])
        assert refused.value.details["line"] > number, (kind, change)


async def test_personal_data_that_the_receiver_does_not_keep_is_in_no_document_or_file(
    memory: Memory, elsewhere: Memory
) -> None:
    await memory.set_privacy_policy({"default": "keep"})
    document = await memory.add_document(
        "who.md", text="# Who\n\nWrite to ana.svensson@example.org.", metadata={"by": "eva.berg@example.org"}
    )
    exported = [line for line in await lines_of(memory) if '"type": "tenant"' not in line]
    await elsewhere.import_export(exported)
    there = await elsewhere.read_document(document.document.document_id)
    assert "example.org" not in there.text and "example.org" not in str(there.document.metadata)
    with pytest.raises(NotFound):
        await elsewhere.read_original(document.document.document_id)


async def test_a_fact_that_was_there_before_its_source_was_protected_moves_along(
    memory: Memory, elsewhere: Memory
) -> None:
    fact = await agent_of(memory).remember_fact(RULE)
    await memory.add_source("handbook")
    await memory.add_document("guide.md", text=f"# Travel\n\n{RULE}", source="handbook")
    (source,) = await memory.list_sources()
    await memory.protect_source(source.source_id)
    exported = await lines_of(memory)
    for _ in range(2):
        await elsewhere.import_export(exported)
    assert (await elsewhere.get_item(fact.id)).kind == Kind.FACT
    (there,) = await elsewhere.list_protected_sources()
    assert there.texts == 1 and there.protected_at < datetime.now(UTC) + timedelta(minutes=1)
