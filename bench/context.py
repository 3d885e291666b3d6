"""Assembling a context, end to end: tenants of 1,000, 10,000 and 100,000 items, cold and cached, 1 and 16 clients.

    python bench/context.py [--home FOLDER] [--clients 1,16] [--questions 150] [--profile best]

Everything that a turn has is there: an agent's definition, a session with its window and summary, shared facts, a run with
what was handed to it. The question is embedded by the real model (cold: each is new), nothing is reranked. Texts and
their vectors are those of `recall_scale.py`. Beside each figure stands that of the recall alone in the same run: what is
left is the assembly's own. Prints a table and writes `bench/results/context.json`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from recall_scale import (
    DIMENSIONS,
    KnownVectors,
    Question,
    Size,
    Vectors,
    admin,
    is_loaded,
    load,
    percentiles,
    questions,
)
from recordari.app import Memory
from recordari.config import Settings
from recordari.context.assemble import RECALLED
from recordari.db.address import bring_up_to_date, open_address
from recordari.kit.resources import Resources
from recordari.memory import index
from recordari.models.base import Embedder
from recordari.models.embedding import Embedders
from recordari.runner import background_worker
from recordari.sessions.rules.window import NewMessage
from recordari.tenants.rules import AgentDefinition
from recordari.wiring import make_embedders, open_resources

RESULTS = Path(__file__).parent / "results"
SIZES = [Size(name=f"context-{rows}", rows=rows) for rows in (1_000, 10_000, 100_000)]
ANYWHERE: Vectors = np.eye(1, DIMENSIONS, dtype=np.float32)[0]
CORE = "You are the clerk of a harbour office. You answer in English, and say when you do not know. " * 3


class EmbeddedForReal(KnownVectors):
    """Answers the known vector, after the model has embedded the question: the time is real, the place is known."""

    def __init__(self, model: Embedder) -> None:
        super().__init__()
        self.model = model

    async def embed_query(self, text: str) -> Vectors:
        """The vector noted for the question."""
        await self.model.embed_query(text)
        return self.vectors.get(text, ANYWHERE)

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Somewhere: what is written beside the loaded texts is found by its words."""
        return np.tile(ANYWHERE, (len(texts), 1))


async def furnish(memory: Memory) -> Memory:
    """What a turn has besides memory: a definition, a session, shared facts, a run."""
    await memory.save_agent("clerk", AgentDefinition(core=CORE, characteristics="Patient and brief."))
    for number in range(10):
        await memory.remember_fact(f"Berth {number} is open from {number + 5}:00.", scope="tenant")
    clerk = memory.acting_as(user="user-0", agent="clerk", session="context-session", run="context-run")
    await clerk.start_run(run_id="context-run", session_id="context-session")
    await clerk.delegate("goal", "Answer the ticket about the crane.", run_id="context-run")
    messages = [
        NewMessage(
            content=f"Container {n} has cleared customs in Antwerp, and we decided to ship it.", message_id=str(n)
        )
        for n in range(20)
    ]
    await clerk.add_messages(messages, session_id="context-session")
    async with background_worker(clerk.resources):
        while (await clerk.recall("anything", top_k=1)).degraded:
            await asyncio.sleep(0.2)
    return clerk


async def timed(clerk: Memory, asked: Sequence[Question], clients: int, *, only_recall: bool = False) -> list[float]:
    """Milliseconds of each assembly (or of the recall alone), with so many clients at once."""
    spent: list[float] = []
    waiting = list(asked)

    async def client() -> None:
        while waiting:
            question = waiting.pop()
            started = time.perf_counter()
            if only_recall:
                await clerk.recall(question.text, top_k=20, source_kinds=RECALLED, enable_rerank=False)
            else:
                context = await clerk.get_context(question.text)
                assert 0 < context.tokens <= context.budget
            spent.append((time.perf_counter() - started) * 1000)

    await asyncio.gather(*(client() for _ in range(clients)))
    return spent


