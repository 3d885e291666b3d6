"""Remembering: one short transaction; everything slow is a job."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from recordari.core.cache import each
from recordari.core.checks import Progress
from recordari.core.described import DESCRIBED, LEFT_OUT_IF_EMPTY
from recordari.core.identity import Identity, Role, Scope, checked_choice, optional_choice
from recordari.core.ids import new_id
from recordari.core.items import (
    EXTRACT_TOPIC,
    KINDS,
    Kind,
    NewItem,
    Prepared,
    Tier,
    Trust,
    payload_key,
    prepared,
)
from recordari.db import outbox
from recordari.db.database import Transaction
from recordari.errors import Conflict, InvalidInput, RecordariError
from recordari.kit.resources import Resources
from recordari.memory import storage
from recordari.memory.index import EMBED_TOPIC, Threads, derive
from recordari.memory.objects import Objects
from recordari.memory.rules import SETTING, Extraction, embedded_text, entities_in, searched_text
from recordari.memory.storage import Key, Meaning, Row, thread_of
from recordari.memory.tenant_view import TenantViews
from recordari.memory.versions import Stated, free_reference, link_predecessor
from recordari.models.base import fail_open_now
from recordari.privacy.sanitise import sanitise_items
from recordari.tenants.usage import Usages

MAX_BATCH = 1_000
TAKEN = "this source_ref stands for another item already; use another one, or leave it out"
IMPORT_BATCH = 250
IMPORT_CHARACTERS = 4 * 2**20
OBJECT_BYTES = 100 * 1024  # S4: what is larger goes to the object store

News = Iterable[NewItem] | AsyncIterable[NewItem]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Which item holds what was said, and whether it is new."""

    __pydantic_config__ = DESCRIBED

    id: UUID
    was_new: bool
    """False: it was here already."""
    source_ref: str
    payload_key: Annotated[str | None, LEFT_OUT_IF_EMPTY] = None
    """Where the whole text can be read (`read_tool_output`) when the item is a preview."""
    masked: Annotated[Mapping[str, int], LEFT_OUT_IF_EMPTY] = field(default_factory=dict)
    """How often each type of personal data and secrets was taken out before it was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Items ready to be written: only the transaction is missing."""

    rows: tuple[Row, ...]
    objects: dict[UUID, str]


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
    """Keep one item; the same `source_ref` again is the same row. What is left out follows from the kind and the identity."""
    new = NewItem(
        content=content,
        kind=checked_choice("kind", Kind, kind),
        scope=optional_choice("scope", Scope, scope),
        tier=optional_choice("tier", Tier, tier),
        source_ref=source_ref,
        speaker=speaker,
        event_time=event_time,
        session_id=session_id,
        trust=optional_choice("trust", Trust, trust),
        subject=subject,
        predicate=predicate,
        object=object,
        confidence=confidence,
        category=category,
        metadata=dict(metadata or {}),
    )
    (remembered,) = await remember_many(resources, identity, [new])
    return remembered


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
    """Keep a fact for a user or an agent across sessions; stating it again finds the same row.

    One that was retired since becomes current again, as a new version.
    """
    return await remember(
        resources,
        identity,
        content,
        kind=Kind.FACT,
        scope=scope,
        tier=tier,
        source_ref=source_ref,
        speaker=speaker,
        event_time=event_time,
        session_id=session_id,
        trust=trust,
        subject=subject,
        predicate=predicate,
        object=object,
        confidence=confidence,
        category=category,
        metadata=metadata,
    )


