"""The summary of what an agent did in a session: its episodes and its runs, in a few lines (E5)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recordari.core.items import normalised
from recordari.core.tokens import cut_to_tokens
from recordari.learning.rules.ways import shape_of
from recordari.sessions.rules.runs import RunStatus

FEWEST_STEPS = 2  # a single episode says it already
MOST_STEPS = 20
STEP_TOKENS = 60
OUTPUT_TOKENS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfSession:
    """A run that has ended, with the names of the tools it called, in order."""

    run_id: str
    status: RunStatus
    output: Any
    calls: list[str]
    failed: list[str]
    """The tools that failed."""


def work_summary(episodes: Sequence[str], runs: Sequence[RunOfSession]) -> str | None:
    """What was done, in order and each thing once; None where nothing is left to summarise."""
    told = [line for run in runs if (line := _run(run))]
    if len(episodes) < FEWEST_STEPS and not told:
        return None
    steps = _steps(episodes)
    lines = [f"{number}. {step}" for number, step in enumerate(steps[:MOST_STEPS], 1)]
    if len(steps) > MOST_STEPS:
        lines.append(f"… and {len(steps) - MOST_STEPS} more")
    return "\n".join(["What was done:", *lines, *told])


def _steps(episodes: Sequence[str]) -> list[str]:
    """The episodes in order; those that differ only in details are one step, without these."""
    kept: dict[str, tuple[str, int]] = {}
    for episode in episodes:
        shape = shape_of(episode)
        said, times = kept.get(normalised(shape), (episode, 0))
        kept[normalised(shape)] = (said if times == 0 or said == episode else shape, times + 1)
    return [
        f"{cut_to_tokens(' '.join(said.split()), STEP_TOKENS)}{f' ({times} times)' if times > 1 else ''}"
        for said, times in kept.values()
    ]


def _run(run: RunOfSession) -> str | None:
    """One run in a line; None for one that called nothing and produced nothing."""
    output = "" if run.output in (None, "", {}, []) else json.dumps(run.output, ensure_ascii=False)
    if not run.calls and not output:
        return None
    times, failed = Counter(run.calls), Counter(run.failed)
    tools = ", ".join(_tool(name, count, failed[name]) for name, count in times.items())
    parts = [f"called {tools}" if tools else "", f"result: {cut_to_tokens(output, OUTPUT_TOKENS)}" if output else ""]
    return f"Run {run.run_id} {run.status}: {'; '.join(filter(None, parts))}."


def _tool(name: str, times: int, failed: int) -> str:
    notes = [f"{times} times" if times > 1 else "", f"{failed} failed" if failed and times > 1 else ""]
    if failed and times == 1:
        notes = ["failed"]
    said = ", ".join(filter(None, notes))
    return f"{name} ({said})" if said else name
