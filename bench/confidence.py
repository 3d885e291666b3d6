"""How well `confidence` tells an answer that contains what was asked from one that does not, and how it is fitted.

    python bench/recall.py --data ../shared/data --profile fast                # once: fills the stores
    python bench/confidence.py --data ../shared/data --profile fast --collect  # asks, and keeps the signs of every answer
    python bench/confidence.py --profile fast                                  # fits, leaves one set out, prints the tables
    python bench/confidence.py --profile fast --plot docs/images/reliability.svg

An answer is right if one of its first five items is evidence. A question of a kind that cannot be answered has no right answer.
Each question that can be answered is also asked as if its evidence were not known. The coefficients go into
`recall/rules/confidence.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pickle
import random
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from recall import haystacks
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.identity import Identity, Role, tenant_id_of
from recordari.core.items import Kind, NewItem
from recordari.evaluation.retrieval import References, at_moment, open_haystack
from recordari.evaluation.rules import svg
from recordari.evaluation.rules.formats import GoldQuestion, Haystack
from recordari.evaluation.rules.measures import Floats, auc
from recordari.kit.resources import Resources
from recordari.recall import recall as product
from recordari.recall.rules.confidence import Signs, fit_of, signs_of
from recordari.recall.rules.ranking import Question, Ranked
from recordari.runner import background_worker
from recordari.tenants import tenants
from recordari.wiring import open_resources

NAMES = [column.name for column in fields(Signs)]
FIRST = 5
RIDGE = 1.0  # as if the signs had been seen to say nothing in so many answers
BINS = np.linspace(0, 1, 6)
COLOURS = (*svg.COLOURS, "#a15c00")
FEWEST = 10  # answers in a bin that are drawn


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer: its signs, whether it was right, and whether there is an answer at all."""

    signs: tuple[float, ...]
    is_right: bool
    is_answerable: bool
    is_taken_away: bool = False
    """Whether what answers it was taken away."""


_references = References()
_seen: list[tuple[Question, Sequence[Ranked]]] = []


def _watched(question: Question, ordered: Sequence[Ranked], *, found_by: Sequence[str]) -> Signs | None:
    _seen.append((question, ordered))
    return signs_of(question, ordered, found_by=found_by)


