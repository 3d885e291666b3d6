"""Proposals: changes that a review would make, and the conditions under which they can still be made (X5).

A proposal records its inputs and their state. Nothing happens to them before it is accepted. When an input changes
meanwhile, the proposal is void.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import ConfigDict

from recordari.core.described import describe
from recordari.core.items import Kind, Trust, normalised
from recordari.core.text import terms
from recordari.errors import InvalidInput
from recordari.facts.rules.claims import claims_of
from recordari.facts.rules.conflict import name_different_things, say_as_much

SETTING = "proposals"
"""The key of a tenant's settings of its policy: `{"accept": ["merge"]}`."""
SAME_WORDS = 0.8  # part of the words of both that two texts share to say the same
UNUSED_FOR = timedelta(days=180)
DOUBTED_BELOW = 0.3


class ProposalKind(StrEnum):
    MERGE = "merge"
    RETIRE = "retire"
    PROMOTE = "promote"


class ProposalStatus(StrEnum):
    OPEN = "open"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    VOID = "void"
    UNDONE = "undone"


BY_POLICY = frozenset({ProposalKind.MERGE, ProposalKind.RETIRE})
"""Kinds that a policy may accept. Promotion is a review, so a person does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An item of a proposal, with its state when the proposal was made."""

    item_id: UUID
    tier: str
    sources: int
    confidence: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalSource:
    """What an item of a proposal was taken from."""

    __pydantic_config__ = ConfigDict(json_schema_extra=describe)

    item_id: UUID
    content: str | None
    """None after erasure."""
    event_time: datetime
    session_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalItem:
    """An item of a proposal as a person who decides sees it."""

    __pydantic_config__ = ConfigDict(json_schema_extra=describe)

    item_id: UUID
    content: str | None
    """None after erasure."""
    ends: bool
    """Whether accepting the proposal ends it."""
    sources: tuple[ProposalSource, ...]
    """What it was taken from, oldest first, at most five; a fact that was stated as such has none."""


EXPLANATIONS: Mapping[str, str] = {
    "same": "they say the same; the one with the best evidence stays",
    "doubted": "people marked it as wrong",
    "unused": "it was neither said nor recalled for half a year",
    "contradicted": "a newer statement contradicts it",
    "carrier": "it came by a tool, a document or a stranger, and lasts only after a review",
    "uncorroborated": "only one source says it; it lasts only after a review",
}
"""The rule of a proposal in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change of memory that waits for a decision, or had one."""

    __pydantic_config__ = ConfigDict(json_schema_extra=describe)

    proposal_id: UUID
    kind: ProposalKind
    status: ProposalStatus
    rule: str
    """Why: `same`, `doubted`, `unused`, `contradicted`, `carrier` or `uncorroborated`."""
    item_ids: tuple[UUID, ...]
    """The items that end, or become persistent."""
    successor_id: UUID | None
    """The item that takes their place."""
    proposed_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None
    explanation: str = ""
    """The rule in words."""
    items: tuple[ProposalItem, ...] = ()
    """The texts of all items and what they were taken from; those that end come first."""

    @property
    def inputs(self) -> set[UUID]:
        return _inputs(self.item_ids, self.successor_id)


def explained(proposal: Proposal, contents: Mapping[UUID, tuple[str | None, Sequence[ProposalSource]]]) -> Proposal:
    """A proposal with its rule in words and the texts of its items."""
    ids = [*proposal.item_ids, *([proposal.successor_id] if proposal.successor_id is not None else [])]
    items = []
    for item_id in ids:
        content, sources = contents.get(item_id, (None, ()))
        ends = proposal.kind is not ProposalKind.PROMOTE and item_id != proposal.successor_id
        items.append(ProposalItem(item_id=item_id, content=content, ends=ends, sources=tuple(sources)))
    return replace(proposal, explanation=EXPLANATIONS.get(proposal.rule, proposal.rule), items=tuple(items))


