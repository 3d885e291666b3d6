"""Rows of items and their payloads: written, replaced, read, ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

import numpy as np
from psycopg.types.json import Jsonb

from recordari.core.frozen import quickly_made
from recordari.core.identity import Identity, Owner, Role, Scope, SessionId
from recordari.core.ids import new_id
from recordari.core.items import EXTRACT_TOPIC, KINDS, WRITTEN_COLUMNS, Item, Kind, Prepared
from recordari.core.text import tsquery_literal
from recordari.db.database import BatchedQuery, Database, Transaction
from recordari.db.pipeline import array_literal
from recordari.db.queries import Queries, Record, delegated, reader
from recordari.memory.rules import SETTING, Entity, Extraction, Indexed, Retirement

queries = Queries(__name__)

# What a recall or a context asks each time.
_COLLECTION = delegated(queries.collection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The vector and the entities of an item, with the message on which they depend."""

    model_id: str
    embedding: np.ndarray
    entities: Sequence[Entity]
    previous_id: UUID | None = None
    """The message whose head was embedded with it."""
    previous_hash: bytes | None = None
    following: str | None = None
    """The topic of the next work on it."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    item_id: UUID
    item: Prepared
    indexed: Indexed
    thread: str | None
    source_id: UUID | None = None
    masked: Mapping[str, int] = field(default_factory=dict)
    meaning: Meaning | None = None
    """None: the worker makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The row of a kind and a `source_ref` of an owner, and who sees it."""

    owned_by: str
    kind: str
    source_ref: str
    item_id: UUID
    content_hash: bytes
    scope: str
    user_id: str | None
    agent_id: str | None
    session_id: str | None

    def belongs_to(self, item: Prepared, *, line: Sequence[SessionId] = ()) -> bool:
        """Whether the same people see the row as a new item with the same key.

        `line` are the sessions that the item's session continues: a message may come again after its session was closed.
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
    """The whole body behind a preview: in the row, or in the object store."""

    payload_key: str
    item_id: UUID
    media_type: str
    size: int
    body: bytes | None
    object_key: str | None


async def insert_items(tx: Transaction, rows: Sequence[Row], *, topic: str | None) -> dict[UUID, str | None]:
    """Write the rows whose keys are new. Return their ids, each with the topic of its next work.

    A row without a meaning, or with one that does not hold, gets an outbox entry of the topic. Where `names_are_apart` says
    so, the caller saves the entities of the others.
    """
    if threads := [row.thread for row in rows if row.thread is not None]:
        await tx.run(queries.take_threads, threads=threads)
    values = insert_values(rows, topic=topic, has_names=not names_are_apart(rows))
    return dict(await tx.query_prepared(INSERT_ITEMS, **values))


NEW_ITEMS = queries.new_items.sql
INSERT_ITEMS = delegated(queries.insert_items.filled(new_items=NEW_ITEMS))


def names_are_apart(rows: Sequence[Row]) -> bool:
    """Whether some rows may be written by statements of their own. Then one more writes the entities of all: each new one is a
    lock, and all writers take these in one order."""
    return len(rows) > 1 and any(KINDS[row.item.kind].replaces for row in rows)


def insert_values(rows: Sequence[Row], *, topic: str | None, has_names: bool = True) -> dict[str, Any]:
    """The parameters of `new_items`."""
    meanings = [row.meaning for row in rows]
    meant = [meaning for meaning in meanings if meaning is not None]
    slots = iter(range(len(meant)))
    keys = [{entity.key: entity for entity in meaning.entities} for meaning in meant]
    entities: dict[str, Entity] = {}
    for key, entity in (pair for named in keys if has_names for pair in named.items()):
        entities.setdefault(key, entity)
    places = {key: place for place, key in enumerate(entities, start=1)}
    return {
        **{name: [read(row) for row in rows] for name, read in _READERS.items()},
        "slots": [next(slots) if meaning is not None else None for meaning in meanings],
        "previous_ids": [meaning.previous_id if meaning is not None else None for meaning in meanings],
        "previous_hashes": [meaning.previous_hash if meaning is not None else None for meaning in meanings],
        "followings": [meaning.following if meaning is not None else None for meaning in meanings],
        "model_id": meant[0].model_id if meant else None,
        "dimensions": len(meant[0].embedding) if meant else None,
        "embeddings": np.stack([meaning.embedding for meaning in meant]) if meant else None,
        "names": [array_literal(list(named)) for named in keys],
        "places": [array_literal([places[key] for key in named]) if has_names else "{}" for named in keys],
        **entity_columns(list(entities.values())),
        "topic": topic,
        "optional": EXTRACT_TOPIC,
        "unless": _EXTRACTION_OFF,
    }


_EXTRACTION_OFF = Jsonb({SETTING: Extraction.OFF})


