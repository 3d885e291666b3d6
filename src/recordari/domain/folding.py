"""What says the same takes one place of an answer: equal texts, and a fact with the turn that it was taken from.

A fact and its turn are shown as the turn, which says all that the fact says and how it was meant, at the better of their two
places. A fact that a person corrected since is shown itself, and its turn is not: the turn still says what was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from recordari.core.items import EDITED_FROM, Item, Kind, normalised
from recordari.domain.ranking import Ranked


@dataclass(slots=True, kw_only=True)
class Folded:
    """The ranking with each thing once, and what was left out for what."""

    kept: list[Ranked] = field(default_factory=list)
    same_as: dict[UUID, list[UUID]] = field(default_factory=dict)
    """For an item that is kept those that say the same, best first."""
    duplicates: list[UUID] = field(default_factory=list)
    """Those left out because their very text is shown."""
    facts: list[UUID] = field(default_factory=list)
    """Those left out because the fact or its turn is shown."""


def folded(best: Sequence[Ranked], found: Mapping[UUID, Item], links: Sequence[tuple[UUID, UUID]]) -> Folded:
    """Each thing once, at its best place; `links` are pairs of a fact and a turn that it was taken from."""
    ranks = {one.candidate.item_id: one for one in best if one.candidate.item_id in found}
    shown_as = _shown_as(ranks, found, links)
    answer = Folded()
    places: dict[UUID, int] = {}
    texts: dict[tuple[str, str], UUID] = {}
    for item_id, one in ranks.items():
        shown = shown_as.get(item_id, item_id)
        text = (str(found[shown].kind), normalised(found[shown].content))
        first = texts.setdefault(text, shown)
        if first not in places:
            places[first] = len(answer.kept)
            answer.kept.append(_raised(ranks[first], one))
        if item_id != first:
            answer.same_as.setdefault(first, []).append(item_id)
            (answer.duplicates if shown == item_id else answer.facts).append(item_id)
    return answer


def _shown_as(
    ranks: Mapping[UUID, Ranked], found: Mapping[UUID, Item], links: Sequence[tuple[UUID, UUID]]
) -> dict[UUID, UUID]:
    """What is shown in the place of an item: its turn for a fact, the corrected fact for a turn."""
    order = {item_id: place for place, item_id in enumerate(ranks)}
    pairs = sorted((pair for pair in links if set(pair) <= order.keys()), key=lambda pair: order[pair[1]])
    pairs = [(fact, turn) for fact, turn in pairs if found[fact].kind == Kind.FACT]
    corrected: dict[UUID, UUID] = {}
    for fact, turn in pairs:
        if EDITED_FROM in found[fact].metadata:
            corrected.setdefault(turn, fact)
    turns: dict[UUID, UUID] = {}
    for fact, turn in pairs:
        if turn not in corrected and fact not in corrected.values():
            turns.setdefault(fact, turn)
    return corrected | turns


def _raised(shown: Ranked, better: Ranked) -> Ranked:
    """What is shown, with the score of the one that brought it to this place."""
    if better.score <= shown.score:
        return shown
    gained = round(better.score - shown.score, 4)
    return replace(shown, score=better.score, parts={**shown.parts, "folded": gained})
