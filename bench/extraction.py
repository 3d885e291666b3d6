"""What is extracted from messages: tables of `bench/truth.py`.

A message counts as kept if at least one fact is taken from it. A fact is matched, greedily and one to one, with the
hand-written fact whose content words it shares (F1 of .5 or more), if every number and name of its object is there.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from recordari.core.text import STOP_WORDS
from recordari.facts.rules.extraction import ExtractedFact, facts_in

Extract = Callable[[str, str | None, datetime | None], Sequence[ExtractedFact]]

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_]+(?:[.,:]\d+)*")
# The words that say nothing, of the languages of the cases.
_SMALL = STOP_WORDS | frozenset(
    """s t don doesn isn der die das den dem des ein eine einen einem einer und oder in im an am auf aus bei mit nach von
    vom zu zum zur ist sind hat haben wird seit ab ich wir sie er es mein meine meinen nicht le la les l un une des du
    de d et ou à au aux en dans chez sur est a sont ont qui que depuis je j il elle on nous mon ma mes ne pas n el los
    las un una y o del al con por para es son que se su sus lo mi mis os as um uma e ou do da dos das no na em com por
    é são que se o meu minha il lo gli uno di da in con su per tra e è sono che si mio mia de het een en of op bij met
    naar van is zijn dat die mijn ik we""".split()
)


def words(text: str) -> list[str]:
    """The content words of a text."""
    return [word for match in _WORD.finditer(text) if (word := match.group().casefold()) not in _SMALL]


def _names(text: str) -> list[str]:
    """The numbers and capitalised words."""
    return [
        match.group().casefold()
        for match in _WORD.finditer(text)
        if (match.group()[0].isupper() or match.group()[0].isdigit()) and match.group().casefold() not in _SMALL
    ]


def similarity(one: str, other: str) -> float:
    """F1 of the content words."""
    left, right = words(one), words(other)
    rest, shared = list(right), 0
    for word in left:
        if word in rest:
            rest.remove(word)
            shared += 1
    return 2 * shared / (len(left) + len(right)) if shared else 0.0


@dataclass
class Score:
    messages: int = 0
    worth: int = 0
    kept_worth: int = 0
    kept_noise: int = 0
    gold: int = 0
    predicted: int = 0
    matched: int = 0
    category: int = 0
    named: int = 0
    nameable: int = 0
    wrong: list[str] = field(default_factory=list)

    def row(self, name: str) -> list[str]:
        noise, kept = self.messages - self.worth, self.kept_worth + self.kept_noise
        return [
            name,
            str(self.messages),
            _share(self.kept_worth, self.worth),
            _share(self.kept_worth, kept),
            _share(self.kept_noise, noise),
            _share(self.matched, self.predicted),
            _share(self.matched, self.gold),
            _share(self.category, self.matched),
            _share(self.named, self.nameable),
        ]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.3f}" if whole else "–"


def offline(text: str, speaker: str | None, at: datetime | None) -> Sequence[ExtractedFact]:
    return facts_in(text, speaker=speaker, at=at)


def score(cases: Iterable[Mapping[str, Any]], extract: Extract = offline) -> Score:
    """The figures of section 2 of the README of the cases."""
    total = Score()
    for case in cases:
        found = extract(case["message"], case["speaker"], datetime.fromisoformat(case["at"]))
        total.messages += 1
        total.worth += not case["noise"]
        total.kept_worth += bool(found) and not case["noise"]
        total.kept_noise += bool(found) and case["noise"]
        total.gold += len(case["facts"])
        total.predicted += len(found)
        pairs = _matched(found, case["facts"])
        for place, gold in pairs:
            fact = found[place]
            total.matched += 1
            total.category += str(fact.category) == gold["category"]
            who = [name for name in _names(gold["subject"]) if not name.isdigit()]
            if who:
                total.nameable += 1
                total.named += all(_has_name(fact.content, name) for name in who)
        used = {place for place, _ in pairs}
        reached = [gold["text"] for _, gold in pairs]
        total.wrong += [
            f"+ {found[place].content}  [{found[place].category}] | {case['message'][:70]}"
            for place in range(len(found))
            if place not in used
        ]
        total.wrong += [
            f"- {gold['text']} | {case['message'][:110]}" for gold in case["facts"] if gold["text"] not in reached
        ]
        total.wrong += [
            f"c {found[place].category} for {gold['category']}: {found[place].content}"
            for place, gold in pairs
            if str(found[place].category) != gold["category"]
        ]
    return total


def _has_name(text: str, name: str) -> bool:
    return any(
        word == name or word.removesuffix("s") == name
        for word in (match.group().casefold() for match in _WORD.finditer(text))
    )


def _matched(found: Sequence[ExtractedFact], facts: Sequence[Mapping[str, str]]) -> list[tuple[int, Mapping[str, str]]]:
    ranked = sorted(
        (
            (similarity(fact.content, gold["text"]), place, number)
            for place, fact in enumerate(found)
            for number, gold in enumerate(facts)
        ),
        reverse=True,
    )
    places: set[int] = set()
    numbers: set[int] = set()
    pairs = []
    for value, place, number in ranked:
        if value < 0.5 or place in places or number in numbers:
            continue
        said = {match.group().casefold() for match in _WORD.finditer(found[place].content)}
        if all(name in said or f"{name}s" in said for name in _names(facts[number]["object"])):
            places.add(place)
            numbers.add(number)
            pairs.append((place, facts[number]))
    return pairs


@dataclass(frozen=True, slots=True)
class Turn:
    text: str
    speaker: str
    at: datetime | None
    carries: bool
    """Whether the data says that it states something."""


def locomo_turns(path: Path) -> Iterator[Turn]:
    """The turns of LoCoMo; those that an observation cites carry a fact."""
    for sample in json.loads(path.read_text("utf-8")):
        cited = {
            place
            for lists in sample["observation"].values()
            for pairs in lists.values()
            for _, places in pairs
            for place in ([places] if isinstance(places, str) else places)
        }
        talk = sample["conversation"]
        for name, turns in talk.items():
            if not isinstance(turns, list):
                continue
            at = _locomo_time(talk.get(f"{name}_date_time", ""))
            for turn in turns:
                yield Turn(turn["text"], turn["speaker"], at, turn["dia_id"] in cited)


def _locomo_time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError:
        return None


def longmemeval_turns(path: Path) -> Iterator[Turn]:
    """The user's turns of the sessions with the answers; those marked `has_answer` carry a fact."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        questions = json.load(file)
    for question in questions:
        for session, name in zip(question["haystack_sessions"], question["haystack_session_ids"], strict=True):
            if name not in question["answer_session_ids"]:
                continue
            for turn in session:
                if turn["role"] == "user":
                    yield Turn(turn["content"], "user", None, bool(turn.get("has_answer")))


