"""Questions with several steps on LoCoMo: what a single pass shows, and what further rounds add to it.

    python bench/steps.py --data ../shared/data --home FOLDER

Takes the folder that `bench/recall.py` has filled (or fills it). Only questions that the rules call multi-step are asked.
`shown` is what a context has: the best five, and up to three that later rounds found.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from pathlib import Path

from rich.console import Console

from recall import haystacks, table
from recordari.app import Memory
from recordari.config import Settings
from recordari.context.assemble import MORE_BY_STEPS
from recordari.core.items import Kind
from recordari.evaluation.retrieval import ingest, open_haystack
from recordari.evaluation.rules.measures import Score
from recordari.recall.request import RecalledItem
from recordari.recall.rules.steps import is_multi_step, joined, next_questions
from recordari.wiring import open_resources

KEPT = 5


async def asked(memory: Memory, question: str) -> tuple[RecalledItem, ...]:
    """What one round finds."""
    return (await memory.recall(question, top_k=20, source_kinds=[Kind.CHAT_MESSAGE])).items


async def run(arguments: argparse.Namespace) -> None:
    """Ask every multi-step question once and in rounds."""
    console = Console(width=120)
    stores = haystacks("locomo", arguments.data)
    scores: dict[str, Score] = {}
    counts: Counter[str] = Counter()
    async with open_resources(Settings(home=arguments.home, embedding_profile=arguments.profile)) as resources:
        await ingest(resources, stores)
        for store in stores:
            memory = await open_haystack(resources, store)
            for question in store.with_evidence:
                if not is_multi_step(question.text):
                    continue
                counts[question.category] += 1
                first = await asked(memory, question.text)
                steps = next_questions(question.text, [(one.content, one.event_time) for one in first])
                later = [[one.source_ref for one in await asked(memory, step)] for step in steps]
                refs = [one.source_ref for one in first]
                order = joined(refs, later, kept=KEPT, more=MORE_BY_STEPS)
                whole = joined(refs, later, kept=10, more=MORE_BY_STEPS)
                for name, found in {
                    "single pass, best 5": refs[:KEPT],
                    "shown in rounds, 5 + 3": order[: KEPT + MORE_BY_STEPS],
                    "single pass, best 8": refs[: KEPT + MORE_BY_STEPS],
                    "single pass, 20": refs,
                    "in rounds, 20": whole,
                }.items():
                    scores.setdefault(name, Score()).add(found, question.evidence)
    console.print(table(f"LoCoMo, multi-step questions by category: {dict(counts)}", list(scores.items())))


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast"], default="best")
    arguments = parser.parse_args()
    if not (arguments.data / "locomo").exists():
        print(f"not measured: {arguments.data / 'locomo'} is not there")
        return
    asyncio.run(run(arguments))


if __name__ == "__main__":
    main()