async def marks(clerk: Memory, asked: Sequence[Question]) -> dict[str, float]:
    """After how many milliseconds a recall of one client has come how far (medians), by its own trace.

    The model embeds the question until "prepare"; words, times and names are found meanwhile ("early").
    """
    seen: dict[str, list[float]] = {}
    for question in asked:
        answer = await clerk.recall(question.text, top_k=20, source_kinds=RECALLED, enable_rerank=False, explain=True)
        assert answer.trace is not None
        for step, milliseconds in answer.trace["milliseconds"].items():
            seen.setdefault(step, []).append(milliseconds)
    return {step: round(statistics.median(found), 1) for step, found in seen.items()}


async def measure(
    resources: Resources, embedder: EmbeddedForReal, clients: Sequence[int], count: int
) -> list[dict[str, Any]]:
    """Every tenant: cold (each question is new), the recall alone, and the same questions again."""
    results: list[dict[str, Any]] = []
    for size in SIZES:
        await index.maintain(resources, admin(size))
        clerk = await furnish(Memory(resources, admin(size)))
        every = questions(size, count * (2 * len(clients) + 2))
        embedder.vectors = {question.text: question.vector for question in every}
        parts = [every[place : place + count] for place in range(0, len(every), count)]
        await timed(clerk, parts.pop(), 1)  # warms the model, the server's caches and the tenant's view
        row: dict[str, Any] = {"tenant": size.name, "rows": size.rows}
        for number in clients:
            cold = parts.pop()
            row[f"cold@{number}"] = percentiles(await timed(clerk, cold, number))
            row[f"recall alone@{number}"] = percentiles(await timed(clerk, parts.pop(), number, only_recall=True))
            row[f"cached@{number}"] = percentiles(await timed(clerk, cold, number))
        row["a recall's way"] = await marks(clerk, parts.pop())
        results.append(row)
        Console(stderr=True).print(row)
    return results


async def run(arguments: argparse.Namespace, home: Path) -> list[dict[str, Any]]:
    """Load what is missing, then measure."""
    settings = Settings(
        home=home, worker=False, pool_max_size=8, pool_timeout=60.0, embedding_profile=arguments.profile, rate_limit=""
    )
    async with open_address(settings) as address:
        await bring_up_to_date(settings, address)
        assert address.owner_dsn is not None
        if not is_loaded(address.owner_dsn, SIZES):
            started = time.perf_counter()
            async with open_resources(settings) as resources:
                await load(resources, address.owner_dsn, SIZES)
            Console(stderr=True).print(f"loaded in {time.perf_counter() - started:.0f} s")
        models = make_embedders(settings)
        model = models.of(None)
        assert model is not None
        async with open_resources(settings) as resources:
            embedder = EmbeddedForReal(model)
            known = replace(resources, embedders=Embedders(embedder, lambda _: None))
            results = await measure(known, embedder, arguments.clients, arguments.questions)
        await models.close()
        return results


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, help="folder to keep the database in")
    parser.add_argument("--clients", type=lambda text: [int(one) for one in text.split(",")], default=[1, 16])
    parser.add_argument("--questions", type=int, default=150, help="questions of each measurement")
    parser.add_argument("--profile", choices=["best", "fast"], default="best")
    arguments = parser.parse_args()
    if arguments.home:
        results = asyncio.run(run(arguments, arguments.home))
    else:
        with tempfile.TemporaryDirectory(prefix="recordari-context-") as folder:
            Path(folder).chmod(0o755)  # the server may run as another user
            results = asyncio.run(run(arguments, Path(folder)))
    table = Table(title=f"assembling a context, profile {arguments.profile}, milliseconds as p50 / p95")
    for column in list(results[0])[:-1]:
        table.add_column(column, justify="right")
    for row in results:
        table.add_row(
            *(
                " / ".join(map(str, value)) if isinstance(value, tuple) else str(value)
                for value in list(row.values())[:-1]
            )
        )
    Console(width=200).print(table)
    for row in results:
        way = ", ".join(f"{step} {after}" for step, after in row["a recall's way"].items())
        Console(width=200).print(f"{row['tenant']}: a recall has come so far after milliseconds: {way}")
    growth = results[-1][f"cold@{arguments.clients[0]}"][0] / results[0][f"cold@{arguments.clients[0]}"][0]
    Console().print(f"growth of the cold p50 from {SIZES[0].rows:,} to {SIZES[-1].rows:,} items: {growth:.2f}×")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "context.json").write_text(json.dumps({"growth": growth, "tenants": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
