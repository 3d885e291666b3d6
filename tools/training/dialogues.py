"""The memories to learn from: plain text, a file for each, with three kinds of lines.

A session begins with `= 2024-03-02 18:05`. A turn is its number, its speaker and its text: `1 Mara: Got the kayak out again`. A
question names the turns that answer it, or `-` for none: `? What did Mara get out? | 1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from recordari.core.identity import Scope
from recordari.core.items import NewItem
from recordari.evaluation.rules.formats import GoldQuestion, Haystack, Marking

FOLDER = Path(__file__).with_name("dialogues")
_TURN = re.compile(r"(\d+) ([^:]{1,60}): (.+)")


def read_all() -> list[Haystack]:
    return [read(path) for path in sorted(FOLDER.glob("*.txt"))]


def read(path: Path) -> Haystack:
    """One memory; a line that is none of the three kinds, or names a turn that is not there, ends the program."""
    turns: dict[int, NewItem] = {}
    questions: list[GoldQuestion] = []
    session, moment = 0, datetime.min.replace(tzinfo=UTC)
    for number, line in _lines(path):
        if line.startswith("= "):
            session, moment = session + 1, datetime.fromisoformat(line[2:]).replace(tzinfo=UTC)
        elif line.startswith("? ") and " | " in line:
            text, named = line[2:].rsplit(" | ", 1)
            numbers = [] if named.strip() == "-" else [int(one) for one in named.split(",")]
            if missing := set(numbers) - turns.keys():
                raise SystemExit(f"{path.name}, line {number}: there is no turn {missing}")
            evidence = frozenset(turns[one].source_ref or "" for one in numbers)
            questions.append(
                GoldQuestion(
                    question_id=f"{path.stem}-{len(questions)}",
                    text=text,
                    category="dialogue",
                    evidence=evidence,
                    marking=Marking.ANSWER if evidence else Marking.ABSTENTION,
                )
            )
        elif turn := _TURN.fullmatch(line):
            turns[int(turn[1])] = NewItem(
                content=turn[3],
                scope=Scope.USER,
                speaker=turn[2],
                source_ref=f"{path.stem}/{session}#{turn[1]}",
                event_time=moment,
            )
        else:
            raise SystemExit(f"{path.name}, line {number}: neither a session, a turn nor a question")
    return Haystack(f"dialogue-{path.stem}", tuple(turns.values()), tuple(questions))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if line.strip():
            yield number, line
