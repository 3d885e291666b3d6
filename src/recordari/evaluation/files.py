"""Finds the benchmark in a file or folder, and reads it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from recordari.errors import InvalidInput
from recordari.evaluation.rules.formats import Haystack, benchmark_of, lifebench_person, read_rows


def load(path: Path) -> tuple[str, list[Haystack]]:
    """The name of a benchmark and its histories, from a file (JSON or JSON Lines, also .gz) or a folder as published."""
    if not path.exists():
        raise InvalidInput(f"there is no file or folder {path}")
    rows = _rows(path) if path.is_file() else _folder(path)
    benchmark = benchmark_of(rows)
    if benchmark is None:
        raise InvalidInput(
            f"{path} is no file of LoCoMo, LongMemEval, BEAM or LifeBench that is known here; docs/results.md lists the forms"
        )
    return benchmark, read_rows(benchmark, rows)


def _rows(path: Path) -> list[Any]:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        text = raw.decode()
        if ".jsonl" in path.suffixes:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        found = json.loads(text)
    except (OSError, EOFError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON ({type(error).__name__})") from None
    return found if isinstance(found, list) else [found]


def _folder(path: Path) -> list[dict[str, Any]]:
    """BEAM's folders, one for each conversation, or LifeBench's, one for each person."""
    found = []
    for chat in sorted(path.rglob("chat.json"), key=_in_order):
        asked = chat.parent / "probing_questions" / "probing_questions.json"
        if asked.exists():
            name = "-".join(chat.parent.relative_to(path.parent).parts)
            found.append({"conversation_id": name, "chat": _rows(chat), "probing_questions": _rows(asked)[0]})
    for asked in sorted(path.rglob("QA/QA*.json")):
        person = asked.parents[1]
        records = {file.stem: _rows(file) for file in sorted((person / "phone_data").glob("*.json"))}
        found.append(lifebench_person(person.name, records, _rows(asked)))
    if not found:
        raise InvalidInput(
            f"{path} has neither conversations of BEAM (chat.json beside probing_questions/) nor people of LifeBench "
            "(QA/ beside phone_data/); name a file"
        )
    return found


def _in_order(path: Path) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else 0, part) for part in path.parts]
