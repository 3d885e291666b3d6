"""Measures the public benchmarks with `recordari eval` and writes the figures into docs/results.md: `make results` runs it.

The data folder holds `locomo/`, `longmemeval/` and `lifebench/` with their files. Figures that are not measured stay as they
are, with the state of the ranker that they were measured with. A run that was broken off goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
MEASURED = ROOT / "bench" / "results"
RANKER = ("recall", "models", "core/text.py", "evaluation/retrieval.py")
"""What decides over the figures: another state of these sources may give others."""
PROFILES = ("fast", "best", "thorough")
RUNS = {
    "locomo": ["locomo/locomo10.json"],
    "longmemeval": ["longmemeval/longmemeval_s_dev60.json.gz"],
    "lifebench": ["lifebench/lifebench_en_dev3.json.gz", "--haystacks", "1"],
}
"""The file of each set, and what else the run is told: LifeBench's first of ten people alone has 204 questions."""
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


def state_of_ranker() -> str:
    """A digest of the sources that rank: figures of two states are not of the same product."""
    places = [ROOT / "src" / "recordari" / name for name in RANKER]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*"))]
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.suffix in {".py", ".sql"}):
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:8]


def measure(data: Path, profile: str, name: str, state: str) -> dict[str, Any]:
    """The figures of a set by one profile; a run of another state of the ranker is not gone on with."""
    out = MEASURED / f"{profile}-{name}-{state}"
    file, *options = RUNS[name]
    command = [sys.executable, "-m", "recordari", "eval", str(data / file), *options]
    subprocess.run([*command, "--profile", profile, "--out", str(out)], check=True)
    found: dict[str, Any] = json.loads((out / "results.json").read_text("utf-8"))["sets"][name]
    return found


def block(name: str, one: Mapping[str, Any], state: str) -> str:
    """The figures of a set as a table of Markdown, with what else was measured and when below it."""
    lines = [f"| {TITLES[name]} | questions | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 2) + "|"]
    for category, measures in one["retrieval"].items():
        cells = [_cell(column, measures[column], category) for column in COLUMNS]
        lines.append(f"| {category} | {measures['MRR']['questions']:,} | {' | '.join(cells)} |")
    others = [
        f"{what} {_shown(one[field])} ({_shown(one[field], 'low')}–{_shown(one[field], 'high')}); "
        for field, what in (("newest_first", "newest first"), ("abstention", "answerable or not, AUC"))
        if one[field] is not None
    ]
    measured = f"measured on {datetime.now(UTC):%Y-%m-%d}, ranker `{state}`."
    return "\n".join([*lines, "", f"{TITLES[name]}: {''.join(others)}{measured}"])


def _cell(column: str, figure: Figure, category: str) -> str:
    if category != "all" or column not in WITH_INTERVAL:
        return _shown(figure)
    return f"{_shown(figure)} ({_shown(figure, 'low')}–{_shown(figure, 'high')})"


def _shown(figure: Figure, part: str = "value") -> str:
    return f"{figure[part]:.3f}".removeprefix("0").replace("1.000", "1").replace(".000", "0")


def written(page: str, profile: str, name: str, figures: str) -> str:
    """The page with the figures of a profile and set between their marks."""
    first, last = f"<!-- figures: {profile} {name} -->", f"<!-- end of figures: {profile} {name} -->"
    pattern = re.compile(f"{re.escape(first)}.*?{re.escape(last)}", re.DOTALL)
    if not pattern.search(page):
        sys.exit(f"docs/results.md has no place for them: {first}")
    return pattern.sub(lambda _: f"{first}\n{figures}\n{last}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of the sets")
    parser.add_argument("--profile", choices=PROFILES, action="append", help="measure only this; may be repeated")
    parser.add_argument("--set", choices=RUNS, action="append", dest="sets", help="measure only this; may be repeated")
    parser.add_argument("--state", action="store_true", help="only print the state of the ranker in these sources")
    options = parser.parse_args()
    state = state_of_ranker()
    if options.state:
        sys.stdout.write(f"{state}\n")
        return
    if options.data is None:
        parser.error("name the folder of the sets: make results DATA=folder")
    for profile in options.profile or ("fast", "best"):
        for name in options.sets or RUNS:
            figures = block(name, measure(options.data, profile, name, state), state)
            PAGE.write_text(written(PAGE.read_text("utf-8"), profile, name, figures), "utf-8")
            sys.stdout.write(f"docs/results.md has the figures of {profile} on {TITLES[name]}\n")


if __name__ == "__main__":
    main()
