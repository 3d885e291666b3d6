"""The order of an answer after the ranking: each statement once, what holds above what ended, few chunks of one document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol
from uuid import UUID

from recordari.core.items import EDITED_FROM, PROJECT, Kind, normalised
from recordari.recall.rules.ranking import Ranked

FITS = 0.5  # another document fits from this share of a score on
PREFERRED_PROJECT = 1.3  # times the score, as for the session


def newer_first(best: Sequence[Ranked], outdated: Sequence[tuple[UUID, UUID]]) -> list[Ranked]:
    """The same order, but what ended a fact is directly above its text; `outdated`: pairs of such a text and what ended it."""
    order = list(best)
    for older, newer in outdated:
        places = {item.candidate.item_id: place for place, item in enumerate(order)}
        above, below = places.get(older), places.get(newer)
        if above is not None and below is not None and above < below:
            raised = order.pop(below)
            more = round(order[above].score - raised.score, 4)
            parts = {**raised.parts, "successor": more} if raised.parts else raised.parts
            order.insert(above, replace(raised, score=order[above].score, parts=parts))
    return order


def by_best_passage(best: Sequence[Ranked], passages: Sequence[Ranked]) -> list[Ranked]:
    """Each item once, best first: one with passages at its own score or at that of its best passage, if that is higher."""
    found = {item.candidate.item_id: item for item in best}
    of_item: dict[UUID, Ranked] = {}
    for passage in passages:
        first = of_item.setdefault(passage.candidate.item_id, passage)
        if passage.score > first.score:
            of_item[passage.candidate.item_id] = passage
    for item_id, passage in of_item.items():
        own = found.get(item_id)
        if own is None or passage.score > own.score:
            found[item_id] = passage if own is None else _scored_like(own, passage)
        found[item_id] = replace(found[item_id], passage=passage.passage)
    return sorted(found.values(), key=lambda item: -item.score)


def _scored_like(item: Ranked, passage: Ranked) -> Ranked:
    return replace(
        item, score=passage.score, parts=passage.parts, fit=passage.fit, near=passage.near, own_words=passage.own_words
    )


def _with_project_first(best: Sequence[Ranked], items: Mapping[UUID, SaidItem], project: str) -> list[Ranked]:
    scores = [
        replace(item, score=item.score + abs(item.score) * (PREFERRED_PROJECT - 1))
        if item.candidate.item_id in items and items[item.candidate.item_id].metadata.get(PROJECT) == project
        else item
        for item in best
    ]
    return sorted(scores, key=lambda item: -item.score)


_normalised = lru_cache(maxsize=1_000)(normalised)  # the same items are shown again and again


class SaidItem(Protocol):
    """What is looked at of an item to tell whether another says the same."""

    @property
    def kind(self) -> str: ...

    @property
    def content(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, Any]: ...


@dataclass(slots=True, kw_only=True)
class Folded:
    """The ranking without repetitions, and the items left out."""

    kept: list[Ranked] = field(default_factory=list)
    same_as: dict[UUID, list[UUID]] = field(default_factory=dict)
    """The items that say the same as one in `kept`, best first."""
    duplicates: list[UUID] = field(default_factory=list)
    """Items left out because an equal text is shown."""
    facts: list[UUID] = field(default_factory=list)
    """Items left out because the fact or its turn is shown."""


def folded(
    best: Sequence[Ranked],
    items: Mapping[UUID, SaidItem],
    links: Sequence[tuple[UUID, UUID]],
    *,
    project: str | None = None,
) -> Folded:
    """Show each statement once, at its best rank; `links` are pairs of a fact and a turn that it was taken from.

    What was said in `project` counts for more.
    """
    if project is not None:
        best = _with_project_first(best, items, project)
    found = [(item.candidate.item_id, item) for item in best]
    ranks = {item_id: item for item_id, item in found if item_id in items}
    shown_as = _shown_as(ranks, items, links) if links else {}
    answer = Folded()
    texts: dict[tuple[str, str], UUID] = {}
    has_chunks = False
    for item_id, item in ranks.items():
        shown = shown_as.get(item_id, item_id) if shown_as else item_id
        statement = items[shown]
        text = (statement.kind, _normalised(statement.content))
        has_chunks = has_chunks or text[0] == Kind.DOCUMENT_CHUNK
        first = texts.get(text)
        if first is None:
            first = texts[text] = shown
            answer.kept.append(item if shown is item_id else _raised(ranks[shown], item))
        if item_id is not first and item_id != first:
            answer.same_as.setdefault(first, []).append(item_id)
            (answer.duplicates if shown == item_id else answer.facts).append(item_id)
    if has_chunks:
        answer.kept = _few_of_one_document(answer.kept, items)
    return answer


def _few_of_one_document(kept: Sequence[Ranked], items: Mapping[UUID, SaidItem]) -> list[Ranked]:
    """The same with at most two chunks of one document in five, unless nothing else fits half as well."""
    rest, order = list(kept), list[Ranked]()
    while rest:
        last = [item.candidate.thread for item in order[-4:]]
        enough = FITS * rest[0].score if rest[0].score > 0 else rest[0].score
        chosen = next(
            (
                item
                for item in rest
                if item.score >= enough
                and (items[item.candidate.item_id].kind != Kind.DOCUMENT_CHUNK or last.count(item.candidate.thread) < 2)
            ),
            rest[0],
        )
        rest.remove(chosen)
        order.append(chosen)
    return order


def _shown_as(
    ranks: Mapping[UUID, Ranked], items: Mapping[UUID, SaidItem], links: Sequence[tuple[UUID, UUID]]
) -> dict[UUID, UUID]:
    """The item to show instead of another: its turn for a fact, the corrected fact for a turn."""
    order = {item_id: rank for rank, item_id in enumerate(ranks)}
    pairs = sorted((pair for pair in links if set(pair) <= order.keys()), key=lambda pair: order[pair[1]])
    pairs = [(fact, turn) for fact, turn in pairs if items[fact].kind == Kind.FACT]
    corrected: dict[UUID, UUID] = {}
    for fact, turn in pairs:
        if EDITED_FROM in items[fact].metadata:
            corrected.setdefault(turn, fact)
    turns: dict[UUID, UUID] = {}
    for fact, turn in pairs:
        if turn not in corrected and fact not in corrected.values():
            turns.setdefault(fact, turn)
    return corrected | turns


def _raised(shown: Ranked, better: Ranked) -> Ranked:
    """The item that is shown, with the score of the better one that it is shown for."""
    if better.score <= shown.score:
        return shown
    return replace(shown, score=better.score, parts={**shown.parts, "folded": round(better.score - shown.score, 4)})
