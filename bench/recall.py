"""Recall quality on LoCoMo, LongMemEval, LifeBench and tau2 banking, through the public API, with an ablation of the arms.

    python bench/recall.py --data ../shared/data [--profile best] [--only locomo] [--questions 200]

Each LoCoMo conversation is a tenant and each LongMemEval haystack is one; turns are remembered as a user would remember them,
one setting for all. Prints recall@1/5/10/20/50, recall_all@10, nDCG@10 by category, and the units that others publish:
session recall_any@5 and recall_all@5, and the mean reciprocal rank of the first turn that answers (MRR). Then the arms
switched on one by one.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.table import Table

from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, Scope, tenant_id_of
from recordari.core.items import Kind, NewItem, Trust
from recordari.kit.resources import Resources
from recordari.recall.request import MAX_QUERY_CHARACTERS, Arm
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources

RESULTS = Path(__file__).parent / "results"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
CUTS = (1, 5, 10, 20, 50)
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


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, who asks it when, and the turns that answer it."""

    text: str
    category: str
    evidence: frozenset[str]
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """One tenant of a data set: its turns and the questions about them."""

    name: str
    turns: tuple[NewItem, ...]
    questions: tuple[Asked, ...]


@dataclass(slots=True)
class Score:
    """Sums over questions."""

    questions: int = 0
    recall: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    recall_all: float = 0.0
    session_any: float = 0.0
    session_all: float = 0.0
    reciprocal: float = 0.0
    ndcg: float = 0.0

    def add(self, found: Sequence[str], evidence: frozenset[str]) -> None:
        """Count one question's answer."""
        self.questions += 1
        for cut in CUTS:
            self.recall[cut] += len(evidence & set(found[:cut])) / len(evidence)
        self.recall_all += evidence <= set(found[:10])
        sessions = set(list(dict.fromkeys(ref.rpartition("#")[0] for ref in found))[:5])
        needed = {ref.rpartition("#")[0] for ref in evidence}
        self.session_any += not needed.isdisjoint(sessions)
        self.session_all += needed <= sessions
        self.reciprocal += next((1 / place for place, ref in enumerate(found, start=1) if ref in evidence), 0.0)
        gain = sum(1 / math.log2(place + 2) for place, ref in enumerate(found[:10]) if ref in evidence)
        self.ndcg += gain / sum(1 / math.log2(place + 2) for place in range(min(len(evidence), 10)))

    def means(self) -> dict[str, float]:
        """Mean figures."""
        count = max(self.questions, 1)
        return {
            **{f"recall@{cut}": self.recall[cut] / count for cut in CUTS},
            "recall_all@10": self.recall_all / count,
            "session_any@5": self.session_any / count,
            "session_all@5": self.session_all / count,
            "MRR": self.reciprocal / count,
            "nDCG@10": self.ndcg / count,
        }


def locomo(data: Path) -> Iterator[Store]:
    """Ten long conversations."""
    for number, sample in enumerate(json.loads((data / "locomo" / "locomo10.json").read_text())):
        conversation, turns = sample["conversation"], []
        for session in sorted(
            (key for key in conversation if key.startswith("session_") and not key.endswith("date_time")),
            key=lambda key: int(key.rpartition("_")[2]),
        ):
            moment = datetime.strptime(conversation[f"{session}_date_time"], "%I:%M %p on %d %B, %Y").replace(
                tzinfo=UTC
            )
            for turn in conversation[session]:
                caption = turn.get("blip_caption")
                content = turn["text"] + (f" [image: {caption}]" if caption else "")
                turns.append(
                    NewItem(
                        content=content or "…",
                        speaker=turn["speaker"],
                        source_ref=f"{session}#{turn['dia_id']}",
                        session_id=session,
                        event_time=moment,
                        scope=Scope.USER,
                    )
                )
        by_id = {str(turn.source_ref).rpartition("#")[2]: str(turn.source_ref) for turn in turns}
        questions = []
        for asked in sample["qa"]:
            cited = " ".join(asked.get("evidence") or []).replace(";", " ").replace(",", " ").split()
            evidence = frozenset(by_id[one] for one in cited if one in by_id)
            if evidence:
                questions.append(Asked(asked["question"], CATEGORIES[asked["category"]], evidence))
        yield Store(f"locomo-{number}", tuple(turns), tuple(questions))


