"""What is known of a tenant is renewed behind the calls that use it, and before a call that comes much later.

How rare words are, and which model finds by meaning, is known well enough at every moment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from tests.working import work_off

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Scope
from recordari.core.items import Kind, NewItem
from recordari.db.queries import Query
from recordari.errors import DatabaseUnavailable
from recordari.memory import tenant_view, vector_storage
from recordari.memory.tenant_view import MODEL_SECONDS, TenantView, TenantViews
from recordari.models.base import Embedder, Matrix, Vector
from recordari.models.embedding import Embedders
from recordari.wiring import open_resources

MOVE = Query("tests.move", "Begins a move to another model.", "UPDATE tenants SET embedding_target = 'another'")


class Renamed:
    """The same model under another name."""

    def __init__(self, behind: Embedder, model_id: str) -> None:
        self._behind = behind
        self.model_id = model_id
        self.dimensions = behind.dimensions

    async def embed_query(self, text: str) -> Vector:
        return await self._behind.embed_query(text)

    async def embed_passages(self, texts: Sequence[str]) -> Matrix:
        return await self._behind.embed_passages(texts)

    async def close(self) -> None:
        await self._behind.close()


def knowing(memory: Memory, model_id: str) -> Memory:
    """The same memory in a process that can also embed with another model."""
    primary = memory.resources.embedders.primary
    assert primary is not None
    embedders = Embedders(primary, lambda name: cast("Embedder", Renamed(primary, name)) if name == model_id else None)
    return Memory(replace(memory.resources, embedders=embedders), memory.identity)


async def look(memory: Memory) -> TenantView:
    return await memory.resources.get(TenantViews).get(memory.resources.database, memory.identity)


async def test_a_view_that_is_due_answers_once_more_and_is_renewed_behind(memory: Memory) -> None:
    before = await look(memory)
    await memory.remember("The ferry leaves at nine", kind="fact", scope="tenant")
    before.looked_at = time.monotonic()  # however long that took
    assert await look(memory) is before, "it is not due yet"
    before.looked_at = time.monotonic() - 1.01 * before.lasts
    assert await look(memory) is before
    await memory.resources.get(TenantViews).close()
    after = await look(memory)
    assert (before.items, after.items) == (0, 1)


async def test_a_view_that_is_overdue_is_renewed_first_and_once_for_all_who_wait(memory: Memory) -> None:
    before = await look(memory)
    await memory.remember("The ferry leaves at nine", kind="fact", scope="tenant")
    before.looked_at -= 2 * before.lasts
    first, *others = await asyncio.gather(*(look(memory) for _ in range(5)))
    assert first.items == 1 and all(one is first for one in others)


async def test_a_large_tenant_is_counted_item_by_item_only_after_it_has_grown(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_view, "COUNTED_ANEW", 30)
    views = [await look(memory)]
    for more in (40, 1, 20):
        texts = [f"Ferry {number} of {more} leaves at nine" for number in range(more)]
        await memory.remember_many([NewItem(content=text, kind=Kind.FACT, scope=Scope.TENANT) for text in texts])
        views[-1].looked_at -= 2 * views[-1].lasts
        views.append(await look(memory))
    _, first, little, much = views
    assert [view.items for view in views] == [0, 40, 41, 61]
    assert little.read is first.read and much.read.items == 61


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
    known.looked_at = time.monotonic() - 1.01 * known.lasts
    assert await views.get(database, memory.identity) is known
    await views.close()
    known.looked_at -= known.lasts
    with pytest.raises(DatabaseUnavailable):
        await views.get(database, memory.identity)


async def test_a_word_that_becomes_common_little_by_little_is_common(memory: Memory) -> None:
    ana = memory.acting_as(user="ana")
    await ana.remember_many([NewItem(content=f"note {number} about plums", scope=Scope.USER) for number in range(100)])
    views, database = memory.resources.get(TenantViews), memory.resources.database
    views.forget_tenant(memory.identity.tenant_id)
    assert (await views.with_terms(database, memory.identity, ["quinc"])).frequencies["quinc"] == 0
    for start in range(0, 60, 4):  # each time fewer than would make a difference by themselves
        news = [NewItem(content=f"note {start + number} about quinces", scope=Scope.USER) for number in range(4)]
        await ana.remember_many(news)
        view = await look(memory)
        view.looked_at -= 3 * view.lasts
        await look(memory)
    assert (await views.with_terms(database, memory.identity, ["quinc"])).frequencies["quinc"] >= 50


async def test_how_rare_a_word_is_does_not_depend_on_who_asked_last(memory: Memory) -> None:
    plain = memory.bound(Identity(tenant_id=memory.identity.tenant_id))
    ana, bob = plain.acting_as(user="ana"), plain.acting_as(user="bob")
    await ana.remember_many([NewItem(content=f"note {number} about plums", scope=Scope.USER) for number in range(9)])
    await bob.remember_many([NewItem(content=text, scope=Scope.USER) for text in ("a plum tree", "a note")])
    for who in (ana, bob, memory):
        memory.resources.forget_tenant(memory.identity.tenant_id)
        view = await memory.resources.get(TenantViews).with_terms(memory.resources.database, who.identity, ["plum"])
        assert (view.items, view.distinct_items, view.frequencies["plum"]) == (11, 11, 10)


@pytest.mark.parametrize("age", [0.5, 1.5], ids=["known well", "due"])
async def test_a_process_soon_finds_by_the_model_that_another_has_moved_the_tenant_to(
    memory: Memory, settings: Settings, age: float
) -> None:
    here = knowing(memory, "another").acting_as(user="ana")
    await here.remember_many([NewItem(content=text, scope=Scope.USER) for text in ("The puppy slept", "It rained")])
    await work_off(memory, "embed")
    view = await look(here)
    view.items = 300_000  # a large tenant, where counting again takes long
    async with open_resources(settings) as elsewhere:
        await knowing(Memory(elsewhere, memory.identity), "another").reembed(model_id="another")
    view.model_looked_at -= 2 * MODEL_SECONDS
    view.looked_at -= view.lasts * age
    answer = await here.recall("a dog", explain=True)
    assert answer.trace is not None
    assert answer.trace["model_id"] == "another" and answer.trace["candidates"]["vector"] == 2


async def test_what_is_embedded_first_while_a_tenant_is_moved_does_not_finish_the_move(memory: Memory) -> None:
    here = knowing(memory, "another")
    await here.acting_as(user="ana").remember_many([NewItem(content="The puppy slept", scope=Scope.USER)] * 2)
    async with memory.resources.database.transaction(memory.identity) as tx:
        assert await tx.run(MOVE)
    await work_off(here, "embed")
    async with memory.resources.database.transaction(memory.identity) as tx:
        models = await vector_storage.find_models(tx)
    primary = memory.resources.embedders.primary
    assert primary is not None and (models.active, models.target) == (primary.model_id, "another")


async def test_of_a_large_tenant_a_part_is_counted_and_the_rest_is_of_the_same_sort(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = memory.acting_as(user="ana")
    await ana.remember_many(
        [NewItem(content=f"The ferry number {number} leaves at noon.", scope=Scope.USER) for number in range(12)]
    )
    views = memory.resources.get(TenantViews)
    views.forget_tenant(memory.identity.tenant_id)
    whole = await look(memory)
    monkeypatch.setattr(tenant_view, "MOST_COUNTED", 5)
    views.forget_tenant(memory.identity.tenant_id)
    part = await look(memory)
    assert (part.items, part.distinct_items) == (whole.items, whole.distinct_items) == (12, 12)
    assert part.read.items == 12 and part.mean_length == pytest.approx(whole.mean_length, rel=0.2)