def coverage(data: Path, console: Console, extract: Extract = offline) -> None:
    """Of the turns that carry a fact, how many give one; and of the turns that give one, how many carry one."""
    table = Table("coverage", "turns", "carry a fact", "give a fact", "coverage", "precision", "facts")
    files = {
        "LoCoMo": (data / "locomo" / "locomo10.json", locomo_turns),
        "LongMemEval dev": (data / "longmemeval" / "longmemeval_s_dev60.json.gz", longmemeval_turns),
    }
    for name, (path, turns_of) in files.items():
        if not path.exists():
            console.print(f"{name}: there is no {path}")
            continue
        turns = carry = give = both = facts = 0
        for turn in turns_of(path):
            found = len(extract(turn.text, turn.speaker, turn.at))
            turns, carry, give = turns + 1, carry + turn.carries, give + bool(found)
            both, facts = both + (turn.carries and bool(found)), facts + found
        table.add_row(name, str(turns), str(carry), str(give), _share(both, carry), _share(both, give), str(facts))
    console.print(table)


def extraction(folder: Path, console: Console, show: int) -> None:
    """Messages worth keeping or not, and their facts."""
    cases = [
        json.loads(line) for line in (folder / "worth_keeping.jsonl").read_text("utf-8").splitlines() if line.strip()
    ]
    groups = {"all": cases, "first half": cases[::2], "second half": cases[1::2]}
    groups |= {
        code: [case for case in cases if case["lang"] == code] for code in sorted({case["lang"] for case in cases})
    }
    table = Table(
        "extraction",
        "messages",
        "gate recall",
        "gate precision",
        "noise kept",
        "fact precision",
        "fact recall",
        "category",
        "name",
    )
    for name, group in groups.items():
        table.add_row(*score(group).row(name))
    console.print(table)
    for line in score(cases).wrong[:show]:
        console.print(line, markup=False, highlight=False)
