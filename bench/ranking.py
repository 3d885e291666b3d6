"""Choose the weights of the ranker, and show what they are worth on sets that they were not chosen on.

    python bench/ranking.py --data ../shared/data --profile fast --collect     # once: the features of every candidate
    python bench/ranking.py --profile fast                                     # leave one set out, then fit on all

The features come from the product's own search over the stores of `bench/recall.py`, and the product's own `weighed` turns them
into scores, so that trying a weight takes seconds. Each set counts the same, whatever its size.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pickle
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from rich.console import Console
from rich.table import Table

from recall import haystacks
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.core.items import Kind
from recordari.evaluation.retrieval import at_moment, open_haystack
from recordari.kit.resources import Resources
from recordari.knowledge.rules.questions import FoundDocument, joined
from recordari.recall import recall as product
from recordari.recall.request import MAX_QUERY_CHARACTERS
from recordari.recall.rules.ranking import Features, Weights, features_of, ranked, spread_over_sessions, weighed
from recordari.recall.search import OF_CONVERSATIONS
from recordari.wiring import open_resources

SETS = ("locomo", "longmemeval", "lifebench", "tau2")
# What is tried for each weight; words, late interaction and meaning stay as they are. Every weight begins at 1: one that the
# sets at hand say nothing about stays there, and only what they gain by changes it.
TRIED: Mapping[str, Sequence[float]] = {
    "session": (0.0, 0.5, 2.0),
    "own_words": (0.0, 0.5, 2.0),
    "interval": (0.0, 0.35, 0.7),
    "inside": (0.0, 0.5, 2.0),
    "disclosure": (0.0, 0.2, 0.4),
    "following": (0.0, 0.2, 0.4),
    "newer": (0.0, 0.5, 2.0),
    "entity": (0.0, 0.1, 0.5),
    "repeat": (0.0, 0.04),
}
EQUAL = Weights(**dict[str, Any]({**dict.fromkeys(TRIED, 1.0), "repeat": 0.02}))
LEAST_GAIN = 0.0005


@dataclass(frozen=True, slots=True)
class Search:
    """One search: its features, and what each hit counts as."""

    features: Features
    refs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Case:
    """A question, the searches that it led to, and what answers it."""

    text: str
    category: str
    searches: Sequence[Search]
    evidence: frozenset[str]
    documents: Mapping[str, FoundDocument] | None = None
    """Of a question to documents: what was found."""


def found(case: Case, weights: Weights) -> list[str]:
    """What the ranker would answer, best first."""
    if case.documents is not None:
        weights = replace(weights, **dict[str, Any](dict.fromkeys(OF_CONVERSATIONS, 0.0)))
    answers = [_best(search, weights) for search in case.searches]
    if case.documents is None or len(answers) == 1:
        return list(dict.fromkeys(ref for ref, _ in answers[0]))
    documents = []
    for answer in answers:
        best: dict[str, float] = {}
        for ref, score in answer:
            best.setdefault(ref, score)
        documents.append(list(best.items()))
    return list(joined(case.text, documents, case.documents))


def _best(search: Search, weights: Weights) -> list[tuple[str, float]]:
    features = search.features
    total = sum(weighed(features, weights).values(), np.zeros(len(features.words)))
    return [(search.refs[hit], score) for hit, score in spread_over_sessions(features, total, weights.repeat, 20)]


def figure(cases: Sequence[Case], weights: Weights) -> float:
    """Mean recall@10."""
    shares = [len(case.evidence & set(found(case, weights)[:10])) / len(case.evidence) for case in cases]
    return float(np.mean(shares))


def figures(sets: Mapping[str, Sequence[Case]], weights: Weights) -> dict[str, float]:
    return {name: figure(cases, weights) for name, cases in sets.items()}


def changed(weights: Weights, name: str, value: float) -> Weights:
    values: dict[str, Any] = {name: value}
    return replace(weights, **values)


def fit(sets: Mapping[str, Sequence[Case]], rounds: int) -> Weights:
    """Change one weight at a time while the mean gains; what a set loses, the sum must gain once more."""
    best, at = EQUAL, figures(sets, EQUAL)
    for _ in range(rounds):
        before = best
        for name, values in TRIED.items():
            for value in values:
                if value == getattr(best, name):
                    continue
                tried = changed(best, name, value)
                now = figures(sets, tried)
                gains = [now[one] - at[one] for one in sets]
                if np.mean(gains) > LEAST_GAIN and sum(gains) > -min(0.0, *gains):
                    best, at = tried, now
        if best == before:
            break
    return best


async def collect(resources: Resources, data: Path, names: Sequence[str], most: int) -> dict[str, list[Case]]:
    """Ask every question of each set once (of a large one a sample), and keep what the ranker saw."""
    seen: list[tuple[Features, list[UUID]]] = []

    def watched(question: Any, columns: Any, results: Any, collection: Any, **options: Any) -> Any:
        if len(results.hits):
            features = features_of(question, columns, results, collection, options["weights"])
            seen.append((features, [columns.rows[hit].item_id for hit in results.hits]))
        return ranked(question, columns, results, collection, **options)

    vars(product)["ranked"] = watched
    known: dict[UUID, str] = {}

    async def searches(memory: Memory) -> list[Search]:
        for item_id in {one for _, ids in seen for one in ids} - known.keys():
            known[item_id] = await _counts_as(memory, item_id)
        return [Search(features, [known[one] for one in ids]) for features, ids in seen]

    sets: dict[str, list[Case]] = {}
    for name in names:
        sets[name] = []
        if name == "tau2":
            memory = Memory(resources, Identity(tenant_id=tenant_id_of("tau2-banking"), role=Role.ADMIN))
            documents = _documents(data / "knowledge" / "tau2_banking" / "documents")
            for file in sorted((data / "knowledge" / "tau2_banking" / "tasks").glob("*.json")):
                task = json.loads(file.read_text())
                seen.clear()
                text = task["user_scenario"]["instructions"][:MAX_QUERY_CHARACTERS]
                await memory.search_knowledge(text, top_k=20)
                evidence = frozenset(task["required_documents"])
                sets[name].append(Case(text, name, await searches(memory), evidence, documents))
            continue
        stores = haystacks(name, data)
        asked = [(store, one) for store in stores for one in store.with_evidence]
        for store, one in random.Random(7).sample(asked, min(most, len(asked))):
            memory = await open_haystack(resources, store)
            at = at_moment(resources, one.asked_at)
            seen.clear()
            await Memory(at, memory.identity).recall(one.text, top_k=20, source_kinds=[Kind.CHAT_MESSAGE])
            sets[name].append(Case(one.text, one.category, (await searches(memory))[:1], one.evidence))
    vars(product)["ranked"] = ranked
    return sets


def _documents(folder: Path) -> dict[str, FoundDocument]:
    read = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    return {one["id"]: FoundDocument(title=one["title"], chunks=[one["content"]]) for one in read}


async def _counts_as(memory: Memory, item_id: UUID) -> str:
    """The reference of an item; a chunk counts as its document."""
    ref = (await memory.get_item(item_id)).source_ref
    if not ref.startswith("document:"):
        return ref
    return (await memory.get_document(UUID(ref.split(":")[1]))).name.removesuffix(".md")


def compare(sets: Mapping[str, Sequence[Case]], rounds: int, console: Console) -> None:
    """Print the figures of the shipped weights, of those chosen without each set, and of those chosen on all."""
    shipped, everything = Weights(), fit(sets, rounds)
    left_out = {name: fit({one: sets[one] for one in sets if one != name}, rounds) for name in sets}
    drawn = Table(title="recall@10")
    for column in ("", "questions", "all equal", "chosen without the set", "chosen on all", "as shipped"):
        drawn.add_column(column, justify="right" if column else "left")
    for name, cases in sets.items():
        columns = (figure(cases, weights) for weights in (EQUAL, left_out[name], everything, shipped))
        drawn.add_row(name, str(len(cases)), *(f"{value:.3f}" for value in columns))
    console.print(drawn)
    for name, weights in {"all": everything, **{f"without {one}": it for one, it in left_out.items()}}.items():
        console.print(f"{name}: { ({one: getattr(weights, one) for one in TRIED}) }")
    worth = Table(title="what is lost without each weight, recall@10")
    for column in ("", *sets):
        worth.add_column(column, justify="right" if column else "left")
    at = figures(sets, shipped)
    for one in TRIED:
        without = figures(sets, changed(shipped, one, 0.0))
        worth.add_row(one, *(f"{without[name] - at[name]:+.3f}" for name in sets))
    console.print(worth)


async def run(arguments: argparse.Namespace) -> None:
    """Collect or compare."""
    console = Console(width=120)
    folder = arguments.home / "features"
    if arguments.collect:
        settings = Settings(home=arguments.home, embedding_profile=arguments.profile)
        folder.mkdir(parents=True, exist_ok=True)
        async with open_resources(settings) as resources:
            for name in arguments.sets:
                sets = await collect(resources, arguments.data, [name], arguments.questions)
                (folder / f"{name}-{arguments.profile}.pickle").write_bytes(pickle.dumps(sets[name]))
                console.print(f"{name}: {len(sets[name])} questions")
        return
    files = {name: folder / f"{name}-{arguments.profile}.pickle" for name in arguments.sets}
    sets = {name: pickle.loads(file.read_bytes()) for name, file in files.items() if file.exists()}
    compare(sets, arguments.rounds, console)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast"], default="best")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--questions", type=int, default=300, help="how many of each set, drawn with a fixed seed")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--collect", action="store_true", help="ask the questions of stores that bench/recall.py filled"
    )
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
