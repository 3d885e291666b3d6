"""Entries: documents by namespace and key, written in one short transaction together with their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np

from recordari.core import text
from recordari.core.checks import json_text
from recordari.core.identity import Identity, Scope
from recordari.core.ids import new_id
from recordari.core.items import Kind, NewItem
from recordari.core.telemetry import measured
from recordari.db.database import Transaction
from recordari.entries import storage
from recordari.entries.rules import (
    MAX_PAGE,
    MAX_VALUE_BYTES,
    Entry,
    EntryName,
    FoundEntry,
    checked_ttl,
    entry_name,
    filter_path,
    indexed_text,
    matching,
)
from recordari.errors import InvalidInput, NotFound, PreconditionFailed, TooLarge
from recordari.kit.resources import Resources
from recordari.memory.remember import Ready, Written, make_ready, save_ready, with_source_ref
from recordari.memory.rules import embedded_text
from recordari.memory.tenant_view import TenantViews
from recordari.models.base import fail_open
from recordari.privacy.sanitise import sanitise_json
from recordari.tenants.tenants import require_admin

NO_SUCH_ENTRY = "there is no such entry; it was never put there, or it has expired"
SWEEP_BATCH = 1_000


@measured("put_entry")
async def put_entry(
    resources: Resources,
    identity: Identity,
    namespace: Sequence[str],
    key: str,
    value: Mapping[str, Any],
    *,
    scope: Scope | str | None = None,
    index: Sequence[str] | bool | None = None,
    ttl: timedelta | None = None,
    if_version: int | None = None,
) -> Entry:
    """Store a document under a key; an earlier one is replaced.

    `index` names the fields that recall and `search_entries` read: all by default, none with False. With `ttl` the entry
    expires that long after its last write or read; with `if_version` (0: none yet) it is written only over that version.
    """
    name = entry_name(identity, scope, namespace, key)
    if not namespace:
        raise InvalidInput("namespace must have at least one label", field="namespace")
    if name.scope is Scope.TENANT:
        require_admin(identity)
    ttl = checked_ttl(ttl)
    if not isinstance(value, Mapping):
        raise InvalidInput("value must be a JSON object", field="value")
    document = await sanitise_json(resources, identity, dict(value))
    written = json_text(document, field="value")
    if len(written.encode()) > MAX_VALUE_BYTES:
        raise TooLarge(f"value must have at most {MAX_VALUE_BYTES} bytes")
    content = indexed_text(document, index)
    ready = await make_ready(resources, identity, [_item(name, content)] if content is not None else [])
    now = resources.clock()
    async with resources.database.transaction(identity) as tx:
        before = await storage.lock_entry(tx, name)
        if before is not None and before.is_expired(now):
            await storage.delete_entries(tx, [before.entry_id])
            before = None
        if if_version is not None and if_version != (before.version if before is not None else 0):
            raise PreconditionFailed
        expected = if_version if before is not None else None
        entry = await storage.save_entry(tx, name, new_id(), written, ttl=ttl, if_version=expected, now=now)
        if entry is None or (if_version == 0 and entry.version > 1):  # another writer came first
            raise PreconditionFailed
        entry, changes = await _indexed(tx, entry, ready)
    changes.wake(resources)
    return entry


def _item(name: EntryName, content: str) -> NewItem:
    path = "/".join((*name.namespace, name.key))
    return NewItem(content=content, kind=Kind.ENTRY, scope=name.scope, source_ref="entry", metadata={"entry": path})


async def _indexed(tx: Transaction, entry: Entry, ready: Ready) -> tuple[Entry, Written]:
    """Save or delete the item of an entry, so that recall finds its current text only."""
    if ready.rows:
        rows = tuple(with_source_ref(row, f"entry:{entry.entry_id}") for row in ready.rows)
        (remembered,), changes = await save_ready(tx, Ready(rows=rows, objects=ready.objects))
        if remembered.id == entry.item_id:
            return entry, changes
        await storage.link_item(tx, entry.entry_id, remembered.id)
        return replace(entry, item_id=remembered.id), changes
    if entry.item_id is None:
        return entry, Written()
    await storage.link_item(tx, entry.entry_id, None)
    await storage.delete_item(tx, entry.item_id)
    return replace(entry, item_id=None), Written()


@measured("get_entry")
async def get_entry(
    resources: Resources,
    identity: Identity,
    namespace: Sequence[str],
    key: str,
    *,
    scope: Scope | str | None = None,
    refresh: bool = True,
) -> Entry:
    """Return a document; this renews its lifetime unless `refresh` is false."""
    name, now = entry_name(identity, scope, namespace, key), resources.clock()
    async with resources.database.transaction(identity) as tx:
        entry = await storage.find_entry(tx, name, now=now)
        if entry is None:
            raise NotFound(NO_SUCH_ENTRY)
        if refresh and entry.expires_at is not None:
            await storage.refresh_entries(tx, [entry.entry_id], now=now)
    return entry


async def delete_entry(
    resources: Resources,
    identity: Identity,
    namespace: Sequence[str],
    key: str,
    *,
    scope: Scope | str | None = None,
    if_version: int | None = None,
) -> None:
    """Delete a document with its item; with `if_version` only that version."""
    name = entry_name(identity, scope, namespace, key)
    if name.scope is Scope.TENANT:
        require_admin(identity)
    async with resources.database.transaction(identity) as tx:
        entry = await storage.lock_entry(tx, name)
        if entry is None or entry.is_expired(resources.clock()):
            raise NotFound(NO_SUCH_ENTRY)
        if if_version is not None and if_version != entry.version:
            raise PreconditionFailed
        await storage.delete_entries(tx, [entry.entry_id])


@measured("search_entries")
async def search_entries(
    resources: Resources,
    identity: Identity,
    prefix: Sequence[str] = (),
    *,
    query: str | None = None,
    filter: Mapping[str, Any] | None = None,  # noqa: A002  # the name in every framework
    scope: Scope | str | None = None,
    limit: int = 10,
    offset: int = 0,
    refresh: bool = True,
) -> list[FoundEntry]:
    """Search the documents in and below a namespace: the latest first, or with a `query` the best answers first."""
    name, now = entry_name(identity, scope, prefix), resources.clock()
    if not 1 <= limit <= MAX_PAGE or offset < 0:
        raise InvalidInput(f"limit must lie between 1 and {MAX_PAGE}, and offset must not be negative", field="limit")
    question = await _embedded(resources, identity, query) if query and query.strip() else None
    async with resources.database.transaction(identity) as tx:
        entries = await storage.find_entries(
            tx, name, condition=filter_path(filter), question=question, offset=offset, limit=limit, now=now
        )
        expiring = [entry.entry_id for entry in entries if entry.expires_at is not None]
        if refresh and expiring:
            await storage.refresh_entries(tx, expiring, now=now)
    return entries


async def _embedded(resources: Resources, identity: Identity, query: str) -> tuple[list[str], np.ndarray | None, str]:
    """Return the terms, the vector and the model of a question; without a vector the search goes by words."""
    view = await resources.get(TenantViews).get(resources.database, identity)
    terms = list(dict.fromkeys(text.terms(query, view.language)))
    embedder = resources.embedders.of(view.model_id)
    if embedder is None:
        return terms, None, ""
    vector, _ = await fail_open(
        "embed_query",
        lambda: embedder.embed_query(embedded_text(query, speaker=None, event_time=None)),
        fallback=None,
        seconds=resources.embedders.query_timeout,
    )
    return terms, vector, embedder.model_id if vector is not None else ""


async def list_namespaces(
    resources: Resources,
    identity: Identity,
    *,
    prefix: Sequence[str] = (),
    suffix: Sequence[str] = (),
    max_depth: int | None = None,
    scope: Scope | str | None = None,
    limit: int = 100,
    offset: int = 0,
) -> list[tuple[str, ...]]:
    """List the namespaces that have entries, in order; in `prefix` and `suffix` the label `*` is any label."""
    async with resources.database.transaction(identity) as tx:
        namespaces = await storage.list_namespaces(tx, entry_name(identity, scope, ()), now=resources.clock())
    return matching(namespaces, prefix=prefix, suffix=suffix, max_depth=max_depth)[offset : offset + limit]


async def sweep_entries(resources: Resources, identity: Identity, **_: Any) -> None:
    """Delete the expired entries of the tenant. A job; reads hide an entry as soon as it expires."""
    while True:
        async with resources.database.transaction(identity) as tx:
            expired = await storage.expired_entries(tx, now=resources.clock(), limit=SWEEP_BATCH)
            await storage.delete_entries(tx, expired)
        if len(expired) < SWEEP_BATCH:
            return
