"""Ending facts on a real database: at once or not at all, in any order of arrival, and never by a judge that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.stored import rows
from tests.working import settled

from recordari.app import Memory
from recordari.core.identity import Identity, Role
from recordari.core.items import Item, Kind
from recordari.errors import Conflict, NotFound
from recordari.facts import judge
from recordari.facts import storage as facts_storage
from recordari.facts.language import LLM, OfflineRules
from recordari.facts.rules.conflict import Ruling, Statement, Verdict
from recordari.facts.rules.extraction import ExtractedFact
from recordari.facts.rules.learning import Learning
from recordari.memory.rules import Retirement
from recordari.memory.versions import retire
from recordari.recall.request import Arm
from recordari.tenants import tenants
from recordari.wiring import make_embedders

JANUARY = datetime(2026, 1, 10, tzinfo=UTC)
END_ALL = Ruling(verdict=Verdict.SUPERSEDE, rule="test")


@pytest.fixture
def ana(memory: Memory) -> Memory:
    return memory.acting_as(user="ana")


async def fact(memory: Memory, content: str, *, day: int = 0, **more: Any) -> UUID:
    return (await memory.remember_fact(content, event_time=JANUARY + timedelta(days=day), **more)).id


async def live(memory: Memory) -> set[str]:
    return {item.content for item in (await memory.list_items(kinds=[Kind.FACT], limit=200)).items}


async def judged(memory: Memory, item_ids: Sequence[UUID]) -> bool:
    """Whether the judge has nothing left to do for these."""
    async with memory.resources.database.transaction(memory.identity) as tx:
        return not await facts_storage.facts_to_judge(tx, item_ids)


class Judge(OfflineRules):
    """A judge that answers as told."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    @property
    def name(self) -> str:
        return "told"

    async def judge(self, statement: Statement, others: Sequence[Statement]) -> Sequence[Ruling]:
        answer = self._answer(others)
        if isinstance(answer, Exception):
            raise answer
        if answer == "hang":
            await asyncio.sleep(3600)
        return answer  # type: ignore[no-any-return]


def told(memory: Memory, answer: Any) -> Memory:
    return Memory(memory.resources.replacing(LLM, Judge(answer)), memory.identity)


FAILURES = {
    "raises": lambda others: RuntimeError("no model"),
    "hangs": lambda others: "hang",
    "says nothing": lambda others: None,
    "says too little": lambda others: [],
    "says too much": lambda others: [END_ALL] * (len(others) + 1),
    "says words": lambda others: ["SUPERSEDE"] * len(others),
    "says yes": lambda others: [True] * len(others),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
async def test_a_judge_that_fails_ends_nothing_and_is_not_asked_again(
    ana: Memory, failure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "JUDGE_SECONDS", 0.2)
    broken = told(ana, failure)
    ids = [await fact(broken, "Ana lives in Berlin"), await fact(broken, "Ana lives in Lisbon", day=1)]
    await settled(broken)
    assert await live(ana) == {"Ana lives in Berlin", "Ana lives in Lisbon"}
    assert await judged(ana, ids)


async def test_an_extractor_that_fails_leaves_the_work_to_the_rules(ana: Memory) -> None:
    class Broken(OfflineRules):
        async def extract(
            self, text: str, *, speaker: str | None, at: datetime | None, learning: Learning
        ) -> Sequence[ExtractedFact]:
            raise RuntimeError("no model")

    broken = Memory(ana.resources.replacing(LLM, Broken()), ana.identity).acting_as(session="s")
    await broken.remember("I live in Lisbon with two cats.", speaker="Ana")
    await settled(broken)
    assert await live(ana) == {"Ana lives in Lisbon with two cats."}


async def test_one_write_ends_a_bounded_number_of_facts(ana: Memory) -> None:
    for number in range(5):
        await fact(ana, f"the river bank is green, says witness {number}", day=number)
    await settled(ana)
    eager = told(ana, lambda others: [END_ALL] * len(others))
    await fact(eager, "the river bank is green, says witness 9", day=9)
    await settled(eager)
    assert len(await live(ana)) == 6 - judge.MOST_RETIRED


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2)])
async def test_the_line_is_the_same_in_whatever_order_its_facts_arrive(ana: Memory, order: tuple[int, ...]) -> None:
    cities = ["Berlin", "Lisbon", "Lund"]
    ids: dict[int, UUID] = {}
    for number in order:
        ids[number] = await fact(ana, f"Ana lives in {cities[number]}", day=number * 10)
        await settled(ana)
    assert await live(ana) == {"Ana lives in Lund"}
    versions = await ana.item_history(ids[2])
    assert [version.item_id for version in versions] == [ids[0], ids[1], ids[2]]
    assert [version.superseded_by for version in versions] == [ids[1], ids[2], None]
    ends = [version.invalid_at for version in versions]
    assert ends == [JANUARY + timedelta(days=10), JANUARY + timedelta(days=20), None]


async def test_facts_that_arrive_together_are_judged_like_facts_that_arrive_one_by_one(ana: Memory) -> None:
    for number, city in enumerate(["Berlin", "Lisbon", "Lund", "Rome"]):
        await fact(ana, f"Ana lives in {city}", day=number)
    await settled(ana)
    assert await live(ana) == {"Ana lives in Rome"}


