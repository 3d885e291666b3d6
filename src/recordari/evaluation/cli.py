"""`recordari eval`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from recordari.config import Settings
from recordari.errors import ConfigurationError
from recordari.evaluation.answers import Examination
from recordari.evaluation.files import load
from recordari.evaluation.retrieval import TOP_K
from recordari.evaluation.rules.formats import Haystack
from recordari.evaluation.rules.measures import Estimate
from recordari.evaluation.rules.report import TITLES, page
from recordari.evaluation.rules.summary import ALL, ANSWERABLE, Prices, SetSummary, summarise
from recordari.evaluation.run import EvaluationPlan, ResultLog, chosen, evaluate
from recordari.kit.commands import open_resources, read_settings
from recordari.kit.output import Answer, Hint, Table, console, counted
from recordari.wiring import make_language_model

Data = Annotated[list[Path], typer.Argument(help="Files or folders of LoCoMo, LongMemEval, BEAM or LifeBench.")]
Out = Annotated[Path, typer.Option(help="Folder of the results; the same folder again goes on.", file_okay=False)]
Profile = Annotated[
    Literal["best", "fast", "thorough"] | None,
    typer.Option(help="Profile of embedding; that of the settings if left out."),
]
First = Annotated[int | None, typer.Option("--haystacks", min=1, help="Only the first histories of each set.")]
Asked = Annotated[int | None, typer.Option("--questions", min=1, help="Only the first questions of each history.")]
Answers = Annotated[bool, typer.Option("--answers", help="Also let the language model of the settings answer.")]
JudgeModel = Annotated[
    str | None, typer.Option("--judge", help="Model that marks, at the same address; else the reader.")
]
Items = Annotated[int, typer.Option("--items", min=1, max=TOP_K, help="Recalled items that the reader sees.")]
Parallel = Annotated[int, typer.Option(min=1, max=64, help="Questions at a time.")]
Price = Annotated[str | None, typer.Option(help="Money for a million tokens in and out: 0.15/0.60.")]


def evaluation(
    data: Data,
    *,
    out: Out = Path("recordari-eval"),
    profile: Profile = None,
    haystacks: First = None,
    questions: Asked = None,
    answers: Answers = False,
    judge: JudgeModel = None,
    items: Items = TOP_K,
    parallel: Parallel = 1,
    reader_price: Price = None,
    judge_price: Price = None,
) -> Answer:
    """Measure recall, and answers of a language model, on benchmarks that you have.

    Memories go into a database of their own below RECORDARI_HOME, never into yours.
    """
    changes: dict[str, Any] = {"embedding_profile": profile} if profile else {}
    settings = _apart(read_settings(**changes))
    examination = _examination(settings, judge) if answers else None
    prices = _prices(reader_price, judge_price)
    sets = chosen(_loaded(data), haystacks=haystacks, questions=questions)
    about = _about(settings, examination, items)
    log = ResultLog(out / "questions.jsonl", about)
    plan = EvaluationPlan(sets=sets, about=about, read_items=items, parallel=parallel)
    failed = asyncio.run(_run(settings, plan, log, examination))
    rows = {name: [row for row in log.rows.values() if row["set"] == name] for name in sets}
    found = [summarise(name, rows[name], prices) for name in sets]
    (out / "report.html").write_text(page(about, found), "utf-8")
    results = {"about": about, "sets": {one.name: one.as_json() for one in found}}
    (out / "results.json").write_text(json.dumps(results, indent=1), "utf-8")
    note = f"{counted(failed, 'question')} failed; run the same command again" if failed else None
    parts = [_shown(one) for one in found]
    return Answer(results, *parts, f"the report: {out / 'report.html'}", note and Hint(note), code=1 if failed else 0)


def _apart(settings: Settings) -> Settings:
    """The same with a database of its own, one for each embedding model, and with patience: nobody waits for an answer."""
    model = settings.embedding_model or settings.embedding_profile
    place = settings.home / "eval" / "".join(sign if sign.isalnum() else "-" for sign in model)
    apart = {"home": place, "database_url": None, "database_owner_url": None, "database_direct_url": None}
    return settings.model_copy(update={**apart, "pool_timeout": 120.0, "statement_timeout": 600.0})


def _examination(settings: Settings, judge: str | None) -> Examination:
    reader = make_language_model(settings)
    if reader is None:
        raise ConfigurationError("answers need a language model: set RECORDARI_LLM_PROVIDER and RECORDARI_LLM_MODEL")
    marker = make_language_model(settings.model_copy(update={"llm_model": judge})) if judge else reader
    assert marker is not None
    return Examination(reader, marker)


def _prices(reader: str | None, judge: str | None) -> Prices | None:
    if reader is None and judge is None:
        return None
    prices = Prices(reader=_price(reader)) if reader else Prices()
    return replace(prices, judge=_price(judge or reader or ""))


def _price(written: str) -> tuple[float, float]:
    try:
        into, out = map(float, written.split("/"))
    except ValueError:
        raise typer.BadParameter(f"{written!r} is not of the form IN/OUT, such as 0.15/0.60.") from None
    return into, out


def _loaded(data: Sequence[Path]) -> dict[str, list[Haystack]]:
    sets: dict[str, list[Haystack]] = {}
    for path in data:
        name, haystacks = load(path)
        sets.setdefault(name, []).extend(haystacks)
    return sets


def _about(settings: Settings, examination: Examination | None, items: int) -> dict[str, Any]:
    about: dict[str, Any] = {
        "version": metadata.version("recordari"),
        "embedding": settings.embedding_model or settings.embedding_profile,
        "reranker": settings.reranker,
    }
    if examination is not None:
        about |= {"reader": examination.reader.name, "judge": examination.judge.name, "items": items}
    return about


async def _run(settings: Settings, plan: EvaluationPlan, log: ResultLog, examination: Examination | None) -> int:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        tasks = {name: bar.add_task(TITLES.get(name, name), total=None) for name in plan.sets}
        async with open_resources(settings) as resources:
            return await evaluate(
                resources,
                plan,
                log,
                examination,
                lambda name, done, total: bar.update(tasks[name], completed=done, total=total),
            )


def _shown(one: SetSummary) -> Table:
    """The main figures of a set, one line for each category."""
    rows = []
    for category in dict.fromkeys((*one.retrieval, *one.accuracy)):
        found: Mapping[str, Estimate] = one.retrieval.get(category, {})
        row: dict[str, Any] = {TITLES.get(one.name, one.name): category}
        known = [*found.values(), *([one.accuracy[category]] if category in one.accuracy else [])]
        row["questions"] = known[0].questions
        row |= {
            name: _figure(found.get(name))
            for name in ("recall@10", "any@5", "all@10", "session all@5", "MRR", "nDCG@10")
        }
        if one.accuracy:
            row["accuracy"] = _figure(one.accuracy.get(category))
        if category in {ALL, ANSWERABLE}:
            row |= {"newest first": _figure(one.newest_first), "AUC": _figure(one.abstention)}
        else:
            row |= {"newest first": None, "AUC": None}
        rows.append(row)
    return Table(rows, empty="nothing was measured")


def _figure(value: Estimate | None) -> str | None:
    return None if value is None else f"{value.value:.3f} ({value.low:.2f}–{value.high:.2f})"