def longmemeval(data: Path) -> Iterator[Store]:
    """Sixty questions, each with a haystack of its own."""
    with gzip.open(data / "longmemeval" / "longmemeval_s_dev60.json.gz") as file:
        samples = json.load(file)
    for sample in samples:
        turns, evidence = [], set()
        sessions = zip(
            sample["haystack_session_ids"], sample["haystack_dates"], sample["haystack_sessions"], strict=True
        )
        for place, (session, date, said) in enumerate(sessions):
            moment = _moment(date)
            for number, turn in enumerate(said):
                if not turn["content"].strip("\u200b \t\n"):
                    continue
                is_user = turn["role"] == "user"
                ref = f"{session}/{place}#{number}"
                if turn.get("has_answer"):
                    evidence.add(ref)
                turns.append(
                    NewItem(
                        content=turn["content"],
                        speaker=turn["role"],
                        trust=Trust.USER if is_user else Trust.AGENT,
                        source_ref=ref,
                        session_id=f"{session}/{place}",
                        event_time=moment,
                        scope=Scope.USER,
                    )
                )
        asked = Asked(
            sample["question"], sample["question_type"], frozenset(evidence), _moment(sample["question_date"])
        )
        yield Store(f"longmemeval-{sample['question_id']}", tuple(turns), (asked,) if evidence else ())


def lifebench(data: Path) -> Iterator[Store]:
    """The phones of three people: records with exact times, which are no conversation."""
    with gzip.open(data / "lifebench" / "lifebench_en_dev3.json.gz") as file:
        people = json.load(file)
    for person in people:
        turns = tuple(
            NewItem(
                content=record["text"],
                source_ref=record["ref"],
                session_id=record["session"],
                event_time=datetime.fromisoformat(record["at"]),
                scope=Scope.USER,
            )
            for record in person["records"]
        )
        known = {turn.source_ref for turn in turns}
        questions = tuple(
            Asked(asked["question"], asked["type"], evidence, datetime.fromisoformat(asked["asked_at"]))
            for asked in person["questions"]
            if (evidence := frozenset(asked["evidence"]) & known)
        )
        yield Store(f"lifebench-{person['user']}", turns, questions)


def _moment(written: str) -> datetime:
    return datetime.strptime(written.split(" (")[0] + " " + written.split(") ")[1], "%Y/%m/%d %H:%M").replace(
        tzinfo=UTC
    )


async def ingest(resources: Resources, stores: Sequence[Store], console: Console) -> float:
    """Remember every turn, and wait until all are embedded; turns a second."""
    started, count = time.perf_counter(), 0
    async with background_worker(resources):
        for store in stores:
            memory = await open_store(resources, store)
            async for batch in memory.import_items(store.turns):
                count += sum(one.was_new for one in batch)
        for store in stores:
            memory = await open_store(resources, store)
            while (await memory.recall("anything", top_k=1)).degraded:
                await asyncio.sleep(0.5)
    seconds = time.perf_counter() - started
    console.print(f"{count} new turns of {len(stores)} stores in {seconds:.0f} s ({count / seconds:.0f}/s)")
    return count / seconds


async def open_store(resources: Resources, store: Store) -> Memory:
    """The memory of a store's own tenant."""
    tenant = await tenants.ensure_tenant(resources, store.name)
    memory = Memory(resources, Identity(tenant_id=tenant_id_of(store.name), role=Role.ADMIN))
    if tenant.settings.get("extraction") != "off":
        # What is measured is the recall of turns: facts drawn from them would only cost time here.
        await memory.update_tenant(settings={"extraction": "off"})
    return memory.acting_as(user="person")


