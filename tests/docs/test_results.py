"""The page of results: a place for the figures of each profile and set, and what `make results` writes there."""

from __future__ import annotations

import re

from tools.results import COLUMNS, PAGE, RUNS, TITLES, block, state_of_ranker, written


def test_every_profile_and_set_has_its_place_and_says_its_state() -> None:
    page = PAGE.read_text("utf-8")
    places = re.findall(r"<!-- figures: (\w+) (\w+) -->\n(.*?)\n<!-- end of figures: \1 \2 -->", page, re.DOTALL)
    assert [(profile, name) for profile, name, _ in places] == [(p, n) for p in ("fast", "best") for n in RUNS]
    for _, name, figures in places:
        *_, last = figures.splitlines()
        assert last.startswith(f"{TITLES[name]}: ") and "measured" in last


def test_new_figures_replace_those_of_their_place_alone() -> None:
    figure = {"value": 0.5, "low": 0.25, "high": 1.0, "questions": 1200}
    one = {"retrieval": {"all": dict.fromkeys(COLUMNS, figure)}, "newest_first": figure, "abstention": None}
    figures = block("locomo", one, state_of_ranker())
    assert "| all | 1,200 | .500 | .500 (.250–1) |" in figures
    assert (
        "LoCoMo: newest first .500 (.250–1); measured on 2" in figures and f"ranker `{state_of_ranker()}`." in figures
    )
    before = PAGE.read_text("utf-8")
    after = written(before, "fast", "locomo", figures)
    assert figures in after and written(after, "fast", "locomo", "x") == written(before, "fast", "locomo", "x")
    assert after.partition("<!-- end of figures: fast locomo -->")[2] in before
