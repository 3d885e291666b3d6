"""Import an existing history, stop in the middle, and continue there.

    python examples/02_import_a_history.py

`recordari import FILE.jsonl` and `POST /v1/import` do the same with one JSON object per line.
"""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from recordari import Kind, Memory, NewItem

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TOPICS = ("the garden fence", "a trip to Porto", "the broken dishwasher", "Leo's birthday")


def history(days: int) -> Iterator[NewItem]:
    """A chat of many days. Each message has its own key, so the import can be repeated."""
    for day in range(days):
        for number, topic in enumerate(TOPICS):
            yield NewItem(
                content=f"On day {day + 1} we talked about {topic}.",
                kind=Kind.CHAT_MESSAGE,
                speaker="Ana" if number % 2 else "Ben",
                session_id=f"day-{day + 1}",
                event_time=START + timedelta(days=day, minutes=number),
                source_ref=f"chat/{day + 1}/{number}",
            )


async def main() -> None:
    async with Memory.open(user="ana") as memory:
        first = [kept async for batch in memory.import_items(history(100)) for kept in batch]
        print("imported:", sum(kept.was_new for kept in first))

        # The same again, and more: existing items are skipped.
        again = [kept async for batch in memory.import_items(history(120)) for kept in batch]
        print("read:", len(again), "new:", sum(kept.was_new for kept in again))

        day = memory.acting_as(session="day-7")
        answer = await day.recall("What about the trip?", top_k=1)
        print(answer.items[0].event_time.date(), answer.items[0].content)
        if answer.degraded:
            print("(still embedding; search by words is complete)")


asyncio.run(main())
