"""Everything derived can be derived again, and one sees how far it is (R6)."""

from __future__ import annotations

from tests.working import work_off

from recordari.app import Memory
from recordari.memory import vector_storage
from recordari.memory.rules import Entity, EntityKind


async def entity_hits(memory: Memory, question: str) -> set[int]:
    """How many items the names of a question find, in the process and in the database."""
    traces = [
        (await memory.recall(question, explain=True)).trace,
        (await memory.recall(question, explain=True, include_superseded=True)).trace,
    ]
    assert [trace["searched_in"] for trace in traces if trace is not None] == ["process", "database"]
    return {trace["candidates"]["entity"] for trace in traces if trace is not None}


async def test_reindexing_takes_names_back_that_are_not_there(memory: Memory) -> None:
    ana = memory.acting_as(user="ana")
    kept = await ana.remember_fact("The review is run by Priya Nair")
    await work_off(ana)
    async with memory.resources.database.transaction(memory.identity) as tx:
        await vector_storage.save_entities(tx, [(kept.id, Entity(EntityKind.NAME, "Rosa Falk"))])
    assert 1 in await entity_hits(ana, "What about Rosa Falk?")
    assert await memory.reindex() == 1
    await work_off(ana)
    assert await entity_hits(ana, "What about Rosa Falk?") == {0}
    assert await entity_hits(ana, "What about Priya Nair?") == {1}


async def test_the_figures_say_how_far_the_move_to_another_model_is(memory: Memory) -> None:
    await memory.acting_as(user="ana").remember_fact("The review is run by Priya Nair")
    await work_off(memory)
    async with memory.resources.database.transaction(memory.identity) as tx:
        active = (await vector_storage.find_models(tx)).active
        await vector_storage.aim_at_model(tx, "another-model")
    stats = await memory.memory_stats()
    assert stats.embedding_model == active and stats.reembedding is not None
    assert (stats.reembedding.model_id, stats.reembedding.done, stats.reembedding.total) == ("another-model", 0, 1)
    moved = await memory.reembed()
    assert (moved.done, moved.total, moved.switched) == (1, 1, True)
    assert (await memory.memory_stats()).reembedding is None
