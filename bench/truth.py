"""What it learns, measured on hand-written cases: one table for each subject, without a language model.

    python bench/truth.py --data ../shared/data [--only judge] [--show 20]

A table is a function that takes the folder of the cases and prints what it found. To add one: write it, and name it in
`TABLES`. The cases are in `truth/` of the data folder; its README says how each file is scored.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.table import Table

import extraction as kept
from recordari.app import Memory
from recordari.config import Settings
from recordari.core.items import Kind, Trust
from recordari.core.tokens import estimated_tokens
from recordari.facts.rules.conflict import Statement, Verdict, ruling
from recordari.recall.rules.temporal.times import question_interval
from recordari.sessions.rules.summaries import SUMMARY_TOKENS, Said, rolled_summary
from recordari.sessions.rules.window import SUMMARY_EVERY, MessageRole, NewMessage

DAY_ONE = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Options:
    folder: Path
    show: int
    console: Console


def lines(path: Path) -> list[dict[str, Any]]:
    """The cases of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def judge(options: Options) -> None:
    """Pairs of statements: which of the older ones end. Losing a true fact is the worse error."""
    pairs = lines(options.folder / "judge_pairs.jsonl")
    ended: dict[str, str | None] = {}
    for pair in pairs:
        decided = ruling(_said(pair["newer"], 1), _said(pair["older"], 0))
        ended[pair["id"]] = decided.rule if decided.verdict is Verdict.SUPERSEDE else None
    for key in ("all", "lang", "type"):
        options.console.print(_judged(pairs, ended, key))
    wrong = [pair for pair in pairs if (ended[pair["id"]] is not None) != (pair["expected"] == "supersede")]
    for pair in wrong[: options.show]:
        options.console.print(
            f"{ended[pair['id']] or 'kept'}: {pair['older']} → {pair['newer']}", markup=False, highlight=False
        )
    started = time.perf_counter()
    for pair in pairs:
        ruling(_said(pair["newer"], 1), _said(pair["older"], 0))
    options.console.print(f"{(time.perf_counter() - started) / len(pairs) * 1e6:.0f} µs for a pair of known texts")


def _said(content: str, day: int) -> Statement:
    return Statement(item_id=UUID(int=day + 1), content=content, valid_at=DAY_ONE + timedelta(days=day))


def _judged(pairs: Iterable[Mapping[str, Any]], ended: Mapping[str, str | None], key: str) -> Table:
    """Precision, recall, F1 and the share of true facts that were lost, by language or type."""
    counts: defaultdict[str, Counter[tuple[str, bool]]] = defaultdict(Counter)
    for pair in pairs:
        counts[pair.get(key, "all")][pair["expected"], ended[pair["id"]] is not None] += 1
    table = Table("judge" if key == "all" else key, "pairs", "precision", "recall", "F1", "true facts lost")
    for name, count in sorted(counts.items()):
        right, wrong = count["supersede", True], count["keep", True]
        missed, kept = count["supersede", False], count["keep", False]
        table.add_row(
            name,
            str(count.total()),
            _share(right, right + wrong),
            _share(right, right + missed),
            _share(2 * right, 2 * right + wrong + missed),
            _share(wrong, wrong + kept),
        )
    return table


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "–"


def extraction(options: Options) -> None:
    """Messages: which of them give facts, and which."""
    kept.extraction(options.folder, options.console, options.show)


def coverage(options: Options) -> None:
    """Long conversations: which turns give facts."""
    kept.coverage(options.folder.parent, options.console)


def summaries(options: Options) -> None:
    """Long chats: how much of what matters their summaries keep, and how much boilerplate."""
    table = Table("summaries", "language", "messages", "tokens", "kept", "boilerplate")
    totals: Counter[str] = Counter()
    for case in lines(options.folder / "summaries.jsonl"):
        summary = _summary(case["turns"])
        tokens = estimated_tokens(summary)
        within = tokens <= SUMMARY_TOKENS
        missing = [
            each for each in case["must_keep"] if not (within and re.search(each, summary, re.IGNORECASE | re.DOTALL))
        ]
        found = [each for each in case["must_not"] if each.casefold() in summary.casefold()]
        counts = {"keep": len(case["must_keep"]), "not": len(case["must_not"])}
        counts |= {"kept": counts["keep"] - len(missing), "found": len(found)}
        totals.update(counts)
        row = (case["lang"], str(len(case["turns"])), str(tokens))
        table.add_row(case["topic"], *row, *(f"{part}/{counts[whole]}" for part, whole in _parts(counts)))
        if options.show and (missing or found):
            options.console.print(
                f"{case['id']}: missing {missing}, boilerplate {found}", markup=False, highlight=False
            )
    table.add_section()
    table.add_row("all", "", "", "", *(_share(int(part), totals[whole]) for part, whole in _parts(totals)))
    options.console.print(table)


def _parts(counts: Mapping[str, int]) -> tuple[tuple[int, str], ...]:
    return (counts["kept"], "keep"), (counts["found"], "not")


def _summary(turns: Sequence[Mapping[str, str]]) -> str:
    """The summary as a session renews it, every five messages."""
    said = [
        Said(
            speaker=turn["name"] if turn["role"] == "user" else turn["role"],
            content=turn["content"],
            trust=Trust.USER if turn["role"] == "user" else Trust.AGENT,
        )
        for turn in turns
    ]
    summary = ""
    for first in range(0, len(said), SUMMARY_EVERY):
        summary = rolled_summary(summary, said[first : first + SUMMARY_EVERY])
    return summary


Bounds = tuple[datetime | None, datetime | None]


