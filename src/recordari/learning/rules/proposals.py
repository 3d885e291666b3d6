"""Proposals: changes that consolidation would make, and what must hold for them still to be made (X5).

A proposal names its inputs and how each stood when it was made. Nothing happens to them before it is accepted; and where one
of them changed meanwhile, the proposal is void, because it was made about something else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import ConfigDict

from recordari.core.items import Trust, normalised
from recordari.core.text import terms
from recordari.errors import InvalidInput
from recordari.facts.rules.claims import claims_of

SETTING = "proposals"
"""The key of a tenant's settings of its policy: `{"accept": ["merge"]}`."""
SAME_WORDS = 0.8  # part of the words of both that two texts share to say the same
UNUSED_FOR = timedelta(days=180)
DOUBTED_BELOW = 0.3


class ProposalKind(StrEnum):
    """What is proposed."""

    MERGE = "merge"
    RETIRE = "retire"
    PROMOTE = "promote"


class ProposalStatus(StrEnum):
    """What became of a proposal."""

    OPEN = "open"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    VOID = "void"
    UNDONE = "undone"


BY_POLICY = frozenset({ProposalKind.MERGE, ProposalKind.RETIRE})
"""What a tenant may have accepted by itself. Promotion is a review: a person does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One item that a proposal is about, as it stood."""

    item_id: UUID
    tier: str
    sources: int
    confidence: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change that waits for a decision, or had it."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)

    proposal_id: UUID
    kind: ProposalKind
    status: ProposalStatus
    rule: str
    """Why: `same`, `doubted`, `unused`, `contradicted`, `carrier` or `uncorroborated`."""
    item_ids: tuple[UUID, ...]
    """What ends, or lasts, by it."""
    successor_id: UUID | None
    """What stays in the place of what ends."""
    proposed_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProposal:
    """A proposal to be made."""

    kind: ProposalKind
    rule: str
    item_ids: tuple[UUID, ...]
    successor_id: UUID | None = None
    needs_person: bool = False
    """Whether no policy may accept it: text from an untrusted carrier would end what a person said."""

    @property
    def key(self) -> bytes:
        """What it is about: the same again is not proposed while it is open, nor after it was refused."""
        inputs = sorted({*self.item_ids, *([self.successor_id] if self.successor_id else [])})
        return hashlib.sha256("\x1f".join([self.kind, *map(str, inputs)]).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedItem:
    """A fact or procedure as it is weighed against others."""

    item_id: UUID
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
    """How an input stands now."""

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
    """Which proposals a tenant accepts by itself."""

    __pydantic_config__ = ConfigDict(json_schema_serialization_defaults_required=True)

    accept: tuple[ProposalKind, ...] = ()

    def written(self) -> dict[str, Any]:
        """The policy as it stands in a tenant's settings."""
        return {"accept": list(self.accept)}


def checked_accept(kinds: Collection[str]) -> tuple[ProposalKind, ...]:
    """The kinds that a policy may name, or an error that says which."""
    if isinstance(kinds, str) or any(kind not in BY_POLICY for kind in kinds):
        raise InvalidInput(f"accept can name {', '.join(sorted(BY_POLICY))}; a person promotes", field="accept")
    return tuple(sorted({ProposalKind(kind) for kind in kinds}))


def proposal_policy(settings: Mapping[str, Any]) -> ProposalPolicy:
    """Read the policy from a tenant's settings; what makes no sense accepts nothing."""
    given = settings.get(SETTING)
    accept = given.get("accept") if isinstance(given, dict) else None
    try:
        return ProposalPolicy(accept=checked_accept(accept) if isinstance(accept, list) else ())
    except (InvalidInput, TypeError):
        return ProposalPolicy()


_VALUE = re.compile(r"\d[\d.,:/-]*")
_NEGATION = re.compile(r"\b(?:not|never|no|longer|without|\w{2,10}n't|cannot)\b", re.IGNORECASE)


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts say the same in other words; precise rather than eager, since one of them will end.

    Every number and every negation must be in both, and so must what they claim, where the rules know it.
    """
    if sorted(_VALUE.findall(one)) != sorted(_VALUE.findall(other)):
        return False
    if len(_NEGATION.findall(one)) != len(_NEGATION.findall(other)):
        return False
    if normalised(one) == normalised(other):
        return True
    claimed, also = _claims(one), _claims(other)
    if claimed and also:
        return claimed == also
    mine, theirs = set(terms(one)), set(terms(other))
    return bool(mine) and len(mine & theirs) >= SAME_WORDS * len(mine | theirs)


def _claims(text: str) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(claim.subject, claim.predicate, tuple(terms(claim.object))) for claim in claims_of(text)}


def merge_of(one: ReviewedItem, others: Sequence[ReviewedItem]) -> NewProposal | None:
    """The proposal to merge what says the same: the best borne out stays, the others end by it."""
    same = [one, *(other for other in others if says_the_same(one.content, other.content))]
    if len(same) < 2:
        return None
    kept = max(same, key=lambda each: (each.is_pinned, _carried(each), each.sources, len(each.content), each.item_id))
    ended = tuple(sorted(each.item_id for each in same if each is not kept and not each.is_pinned))
    if not ended:
        return None
    return NewProposal(kind=ProposalKind.MERGE, rule="same", item_ids=ended, successor_id=kept.item_id)


def _carried(one: ReviewedItem) -> int:
    """What a person or their agent stated goes before what came by another carrier."""
    return 1 if one.trust in {Trust.USER, Trust.AGENT} else 0


def retirement_of(one: ReviewedItem, *, now: datetime) -> NewProposal | None:
    """The proposal to retire what people found wrong, or what nobody said or asked for in half a year."""
    if one.is_pinned or one.is_held:
        return None
    if one.wrong > one.useful and (one.confidence or 0.0) < DOUBTED_BELOW:
        return NewProposal(kind=ProposalKind.RETIRE, rule="doubted", item_ids=(one.item_id,))
    touched = max(filter(None, (one.created_at, one.valid_at, one.last_at)))
    if now - touched > UNUSED_FOR and one.sources < 2 and one.useful == 0:
        return NewProposal(kind=ProposalKind.RETIRE, rule="unused", item_ids=(one.item_id,))
    return None


def contradiction_of(older: ReviewedItem, newer: ReviewedItem) -> NewProposal | None:
    """The proposal to retire what a newer statement contradicts although both still stand."""
    if older.is_pinned or older.is_held:
        return None
    return NewProposal(
        kind=ProposalKind.RETIRE,
        rule="contradicted",
        item_ids=(older.item_id,),
        successor_id=newer.item_id,
        needs_person=_carried(newer) < _carried(older),
    )


def changed(proposal: Proposal, before: Sequence[Input], now: Sequence[InputNow]) -> str | None:
    """Why a proposal is void: which of its inputs changed, and how; None while all stand as they did."""
    standing = {one.item_id: one for one in now}
    wanted = {*proposal.item_ids, *([proposal.successor_id] if proposal.successor_id else [])}
    if wanted - {one.item_id for one in before}:
        return "an item was removed"
    for one in before:
        found = standing.get(one.item_id)
        if found is None or not found.live:
            return "an item has ended"
        ends = proposal.kind is not ProposalKind.PROMOTE and one.item_id in proposal.item_ids
        if ends and (found.is_pinned or found.is_held):
            return "an item was pinned, or an action rests on it"
        if found.tier != one.tier:
            return "an item has another tier"
        if found.sources != one.sources:
            return "an item was said again, or a source of it was forgotten"
        if found.confidence != one.confidence:
            return "people spoke about an item"
        used = found.last_at is not None and found.last_at > proposal.proposed_at
        if proposal.rule == "unused" and used:
            return "an item was recalled"
    return None