async def ask(
    resources: Resources, stores: Sequence[Store], arms: frozenset[Arm], most: int | None
) -> tuple[dict[str, Score], list[float]]:
    """Ask every question; scores by category, and milliseconds of each recall."""
    scores: dict[str, Score] = defaultdict(Score)
    times: list[float] = []
    for store in stores:
        memory = await open_store(resources, store)
        for asked in store.questions[:most]:
            at = asked.asked_at
            bound = Memory(_at(resources, at) if at else resources, memory.identity)
            started = time.perf_counter()
            answer = await bound.recall(asked.text, top_k=20, source_kinds=[Kind.CHAT_MESSAGE], explain=True, arms=arms)
            times.append((time.perf_counter() - started) * 1000)
            assert answer.trace is not None
            found = await _refs(bound, [one["id"] for one in answer.trace["items"]])
            scores[asked.category].add(found, asked.evidence)
            scores["all"].add(found, asked.evidence)
    return scores, times


def _at(resources: Resources, moment: datetime) -> Resources:
    return replace(resources, clock=lambda: moment)


_known: dict[str, str] = {}


async def _refs(memory: Memory, ids: Sequence[str]) -> list[str]:
    """The source references of items, looked up once each."""
    for one in ids:
        if one not in _known:
            _known[one] = (await memory.get_item(UUID(one))).source_ref
    return [_known[one] for one in ids]


def table(title: str, rows: Sequence[tuple[str, Score]]) -> Table:
    """Rows of scores as a table."""
    drawn = Table(title=title)
    for column in (
        "",
        "questions",
        *(f"R@{cut}" for cut in CUTS),
        "all@10",
        "session any@5",
        "session all@5",
        "MRR",
        "nDCG@10",
    ):
        drawn.add_column(column, justify="left" if not column else "right")
    for name, score in rows:
        drawn.add_row(name, str(score.questions), *(f"{value:.3f}" for value in score.means().values()))
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


async def run(arguments: argparse.Namespace) -> None:
    """Measure what was asked for, print it and write it down."""
    console = Console(width=140)
    sets = {"locomo": locomo, "longmemeval": longmemeval, "lifebench": lifebench}
    settings = Settings(home=arguments.home, embedding_profile=arguments.profile)
    report: dict[str, Any] = {"profile": arguments.profile}
    async with open_resources(settings) as resources:
        for name, load in sets.items():
            if arguments.only and arguments.only != name:
                continue
            if not (arguments.data / name).exists():
                console.print(f"{name}: not measured, {arguments.data / name} is not there")
                continue
            stores = list(load(arguments.data))[: arguments.stores]
            rate = await ingest(resources, stores, console)
            scores, times = await ask(resources, stores, frozenset(Arm), arguments.questions)
            times.sort()
            rows = [(one, scores[one]) for one in sorted(scores)]
            console.print(table(f"{name}, profile {arguments.profile}", rows))
            plain = [one for one in scores if one not in {"all", "adversarial"}]
            ndcg = sum(scores[one].ndcg for one in plain) / max(sum(scores[one].questions for one in plain), 1)
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
                    (title, (await ask(resources, stores, arms, arguments.questions))[0]["all"])
                    for title, arms in ABLATION
                ]
                console.print(table(f"{name}: arms switched on one by one", ablated))
                report[name]["ablation"] = {title: score.means() for title, score in ablated}
        banking = arguments.data / "knowledge" / "tau2_banking"
        if arguments.only in {None, "tau2"} and banking.exists():
            report["tau2"] = await measure_documents(resources, banking, arguments.questions, console)
        elif arguments.only in {None, "tau2"}:
            console.print(f"tau2: not measured, {banking} is not there")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"recall-{arguments.profile}.json"
    path.write_text(json.dumps(report, indent=1))
    console.print(f"written to bench/results/{path.name}")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast", "thorough"], default="best")
    parser.add_argument("--only", choices=["locomo", "longmemeval", "lifebench", "tau2"])
    parser.add_argument("--stores", type=int, default=None, help="only the first stores of each set")
    parser.add_argument("--questions", type=int, default=None, help="only the first questions of each store")
    parser.add_argument("--ablation", action="store_true", help="also with arms switched on one by one")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
