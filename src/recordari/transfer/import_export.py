"""Imports an export into any tenant (T6).

An import writes the rows that do not exist yet: a second import changes nothing. Items that were forgotten here stay
forgotten, and so do erased users. In a tenant that forgot anything, summaries of an older export could still contain it:
they are left out and made again from the messages. The export of one user writes only rows of that user.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from recordari.core.cache import each
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, UserId, checked_id
from recordari.core.items import LABELS, Kind, NewItem, Tier
from recordari.db import audit, outbox
from recordari.db.database import Transaction
from recordari.errors import Forbidden, InvalidInput, RecordariError, TooLarge
from recordari.kit.resources import Resources
from recordari.knowledge import storage as knowledge_storage
from recordari.knowledge.sources import allowed_folder
from recordari.knowledge.storage import Original
from recordari.memory import storage as memory_storage
from recordari.memory.index import EMBED_TOPIC, derive
from recordari.memory.objects import Objects
from recordari.memory.remember import OBJECT_BYTES
from recordari.memory.tenant_view import TenantViews
from recordari.privacy.sanitise import Clean, sanitise_items
from recordari.sessions.summaries import SUMMARISE_TOPIC
from recordari.tenants.tenants import require_admin
from recordari.transfer import storage
from recordari.transfer.export import FORMAT, VERSION
from recordari.transfer.import_checks import Row, body_of, checked_row, decoded, is_of_user, row_id, whole_number

BATCH = 200
MAX_LINE = 64 * 2**20
NO_SUMMARY: dict[str, Any] = {
    "summary": "",
    "summary_id": None,
    "summary_trust": "agent",
    "summarised_to": 0,
    "folded_to": 0,
    "folds": [],
}

Lines = Iterable[str] | AsyncIterable[str]


@dataclass(slots=True, kw_only=True)
class Imported:
    """The number of rows that an import wrote, by type."""

    __pydantic_config__ = DESCRIBED

    written: dict[str, int] = field(default_factory=dict)
    known_items: int = 0
    """Items that existed already."""
    forgotten_items: int = 0
    """Items that were forgotten here, and stay so."""


async def import_export(resources: Resources, identity: Identity, lines: Lines) -> Imported:
    """Import an export: write the rows that this tenant does not have."""
    require_admin(identity)
    running = _Import(resources, identity)
    number = 0
    try:
        async for line in each(lines):
            number += 1
            await running.take(line, number)
        if number:
            return await running.finish()
    except RecordariError as error:
        error.details.setdefault("line", number)
        raise
    raise InvalidInput("the export is empty")


class _Import:
    """A running import: rows of one type are collected and written in batches."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self.resources = resources
        self.identity = identity
        self.result = Imported()
        self.user_id: UserId | None = None
        self.kind = ""
        self.rows: list[Row] = []
        self.remakes_summaries = False
        self.documents = DocumentImport(resources, identity)
        self.sources: dict[str, str] = {}
        """The ids of this tenant's sources with the same name, by the ids of the export."""

    async def take(self, line: str, number: int) -> None:
        if len(line) > MAX_LINE:
            raise InvalidInput(f"a line of the export has more than {MAX_LINE} characters")
        if not line.strip():
            return
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            raise InvalidInput("a line of the export is not a JSON object")
        if number == 1:
            await self._begin(entry)
            return
        kind, row = entry.get("type"), entry.get("row")
        if kind not in storage.EXPORTED or not isinstance(row, dict):
            raise InvalidInput(f"a line of the export has no type among {', '.join(storage.EXPORTED)}, or no row")
        if self.user_id is not None and not is_of_user(kind, row, self.user_id):
            raise InvalidInput("this is the export of one user, and a line of it is not that user's")
        if kind != self.kind or len(self.rows) >= BATCH:
            await self._flush()
            self.kind = kind
        if kind == "file":
            self._count(kind, await self.documents.take_part(row))
        else:
            self.rows.append(row)

    async def _begin(self, header: Mapping[str, Any]) -> None:
        if header.get("format") != FORMAT:
            raise InvalidInput("this is not an export of Recordari: its first line has another format")
        if header.get("version") != VERSION:
            raise InvalidInput(f"this server reads exports of version {VERSION} only")
        if (user_id := header.get("user_id")) is not None:
            self.user_id = UserId(checked_id("user_id", str(user_id)))
            if self.identity.user_id is None:
                # Row-level security then refuses rows of other users.
                self.identity = replace(self.identity, user_id=self.user_id)
        async with self.resources.database.transaction(self.identity) as tx:
            self.remakes_summaries = await storage.has_tombstones(tx)

    async def finish(self) -> Imported:
        await self._flush()
        self.documents.finish()
        async with self.resources.database.transaction(self.identity) as tx:
            await audit.record(tx, "import", "tenant", self.identity.tenant_id, written=self.result.written)
        self.resources.forget_tenant(self.identity.tenant_id)
        return self.result

    def _count(self, kind: str, count: int) -> None:
        self.result.written[kind] = self.result.written.get(kind, 0) + count

    async def _flush(self) -> None:
        rows, self.rows = self.rows, []
        if not rows:
            return
        if self.kind == "item":
            await self._write_items(rows)
            return
        prepared = await self._prepare([checked_row(self.kind, row) for row in rows])
        async with self.resources.database.transaction(self.identity) as tx:
            count = await self._write(tx, prepared)
        self._count(self.kind, count)
        if self.kind == "tenant":
            self.resources.forget_tenant(self.identity.tenant_id)  # its policy is valid for the following rows

    async def _prepare(self, rows: list[Row]) -> list[Row]:
        """Rows with the sources of this tenant, and masked by its privacy policy."""
        match self.kind:
            case "source":
                return [self.documents.source(row) for row in rows]
            case "document":
                return await self.documents.clean_documents([self._with_source(row) for row in rows])
            case "chunk":
                return await self.documents.clean_chunks(rows)
            case "protected_source":
                return [self._with_source(row) for row in rows]
            case _:
                return rows

    def _with_source(self, row: Row) -> Row:
        source_id = self.sources.get(str(row.get("source_id")))
        return row if source_id is None else {**row, "source_id": source_id}

    async def _write(self, tx: Transaction, rows: list[Row]) -> int:
        match self.kind:
            case "tenant":
                last = rows[-1]
                return await storage.import_tenant(tx, language=last["language"], settings=last["settings"])
            case "workflow":
                return await storage.import_workflows(tx, rows)
            case "proposal":
                return await storage.import_proposals(tx, rows)
            case "session" if self.remakes_summaries:
                rows = [{**row, **NO_SUMMARY} for row in rows]
                await outbox.add(tx, SUMMARISE_TOPIC, [row_id(row, "session_ref") for row in rows])
                self.resources.wake(SUMMARISE_TOPIC)
        count = await storage.import_rows(tx, self.kind, rows, user_id=self.user_id)
        if self.kind == "run":
            for name, kind in (("turn_log", "turn"), ("tool_calls", "tool_call")):
                nested = [entry for row in rows for entry in row.get(name, [])]
                await storage.import_rows(tx, kind, nested, user_id=self.user_id)
        elif self.kind == "source":
            self.sources |= await storage.same_sources(tx, rows)
        elif self.kind == "document":
            await self.documents.end_orphans(tx, rows)
        return count

    async def _write_items(self, rows: list[Row]) -> None:
        imported = [row for row in rows if not (self.remakes_summaries and _is_rolling_summary(row))]
        checked = [self._with_source(checked_row("item", row)) for row in imported]
        indexed = await self._indexed(checked)
        bodies = {row_id(row, "item_id"): body_of(row) for row in checked if row.get("payload")}
        async with self.resources.database.transaction(self.identity) as tx:
            new_ids = await storage.import_items(tx, indexed, user_id=self.user_id)
            existing = await storage.count_items(tx, [row_id(row, "item_id") for row in checked])
            await storage.import_rows(tx, "access", _accesses(checked, set(new_ids)), user_id=self.user_id)
            await outbox.add(tx, EMBED_TOPIC, new_ids)
        for item_id in new_ids:
            if item_id in bodies:
                await self._save_body(item_id, *bodies[item_id])
        self.resources.wake(EMBED_TOPIC)
        self._count("item", len(new_ids))
        self.result.known_items += existing - len(new_ids)
        self.result.forgotten_items += len(rows) - existing

    async def _indexed(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with personal data masked as at any write, and with their index columns."""
        news = [
            NewItem(
                content=row["content"],
                kind=row["kind"],
                **{name: row.get(name) for name in LABELS},
                metadata=row.get("metadata") or {},
            )
            for row in rows
        ]
        cleaned = await sanitise_items(self.resources, self.identity, news)
        view = await self.resources.get(TenantViews).get(self.resources.database, self.identity)
        columns = await derive(
            self.resources, [(clean.new.content, clean.new.speaker) for clean in cleaned], language=view.language
        )
        indexed = []
        for row, clean, column in zip(rows, cleaned, columns, strict=True):
            if clean.problem is not None:
                raise clean.problem
            is_empty = row.get("anonymized_at") is not None
            indexed.append(
                {
                    **_cleaned(row, clean),
                    "tsv": "" if is_empty else column.tsv,
                    "terms": "\\x" if is_empty else "\\x" + column.terms.hex(),
                    "tokens": "\\x" if is_empty else "\\x" + column.tokens.hex(),
                    "traits": 0 if is_empty else column.traits,
                }
            )
        return indexed

    async def _save_body(self, item_id: UUID, payload_key: str, body: bytes, media_type: str) -> None:
        object_key = await _put_large(self.resources, self.identity, payload_key, body)
        async with self.resources.database.transaction(self.identity) as tx:
            await memory_storage.insert_payload(
                tx,
                item_id,
                payload_key,
                size=len(body),
                sha256=hashlib.sha256(body).digest(),
                media_type=media_type,
                body=None if object_key else body,
                object_key=object_key,
            )


def _is_rolling_summary(row: Mapping[str, Any]) -> bool:
    return row.get("kind") == Kind.SESSION_SUMMARY and row.get("tier") != Tier.PERSISTENT


def _cleaned(row: Row, clean: Clean) -> Row:
    counts = dict(row.get("masked") or {})
    for name, count in clean.masked.items():
        counts[name] = counts.get(name, 0) + count
    labels = {name: getattr(clean.new, name) for name in LABELS}
    return {**row, "content": clean.new.content, **labels, "metadata": clean.new.metadata, "masked": counts or None}


def _accesses(rows: Sequence[Row], new_ids: set[UUID]) -> list[Row]:
    return [
        {**row["access"], "item_id": row["item_id"]}
        for row in rows
        if row.get("access") is not None and row_id(row, "item_id") in new_ids
    ]


async def _put_large(resources: Resources, identity: Identity, payload_key: str, body: bytes) -> str | None:
    """Put a large body into the object store; None for one that the database holds."""
    if len(body) <= OBJECT_BYTES:
        return None
    return await resources.get(Objects).put(body, owner=f"{identity.tenant_id}/{payload_key}")


NOT_WHOLE = "the parts of a file of the export do not follow each other"


class DocumentImport:
    """The documents of one import: the ones with masked text, and the file that is being read."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self.resources = resources
        self.identity = identity
        self._masked: set[UUID] = set()
        self._parts: list[bytes] = []
        self._file: tuple[UUID, int, int] | None = None

    def source(self, row: Row) -> Row:
        """A source, without its folder if this server may not read it."""
        if row.get("folder") is None:
            return row
        try:
            return {**row, "folder": str(allowed_folder(self.resources, Path(str(row["folder"]))))}
        except (Forbidden, InvalidInput, OSError, ValueError):
            return {**row, "folder": None}

    async def clean_documents(self, rows: Sequence[Row]) -> list[Row]:
        cleaned = await self._clean(rows, [(row["title"], row["metadata"]) for row in rows])
        return [{**row, "title": new.content, "metadata": new.metadata} for row, new in cleaned]

    async def clean_chunks(self, rows: Sequence[Row]) -> list[Row]:
        cleaned = await self._clean(rows, [("-", {"heading": row["heading"]}) for row in rows])
        return [{**row, "heading": new.metadata["heading"]} for row, new in cleaned]

    async def _clean(
        self, rows: Sequence[Row], texts: Sequence[tuple[str, dict[str, Any]]]
    ) -> list[tuple[Row, NewItem]]:
        """Each row with its content and metadata, masked by the tenant's privacy policy."""
        news = [NewItem(content=text, kind=Kind.DOCUMENT_CHUNK, metadata=metadata) for text, metadata in texts]
        cleaned = await sanitise_items(self.resources, self.identity, news)
        self._masked.update(
            row_id(row, "document_id") for row, clean in zip(rows, cleaned, strict=True) if clean.masked
        )
        return [(row, clean.new) for row, clean in zip(rows, cleaned, strict=True)]

    async def end_orphans(self, tx: Transaction, rows: Sequence[Row]) -> None:
        """End the chunks whose document was not imported, because this tenant has one with that name."""
        orphans = await storage.chunks_of_none(tx, [row_id(row, "document_id") for row in rows])
        await knowledge_storage.end_chunks(tx, orphans, now=self.resources.clock())

    async def take_part(self, row: Mapping[str, Any]) -> int:
        """Read a part of a file; the last part saves the file if its document is whole. Returns the number of files saved."""
        part, parts = whole_number(row, "part", least=1), whole_number(row, "parts", least=1)
        document_id, revision = row_id(row, "document_id"), whole_number(row, "revision", least=1)
        file = (document_id, revision, parts)
        if part != len(self._parts) + 1 or part > parts or (self._parts and file != self._file):
            raise InvalidInput(NOT_WHOLE, field="part")
        self._file = file
        self._parts.append(decoded(row.get("body"), field="body"))
        most = self.resources.settings.document_max_bytes
        if sum(map(len, self._parts)) > most:
            raise TooLarge(
                f"a file of the export has more than {most:,} bytes; the operator allows more by "
                "RECORDARI_DOCUMENT_MAX_BYTES"
            )
        if part < parts:
            return 0
        body, self._parts = b"".join(self._parts), []
        if document_id in self._masked:
            return 0
        return await self._save(document_id, revision, body, media_type=str(row.get("media_type")))

    def finish(self) -> None:
        if self._parts:
            raise InvalidInput(NOT_WHOLE, field="part")

    async def _save(self, document_id: UUID, revision: int, body: bytes, *, media_type: str) -> int:
        async with self.resources.database.transaction(self.identity) as tx:
            if not await storage.lacks_file(tx, document_id, revision=revision):
                return 0
        payload_key = knowledge_storage.payload_key_of(document_id)
        object_key = await _put_large(self.resources, self.identity, payload_key, body)
        original = Original(media_type=media_type, body=None if object_key else body, object_key=object_key)
        async with self.resources.database.transaction(self.identity) as tx:
            if not await storage.lacks_file(tx, document_id, revision=revision):
                await memory_storage.discard_object(tx, object_key)  # something of it was forgotten meanwhile
                return 0
            await knowledge_storage.save_original(
                tx,
                document_id,
                media_type=media_type,
                size=len(body),
                sha256=hashlib.sha256(body).digest(),
                original=original,
            )
        return 1
