"""`recordari eval` from files to the report: retrieval alone, with a model that answers and one that marks, broken off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.small_sets import written
from tests.folders import open_folder
from tests.json_server import JsonServer, Reply, Request, json_server
from tests.patience import PATIENCE, PATIENT_ENVIRONMENT

from recordari.config import Settings
from recordari.errors import Conflict, ProviderError
from recordari.evaluation.answers import Examination
from recordari.evaluation.files import load
from recordari.evaluation.retrieval import References, open_haystack, remember, retrieve
from recordari.evaluation.rules.summary import Prices, summarise
from recordari.evaluation.run import EvaluationPlan, ResultLog, chosen, evaluate
from recordari.kit.resources import Resources
from recordari.runner import background_worker
from recordari.wiring import make_language_model

TOKENS = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def says(answer: dict[str, Any]) -> Reply:
    message = {"role": "assistant", "content": json.dumps(answer)}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    head = {"id": "1", "object": "chat.completion", "created": 1, "model": "tiny"}
    return Reply(body={**head, "choices": [choice], "usage": TOKENS})


def imitated(request: Request) -> Reply:
    """A reader that copies what it finds in its notes, and a judge that looks for the gold words in the answer."""
    asked = json.dumps(request.body)
    if "answer a question about a person's past" in asked:
        return says({"answer": next((word for word in KNOWN if word in asked), "That is not known.")})
    if "compare an answer that lists" in asked:
        return says({"numbers": [2, 1]})
    if "one point of a list" in asked:
        return says({"score": 1 if "should state: 55" in asked else 0.5})
    if "cannot be answered" in asked:
        return says({"correct": "not known" in shown(request, "answer")})
    return says({"correct": shown(request, "answer") in shown(request, "correct_answer")})


KNOWN = ("oboe", "Atlas on Mill Street", "Thursday")


def shown(request: Request, tag: str) -> str:
    """What a judge is shown between tags."""
    return str(request.body["messages"][-1]["content"].partition(f"<{tag}>\n")[2].partition(f"\n</{tag}>")[0])


@pytest.fixture
def model() -> Iterator[JsonServer]:
    with json_server(imitated) as server:
        yield server


def examination(model: JsonServer) -> Examination:
    settings = Settings(llm_provider="openai", llm_model="tiny", llm_url=f"{model.url}/v1", llm_timeout=PATIENCE)
    made = make_language_model(settings)
    assert made is not None
    return Examination(made, made)


def plan_of(files: dict[str, Path], *names: str) -> EvaluationPlan:
    sets = {name: load(files[name])[1] for name in names or files}
    return EvaluationPlan(
        sets=chosen(sets, haystacks=None, questions=None), about={"embedding": "fast"}, read_items=20, parallel=2
    )


def silent(_name: str, _done: int, _total: int) -> None: ...


async def test_every_set_is_measured_without_a_model(resources: Resources, tmp_path: Path) -> None:
    plan = plan_of(written(tmp_path))
    log = ResultLog(tmp_path / "out" / "questions.jsonl", plan.about)
    assert await evaluate(resources, plan, log, None, silent) == 0
    rows = list(log.rows.values())
    found = {name: summarise(name, [row for row in rows if row["set"] == name], None) for name in plan.sets}
    assert {name: one.questions for name, one in found.items()} == {
        "locomo": 3, "longmemeval": 2, "beam": 3, "lifebench": 2,
    }  # fmt: skip
    assert all(one.retrieval["all"]["any@5"].value == 1 for one in found.values())
    assert all(one.abstention is not None and not one.accuracy for one in found.values())
    updates = {name: one.newest_first for name, one in found.items() if one.newest_first is not None}
    assert {name: one.questions for name, one in updates.items()} == {"longmemeval": 1, "beam": 1}
    assert "without adversarial" in found["locomo"].retrieval and not found["locomo"].accuracy


async def test_the_first_question_after_a_history_is_weighed_as_it_is_later(
    resources: Resources, tmp_path: Path
) -> None:
    """A long history in which one word is everywhere: what the process knew of the empty tenant must not weigh it."""
    turns = [
        {"speaker": "Ilse", "dia_id": f"D1:{n}", "text": f"The harbour saw ship {n} leave."} for n in range(2, 300)
    ]
    first = {"speaker": "Tom", "dia_id": "D1:1", "text": "An oboe was played at the harbour."}
    said = {"speaker_a": "Ilse", "speaker_b": "Tom", "session_1_date_time": "4:05 pm on 3 March, 2025"}
    asked = {"question": "Which oboe did the harbour hear?", "answer": "one", "evidence": ["D1:1"], "category": 4}
    file = tmp_path / "long.json"
    file.write_text(json.dumps([{"conversation": {**said, "session_1": [first, *turns]}, "qa": [asked]}]))
    (haystack,) = load(file)[1]
    memory = await open_haystack(resources, haystack)
    async with background_worker(resources):
        await memory.recall("harbour")  # the tenant is looked at before its history is there
        await remember(memory, haystack)
        at_once = await retrieve(memory, haystack.questions[0], References())
        resources.forget_tenant(memory.identity.tenant_id)
        later = await retrieve(memory, haystack.questions[0], References())
    assert (at_once.refs, at_once.confidence) == (later.refs, later.confidence)


async def test_answers_are_read_marked_and_counted_by_the_rules_of_each_set(
    resources: Resources, model: JsonServer, tmp_path: Path
) -> None:
    plan = plan_of(written(tmp_path))
    log = ResultLog(tmp_path / "questions.jsonl", plan.about)
    assert await evaluate(resources, plan, log, examination(model), silent) == 0
    rows = list(log.rows.values())
    prices = Prices(reader=(1.0, 10.0), judge=(0.0, 0.0))
    found = {name: summarise(name, [row for row in rows if row["set"] == name], prices) for name in plan.sets}
    locomo = {name: one.value for name, one in found["locomo"].accuracy.items()}
    assert (locomo["single-hop"], locomo["multi-hop"], locomo["without adversarial"]) == (1, 0, 0.5)
    assert locomo["adversarial"] == 0  # it says what it knows of something else
    assert found["locomo"].f1["single-hop"].value == 1 and "adversarial" not in found["locomo"].f1
    assert {name: one.value for name, one in found["longmemeval"].accuracy.items()} == {
        "all": 1, "knowledge-update": 1, "single-session-user": 1,
    }  # fmt: skip
    beam = {name: one.value for name, one in found["beam"].accuracy.items()}
    assert (beam["knowledge_update"], beam["event_ordering"], beam["abstention"]) == (0.75, 0, 1)
    # Of what it should not know it says what it found instead.
    assert (found["lifebench"].accuracy["all"].value, found["lifebench"].macro_accuracy) == (0.5, 0.5)
    # Three questions: one call each to read, and four to mark, since one has two points.
    assert (found["beam"].read_tokens, found["beam"].judged_tokens) == ((300, 30), (400, 40))
    assert found["beam"].cost == pytest.approx((300 + 30 * 10) / 1e6)
    read = [json.dumps(one.body) for one in model.requests if "past" in json.dumps(one.body)]
    dated = next(one for one in read if "Which gym" in one)
    assert dated.index("Forge near the station") < dated.index("Atlas on Mill Street"), "the notes are oldest first"
    assert "2025-06-01" in dated


async def test_what_was_broken_off_goes_on_and_asks_nothing_twice(
    resources: Resources, model: JsonServer, tmp_path: Path
) -> None:
    plan, file = plan_of(written(tmp_path), "locomo", "beam"), tmp_path / "questions.jsonl"
    model.answer = lambda _request: Reply(status=500, body={"error": {"message": "down"}})
    with pytest.raises(ProviderError, match="run the same command again"):
        await evaluate(resources, plan, ResultLog(file, plan.about), examination(model), silent)
    model.answer = imitated
    model.requests.clear()
    with file.open("a") as half:
        half.write('{"set": "beam", "hay')  # killed in the middle of a line
    log = ResultLog(file, plan.about)
    assert await evaluate(resources, plan, log, examination(model), silent) == 0
    assert sum("score" in row for row in log.rows.values()) == 6
    asked = len(model.requests)
    again = ResultLog(file, plan.about)
    assert again.rows == log.rows
    assert await evaluate(resources, plan, again, examination(model), silent) == 0
    assert len(model.requests) == asked
    with pytest.raises(Conflict, match="other settings"):
        ResultLog(file, {"embedding": "best"})


def test_the_command_writes_a_report_and_leaves_your_memory_alone(model: JsonServer, tmp_path: Path) -> None:
    files, home = written(tmp_path), open_folder("recordari-eval-")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RECORDARI_")},
        **PATIENT_ENVIRONMENT,
        "RECORDARI_HOME": str(home),
        "RECORDARI_LLM_PROVIDER": "openai",
        "RECORDARI_LLM_MODEL": "tiny",
        "RECORDARI_LLM_URL": f"{model.url}/v1",
    }
    program = Path(sys.executable).with_name("recordari")
    command = [str(program), "eval", str(files["locomo"]), str(files["beam"]), "--profile", "fast", "--answers"]
    command += ["--judge", "strict", "--reader-price", "1/2", "--out", str(tmp_path / "out"), "--json"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout)
        assert results["about"]["judge"] == "strict" and results["sets"]["beam"]["cost"] > 0
        assert {one.body["model"] for one in model.requests} == {"tiny", "strict"}
        page = (tmp_path / "out" / "report.html").read_text()
        assert page.count("<svg") == 4 and "knowledge_update" in page and "src=" not in page
        assert json.loads((tmp_path / "out" / "results.json").read_text()) == results
        assert [one.name for one in home.iterdir()] == ["eval"], "no database but its own"
        wrong = [*command[:3], "--out", str(tmp_path / "other"), "--reader-price", "cheap"]
        said_why = subprocess.run(wrong, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert said_why.returncode == 2 and "0.15/0.60" in said_why.stderr
    finally:
        shutil.rmtree(home, ignore_errors=True)
