"""Forgetting, erasing a user and retention, as the designs describe them (T4–T6, X3): what is gone stays gone."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.patience import until
from tests.stored import rows
from tests.working import settled

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, Scope
from recordari.core.items import REDACTED, Kind, NewItem
from recordari.db.database import Transaction
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound
from recordari.facts import storage as facts_storage
from recordari.facts.storage import Link
from recordari.lifetime import erase, retain
from recordari.lifetime import storage as lifetime_storage
from recordari.lifetime.journal import journal_file
from recordari.lifetime.rules import DecayOutcome, RetentionPolicy
from recordari.lifetime.storage import ERASED_TABLES
from recordari.sessions.rules.window import MessageRole, NewMessage
from recordari.sessions.summaries import Summariser
from recordari.tenants import tenants
from recordari.tenants.rules import AgentDefinition

YESTERDAY = datetime.now(UTC) - timedelta(days=1)


@pytest.fixture
def chat(memory: Memory) -> Memory:
    agent = Identity(tenant_id=memory.identity.tenant_id)
    return memory.bound(agent).acting_as(user="ana", agent="helper", session="chat-1")


def texts(answer: Any) -> list[str]:
    return [item.content for item in answer.items]


def item_row(settings: Settings, item_id: UUID) -> dict[str, Any]:
    (row,) = rows(settings, "SELECT * FROM items WHERE item_id = %s", item_id)
    return row


def places_of(settings: Settings, *words: str) -> list[str]:
    """Every table and column of both schemas in which one of the words stands, as text or as bytes."""
    columns = rows(
        settings,
        """SELECT n.nspname AS schema_name, c.relname AS table_name, a.attname AS column_name
           FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
           JOIN pg_type t ON t.oid = a.atttypid
           WHERE n.nspname IN ('recordari', 'recordari_queue') AND c.relkind IN ('r', 'p') AND a.attnum > 0
               AND NOT a.attisdropped AND (t.typname IN ('text', 'jsonb', 'json', 'bytea', 'tsvector', 'varchar')
                   OR t.typname LIKE '\\_%%')""",
    )
    found = []
    for column in columns:
        name = f'{column["schema_name"]}."{column["table_name"]}"'
        for word in words:
            written = f'"{column["column_name"]}"::text'
            hits = rows(
                settings,
                f"SELECT FROM {name} WHERE {written} ILIKE %s OR {written} ILIKE %s LIMIT 1",
                f"%{word}%",
                f"%{word.encode().hex()}%",
            )
            if hits:
                found.append(f"{name}.{column['column_name']}: {word}")
    return found


# "The retention worker replaces content with [REDACTED], clears identity and embedding columns, suffixes source_ref with
# |anonymized, sets anonymized_at, and writes a memory.anonymize audit-log event with IDs/reasons only."


async def test_forgetting_leaves_an_empty_row_and_an_audit_with_ids_only(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    kept = await chat.remember_fact(
        "Ana keeps zebrafinches",
        subject="Ana",
        predicate="keeps",
        object="zebrafinches",
        metadata={"pet": "zebrafinch"},
    )
    await settled(memory)
    forgotten = await chat.forget(kept.id)
    assert forgotten.item_ids == (kept.id,)
    row = item_row(settings, kept.id)
    assert row["content"] == REDACTED and row["anonymized_at"] is not None
    assert row["source_ref"].endswith("|anonymized")
    assert [row[name] for name in ("user_id", "agent_id", "speaker", "subject", "predicate", "object")] == [None] * 6
    (entry,) = await memory.list_audit(subject_kind="item", subject_id=str(kept.id))
    assert (entry.action, entry.reason, entry.details) == ("memory.anonymize", "asked", {})
    assert places_of(settings, "zebrafinch") == []


async def test_what_is_forgotten_is_not_recalled_read_or_forgotten_again(memory: Memory, chat: Memory) -> None:
    kept = await chat.remember("the vault code is 8841")
    await settled(memory)
    await chat.forget(kept.id)
    assert texts(await chat.recall("vault code")) == []
    assert texts(await memory.acting_as(session="chat-1").recall("vault code", include_superseded=True)) == []
    for verb in (chat.get_item, chat.forget):
        with pytest.raises(NotFound):
            await verb(kept.id)


async def test_only_what_one_may_see_can_be_forgotten(memory: Memory, chat: Memory) -> None:
    kept = await chat.remember_fact("Ana plays the cello")
    document = await memory.remember("Refunds take five days", kind="document_chunk", source_ref="policy#1")
    with pytest.raises(NotFound):
        await chat.acting_as(user="bob").forget(kept.id)
    with pytest.raises(Forbidden, match="admin"):
        await chat.forget(document.id)
    await memory.forget(document.id)


async def test_a_large_body_goes_with_its_item(memory: Memory, chat: Memory, settings: Settings) -> None:
    in_a_row = await chat.remember("platypus " * 3_000, kind="tool_output", source_ref="call-1")
    in_a_file = await chat.remember("axolotl " * 30_000, kind="tool_output", source_ref="call-2")
    objects = settings.home / "objects"
    assert [path for path in objects.rglob("*") if path.is_file()]
    await chat.forget(in_a_row.id)
    await chat.forget(in_a_file.id)
    assert [path for path in objects.rglob("*") if path.is_file()] == []
    assert places_of(settings, "platypus", "axolotl") == []
    assert in_a_file.payload_key is not None
    with pytest.raises(NotFound):
        await chat.read_tool_output(in_a_file.payload_key)


async def linked(memory: Memory, fact: UUID, *sources: UUID) -> None:
    async with memory.resources.database.transaction(memory.identity) as tx:
        await facts_storage.insert_links(
            tx, [Link(item_id=fact, source_item_id=source, event_time=YESTERDAY) for source in sources]
        )


# "everything derived from a removed item goes with it, to the last derived row" (X3)


async def test_what_rests_on_a_forgotten_item_alone_goes_with_it(memory: Memory, chat: Memory) -> None:
    said = await chat.remember("I moved to Malmö", source_ref="m1", event_time=YESTERDAY)
    said_too = await chat.remember("Malmö is my home now", source_ref="m2", event_time=YESTERDAY)
    only = await chat.remember_fact("Ana moved in spring")
    of_only = await chat.remember_fact("Ana knows about moving")
    both = await chat.remember_fact("Ana lives in Malmö")
    await linked(memory, only.id, said.id)
    await linked(memory, of_only.id, only.id)
    await linked(memory, both.id, said.id, said_too.id)
    forgotten = await chat.forget(said.id)
    assert set(forgotten.item_ids) == {said.id, only.id, of_only.id}
    assert (await chat.get_item(both.id)).content == "Ana lives in Malmö"
    assert both.id in (await chat.forget(said_too.id)).item_ids


async def test_a_fact_cannot_be_derived_from_what_was_forgotten_meanwhile(memory: Memory, chat: Memory) -> None:
    said = await chat.remember("I moved to Malmö", source_ref="m1")
    fact = await chat.remember_fact("Ana lives in Malmö")
    await chat.forget(said.id)
    with pytest.raises(Conflict):
        await linked(memory, fact.id, said.id)


async def test_the_message_after_a_forgotten_one_is_embedded_without_it(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    first = await chat.remember("the surgeon removed my appendix", source_ref="m1")
    second = await chat.remember("it went well", source_ref="m2")
    await settled(memory)
    vector = "SELECT embedding::text AS embedding FROM vectors WHERE item_id = %s"
    (before,) = rows(settings, vector, second.id)
    assert (await chat.forget(first.id)).reembedded == (second.id,)
    assert rows(settings, vector, second.id) == []
    await settled(memory)
    (after,) = rows(settings, vector, second.id)
    assert after != before


async def test_summaries_that_tell_it_are_made_again(memory: Memory, chat: Memory, settings: Settings) -> None:
    said = [
        NewMessage(role=MessageRole.USER, content=f"We decided to use plan {n}.", message_id=f"m{n}") for n in range(4)
    ]
    secret = NewMessage(role=MessageRole.USER, content="We decided to hire Quillfeather.", message_id="secret")
    added = await chat.add_messages([*said, secret])
    await settled(memory)
    assert "Quillfeather" in (await chat.get_session("chat-1")).summary
    assert (await chat.forget(added.messages[-1].id)).summaries_renewed == 1
    assert places_of(settings, "Quillfeather") == []
    await settled(memory)
    summary = (await chat.get_session("chat-1")).summary
    assert "plan 3" in summary and "Quillfeather" not in summary
    assert places_of(settings, "Quillfeather") == []


# "a memory that an action rests on (a link to that action) is never removed" (T4)


async def test_a_memory_that_an_action_rests_on_is_not_forgotten(memory: Memory, chat: Memory) -> None:
    said = await chat.remember("approve the release", source_ref="m1")
    fact = await chat.remember_fact("Ana approved the release")
    await linked(memory, fact.id, said.id)
    await chat.hold(fact.id, "release-7")
    assert [hold.action_id for hold in await chat.list_holds(fact.id)] == ["release-7"]
    for item_id in (fact.id, said.id):
        with pytest.raises(Conflict, match="action rests on"):
            await chat.forget(item_id)
    await memory.release(fact.id, "release-7")
    assert set((await chat.forget(said.id)).item_ids) == {said.id, fact.id}


# What is forgotten does not come back


async def test_a_forgotten_event_never_returns_under_its_reference(memory: Memory, chat: Memory) -> None:
    kept = await chat.remember("order 17 was refunded", source_ref="order-17")
    await chat.forget(kept.id)
    again = await chat.remember("order 17 was refunded", source_ref="order-17")
    assert (again.id, again.was_new) == (kept.id, False)
    assert texts(await chat.recall("order refunded")) == []


async def test_a_forgotten_fact_returns_only_when_it_is_stated_anew(memory: Memory, chat: Memory) -> None:
    kept = await chat.remember_fact("Ana is allergic to peanuts", event_time=YESTERDAY)
    await chat.forget(kept.id)
    late = await chat.remember_fact("Ana is allergic to peanuts.", event_time=YESTERDAY)
    under_another_key = await chat.remember_fact(
        "Ana is allergic to peanuts", event_time=YESTERDAY, source_ref="old-export-5"
    )
    assert not late.was_new and not under_another_key.was_new
    assert late.id == under_another_key.id == kept.id
    assert texts(await chat.recall("peanuts")) == []
    anew = await chat.remember_fact("Ana is allergic to peanuts")
    assert anew.was_new and anew.id != kept.id
    assert texts(await chat.recall("peanuts")) == ["Ana is allergic to peanuts"]


async def test_a_forgotten_document_does_not_return_with_the_next_synchronisation(memory: Memory) -> None:
    kept = await memory.remember("Call Mrs Tannenbaum at home", kind="document_chunk", source_ref="contacts#1")
    await memory.forget(kept.id)
    assert not (
        await memory.remember("Call Mrs Tannenbaum at home", kind="document_chunk", source_ref="contacts#9")
    ).was_new
    assert (await memory.remember("Call the desk", kind="document_chunk", source_ref="contacts#1")).was_new


async def test_reindexing_and_reembedding_do_not_bring_it_back(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    kept = await chat.remember("my doctor is Hollowayne")
    await settled(memory)
    await chat.forget(kept.id)
    await memory.reindex()
    await memory.reembed()
    await settled(memory)
    assert places_of(settings, "hollowayne") == []
    assert rows(settings, "SELECT FROM vectors WHERE item_id = %s", kept.id) == []


async def test_a_vector_that_is_being_made_is_not_saved_for_a_forgotten_item(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    kept = await chat.remember("my doctor is Hollowayne")
    resources = memory.resources
    primary = resources.embedders.primary
    assert primary is not None
    embed = primary.embed_passages

    async def forgets_meanwhile(texts: Any) -> Any:
        made = await embed(texts)
        if any("Hollowayne" in text for text in texts):
            await chat.forget(kept.id)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(primary, "embed_passages", forgets_meanwhile)
        await settled(memory)
    assert rows(settings, "SELECT FROM vectors WHERE item_id = %s", kept.id) == []
    assert places_of(settings, "hollowayne") == []


# Interleavings: forgetting meets work that began before it


class Hesitating:
    """A summariser that lets something happen between reading and writing."""

    name = "hesitating"

    def __init__(self, meanwhile: Any) -> None:
        self._meanwhile = meanwhile

    async def summarise(self, previous: str, said: Any, *, most_tokens: int) -> str:
        written = " ".join([previous, *(one.content for one in said)])
        if self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()
        return written


@pytest.mark.parametrize("summarised_before", [False, True])
async def test_a_summary_in_the_making_does_not_tell_what_is_forgotten_meanwhile(
    memory: Memory, chat: Memory, settings: Settings, summarised_before: bool
) -> None:
    plain = [NewMessage(role=MessageRole.USER, content=f"We decided on plan {n}.") for n in range(5)]
    await chat.add_messages(plain)
    if summarised_before:
        await settled(memory)
    secret = NewMessage(role=MessageRole.USER, content="We decided to hire Quillfeather.")
    added = await chat.add_messages([*plain[:4], secret])

    async def forgets() -> None:
        await chat.forget(added.messages[-1].id)

    hesitating = memory.resources.replacing(Summariser, Hesitating(forgets))
    await settled(Memory(hesitating, memory.identity))
    assert places_of(settings, "Quillfeather") == []
    await settled(memory)
    summary = (await chat.get_session("chat-1")).summary
    assert "plan 4" in summary and "Quillfeather" not in summary


async def test_two_who_forget_the_same_do_it_once(memory: Memory, chat: Memory) -> None:
    kept = await chat.remember_fact("Ana likes tea")
    done = await asyncio.gather(*(chat.forget(kept.id) for _ in range(5)), return_exceptions=True)
    assert sum(not isinstance(one, Exception) for one in done) == 1
    assert all(isinstance(one, NotFound) for one in done if isinstance(one, Exception))
    assert len(await memory.list_audit(subject_kind="item", subject_id=str(kept.id))) == 1


async def test_facts_superseded_while_their_user_is_erased_leave_nothing(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    facts = await chat.remember_many(
        [NewItem(content=f"Quillfeather fact {n}", kind=Kind.FACT, scope=Scope.USER) for n in range(60)]
    )

    async def supersede() -> None:
        for older, newer in itertools.pairwise(facts):
            await asyncio.to_thread(
                rows,
                settings,
                "UPDATE items SET invalid_at = now(), superseded_by = %s WHERE item_id = %s RETURNING 1",
                newer.id,
                older.id,
            )

    await asyncio.gather(memory.erase_user("ana"), supersede())
    assert places_of(settings, "Quillfeather") == []
    assert len(rows(settings, "SELECT FROM items WHERE superseded_by IS NOT NULL")) == 59, "chains hold"


async def test_a_restored_backup_forgets_again(memory: Memory, chat: Memory, settings: Settings) -> None:
    """A backup that is older than the forgetting: the rows are back, and the tombstones are not."""
    fact = await chat.remember_fact("Ana keeps zebrafinches", event_time=YESTERDAY)
    await chat.acting_as(user="bob", session="chat-2").remember("Bob Quillfeather was here", event_time=YESTERDAY)
    backup = [line async for line in memory.export()]
    await chat.forget(fact.id)
    await memory.erase_user("bob")
    journal = journal_file(memory.resources, memory.identity)
    saved = journal.read_text()
    assert "Quillfeather" not in saved and "zebrafinch" not in saved
    # As after a restore: another database, into which the old content comes without any tombstone.
    rows(settings, "WITH gone AS (DELETE FROM tombstones RETURNING 1) SELECT FROM gone")
    rows(settings, "UPDATE tenants SET salt = sha256('other') RETURNING 1")
    rows(settings, "WITH gone AS (DELETE FROM items RETURNING 1) SELECT FROM gone")
    assert (await memory.import_export(backup)).written["item"] == 2
    assert places_of(settings, "zebrafinch") and places_of(settings, "Quillfeather")
    applied = await memory.reapply_erasures()
    assert (applied.items, applied.users) == (1, 1)
    assert places_of(settings, "zebrafinch", "Quillfeather") == []
    assert (await memory.reapply_erasures()).items == 0


# "Per-tenant policy; missing or invalid config falls back to defaults." "30 days for soft-deleted, 90 for superseded"


def at(memory: Memory, days: float) -> Memory:
    """The memory, so many days from now."""
    resources = memory.resources
    return Memory(replace(resources, clock=lambda: datetime.now(UTC) + timedelta(days=days)), memory.identity)


async def end(settings: Settings, item_id: UUID, column: str) -> None:
    rows(settings, f"UPDATE items SET {column} = now() WHERE item_id = %s RETURNING 1", item_id)


async def test_deleted_memory_is_redacted_after_thirty_days_and_superseded_after_ninety(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    deleted = await chat.remember_fact("Ana likes tea")
    superseded = await chat.remember_fact("Ana likes coffee")
    newer = await chat.remember_fact("Ana likes water")
    await end(settings, deleted.id, "deleted_at")
    rows(
        settings,
        "UPDATE items SET invalid_at = now(), superseded_by = %s WHERE item_id = %s RETURNING 1",
        newer.id,
        superseded.id,
    )
    assert (await at(memory, 29).sweep(force=True)).counts[DecayOutcome.ANONYMIZE] == 0
    assert (await at(memory, 31).sweep(force=True)).item_ids[DecayOutcome.ANONYMIZE] == (deleted.id,)
    assert (await at(memory, 89).sweep(force=True)).counts[DecayOutcome.ANONYMIZE] == 0
    assert (await at(memory, 91).sweep(force=True)).item_ids[DecayOutcome.ANONYMIZE] == (superseded.id,)
    row = item_row(settings, superseded.id)
    assert row["content"] == REDACTED
    assert row["superseded_by"] == newer.id, "the chain holds"
    assert (await chat.get_item(newer.id)).content == "Ana likes water"


async def test_a_dry_run_changes_nothing(memory: Memory, chat: Memory, settings: Settings) -> None:
    deleted = await chat.remember_fact("Ana likes tea")
    await end(settings, deleted.id, "deleted_at")
    await memory.set_retention_policy(dry_run=True, deleted_days=7)
    planned = await at(memory, 8).sweep()
    assert planned.dry_run and planned.item_ids[DecayOutcome.ANONYMIZE] == (deleted.id,)
    assert item_row(settings, deleted.id)["content"] == "Ana likes tea"
    assert not (await at(memory, 8).sweep(dry_run=False, force=True)).dry_run
    assert item_row(settings, deleted.id)["content"] == REDACTED


@pytest.mark.parametrize("number", [3, 150])
async def test_a_sweep_of_too_much_at_once_is_refused(
    number: int, memory: Memory, chat: Memory, settings: Settings
) -> None:
    await chat.remember_many([NewItem(content=f"note {n}") for n in range(number)])
    rows(settings, "UPDATE items SET deleted_at = now() RETURNING 1")
    later = at(memory, 31)
    with pytest.raises(Conflict, match=f"{number} of {number}"):
        await later.sweep()
    assert rows(settings, "SELECT count(*) AS n FROM items WHERE anonymized_at IS NOT NULL")[0]["n"] == 0
    await retain.retain(later.resources, later.identity)
    assert [entry.action for entry in await memory.list_audit(limit=1)] == ["retention.refuse"]
    assert (await later.sweep(force=True)).counts[DecayOutcome.ANONYMIZE] == number


async def test_a_policy_that_is_not_valid_falls_back_to_the_defaults(memory: Memory) -> None:
    for wrong in ({"deleted_days": -1}, {"deleted_days": "soon"}, {"unknown": 1}, "nonsense", ["list"]):
        await tenants.update_tenant(memory.resources, memory.identity, settings={"memory_retention": wrong})
        assert await memory.get_retention_policy() == RetentionPolicy()
    with pytest.raises(InvalidInput, match="deleted_days"):
        await memory.set_retention_policy(deleted_days=-1)
    assert (await memory.set_retention_policy(deleted_days=7)).deleted_days == 7
    assert (await memory.get_retention_policy()).deleted_days == 7


async def test_held_memory_is_passed_over_and_persistent_memory_is_never_removed(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    await memory.set_retention_policy(archived_days=10)
    held = await chat.remember("approve the release", source_ref="m1")
    recent = await chat.remember("it rains", source_ref="m2")
    fact = await chat.remember_fact("Ana likes tea")
    await chat.hold(held.id, "release-7")
    for item in (held, recent, fact):
        await end(settings, item.id, "archived_at")
    swept = await at(memory, 11).sweep(force=True)
    assert swept.counts[DecayOutcome.PURGE] == 1 and swept.counts[DecayOutcome.ANONYMIZE] == 1
    assert rows(settings, "SELECT FROM items WHERE item_id = %s", recent.id) == []
    assert item_row(settings, fact.id)["content"] == REDACTED
    assert item_row(settings, held.id)["content"] == "approve the release"


# "Transient tiers inherit lifecycle from their enclosing scope."


async def test_memory_of_a_session_ends_with_it(memory: Memory, chat: Memory, settings: Settings) -> None:
    await chat.open_session("chat-1")
    draft = await chat.remember("a draft of the letter", tier="session", source_ref="d1")
    said = await chat.remember("please write the letter", source_ref="m1")
    await chat.close_session("chat-1")
    assert (await at(memory, 2).sweep(force=True)).item_ids[DecayOutcome.ARCHIVE] == (draft.id,)
    assert texts(await chat.recall("letter")) == ["please write the letter"]
    assert (await at(memory, 32).sweep(force=True)).item_ids[DecayOutcome.PURGE] == (draft.id,)
    assert rows(settings, "SELECT item_id FROM items") == [{"item_id": said.id}]


# Erasing a user


def test_every_table_that_names_a_user_is_known_to_erasure(settings: Settings) -> None:
    found = rows(
        settings,
        """SELECT DISTINCT c.relname AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname IN ('recordari', 'recordari_queue') AND c.relkind IN ('r', 'p')
               AND a.attname IN ('user_id', 'owned_by') AND NOT a.attisdropped""",
    )
    assert {row["name"] for row in found} == ERASED_TABLES


async def test_erasing_a_user_leaves_others_alone_and_the_audit_a_hash(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    await chat.remember_fact("Ana Quillfeather likes tea")
    await chat.add_messages([NewMessage(role=MessageRole.USER, content="Quillfeather is my name")])
    bob = chat.acting_as(user="bob", session="chat-2")
    await bob.remember_fact("Bob likes coffee")
    await bob.add_messages([NewMessage(role=MessageRole.USER, content="I am Bob")])
    await tenants.save_user(memory.resources, memory.identity, "ana", display_name="Ana Quillfeather")
    erased = await memory.erase_user("ana")
    assert erased.finished_at is not None and erased.user_id is None and erased.items >= 2 and erased.sessions == 1
    assert places_of(settings, "Quillfeather") == []
    assert rows(settings, "SELECT user_id FROM users") == [{"user_id": "bob"}]
    assert texts(await bob.recall("Bob likes", scope="user")) == ["Bob likes coffee"]
    assert (await bob.get_session("chat-2")).messages == 1
    saved = [entry for entry in await memory.list_audit() if entry.action == "user.save"]
    assert [entry.subject_id.startswith("erased:") for entry in saved] == [True]
    assert (await erase.get_erasure(memory.resources, memory.identity, erased.erasure_id)) == erased


async def test_an_erased_user_may_begin_anew(memory: Memory, chat: Memory) -> None:
    await chat.remember_fact("Ana likes tea", event_time=YESTERDAY)
    await memory.erase_user("ana")
    assert not (await chat.remember_fact("Ana likes tea", event_time=YESTERDAY)).was_new
    with pytest.raises(NotFound):
        await tenants.get_user(memory.resources, memory.identity, "ana")
    assert (await chat.remember_fact("Ana likes juice")).was_new
    assert texts(await chat.recall("Ana likes", scope="user")) == ["Ana likes juice"]


async def test_a_user_on_whose_memory_actions_rest_is_not_erased(memory: Memory, chat: Memory) -> None:
    kept = await chat.remember_fact("Ana approved the release")
    await chat.hold(kept.id, "release-7")
    with pytest.raises(Conflict, match="release the holds"):
        await memory.erase_user("ana")
    assert (await chat.get_item(kept.id)).content == "Ana approved the release"


async def test_a_write_that_began_before_the_erasure_is_erased_too(
    memory: Memory, chat: Memory, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recordari.memory import remember

    looks: list[bool] = []
    has_older_writers = lifetime_storage.has_older_writers

    async def noted(tx: Transaction, erasure_id: UUID) -> bool:
        looks.append(await has_older_writers(tx, erasure_id))
        return looks[-1]

    monkeypatch.setattr(lifetime_storage, "has_older_writers", noted)
    ready = await remember.make_ready(memory.resources, chat.identity, [NewItem(content="Quillfeather was late")])
    async with memory.resources.database.transaction(chat.identity) as tx:
        await remember.save_ready(tx, ready)
        erasing = asyncio.create_task(memory.erase_user("ana"))
        await until(lambda: erasing.done() or len(looks) > 1)
        assert not erasing.done()
    await erasing
    assert looks[0] and not looks[-1]
    assert places_of(settings, "Quillfeather") == []


async def test_roles_bind_even_here(memory: Memory, chat: Memory, tmp_path: Path) -> None:
    for refused in (chat.erase_user("ana"), chat.sweep(), chat.decay(), chat.reapply_erasures()):
        with pytest.raises(Forbidden, match="admin"):
            await refused
    stranger = memory.bound(
        Identity(tenant_id=(await tenants.ensure_tenant(memory.resources, "other")).tenant_id, role=Role.ADMIN)
    )
    kept = await chat.remember_fact("Ana likes tea")
    with pytest.raises(NotFound):
        await stranger.forget(kept.id)
    await stranger.erase_user("ana")
    assert (await chat.get_item(kept.id)).content == "Ana likes tea"


async def test_an_agent_can_be_deleted_with_its_memories(memory: Memory, chat: Memory, settings: Settings) -> None:
    alone = memory.acting_as(agent="helper", session="nightly")
    other = memory.acting_as(agent="clerk")
    await memory.save_agent("helper", AgentDefinition())
    await chat.remember_fact("Refunds need a receipt", scope="agent")
    await chat.append_episode("Refunded order seven", scope="agent")
    await chat.remember_fact("Ana drinks tea")
    await chat.remember("Where is my parcel?")
    await alone.remember("The nightly count was nine")
    await alone.set_state("cursor", "nine")
    await alone.start_run(run_id="night", input={"look": "nine"})
    await alone.put_entry(("plans",), "tonight", {"count": "nine"}, scope="agent")
    await other.remember_fact("Clerks close at five", scope="agent")
    held = (await chat.list_items(kinds=["fact"])).items[0]
    await memory.hold(held.item_id, "letter-1")
    if held.scope is Scope.AGENT:
        with pytest.raises(Conflict, match="release the holds"):
            await memory.delete_agent("helper", memories=True)
    await memory.release(held.item_id, "letter-1")
    deleted = await memory.delete_agent("helper", memories=True)
    assert deleted.items >= 4 and deleted.sessions == 1
    assert places_of(settings, "receipt", "seven", "nine") == []
    assert texts(await chat.recall("tea")) == ["Ana drinks tea"], "it is the user's own"
    assert texts(await chat.recall("parcel")) == ["Where is my parcel?"]
    assert texts(await other.recall("close at five")) == ["Clerks close at five"]
    with pytest.raises(NotFound):
        await memory.get_agent("helper")
    with pytest.raises(NotFound, match="no such agent"):
        await memory.delete_agent("helper", memories=True)
    assert (await chat.remember_fact("Refunds need a receipt", scope="agent", event_time=YESTERDAY)).id is not None
    assert texts(await chat.recall("receipt")) == [], "an old copy does not come back"


async def test_deleting_only_the_definition_keeps_the_memories(memory: Memory, chat: Memory) -> None:
    await memory.save_agent("helper", AgentDefinition())
    await chat.remember_fact("Refunds need a receipt", scope="agent")
    assert (await memory.delete_agent("helper")).items == 0
    assert texts(await chat.recall("receipt")) == ["Refunds need a receipt"]
