"""Rows of items: written, replaced, read, ended; and their payloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any
from uuid import UUID

import numpy as np
from psycopg.types.json import Jsonb

from recordari.core.identity import Identity, Role, Scope, SessionId
from recordari.core.ids import new_id
from recordari.core.items import WRITTEN_COLUMNS, Item, Kind, Prepared
from recordari.core.text import tsquery_literal
from recordari.db.database import BatchedQuery, Database, Transaction
from recordari.db.pipeline import Part
from recordari.db.queries import Queries
from recordari.memory.rules import Entity, Indexed, Retirement

queries = Queries(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    item_id: UUID
    item: Prepared
    indexed: Indexed
    thread: str | None
    source_id: UUID | None = None
    masked: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What stands behind a key."""

    kind: str
    source_ref: str
    item_id: UUID
    content_hash: bytes
    scope: str
    user_id: str | None
    agent_id: str | None
    session_id: str | None

    def belongs_to(self, item: Prepared, *, line: Sequence[SessionId] = ()) -> bool:
        """Whether the row has the same owner as an item that would be written under its key.

        `line` are sessions that go on in the item's: a message may come again after its session was closed.
        """
        owner = {
            Scope.USER: self.user_id == item.user_id,
            Scope.AGENT: self.agent_id == item.agent_id,
            Scope.SESSION: item.session_id == self.session_id
            or (item.user_id is not None and item.user_id == self.user_id)
            or self.session_id in line,
        }
        return self.scope == item.scope and owner.get(item.scope, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """The whole body behind an elided item: inside the row, or in the object store."""

    payload_key: str
    item_id: UUID
    media_type: str
    size: int
    body: bytes | None
    object_key: str | None


async def insert_items(tx: Transaction, rows: Sequence[Row], *, topic: str) -> set[UUID]:
    """Write the rows whose keys are new, ask for work of the topic on them, and say which those were."""
    if threads := [row.thread for row in rows if row.thread is not None]:
        await tx.run(queries.take_threads, threads=threads)
    values = [written_values(row) for row in rows]
    columns = {name: [one[name] for one in values] for name in WRITTEN_COLUMNS}
    inserted = await tx.query_prepared(queries.insert_items, topic=topic, **columns)
    return {item_id for (item_id,) in inserted}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What is derived from an item's text in time to be written with it, and what it was derived under."""

    model_id: str
    embedding: np.ndarray
    entities: Sequence[Entity]
    previous_id: UUID | None
    """The message whose head was embedded with it."""
    previous_hash: bytes | None
    following: str | None
    """The topic of what is to be done with it next."""
    unless: Mapping[str, str] | None
    """The tenant's settings under which that is not wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """How an item was written: whether it can be found by meaning, and the topic that waits for it."""

    is_embedded: bool
    topic: str | None


async def insert_alone(
    database: Database, identity: Identity, row: Row, *, topic: str, meaning: Callable[[], Meaning | None]
) -> Written | None:
    """Write one row in a transaction of its own; None, and nothing is changed, when its key exists.

    Its meaning is made while the database is at work on the row. If it does not hold, it is not written, and work of the
    topic is asked for instead.
    """

    def following() -> Iterator[Part]:
        yield queries.insert_meaning, {"item_id": row.item_id, "topic": topic, **_derived(meaning())}

    written = await database.pipeline(identity, queries.insert_alone, written_values(row), following, thread=row.thread)
    if not written:
        return None
    ((next_topic, is_embedded),) = written
    return Written(is_embedded=is_embedded, topic=next_topic if is_embedded else topic)


def _derived(meaning: Meaning | None) -> dict[str, Any]:
    if meaning is None:
        return dict.fromkeys(_DERIVED)
    named = sorted(meaning.entities, key=lambda entity: entity.key)  # one order for all writers: no deadlock
    return {
        "model_id": meaning.model_id,
        "embedding": meaning.embedding,
        "previous_id": meaning.previous_id,
        "previous_hash": meaning.previous_hash,
        "following": meaning.following,
        "unless": Jsonb(meaning.unless) if meaning.unless is not None else None,
        "entity_ids": [new_id() for _ in named],
        "entity_kinds": [str(entity.kind) for entity in named],
        "entity_names": [entity.name for entity in named],
        "entity_keys": [entity.key for entity in named],
    }


_DERIVED = (
    "model_id", "embedding", "previous_id", "previous_hash", "following", "unless",
    "entity_ids", "entity_kinds", "entity_names", "entity_keys",
)  # fmt: skip


def written_values(row: Row) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, StrEnum) else value
        for name, value in ((name, read(row)) for name, read in _READERS.items())
    }


def _counts(row: Row) -> Jsonb | None:
    return Jsonb(dict(row.masked)) if row.masked else None


_OF_ITEM = {column.name for column in fields(Prepared)}
_OF_INDEX = {column.name for column in fields(Indexed)}


def _reader(name: str) -> Callable[[Row], Any]:
    if name in _OF_ITEM:
        return attrgetter(f"item.{name}")
    return attrgetter(f"indexed.{name}" if name in _OF_INDEX else name)


_READERS = {name: _reader(name) for name in WRITTEN_COLUMNS} | {
    "metadata": lambda row: Jsonb(row.item.metadata),
    "masked": _counts,
}


async def find_keys(tx: Transaction, items: Sequence[Prepared]) -> dict[tuple[str, str], Key]:
    found = await tx.all(
        queries.find_keys,
        Key,
        kinds=[str(item.kind) for item in items],
        source_refs=[item.source_ref for item in items],
    )
    return {(key.kind, key.source_ref): key for key in found}


async def is_taken(tx: Transaction, item: Prepared) -> bool:
    """Whether the key of an item stands for a row already, also for one that the identity may not see."""
    await tx.run(queries.act_for_the_tenant)
    taken = await tx.value(queries.is_taken, kind=item.kind, source_ref=item.source_ref)
    await tx.run(queries.act_for_the_user)
    return bool(taken)


async def replace_item(tx: Transaction, item_id: UUID, row: Row) -> None:
    await tx.run(queries.replace_item, **written_values(row) | {"item_id": item_id})


async def find_item(tx: Transaction, item_id: UUID) -> Item | None:
    return await tx.maybe(queries.find_item, Item, item_id=item_id)


async def find_items(tx: Transaction, item_ids: Sequence[UUID]) -> dict[UUID, Item]:
    found = await tx.all(queries.find_items, Item, item_ids=list(item_ids))
    return {item.item_id: item for item in found}


def ask_items(item_ids: Sequence[UUID]) -> BatchedQuery[dict[UUID, Item]]:
    return BatchedQuery(
        queries.find_items, lambda rows: {row["item_id"]: Item(**row) for row in rows}, item_ids=list(item_ids)
    )


async def insert_payload(
    tx: Transaction,
    item_id: UUID,
    payload_key: str,
    *,
    size: int,
    sha256: bytes,
    body: bytes | None,
    object_key: str | None,
) -> None:
    await tx.run(
        queries.insert_payload,
        item_id=item_id,
        payload_key=payload_key,
        bytes=size,
        sha256=sha256,
        body=body,
        object_key=object_key,
    )


async def find_payload(tx: Transaction, payload_key: str, *, session_ids: Sequence[SessionId]) -> Payload | None:
    """A body that the identity of the transaction, at work in these sessions, may see."""
    who = tx.identity
    return await tx.maybe(
        queries.find_payload,
        Payload,
        payload_key=payload_key,
        user_id=who.user_id,
        agent_id=who.agent_id,
        session_ids=list(session_ids),
        is_admin=who.role is Role.ADMIN,
    )


MOST_IN_LINE = 200


def thread_of(session_id: SessionId) -> str:
    return f"session:{session_id}"


async def line_of(tx: Transaction, session_id: SessionId | None) -> list[SessionId]:
    """The sessions whose memory is one with that of a session: those it continues, and those that continue it."""
    if session_id is None:
        return []
    found = await tx.dicts(queries.line_of, session_id=session_id, limit=MOST_IN_LINE)
    return [SessionId(row["session_id"]) for row in found] or [session_id]


async def read_line(database: Database, identity: Identity) -> list[SessionId]:
    if identity.session_id is None:
        return []
    found = await database.execute(identity, queries.line_of, session_id=identity.session_id, limit=MOST_IN_LINE)
    return [SessionId(one) for (one,) in found] or [identity.session_id]


async def discard_object(tx: Transaction, object_key: str | None) -> None:
    """Note an object that no row points to, if there is one, for the daily job to remove."""
    if object_key is not None:
        await tx.run(queries.discard_object, object_key=object_key)


async def find_buried(tx: Transaction, item: Prepared) -> UUID | None:
    """The empty row of an item that was left out because it was forgotten."""
    known_by = {
        "kind": item.kind,
        "source_ref": item.source_ref,
        "scope": item.scope,
        "user_id": item.user_id,
        "agent_id": item.agent_id,
        "session_id": item.session_id,
        "event_time": item.event_time.isoformat(),
        "content_hash": "\\x" + item.content_hash.hex(),
    }
    found: UUID | None = await tx.value(queries.find_buried, item=Jsonb(known_by))
    return found


FREQUENCY_CAP = 20_000


def ask_collection() -> BatchedQuery[tuple[int, int, float]]:
    """How many live items the tenant has, how many of them repeat no other, and the mean length of these in terms."""
    return BatchedQuery(queries.collection, lambda rows: (rows[0]["items"], rows[0]["told"], rows[0]["mean_length"]))


async def document_frequencies(database: Database, identity: Identity, terms: Sequence[str]) -> dict[str, int]:
    asked = [tsquery_literal([term]) for term in terms]
    rows = await database.execute(identity, queries.document_frequencies, queries=asked, cap=FREQUENCY_CAP)
    return {term: found for term, (found,) in zip(terms, rows, strict=True)}


MOST_VERSIONS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FactState:
    source_ref: str
    item_id: UUID
    live: bool
    invalid_at: datetime | None
    superseded_by: UUID | None
    is_archived: bool
    is_forgotten: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A row that nobody else changes until the transaction ends."""

    item_id: UUID
    live: bool
    valid_at: datetime
    invalid_at: datetime | None
    superseded_by: UUID | None
    is_pinned: bool
    is_forgotten: bool


async def standing_of_refs(
    tx: Transaction, source_refs: Sequence[str], *, kind: Kind = Kind.FACT
) -> dict[str, FactState]:
    found = await tx.all(queries.standing_of_refs, FactState, kind=kind, source_refs=list(source_refs))
    return {one.source_ref: one for one in found}


async def set_aside(tx: Transaction, ended: Sequence[FactState]) -> None:
    """Let ended rows give up their references, unless they did meanwhile."""
    await tx.run(
        queries.set_aside, item_ids=[one.item_id for one in ended], source_refs=[one.source_ref for one in ended]
    )


async def set_ref(tx: Transaction, item_id: UUID, source_ref: str) -> None:
    await tx.run(queries.set_ref, item_id=item_id, source_ref=source_ref)


async def lock_items(tx: Transaction, item_ids: Sequence[UUID]) -> dict[UUID, Locked]:
    found = await tx.all(queries.lock_items, Locked, item_ids=list(item_ids))
    return {one.item_id: one for one in found}


async def end_items(tx: Transaction, retirements: Sequence[Retirement]) -> None:
    await tx.run(
        queries.end_items,
        item_ids=[one.item_id for one in retirements],
        successors=[one.superseded_by for one in retirements],
        moments=[one.invalid_at for one in retirements],
    )


async def end_item(tx: Transaction, item_id: UUID, moment: datetime) -> None:
    await tx.run(queries.end_items, item_ids=[item_id], successors=[None], moments=[moment])


async def revive_item(tx: Transaction, item_id: UUID) -> None:
    await tx.run(queries.revive_item, item_id=item_id)


async def unarchive_items(tx: Transaction, item_ids: Sequence[UUID]) -> None:
    await tx.run(queries.unarchive_items, item_ids=list(item_ids))


async def history(tx: Transaction, item_id: UUID) -> list[Item]:
    return await tx.all(queries.history, Item, item_id=item_id, limit=MOST_VERSIONS)
