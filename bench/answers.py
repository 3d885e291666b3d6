"""How often `ask` says what was asked for, without a language model: the gold answer's words in its answer.

    python bench/recall.py --data ../shared/data --profile fast      # once: fills the stores
    python bench/answers.py --data ../shared/data --profile fast [--questions 200]

Beside it the same for the first recalled item alone. An answer *has* the gold answer when it has all of its words, numbers
included, by stem. *Silent* is the share of questions without an answer; LoCoMo's adversarial ones should have none.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

import recall as bench
from recordari.app import Memory
from recordari.config import Settings
from recordari.core import text
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.core.items import Kind
from recordari.kit.resources import Resources
from recordari.wiring import open_resources


@dataclass(frozen=True, slots=True)
class Gold:
    """A question, and the words of its answer; None where it cannot be answered."""

    store: str
    text: str
    words: frozenset[str] | None
    asked_at: datetime | None = None


def locomo(data: Path) -> Iterator[Gold]:
    for number, sample in enumerate(json.loads((data / "locomo" / "locomo10.json").read_text())):
        for asked in sample["qa"]:
            words = frozenset(text.terms(str(asked["answer"]))) if asked["category"] != 5 else None
            if words is None or words:
                yield Gold(f"locomo-{number}", asked["question"], words)


def longmemeval(data: Path) -> Iterator[Gold]:
    with gzip.open(data / "longmemeval" / "longmemeval_s_dev60.json.gz") as file:
        samples = json.load(file)
    for sample in samples:
        is_known = not sample["question_id"].endswith("_abs")
        words = frozenset(text.terms(str(sample["answer"]))) if is_known else None
        yield Gold(
            f"longmemeval-{sample['question_id']}", sample["question"], words, bench._moment(sample["question_date"])
        )


async def measure(resources: Resources, questions: list[Gold]) -> list[str]:
    """The figures of one set: words and whole answers of `ask` and of the first item, and how often `ask` is silent."""
    shares: list[tuple[float, float]] = []
    silent = {True: [0, 0], False: [0, 0]}
    for gold in questions:
        at = bench._at(resources, gold.asked_at) if gold.asked_at else resources
        memory = Memory(at, Identity(tenant_id=tenant_id_of(gold.store), role=Role.ADMIN)).acting_as(user="person")
        answer = await memory.ask(gold.text, source_kinds=[Kind.CHAT_MESSAGE])
        counts = silent[gold.words is not None]
        counts[0] += answer.answer is None
        counts[1] += 1
        if gold.words is not None:
            first = await memory.recall(gold.text, top_k=1, source_kinds=[Kind.CHAT_MESSAGE])
            said = (answer.answer or "", first.items[0].content if first.items else "")
            shares.append((_share(gold.words, said[0]), _share(gold.words, said[1])))
    count = max(len(shares), 1)
    of_words = [sum(pair[place] for pair in shares) / count for place in (0, 1)]
    whole = [sum(pair[place] == 1 for pair in shares) / count for place in (0, 1)]
    quiet = [f"{number / total:.3f}" if total else "" for number, total in (silent[True], silent[False])]
    return [str(len(questions)), *(f"{value:.3f}" for value in (*of_words, *whole)), *quiet]


def _share(words: frozenset[str], said: str) -> float:
    return len(words & set(text.terms(said))) / len(words)


async def run(arguments: argparse.Namespace) -> None:
    drawn = Table(title=f"ask, without a language model, profile {arguments.profile}")
    titles = ("questions", "words", "… first item", "whole answer", "… first item", "silent", "… unanswerable")
    for column in ("", *titles):
        drawn.add_column(column, justify="right" if column else "left")
    settings = Settings(home=arguments.home, embedding_profile=arguments.profile)
    async with open_resources(settings) as resources:
        for name, load in (("longmemeval", longmemeval), ("locomo", locomo)):
            questions = list(load(arguments.data))
            chosen = random.Random(3).sample(questions, min(arguments.questions, len(questions)))
            drawn.add_row(name, *await measure(resources, chosen))
    Console(width=140).print(drawn)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast", "thorough"], default="fast")
    parser.add_argument("--questions", type=int, default=300, help="most questions of each set")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
