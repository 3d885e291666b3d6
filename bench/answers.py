"""How often `ask` says what was asked for, without a language model: the gold answer's words in its answer.

    python bench/recall.py --data ../shared/data --profile fast      # once: fills the stores
    python bench/answers.py --data ../shared/data --profile fast [--questions 200]

Beside it the same for the first recalled item alone. An answer *has* the gold answer when it has all of its words, numbers
included, by stem. *Silent* is the share of questions without an answer; LoCoMo's adversarial ones should have none.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from recall import haystacks
from recordari.app import Memory
from recordari.config import Settings
from recordari.core import text
from recordari.core.items import Kind
from recordari.evaluation.retrieval import at_moment, open_haystack
from recordari.evaluation.rules.formats import GoldQuestion, Haystack
from recordari.kit.resources import Resources
from recordari.wiring import open_resources


@dataclass(frozen=True, slots=True)
class Gold:
    """A question, and the words of its answer; None where it cannot be answered."""

    store: Haystack
    question: GoldQuestion
    words: frozenset[str] | None


def golds(name: str, data: Path) -> Iterator[Gold]:
    """The questions whose answer has words, and those that have no answer."""
    for store in haystacks(name, data):
        for question in store.questions:
            words = frozenset(text.terms(question.answer or "")) if question.is_answerable else None
            if words is None or words:
                yield Gold(store, question, words)


async def measure(resources: Resources, questions: list[Gold]) -> list[str]:
    """The figures of one set: words and whole answers of `ask` and of the first item, and how often `ask` is silent."""
    shares: list[tuple[float, float]] = []
    silent = {True: [0, 0], False: [0, 0]}
    for gold in questions:
        at = at_moment(resources, gold.question.asked_at)
        memory = Memory(at, (await open_haystack(resources, gold.store)).identity)
        answer = await memory.ask(gold.question.text, source_kinds=[Kind.CHAT_MESSAGE])
        counts = silent[gold.words is not None]
        counts[0] += answer.answer is None
        counts[1] += 1
        if gold.words is not None:
            first = await memory.recall(gold.question.text, top_k=1, source_kinds=[Kind.CHAT_MESSAGE])
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
        for name in ("longmemeval", "locomo"):
            questions = list(golds(name, arguments.data))
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
