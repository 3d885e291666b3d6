"""Files of benchmarks: what is read from each form, and what a wrong file is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.evaluation.small_sets import BEAM_CHAT, BEAM_QUESTIONS, LOCOMO, written

from recordari.errors import InvalidInput
from recordari.evaluation.files import load
from recordari.evaluation.rules.formats import GoldQuestion, Haystack, Marking


def read(path: Path) -> list[Haystack]:
    return load(path)[1]


def by_id(haystack: Haystack) -> dict[str, GoldQuestion]:
    return {question.question_id: question for question in haystack.questions}


def test_each_benchmark_is_known_by_its_form(tmp_path: Path) -> None:
    for name, path in written(tmp_path).items():
        assert load(path)[0] == name


def test_locomo_has_its_speakers_dates_images_and_cited_turns(tmp_path: Path) -> None:
    (found,) = read(written(tmp_path)["locomo"])
    assert [turn.content for turn in found.turns][2] == " [image: a red kayak on a lake]"
    assert (found.turns[0].speaker, found.turns[0].event_time) == ("Ilse", datetime(2025, 3, 3, 16, 5, tzinfo=UTC))
    single, several, adversarial = found.questions
    assert single.evidence == {"session_1#D1:2"} and several.evidence == {"session_1#D1:1", "session_2#D2:1"}
    assert (several.category, several.answer, several.is_answerable) == ("multi-hop", "a lake, neighbour", True)
    assert not adversarial.is_answerable and adversarial.evidence


def test_longmemeval_has_one_history_for_each_question_and_marks_by_its_type(tmp_path: Path) -> None:
    update, unknown = read(written(tmp_path)["longmemeval"])
    assert len(update.turns) == 3  # the empty message is none
    assert update.questions[0].evidence == {"s1/0#0", "s2/1#0"} and update.questions[0].is_update
    assert update.questions[0].marking is Marking.UPDATE and unknown.questions[0].marking is Marking.ABSTENTION
    assert update.questions[0].asked_at == datetime(2025, 6, 1, 10, tzinfo=UTC)


def test_beam_is_read_from_its_folders_and_from_rows_of_its_table(tmp_path: Path) -> None:
    row = {
        "conversation_id": "1",
        # In the table a batch is a list of messages, and the questions are written as Python does.
        "chat": [[message for turn in batch["turns"] for message in turn] for batch in BEAM_CHAT],
        "probing_questions": repr(BEAM_QUESTIONS),
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    for path, sessions in ((written(tmp_path)["beam"], ["1", "1", "2"]), (tmp_path / "rows.jsonl", ["0", "0", "1"])):
        (found,) = read(path)
        assert [turn.session_id for turn in found.turns] == sessions
        assert found.turns[0].content == "The greenhouse has 40 tomato plants."
        assert found.turns[1].event_time == datetime(2024, 5, 4, tzinfo=UTC)  # the date holds until the next
        questions = by_id(found)
        assert questions["knowledge_update-0"].evidence == {f"{sessions[0]}#0", f"{sessions[2]}#2"}
        assert questions["event_ordering-0"].marking is Marking.ORDER
        assert not questions["abstention-0"].is_answerable


def test_lifebench_is_read_from_its_folders_and_from_one_file(tmp_path: Path) -> None:
    (found,) = read(written(tmp_path)["lifebench"])
    assert [turn.source_ref for turn in found.turns] == ["2025-02-01#calendar:3", "2025-02-03#sms:7"]
    assert found.turns[1].content == "SMS: Nora. The pottery class moved to Thursday."
    known, unknown = found.questions
    assert known.evidence == {"2025-02-03#sms:7"} and known.rubric == ("names Thursday",)
    assert known.asked_at == datetime(2025, 2, 28, 12, tzinfo=UTC) and not unknown.is_answerable
    records = [
        {"ref": str(turn.source_ref), "session": turn.session_id, "at": str(turn.event_time), "text": turn.content}
        for turn in found.turns
    ]
    asked = {
        "question": "?",
        "type": "Single",
        "evidence": ["2025-02-03#sms:7"],
        "asked_at": "2025-03-01T00:00:00+00:00",
    }
    one_file = tmp_path / "people.json"
    one_file.write_text(json.dumps([{"user": "nora", "records": records, "questions": [asked]}]))
    (again,) = read(one_file)
    assert again.turns == found.turns and again.questions[0].evidence == known.evidence


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read as JSON"),
        ("[1, 2]", "no file of LoCoMo"),
        (json.dumps([{**LOCOMO[0], "qa": [{"question": "?"}]}]), "row 0 is not as locomo writes it"),
    ],
)
def test_a_wrong_file_is_told_what_is_wrong(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(content)
    with pytest.raises(InvalidInput, match=told):
        load(file)


def test_a_folder_without_a_benchmark_and_a_missing_file_are_told_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="neither conversations of BEAM"):
        load(tmp_path)
    with pytest.raises(InvalidInput, match="there is no file"):
        load(tmp_path / "absent.json")
