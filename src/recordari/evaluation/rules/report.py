"""The page of an evaluation: one HTML file with its tables and plots, which needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recordari.evaluation.rules.measures import CUTS, Estimate
from recordari.evaluation.rules.summary import ALL, ANSWERABLE, SetSummary
from recordari.evaluation.rules.svg import COLOURS, Frame, line, picture, text

TITLES = {
    "locomo": "LoCoMo",
    "longmemeval": "LongMemEval",
    "beam": "BEAM",
    "lifebench": "LifeBench",
}
SHOWN = (
    "recall@5",
    "recall@10",
    "any@5",
    "any@10",
    "all@5",
    "all@10",
    "session any@5",
    "session any@10",
    "session all@5",
    "MRR",
    "nDCG@10",
)
_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right }
th:first-child, td:first-child { text-align: left } small { color: #666 } svg { max-width: 46rem; width: 100%; height: auto }"""


def page(about: Mapping[str, Any], sets: Sequence[SetSummary]) -> str:
    """The whole file."""
    settings = "".join(f"<li>{_safe(name)}: {_safe(value)}</li>" for name, value in about.items())
    body = "".join(_section(one) for one in sets)
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Recordari: evaluation</title>'
        f"<style>{_STYLE}</style>\n<h1>Evaluation</h1>\n<ul>{settings}</ul>\n"
        "<p>Below each figure the 95 % interval of the bootstrap over questions. <em>any@k</em> and <em>all@k</em>: one or all "
        "of the turns that answer are among the first k; <em>recall@k</em>: their share; <em>session</em>: counted by "
        f"conversation.</p>\n{body}</html>\n"
    )


def _section(one: SetSummary) -> str:
    title = TITLES.get(one.name, one.name)
    parts = [f"<h2>{_safe(title)}</h2>\n<p>{one.questions} questions{_failed(one)}</p>\n"]
    if one.retrieval:
        rows = ([name, *(_cell(found[measure]) for measure in SHOWN)] for name, found in one.retrieval.items())
        parts += ["<h3>Retrieval</h3>\n", _table(["", *SHOWN], rows), _curves(title, one.retrieval[ALL])]
    single = {
        "newest statement above the outdated one": one.newest_first,
        "answerable or not: AUC of confidence": one.abstention,
    }
    if known := {name: value for name, value in single.items() if value is not None}:
        parts.append(_table(["", "value"], ([name, _cell(value)] for name, value in known.items())))
    if one.accuracy:
        parts += ["<h3>Answers</h3>\n", _answers(one), _bars(title, one.accuracy)]
    return "".join(parts)


def _failed(one: SetSummary) -> str:
    return f"; {one.failed} that a model failed on are left out" if one.failed else ""


def _answers(one: SetSummary) -> str:
    heads = ["", "accuracy", *(["F1"] if one.f1 else [])]
    rows = [
        [name, _cell(value), *([_cell(one.f1[name]) if name in one.f1 else ""] if one.f1 else [])]
        for name, value in one.accuracy.items()
    ]
    if one.macro_accuracy is not None:
        rows.append(["mean of the categories", f"{one.macro_accuracy:.3f}", *([""] if one.f1 else [])])
    asked = max(one.accuracy[ALL].questions, 1)
    used = (
        f"<p>Tokens: reader {one.read_tokens[0]:,} in, {one.read_tokens[1]:,} out ({one.read_tokens[0] / asked:,.0f} in for a "
        f"question); judge {one.judged_tokens[0]:,} in, {one.judged_tokens[1]:,} out."
        f"{f' Cost: {one.cost:.2f}.' if one.cost is not None else ''}</p>\n"
    )
    return _table(heads, rows) + used


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_safe(one)}</th>" for one in heads)
    lines = ("".join(f"<td>{cell if place else _safe(cell)}</td>" for place, cell in enumerate(row)) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{one}</tr>' for one in lines)}</table>\n"


def _cell(value: Estimate) -> str:
    return f"{value.value:.3f}<br><small>{value.low:.3f}–{value.high:.3f}<br>n = {value.questions}</small>"


def _safe(value: object) -> str:
    return html.escape(str(value))


def _curves(title: str, found: Mapping[str, Estimate]) -> str:
    """any@k, recall@k and all@k over k, with their intervals; each step of k has the same width."""
    frame = Frame(left=60, top=50, width=420, height=260, most_x=len(CUTS) - 1, most_y=1.0)
    body = frame.axes((), (0, 0.2, 0.4, 0.6, 0.8, 1), title=f"{title}: share of questions, or of turns", below="k")
    body += [
        text(frame.x(place), frame.top + frame.height + 20, str(k), anchor="middle") for place, k in enumerate(CUTS)
    ]
    for kind, colour in zip(("any", "recall", "all"), COLOURS, strict=False):
        values = [found[f"{kind}@{k}"] for k in CUTS]
        body.append(frame.curve(((place, value.value) for place, value in enumerate(values)), colour))
        body += [
            line(frame.x(place), frame.y(value.low), frame.x(place), frame.y(value.high), stroke=colour)
            for place, value in enumerate(values)
        ]
        body.append(text(frame.x(len(CUTS) - 1) + 8, frame.y(values[-1].value) + 4, f"{kind}@k", fill=colour))
    return picture(580, 370, f"{title}: retrieval by depth", body)


def _bars(title: str, accuracy: Mapping[str, Estimate]) -> str:
    """One bar for each category, with its interval."""
    names = [name for name in accuracy if name not in {ALL, ANSWERABLE}] or list(accuracy)
    frame = Frame(left=210, top=50, width=400, height=26.0 * len(names), most_x=1.0, most_y=1.0)
    body = frame.axes((0, 0.2, 0.4, 0.6, 0.8, 1), (), title=f"{title}: accuracy", below="share of right answers")
    for place, name in enumerate(names):
        value, top = accuracy[name], frame.top + 26 * place
        body.append(
            f'<rect x="{frame.left}" y="{top + 4:.1f}" width="{frame.x(value.value) - frame.left:.1f}" height="18" '
            f'fill="{COLOURS[2]}" fill-opacity="0.6"/>'
        )
        body.append(line(frame.x(value.low), top + 13, frame.x(value.high), top + 13, stroke="#333"))
        body.append(text(frame.left - 8, top + 18, name, anchor="end"))
    return picture(660, int(frame.height) + 120, f"{title}: accuracy by category", body)
