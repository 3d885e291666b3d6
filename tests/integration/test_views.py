"""What is known of a tenant is renewed behind the calls that use it, and before a call that comes much later."""

from __future__ import annotations

import asyncio

import pytest

from recollect.app import Memory
from recollect.errors import DatabaseUnavailable
from recollect.service.views import TenantView, TenantViews


async def look(memory: Memory) -> TenantView:
    return await memory.resources.views.get(memory.resources.database, memory.identity)


async def test_a_view_that_is_due_answers_once_more_and_is_renewed_behind(memory: Memory) -> None:
    before = await look(memory)
    await memory.remember("The ferry leaves at nine", kind="fact", scope="tenant")
    assert await look(memory) is before, "it is not due yet"
    before.looked_at -= before.lasts
    assert await look(memory) is before
    await memory.resources.views.close()
    after = await look(memory)
    assert (before.items, after.items) == (0, 1)


async def test_a_view_that_is_overdue_is_renewed_first_and_once_for_all_who_wait(memory: Memory) -> None:
    before = await look(memory)
    await memory.remember("The ferry leaves at nine", kind="fact", scope="tenant")
    before.looked_at -= 2 * before.lasts
    first, *others = await asyncio.gather(*(look(memory) for _ in range(5)))
    assert first.items == 1 and all(one is first for one in others)


async def test_what_was_read_before_a_change_is_not_kept(memory: Memory) -> None:
    reading = asyncio.create_task(look(memory))
    await asyncio.sleep(0)  # it has begun
    await memory.update_tenant(language="german")
    await reading
    assert (await look(memory)).language == "german"


async def test_without_the_database_an_overdue_view_is_an_error_and_a_due_one_still_answers(memory: Memory) -> None:
    views = TenantViews()
    database = memory.resources.database
    known = await views.get(database, memory.identity)
    await database.close()
    known.looked_at -= known.lasts
    assert await views.get(database, memory.identity) is known
    await views.close()
    known.looked_at -= known.lasts
    with pytest.raises(DatabaseUnavailable):
        await views.get(database, memory.identity)