def times(options: Options) -> None:
    """Questions in other languages: which stretch of time they ask about."""
    cases = lines(options.folder / "time_other_languages.jsonl")
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        now = _moment(case["now"])
        assert now is not None
        wanted = [(_moment(start), _moment(end)) for start, end in [(case["start"], case["end"]), *case["alt"]]]
        given = _asked_about(case["question"], now)
        is_right = any(_same_times(given, bounds, now) for bounds in wanted)
        for key in ("all", case["lang"]):
            count = counts[key]
            count["cases"] += 1
            count["right"] += is_right
            count["dated"] += wanted[0] != NO_TIME
            count["given"] += given != NO_TIME
            count["exact"] += is_right and given != NO_TIME
            count["false"] += wanted[0] == NO_TIME and given != NO_TIME
        if not is_right and options.show:
            shown = [
                " … ".join(bound.isoformat()[:16] if bound else "" for bound in each) for each in (given, wanted[0])
            ]
            options.console.print(f"{case['lang']} {case['question']}: {shown[0]}, not {shown[1]}", highlight=False)
    table = Table("times", "questions", "right", "precision", "recall", "windows where there is no time")
    for name, count in sorted(counts.items(), key=lambda pair: (pair[0] != "all", pair[0])):
        table.add_row(
            name,
            str(count["cases"]),
            _share(count["right"], count["cases"]),
            _share(count["exact"], count["given"]),
            _share(count["exact"], count["dated"]),
            _share(count["false"], count["cases"] - count["dated"]),
        )
    options.console.print(table)


NO_TIME: Bounds = (None, None)


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _asked_about(question: str, now: datetime) -> Bounds:
    """Where recall looks when somebody asks with these words."""
    interval = question_interval(question, now=now, zone=UTC)
    return (interval.start, interval.end) if interval is not None else NO_TIME


def _same_times(given: Bounds, wanted: Bounds, now: datetime) -> bool:
    """Whether two stretches are the same; an end that is open may be now."""
    if wanted[0] is not None and wanted[1] is None and given[1] == now:
        return given[0] == wanted[0]
    return given == wanted


def patterns(options: Options) -> None:
    """What sessions leave behind: standing wishes and ways of working, learnt by the real consolidation."""
    cases = lines(options.folder / "patterns.jsonl")
    count: Counter[str] = Counter()
    for case, produced in zip(cases, asyncio.run(_learnt(cases)), strict=True):
        expected = case["expected_patterns"]
        good = [text for text in produced if any(_fits(text, each) for each in expected)]
        met = [each for each in expected if any(_fits(text, each) for text in produced)]
        overfitted = [
            text for text in produced if any(re.search(m, text, re.IGNORECASE) for m in case["must_not_match"])
        ]
        count.update(cases=1, produced=len(produced), good=len(good), expected=len(expected), met=len(met))
        count.update(overfitted=len(overfitted))
        if options.show and (len(good) < len(produced) or len(met) < len(expected) or overfitted):
            missed = [each["text"] for each in expected if each not in met]
            options.console.print(f"{case['name']}: {produced}, missed {missed}", markup=False, highlight=False)
    table = Table("patterns", "produced", "precision", "recall", "with details of one occasion")
    table.add_row(
        f"{count['cases']} cases",
        str(count["produced"]),
        _share(count["good"], count["produced"]),
        _share(count["met"], count["expected"]),
        _share(count["overfitted"], count["produced"]),
    )
    options.console.print(table)


def _fits(text: str, expected: Mapping[str, Any]) -> bool:
    return all(re.search(pattern, text, re.IGNORECASE) for pattern in expected["match"])


async def _learnt(cases: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """The procedures after the sessions of each case, each with a user and an agent of its own."""
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)  # the account that runs PostgreSQL must be able to enter it
        settings = Settings(home=Path(home), embedding_profile="fast", worker=False)
        async with Memory.open(settings=settings) as memory:
            return [await _learnt_from(memory, case) for case in cases]


async def _learnt_from(memory: Memory, case: Mapping[str, Any]) -> list[str]:
    who = memory.acting_as(user=f"user {case['id']}", agent=f"agent {case['id']}")
    for number, events in enumerate(case["sessions"]):
        session_id = f"{case['id']}-{number}"
        await who.open_session(session_id=session_id)
        working = who.acting_as(session=session_id)
        for event in events:
            speaker, colon, said = event.partition(": ")
            if colon and speaker in {"user", "agent"}:
                role = MessageRole.USER if speaker == "user" else MessageRole.ASSISTANT
                await working.add_messages([NewMessage(role=role, content=said)], session_id=session_id)
            else:
                await working.append_episode(event)
        await who.close_session(session_id)
        await memory.consolidate_session(session_id)
    return [item.content for item in (await who.list_items(kinds=[Kind.PROCEDURE])).items]


TABLES: dict[str, Callable[[Options], None]] = {
    "judge": judge,
    "extraction": extraction,
    "coverage": coverage,
    "summaries": summaries,
    "patterns": patterns,
    "times": times,
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", choices=sorted(TABLES), action="append", help="only this table; repeatable")
    parser.add_argument("--show", type=int, default=0, help="how many wrong answers of each table are printed")
    arguments = parser.parse_args()
    console = Console(width=160)
    options = Options(folder=arguments.data / "truth", show=arguments.show, console=console)
    if not options.folder.exists():
        raise SystemExit(f"there are no cases in {options.folder}; give their folder with --data")
    for name in arguments.only or TABLES:
        TABLES[name](options)


if __name__ == "__main__":
    main()
