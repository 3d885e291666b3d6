"""The counts of a tenant are kept by every write, and are those that a look at every item would find."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from tests.stored import rows
from tests.working import work_off

from recordari.app import Memory
from recordari.core.identity import Scope
from recordari.core.items import Kind, NewItem
from recordari.sessions.rules.window import NewMessage
from recordari.tenants import usage
from recordari.tenants.usage import FOLD_WRITES, Usages

KEPT = """
    SELECT day, kind, tier, scope, state, sum(items) AS items, sum(bytes) AS bytes, sum(pinned) AS pinned
    FROM item_counts WHERE tenant_id = %s GROUP BY 1, 2, 3, 4, 5
    HAVING sum(items) <> 0 OR sum(bytes) <> 0 OR sum(pinned) <> 0 ORDER BY 1, 2, 3, 4, 5"""
SEEN = """
    SELECT (created_at AT TIME ZONE 'UTC')::date AS day, kind, tier, scope,
        CASE WHEN anonymized_at IS NOT NULL THEN 'forgotten' WHEN deleted_at IS NOT NULL THEN 'deleted'
            WHEN superseded_by IS NOT NULL THEN 'superseded' WHEN invalid_at IS NOT NULL THEN 'invalid'
            WHEN archived_at IS NOT NULL THEN 'archived' ELSE 'live' END AS state,
        count(*) AS items, sum(octet_length(content)) AS bytes, count(pinned_at) AS pinned
    FROM items WHERE tenant_id = %s GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5"""


def differences(memory: Memory) -> list[dict[str, Any]]:
    """What is counted otherwise than a look at every item finds."""
    settings, tenant = memory.resources.settings, memory.identity.tenant_id
    kept, seen = rows(settings, KEPT, tenant), rows(settings, SEEN, tenant)
    assert seen
    return [row for row in kept + seen if (row in kept) != (row in seen)]


async def _change_everything(memory: Memory) -> None:
    ana = memory.acting_as(user="ana", agent="support", session="chat")
    facts = [
        (await ana.remember_fact(text, scope="user")).id
        for text in ("Ana keeps bees", "Ana sails", "Ana owns a kayak", "Ana fears wasps", "Ana sings alto")
    ]
    await ana.add_messages([NewMessage(content="The honey is ready"), NewMessage(content="Shall I bring some?")])
    await ana.edit_item(facts[0], "Ana keeps bees and hens")
    await memory.invalidate_item(facts[1])
    await memory.restore_item(facts[1])
    await memory.invalidate_item(facts[2])
    await ana.pin_item(facts[3])
    await ana.forget(facts[4])
    for text in ("# Hives\n\nClean them in March.", "# Hives\n\nClean them in April, on a warm day."):
        document = await memory.add_document("hives.md", text.encode())
    await memory.add_document("swarms.md", b"# Swarms\n\nCall the club.")
    await memory.delete_document(document.document.document_id)
    await work_off(memory)
    rows(
        memory.resources.settings,
        "UPDATE items SET archived_at = now() WHERE kind = 'chat_message' AND tenant_id = %s RETURNING 1",
        memory.identity.tenant_id,
    )


async def test_counts_follow_every_change(memory: Memory) -> None:
    await _change_everything(memory)
    assert differences(memory) == []
    stats = await memory.memory_stats()
    assert stats.by_state.keys() == {"live", "superseded", "invalid", "archived", "forgotten"}
    assert stats.pinned == 1 and stats.by_kind["fact"] == 3 and stats.by_state["archived"] == 2
    (today,) = (await memory.memory_activity()).days
    assert today.new["fact"] == 6, "of each day, whatever became of them"
    assert stats.quota.usage.items == stats.items - sum(
        row["items"]
        for row in rows(memory.resources.settings, KEPT, memory.identity.tenant_id)
        if row["state"] == "forgotten"
    )


async def test_counts_stay_right_while_they_are_folded_and_counted_anew(memory: Memory) -> None:
    """Writers, sums of what they counted, and a count of everything, all at the same time."""
    usages = memory.resources.get(Usages)
    now = datetime.now(UTC)

    async def write(number: int) -> None:
        for part in range(4):
            news = [
                NewItem(content=f"note {number} {part} {each}", kind=Kind.FACT, scope=Scope.TENANT)
                for each in range(FOLD_WRITES // 10)
            ]
            await memory.remember_many(news)
            await usages.flush()

    async def count_anew() -> None:
        for _ in range(6):
            await usages.recount(memory.identity, now=now)

    await asyncio.gather(*(write(number) for number in range(4)), count_anew())
    assert differences(memory) == []
    assert (await memory.memory_stats()).items == 16 * (FOLD_WRITES // 10)
    (kept,) = rows(memory.resources.settings, "SELECT max(items) FROM item_counts")
    assert kept["max"] > FOLD_WRITES // 10, "sums took the place of what each write counted"


async def test_a_count_that_went_astray_is_mended_by_the_daily_job(memory: Memory) -> None:
    await memory.remember_fact("The kiln is hot", scope="tenant")
    rows(memory.resources.settings, "UPDATE item_counts SET items = 7 RETURNING 1")
    assert differences(memory)
    await usage.measure(memory.resources, memory.identity)
    assert differences(memory) == []
    assert (await memory.quota_usage()).usage.items == 1
