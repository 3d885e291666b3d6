"""Every example runs offline, in a home of its own, and says what it promises."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.folders import open_folder
from tests.local_models import require_model
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT

from recordari.config import Settings

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[0-9]*.py"))
SAYS = {
    "01_remember_and_recall": ["kept once: True", "launch moves to 14 May", "prefers tea", "2000 lines"],
    "02_import_a_history": ["imported: 400", "read: 480 new: 80", "day 7"],
    "03_over_http": ["kept: True", "Ana prefers tea", "not_found"],
    "04_langgraph_store": ["you like oolong", "found by recall: likes oolong tea"],
    "05_openai_agents_session": ["You told me 2 things", "recalled: My order number is QX-7781"],
    "06_claude_memory_tool": ["File created successfully at: /memories/ana.md", "recalled: Ana drinks oolong"],
    "07_plan_a_context": [
        "[begin memory",
        "Ana prefers trains",
        "of 1000, ",
        "not here: {",
        "first class. in travel.md",
    ],
    "08_change_and_forget": [
        "now: Ana works at Globex",
        "as of before: Ana works at Acme",
        "Ana works at Acme, from 2024-03-01 until 2",
        "still there: False",
        "erased: True left: nothing",
    ],
    "09_state_and_notes": [
        "the cart has {'seats': 2}",
        "the keys are ['cart']",
        "'decision: We decided to take the train.'",
        "open notes: 2",
        "continues: trip-to-lyon",
        "state after the close: []",
    ],
    "10_runs_and_episodes": [
        "delegated: {'order': {'id': 'QX-7781'}}",
        "completed: 2 turns, 2 calls, 0.004 USD",
        'call 1: track({"id":"QX-7781"})',
        "needs a signature",
        "the whole result is there: True",
        "run-2 knows: Found parcel QX-7781",
        "run-2: failed because no signature yet",
    ],
    "11_workflows": [
        "chosen most: plan-first",
        "counted twice: False",
        "version 2, 0 rewards",
        "left: ['ask-first', 'plan-first']",
    ],
}
NEEDS = {"04_langgraph_store": "langgraph", "05_openai_agents_session": "agents", "06_claude_memory_tool": "anthropic"}


@pytest.fixture
def home() -> Iterator[Path]:
    folder = open_folder("recordari-example-")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_offline_and_says_what_it_promises(example: Path, home: Path) -> None:
    require_model("potion-base-8M")
    if example.stem in NEEDS:
        pytest.importorskip(NEEDS[example.stem], reason=f"the example needs the extra of {NEEDS[example.stem]}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECORDARI_")}
    environment = {
        **kept,
        **PATIENT_ENVIRONMENT,
        "RECORDARI_HOME": str(home),
        "RECORDARI_CACHE_DIR": str(Settings().cache_dir),
        "RECORDARI_EMBEDDING_PROFILE": "fast",
        "RECORDARI_OFFLINE": "true",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", example],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for words in SAYS.get(example.stem, []):
        assert words in done.stdout, done.stdout


def test_every_example_is_there_and_short() -> None:
    assert set(SAYS) == {example.stem for example in EXAMPLES}
    assert all(len(example.read_text().splitlines()) < 60 for example in EXAMPLES)