def _inputs(item_ids: Collection[UUID], successor_id: UUID | None) -> set[UUID]:
    return {*item_ids, *([successor_id] if successor_id is not None else [])}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProposal:
    kind: ProposalKind
    rule: str
    item_ids: tuple[UUID, ...]
    successor_id: UUID | None = None
    needs_person: bool = False
    """No policy may accept it: text from an untrusted carrier would end what a person said."""

    @property
    def inputs(self) -> set[UUID]:
        return _inputs(self.item_ids, self.successor_id)

    @property
    def key(self) -> bytes:
        """The same key is not proposed again while it is open, nor after it was rejected."""
        return hashlib.sha256("\x1f".join([self.kind, *map(str, sorted(self.inputs))]).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedItem:
    """A fact or procedure as a review sees it."""

    item_id: UUID
    kind: Kind
    content: str
    trust: Trust
    valid_at: datetime
    created_at: datetime
    confidence: float | None
    sources: int
    accesses: int
    last_at: datetime | None
    useful: int
    wrong: int
    is_pinned: bool
    is_held: bool
    speaker: str | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputNow:
    """The present state of an input."""

    item_id: UUID
    live: bool
    is_pinned: bool
    is_held: bool
    tier: str
    sources: int
    confidence: float | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalPolicy:
    """The kinds of proposals that a tenant accepts at once."""

    __pydantic_config__ = ConfigDict(json_schema_serialization_defaults_required=True)

    accept: tuple[ProposalKind, ...] = ()

    def written(self) -> dict[str, Any]:
        return {"accept": list(self.accept)}


def checked_accept(kinds: Collection[str]) -> tuple[ProposalKind, ...]:
    """Check the kinds of a policy."""
    if isinstance(kinds, str) or any(kind not in BY_POLICY for kind in kinds):
        raise InvalidInput(f"accept can name {', '.join(sorted(BY_POLICY))}; a person promotes", field="accept")
    return tuple(sorted({ProposalKind(kind) for kind in kinds}))


def proposal_policy(settings: Mapping[str, Any]) -> ProposalPolicy:
    """Read the policy from a tenant's settings; an invalid one accepts nothing."""
    setting = settings.get(SETTING)
    accept = setting.get("accept") if isinstance(setting, dict) else None
    try:
        return ProposalPolicy(accept=checked_accept(accept) if isinstance(accept, list) else ())
    except (InvalidInput, TypeError):
        return ProposalPolicy()


_VALUE = re.compile(r"\d[\d.,:/-]*")
_NEGATION = re.compile(r"\b(?:not|never|no|longer|without|\w{2,10}n't|cannot)\b", re.IGNORECASE)


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts say the same in other words. Precise rather than eager, because one of them will end.

    Both must have the same numbers, negations and claims (where the rules recognise a claim), and neither may name
    something else instead: the judge's reading keeps the northern and the southern depot apart.
    """
    if sorted(_VALUE.findall(one)) != sorted(_VALUE.findall(other)):
        return False
    if len(_NEGATION.findall(one)) != len(_NEGATION.findall(other)):
        return False
    if normalised(one) == normalised(other):
        return True
    if say_as_much(one, other):
        return True
    if name_different_things(one, other):
        return False
    claims, other_claims = _claims(one), _claims(other)
    if claims and other_claims:
        return claims == other_claims
    words, other_words = set(terms(one)), set(terms(other))
    return bool(words) and len(words & other_words) >= SAME_WORDS * len(words | other_words)


def _claims(text: str) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(claim.subject, claim.predicate, tuple(terms(claim.object))) for claim in claims_of(text)}


def merge_of(item: ReviewedItem, others: Sequence[ReviewedItem]) -> NewProposal | None:
    """Propose to merge items that say the same: the one with the best evidence stays, the others end.

    A wish is kept as a fact and as a procedure, and shown once; these two are not merged.
    """
    alike = (other for other in others if other.kind is item.kind)
    same = [item, *(other for other in alike if says_the_same(item.content, other.content))]
    if len(same) < 2:
        return None
    best = max(
        same, key=lambda each: (each.is_pinned, _is_trusted(each), each.sources, len(each.content), each.item_id)
    )
    ended = tuple(sorted(each.item_id for each in same if each is not best and not each.is_pinned))
    if not ended:
        return None
    return NewProposal(kind=ProposalKind.MERGE, rule="same", item_ids=ended, successor_id=best.item_id)


def _is_trusted(item: ReviewedItem) -> bool:
    """Whether a person or their agent stated it."""
    return item.trust in {Trust.USER, Trust.AGENT}


def retirement_of(item: ReviewedItem, *, now: datetime) -> NewProposal | None:
    """Propose to retire an item that people found wrong, or that was neither said nor recalled for half a year."""
    if item.is_pinned or item.is_held:
        return None
    if item.wrong > item.useful and (item.confidence or 0.0) < DOUBTED_BELOW:
        return NewProposal(kind=ProposalKind.RETIRE, rule="doubted", item_ids=(item.item_id,))
    touched = max(filter(None, (item.created_at, item.valid_at, item.last_at)))
    if now - touched > UNUSED_FOR and item.sources < 2 and item.useful == 0:
        return NewProposal(kind=ProposalKind.RETIRE, rule="unused", item_ids=(item.item_id,))
    return None


def contradiction_of(older: ReviewedItem, newer: ReviewedItem) -> NewProposal | None:
    """Propose to retire an item that a newer one contradicts while both are live."""
    if older.is_pinned or older.is_held:
        return None
    return NewProposal(
        kind=ProposalKind.RETIRE,
        rule="contradicted",
        item_ids=(older.item_id,),
        successor_id=newer.item_id,
        needs_person=_is_trusted(newer) < _is_trusted(older),
    )


def changed(proposal: Proposal, before: Sequence[Input], now: Sequence[InputNow]) -> str | None:
    """Why a proposal is void: an input changed. None while all inputs are unchanged."""
    states = {state.item_id: state for state in now}
    if proposal.inputs - {item.item_id for item in before}:
        return "an item was removed"
    for item in before:
        state = states.get(item.item_id)
        if state is None or not state.live:
            return "an item has ended"
        ends = proposal.kind is not ProposalKind.PROMOTE and item.item_id in proposal.item_ids
        if ends and (state.is_pinned or state.is_held):
            return "an item was pinned, or an action rests on it"
        if state.tier != item.tier:
            return "an item has another tier"
        if state.sources != item.sources:
            return "an item was said again, or a source of it was forgotten"
        if state.confidence != item.confidence:
            return "an item got feedback"
        if proposal.rule == "unused" and state.last_at is not None and state.last_at > proposal.proposed_at:
            return "an item was recalled"
    return None
