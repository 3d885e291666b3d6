"""Knowledge updates on LongMemEval: the newest statement above the outdated one, and nothing lost for it.

    python bench/knowledge_update.py --data ../shared/data [--profile fast] [--stores 20] [--set locomo]

Turns are remembered as a user would; facts are extracted and judged offline by the worker. A fact in the answer counts as
the turns it rests on. Compared are: words alone, messages alone, and messages with facts. LoCoMo has no knowledge updates,
but shows as well what facts do to recall. With `--pairs` the judge is then shown every pair of facts of each store, and
those it would end are printed, so that a person can see how precise it is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.table import Table

from recall import haystacks
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.core.items import EXTRACT_TOPIC, JUDGE_TOPIC, Item, Kind
from recordari.db import outbox
from recordari.evaluation.retrieval import at_moment
from recordari.evaluation.rules.formats import GoldQuestion, Haystack
from recordari.evaluation.rules.measures import Score
from recordari.facts.rules.conflict import Statement, Verdict, is_newer, ruling
from recordari.kit.resources import Resources
from recordari.memory.index import EMBED_TOPIC
from recordari.recall.request import Arm
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources

RESULTS = Path(__file__).parent / "results"
UPDATE = "knowledge-update"
CHAT, BOTH = (Kind.CHAT_MESSAGE,), (Kind.CHAT_MESSAGE, Kind.FACT)
SETTINGS: tuple[tuple[str, tuple[Kind, ...], frozenset[Arm]], ...] = (
    ("words alone", CHAT, frozenset({Arm.TEXT})),
    ("messages", CHAT, frozenset(Arm)),
    ("messages and facts", BOTH, frozenset(Arm)),
)


@dataclass(slots=True)
class Outcome:
    """What came of one way to ask: newest above outdated, and recall by type of question."""

    updates: int = 0
    newest_first: int = 0
    lost: list[str] = field(default_factory=list)
    scores: dict[str, Score] = field(default_factory=lambda: defaultdict(Score))


async def open_store(resources: Resources, store: Haystack) -> Memory:
    """The memory of a store's own tenant, which takes facts from what its user says."""
    await tenants.ensure_tenant(resources, store.name)
    return Memory(resources, Identity(tenant_id=tenant_id_of(store.name), role=Role.ADMIN)).acting_as(user="person")


async def ingest(resources: Resources, stores: Sequence[Haystack], console: Console) -> None:
    """Remember every turn, and wait until all is embedded, extracted and judged."""
    started = time.perf_counter()
    async with background_worker(resources):
        for store in stores:
            memory = await open_store(resources, store)
            async for _ in memory.import_items(store.turns):
                pass
        for store in stores:
            memory = await open_store(resources, store)
            while await _waits(memory):
                await asyncio.sleep(0.5)
    console.print(f"{len(stores)} stores ready after {time.perf_counter() - started:.0f} s")


async def _waits(memory: Memory) -> bool:
    async with memory.resources.database.transaction(memory.identity) as tx:
        waiting, _ = await outbox.count_by_topic(tx)
    return not waiting.keys().isdisjoint({EMBED_TOPIC, EXTRACT_TOPIC, JUDGE_TOPIC})


class Turns:
    """Which turns stand behind an item of the answer."""

    def __init__(self) -> None:
        self._known: dict[UUID, tuple[str, ...]] = {}

    async def of(self, memory: Memory, item_id: UUID) -> tuple[str, ...]:
        """References of the turns: its own, or those that a fact rests on."""
        if item_id not in self._known:
            item = await memory.get_item(item_id)
            if item.kind == Kind.FACT:
                sources = (await memory.item_provenance(item_id)).sources
                refs = tuple([(await memory.get_item(source.item_id)).source_ref for source in sources])
            else:
                refs = (item.source_ref,)
            self._known[item_id] = refs
        return self._known[item_id]


async def ask(
    resources: Resources, stores: Sequence[Haystack], turns: Turns, kinds: tuple[Kind, ...], arms: frozenset[Arm]
) -> Outcome:
    """Ask every question in one way."""
    outcome = Outcome()
    for store in stores:
        memory = await open_store(resources, store)
        said_at = {str(turn.source_ref): turn.event_time for turn in store.turns}
        for asked in store.with_evidence:
            bound = Memory(at_moment(resources, asked.asked_at), memory.identity)
            answer = await bound.recall(asked.text, top_k=20, source_kinds=kinds, explain=True, arms=arms)
            assert answer.trace is not None
            places = [await turns.of(bound, UUID(one["id"])) for one in answer.trace["items"]]
            found = credited(places, asked.evidence)
            outcome.scores[asked.category].add(found, asked.evidence)
            outcome.scores["all"].add(found, asked.evidence)
            if asked.category == UPDATE:
                _compare(outcome, asked, places, said_at)
    return outcome


def credited(places: Sequence[tuple[str, ...]], evidence: frozenset[str]) -> list[str]:
    """The turn that each place of an answer counts as: one that was asked for first of all, and each turn once.

    An item takes a place of its own, but brings nothing where all of its turns are listed already.
    """
    found: list[str] = []
    for refs in places:
        fresh = [ref for ref in refs if ref not in found]
        found.append(next((ref for ref in fresh if ref in evidence), fresh[0] if fresh else ""))
    return found


