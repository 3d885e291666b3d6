"""What each benchmark's files say: histories to remember, and questions with their gold evidence and answers.

LoCoMo, LongMemEval (S, M and oracle), BEAM and LifeBench, each as it is published; LifeBench also as one file of records and
questions. A session of a history is the part of a turn's reference before `#`.
"""

from __future__ import annotations

import ast
import calendar
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import chain
from typing import Any

from recordari.core.identity import Scope
from recordari.core.items import NewItem, Trust
from recordari.errors import InvalidInput

LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
ADVERSARIAL = "adversarial"


class Marking(StrEnum):
    """How an answer is marked."""

    ANSWER = "answer"  # it must contain the gold answer
    DURATION = "duration"  # as ANSWER, and a number of days, weeks or months may be off by one
    UPDATE = "update"  # as ANSWER, and older information beside it does no harm
    PREFERENCE = "preference"  # it must use what is known of the user; the gold answer describes that
    POINTS = "points"  # each point of the rubric is worth 0, a half or 1
    ORDER = "order"  # the points of the rubric must come in their order
    ABSTENTION = "abstention"  # it must say that this is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldQuestion:
    """A question of a benchmark with what it expects."""

    question_id: str
    text: str
    category: str
    evidence: frozenset[str] = frozenset()
    """References of the turns that answer it."""
    answer: str | None = None
    rubric: tuple[str, ...] = ()
    marking: Marking = Marking.ANSWER
    is_update: bool = False
    """Whether its evidence has an outdated and a newer statement."""
    asked_at: datetime | None = None

    @property
    def is_answerable(self) -> bool:
        return self.marking is not Marking.ABSTENTION


@dataclass(frozen=True, slots=True)
class Haystack:
    """One history, which becomes a tenant of its own, and the questions about it."""

    name: str
    turns: tuple[NewItem, ...]
    questions: tuple[GoldQuestion, ...]

    @property
    def with_evidence(self) -> tuple[GoldQuestion, ...]:
        """The questions on which retrieval can be measured."""
        return tuple(question for question in self.questions if question.evidence)


def benchmark_of(rows: object) -> str | None:
    """The name of the benchmark that a decoded file belongs to; None if it is none that is known."""
    first = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(first, dict):
        return None
    marks = {
        "locomo": {"conversation", "qa"},
        "longmemeval": {"haystack_sessions", "question"},
        "lifebench": {"records", "questions"},
        "beam": {"chat", "probing_questions"},
    }
    return next((name for name, fields in marks.items() if fields <= first.keys()), None)


def read_rows(benchmark: str, rows: Sequence[Mapping[str, Any]]) -> list[Haystack]:
    """The histories of a decoded file; `InvalidInput` says which row is not as its benchmark writes it."""
    readers = {"locomo": _locomo, "longmemeval": _longmemeval, "lifebench": _lifebench, "beam": _beam}
    found = []
    for number, row in enumerate(rows):
        try:
            found.append(readers[benchmark](number, row))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InvalidInput(
                f"row {number} is not as {benchmark} writes it ({type(error).__name__}: {error}); "
                "download the file again, or leave the row out"
            ) from None
    return found


