"""A fact that changes: its history, a question as of a date; then forgetting, exporting and erasing.

python examples/08_change_and_forget.py
"""

import asyncio
import json
from datetime import UTC, datetime

from recordari import Memory


async def where(memory: Memory, **more: datetime) -> str:
    answer = await memory.recall("Where does Ana work?", source_kinds=["fact"], top_k=1, **more)
    return answer.items[0].content if answer.items else "nothing"


async def main() -> None:
    async with Memory.open() as memory:
        ana = memory.acting_as(user="ana")
        await ana.remember_fact("Ana works at Acme", event_time=datetime(2024, 3, 1, tzinfo=UTC))
        before = datetime.now(UTC)
        newer = await ana.remember_fact("Ana works at Globex")

        # A job compares the new fact with known ones: the later statement ends the earlier one.
        for _ in range(100):
            if len(await ana.item_history(newer.id)) == 2:
                break
            await asyncio.sleep(0.1)
        print("now:", await where(ana))
        print("as of before:", await where(ana, as_of=before))  # what memory believed then
        for version in await ana.item_history(newer.id):
            until = version.invalid_at.date() if version.invalid_at else "today"
            print(f"history: {version.content}, from {version.valid_at.date()} until {until}")

        # Forgetting removes the item and everything derived from it. Preview it first.
        secret = await ana.remember_fact("Ana's locker code is 4711")
        print("would forget:", len((await ana.forget(secret.id, dry_run=True)).item_ids), "item")
        await ana.forget(secret.id, reason="asked by Ana")
        texts = [item.content for item in (await ana.recall("locker code")).items]
        print("still there:", any("4711" in text for text in texts))

        # Export everything about a person, then erase it.
        lines = [json.loads(line) async for line in memory.export(user_id="ana")]
        print("exported lines:", len(lines))
        done = await memory.erase_user("ana")
        print("erased:", done.finished_at is not None, "left:", await where(ana))

        # The audit records the actions and no content.
        print("audit:", [entry.action for entry in await memory.list_audit(limit=3)])


asyncio.run(main())