def _compare(
    outcome: Outcome, asked: GoldQuestion, places: Sequence[tuple[str, ...]], said_at: dict[str, datetime | None]
) -> None:
    """Count whether what was said last stands above everything that was said before about the same."""
    moments = {ref: moment for ref in asked.evidence if (moment := said_at[ref]) is not None}
    last = max(moments.values())
    newest = {ref for ref, moment in moments.items() if moment == last}
    outdated = set(moments) - newest
    if not outdated:
        return
    outcome.updates += 1
    first = next((place for place, refs in enumerate(places) if newest & set(refs)), len(places))
    old = next((place for place, refs in enumerate(places) if outdated & set(refs) and not newest & set(refs)), 10**6)
    if first < old and first < len(places):
        outcome.newest_first += 1
    else:
        outcome.lost.append(f"{asked.text} (newest {first + 1}, outdated {old + 1})")


async def judge_pairs(resources: Resources, stores: Sequence[Haystack]) -> tuple[int, int, list[str]]:
    """Show the offline judge every pair of facts of each store: how many facts, how many pairs, what it would end."""
    pairs, number, ended = 0, 0, []
    for store in stores:
        memory = await open_store(resources, store)
        known = await _facts(memory)
        number += len(known)
        for place, one in enumerate(known):
            for other in known[place + 1 :]:
                newer, older = (one, other) if is_newer(one, other) else (other, one)
                pairs += 1
                decided = ruling(newer, older)
                if decided.verdict is Verdict.SUPERSEDE:
                    ended.append(f"{decided.rule}: {older.content} → {newer.content}")
    return number, pairs, ended


async def _facts(memory: Memory) -> list[Statement]:
    found: list[Item] = []
    before: UUID | None = None
    while True:
        page = await memory.list_items(kinds=[Kind.FACT], state="any", before=before, limit=200)
        found.extend(page.items)
        before = page.next_before
        if before is None:
            return [_statement(item) for item in found]


def _statement(item: Item) -> Statement:
    return Statement(
        item_id=item.item_id,
        content=item.content,
        valid_at=item.valid_at,
        speaker=item.speaker,
        subject=item.subject,
        predicate=item.predicate,
        object=item.object,
    )


def tables(outcomes: dict[str, Outcome]) -> list[Table]:
    """The figures as tables."""
    drawn = Table(title="newest statement above the outdated one")
    for column in ("", "questions", "newest first", ""):
        drawn.add_column(column, justify="right" if column else "left")
    for name, outcome in outcomes.items():
        share = outcome.newest_first / max(outcome.updates, 1)
        drawn.add_row(name, str(outcome.updates), f"{share:.0%}", "; ".join(outcome.lost)[:200])
    recall = Table(title="turn recall@5 / recall@10 / all@10 / nDCG@10 by type of question")
    categories = sorted({category for outcome in outcomes.values() for category in outcome.scores})
    for column in ("", *categories):
        recall.add_column(column)
    for name, outcome in outcomes.items():
        cells = []
        for category in categories:
            means = outcome.scores[category].means()
            figures = (means[one] for one in ("recall@5", "recall@10", "all@10", "nDCG@10"))
            cells.append(" / ".join(f"{figure:.3f}" for figure in figures))
        recall.add_row(name, *cells)
    return [drawn, recall]


async def run(arguments: argparse.Namespace) -> None:
    """Measure, print and write down."""
    console = Console(width=200)
    if not (arguments.data / arguments.set).exists():
        console.print(f"not measured: {arguments.data / arguments.set} is not there")
        return
    stores = [store for store in haystacks(arguments.set, arguments.data) if store.with_evidence]
    stores.sort(key=lambda store: store.with_evidence[0].category != UPDATE)
    stores = stores[: arguments.stores]
    turns = Turns()
    async with open_resources(Settings(home=arguments.home, embedding_profile=arguments.profile)) as resources:
        await ingest(resources, stores, console)
        outcomes = {name: await ask(resources, stores, turns, kinds, arms) for name, kinds, arms in SETTINGS}
        for table in tables(outcomes):
            console.print(table)
        number, pairs, ended = await judge_pairs(resources, stores) if arguments.pairs else (0, 0, [])
    console.print(f"{number} facts, {pairs} pairs shown to the judge, {len(ended)} would end:")
    for line in ended:
        console.print(f"  {line}", markup=False, highlight=False)
    report: dict[str, Any] = {
        name: {
            "updates": outcome.updates,
            "newest_first": outcome.newest_first,
            "scores": {category: score.means() for category, score in outcome.scores.items()},
        }
        for name, outcome in outcomes.items()
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"knowledge-update-{arguments.set}-{arguments.profile}.json"
    path.write_text(json.dumps({**report, "facts": number, "pairs": pairs, "ended": len(ended)}, indent=1))
    console.print(f"written to bench/results/{path.name}")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench-updates"))
    parser.add_argument("--set", choices=["longmemeval", "locomo"], default="longmemeval")
    parser.add_argument("--profile", choices=["best", "fast"], default="fast")
    parser.add_argument("--stores", type=int, default=None, help="only the first stores; knowledge updates come first")
    parser.add_argument("--pairs", action="store_true", help="also show the judge every pair of facts")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
