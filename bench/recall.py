"""Recall quality on LoCoMo, LongMemEval, LifeBench and tau2 banking, through the public API, with an ablation of the arms.

    python bench/recall.py --data ../shared/data [--profile best] [--only locomo] [--questions 200]
    python bench/recall.py --only dialogues --profile fast
    python bench/recall.py --data ../shared/data --profile fast --together      # all histories are users of one tenant

The histories, questions and measures are those of `recordari eval`; this adds the arms, switched on one by one, and documents.
The dialogues are the memories that our models learn from (`tools/training`): measure them with `fast`, which learns nothing.
No weight of the ranker was chosen on them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.evaluation.files import load
from recordari.evaluation.retrieval import References, ingest, open_haystack, remember, retrieve
from recordari.evaluation.rules.formats import Haystack
from recordari.evaluation.rules.measures import CUTS, Score
from recordari.kit.resources import Resources
from recordari.recall.request import MAX_QUERY_CHARACTERS, Arm
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources

sys.path.append(str(Path(__file__).parents[1]))
from tools.training import dialogues

RESULTS = Path(__file__).parent / "results"
ABLATION: tuple[tuple[str, frozenset[Arm]], ...] = (
    ("text", frozenset({Arm.TEXT})),
    ("vector", frozenset({Arm.VECTOR})),
    ("text + vector", frozenset({Arm.TEXT, Arm.VECTOR})),
    ("+ late interaction", frozenset({Arm.TEXT, Arm.VECTOR, Arm.LATE})),
    ("+ session and neighbours", frozenset({Arm.TEXT, Arm.VECTOR, Arm.LATE, Arm.SESSION})),
    ("+ wording", frozenset({Arm.TEXT, Arm.VECTOR, Arm.LATE, Arm.SESSION, Arm.WORDING})),
    ("+ time", frozenset(Arm) - {Arm.ENTITY}),
    ("+ entities (all)", frozenset(Arm)),
)


FILES = {
    "locomo": "locomo/locomo10.json",
    "longmemeval": "longmemeval/longmemeval_s_dev60.json.gz",
    "lifebench": "lifebench/lifebench_en_dev3.json.gz",
}
DIALOGUES = "dialogues"


def haystacks(name: str, data: Path) -> list[Haystack]:
    """The histories of one data set in the folder of all, or the dialogues of the project."""
    return dialogues.read_all() if name == DIALOGUES else load(data / FILES[name])[1]


Opening = Callable[[Resources, Haystack], Awaitable[Memory]]
"""How the memory of a history is opened."""
TOGETHER = "together"


async def open_together(resources: Resources, store: Haystack) -> Memory:
    """The memory of one of the users of a tenant that has all histories."""
    tenant = await tenants.ensure_tenant(resources, TOGETHER)
    memory = Memory(resources, Identity(tenant_id=tenant.tenant_id, role=Role.ADMIN))
    if tenant.settings.get("extraction") != "off":
        await memory.update_tenant(settings={"extraction": "off"})
    return memory.acting_as(user=store.name)


async def remember_together(resources: Resources, data: Path) -> None:
    """Put every history that is there, and the dialogues, into one tenant."""
    names = [name for name in FILES if (data / name).exists()]
    async with background_worker(resources):
        for store in (store for name in (*names, DIALOGUES) for store in haystacks(name, data)):
            await remember(await open_together(resources, store), store)


async def ask(
    resources: Resources, stores: Sequence[Haystack], arms: frozenset[Arm], most: int | None, opened: Opening
) -> tuple[dict[str, Score], list[float]]:
    """Ask every question; scores by category, and milliseconds of each recall."""
    scores: dict[str, Score] = defaultdict(Score)
    times: list[float] = []
    references = References()
    for store in stores:
        memory = await opened(resources, store)
        for asked in store.with_evidence[:most]:
            started = time.perf_counter()
            found = await retrieve(memory, asked, references, arms=arms)
            times.append((time.perf_counter() - started) * 1000)
            scores[asked.category].add(found.refs, asked.evidence)
            scores["all"].add(found.refs, asked.evidence)
    return scores, times


MEASURES = (*(f"recall@{cut}" for cut in CUTS), "all@10", "session any@5", "session all@5", "MRR", "nDCG@10")


def table(title: str, rows: Sequence[tuple[str, Score]]) -> Table:
    """Rows of scores as a table."""
    drawn = Table(title=title)
    for column in ("", "questions", *MEASURES):
        drawn.add_column(column, justify="right" if column else "left")
    for name, score in rows:
        means = score.means()
        drawn.add_row(name, str(score.questions), *(f"{means[measure]:.3f}" for measure in MEASURES))
    return drawn


async def measure_documents(resources: Resources, data: Path, most: int | None, console: Console) -> dict[str, Any]:
    """tau2 banking: policy documents, and tasks that name those they need; what the customer is told is the question."""
    tenant = "tau2-banking"
    await tenants.ensure_tenant(resources, tenant)
    memory = Memory(resources, Identity(tenant_id=tenant_id_of(tenant), role=Role.ADMIN))
    started, changed = time.perf_counter(), 0
    async with background_worker(resources):
        for file in sorted((data / "documents").glob("*.json")):
            document = json.loads(file.read_text())
            added = await memory.add_document(
                f"{document['id']}.md", text=document["content"], metadata={"title": document["title"]}
            )
            changed += added.changed
        while (await memory.search_knowledge("anything", top_k=1)).degraded:
            await asyncio.sleep(0.5)
    console.print(f"{changed} new documents in {time.perf_counter() - started:.0f} s")
    score, reachable, times = Score(), 0.0, []
    for file in sorted((data / "tasks").glob("*.json"))[:most]:
        task = json.loads(file.read_text())
        needed = frozenset(task["required_documents"])
        asked = time.perf_counter()
        answer = await memory.search_knowledge(task["user_scenario"]["instructions"][:MAX_QUERY_CHARACTERS], top_k=20)
        times.append((time.perf_counter() - asked) * 1000)
        cited = [item.citation.document.removesuffix(".md") for item in answer.items if item.citation is not None]
        score.add(list(dict.fromkeys(cited)), needed)
        reachable += min(10, len(needed)) / len(needed)
    console.print(table("tau2 banking, documents", [("all", score)]))
    times.sort()
    console.print(
        f"recall@10 could be {reachable / max(score.questions, 1):.3f} at most: many tasks need more than ten documents; "
        f"a question of {len(times)} took {times[len(times) // 2]:.0f} ms (median)"
    )
    return {"scores": {"all": {"questions": score.questions, **score.means()}}, "reachable@10": reachable}


FIGURES = {"locomo": "recall@10", "longmemeval": "all@10", "lifebench": "recall@10", "tau2": "recall@10"}
"""The figure by which each set counts in the mean of the sets."""


def summary(report: Mapping[str, Any], profile: str) -> str:
    """The figure of each set by this one setting, and their mean."""
    found = {name: report[name]["scores"]["all"][figure] for name, figure in FIGURES.items() if name in report}
    each = ", ".join(f"{name} {FIGURES[name]} {value:.3f}" for name, value in found.items())
    return f"one setting, profile {profile}: {each}; mean {sum(found.values()) / max(len(found), 1):.3f}"


async def run(arguments: argparse.Namespace) -> None:
    """Measure what was asked for, print it and write it down."""
    console = Console(width=140)
    settings = Settings(home=arguments.home, embedding_profile=arguments.profile)
    report: dict[str, Any] = {"profile": arguments.profile}
    opened = open_together if arguments.together else open_haystack
    async with open_resources(settings) as resources:
        if arguments.together:
            await remember_together(resources, arguments.data)
        for name in [arguments.only] if arguments.only == DIALOGUES else FILES:
            if arguments.only and arguments.only != name:
                continue
            if name != DIALOGUES and not (arguments.data / name).exists():
                console.print(f"{name}: not measured, {arguments.data / name} is not there")
                continue
            stores = haystacks(name, arguments.data)[: arguments.stores]
            started = time.perf_counter()
            count = 0 if arguments.together else await ingest(resources, stores)
            rate = count / (time.perf_counter() - started)
            console.print(f"{count} new turns of {len(stores)} stores ({rate:.0f}/s)")
            scores, times = await ask(resources, stores, frozenset(Arm), arguments.questions, opened)
            times.sort()
            rows = [(one, scores[one]) for one in sorted(scores)]
            console.print(table(f"{name}, profile {arguments.profile}", rows))
            plain = [one for one in scores if one not in {"all", "adversarial"}]
            without = [row["nDCG@10"] for one in plain for row in scores[one].rows]
            ndcg = sum(without) / max(len(without), 1)
            console.print(
                f"nDCG@10 without adversarial: {ndcg:.3f}; recall p50 {times[len(times) // 2]:.1f} ms, "
                f"p95 {times[int(len(times) * 0.95)]:.1f} ms (with trace, one client)"
            )
            report[name] = {
                "turns_per_second": rate,
                "scores": {one: {"questions": score.questions, **score.means()} for one, score in scores.items()},
                "ndcg_without_adversarial": ndcg,
            }
            if arguments.ablation:
                ablated = [
                    (title, (await ask(resources, stores, arms, arguments.questions, opened))[0]["all"])
                    for title, arms in ABLATION
                ]
                console.print(table(f"{name}: arms switched on one by one", ablated))
                report[name]["ablation"] = {title: score.means() for title, score in ablated}
        banking = arguments.data / "knowledge" / "tau2_banking"
        if arguments.only in {None, "tau2"} and banking.exists():
            report["tau2"] = await measure_documents(resources, banking, arguments.questions, console)
        elif arguments.only in {None, "tau2"}:
            console.print(f"tau2: not measured, {banking} is not there")
    console.print(summary(report, arguments.profile))
    console.print("bench/ranking.py has what weights learnt without a set are worth on it")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"recall-{arguments.profile}{'-together' if arguments.together else ''}.json"
    path.write_text(json.dumps(report, indent=1))
    console.print(f"written to bench/results/{path.name}")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast", "thorough"], default="best")
    parser.add_argument("--only", choices=["locomo", "longmemeval", "lifebench", "tau2", DIALOGUES])
    parser.add_argument("--stores", type=int, default=None, help="only the first stores of each set")
    parser.add_argument("--questions", type=int, default=None, help="only the first questions of each store")
    parser.add_argument("--together", action="store_true", help="all histories are users of one tenant")
    parser.add_argument("--ablation", action="store_true", help="also with arms switched on one by one")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