async def collect(resources: Resources, data: Path, most: int, stores: int | None) -> dict[str, list[Answered]]:
    vars(product)["signs_of"] = _watched
    sets = await _small(resources, data)
    for name in ("locomo", "longmemeval", "lifebench"):
        filled = haystacks(name, data)[:stores]
        asked = [(store, one) for store in filled for one in store.with_evidence]
        chosen = random.Random(11).sample(asked, min(most, len(asked)))
        chosen += _unanswerable(filled, most // 4)
        sets[name] = [answer for store, one in chosen for answer in await _ask(resources, store, one)]
    vars(product)["signs_of"] = signs_of
    return sets


async def _ask(resources: Resources, store: Haystack, asked: GoldQuestion) -> list[Answered]:
    memory = await open_haystack(resources, store)
    bound = Memory(at_moment(resources, asked.asked_at), memory.identity)
    await bound.recall(asked.text, top_k=FIRST, source_kinds=[Kind.CHAT_MESSAGE], explain=True)
    return await _answers(bound, asked.evidence if asked.is_answerable else frozenset())


async def _answers(memory: Memory, evidence: frozenset[str]) -> list[Answered]:
    """The last answer, and the same without what answers it."""
    question, ordered = _seen.pop()
    _seen.clear()
    refs = await _references.of(memory, [str(item.candidate.item_id) for item in ordered])
    answers = [Answered(_signs(question, ordered), bool(evidence & set(refs[:FIRST])), bool(evidence))]
    if evidence:
        rest = [item for item, ref in zip(ordered, refs, strict=True) if ref not in evidence]
        answers.append(Answered(_signs(question, rest), False, False, True))
    return answers


def _signs(question: Question, ordered: Sequence[Ranked]) -> tuple[float, ...]:
    ranks = ordered[0].ranks if ordered else None
    signs = signs_of(question, ordered, found_by=[arm for arm, rank in (ranks or {}).items() if rank is not None])
    return tuple((getattr(signs, name) or 0.0) if signs is not None else 0.0 for name in NAMES)


def _unanswerable(stores: Sequence[Haystack], most: int) -> list[tuple[Haystack, GoldQuestion]]:
    """Questions without evidence, which the measure of recall leaves out."""
    found = [(store, one) for store in stores for one in store.questions if not one.is_answerable]
    found = [(store, one) for store, one in found if not one.evidence]
    return random.Random(5).sample(found, min(most, len(found)))


async def _small(resources: Resources, data: Path) -> dict[str, list[Answered]]:
    """Memories of about ten facts and of one to three of them, with questions beside what they know."""
    answers, few, draw = [], [], random.Random(3)
    async with background_worker(resources):
        for line in (data / "truth" / "abstain.jsonl").read_text().splitlines():
            case = json.loads(line)
            name = f"abstain-{case['memory']}"
            await tenants.ensure_tenant(resources, name)
            memory = Memory(resources, Identity(tenant_id=tenant_id_of(name), role=Role.ADMIN)).acting_as(user="person")
            await memory.update_tenant(settings={"extraction": "off"})
            facts = [
                NewItem(content=fact, kind=Kind.FACT, source_ref=f"{case['memory']}#{number}")
                for number, fact in enumerate(case["facts"])
            ]
            await memory.remember_many(facts)
            while (await memory.recall(case["question"], top_k=FIRST, explain=True)).degraded:
                await asyncio.sleep(0.2)
            evidence = frozenset(f"{case['memory']}#{number}" for number in case["evidence"])
            few += await _of_few(memory, evidence, draw)
            answers += await _answers(memory, evidence)
    return {"small memories": answers, "one to three facts": few}


async def _of_few(memory: Memory, evidence: frozenset[str], draw: random.Random) -> list[Answered]:
    """The last answer, as if memory had only one, two or three of the facts: with and without what answers."""
    question, ordered = _seen[-1]
    refs = await _references.of(memory, [str(item.candidate.item_id) for item in ordered])
    right = [item for item, ref in zip(ordered, refs, strict=True) if ref in evidence][:1]
    rest = [item for item, ref in zip(ordered, refs, strict=True) if ref not in evidence]
    answers = []
    for number in (1, 2, 3):
        for known in (right, []) if right else ([],):
            chosen = [*known, *draw.sample(rest, number - len(known))]
            chosen.sort(key=lambda item: -item.score)
            answers.append(Answered(_signs(question, chosen), bool(known), bool(known), not known))
    return answers


def fit(answers: Sequence[Answered], weights: Floats) -> Floats:
    """Logistic regression with a ridge: the intercept, then a coefficient for each sign."""
    x = np.array([(1.0, *one.signs) for one in answers])
    y = np.array([one.is_right for one in answers], dtype=np.float64)
    found = np.zeros(x.shape[1])
    ridge = np.diag([0.0, *[RIDGE] * (x.shape[1] - 1)])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ found))
        slope = x.T @ (weights * (p - y)) + ridge @ found
        curve = (x * (weights * p * (1 - p))[:, None]).T @ x + ridge
        found -= np.linalg.solve(curve, slope)
    return found


def fit_sets(sets: Mapping[str, Sequence[Answered]]) -> Floats:
    """Each set counts the same, whatever its size."""
    answers = [one for answers in sets.values() for one in answers]
    mean = len(answers) / len(sets)
    weights = np.concatenate([np.full(len(each), mean / len(each)) for each in sets.values()])
    return fit(answers, weights)


def predicted(answers: Sequence[Answered], coefficients: Floats) -> Floats:
    x = np.array([(1.0, *one.signs) for one in answers])
    return np.asarray(1 / (1 + np.exp(-x @ coefficients)))


def _with(one: Answered, names: Container[str]) -> Answered:
    """The same with these signs alone; another one is 0."""
    kept = (value if name in names else 0.0 for name, value in zip(NAMES, one.signs, strict=True))
    return replace(one, signs=tuple(kept))


