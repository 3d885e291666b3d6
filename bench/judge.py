"""How precise the offline judge is: pairs of facts of LongMemEval and LoCoMo, without a database.

    python bench/judge.py --data ../shared/data [--show 50] [--only replay]

Facts are taken from what people say by the same rules as in the background. Shown to the judge are pairs of one
person's facts, of which a few are real updates, and pairs of facts of different people as if one person had said them, which
are unrelated. Printed is what it would end; a person sees at a glance whether it should.

The replay writes the facts of each person in the order of their times, as the worker does: each new fact is compared with
the nearest current ones, and what it ends is compared no more. It prints every fact that ended.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from uuid import UUID

import numpy as np
from rich.console import Console

from recall import haystacks
from recordari.core.items import Trust, normalised
from recordari.evaluation.rules.formats import Haystack
from recordari.facts.judge import CANDIDATES, MOST_RETIRED, near_distance
from recordari.facts.rules.conflict import Statement, Verdict, is_newer, ruling
from recordari.facts.rules.extraction import facts_in
from recordari.models.embedding import EmbeddingSpec, make_embedder

UNRELATED = 100_000
MOST_OF_ONE = 5_000  # pairs of one person


def statements(store: Haystack) -> dict[str, list[Statement]]:
    """The facts of each person of a store, as the judge sees them."""
    found: dict[str, dict[str, Statement]] = {}
    for number, turn in enumerate(store.turns):
        if turn.trust is not None and turn.trust is not Trust.USER:
            continue
        assert turn.event_time is not None
        for place, fact in enumerate(facts_in(turn.content, speaker=turn.speaker)):
            statement = Statement(
                item_id=UUID(int=number * 100 + place + 1),
                content=fact.content,
                valid_at=turn.event_time,
                speaker=turn.speaker,
                subject=fact.subject,
                predicate=fact.predicate,
                object=fact.object,
            )
            found.setdefault(turn.speaker or "", {}).setdefault(normalised(fact.content), statement)
    return {speaker: list(facts.values()) for speaker, facts in found.items()}


def judged(pairs: Iterator[tuple[Statement, Statement]]) -> tuple[int, list[str]]:
    """How many pairs there were, and what the judge would end."""
    number, ended = 0, []
    for one, other in pairs:
        newer, older = (one, other) if is_newer(one, other) else (other, one)
        number += 1
        decided = ruling(newer, older)
        if decided.verdict is Verdict.SUPERSEDE:
            ended.append(f"{decided.rule}: {older.content} → {newer.content}")
    return number, ended


def of_one(facts: Sequence[Statement], chance: random.Random) -> list[tuple[Statement, Statement]]:
    """Pairs of one person's facts; of very many, some."""
    pairs = list(combinations(facts, 2))
    return pairs if len(pairs) <= MOST_OF_ONE else chance.sample(pairs, MOST_OF_ONE)


def unrelated(people: Sequence[Sequence[Statement]], chance: random.Random) -> Iterator[tuple[Statement, Statement]]:
    """Pairs of facts of different people."""
    for _ in range(UNRELATED):
        one, other = chance.sample(range(len(people)), 2)
        yield chance.choice(people[one]), chance.choice(people[other])


MODEL = "potion-base-8M"


async def replayed(people: Sequence[Sequence[Statement]]) -> list[str]:
    """What ends when the facts of each person are written one by one."""
    embedder = make_embedder(EmbeddingSpec(model=MODEL))
    assert embedder is not None
    limit, ended = near_distance(MODEL), []
    for facts in people:
        written = sorted(facts, key=lambda fact: (fact.valid_at, fact.item_id))
        vectors = await embedder.embed_passages([fact.content for fact in written])
        is_current = np.zeros(len(written), dtype=bool)
        for number, newer in enumerate(written):
            distances = np.where(is_current, 1 - vectors @ vectors[number], np.inf)
            near = [place for place in np.argsort(distances)[:CANDIDATES] if distances[place] < limit]
            rulings = [(place, ruling(newer, written[place])) for place in near]
            retired = [(place, found) for place, found in rulings if found.verdict is Verdict.SUPERSEDE]
            for place, found in retired[:MOST_RETIRED]:
                is_current[place] = False
                ended.append(f"{found.rule}: {written[place].content} → {newer.content}")
            is_current[number] = True
    await embedder.close()
    return ended


def main() -> None:
    """Measure both sets and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--show", type=int, default=20, help="how many of the ended ones are printed")
    parser.add_argument("--only", choices=["pairs", "replay"], help="only this measurement")
    arguments = parser.parse_args()
    console = Console(width=200)
    for name in ("longmemeval", "locomo"):
        if not (arguments.data / name).exists():
            console.print(f"{name}: not measured, {arguments.data / name} is not there")
            continue
        people = [facts for store in haystacks(name, arguments.data) for facts in statements(store).values() if facts]
        if arguments.only != "pairs":
            ended = asyncio.run(replayed(people))
            console.print(
                f"{name}, replayed: {sum(map(len, people))} facts of {len(people)} people, {len(ended)} ended"
            )
            for line in ended:
                console.print(f"    {line}", markup=False, highlight=False)
        if arguments.only == "replay":
            continue
        chance = random.Random(1)
        same = judged(pair for facts in people for pair in of_one(facts, chance))
        others = judged(unrelated(people, chance))
        console.print(f"{name}: {sum(map(len, people))} facts of {len(people)} people")
        for title, (number, ended) in (("of one person", same), ("of different people", others)):
            console.print(f"  {number} pairs {title}: {len(ended)} would end ({len(ended) / max(number, 1):.6%})")
            for line in ended[: arguments.show]:
                console.print(f"    {line}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
