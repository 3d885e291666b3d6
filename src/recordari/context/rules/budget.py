"""Sharing a budget of tokens among sections: by priority, whole items, and never past the budget.

Each section has tokens of its own. What it does not use moves on to the others, in the order of priority; what no
section was given stays free. An item is shown whole, or cut at the end of a sentence, or left out and the reason noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

SHORTEST = 12  # tokens; with less room nothing is begun

# The end of a sentence: a mark that white space follows, a mark of a script without spaces, or the end of a line. All of them
# are looked for at once first: trying one after the other at every letter takes three times as long.
_END = re.compile(r"(?=[.!?…؟।。！？｡\n])(?:[.!?…؟।]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*|(?=\n))")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Za-z]|[Dd]rs?|[Mm]rs?|[Mm]s|[Pp]rof|[Ss]t|[Nn]o|[Nn]r|vs|etc|approx|ca|bzw|z\.B|[Ee]\.g|[Ii]\.e"
    r"|[Ii]nc|[Ll]td|[Jj]r|[Ss]r|U\.S|a\.m|p\.m|[Ff]ig|[Vv]ol|[Cc]f|[Dd]ept|\d{1,3})\.$"
)


class Held(Protocol):
    """Something that may be shown."""

    @property
    def content(self) -> str:
        """Its text."""

    @property
    def keys(self) -> frozenset[Hashable]:
        """What makes it the same as another one: its id, its text."""


T = TypeVar("T", bound=Held)
Cost = Callable[[T, str], int]


class Reason(StrEnum):
    """Why an item is not shown."""

    BUDGET = "budget"
    TOP_K = "top_k"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid(Generic[T]):
    """What a section would like to show, best first."""

    name: str
    tokens: int
    priority: int
    items: Sequence[T]
    most: int | None = None
    frame: int = 0
    """Tokens around the items, paid once if there are any."""
    contiguous: bool = False
    """Whether nothing may be missing between two items that are shown."""


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """An item that is shown: whole, or up to the end of a sentence."""

    item: T
    content: str
    tokens: int

    @property
    def is_cut(self) -> bool:
        """Whether some of it is missing."""
        return len(self.content) < len(self.item.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled(Generic[T]):
    """What a section shows, what it leaves out and why, and its tokens."""

    kept: tuple[Kept[T], ...] = ()
    left: tuple[tuple[T, Reason], ...] = ()
    tokens: int = 0


def fill(bids: Sequence[Bid[T]], total: int, cost: Cost[T]) -> dict[str, Filled[T]]:
    """Share `total` tokens among the bids; what a section leaves of its own moves on by priority."""
    ordered = sorted(bids, key=lambda bid: -bid.priority)
    pool = min(total, sum(bid.tokens for bid in bids))
    filled: dict[str, Filled[T]] = {}
    for bid in ordered:
        room = min(bid.tokens, pool - _used(filled))
        filled[bid.name] = packed(bid, room, _shown(filled), cost)
    for bid in ordered:
        before = filled.pop(bid.name)
        spare = pool - _used(filled) - before.tokens
        if spare > 0 and (any(reason is Reason.BUDGET for _, reason in before.left) or _is_cut(before)):
            again = packed(bid, before.tokens + spare, _shown(filled), cost)
            filled[bid.name] = again if again.tokens > before.tokens else before
        else:
            filled[bid.name] = before
    return {bid.name: filled[bid.name] for bid in bids}


def _is_cut(one: Filled[T]) -> bool:
    return any(kept.is_cut for kept in one.kept)


def _used(filled: dict[str, Filled[T]]) -> int:
    return sum(one.tokens for one in filled.values())


def _shown(filled: dict[str, Filled[T]]) -> set[Hashable]:
    return {key for one in filled.values() for kept in one.kept for key in kept.item.keys}


def packed(bid: Bid[T], room: int, shown: set[Hashable], cost: Cost[T]) -> Filled[T]:
    """The items of one section that fit into `room` tokens, in their order."""
    seen, used = set(shown), bid.frame
    kept: list[Kept[T]] = []
    left: list[tuple[T, Reason]] = []
    is_full = False
    for item in bid.items:
        if item.keys & seen:
            left.append((item, Reason.DUPLICATE))
        elif bid.most is not None and len(kept) >= bid.most:
            left.append((item, Reason.TOP_K))
        elif is_full or (one := _fitted(item, room - used, cost, whole=bid.contiguous and bool(kept))) is None:
            left.append((item, Reason.BUDGET))
            is_full = bid.contiguous
        else:
            kept.append(one)
            seen |= item.keys
            used += one.tokens
            is_full = bid.contiguous and one.is_cut
    return Filled(kept=tuple(kept), left=tuple(left), tokens=used if kept else 0)


def _fitted(item: T, room: int, cost: Cost[T], *, whole: bool) -> Kept[T] | None:
    if room < SHORTEST:
        return None
    tokens = cost(item, item.content)
    if tokens <= room:
        return Kept(item, item.content, tokens)
    if whole:
        return None
    shorter = cut_at_sentence(item.content, lambda text: cost(item, text) <= room)
    return Kept(item, shorter, cost(item, shorter)) if shorter else None


def cut_at_sentence(text: str, fits: Callable[[str], bool]) -> str:
    """The longest beginning of a text that fits and ends where a sentence ends; empty when not even one does."""
    ends = sentence_ends(text)
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(text[: ends[middle - 1]]):
            low = middle
        else:
            high = middle - 1
    return text[: ends[low - 1]] if low else ""


def sentence_ends(text: str) -> list[int]:
    """Where a text may be cut: after each sentence or line that says something, the last one excepted."""
    ends: list[int] = []
    for found in _END.finditer(text):
        end, rest = found.end(), text[found.end() : found.end() + 8].lstrip(" \t")
        if end >= len(text.rstrip()) or not text[:end].strip() or (ends and not text[ends[-1] : end].strip()):
            continue
        if text[end - 1] in ".…" and (rest[:1].islower() or _ABBREVIATION.search(text[max(0, end - 12) : end])):
            continue
        ends.append(end)
    return ends
