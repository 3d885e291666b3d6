"""One evaluation: every question of every benchmark, each result written at once, so that it can go on where it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordari.app import Memory
from recordari.errors import Conflict, InvalidInput, ProviderError
from recordari.evaluation.answers import Examination
from recordari.evaluation.retrieval import References, open_haystack, remember, retrieve, tenant_of
from recordari.evaluation.rules.formats import GoldQuestion, Haystack
from recordari.evaluation.rules.measures import locomo_f1, newest_first
from recordari.kit.resources import Resources
from recordari.runner import background_worker

FAILURES = 5  # in a row, after which a model is taken to be down
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """What is evaluated, and in which way."""

    sets: Mapping[str, Sequence[Haystack]]
    about: Mapping[str, Any]
    """What decides the figures (profile, models): a run goes on only with the same."""
    read_items: int
    parallel: int


class ResultLog:
    """Results as JSON Lines: first what the run is about, then a line for each question."""

    def __init__(self, file: Path, about: Mapping[str, Any]) -> None:
        self._file = file
        self.rows: dict[Key, dict[str, Any]] = {}
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            self._append({"run": dict(about)})
            return
        lines = file.read_text("utf-8").split("\n")
        whole = lines[:-1]  # a killed run may leave a line without its end
        if lines[-1]:
            file.write_text("".join(f"{line}\n" for line in whole), "utf-8")
        first, *rest = [json.loads(line) for line in whole] or [{}]
        if first.get("run") != dict(about):
            raise Conflict(f"{file} has results of a run with other settings; choose another folder with --out")
        for row in rest:
            self.rows[_key(row)] = row

    def add(self, row: dict[str, Any]) -> None:
        self._append(row)
        self.rows[_key(row)] = row

    def _append(self, row: Mapping[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _key(row: Mapping[str, Any]) -> Key:
    return row["set"], row["haystack"], row["question"]


async def evaluate(
    resources: Resources,
    plan: EvaluationPlan,
    log: ResultLog,
    examination: Examination | None,
    progress: Callable[[str, int, int], None],
) -> int:
    """Remember the histories and ask what is not in the log; how many questions a model failed to answer or to mark."""
    failed = 0
    if resources.embedders.primary is not None:
        await resources.embedders.primary.embed_query("ready?")  # without its model nothing would ever be ready
    async with background_worker(resources):
        for name, haystacks in plan.sets.items():
            todo = [(one, missing) for one in haystacks if (missing := _missing(name, one, log, examination))]
            total = sum(len(haystack.questions) for haystack in haystacks)
            done = total - sum(len(missing) for _, missing in todo)
            progress(name, done, total)
            for haystack, missing in todo:
                memory = await open_haystack(resources, haystack)
                await remember(memory, haystack)
                asking = _Asking(name, haystack, memory, References(), examination, plan)
                for start in range(0, len(missing), plan.parallel):
                    rows = await asyncio.gather(*map(asking.row, missing[start : start + plan.parallel]))
                    for row in rows:
                        log.add(row)
                    failed += sum("failure" in row for row in rows)
                    if failed >= FAILURES and all("failure" in row for row in rows):
                        raise ProviderError(
                            f"the language model failed on {failed} questions; run the same command again when it answers",
                            service="the language model",
                        )
                    done += len(rows)
                    progress(name, done, total)
    return failed


def _missing(name: str, haystack: Haystack, log: ResultLog, examination: Examination | None) -> list[GoldQuestion]:
    tenant = tenant_of(haystack)
    return [
        question
        for question in haystack.questions
        if (row := log.rows.get((name, tenant, question.question_id))) is None
        or (examination is not None and _can_be_marked(question) and "score" not in row)
    ]


def _can_be_marked(question: GoldQuestion) -> bool:
    return question.answer is not None or bool(question.rubric) or not question.is_answerable


@dataclass(frozen=True, slots=True)
class _Asking:
    name: str
    haystack: Haystack
    memory: Memory
    references: References
    examination: Examination | None
    plan: EvaluationPlan

    async def row(self, question: GoldQuestion) -> dict[str, Any]:
        """Everything about one question that the report needs."""
        found = await retrieve(self.memory, question, self.references)
        row: dict[str, Any] = {
            "set": self.name,
            "haystack": tenant_of(self.haystack),
            "question": question.question_id,
            "category": question.category,
            "answerable": question.is_answerable,
            "confidence": round(found.confidence, 4),
            "evidence": sorted(question.evidence),
            "found": list(found.refs),
        }
        if question.is_update and (first := self._newest_first(question, found.refs)) is not None:
            row["newest_first"] = first
        if self.examination is not None and _can_be_marked(question):
            try:
                marked = await self.examination.examine(question, found.items[: self.plan.read_items])
            except ProviderError as error:
                return {**row, "failure": error.message}
            row |= {
                "answer": marked.said,
                "score": marked.score,
                "read": [marked.read.input, marked.read.output],
                "judged": [marked.judged.input, marked.judged.output],
            }
            if self.name == "locomo" and question.is_answerable and question.answer:
                row["f1"] = locomo_f1(marked.said, question.answer, question.category)
        return row

    def _newest_first(self, question: GoldQuestion, refs: Sequence[str]) -> bool | None:
        moments = {
            str(turn.source_ref): turn.event_time
            for turn in self.haystack.turns
            if turn.source_ref in question.evidence and turn.event_time is not None
        }
        return newest_first(refs, moments)


def chosen(
    sets: Mapping[str, Sequence[Haystack]], *, haystacks: int | None, questions: int | None
) -> dict[str, list[Haystack]]:
    """The first histories of each set, and of each the first questions."""
    found = {
        name: [Haystack(one.name, one.turns, one.questions[:questions]) for one in several[:haystacks]]
        for name, several in sets.items()
    }
    if not any(one.questions for several in found.values() for one in several):
        raise InvalidInput("there is no question in these files")
    return found
