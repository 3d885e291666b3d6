"""Share a budget of tokens among sections: by priority, in whole items, and never above the budget.

Each section has tokens of its own. Tokens that it does not use go to the others, in order of priority; tokens of no
section stay free. An item is shown whole, or cut at the end of a sentence, or left out with a reason.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

SHORTEST = 12  # tokens; with less room no item is added

# The end of a sentence: a mark before white space, a mark of a script without spaces, or the end of a line. The lookahead
# tests for all of them at once: trying one after the other at every letter takes three times as long.
_END = re.compile(r"(?=[.!?…؟।。！？｡\n])(?:[.!?…؟।]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*|(?=\n))")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Za-z]|[Dd]rs?|[Mm]rs?|[Mm]s|[Pp]rof|[Ss]t|[Nn]o|[Nn]r|vs|etc|approx|ca|bzw|z\.B|[Ee]\.g|[Ii]\.e"
    r"|[Ii]nc|[Ll]td|[Jj]r|[Ss]r|U\.S|a\.m|p\.m|[Ff]ig|[Vv]ol|[Cc]f|[Dd]ept|\d{1,3})\.$"
)


class Showable(Protocol):
    @property
    def content(self) -> str: ...

    @property
    def keys(self) -> frozenset[Hashable]:
        """Its id and its text: two items with a common key are duplicates."""


T = TypeVar("T", bound=Showable)
Cost = Callable[[T, str], int]


class Reason(StrEnum):
    """Why an item is left out."""

    BUDGET = "budget"
    TOP_K = "top_k"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid(Generic[T]):
    """The items that a section offers, best first, and its part of the budget."""

    name: str
    tokens: int
    priority: int
    items: Sequence[T]
    most: int | None = None
    frame: int = 0
    """Tokens around the items, counted once if there are any."""
    contiguous: bool = False
    """Whether the items that are shown must be without gaps."""


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """An item that is shown: whole, or up to the end of a sentence."""

    item: T
    content: str
    tokens: int

    @property
    def is_cut(self) -> bool:
        return len(self.content) < len(self.item.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled(Generic[T]):
    """The items that a section shows, those it leaves out and why, and its tokens."""

    kept: tuple[Kept[T], ...] = ()
    left: tuple[tuple[T, Reason], ...] = ()
    tokens: int = 0


def fill(bids: Sequence[Bid[T]], total: int, cost: Cost[T]) -> dict[str, Filled[T]]:
    """Share `total` tokens among the bids; tokens that a section does not use go to others by priority."""
    ordered = sorted(bids, key=lambda bid: -bid.priority)
    pool = min(total, sum(bid.tokens for bid in bids))
    filled: dict[str, Filled[T]] = {}
    for bid in ordered:
        room = min(bid.tokens, pool - _used(filled))
        filled[bid.name] = packed(bid, room, _shown(filled), cost)
    for bid in ordered:
        before = filled.pop(bid.name)
        spare = pool - _used(filled) - before.tokens
        is_short = any(reason is Reason.BUDGET for _, reason in before.left) or any(kept.is_cut for kept in before.kept)
        after = packed(bid, before.tokens + spare, _shown(filled), cost) if spare > 0 and is_short else before
        filled[bid.name] = after if after.tokens > before.tokens else before
    return {bid.name: filled[bid.name] for bid in bids}


def _used(filled: dict[str, Filled[T]]) -> int:
    return sum(section.tokens for section in filled.values())


def _shown(filled: dict[str, Filled[T]]) -> set[Hashable]:
    return {key for section in filled.values() for kept in section.kept for key in kept.item.keys}


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
        elif is_full or (fitting := _fitted(item, room - used, cost, whole=bid.contiguous and bool(kept))) is None:
            left.append((item, Reason.BUDGET))
            is_full = bid.contiguous
        else:
            kept.append(fitting)
            seen |= item.keys
            used += fitting.tokens
            is_full = bid.contiguous and fitting.is_cut
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
    """The longest beginning of a text that fits and ends with a sentence; empty when no sentence fits."""
    ends = sentence_ends(text)
    number = bisect_left(ends, True, key=lambda end: not fits(text[:end]))
    return text[: ends[number - 1]] if number else ""


def sentence_ends(text: str) -> list[int]:
    """The positions at which a text may be cut: after each sentence or line with text, except the last."""
    ends: list[int] = []
    for match in _END.finditer(text):
        end, rest = match.end(), text[match.end() : match.end() + 8].lstrip(" \t")
        if end >= len(text.rstrip()) or not text[:end].strip() or (ends and not text[ends[-1] : end].strip()):
            continue
        if text[end - 1] in ".…" and (rest[:1].islower() or _ABBREVIATION.search(text[max(0, end - 12) : end])):
            continue
        ends.append(end)
    return ends
