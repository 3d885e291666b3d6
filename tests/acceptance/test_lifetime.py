"""Decay, promotion, the leak guard and quotas, as the designs describe them (T2, T7, F6, F7)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.stored import rows

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.core.items import NewItem
from recordari.errors import InvalidInput, NotFound, QuotaExceeded
from recordari.facts import storage as facts_storage
from recordari.facts.storage import Link
from recordari.kit.resources import Resources
from recordari.recall.accesses import AccessCounts
from recordari.tenants import tenants
from recordari.tenants.usage import Usages

RULE = (
    "The conformity gate refuses every candidate whose evidence is older than thirty days, unless an operator has "
    "confirmed it by hand within the last week."
)


@pytest.fixture
def chat(memory: Memory) -> Memory:
    agent = Identity(tenant_id=memory.identity.tenant_id)
    return memory.bound(agent).acting_as(user="ana", agent="helper", session="chat-1")


def texts(answer: Any) -> list[str]:
    return [item.content for item in answer.items]


def at(memory: Memory, days: float) -> Memory:
    """The memory, so many days from now."""
    clock = lambda: datetime.now(UTC) + timedelta(days=days)  # noqa: E731 - shorter than a function
    return Memory(replace(memory.resources, clock=clock), memory.identity)


# "Items below 0.3 retention score are archived." "7-30 days (Ebbinghaus decay curve)"


async def test_recent_memory_fades_within_seven_to_thirty_days(memory: Memory, chat: Memory) -> None:
    await chat.remember("it rains in Lund", source_ref="m1")
    await chat.remember_fact("Ana lives in Lund")
    assert (await at(memory, 6).decay()).archived == 0
    assert (await at(memory, 31).decay()).archived == 1
    assert [item.content for item in (await memory.list_items(state="archived")).items] == ["it rains in Lund"]
    assert (await memory.list_audit(limit=1))[0].action == "memory.archive"


# "boosted by importance and access count"


async def test_what_is_recalled_fades_later(memory: Memory, chat: Memory) -> None:
    await chat.remember("the printer is on the third floor", source_ref="m1")
    await chat.remember("the canteen serves soup", source_ref="m2")
    later = at(memory, 9)
    asking = Memory(later.resources, chat.identity)
    for _ in range(3):
        assert texts(await asking.recall("where is the printer", top_k=1)) == ["the printer is on the third floor"]
    assert (await at(memory, 13).decay()).archived == 1
    assert [item.content for item in (await memory.list_items(state="archived")).items] == ["the canteen serves soup"]


async def test_recall_writes_no_row_and_its_counts_are_written_together(chat: Memory, settings: Settings) -> None:
    counts = AccessCounts(chat.resources.database, seconds=3_600)  # not by itself, however long the test takes
    chat = Memory(chat.resources.replacing(AccessCounts, counts), chat.identity)
    for number in range(3):
        await chat.remember(f"the printer has tray {number}", source_ref=f"m{number}")
    for _ in range(4):
        await chat.recall("printer tray")
    assert rows(settings, "SELECT FROM access") == []
    assert await counts.flush() == 3
    assert {row["times"] for row in rows(settings, "SELECT times FROM access")} == {4}
    await chat.recall("printer tray", top_k=1)
    await counts.close()
    assert sorted(row["times"] for row in rows(settings, "SELECT times FROM access")) == [4, 4, 5]


async def test_counts_are_written_after_a_while_and_at_the_end(
    resources: Resources, chat: Memory, settings: Settings
) -> None:
    kept = await chat.remember("the printer has a tray")
    counts = AccessCounts(resources.database, seconds=3_600)
    counts.note(chat.identity, [kept.id], now=datetime.now(UTC))
    await counts.close()
    assert rows(settings, "SELECT times FROM access") == [{"times": 1}]


# "Semantic: corroboration-gated promotion"; never from an untrusted carrier without review


async def test_only_corroborated_facts_of_trusted_carriers_are_promoted(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    said = "Ana Lindqvist from Malmö leads the Harbour Project with Erik Berg and reports to Maria Holm every Friday"
    facts = {}
    for name, trust in (("alone", "user"), ("twice", "user"), ("tool", "tool")):
        facts[name] = await chat.remember_fact(f"{said} ({name})", tier="recent", trust=trust)
        for session in ("s1", "s2") if name != "alone" else ("s1",):
            source = await chat.acting_as(session=session).remember(f"{name} {session}", source_ref=f"{name}-{session}")
            async with memory.resources.database.transaction(memory.identity) as tx:
                link = Link(item_id=facts[name].id, source_item_id=source.id, event_time=datetime.now(UTC))
                await facts_storage.insert_links(tx, [link])
    for _ in range(40):
        memory.resources.get(AccessCounts).note(
            memory.identity, [fact.id for fact in facts.values()], now=datetime.now(UTC)
        )
    assert (await memory.decay()).promoted == 1
    tiers = {name: (await memory.get_item(fact.id)).tier for name, fact in facts.items()}
    assert tiers == {"alone": "recent", "twice": "persistent", "tool": "recent"}


# "skip if length(body_text) < 100; reject if max similarity > 0.85 (errcode 23514)"


async def protected(memory: Memory, settings: Settings, text: str = RULE) -> UUID:
    source_id = uuid4()
    chunk = await memory.remember(text, kind="document_chunk", source_ref=f"{source_id}#1")
    rows(settings, "UPDATE items SET source_id = %s WHERE item_id = %s RETURNING 1", source_id, chunk.id)
    await memory.protect_source(source_id)
    return source_id


async def test_a_fact_that_copies_a_protected_document_is_refused(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    assert (await chat.remember_fact(RULE.replace("every", "each"))).was_new, "nothing is protected yet"
    source_id = await protected(memory, settings)
    (source,) = await memory.list_protected_sources()
    assert (source.source_id, source.texts) == (source_id, 1)
    with pytest.raises(InvalidInput, match="copies a protected document"):
        await chat.remember_fact(RULE)
    with pytest.raises(InvalidInput):
        await chat.remember_fact(RULE.replace("thirty", "forty"))
    assert (await chat.remember_fact("Ana is working on how the conformity gate treats old evidence")).was_new
    assert (await chat.remember_fact(RULE[:99])).was_new, "short statements are no copies"
    assert (await chat.remember(RULE, source_ref="said")).was_new, "what was said is not semantic memory"
    await memory.unprotect_source(source_id)
    assert (await chat.remember_fact(RULE)).was_new
    with pytest.raises(NotFound):
        await memory.unprotect_source(source_id)


async def test_the_database_itself_refuses_with_23514(memory: Memory, chat: Memory, settings: Settings) -> None:
    await protected(memory, settings)
    fact = await chat.remember_fact("Ana works on coverage of the gate")
    assert settings.database_url is not None
    with psycopg.connect(settings.database_url.get_secret_value()) as connection:
        connection.execute(f"SET LOCAL app.tenant_id = '{memory.identity.tenant_id}'")
        connection.execute(f"SET LOCAL app.user_id = '{chat.identity.user_id}'")
        with pytest.raises(psycopg.errors.CheckViolation) as refused:
            connection.execute("UPDATE recordari.items SET content = %s WHERE item_id = %s", [RULE, fact.id])
    assert refused.value.sqlstate == "23514"


async def test_protection_ends_with_the_document_and_stays_in_its_tenant(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    await protected(memory, settings)
    other = await tenants.ensure_tenant(memory.resources, "other")
    stranger = memory.bound(Identity(tenant_id=other.tenant_id)).acting_as(user="eve")
    assert (await stranger.remember_fact(RULE)).was_new
    rows(settings, "UPDATE items SET deleted_at = now() WHERE kind = 'document_chunk' RETURNING 1")
    assert (await chat.remember_fact(RULE)).was_new


async def test_a_fact_about_another_source_is_not_compared(memory: Memory, chat: Memory, settings: Settings) -> None:
    await protected(memory, settings)
    fact = await chat.remember_fact("Ana works on coverage of the gate")
    statement = "UPDATE items SET source_id = %s, content = %s WHERE item_id = %s RETURNING 1"
    owner = "SET app.tenant_id = '{}'"
    assert settings.database_owner_url is not None
    with psycopg.connect(settings.database_owner_url.get_secret_value()) as connection:
        connection.execute("SET search_path = recordari, public")
        connection.execute(owner.format(memory.identity.tenant_id))
        assert connection.execute(statement, [uuid4(), RULE, fact.id]).rowcount == 1


# "Quotas per tenant and plan; near the limit a warning, past it a clear refusal."


async def test_a_plan_that_is_used_up_refuses_and_says_what_to_do(memory: Memory, chat: Memory) -> None:
    await tenants.update_tenant(memory.resources, memory.identity, plan="free", settings={"quotas": {"items": 10}})
    await chat.remember_many([NewItem(content=f"note {n}") for n in range(8)])
    standing = await memory.quota_usage()
    assert standing.usage.items == 8 and standing.warnings == ["80% of the quota of items is used"]
    with pytest.raises(QuotaExceeded, match="10 items is used up") as refused:
        await chat.remember_many([NewItem(content=f"more {n}") for n in range(3)])
    assert refused.value.status == 429
    kept = await chat.remember_many([NewItem(content=f"more {n}") for n in range(2)])
    with pytest.raises(QuotaExceeded):
        await chat.remember("one too many")
    await chat.forget(kept[0].id)
    await memory.quota_usage()
    assert (await chat.remember("again one")).was_new


async def test_saying_the_same_again_uses_nothing_up_for_good(memory: Memory, chat: Memory) -> None:
    await tenants.update_tenant(memory.resources, memory.identity, settings={"quotas": {"items": 10}})
    for _ in range(30):
        await chat.remember("the same", source_ref="one")
    assert (await chat.remember("another", source_ref="two")).was_new
    assert (await memory.quota_usage()).usage.items == 2


async def test_processes_learn_of_each_others_writes(memory: Memory, chat: Memory) -> None:
    now = datetime.now(UTC)
    one, other = (Usages(memory.resources.database, seconds=3_600) for _ in range(2))
    for usages in (one, other):
        for _ in range(5):
            await usages.admit(chat.identity, items=1, size=10, now=now)
        await usages.close()
    third = Usages(memory.resources.database)
    _, usage = await third.look(chat.identity, now=now)
    assert usage.writes == 10


async def test_admission_counts_nothing_in_the_database_per_write(
    memory: Memory, chat: Memory, settings: Settings
) -> None:
    await chat.remember("the first write of a tenant is counted")
    await memory.resources.get(Usages).close()
    before = rows(settings, "SELECT measured_at, writes FROM usage")
    usages = Usages(memory.resources.database, seconds=3_600)  # not by itself, however long the test takes
    for number in range(20):
        await usages.admit(chat.identity, items=1, size=number, now=datetime.now(UTC))
    assert rows(settings, "SELECT measured_at, writes FROM usage") == before
    await usages.close()
    assert rows(settings, "SELECT measured_at, writes FROM usage") != before, "it is counted at the end"
