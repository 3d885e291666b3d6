"""Remember items: one short transaction; everything slow is a job."""

from __future__ import annotations

import hashlib
from collections.abc import (
    AsyncIterator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Protocol, runtime_checkable
from uuid import UUID

from recordari.core.checks import TEXT_TYPE, Progress
from recordari.core.described import DESCRIBED, LEFT_OUT_IF_EMPTY
from recordari.core.identity import Identity, Role, Scope, checked_choice, optional_choice, owned_by, session_thread
from recordari.core.ids import new_id
from recordari.core.items import (
    KINDS,
    Kind,
    NewItem,
    Prepared,
    Tier,
    Trust,
    payload_key,
    prepared,
)
from recordari.db.database import Transaction
from recordari.errors import Conflict, InvalidInput, RecordariError
from recordari.kit.resources import Resources
from recordari.memory import storage, vector_storage
from recordari.memory.batches import News, kept_in_batches
from recordari.memory.index import EMBED_TOPIC, IMPORTED, derive, look_later, with_meanings
from recordari.memory.objects import Objects
from recordari.memory.rules import searched_text
from recordari.memory.storage import Key, Row
from recordari.memory.tenant_view import TenantViews
from recordari.memory.versions import free_reference, link_predecessor
from recordari.privacy.sanitise import sanitise_items
from recordari.tenants.usage import Usages

MAX_BATCH = 1_000
TAKEN = "this source_ref belongs to another item; use another one, or leave it out"
OBJECT_BYTES = 100 * 1024  # S4: a larger body goes to the object store


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The item of a text, and whether it is new."""

    __pydantic_config__ = DESCRIBED

    id: UUID
    was_new: bool
    """False: the item existed already."""
    source_ref: str
    payload_key: Annotated[str | None, LEFT_OUT_IF_EMPTY] = None
    """Where the whole text can be read (`read_tool_output`) when the item is a preview."""
    masked: Annotated[Mapping[str, int], LEFT_OUT_IF_EMPTY] = field(default_factory=dict)
    """How often each type of personal data and secrets was masked."""


@runtime_checkable
class Categoriser(Protocol):
    """Names the category of a fact."""

    def category(self, text: str) -> str | None:
        """None where the wording shows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Items that only need a transaction to be written."""

    rows: tuple[Row, ...]
    objects: dict[UUID, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a transaction wrote: the ids of items whose text is new, and the topics that have work after its commit."""

    item_ids: list[UUID] = field(default_factory=list)
    topics: frozenset[str] = frozenset()

    def __or__(self, other: Written) -> Written:
        return Written(item_ids=self.item_ids + other.item_ids, topics=self.topics | other.topics)

    def wake(self, resources: Resources) -> None:
        """Wake the workers; call it after the commit."""
        for topic in self.topics:
            resources.wake(topic)


async def remember(
    resources: Resources,
    identity: Identity,
    content: str,
    *,
    kind: Kind | str = Kind.CHAT_MESSAGE,
    scope: Scope | str | None = None,
    tier: Tier | str | None = None,
    source_ref: str | None = None,
    speaker: str | None = None,
    event_time: datetime | None = None,
    session_id: str | None = None,
    trust: Trust | str | None = None,
    subject: str | None = None,
    predicate: str | None = None,
    object: str | None = None,  # noqa: A002  # the column, the field and the JSON are called so
    confidence: float | None = None,
    category: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Remembered:
    """Keep one item; the same `source_ref` again is the same row. Defaults come from the kind and the identity."""
    return await _remember_one(**locals())


async def remember_fact(
    resources: Resources,
    identity: Identity,
    content: str,
    *,
    scope: Scope | str = Scope.USER,
    tier: Tier | str | None = None,
    source_ref: str | None = None,
    speaker: str | None = None,
    event_time: datetime | None = None,
    session_id: str | None = None,
    trust: Trust | str | None = None,
    subject: str | None = None,
    predicate: str | None = None,
    object: str | None = None,  # noqa: A002  # the column, the field and the JSON are called so
    confidence: float | None = None,
    category: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Remembered:
    """Keep a fact of a user or an agent across sessions; stating it again finds the same row.

    A fact that was retired meanwhile becomes current again, as a new version.
    """
    return await _remember_one(**locals(), kind=Kind.FACT)


async def _remember_one(
    resources: Resources,
    identity: Identity,
    content: str,
    *,
    kind: str,
    scope: str | None,
    tier: str | None,
    trust: str | None,
    metadata: Mapping[str, Any] | None,
    **others: Any,
) -> Remembered:
    """Both verbs pass their arguments, which are named like the fields of `NewItem`."""
    new = NewItem(
        content=content,
        kind=checked_choice("kind", Kind, kind),
        scope=optional_choice("scope", Scope, scope),
        tier=optional_choice("tier", Tier, tier),
        trust=optional_choice("trust", Trust, trust),
        metadata=dict(metadata or {}),
        **others,
    )
    (remembered,) = await remember_many(resources, identity, [new])
    return remembered


async def remember_many(resources: Resources, identity: Identity, items: Sequence[NewItem]) -> list[Remembered]:
    """Keep items in order, all of them or none."""
    if not items:
        return []
    with resources.telemetry.measured("remember"):
        return await _keep(resources, identity, await _prepare(resources, identity, items))


async def _prepare(
    resources: Resources, identity: Identity, items: Sequence[NewItem]
) -> tuple[Sequence[NewItem], Ready]:
    """The items, and all that is done before their transaction."""
    if len(items) > MAX_BATCH:
        raise InvalidInput(f"at most {MAX_BATCH} items at a time; send the rest in another call")
    for item in items:
        if (rule := KINDS.get(item.kind)) is not None and rule.verb is not None:
            raise InvalidInput(f"an item of kind {item.kind} is written by {rule.verb}", field="kind")
    ready = await make_ready(resources, identity, items)
    return items, replace(ready, rows=await with_meanings(resources, identity, ready.rows))


async def _keep(
    resources: Resources, identity: Identity, prepared: tuple[Sequence[NewItem], Ready]
) -> list[Remembered]:
    items, ready = prepared
    if len(ready.rows) == 1 and ready.rows[0].item.payload is None and not resources.database.is_joined:
        (row,) = ready.rows
        if await _write_alone(resources, identity, row):
            return [answer_for(row, row.item_id, was_new=True)]
    async with resources.database.transaction(identity) as tx:
        remembered, changes = await save_ready(tx, ready)
        # With a reference of the caller it may be a retry, and changes nothing.
        again = [
            index
            for index, (new, saved) in enumerate(zip(items, remembered, strict=True))
            if not saved.was_new and new.source_ref is None and new.kind == Kind.FACT
        ]
        if again:
            changes |= await _restate(tx, ready, remembered, again)
        if len(changes.item_ids) >= IMPORTED:
            await look_later(resources, tx)  # where vectors are written with the items, no other work does
    changes.wake(resources)
    return remembered


async def _write_alone(resources: Resources, identity: Identity, row: Row) -> bool:
    """Write a row in one statement; False when the long way is needed."""
    try:
        is_written, topic = await storage.insert_alone(resources.database, identity, row, topic=EMBED_TOPIC)
    except InvalidInput:
        return False  # the leak guard refuses it, but the same item may exist already
    if topic is not None:
        resources.wake(topic)
    return is_written


async def make_ready(
    resources: Resources,
    identity: Identity,
    news: Sequence[NewItem],
    *,
    bodies: Mapping[int, tuple[bytes, str]] | None = None,
) -> Ready:
    """Do everything that needs no transaction: sanitise, apply the rules, derive what is searched, store large bodies.

    An item of a thread has no meaning yet, which depends on the message before it: see `with_meanings`.

    `bodies` has the body and the media type of items that only describe them, by the index of the item.
    """
    now, is_admin = resources.clock(), identity.role is Role.ADMIN
    items, masked = [], []
    for index, clean in enumerate(await sanitise_items(resources, identity, news)):
        with _naming_item(index):
            if clean.problem is not None:
                raise clean.problem
            new = _categorised(resources, clean.new)
            item = prepared(new, identity, now=now, is_admin=is_admin)
            items.append(_with_body(item, *bodies[index]) if bodies and index in bodies else item)
            masked.append(clean.masked)
    size = sum(len(item.content) for item in items) + sum(len(body) for body, _ in (bodies or {}).values())
    await resources.get(Usages).admit(identity, items=len(items), size=size, now=now)
    rows = await _rows(resources, identity, items, masked)
    alone = iter(await with_meanings(resources, identity, [row for row in rows if row.thread is None]))
    meant = tuple(row if row.thread is not None else next(alone) for row in rows)
    return Ready(rows=meant, objects=await _store_large_bodies(resources, identity, rows))


def _categorised(resources: Resources, new: NewItem) -> NewItem:
    """A fact that names no category gets the one that its wording shows."""
    if new.kind != Kind.FACT or new.category is not None:
        return new
    return replace(new, category=resources.get(Categoriser).category(new.content))


def _with_body(item: Prepared, body: bytes, media_type: str) -> Prepared:
    """The item with a body of its own, which its content describes."""
    key = payload_key(item.owned_by, item.kind, item.source_ref)
    return replace(item, payload=body, payload_type=media_type, payload_key=key)


def with_source_ref(row: Row, source_ref: str) -> Row:
    """The row under another reference, which is known only inside the transaction."""
    key = payload_key(row.item.owned_by, row.item.kind, source_ref) if row.item.payload is not None else None
    return replace(row, item=replace(row.item, source_ref=source_ref, payload_key=key))


async def save_ready(
    tx: Transaction, ready: Ready, *, topic: str | None = EMBED_TOPIC
) -> tuple[list[Remembered], Written]:
    """Write items inside the caller's transaction. Return the answer for each, and what is to be woken after the commit.

    Items without a vector get an outbox entry of the topic; None: the caller has them embedded later.
    """
    rows, objects = ready.rows, ready.objects
    if not rows:
        return [], Written()
    changed = await storage.insert_items(tx, rows, topic=topic)
    inserted = set(changed)
    known = await storage.find_keys(tx, [row.item for row in rows]) if len(inserted) < len(rows) else {}
    remembered: list[Remembered] = []
    for index, row in enumerate(rows):
        item_id, was_new = row.item_id, row.item_id in inserted
        if not was_new:
            with _naming_item(index):
                key = known.get((row.item.owned_by, str(row.item.kind), row.item.source_ref))
                item_id, replaced = await _save_existing(tx, row, key, objects.get(row.item_id), topic=topic)
            # Its own id: a connection wrote it and was lost before it could answer.
            was_new = key is not None and item_id == row.item_id
            changed |= replaced
        if row.item.payload_key is not None and item_id in changed:
            await _save_body(tx, item_id, row, objects.get(row.item_id))
        remembered.append(answer_for(row, item_id, was_new=was_new))
    await save_names(tx, rows, changed, [saved.id for saved in remembered])
    topics = frozenset(topic for topic in changed.values() if topic is not None)
    return remembered, Written(item_ids=sorted(changed), topics=topics)


async def save_names(
    tx: Transaction, rows: Sequence[Row], written: Mapping[UUID, str | None], item_ids: Sequence[UUID]
) -> None:
    """Save the entities of rows that were written without them, all in one statement; `item_ids` are those of the rows."""
    is_apart = storage.names_are_apart(rows)
    named = [
        (item_id, entity)
        for row, item_id in zip(rows, item_ids, strict=True)
        if row.meaning is not None and written.get(item_id, EMBED_TOPIC) != EMBED_TOPIC
        if is_apart or item_id != row.item_id
        for entity in row.meaning.entities
    ]
    await vector_storage.save_entities(tx, named)


async def _restate(tx: Transaction, ready: Ready, remembered: list[Remembered], again: Sequence[int]) -> Written:
    """Make facts current again that ended since they were stated. Return the new versions."""
    items = [ready.rows[index].item for index in again]
    stated = [(item.source_ref, item.event_time) for item in items]
    known = await storage.fact_states(tx, [(item.owned_by, item.source_ref) for item in items])
    ended = await free_reference(tx, stated, known)
    new_indexes = [index for index in again if ready.rows[index].item.source_ref in ended]
    rows = tuple(ready.rows[index] for index in new_indexes)
    saved, changes = await save_ready(tx, Ready(rows=rows, objects=ready.objects))
    for index in again:
        # Another writer may have stated it again before its state was read.
        if (state := known.get(remembered[index].source_ref)) is not None:
            remembered[index] = replace(remembered[index], id=state.item_id)
    for index, version in zip(new_indexes, saved, strict=True):
        remembered[index] = version
        if version.was_new:
            await link_predecessor(tx, version.id, ended[version.source_ref])
    for index in again:
        if ready.rows[index].item.tier is Tier.PERSISTENT:
            await storage.affirm_fact(tx, remembered[index].id, ready.rows[index].item)
    await storage.unarchive_items(tx, [remembered[index].id for index in again])
    return changes


def import_items(
    resources: Resources, identity: Identity, items: News, *, total: int = 0, progress: Progress | None = None
) -> AsyncIterator[list[Remembered]]:
    """Keep any number of items, batch by batch; items that exist are skipped quickly.

    You can stop an import and start it again: nothing is kept twice. When an item is refused, the items before it are
    kept, and `index` of the error is its position.
    """

    async def keep(prepared: tuple[Sequence[NewItem], Ready]) -> list[Remembered]:
        with resources.telemetry.measured("remember"):
            return await _keep(resources, identity, prepared)

    return kept_in_batches(items, partial(_prepare, resources, identity), keep, total=total, progress=progress)


@contextmanager
def _naming_item(index: int) -> Iterator[None]:
    """Add the index of the item to an error."""
    try:
        yield
    except RecordariError as error:
        error.details["index"] = index
        raise


async def _rows(
    resources: Resources, identity: Identity, items: Sequence[Prepared], masked: Sequence[Mapping[str, int]]
) -> list[Row]:
    view = await resources.get(TenantViews).get(resources.database, identity)
    texts = [(searched_text(item.kind, item.content, item.metadata), item.speaker) for item in items]
    columns = await derive(resources, texts, language=view.language)
    threads = [
        session_thread(owned_by(item.user_id, item.agent_id), item.session_id)
        if KINDS[item.kind].is_threaded and item.session_id
        else None
        for item in items
    ]
    return [
        Row(item_id=new_id(), item=item, indexed=indexed, thread=thread, masked=counts)
        for item, indexed, thread, counts in zip(items, columns, threads, masked, strict=True)
    ]


async def _store_large_bodies(resources: Resources, identity: Identity, rows: Sequence[Row]) -> dict[UUID, str]:
    """Put bodies that are too large for a row into the object store. Return their keys."""
    return {
        row.item_id: await resources.get(Objects).put(
            row.item.payload, owner=f"{identity.tenant_id}/{row.item.payload_key}"
        )
        for row in rows
        if row.item.payload is not None and len(row.item.payload) > OBJECT_BYTES
    }


def answer_for(row: Row, item_id: UUID, *, was_new: bool) -> Remembered:
    return Remembered(
        id=item_id,
        was_new=was_new,
        source_ref=row.item.source_ref,
        payload_key=row.item.payload_key,
        masked=row.masked,
    )


async def _save_existing(
    tx: Transaction, row: Row, key: Key | None, object_key: str | None, *, topic: str | None
) -> tuple[UUID, dict[UUID, str | None]]:
    """Save an item whose key exists. Return the id of its row and, if its text was changed, the topic of its next work."""
    if key is None:
        # It was forgotten: its redacted row is left, or none when its user was erased.
        await storage.discard_object(tx, object_key)
        return await storage.find_buried(tx, row.item) or row.item_id, {}
    if not key.belongs_to(row.item):
        owner = owned_by(row.item.user_id, row.item.agent_id)
        line = await storage.line_of(tx, owner, row.item.session_id)
        if not key.belongs_to(row.item, line=line):
            raise Conflict(TAKEN, field="source_ref")
    if key.content_hash == row.item.content_hash:
        return key.item_id, {}
    if not KINDS[row.item.kind].replaces:
        message = f"source_ref {row.item.source_ref!r} belongs to another text; use another one, or leave it out"
        raise Conflict(message, field="source_ref")
    return key.item_id, {key.item_id: await storage.replace_item(tx, key.item_id, row, topic=topic)}


async def _save_body(tx: Transaction, item_id: UUID, row: Row, object_key: str | None) -> None:
    assert row.item.payload is not None and row.item.payload_key is not None
    body = row.item.payload
    await storage.insert_payload(
        tx,
        item_id,
        row.item.payload_key,
        size=len(body),
        sha256=hashlib.sha256(body).digest(),
        media_type=row.item.payload_type or TEXT_TYPE,
        body=None if object_key else body,
        object_key=object_key,
    )