async def remember_many(resources: Resources, identity: Identity, items: Sequence[NewItem]) -> list[Remembered]:
    """Keep items in the order given, all of them or none."""
    if not items:
        return []
    if len(items) > MAX_BATCH:
        raise InvalidInput(f"at most {MAX_BATCH} items at a time; send the rest in another call")
    with resources.telemetry.measured("remember"):
        ready = await make_ready(resources, identity, items)
        if len(ready.rows) == 1 and ready.rows[0].item.payload is None:
            (row,) = ready.rows
            if await _write_alone(resources, identity, row):
                return [_remembered(row, row.item_id, was_new=True)]
        async with resources.database.transaction(identity) as tx:
            remembered, changed = await save_ready(tx, ready)
            # What has a reference of the caller's own may be a retry, and is what it was.
            again = [
                place
                for place, (new, one) in enumerate(zip(items, remembered, strict=True))
                if not one.was_new and new.source_ref is None and new.kind == Kind.FACT
            ]
            if again:
                changed += await _restate(tx, ready, remembered, again)
        if changed:
            resources.wake(EMBED_TOPIC)
        return remembered


async def _write_alone(resources: Resources, identity: Identity, row: Row) -> bool:
    """Write a row in one round trip, with its meaning where that is quick; False when it must be looked at."""
    view = await resources.get(TenantViews).get(resources.database, identity)
    meaning = partial(meaning_of, resources, identity, row, model_id=view.model_id)
    try:
        written = await storage.insert_alone(resources.database, identity, row, topic=EMBED_TOPIC, meaning=meaning)
    except InvalidInput:
        return False  # the leak guard refuses it, which must not keep what stands there already from being found again
    if written is None:
        return False
    resources.get(Threads).note(identity.tenant_id, row)
    if written.topic is not None:
        resources.wake(written.topic)
    return True


async def make_ready(resources: Resources, identity: Identity, news: Sequence[NewItem]) -> Ready:
    """Do everything that needs no transaction: sanitise, apply the rules, derive index columns, store large bodies."""
    now, is_admin = resources.clock(), identity.role is Role.ADMIN
    items_to_keep, masked = [], []
    for index, clean in enumerate(await sanitise_items(resources, identity, news)):
        with _told_which(index):
            if clean.problem is not None:
                raise clean.problem
            items_to_keep.append(prepared(clean.new, identity, now=now, is_admin=is_admin))
            masked.append(clean.masked)
    await resources.get(Usages).admit(
        identity, items=len(items_to_keep), size=sum(len(item.content) for item in items_to_keep), now=now
    )
    rows = await _rows(resources, identity, items_to_keep, masked)
    return Ready(rows=tuple(rows), objects=await _large_bodies(resources, identity, rows))


def with_source_ref(row: Row, source_ref: str) -> Row:
    """The row under another reference, which is known only inside the transaction, and the key that follows from it."""
    key = payload_key(row.item.kind, source_ref) if row.item.payload is not None else None
    return replace(row, item=replace(row.item, source_ref=source_ref, payload_key=key))


async def save_ready(tx: Transaction, ready: Ready) -> tuple[list[Remembered], list[UUID]]:
    """Write what is ready inside the caller's transaction: the answer for each, and the ids whose text is new.

    Where there are such ids, the caller calls `resources.wake(EMBED_TOPIC)` once it has committed.
    """
    if not ready.rows:
        return [], []
    return await _save(tx, ready.rows, ready.objects)


async def _restate(tx: Transaction, ready: Ready, remembered: list[Remembered], again: Sequence[int]) -> list[UUID]:
    """Make current again what was stated before and has ended since; the ids of the new versions."""
    stated = [ready.rows[place].item for place in again]
    known = await storage.standing_of_refs(tx, [one.source_ref for one in stated])
    ended = await free_reference(
        tx, [Stated(source_ref=one.source_ref, event_time=one.event_time) for one in stated], known
    )
    chosen = [place for place in again if ready.rows[place].item.source_ref in ended]
    rows = tuple(ready.rows[place] for place in chosen)
    saved, changed = await save_ready(tx, Ready(rows=rows, objects=ready.objects))
    for place in again:
        # Another writer may have stated it anew between finding the ended row and asking how it stands.
        if (found := known.get(remembered[place].source_ref)) is not None:
            remembered[place] = replace(remembered[place], id=found.item_id)
    for place, one in zip(chosen, saved, strict=True):
        remembered[place] = one
        if one.was_new:
            await link_predecessor(tx, one.id, ended[one.source_ref])
    return changed


