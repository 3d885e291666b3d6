"""From the results of single questions to the figures of a report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recordari.evaluation.rules.formats import ADVERSARIAL
from recordari.evaluation.rules.measures import Estimate, estimate, estimate_auc, measures_of

ALL, ANSWERABLE = "all", "without adversarial"
SEED = 20_260_101


@dataclass(frozen=True, slots=True)
class Prices:
    """Money for a million tokens of the reader and of the judge, in and out."""

    reader: tuple[float, float] = (0.0, 0.0)
    judge: tuple[float, float] = (0.0, 0.0)

    def of(self, read: Sequence[int], judged: Sequence[int]) -> float:
        counts = zip((*self.reader, *self.judge), (*read, *judged), strict=True)
        return sum(price * count for price, count in counts) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSummary:
    """The figures of one benchmark; by category, then by measure."""

    name: str
    questions: int
    failed: int
    retrieval: Mapping[str, Mapping[str, Estimate]]
    newest_first: Estimate | None
    abstention: Estimate | None
    """The probability that a question that can be answered has a higher confidence than one that cannot."""
    accuracy: Mapping[str, Estimate]
    macro_accuracy: float | None
    """The mean of the categories, whatever their size."""
    f1: Mapping[str, Estimate]
    read_tokens: tuple[int, int]
    judged_tokens: tuple[int, int]
    cost: float | None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def summarise(name: str, rows: Sequence[Mapping[str, Any]], prices: Prices | None) -> SetSummary:
    """The figures of one benchmark from the rows of its questions."""
    draws = np.random.default_rng(SEED)
    measured = _grouped(row for row in rows if row["evidence"])
    scored = _grouped(row for row in rows if "score" in row)
    updates = [float(row["newest_first"]) for row in rows if "newest_first" in row]
    labels = [bool(row["answerable"]) for row in rows]
    read = _tokens(rows, "read")
    judged = _tokens(rows, "judged")
    return SetSummary(
        name=name,
        questions=len(rows),
        failed=sum("failure" in row for row in rows),
        retrieval={
            category: _estimates([measures_of(row["found"], frozenset(row["evidence"])) for row in several], draws)
            for category, several in measured.items()
        },
        newest_first=estimate(updates, draws) if updates else None,
        abstention=estimate_auc([row["confidence"] for row in rows], labels, draws)
        if 0 < sum(labels) < len(labels)
        else None,
        accuracy={category: estimate([row["score"] for row in several], draws) for category, several in scored.items()},
        macro_accuracy=_macro(scored),
        f1={
            category: estimate(values, draws)
            for category, several in scored.items()
            if (values := [row["f1"] for row in several if "f1" in row])
        },
        read_tokens=read,
        judged_tokens=judged,
        cost=prices.of(read, judged) if prices is not None and scored else None,
    )


def _estimates(measures: Sequence[Mapping[str, float]], draws: np.random.Generator) -> dict[str, Estimate]:
    return {name: estimate([one[name] for one in measures], draws) for name in measures[0]}


def _grouped(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """All rows, those that peers count where a set has adversarial questions, and each category."""
    by_category: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_category[row["category"]].append(row)
    everything = [row for several in by_category.values() for row in several]
    groups = {ALL: everything} if everything else {}
    if ADVERSARIAL in by_category and len(by_category) > 1:
        groups[ANSWERABLE] = [row for row in everything if row["category"] != ADVERSARIAL]
    return groups | {name: by_category[name] for name in sorted(by_category)}


def _macro(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> float | None:
    means = [
        sum(row["score"] for row in rows) / len(rows)
        for name, rows in groups.items()
        if name not in {ALL, ANSWERABLE, ADVERSARIAL}
    ]
    return sum(means) / len(means) if means else None


def _tokens(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[int, int]:
    counts = [row.get(name, (0, 0)) for row in rows]
    return sum(count[0] for count in counts), sum(count[1] for count in counts)
