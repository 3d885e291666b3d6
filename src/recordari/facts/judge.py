"""Judging: each new fact is compared with its neighbours, and what it contradicts ends. A job of the outbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recordari.core.identity import Identity
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
MOST_RETIRED = 3  # by one write: a fact that would end more of what is known is a fact to look at, not to obey
JUDGE_SECONDS = 20.0
# F5: cosine distance below which facts are compared. 0.7 is for a model that is not known; the others have scales of
# their own, and the limit is the median distance of two unrelated facts in each. Contradictions lie well below it: at
# most 0.47 in potion (unrelated: 0.60) and 0.07 in e5 (unrelated: 0.15).
NEAR_DISTANCE = 0.7
NEAR_DISTANCES: Mapping[str, float] = {"e5-small-v2": 0.15, "arctic-embed-s": 0.36, "potion-base-8M": 0.6}
# What came by a tool, a document or from outside never ends what a person or their agent stated.
_CARRIES = {Trust.USER: 1, Trust.AGENT: 1, Trust.TOOL: 0, Trust.DOCUMENT: 0, Trust.EXTERNAL: 0}


async def judge(resources: Resources, identity: Identity, batch: Batch) -> None:
    """Judge the facts of a batch, oldest first; whatever happens, each is judged only once."""
    async with resources.database.transaction(identity) as tx:
        waiting = await storage.facts_to_judge(tx, batch.refs)
        models = await vector_storage.find_models(tx)
    for fact in waiting:
        await _judge_one(resources, identity, fact, models.active)
    async with resources.database.transaction(identity) as tx:
        await outbox.done(tx, batch)


def near_distance(model_id: str | None) -> float:
    """How near facts must be in a model to be compared."""
    return NEAR_DISTANCES.get((model_id or "").partition("@")[0], NEAR_DISTANCE)


async def _judge_one(resources: Resources, identity: Identity, fact: FactRow, model_id: str | None) -> None:
    settings = resources.settings
    most = settings.judge_candidates
    distance = near_distance(model_id) if settings.judge_distance is None else settings.judge_distance
    async with resources.database.transaction(identity) as tx:
        near = await storage.near_facts(tx, fact.item_id, model_id=model_id, distance=distance, most=most)
        later = [one.item_id for one in near if is_newer(Statement.of(one), Statement.of(fact))]
        # One that comes late may belong between a fact and the one that ended it.
        past = await storage.predecessors(tx, later, most=most) if later else []
    others = [*near, *past]
    decided = await _decided(resources, fact, others) if others else []
    ended = _ended(fact, others, decided)
    async with resources.database.transaction(identity) as tx:
        await retire(tx, ended, judge=resources.get(LLM).name)
        await storage.mark_judged(tx, [fact.item_id], resources.clock())


async def _decided(resources: Resources, fact: FactRow, others: Sequence[FactRow]) -> Sequence[Ruling]:
    """One ruling for each of the others; none at all when the judge fails, or says what cannot be understood."""
    nothing: Sequence[Ruling] = ()
    rulings, ran = await fail_open(
        "judge",
        lambda: resources.get(LLM).judge(Statement.of(fact), [Statement.of(one) for one in others]),
        fallback=nothing,
        seconds=JUDGE_SECONDS,
    )
    return rulings if ran and _is_understood(rulings, len(others)) else nothing


def _is_understood(answer: object, number: int) -> bool:
    """Whether a judge answered what it was asked: one ruling for each, and nothing else. A model may say anything."""
    return (
        isinstance(answer, Sequence)
        and len(answer) == number
        and all(isinstance(one, Ruling) and isinstance(one.verdict, Verdict) for one in answer)
    )


def _ended(fact: FactRow, others: Sequence[FactRow], rulings: Sequence[Ruling]) -> list[Retirement]:
    """What ends by the new fact, or ends it."""
    mine = Statement.of(fact)
    older: list[tuple[Statement, str]] = []
    newer: list[tuple[Statement, str]] = []
    for other, decided in zip(others, rulings, strict=False):
        if decided.verdict is not Verdict.SUPERSEDE:
            continue
        theirs = Statement.of(other)
        if is_newer(mine, theirs) and not other.is_pinned and _may_end(fact, other):
            older.append((theirs, decided.rule))
        elif is_newer(theirs, mine) and not fact.is_pinned and _may_end(other, fact):
            newer.append((theirs, decided.rule))
    return retirements(mine, older, newer, most=MOST_RETIRED)


def _may_end(one: FactRow, other: FactRow) -> bool:
    return _CARRIES[Trust(one.trust)] >= _CARRIES[Trust(other.trust)]