def import_items(
    resources: Resources, identity: Identity, items: News, *, total: int = 0, progress: Progress | None = None
) -> AsyncIterator[list[Remembered]]:
    """Keep any number of items, batch by batch; what is here already is passed over quickly.

    Started again after it was stopped, it goes on where it stopped: nothing is kept twice. What stands before an
    item that is refused is kept, and the error's `index` counts up to that item.
    """
    return kept_in_batches(
        items, lambda batch: remember_many(resources, identity, batch), total=total, progress=progress
    )


async def kept_in_batches(
    news: News,
    keep: Callable[[Sequence[NewItem]], Awaitable[list[Remembered]]],
    *,
    total: int,
    progress: Progress | None,
) -> AsyncIterator[list[Remembered]]:
    """What `keep` makes of one batch after the other; an error of it says in `index` which item was refused."""
    done = 0
    async for batch in _batches(news):
        try:
            kept = await keep(batch)
        except RecordariError as error:
            index = error.details.get("index", 0)
            if index:
                yield await keep(batch[:index])
            error.details["index"] = done + index
            raise
        yield kept
        done += len(batch)
        if progress is not None:
            progress(done, total)


async def _batches(news: News) -> AsyncIterator[list[NewItem]]:
    """Some of the items at a time: not too many, and not too much text."""
    batch: list[NewItem] = []
    size = 0
    async for new in each(news):
        batch.append(new)
        size += len(new.content)
        if len(batch) == IMPORT_BATCH or size > IMPORT_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


@contextmanager
def _told_which(index: int) -> Iterator[None]:
    """Say in an error which of many items it is about."""
    try:
        yield
    except RecordariError as error:
        error.details["index"] = index
        raise


async def _rows(
    resources: Resources, identity: Identity, ready: Sequence[Prepared], masked: Sequence[Mapping[str, int]]
) -> list[Row]:
    view = await resources.get(TenantViews).get(resources.database, identity)
    texts = [(searched_text(item.kind, item.content, item.metadata), item.speaker) for item in ready]
    columns = await derive(resources, texts, language=view.language)
    return [
        Row(item_id=new_id(), item=item, indexed=indexed, thread=_thread(item), masked=counts)
        for item, indexed, counts in zip(ready, columns, masked, strict=True)
    ]


def _thread(item: Prepared) -> str | None:
    """What the item stands in line with: what is said in a session follows each other."""
    if item.session_id is None or not KINDS[item.kind].is_threaded:
        return None
    return thread_of(item.session_id)


async def _large_bodies(resources: Resources, identity: Identity, rows: Sequence[Row]) -> dict[UUID, str]:
    """Put bodies that are too large for a row into the object store, before any transaction is open."""
    return {
        row.item_id: await resources.get(Objects).put(
            row.item.payload.encode(), owner=f"{identity.tenant_id}/{row.item.payload_key}"
        )
        for row in rows
        if row.item.payload is not None and len(row.item.payload.encode()) > OBJECT_BYTES
    }


