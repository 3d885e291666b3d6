"""The judge: compare each new fact with its neighbours, and end those that it contradicts. A job of the outbox."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from recordari.core.identity import Identity, Scope
from recordari.core.items import Trust
from recordari.db import outbox
from recordari.db.outbox import Batch
from recordari.facts import storage
from recordari.facts.language import LLM
from recordari.facts.rules.conflict import Ruling, Statement, Verdict, is_newer, retirements
from recordari.facts.storage import FactRow
from recordari.kit.resources import Resources
from recordari.memory import vector_storage
from recordari.memory.rules import Retirement
from recordari.memory.versions import retire
from recordari.models.base import fail_open

CANDIDATES = 5  # F5; the judge itself takes the setting `judge_candidates`
MOST_RETIRED = 3  # by one fact: one that contradicts more is suspicious
JUDGE_SECONDS = 20.0
# F5: facts below this cosine distance are compared. Each model has a scale of its own: the limit is the median distance
# of two unrelated facts. Contradictions are well below it: at most 0.47 in potion (unrelated: 0.60), 0.42 in memory-embedder
# (unrelated: 0.51) and 0.07 in e5 (unrelated: 0.15). 0.7 is for an unknown model.
NEAR_DISTANCE = 0.7
NEAR_DISTANCES: Mapping[str, float] = {
    "memory-embedder": 0.5,
    "e5-small-v2": 0.15,
    "arctic-embed-s": 0.36,
    "potion-base-8M": 0.6,
}
_TRUSTED = {Trust.USER, Trust.AGENT}


async def judge(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Judge the facts of a batch, each only once: those of one owner oldest first, those of several owners together."""
    async with resources.database.transaction(identity) as tx:
        facts = await storage.facts_to_judge(tx, batch.refs)
        models = await vector_storage.find_models(tx)
    for wave in _waves(facts):
        await _judge_wave(resources, identity, wave, models.active)
    async with resources.database.transaction(identity) as tx:
        await outbox.done(tx, batch)


def _waves(facts: Sequence[FactRow]) -> list[list[FactRow]]:
    """The facts in their order, at most one of each owner in a wave: what one ends is known when the next is judged."""
    waves: list[list[FactRow]] = []
    judged: Counter[tuple[Scope, str | None]] = Counter()
    for fact in facts:
        owner = fact.scope, {Scope.USER: fact.user_id, Scope.AGENT: fact.agent_id}.get(fact.scope)
        if judged[owner] == len(waves):
            waves.append([])
        waves[judged[owner]].append(fact)
        judged[owner] += 1
    return waves


def near_distance(model_id: str | None) -> float:
    """The distance below which facts are compared."""
    return NEAR_DISTANCES.get((model_id or "").partition("@")[0], NEAR_DISTANCE)


async def _judge_wave(resources: Resources, identity: Identity, facts: Sequence[FactRow], model_id: str | None) -> None:
    """Judge facts of different owners: one read, then one transaction that ends what they contradict."""
    settings = resources.settings
    most = settings.judge_candidates
    distance = near_distance(model_id) if settings.judge_distance is None else settings.judge_distance
    async with resources.database.transaction(identity) as tx:
        item_ids = [fact.item_id for fact in facts]
        near = await storage.near_facts(tx, item_ids, model_id=model_id, distance=distance, most=most)
        for fact in facts:
            later = [other.item_id for other in near[fact.item_id] if is_newer(Statement.of(other), Statement.of(fact))]
            if later:  # a late fact may belong between an ended fact and its successor
                near[fact.item_id] += await storage.predecessors(tx, later, most=most)
    ended: list[Retirement] = []
    for fact in facts:
        others = near[fact.item_id]
        ended += _ended(fact, others, await _rulings(resources, fact, others) if others else [])
    async with resources.database.transaction(identity) as tx:
        await retire(tx, ended, judge=resources.get(LLM).name)
        await storage.mark_judged(tx, item_ids, resources.clock())


async def _rulings(resources: Resources, fact: FactRow, others: Sequence[FactRow]) -> Sequence[Ruling]:
    """One ruling for each of the others; none when the judge fails, or its answer is not of that form."""
    nothing: Sequence[Ruling] = ()
    rulings, ran = await fail_open(
        "judge",
        lambda: resources.get(LLM).judge(Statement.of(fact), [Statement.of(other) for other in others]),
        fallback=nothing,
        seconds=JUDGE_SECONDS,
    )
    return rulings if ran and _is_valid(rulings, len(others)) else nothing


def _is_valid(answer: object, number: int) -> bool:
    """A model may answer anything; one ruling for each is expected."""
    return (
        isinstance(answer, Sequence)
        and len(answer) == number
        and all(isinstance(ruling, Ruling) and isinstance(ruling.verdict, Verdict) for ruling in answer)
    )


def _ended(fact: FactRow, others: Sequence[FactRow], rulings: Sequence[Ruling]) -> list[Retirement]:
    """The facts that end by the new fact, or end it."""
    new = Statement.of(fact)
    older: list[tuple[Statement, str]] = []
    newer: list[tuple[Statement, str]] = []
    for row, ruling in zip(others, rulings, strict=False):
        if ruling.verdict is not Verdict.SUPERSEDE:
            continue
        other = Statement.of(row)
        if is_newer(new, other) and _may_end(fact, row):
            older.append((other, ruling.rule))
        elif is_newer(other, new) and _may_end(row, fact):
            newer.append((other, ruling.rule))
    return retirements(new, older, newer, most=MOST_RETIRED)


def _may_end(newer: FactRow, older: FactRow) -> bool:
    """Text of a tool, a document or a stranger never ends what a person or their agent stated."""
    return not older.is_pinned and (newer.trust in _TRUSTED or older.trust not in _TRUSTED)
