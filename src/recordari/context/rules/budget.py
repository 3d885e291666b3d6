"""Share a budget of tokens among sections: by priority, in whole items, and never above the budget.

Each section has tokens of its own. Tokens that it does not use go to the others, in order of priority; tokens of no
section stay free. A section may be assured of a place for its best item, whatever the others need. An item is shown whole,
or cut at the end of a sentence, or left out with a reason. Where an assured place is too small for a sentence, its best item
is cut between two words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from recordari.core.text import sentence_ends

SHORTEST = 12  # tokens; with less room no item is added
USUAL_LENGTH = 20  # items that are kept when the beginning moves, if they leave room to grow
EASY = 0.75  # the part of the room that they may take
KEPT = 0.6  # the part of the room that is kept otherwise
_GAP = re.compile(
    r"(?<=\S)(?=\s)|(?<=[\u3040-\u30ff\u3400-\u9fff])"
)  # after a word, or a character of a script without spaces


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
    assured: float = 0.0
    """The part of all tokens that its best item may take from sections with a higher priority."""


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


def fill(bids: Sequence[Bid[T]], total: int, cost: Cost[T], *, use_all: bool = False) -> dict[str, Filled[T]]:
    """Share `total` tokens among the bids; tokens that a section does not use go to others by priority.

    With `use_all` the tokens of no section go to them too.
    """
    reserved: dict[str, int] = {}
    pool = total if use_all else min(total, sum(bid.tokens for bid in bids))
    while True:
        filled = _fill(bids, pool, cost, reserved)
        crowded_out = [bid for bid in bids if bid.assured and not filled[bid.name].kept and bid.name not in reserved]
        if not crowded_out:
            return filled
        for bid in sorted(crowded_out, key=lambda bid: -bid.assured):
            room = min(int(pool * bid.assured), pool - sum(reserved.values()))
            reserved[bid.name] = packed(replace(bid, most=1), room, _shown(filled), cost).tokens


def _fill(bids: Sequence[Bid[T]], pool: int, cost: Cost[T], reserved: Mapping[str, int]) -> dict[str, Filled[T]]:
    """Fill the sections by priority, around the tokens that are reserved for some of them."""
    ordered = sorted(bids, key=lambda bid: -bid.priority)
    filled: dict[str, Filled[T]] = {}

    def free(bid: Bid[T]) -> int:
        kept_back = sum(tokens for name, tokens in reserved.items() if name not in filled and name != bid.name)
        return pool - _used(filled) - kept_back

    for bid in ordered:
        room = min(max(bid.tokens, reserved.get(bid.name, 0)), free(bid))
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
        if not item.keys.isdisjoint(seen):
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
    if bid.assured and not kept:
        number = next((number for number, (_, reason) in enumerate(left) if reason is Reason.BUDGET), None)
        begun = _begun(left[number][0], room - used, cost) if number is not None else None
        if number is not None and begun is not None:
            kept, used = [begun], used + begun.tokens
            del left[number]
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


def _begun(item: T, room: int, cost: Cost[T]) -> Kept[T] | None:
    """The beginning of an item, cut between two words; None if there is room for a few words only."""
    if room - cost(item, "") < 2 * SHORTEST:
        return None
    ends = [gap.start() for gap in _GAP.finditer(item.content)]
    shorter = _longest(item.content, ends, lambda text: cost(item, text) <= room)
    return Kept(item, shorter, cost(item, shorter)) if shorter else None


def grown(bid: Bid[T], room: int, cost: Cost[T]) -> tuple[Filled[T], int]:
    """The last items of a bid that fit, with a beginning that seldom moves; and how often it has moved.

    The items are played from the first to the last, as they came. When they no longer fit, the beginning moves far enough
    that it stays for a while: a text of these items only grows at its end in between.
    """
    items = bid.items[::-1]
    costs = [cost(item, item.content) for item in items]
    first = moves = total = 0
    for last, tokens in enumerate(costs):
        total += tokens
        if total > room and first < last:
            usual = sum(costs[max(0, last - USUAL_LENGTH + 1) : last + 1])
            target = usual if usual <= room * EASY else room * KEPT
            while first < last and total > target:
                total -= costs[first]
                first += 1
            moves += 1
    kept = [Kept(item, item.content, tokens) for item, tokens in zip(items[first:], costs[first:], strict=True)]
    if total > room:  # a single item, and too long
        shorter = _fitted(items[-1], room, cost, whole=False) if items else None
        kept = [shorter] if shorter is not None else []
    left = tuple((item, Reason.BUDGET) for item in items[: len(items) - len(kept)][::-1])
    return Filled(kept=tuple(kept[::-1]), left=left, tokens=sum(each.tokens for each in kept)), moves


def cut_at_sentence(text: str, fits: Callable[[str], bool]) -> str:
    """The longest beginning of a text that fits and ends with a sentence; empty when no sentence fits."""
    return _longest(text, sentence_ends(text), fits)


def _longest(text: str, ends: Sequence[int], fits: Callable[[str], bool]) -> str:
    number = bisect_left(ends, True, key=lambda end: not fits(text[:end]))
    return text[: ends[number - 1]] if number else ""