def compare(sets: Mapping[str, Sequence[Answered]], console: Console, plot: Path | None) -> None:
    has = {
        name
        for answers in sets.values()
        for one in answers
        for name, value in zip(NAMES, one.signs, strict=True)
        if value
    }
    chosen = fit_of(has)
    shipped = np.array([chosen.intercept, *(chosen.coefficients.get(name, 0.0) for name in NAMES)])
    alone = {name: np.array([one.signs[NAMES.index("base")] for one in answers]) for name, answers in sets.items()}
    sets = {name: [_with(one, chosen.coefficients) for one in answers] for name, answers in sets.items()}
    everything = fit_sets(sets)
    drawn = Table(title="AUC: right answers above wrong ones")
    titles = (
        "questions",
        "right",
        "unanswerable",
        "base alone",
        "without the set",
        "… as asked",
        "… answerable",
        "as shipped",
    )
    for column in ("", *titles):
        drawn.add_column(column, justify="right" if column else "left")
    left_out: dict[str, Floats] = {}
    for name, answers in sets.items():
        others = fit_sets({one: sets[one] for one in sets if one != name})
        left_out[name] = predicted(answers, others)
        is_right = [one.is_right for one in answers]
        asked = np.array([not one.is_taken_away for one in answers])
        of_asked = [one for one in answers if not one.is_taken_away]
        now = predicted(answers, shipped)
        figures = (
            auc(alone[name], is_right),
            auc(left_out[name], is_right),
            auc(left_out[name][asked], [one.is_right for one in of_asked]),
            auc(left_out[name][asked], [one.is_answerable for one in of_asked]),
            auc(now, is_right),
        )
        counts = (len(of_asked), sum(is_right), sum(not one.is_answerable for one in of_asked))
        drawn.add_row(name, *map(str, counts), *(f"{value:.3f}" for value in figures))
    console.print(drawn)
    console.print("fitted on all: intercept", round(float(everything[0]), 2))
    console.print({name: round(float(value), 2) for name, value in zip(NAMES, everything[1:], strict=True)})
    bins = {name: in_bins(answers, left_out[name]) for name, answers in sets.items()}
    console.print(reliability(bins))
    if plot is not None:
        plot.write_text(picture(bins), encoding="utf-8")


def in_bins(answers: Sequence[Answered], confidences: Floats) -> list[tuple[int, float, float]]:
    """The answers by confidence: how many, their mean confidence, and the share that is right."""
    of_bin = np.clip(np.digitize(confidences, BINS) - 1, 0, len(BINS) - 2)
    is_right = np.array([one.is_right for one in answers])
    chosen = [of_bin == number for number in range(len(BINS) - 1)]
    return [
        (int(one.sum()), float(confidences[one].mean()), float(is_right[one].mean())) if one.any() else (0, 0.0, 0.0)
        for one in chosen
    ]


def reliability(bins: Mapping[str, Sequence[tuple[int, float, float]]]) -> Table:
    """How often answers of each confidence were right, by coefficients that were fitted without their set."""
    drawn = Table(title="Reliability, without the set: share of right answers (answers)")
    for column in ("", *(f"{low:.1f} to {low + 0.2:.1f}" for low in BINS[:-1])):
        drawn.add_column(column, justify="right" if column else "left")
    for name, cells in bins.items():
        drawn.add_row(name, *(f"{share:.2f} ({many})" if many else "" for many, _, share in cells))
    return drawn


def picture(bins: Mapping[str, Sequence[tuple[int, float, float]]]) -> str:
    """The same as a plot; on the dashed line a confidence is what it says."""
    frame = svg.Frame(left=60, top=40, width=360, height=360, most_x=1.0, most_y=1.0)
    fifths = [fifth / 5 for fifth in range(6)]
    body = frame.axes(fifths, fifths, title="share of right answers", below="confidence")
    body.append(svg.line(frame.x(0), frame.y(0), frame.x(1), frame.y(1), stroke="#444", dashed=True))
    for place, (name, cells) in enumerate(bins.items()):
        colour = COLOURS[place]
        points = [(mean, share) for many, mean, share in cells if many >= FEWEST]
        body.append(frame.curve(points, colour))
        body += [f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="4" fill="{colour}"/>' for x, y in points]
        body.append(svg.text(frame.x(1) + 16, frame.top + 20 + 20 * place, name, fill=colour))
    return svg.picture(580, 470, "How often an answer is right, by its confidence", body)


async def run(arguments: argparse.Namespace) -> None:
    path = arguments.home / "features" / f"confidence-{arguments.profile}.pickle"
    if arguments.collect:
        settings = Settings(home=arguments.home, embedding_profile=arguments.profile)
        async with open_resources(settings) as resources:
            sets = await collect(resources, arguments.data, arguments.questions, arguments.stores)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(pickle.dumps({name: [tuple_of(one) for one in answers] for name, answers in sets.items()}))
    kept = pickle.loads(path.read_bytes())  # written above
    compare(
        {name: [Answered(*one) for one in answers] for name, answers in kept.items()},
        Console(width=160),
        arguments.plot,
    )


def tuple_of(one: Answered) -> tuple[tuple[float, ...], bool, bool, bool]:
    return one.signs, one.is_right, one.is_answerable, one.is_taken_away


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--home", type=Path, default=Path("/var/tmp/recordari-bench"))
    parser.add_argument("--profile", choices=["best", "fast", "thorough"], default="fast")
    parser.add_argument("--questions", type=int, default=400, help="most questions of each set")
    parser.add_argument("--stores", type=int, default=None, help="only the first stores of each set")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw how often answers are right by confidence")
    parser.add_argument("--collect", action="store_true", help="ask the questions first")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
