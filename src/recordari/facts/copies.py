"""Copies of protected sources: facts that a message would give are left out, and facts that were there before are ended.

The database refuses a copy that is written (`items_leak_guard`). Here is what it cannot decide by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from recordari.core.identity import Identity
from recordari.core.ids import FIRST
from recordari.core.items import COMPARED_FROM, Item
from recordari.db import audit, outbox
from recordari.db.database import Transaction
from recordari.db.outbox import Batch
from recordari.facts import storage
from recordari.kit.resources import Resources
from recordari.memory import storage as memory_storage
from recordari.memory.storage import Row

REASON = "copies a protected source"
PAGE = 100


async def end_copies(resources: Resources, identity: Identity, batch: Batch) -> None:
    """End the facts that copy a source which is protected since. They stay on record, and can be restored when it is not."""
    after = FIRST
    while True:
        async with resources.database.transaction(identity) as tx:
            page = await storage.list_comparable(tx, after=after, least=COMPARED_FROM, limit=PAGE)
            copies = sorted(item_id for item_id, is_copy in page.items() if is_copy)
            for item_id, row in (await memory_storage.lock_items(tx, copies)).items():
                # Also a pinned one: it was an administrator who protected the source.
                if row.invalid_at is None and not row.is_forgotten:
                    await memory_storage.end_item(tx, item_id, resources.clock())
                    await audit.record(tx, "item.invalidate", "item", item_id, reason=REASON)
            if len(page) < PAGE:
                await outbox.done(tx, batch)
                return
        after = max(page)


async def without_copies(tx: Transaction, facts: Sequence[tuple[Row, Item]]) -> list[tuple[Row, Item]]:
    """The facts of messages that may be kept. How many of a message are refused is audited with its id."""
    long = [fact for fact in facts if len(fact[0].item.content) >= COMPARED_FROM]
    numbers = await storage.find_copies(tx, [row.item.content for row, _ in long]) if long else set()
    refused = [long[number] for number in sorted(numbers)]
    for message_id in sorted({source.item_id for _, source in refused}):
        count = sum(source.item_id == message_id for _, source in refused)
        await audit.record(tx, "fact.refuse", "item", message_id, reason=REASON, facts=count)
    ids = {row.item_id for row, _ in refused}
    return [fact for fact in facts if fact[0].item_id not in ids]