async def insert_alone(database: Database, identity: Identity, row: Row, *, topic: str) -> tuple[bool, str | None]:
    """Write one row in a transaction of its own. Return whether it was written, and the topic of the next work on it.

    False: its key exists, and nothing is changed.
    """
    values = insert_values([row], topic=topic)
    (written,) = await database.pipeline(identity, INSERT_ITEMS, values, thread=row.thread)
    return bool(written), written[0][1] if written else None


def entity_columns(entities: Sequence[Entity]) -> dict[str, list[Any]]:
    return {
        "entity_ids": [new_id() for _ in entities],
        "entity_kinds": [str(entity.kind) for entity in entities],
        "entity_names": [entity.name for entity in entities],
        "entity_keys": [entity.key for entity in entities],
    }


def written_values(row: Row) -> dict[str, Any]:
    return {name: read(row) for name, read in _READERS.items()}


_OF_ITEM = {column.name for column in fields(Prepared)}
_OF_INDEX = {column.name for column in fields(Indexed)}


def _reader(name: str) -> Callable[[Row], Any]:
    if name in _OF_ITEM:
        return attrgetter(f"item.{name}")
    return attrgetter(f"indexed.{name}" if name in _OF_INDEX else name)


_READERS = {name: _reader(name) for name in WRITTEN_COLUMNS} | {
    "metadata": lambda row: Jsonb(row.item.metadata),
    "masked": lambda row: Jsonb(dict(row.masked)) if row.masked else None,
}


async def find_keys(tx: Transaction, items: Sequence[Prepared]) -> dict[tuple[str, str, str], Key]:
    """The rows of the same keys, by owner, kind and reference."""
    kinds, source_refs = [str(item.kind) for item in items], [item.source_ref for item in items]
    owners = [item.owned_by for item in items]
    keys = await tx.all(queries.find_keys, Key, owners=owners, kinds=kinds, source_refs=source_refs)
    return {(key.owned_by, key.kind, key.source_ref): key for key in keys}


async def replace_item(tx: Transaction, item_id: UUID, row: Row, *, topic: str | None) -> str | None:
    """Give a row another text. Return the topic of the next work on it: the given one, unless the row has its meaning.

    Of its entities, the caller saves those that it did not mention before.
    """
    meaning = row.meaning
    replaced = await tx.query_prepared(
        queries.replace_item,
        **written_values(row) | {"item_id": item_id},
        model_id=meaning.model_id if meaning is not None else None,
        embedding=meaning.embedding if meaning is not None else None,
        following=meaning.following if meaning is not None else None,
        topic=topic,
        entity_keys=[entity.key for entity in meaning.entities] if meaning is not None else [],
    )
    return replaced[0][0] if replaced else None


async def find_item(tx: Transaction, item_id: UUID) -> Item | None:
    return await tx.maybe(queries.find_item, Item, item_id=item_id)


async def find_items(tx: Transaction, item_ids: Sequence[UUID]) -> dict[UUID, Item]:
    items = await tx.all(queries.find_items, Item, item_ids=list(item_ids))
    return {item.item_id: item for item in items}


def ask_items(item_ids: Sequence[UUID]) -> BatchedQuery[dict[UUID, Item]]:
    read = reader(Item)
    return BatchedQuery(
        queries.find_items, lambda rows: {row["item_id"]: read(**row) for row in rows}, item_ids=list(item_ids)
    )


async def insert_payload(
    tx: Transaction,
    item_id: UUID,
    payload_key: str,
    *,
    size: int,
    sha256: bytes,
    media_type: str,
    body: bytes | None,
    object_key: str | None,
) -> None:
    await tx.run(
        queries.insert_payload,
        item_id=item_id,
        payload_key=payload_key,
        bytes=size,
        sha256=sha256,
        media_type=media_type,
        body=body,
        object_key=object_key,
    )


async def find_payload(tx: Transaction, payload_key: str, *, session_ids: Sequence[SessionId]) -> Payload | None:
    """A body that the identity of the transaction may see in these sessions."""
    caller = tx.identity
    return await tx.maybe(
        queries.find_payload,
        Payload,
        payload_key=payload_key,
        user_id=caller.user_id,
        agent_id=caller.agent_id,
        owned_by=caller.owned_by,
        session_ids=list(session_ids),
        is_admin=caller.role is Role.ADMIN,
    )


MOST_IN_LINE = 200


async def line_of(tx: Transaction, owner: Owner, session_id: SessionId | None) -> list[SessionId]:
    """The sessions that share memory with an owner's session: those it continues, and those that continue it."""
    if session_id is None:
        return []
    rows = await tx.dicts(queries.line_of, owned_by=owner, session_id=session_id, limit=MOST_IN_LINE)
    return [SessionId(row["session_id"]) for row in rows] or [session_id]


async def read_line(database: Database, identity: Identity) -> list[SessionId]:
    line = ask_line(identity)
    if line is None:
        return []
    await database.read_batch(identity, [line])
    return line.answer


