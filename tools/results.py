"""Measures the public benchmarks with `recordari eval` and writes the figures into docs/results.md: `make results` runs it.

The data folder holds `locomo/`, `longmemeval/` and `lifebench/` with their files. Figures of a profile that is not measured
stay as they are. A run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
MEASURED = ROOT / "bench" / "results"
PROFILES = ("fast", "best", "thorough")
RUNS = {
    "chats": (["locomo/locomo10.json", "longmemeval/longmemeval_s_dev60.json.gz"], []),
    "lives": (["lifebench/lifebench_en_dev3.json.gz"], ["--haystacks", "1"]),
}
"""The files of each run, and what else it is told: LifeBench's first of ten people alone has 204 questions."""
TITLES = {
    "locomo": "LoCoMo",
    "longmemeval": "LongMemEval-S, 60 of 500",
    "lifebench": "LifeBench, one of ten people",
}
COLUMNS = (
    "recall@5", "recall@10", "any@10", "all@10", "session any@5", "session all@5", "MRR", "nDCG@10",
)  # fmt: skip
WITH_INTERVAL = frozenset({"recall@10", "all@10", "session any@5", "nDCG@10"})
Figure = Mapping[str, float]


def measure(data: Path, profile: str) -> dict[str, Any]:
    """The figures of every set by one profile."""
    sets: dict[str, Any] = {}
    for name, (files, options) in RUNS.items():
        out = MEASURED / f"{profile}-{name}"
        command = [sys.executable, "-m", "recordari", "eval", *(str(data / file) for file in files), *options]
        subprocess.run([*command, "--profile", profile, "--out", str(out)], check=True)
        sets |= json.loads((out / "results.json").read_text("utf-8"))["sets"]
    return sets


def table(sets: Mapping[str, Any]) -> str:
    """The figures as a table of Markdown, with what else was measured below it."""
    lines = [f"| | questions | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 2) + "|"]
    others = []
    for name, one in sets.items():
        for category, measures in one["retrieval"].items():
            title = f"{TITLES[name]}, all" if category == "all" else f"… {category}"
            cells = [_cell(column, measures[column], category) for column in COLUMNS]
            lines.append(f"| {title} | {measures['MRR']['questions']:,} | {' | '.join(cells)} |")
        others += [
            f"{TITLES[name]}, {what} {_shown(one[field])} ({_shown(one[field], 'low')}–{_shown(one[field], 'high')})"
            for field, what in (("newest_first", "newest first"), ("abstention", "answerable or not, AUC"))
            if one[field] is not None
        ]
    return "\n".join([*lines, "", f"{'; '.join(others)}."])


def _cell(column: str, figure: Figure, category: str) -> str:
    if category != "all" or column not in WITH_INTERVAL:
        return _shown(figure)
    return f"{_shown(figure)} ({_shown(figure, 'low')}–{_shown(figure, 'high')})"


def _shown(figure: Figure, part: str = "value") -> str:
    return f"{figure[part]:.3f}".removeprefix("0").replace("1.000", "1").replace(".000", "0")


def written(page: str, profile: str, figures: str) -> str:
    """The page with the figures of a profile between its marks."""
    first, last = f"<!-- figures: {profile} -->", f"<!-- end of figures: {profile} -->"
    pattern = re.compile(f"{re.escape(first)}.*?{re.escape(last)}", re.DOTALL)
    if not pattern.search(page):
        sys.exit(f"docs/results.md has no place for the profile {profile}: {first}")
    return pattern.sub(lambda _: f"{first}\n{figures}\n{last}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--profile", choices=PROFILES, action="append", help="measure only this; may be repeated")
    options = parser.parse_args()
    for profile in options.profile or ("fast", "best"):
        figures = table(measure(options.data, profile))
        PAGE.write_text(written(PAGE.read_text("utf-8"), profile, figures), "utf-8")
        sys.stdout.write(f"docs/results.md has the figures of the profile {profile}\n")


if __name__ == "__main__":
    main()