async def _save(tx: Transaction, rows: Sequence[Row], objects: dict[UUID, str]) -> tuple[list[Remembered], list[UUID]]:
    """Write the rows; the answer for each, and the ids whose text is new."""
    inserted = await storage.insert_items(tx, rows, topic=EMBED_TOPIC)
    known = await storage.find_keys(tx, [row.item for row in rows]) if len(inserted) < len(rows) else {}
    remembered: list[Remembered] = []
    changed, replaced = set(inserted), []
    for index, row in enumerate(rows):
        item_id, was_new = row.item_id, row.item_id in inserted
        if not was_new:
            with _told_which(index):
                key = known.get((str(row.item.kind), row.item.source_ref))
                item_id, is_changed = await _found(tx, row, key, objects.get(row.item_id))
            # Its own id: it was written a moment ago by a connection that was lost before it could say so.
            was_new = key is not None and item_id == row.item_id
            if is_changed:
                changed.add(item_id)
                replaced.append(item_id)
        if row.item.payload_key is not None and item_id in changed:
            await _keep_body(tx, item_id, row, objects)
        remembered.append(_remembered(row, item_id, was_new=was_new))
    await outbox.add(tx, EMBED_TOPIC, replaced)
    return remembered, sorted(changed)


def _remembered(row: Row, item_id: UUID, *, was_new: bool) -> Remembered:
    return Remembered(
        id=item_id,
        was_new=was_new,
        source_ref=row.item.source_ref,
        payload_key=row.item.payload_key,
        masked=row.masked,
    )


async def _found(tx: Transaction, row: Row, key: Key | None, object_key: str | None) -> tuple[UUID, bool]:
    """The row that stands behind a key already, and whether its text was changed now."""
    if key is None:
        if await storage.is_taken(tx, row.item):  # by a row that this identity may not see
            raise Conflict(TAKEN, field="source_ref")
        # It was forgotten: its empty row still stands for it, or none when its user was erased.
        buried = await storage.find_buried(tx, row.item)
        await storage.discard_object(tx, object_key)
        return buried or row.item_id, False
    if not key.belongs_to(row.item):
        line = await storage.line_of(tx, row.item.session_id)
        if not key.belongs_to(row.item, line=line):
            raise Conflict(TAKEN, field="source_ref")
    if key.content_hash == row.item.content_hash:
        return key.item_id, False
    await _replace(tx, key.item_id, row)
    return key.item_id, True


async def _replace(tx: Transaction, item_id: UUID, row: Row) -> None:
    if not KINDS[row.item.kind].replaces:
        raise Conflict(
            f"source_ref {row.item.source_ref!r} already stands for another text; use another source_ref, "
            "or leave it out",
            field="source_ref",
        )
    await storage.replace_item(tx, item_id, row)


async def _keep_body(tx: Transaction, item_id: UUID, row: Row, objects: dict[UUID, str]) -> None:
    assert row.item.payload is not None and row.item.payload_key is not None
    body = row.item.payload.encode()
    object_key = objects.get(row.item_id)
    await storage.insert_payload(
        tx,
        item_id,
        row.item.payload_key,
        size=len(body),
        sha256=hashlib.sha256(body).digest(),
        body=None if object_key else body,
        object_key=object_key,
    )


MOST_CHARACTERS = 10_000  # longer texts are embedded in the background


def meaning_of(resources: Resources, identity: Identity, row: Row, *, model_id: str | None) -> Meaning | None:
    """The vector of an item by the tenant's model, and what it names; None where a job had better see to it."""
    embedder = resources.embedders.instant(model_id)
    item = row.item
    if embedder is None or len(item.content) > MOST_CHARACTERS:
        return None
    before = resources.get(Threads).before(identity.tenant_id, row)
    text = embedded_text(
        item.content,
        speaker=item.speaker,
        event_time=item.event_time,
        previous_speaker=before.speaker if before else None,
        previous_head=before.head if before else None,
        metadata=item.metadata,
    )
    vector = fail_open_now("embed_now", lambda: embedder.embed_now(text), fallback=None)
    if vector is None:
        return None
    following = KINDS[item.kind].next_topic
    return Meaning(
        model_id=embedder.model_id,
        embedding=vector,
        entities=entities_in(item.content, speaker=item.speaker),
        previous_id=before.item_id if before else None,
        previous_hash=before.content_hash if before else None,
        following=following,
        unless={SETTING: Extraction.OFF} if following == EXTRACT_TOPIC else None,
    )
