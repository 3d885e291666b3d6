"""Learn the weights of the ranker, and show what they are worth on sets that they were not learnt on.

    python bench/ranking.py --data ../shared/data --profile fast --collect     # once: the features of every candidate
    python bench/ranking.py --profile fast                                     # leave one set out, then learn on all
    python bench/ranking.py --profile best --ridge 0.6 --held question entity dated   # fewer weights, held more firmly

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
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from recall import DIALOGUES, haystacks
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.core.items import Kind
from recordari.evaluation.retrieval import at_moment, open_haystack
from recordari.kit.resources import Resources
from recordari.knowledge.rules.questions import FoundDocument, joined
from recordari.recall import recall as product
from recordari.recall.request import MAX_QUERY_CHARACTERS
from recordari.recall.rules.numbering import Floats
from recordari.recall.rules.ranking import Features, Weights, features_of, ranked, spread_over_sessions, weighed
from recordari.recall.search import OF_CONVERSATIONS
from recordari.wiring import open_resources

SETS = ("locomo", "longmemeval", "lifebench", "tau2")
# The weights that are learnt, and where each begins. Words, late interaction and meaning stay as they are, and so do *speaker*
# and *own words*: only one set has questions that name a speaker, and only one those in the first person, so that no other
# set could teach them. A weight that the sets at hand say nothing about stays where it began.
LEARNT: Mapping[str, float] = {
    "session": 0.7,
    "following": 0.7,
    "interval": 0.7,
    "inside": 0.7,
    "disclosure": 0.7,
    "newer": 0.7,
    "entity": 0.7,
    "dated": 0.7,
    "question": 0.0,
}
RIDGE = 0.3  # how firmly a weight stays
TEMPERATURE = 0.3  # of scores: a candidate so far below another is e times less likely
MOST_STEPS = 120


@dataclass(frozen=True, slots=True)
class Learning:
    """Which weights are learnt, where each begins, and how firmly it stays there."""

    begin: Mapping[str, float]
    ridge: float

    @property
    def equal(self) -> Weights:
        """All weights where they begin."""
        return replace(Weights(), **dict[str, Any](self.begin))


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


@dataclass(frozen=True, slots=True)
class Seen:
    """The candidates of one question: what stays of their scores, what is learnt, and which are evidence."""

    fixed: Floats
    features: Floats
    is_evidence: NDArray[np.bool_]
    share: float
    """What the question counts, so that each set counts the same."""


def seen_of(case: Case, share: float, learnt: Mapping[str, float]) -> Seen | None:
    """None where the candidates say nothing about the weights: none or all of them are evidence."""
    (search, *others) = case.searches
    is_evidence = np.array([ref in case.evidence for ref in search.refs])
    if others or not is_evidence.any() or is_evidence.all():
        return None
    parts = weighed(search.features, replace(Weights(), **dict[str, Any](dict.fromkeys(learnt, 1.0))))
    nothing = np.zeros(len(is_evidence))
    fixed = sum((values for name, values in parts.items() if name not in learnt), nothing)
    return Seen(fixed, np.stack([parts.get(name, nothing) for name in learnt], axis=1), is_evidence, share)


def loss_of(seen: Sequence[Seen], learnt: Floats, learning: Learning) -> tuple[float, Floats]:
    """How unlikely the evidence is if candidates are drawn by their scores, with a ridge; and its slope."""
    away = learnt - np.array(list(learning.begin.values()))
    loss, slope = learning.ridge * float(away @ away), 2 * learning.ridge * away
    for one in seen:
        scores = (one.fixed + one.features @ learnt) / TEMPERATURE
        likely = np.exp(scores - scores.max())
        likely /= likely.sum()
        right = likely * one.is_evidence
        total = max(float(right.sum()), 1e-12)
        loss -= one.share * float(np.log(total))
        slope -= one.share * (one.features.T @ (right / total - likely)) / TEMPERATURE
    return loss, slope


def fit(sets: Mapping[str, Sequence[Case]], learning: Learning) -> Weights:
    """Descend to the weights under which the evidence is likeliest; the loss is convex enough to need no seed."""
    every = [seen_of(case, 1 / len(cases), learning.begin) for cases in sets.values() for case in cases]
    seen = [one for one in every if one is not None]
    learnt, step = np.array(list(learning.begin.values())), 0.5
    loss, slope = loss_of(seen, learnt, learning)
    for _ in range(MOST_STEPS):
        while (now := loss_of(seen, learnt - step * slope, learning))[0] > loss and step > 1e-6:
            step /= 2
        gained = loss - now[0]
        if gained < 1e-5:
            break
        learnt = learnt - step * slope
        (loss, slope), step = now, step * 1.3
    values: dict[str, Any] = {name: round(float(value), 2) for name, value in zip(learning.begin, learnt, strict=True)}
    return replace(Weights(), **values)


async def collect(
    resources: Resources, data: Path, names: Sequence[str], most: int, filled: int | None
) -> dict[str, list[Case]]:
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
        stores = haystacks(name, data)[:filled]
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


def compare(sets: Mapping[str, Sequence[Case]], learning: Learning, console: Console) -> None:
    """Print the figures of the shipped weights, of those chosen without each set, and of those chosen on all."""
    shipped, everything = Weights(), fit(sets, learning)
    left_out = {name: fit({one: sets[one] for one in sets if one != name}, learning) for name in sets}
    drawn = Table(title="recall@10")
    for column in ("", "questions", "all equal", "learnt without the set", "learnt on all", "as shipped"):
        drawn.add_column(column, justify="right" if column else "left")
    rows = []
    for name, cases in sets.items():
        rows.append([figure(cases, weights) for weights in (learning.equal, left_out[name], everything, shipped)])
        drawn.add_row(name, str(len(cases)), *(f"{value:.3f}" for value in rows[-1]))
    means = [float(np.mean(column)) for column in zip(*rows, strict=True)]
    drawn.add_row("mean", "", *(f"{value:.3f}" for value in means))
    console.print(drawn)
    for name, weights in {"all": everything, **{f"without {one}": it for one, it in left_out.items()}}.items():
        console.print(f"{name}: { ({one: getattr(weights, one) for one in learning.begin}) }")
    worth = Table(title="what is lost without each weight, recall@10")
    for column in ("", *sets):
        worth.add_column(column, justify="right" if column else "left")
    at = figures(sets, shipped)
    for one in (*LEARNT, "speaker", "own_words", "repeat"):
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
                sets = await collect(resources, arguments.data, [name], arguments.questions, arguments.stores)
                (folder / f"{name}-{arguments.profile}.pickle").write_bytes(pickle.dumps(sets[name]))
                console.print(f"{name}: {len(sets[name])} questions")
        return
    files = {name: folder / f"{name}-{arguments.profile}.pickle" for name in arguments.sets}
    sets = {name: pickle.loads(file.read_bytes()) for name, file in files.items() if file.exists()}
    begin = {name: value for name, value in LEARNT.items() if name not in arguments.held}
    compare(sets, Learning(begin, arguments.ridge), console)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast"], default="best")
    parser.add_argument("--sets", nargs="+", choices=(*SETS, DIALOGUES), default=SETS)
    parser.add_argument("--questions", type=int, default=300, help="how many of each set, drawn with a fixed seed")
    parser.add_argument("--stores", type=int, default=None, help="only the first stores of each set")
    parser.add_argument("--ridge", type=float, default=RIDGE, help="how firmly a weight stays where it began")
    parser.add_argument("--held", nargs="+", choices=list(LEARNT), default=(), help="weights that stay as shipped")
    parser.add_argument(
        "--collect", action="store_true", help="ask the questions of stores that bench/recall.py filled"
    )
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
