"""What the cross-encoder of the profile thorough is worth, and what its part counts on sets that it was not fitted on.

    python bench/recall.py --data ../shared/data --profile best                # once: fills the stores
    RECORDARI_RERANK_TIMEOUT=120 python bench/reranking.py --data ../shared/data --collect
    python bench/reranking.py                                                  # the tables

Every question is asked once by the profile thorough. What is kept are the first candidates with our scores, which is the order
of the profile best, and with those of the cross-encoder. Each set counts by its own figure: recall@10, of LongMemEval all@10.
"""

from __future__ import annotations

import argparse
import asyncio
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from recall import haystacks
from recordari.config import Settings
from recordari.evaluation.retrieval import References, open_haystack, retrieve
from recordari.evaluation.rules.measures import Floats
from recordari.kit.resources import Resources
from recordari.models.reranking import OF_THIS_MACHINE
from recordari.recall import results as product
from recordari.recall.rules.ranking import Ranked
from recordari.recall.rules.reranking import LEAST, MOST, WEIGHT, blended, log_odds
from recordari.wiring import open_resources

SETS = ("locomo", "longmemeval", "lifebench")
BY_ALL = "longmemeval"
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
"""Weights of what was read, as they are tried."""


@dataclass(frozen=True, slots=True)
class Read:
    """One question: our scores of its first candidates, best first, their log-odds, and which are evidence."""

    own: tuple[float, ...]
    odds: tuple[float, ...]
    is_evidence: tuple[bool, ...]
    evidence: int


async def collect(resources: Resources, data: Path, name: str, most: int, stores: int | None) -> list[Read]:
    """Ask a sample of the questions, drawn with a fixed seed."""
    seen: list[tuple[Sequence[Ranked], Sequence[float]]] = []

    def watched(head: Sequence[Ranked], scores: Sequence[float]) -> list[Ranked]:
        seen.append((head, scores))
        return blended(head, scores)

    vars(product)["blended"] = watched
    references, read = References(), []
    asked = [(store, one) for store in haystacks(name, data)[:stores] for one in store.with_evidence]
    for store, one in random.Random(7).sample(asked, min(most, len(asked))):
        memory = await open_haystack(resources, store)
        seen.clear()
        await retrieve(memory, one, references)
        if not seen:
            raise SystemExit("the cross-encoder did not answer in time: set RECORDARI_RERANK_TIMEOUT higher")
        head, scores = seen[0]
        refs = await references.of(memory, [str(item.candidate.item_id) for item in head])
        own, odds = tuple(item.score for item in head), tuple(map(log_odds, scores))
        read.append(Read(own, odds, tuple(ref in one.evidence for ref in refs), len(one.evidence)))
    vars(product)["blended"] = blended
    return read


def figure(read: Sequence[Read], score: Callable[[Floats, Floats], Floats], *, cut: int, whole: bool) -> float:
    """The mean share of the evidence among the first, or how often all of it is there."""
    shares = []
    for one in read:
        order = np.argsort(-score(np.array(one.own), np.array(one.odds)), kind="stable")[:cut]
        shares.append(np.array(one.is_evidence)[order].sum() / one.evidence)
    return float(np.mean([share == 1 for share in shares] if whole else shares))


def added(weight: float) -> Callable[[Floats, Floats], Floats]:
    return lambda own, odds: np.asarray(own + weight * np.clip(odds, LEAST, MOST))


def unread(own: Floats, odds: Floats) -> Floats:
    return own


def compare(sets: Mapping[str, Sequence[Read]], console: Console) -> None:
    """Print what each set gains, as shipped and by what was chosen on the other sets."""

    def at(name: str, score: Callable[[Floats, Floats], Floats], cut: int = 10) -> float:
        return figure(sets[name], score, cut=cut, whole=name == BY_ALL and cut == 10)

    tried = {weight: {name: at(name, added(weight)) for name in sets} for weight in WEIGHTS}

    def chosen(names: Sequence[str]) -> float:
        return max(WEIGHTS, key=lambda weight: sum(tried[weight][name] for name in names))

    shipped, every = added(WEIGHT), chosen(list(sets))
    drawn = Table(title=f"weight {WEIGHT}; chosen on all: {every}")
    titles = (
        "questions",
        "R@1",
        "read",
        "R@5",
        "read",
        "figure@10",
        "read",
        "chosen without it",
        "chosen on all",
        "all that is read",
    )
    for column in ("", *titles):
        drawn.add_column(column, justify="right" if column else "left")
    rows = []
    for name, read in sets.items():
        others = chosen([one for one in sets if one != name])
        ceiling = figure(read, unread, cut=OF_THIS_MACHINE, whole=name == BY_ALL)
        of_ten = (at(name, unread), at(name, shipped), tried[others][name], tried[every][name], ceiling)
        before = [at(name, score, cut) for cut in (1, 5) for score in (unread, shipped)]
        rows.append((*before, *of_ten))
        drawn.add_row(name, str(len(read)), *(f"{value:.3f}" for value in rows[-1]))
    drawn.add_row("mean", "", *(f"{value:.3f}" for value in np.mean(rows, axis=0)))
    console.print(drawn)


async def run(arguments: argparse.Namespace) -> None:
    """Collect if asked to, and compare."""
    console, folder = Console(width=140), arguments.home / "features"
    if arguments.collect:
        folder.mkdir(parents=True, exist_ok=True)
        async with open_resources(Settings(home=arguments.home, embedding_profile="thorough")) as resources:
            for name in arguments.sets:
                read = await collect(resources, arguments.data, name, arguments.questions, arguments.stores)
                (folder / f"{name}-read.pickle").write_bytes(pickle.dumps(read))
                console.print(f"{name}: {len(read)} questions")
    files = {name: folder / f"{name}-read.pickle" for name in arguments.sets}
    compare({name: pickle.loads(file.read_bytes()) for name, file in files.items() if file.exists()}, console)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--questions", type=int, default=150, help="how many of each set, drawn with a fixed seed")
    parser.add_argument("--stores", type=int, default=None, help="only the first stores of each set")
    parser.add_argument("--collect", action="store_true", help="ask the questions first")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
