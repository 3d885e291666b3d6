"""Composing a context from what was fetched: packed by priority, rendered, and never past the budget. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recordari.core.tokens import TokenCounter
from recordari.domain.budget import Bid, Filled, Reason, fill
from recordari.domain.context import ContextItem, Rendering, SectionName, Share
from recordari.domain.rendering import Rendered, Section, bid_of, cost, preface_cost, render


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A context, and what each section shows and leaves out."""

    filled: Mapping[str, Filled[ContextItem]]
    sections: tuple[Section, ...]
    rendered: Rendered


def compose(
    shares: Mapping[SectionName, Share],
    fetched: Mapping[SectionName, Sequence[ContextItem]],
    *,
    budget: int,
    hint: str | None,
    how: Rendering,
    count: TokenCounter,
) -> Composed:
    """Fill the budget, and let go of the least important while the written whole is still past it.

    Parts are counted one by one, which is a little more or less than the whole that a model reads: the whole decides.
    """
    bids = [bid_of(name, share, fetched[name], count) for name, share in shares.items() if fetched.get(name)]
    places = {id(item): SectionName(bid.name) for bid in bids for item in bid.items}
    room = max(0, budget - preface_cost(hint, count))
    known: dict[tuple[int, int], int] = {}

    def counted(item: ContextItem, content: str) -> int:
        # What is shown of an item is always a beginning of it: its length names it.
        key = (id(item), len(content))
        if key not in known:
            known[key] = cost(places[id(item)], item, content, count)
        return known[key]

    filled = fill(bids, room, counted)
    while True:
        sections = _sections(filled, shares)
        rendered = render(sections, hint, how, count)
        if rendered.tokens <= budget:
            return Composed(filled=filled, sections=sections, rendered=rendered)
        if not sections:  # the hint alone is past the smallest of budgets
            return Composed(filled=filled, sections=(), rendered=render((), None, how, count))
        _let_go(filled, bids)


def _sections(filled: Mapping[str, Filled[ContextItem]], shares: Mapping[SectionName, Share]) -> tuple[Section, ...]:
    """What is shown, in the order in which it is read; the window oldest first."""
    return tuple(
        Section(
            name=name,
            items=filled[name].kept[::-1] if name is SectionName.WINDOW else filled[name].kept,
            budget=shares[name].tokens,
        )
        for name in SectionName
        if name in filled and filled[name].kept
    )


def _let_go(filled: dict[str, Filled[ContextItem]], bids: Sequence[Bid[ContextItem]]) -> None:
    """Leave out the last item of the section with the least priority."""
    bid = min((bid for bid in bids if filled[bid.name].kept), key=lambda bid: bid.priority)
    one = filled[bid.name]
    last = one.kept[-1]
    filled[bid.name] = Filled(
        kept=one.kept[:-1], left=((last.item, Reason.BUDGET), *one.left), tokens=one.tokens - last.tokens
    )