def ask_line(identity: Identity) -> BatchedQuery[list[SessionId]] | None:
    """The same for `read_batch`; None without a session."""
    session_id = identity.session_id
    if session_id is None:
        return None

    def read(rows: list[Record]) -> list[SessionId]:
        return [SessionId(row["session_id"]) for row in rows] or [session_id]

    return BatchedQuery(queries.line_of, read, owned_by=identity.owned_by, session_id=session_id, limit=MOST_IN_LINE)


async def discard_object(tx: Transaction, object_key: str | None) -> None:
    """Let the daily job remove an object that no row points to."""
    if object_key is not None:
        await tx.run(queries.discard_object, object_key=object_key)


async def find_buried(tx: Transaction, item: Prepared) -> UUID | None:
    """The id of the redacted row, when the item was forgotten."""
    names = ("kind", "source_ref", "scope", "user_id", "agent_id", "session_id")
    columns = {name: getattr(item, name) for name in names} | {
        "event_time": item.event_time.isoformat(),
        "content_hash": "\\x" + item.content_hash.hex(),
    }
    buried_id: UUID | None = await tx.value(queries.find_buried, item=Jsonb(columns))
    return buried_id


FREQUENCY_CAP = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionCounts:
    """The number of live items, the number without repetitions, the mean length of these in terms, and of passages."""

    items: int
    distinct_items: int
    mean_length: float
    passages: int


def ask_collection(*, most: int) -> BatchedQuery[CollectionCounts]:
    """Count the items one by one, at most so many."""
    return BatchedQuery(_COLLECTION, lambda rows: CollectionCounts(**rows[0]), most=most)


def ask_written_count() -> BatchedQuery[int]:
    return BatchedQuery(queries.written_count, lambda rows: int(rows[0]["items"]))


async def document_frequencies(database: Database, identity: Identity, terms: Sequence[str]) -> dict[str, int]:
    asked = BatchedQuery(
        queries.document_frequencies,
        lambda rows: {term: int(row["frequency"]) for term, row in zip(terms, rows, strict=True)},
        queries=[tsquery_literal([term]) for term in terms],
        cap=FREQUENCY_CAP,
    )
    await database.read_batch(identity, [asked])
    return asked.answer


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
    """The state of a row, which nobody else changes until the transaction ends."""

    item_id: UUID
    holds: bool
    """Neither ended nor forgotten; it may be archived."""
    valid_at: datetime
    invalid_at: datetime | None
    superseded_by: UUID | None
    is_pinned: bool
    is_forgotten: bool


async def fact_states(
    tx: Transaction, refs: Sequence[tuple[Owner, str]], *, kind: Kind = Kind.FACT
) -> dict[str, FactState]:
    """The states of items by reference, each of its owner."""
    owners, source_refs = [owner for owner, _ in refs], [ref for _, ref in refs]
    states = await tx.all(queries.fact_states, FactState, kind=kind, owners=owners, source_refs=source_refs)
    return {state.source_ref: state for state in states}


async def set_aside(tx: Transaction, ended: Sequence[FactState]) -> None:
    """Let ended rows give up their references, unless they did meanwhile."""
    item_ids, source_refs = [fact.item_id for fact in ended], [fact.source_ref for fact in ended]
    await tx.run(queries.set_aside, item_ids=item_ids, source_refs=source_refs)


async def set_ref(tx: Transaction, item_id: UUID, source_ref: str) -> None:
    await tx.run(queries.set_ref, item_id=item_id, source_ref=source_ref)


async def lock_items(tx: Transaction, item_ids: Sequence[UUID]) -> dict[UUID, Locked]:
    rows = await tx.all(queries.lock_items, Locked, item_ids=list(item_ids))
    return {row.item_id: row for row in rows}


async def end_items(tx: Transaction, retirements: Sequence[Retirement]) -> None:
    await tx.run(
        queries.end_items,
        item_ids=[retirement.item_id for retirement in retirements],
        successors=[retirement.superseded_by for retirement in retirements],
        moments=[retirement.invalid_at for retirement in retirements],
    )


async def end_item(tx: Transaction, item_id: UUID, moment: datetime) -> None:
    await tx.run(queries.end_items, item_ids=[item_id], successors=[None], moments=[moment])


async def revive_item(tx: Transaction, item_id: UUID) -> None:
    await tx.run(queries.revive_item, item_id=item_id)


async def affirm_fact(tx: Transaction, item_id: UUID, item: Prepared) -> None:
    await tx.run(
        queries.affirm_fact,
        item_id=item_id,
        subject=item.subject,
        predicate=item.predicate,
        object=item.object,
        category=item.category,
    )


async def unarchive_items(tx: Transaction, item_ids: Sequence[UUID]) -> None:
    await tx.run(queries.unarchive_items, item_ids=list(item_ids))


async def history(tx: Transaction, item_id: UUID) -> list[Item]:
    return await tx.all(queries.history, Item, item_id=item_id, limit=MOST_VERSIONS)
