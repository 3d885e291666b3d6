"""Procedural memory: workflows chosen by what came of them (P1), patterns that supersede each other (P2).

"workflow_id, agent_type, task_type, spec TEXT, alpha REAL, beta REAL — Thompson-sampling bandit over workflow specs."
"Procedural: UPDATE with supersession — insert new row active, mark prior superseded_at = now(), superseded_by =
<new_id>; active set query WHERE superseded_at IS NULL."
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from recordari.app import Memory
from recordari.core.identity import Role
from recordari.core.ids import new_id
from recordari.db.queries import Query
from recordari.errors import Conflict, Forbidden, InvalidInput, NotFound, PreconditionFailed
from recordari.learning import workflows as choose_verbs
from recordari.learning.rules.workflows import MAX_SPEC_BYTES, Posterior, Workflow
from recordari.tenants.tenants import ensure_tenant

TASK: dict[str, Any] = {"agent_type": "sdr", "task_type": "first_email"}
SUM = Query("tests.sum", "The exact weight of all posteriors.", "SELECT sum(alpha + beta)::text FROM workflows")
COUNT = Query("tests.choices", "How many choices are recorded.", "SELECT count(*) FROM choices")


async def save(memory: Memory, name: str, **spec: object) -> Workflow:
    return (await memory.save_workflow(name, {"steps": [name], **spec}, **TASK)).workflow


@pytest.fixture
def scores() -> Iterator[float]:
    chance = random.Random(5)
    return iter(lambda: chance.choice([0.0, 0.1, 0.3, 0.7, 1.0]), None)


async def test_choose_samples_from_the_posterior_of_each_workflow(memory: Memory) -> None:
    """The design: “selectWorkflow(tenant_id, agent_type, task_type) — sample from Beta(alpha, beta) per workflow”."""
    good, bad = await save(memory, "direct roi"), await save(memory, "long story")
    for _ in range(12):
        await memory.reward(good, 1.0)
        await memory.reward(bad, 0.0)
    picks = Counter([(await memory.choose("sdr", "first_email", seed=n)).workflow.name for n in range(40)])
    assert picks["direct roi"] >= 38


async def test_an_untried_workflow_is_tried(memory: Memory) -> None:
    for name in ("a", "b", "c"):
        await save(memory, name)
    picks = {(await memory.choose("sdr", "first_email", seed=n)).workflow.name for n in range(40)}
    assert picks == {"a", "b", "c"}


async def test_the_same_seed_chooses_the_same_workflow(memory: Memory) -> None:
    for name in ("a", "b", "c"):
        await save(memory, name)
    picks = [[(await memory.choose("sdr", "first_email", seed=n)).workflow.name for n in range(8)] for _ in range(2)]
    assert picks[0] == picks[1]


async def test_a_choice_is_recorded_with_who_made_it(memory: Memory) -> None:
    await save(memory, "a")
    choice = await memory.acting_as(agent="sdr-7", session="s", run="r").choose("sdr", "first_email")
    assert choice.candidates == 1 and 0 <= choice.sample <= 1
    async with memory.resources.database.transaction(memory.identity) as tx:
        (row,) = await tx.dicts(Query("tests.rows", "The choices.", "SELECT * FROM choices"))
    assert (row["choice_id"], row["workflow_id"]) == (choice.choice_id, choice.workflow.workflow_id)
    assert (row["agent_id"], row["session_id"], row["run_id"]) == ("sdr-7", "s", "r")


async def test_only_workflows_of_that_agent_type_and_task_type_are_chosen(memory: Memory) -> None:
    await save(memory, "a")
    await memory.save_workflow("b", {}, agent_type="sdr", task_type="reply")
    await memory.save_workflow("c", {}, agent_type="ops", task_type="first_email")
    assert {(await memory.choose("sdr", "first_email")).workflow.name for _ in range(10)} == {"a"}
    with pytest.raises(NotFound, match="save one"):
        await memory.choose("sdr", "nothing")


async def test_an_outcome_moves_the_posterior_and_can_be_read(memory: Memory) -> None:
    """The design: “recordOutcome(workflow_id, outcome_score) — update alpha/beta based on outcome”."""
    await save(memory, "a")
    choice = await memory.choose("sdr", "first_email")
    rewarded = await memory.reward(choice, 0.75)
    assert rewarded.was_new and (rewarded.workflow.alpha, rewarded.workflow.beta) == (1.75, 1.25)
    again = await memory.get_workflow(choice.workflow.workflow_id)
    assert again.posterior == Posterior(alpha=1.75, beta=1.25) and again.rewards == 1
    low, high = again.posterior.interval(0.95)
    assert low < again.posterior.mean < high
    (outcome,) = await memory.list_outcomes(again.workflow_id)
    assert (outcome.score, outcome.choice_id) == (0.75, choice.choice_id)


async def test_the_same_outcome_counts_once(memory: Memory) -> None:
    a, b = await save(memory, "a"), await save(memory, "b")
    choice = await memory.choose("sdr", "first_email", seed=1)
    for number in range(3):
        assert (await memory.reward(choice, 0.1 + 0.2)).was_new is (number == 0)
    for number in range(3):
        assert (await memory.reward(a, 1, outcome_id="deal-17")).was_new is (number == 0)
    total = sum(each.rewards for each in await memory.active_workflows("sdr", "first_email"))
    assert total == 2
    with pytest.raises(Conflict, match="outcome_id"):
        await memory.reward(a, 0.5, outcome_id="deal-17")
    with pytest.raises(Conflict, match="outcome_id"):
        await memory.reward(b, 1, outcome_id="deal-17")


async def test_the_same_outcome_sent_at_once_by_many_counts_once(memory: Memory) -> None:
    a = await save(memory, "a")
    sent = await asyncio.gather(*(memory.reward(a, 1.0, outcome_id="deal-17") for _ in range(20)))
    assert sum(each.was_new for each in sent) == 1
    assert (await memory.get_workflow(a.workflow_id)).alpha == 2.0


async def test_two_thousand_rewards_at_once_grow_the_posterior_by_exactly_two_thousand(
    memory: Memory, scores: Iterator[float]
) -> None:
    workflow = await save(memory, "a")
    waiting = iter([next(scores) for _ in range(2_000)])

    async def client() -> None:
        for score in waiting:
            await memory.reward(workflow, score)

    await asyncio.gather(*(client() for _ in range(32)))
    after = await memory.get_workflow(workflow.workflow_id)
    assert after.rewards == 2_000
    async with memory.resources.database.transaction(memory.identity) as tx:
        assert float(await tx.value(SUM)) == 2_002  # the prior Beta(1, 1), and nothing else


async def test_a_new_version_supersedes_the_old_one(memory: Memory) -> None:
    """The design: “insert new row active, mark prior superseded_at = now(), superseded_by = <new_id>”."""
    old = await save(memory, "a", tone="formal")
    await memory.reward(old, 1.0)
    new = await save(memory, "a", tone="short")
    assert (old.version, new.version) == (1, 2) and new.posterior == Posterior()
    newest, before = await memory.workflow_history("sdr", "first_email", "a")
    assert newest.workflow_id == new.workflow_id and newest.is_active and newest.superseded_at is None
    assert before.superseded_by == new.workflow_id and before.superseded_at == new.valid_at
    assert before.alpha == 2.0 and before.spec["tone"] == "formal"
    assert [each.workflow_id for each in await memory.active_workflows("sdr", "first_email")] == [new.workflow_id]
    assert {(await memory.choose("sdr", "first_email")).workflow.version for _ in range(10)} == {2}


async def test_the_same_spec_again_is_the_same_version(memory: Memory) -> None:
    first = await memory.save_workflow("a", {"x": 1, "y": [2]}, **TASK)
    again = await memory.save_workflow("a", {"y": [2], "x": 1}, **TASK)
    assert first.was_new and not again.was_new
    assert again.workflow.workflow_id == first.workflow.workflow_id


async def test_a_retired_workflow_is_never_chosen_and_stays_readable(memory: Memory) -> None:
    a, b = await save(memory, "a"), await save(memory, "b")
    retired = await memory.retire_workflow(a.workflow_id, reason="too pushy")
    assert not retired.is_active and retired.superseded_at is None
    assert {(await memory.choose("sdr", "first_email")).workflow.name for _ in range(10)} == {"b"}
    assert await memory.retire_workflow(a.workflow_id) == retired
    await memory.retire_workflow(b.workflow_id)
    with pytest.raises(NotFound):
        await memory.choose("sdr", "first_email")
    assert [each.name for each in await memory.list_workflows(also_ended=True)] == ["a", "b"]
    assert await memory.list_workflows() == []
    # The name can be used again, and its versions count on.
    assert (await save(memory, "a")).version == 2


async def test_an_outcome_that_comes_late_still_teaches_the_version_it_is_of(memory: Memory) -> None:
    old = await save(memory, "a")
    choice = await memory.choose("sdr", "first_email")
    new = await save(memory, "a", tone="short")
    await memory.reward(choice, 1.0)
    assert (await memory.get_workflow(old.workflow_id)).rewards == 1
    assert (await memory.get_workflow(new.workflow_id)).rewards == 0
    with pytest.raises(Conflict, match="superseded"):
        await memory.retire_workflow(old.workflow_id)


async def test_of_versions_saved_at_once_one_is_active_and_none_is_lost(memory: Memory) -> None:
    await asyncio.gather(*(save(memory, "a", number=number) for number in range(7)))
    history = await memory.workflow_history("sdr", "first_email", "a")
    assert [each.version for each in history] == list(range(7, 0, -1))
    assert [each.is_active for each in history] == [True] + [False] * 6
    assert {each.superseded_by for each in history[1:]} == {each.workflow_id for each in history[:-1]}


async def test_a_version_can_be_expected(memory: Memory) -> None:
    await memory.save_workflow("a", {"v": 1}, **TASK, expected_version=0)
    with pytest.raises(PreconditionFailed):
        await memory.save_workflow("a", {"v": 2}, **TASK, expected_version=0)
    await memory.save_workflow("a", {"v": 2}, **TASK, expected_version=1)


async def test_the_history_of_outcomes_is_read_in_pages(memory: Memory) -> None:
    workflow = await save(memory, "a")
    for number in range(5):
        await memory.reward(workflow, number / 4, outcome_id=f"o{number}")
    first = await memory.list_outcomes(workflow.workflow_id, limit=3)
    rest = await memory.list_outcomes(workflow.workflow_id, before=first[-1].outcome_id)
    assert [each.outcome_id for each in [*first, *rest]] == ["o4", "o3", "o2", "o1", "o0"]
    with pytest.raises(NotFound):
        await memory.list_outcomes(workflow.workflow_id, before="nothing")


async def test_another_tenants_workflows_answer_like_missing_ones(memory: Memory) -> None:
    workflow = await save(memory, "a")
    choice = await memory.choose("sdr", "first_email")
    other = memory.bound(
        replace(memory.identity, tenant_id=(await ensure_tenant(memory.resources, "others")).tenant_id)
    )
    for target in (workflow.workflow_id, choice.choice_id, new_id()):
        with pytest.raises(NotFound):
            await other.reward(target, 1.0)
        with pytest.raises(NotFound):
            await other.get_workflow(target)
        with pytest.raises(NotFound):
            await other.retire_workflow(target)
    with pytest.raises(NotFound):
        await other.choose("sdr", "first_email")
    assert (await memory.get_workflow(workflow.workflow_id)).rewards == 0


async def test_an_agent_chooses_and_rewards_but_does_not_govern(memory: Memory) -> None:
    workflow = await save(memory, "a")
    agent = memory.bound(replace(memory.identity, role=Role.AGENT))
    await agent.reward(await agent.choose("sdr", "first_email"), 1.0)
    with pytest.raises(Forbidden):
        await agent.save_workflow("a", {}, **TASK)
    with pytest.raises(Forbidden):
        await agent.retire_workflow(workflow.workflow_id)


async def test_what_governs_workflows_is_audited(memory: Memory) -> None:
    old, new = await save(memory, "a"), await save(memory, "a", tone="short")
    await memory.retire_workflow(new.workflow_id, reason="too pushy")
    lines = [(line.action, UUID(line.subject_id)) for line in await memory.list_audit(limit=4)]
    assert lines == [
        ("workflow.retire", new.workflow_id),
        ("workflow.save", new.workflow_id),
        ("workflow.supersede", old.workflow_id),
        ("workflow.save", old.workflow_id),
    ]


@pytest.mark.parametrize(
    "spec", [[1], "text", {"a": "x" * MAX_SPEC_BYTES}, {"a": "\x00"}], ids=["list", "text", "large", "nul"]
)
async def test_a_spec_must_be_a_json_object_of_reasonable_size(memory: Memory, spec: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="spec"):
        await memory.save_workflow("a", spec, **TASK)


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
async def test_a_score_outside_0_to_1_is_refused_and_changes_nothing(memory: Memory, score: float) -> None:
    workflow = await save(memory, "a")
    with pytest.raises(InvalidInput, match="score"):
        await memory.reward(workflow, score)
    assert (await memory.get_workflow(workflow.workflow_id)).rewards == 0


async def test_old_choices_are_forgotten_and_their_outcomes_stay(memory: Memory) -> None:
    workflow = await save(memory, "a")
    await memory.reward(await memory.choose("sdr", "first_email"), 1.0)
    later = memory.resources.clock() + choose_verbs.CHOICES_KEPT * 2
    await choose_verbs.sweep_choices(replace(memory.resources, clock=lambda: later), memory.identity)
    async with memory.resources.database.transaction(memory.identity) as tx:
        assert await tx.value(COUNT) == 0
    assert len(await memory.list_outcomes(workflow.workflow_id)) == 1
