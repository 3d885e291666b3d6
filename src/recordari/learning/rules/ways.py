"""Ways of working: sequences of actions that an agent repeats although their details differ (P3).

Two sessions are compared step by step. Steps are the same when they begin alike and share most of their words; numbers,
names of files and quoted words do not count. What stays of a step are the words that all of them have, in order. Three steps
in the same order make a way of working, and so do two when the first failed and the second helped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recordari.core.text import terms

FEWEST_STEPS = 3
LIKENESS = 0.6  # of the words of the shorter step
MOST_STEPS = 60  # of one session: comparing costs the product of both
LEFT_OUT = "…"
BETWEEN = "; then "

# Parts that differ each time the same is done: numbers and codes, addresses, paths, quoted words.
PARTICULAR = re.compile(
    r"[\"“«][^\"”»\n]{1,200}[\"”»]|\S{1,100}@\S{1,100}|https?://\S{1,400}"
    r"|(?<!\S)#?(?=[\w.-]{0,80}/)[\w./-]{3,120}(?<!/)|\b[\w-]{1,60}\.(?=[a-z]{1,5}\b)[a-z]{1,5}\b"
    r"|\b(?=\w{0,40}\d)[\w./:-]{1,80}|#\d\w{0,40}"
)
_WORD = re.compile(rf"{LEFT_OUT}|#?[\w'-]+|[:,;()]")
_FAILED = re.compile(
    r"\b(?:error|errors|failed|fails?|failure|refused|denied|timed? ?out|not found|broken)\b", re.IGNORECASE
)
_HELPED = re.compile(r"\b(?:instead|ok|okay|works?|worked|success|succeeded|passed|fixed|fine)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Way:
    """A repeated sequence: its steps without what differed, and the positions of its sources in each session."""

    steps: tuple[str, ...]
    sources: tuple[tuple[int, int], ...]
    """(session, position), both from 0."""

    @property
    def content(self) -> str:
        return BETWEEN.join(self.steps)


def shape_of(content: str) -> str:
    """The text of an action without the parts that differ each time."""
    return PARTICULAR.sub(LEFT_OUT, content)


def repeated_ways(sessions: Sequence[Sequence[str]]) -> list[Way]:
    """The sequence that the last session shares with earlier ones, if there is one."""
    if len(sessions) < 2:
        return []
    *earlier, last = [[_words(step) for step in session[-MOST_STEPS:]] for session in sessions]
    aligned = {index: _aligned(session, last) for index, session in enumerate(earlier)}
    aligned = {index: pairs for index, pairs in aligned.items() if _is_way(pairs, earlier[index], last)}
    if not aligned:
        return []
    longest = max(aligned.values(), key=len)
    kept = [position for _, position in longest]
    steps = {position: last[position] for position in kept}
    sources = {(len(earlier), position) for position in kept}
    for index, pairs in aligned.items():
        shared = {position: before for before, position in pairs if position in steps}
        if 2 * len(shared) < len(kept):
            continue
        for position, before in shared.items():
            steps[position] = _common(earlier[index][before], steps[position])
            sources.add((index, before))
    return [Way(steps=tuple(_written(steps[position]) for position in kept), sources=tuple(sorted(sources)))]


def _words(step: str) -> list[str]:
    """The words of a step; of what may differ, only names without a number, each behind a mark of its own."""
    words, end = [], 0
    for found in PARTICULAR.finditer(step):
        words += _WORD.findall(step[end : found.start()])
        words.append(f"{LEFT_OUT}{found.group()}" if _NAME.fullmatch(found.group()) else LEFT_OUT)
        end = found.end()
    return words + _WORD.findall(step[end:])


# A file or folder that may be the same each time: "CHANGELOG.md", "tests/data".
_NAME = re.compile(r"[^\W\d]+(?:[./-][^\W\d]+){1,6}")


def _content_words(words: Sequence[str]) -> set[str]:
    return {word.casefold() for word in words if not word.startswith(LEFT_OUT) and len(word) > 1}


def _alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether two steps are the same action: the same first word, and most words of the shorter one."""
    first, second = _content_words(one), _content_words(other)
    if not first or not second or not _same_beginning(one, other):
        return False
    return len(first & second) >= LIKENESS * min(len(first), len(second))


def _same_beginning(one: Sequence[str], other: Sequence[str]) -> bool:
    first, second = (
        next((word.casefold() for word in words if not word.startswith(LEFT_OUT)), "") for words in (one, other)
    )
    return first == second


def _aligned(one: list[list[str]], other: list[list[str]]) -> list[tuple[int, int]]:
    """The longest common subsequence of two sessions, as pairs of positions."""
    rows, columns = len(one), len(other)
    alike = [[_alike(left, right) for right in other] for left in one]
    length = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            length[row][column] = (
                length[row + 1][column + 1] + 1
                if alike[row][column]
                else max(length[row + 1][column], length[row][column + 1])
            )
    pairs, row, column = [], 0, 0
    while row < rows and column < columns:
        if alike[row][column] and length[row][column] == length[row + 1][column + 1] + 1:
            pairs.append((row, column))
            row, column = row + 1, column + 1
        elif length[row + 1][column] >= length[row][column + 1]:
            row += 1
        else:
            column += 1
    return pairs


def _is_way(pairs: list[tuple[int, int]], one: list[list[str]], other: list[list[str]]) -> bool:
    if len(pairs) >= FEWEST_STEPS:
        return True
    if len(pairs) < FEWEST_STEPS - 1:
        return False
    (first, _), (_, second) = pairs
    return bool(_FAILED.search(" ".join(one[first]))) and bool(_HELPED.search(" ".join(other[second])))


def _common(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """The words that two steps share, in order, with a gap where they differ."""
    rows, columns = len(one), len(other)
    length = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            same = one[row].casefold() == other[column].casefold()
            length[row][column] = (
                length[row + 1][column + 1] + 1 if same else max(length[row + 1][column], length[row][column + 1])
            )
    shared: list[str] = []
    row = column = 0
    while row < rows and column < columns:
        if one[row].casefold() == other[column].casefold():
            shared.append(other[column])
            row, column = row + 1, column + 1
            continue
        if not shared or shared[-1] != LEFT_OUT:
            shared.append(LEFT_OUT)
        if length[row + 1][column] >= length[row][column + 1]:
            row += 1
        else:
            column += 1
    return shared


def _written(words: Sequence[str]) -> str:
    """A step as a sentence would have it, without gaps at its end or beside each other."""
    kept: list[str] = []
    for word in words:
        if word == LEFT_OUT and kept and kept[-1] == LEFT_OUT:
            continue
        kept.append(word if word == LEFT_OUT else word.removeprefix(LEFT_OUT))
    while kept and (kept[-1] == LEFT_OUT or not kept[-1][-1].isalnum()):
        kept.pop()
    return re.sub(r" ([:,;)])", r"\1", " ".join(kept)).replace("( ", "(")


def says_enough(shape: str, fewest: int) -> bool:
    """Whether the shape of an action has words enough to be of use."""
    return len({term for term in terms(shape.replace(LEFT_OUT, " ")) if len(term) > 1}) >= fewest