async def test_a_retired_fact_has_no_live_vector_and_comes_back_whole(ana: Memory) -> None:
    old, new = await fact(ana, "Ana lives in Berlin"), await fact(ana, "Ana lives in Lisbon", day=1)
    await settled(ana)

    async def found(query: str) -> list[UUID]:
        answer = await ana.recall(query, scope="user", arms=frozenset({Arm.VECTOR}))
        return [item.id for item in answer.items]

    assert await found("the city Ana has her home in") == [new]
    await ana.invalidate_item(new)
    await ana.restore_item(old)
    assert await found("the city Ana has her home in") == [old]


async def test_concurrent_retirements_end_a_fact_once(ana: Memory) -> None:
    old = await fact(ana, "the old way")
    successors = [await fact(ana, f"the new way {number}", day=number + 1) for number in range(6)]

    async def end(successor: UUID) -> int:
        async with ana.resources.database.transaction(ana.identity) as tx:
            done = await retire(
                tx,
                [Retirement(item_id=old, superseded_by=successor, invalid_at=JANUARY + timedelta(days=9), rule="t")],
                judge="test",
            )
        return len(done)

    assert sum(await asyncio.gather(*(end(one) for one in successors))) == 1
    entries = await ana.list_audit(subject_kind="item", subject_id=str(old))
    assert [one.action for one in entries] == ["fact.supersede"]


async def test_a_failed_transaction_ends_nothing(ana: Memory) -> None:
    old, new = await fact(ana, "the old way"), await fact(ana, "the new way", day=1)
    with pytest.raises(RuntimeError):
        async with ana.resources.database.transaction(ana.identity) as tx:
            ended = Retirement(item_id=old, superseded_by=new, invalid_at=JANUARY, rule="t")
            assert await retire(tx, [ended], judge="test")
            raise RuntimeError("after the change, before the commit")
    assert await live(ana) == {"the old way", "the new way"}
    assert await ana.list_audit(subject_kind="item", subject_id=str(old)) == []


async def test_without_an_embedder_facts_of_one_subject_and_predicate_are_still_judged(memory: Memory) -> None:
    settings = memory.resources.settings.model_copy(update={"embedding_provider": "none"})
    blind = Memory(
        replace(memory.resources, settings=settings, embedders=make_embedders(settings)), memory.identity
    ).acting_as(user="ana")
    claim: dict[str, Any] = {"subject": "ana", "predicate": "lives_in"}
    await fact(blind, "Ana has her home in Berlin", object="Berlin", **claim)
    await fact(blind, "Ana has her home in Lisbon", day=1, object="Lisbon", **claim)
    await settled(blind)
    assert await live(blind) == {"Ana has her home in Lisbon"}


async def test_extraction_runs_once_for_a_message_however_often_it_is_indexed(memory: Memory, ana: Memory) -> None:
    chat = ana.acting_as(session="s")
    await chat.remember("I live in Lisbon with two cats.", speaker="Ana")
    await settled(chat)
    (found,) = (await chat.list_items(kinds=[Kind.FACT])).items
    await memory.reindex()
    await settled(chat)
    assert [item.item_id for item in (await chat.list_items(kinds=[Kind.FACT])).items] == [found.item_id]


async def test_an_older_statement_that_is_repeated_late_changes_nothing(ana: Memory) -> None:
    chat = ana.acting_as(session="s")
    for day, city in ((0, "Berlin"), (5, "Lisbon")):
        await chat.remember(f"I live in {city} these days.", speaker="Ana", event_time=JANUARY + timedelta(days=day))
        await settled(chat)
    await chat.remember("I live in Berlin these days.", speaker="Ana", event_time=JANUARY + timedelta(days=2))
    await settled(chat)
    assert await live(ana) == {"Ana lives in Lisbon these days."}


@pytest.mark.parametrize("is_row_left", [True, False], ids=["its row is left", "its row is gone"])
async def test_an_edit_does_not_bring_back_a_text_that_was_forgotten(ana: Memory, *, is_row_left: bool) -> None:
    gone, kept = await fact(ana, "Ana keeps okapis"), await fact(ana, "Ana keeps bees")
    await ana.forget(gone)
    if not is_row_left:
        assert rows(ana.resources.settings, "DELETE FROM items WHERE item_id = %s RETURNING 1", gone)
    with pytest.raises(Conflict, match="was forgotten"):
        await ana.edit_item(kept, "Ana keeps okapis")
    assert await live(ana) == {"Ana keeps bees"}
    assert (await ana.remember_fact("Ana keeps okapis")).was_new
    assert await live(ana) == {"Ana keeps bees", "Ana keeps okapis"}


async def test_ids_of_another_tenant_answer_like_missing_ones(ana: Memory) -> None:
    kept = await fact(ana, "the old way")
    other = await tenants.ensure_tenant(ana.resources, "other")
    stranger = ana.bound(Identity(tenant_id=other.tenant_id, role=Role.ADMIN))
    asked: list[Any] = [
        stranger.item_history(kept),
        stranger.item_provenance(kept),
        stranger.edit_item(kept, "another way"),
        stranger.invalidate_item(kept),
        stranger.restore_item(kept),
        stranger.pin_item(kept),
        stranger.give_feedback(kept, "wrong"),
    ]
    for one in asked:
        with pytest.raises(NotFound):
            await one
    assert (await stranger.list_items()).items == ()
    assert isinstance(await ana.get_item(kept), Item)
