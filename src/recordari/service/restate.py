"""Stating again what had ended: the same words become current, and the line of versions shows every time.

The current version holds the reference made from its words, so that stating them finds it. A version that ended gives the
reference up when its words are stated again, with an `event_time` after its end: the new row takes it, and the old one goes
by a reference of its own. What had only faded comes back as it was. What is stated late, as of before the end, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recordari.core.items import Item, Kind
from recordari.db import audit
from recordari.db.database import Transaction
from recordari.domain.conflict import Retirement
from recordari.errors import Conflict
from recordari.storage import facts
from recordari.storage.facts import RefStanding


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """Words stated now: under which reference, and as of when."""

    source_ref: str
    event_time: datetime


async def make_way(
    tx: Transaction, stated: Sequence[Stated], known: Mapping[str, RefStanding]
) -> dict[str, RefStanding]:
    """Free the references of what ended before it is stated again; the ended rows by reference.

    What had only faded is brought back instead.
    """
    ended = {
        one.source_ref: found
        for one in stated
        if (found := known.get(one.source_ref)) is not None and is_ended_before(found, one.event_time)
    }
    faded = [
        found.item_id
        for one in stated
        if (found := known.get(one.source_ref)) is not None and found.is_archived and found.invalid_at is None
    ]
    if ended:
        await facts.lock_items(tx, sorted(found.item_id for found in ended.values()))
        await facts.set_aside(tx, list(ended.values()))
    if faded:
        await facts.unarchive_items(tx, faded)
    return ended


def is_ended_before(found: RefStanding, event_time: datetime) -> bool:
    """Whether a row ended, and words of that moment state it anew."""
    return not found.is_forgotten and found.invalid_at is not None and event_time > found.invalid_at


def name_aside(ended: RefStanding) -> str:
    """The reference of an ended row after it gave up the one of its words."""
    return f"{ended.source_ref}@{ended.item_id}"


async def follow(tx: Transaction, item_id: UUID, ended: RefStanding) -> None:
    """Note that a row states again what had ended; where nothing else followed the ended one, this one does."""
    if ended.superseded_by is None and ended.invalid_at is not None:
        again = Retirement(
            item_id=ended.item_id, superseded_by=item_id, invalid_at=ended.invalid_at, rule="stated again"
        )
        await facts.end_items(tx, [again])
    await audit.record(tx, "fact.restate", "item", item_id, follows=str(ended.item_id))


async def take_back(tx: Transaction, item: Item) -> None:
    """Let a row that is restored be found by its words again; `Conflict` while another one states them."""
    base = item.source_ref.removesuffix(f"@{item.item_id}")
    holder = (await facts.standing_of_refs(tx, [base], kind=Kind(item.kind))).get(base)
    if holder is None or holder.item_id == item.item_id:
        return
    if holder.live:
        raise Conflict("this was stated again, and is current already", contradicted_by=str(holder.item_id))
    await facts.set_aside(tx, [holder])
    await facts.set_ref(tx, item.item_id, base)