def _locomo(number: int, sample: Mapping[str, Any]) -> Haystack:
    conversation, turns = sample["conversation"], []
    sessions = (key for key in conversation if re.fullmatch(r"session_\d+", key))
    for session in sorted(sessions, key=lambda key: int(key.rpartition("_")[2])):
        written = conversation[f"{session}_date_time"]
        moment = datetime.strptime(written, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in conversation[session]:
            caption = turn.get("blip_caption")
            content = turn["text"] + (f" [image: {caption}]" if caption else "")
            turns.append(_turn(content or "…", f"{session}#{turn['dia_id']}", moment, speaker=turn["speaker"]))
    by_id = {str(turn.source_ref).rpartition("#")[2]: str(turn.source_ref) for turn in turns}
    questions = []
    for place, asked in enumerate(sample["qa"]):
        category = LOCOMO_CATEGORIES[asked["category"]]
        cited = re.split(r"[\s;,]+", " ".join(asked.get("evidence") or []))
        questions.append(
            GoldQuestion(
                question_id=str(place),
                text=asked["question"],
                category=category,
                evidence=frozenset(by_id[one] for one in cited if one in by_id),
                answer=str(asked["answer"]) if "answer" in asked else None,
                marking=Marking.ABSTENTION if category == ADVERSARIAL else Marking.ANSWER,
            )
        )
    return Haystack(f"locomo-{number}", tuple(turns), tuple(questions))


_LONGMEMEVAL_MARKINGS = {
    "temporal-reasoning": Marking.DURATION,
    "knowledge-update": Marking.UPDATE,
    "single-session-preference": Marking.PREFERENCE,
}


def _longmemeval(_number: int, sample: Mapping[str, Any]) -> Haystack:
    turns, evidence = [], set()
    sessions = zip(sample["haystack_session_ids"], sample["haystack_dates"], sample["haystack_sessions"], strict=True)
    for place, (session, date, said) in enumerate(sessions):
        moment = _longmemeval_moment(date)
        for number, turn in enumerate(said):
            if not turn["content"].strip("\u200b \t\n"):
                continue
            ref = f"{session}/{place}#{number}"
            if turn.get("has_answer"):
                evidence.add(ref)
            turns.append(_turn(turn["content"], ref, moment, speaker=turn["role"]))
    name, category = str(sample["question_id"]), sample["question_type"]
    is_known = not name.endswith("_abs")
    question = GoldQuestion(
        question_id=name,
        text=sample["question"],
        category=category,
        evidence=frozenset(evidence if is_known else ()),
        answer=str(sample["answer"]),
        marking=_LONGMEMEVAL_MARKINGS.get(category, Marking.ANSWER) if is_known else Marking.ABSTENTION,
        is_update=category == "knowledge-update",
        asked_at=_longmemeval_moment(sample["question_date"]),
    )
    return Haystack(f"longmemeval-{name}", tuple(turns), (question,))


def _longmemeval_moment(written: str) -> datetime:
    return datetime.strptime(re.sub(r"\([^)]*\)\s*", "", written), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def _beam(number: int, row: Mapping[str, Any]) -> Haystack:
    """A conversation in batches; only some messages carry the date that holds from there on."""
    turns, moment, by_id = [], datetime(2024, 1, 1, tzinfo=UTC), {}
    for batch, message in _beam_messages(row["chat"]):
        if anchor := message.get("time_anchor"):
            moment = datetime.strptime(anchor, "%B-%d-%Y").replace(tzinfo=UTC)
        content = re.sub(r"\s*->->[\s\d,.-]*$", "", message["content"]).strip()  # their mark of the plan's bullet
        if content:
            ref = f"{batch}#{message['id']}"
            by_id[int(message["id"])] = ref
            turns.append(_turn(content, ref, moment, speaker=message["role"]))
    asked = row["probing_questions"]
    abilities: Mapping[str, Sequence[Mapping[str, Any]]] = ast.literal_eval(asked) if isinstance(asked, str) else asked
    questions = [
        _beam_question(f"{ability}-{place}", ability, one, by_id, moment + timedelta(days=1))
        for ability, several in abilities.items()
        for place, one in enumerate(several)
    ]
    return Haystack(f"beam-{row.get('conversation_id', number)}", tuple(turns), tuple(questions))


def _beam_messages(part: Any, session: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every message with its session, however deep plans, batches and turns are nested."""
    if isinstance(part, Mapping) and "content" in part:
        yield session or "0", part
    elif isinstance(part, Mapping):
        for name, inner in part.items():
            if isinstance(inner, list):
                yield from _beam_messages(inner, f"{session}/{part.get('batch_number', name)}".strip("/"))
    else:
        for number, inner in enumerate(part):
            yield from _beam_messages(inner, session or (str(number) if isinstance(inner, list) else ""))


def _beam_question(
    question_id: str, ability: str, asked: Mapping[str, Any], by_id: Mapping[int, str], asked_at: datetime
) -> GoldQuestion:
    sources = asked.get("source_chat_ids") or ()
    numbers = chain.from_iterable(sources.values()) if isinstance(sources, Mapping) else sources
    markings = {"abstention": Marking.ABSTENTION, "event_ordering": Marking.ORDER}
    gold = (asked.get(name) for name in ("answer", "ideal_answer", "ideal_response", "ideal_summary"))
    return GoldQuestion(
        question_id=question_id,
        text=asked["question"],
        category=ability,
        evidence=frozenset(by_id[int(one)] for one in _flat(numbers) if int(one) in by_id),
        answer=next((str(one) for one in gold if one), None),
        rubric=tuple(map(str, asked.get("rubric") or ())),
        marking=markings.get(ability, Marking.POINTS),
        is_update=ability == "knowledge_update",
        asked_at=asked_at,
    )


def _flat(numbers: Iterable[Any]) -> Iterator[Any]:
    for one in numbers:
        if isinstance(one, list):
            yield from _flat(one)
        else:
            yield one


def _lifebench(_number: int, person: Mapping[str, Any]) -> Haystack:
    """One person's records and questions in one file."""
    records = [
        _turn(one["text"], f"{one['session']}#{one['ref'].rpartition('#')[2]}", datetime.fromisoformat(one["at"]))
        for one in person["records"]
    ]
    known = {str(record.source_ref).rpartition("#")[2]: str(record.source_ref) for record in records}
    questions = tuple(
        GoldQuestion(
            question_id=str(asked.get("id", place)),
            text=asked["question"],
            category=asked["type"],
            evidence=frozenset(known[name] for ref in asked["evidence"] if (name := ref.rpartition("#")[2]) in known),
            answer=asked.get("answer"),
            rubric=tuple(asked.get("points", ())),
            marking=_lifebench_marking(asked["type"]),
            is_update=_is_update(asked["type"]),
            asked_at=datetime.fromisoformat(asked["asked_at"]),
        )
        for place, asked in enumerate(person["questions"])
    )
    return Haystack(f"lifebench-{person['user']}", tuple(records), questions)


def _lifebench_marking(category: str) -> Marking:
    return Marking.ABSTENTION if "unanswerable" in category.lower() else Marking.ANSWER


def _is_update(category: str) -> bool:
    """Whether a category has knowledge updates alone; where questions of time are among them, newest need not be best."""
    return "update" in category.lower() and "temporal" not in category.lower()


def lifebench_person(
    name: str, records: Mapping[str, Sequence[Mapping[str, Any]]], asked: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """One person's folder as it is published, in the form of one file: `phone_data` by kind, and the questions."""
    found = []
    for kind, rows in records.items():
        for place, row in enumerate(rows):
            written = row.get("datetime") or row.get("start_time") or row.get("date") or row.get("日期")
            if not written:
                continue  # a contact is no record of anything that happened
            moment = datetime.fromisoformat(str(written).replace("/", "-")).replace(tzinfo=UTC)
            day = f"{moment:%Y-%m-%d}"
            ref = f"{day}#{kind}:{row.get('phone_id', place)}"
            found.append({"ref": ref, "session": day, "at": moment.isoformat(), "text": _record_text(kind, row)})
    found.sort(key=lambda record: record["at"])
    questions = [
        {
            "question": one["question"],
            "type": one["question_type"],
            "evidence": [f"#{each['type']}:{each['id']}" for each in one.get("evidence") or ()],
            "asked_at": _end_of_month(one["ask_time"]).isoformat(),
            "answer": str(one["answer"]),
            "points": [point["description"] for point in one.get("score_points") or ()],
        }
        for one in asked
    ]
    return {"user": name, "records": found, "questions": questions}


def _end_of_month(written: str) -> datetime:
    """The moment a question is asked: a day as it is written, or the last day of a month, at noon."""
    parts = [int(part) for part in re.findall(r"\d+", written)[:3]]
    day = parts[2] if len(parts) == 3 else calendar.monthrange(parts[0], parts[1])[1]
    return datetime(parts[0], parts[1], day, 12, tzinfo=UTC)


_RECORD_TITLES = {"sms": "SMS", "call": "Call", "push": "Push notification"}
_LEFT_OUT = {"type", "event_id", "phone_id", "datetime", "phoneNumber", "jump_path", "summarized_info"}


def _record_text(kind: str, row: Mapping[str, Any]) -> str:
    """A record as one line: what it is, then every value that says something."""
    values = (_value_text(value) for name, value in row.items() if name not in _LEFT_OUT)
    title = _RECORD_TITLES.get(kind, kind.replace("_", " ").capitalize())
    return f"{title}: {'. '.join(value for value in values if value)}"


def _value_text(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(filter(None, map(_value_text, value.values())))
    if isinstance(value, list):
        return ", ".join(filter(None, map(_value_text, value)))
    return value.strip() if isinstance(value, str) else json.dumps(value)


def _turn(content: str, ref: str, moment: datetime, *, speaker: str | None = None) -> NewItem:
    return NewItem(
        content=content,
        speaker=speaker,
        trust={"user": Trust.USER, "assistant": Trust.AGENT}.get(speaker or ""),
        source_ref=ref,
        session_id=ref.rpartition("#")[0],
        event_time=moment if moment.tzinfo else moment.replace(tzinfo=UTC),
        scope=Scope.USER,
    )
