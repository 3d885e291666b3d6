"""Import of what `export` wrote, into any tenant (T6).

An import writes what is not here yet: done again it changes nothing. What was forgotten here stays forgotten, and so do
users who were erased. Where anything was forgotten, summaries of an older export could still tell it: they are left out and
made again from the messages. The export of one user writes rows of that user only, whatever its lines say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.flushing import each
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
from recordari.sessions.messages import SUMMARISE_TOPIC
from recordari.tenants.tenants import require_admin
from recordari.transfer import storage
from recordari.transfer.export import FORMAT, READ_VERSIONS
from recordari.transfer.import_checks import Row, body_of, checked_row, decoded, is_of_user, row_id, whole_number

BATCH = 200
MAX_LINE = 64 * 2**20
NO_SUMMARY: dict[str, Any] = {"summary": "", "summary_id": None, "summarised_to": 0, "folded_to": 0, "folds": []}

Lines = Iterable[str] | AsyncIterable[str]


@dataclass(slots=True, kw_only=True)
class Imported:
    """How much an import wrote, by type."""

    __pydantic_config__ = DESCRIBED

    written: dict[str, int] = field(default_factory=dict)
    known_items: int = 0
    """Items that were here already."""
    forgotten_items: int = 0
    """Items that were forgotten here, and stay so."""


async def import_export(resources: Resources, identity: Identity, lines: Lines) -> Imported:
    """Write what an export holds and this tenant does not."""
    require_admin(identity)
    importing = _Import(resources, identity)
    number = 0
    try:
        async for line in each(lines):
            number += 1
            await importing.take(line, number)
        if number:
            return await importing.finish()
    except RecordariError as error:
        error.details.setdefault("line", number)
        raise
    raise InvalidInput("the export is empty")


class _Import:
    """One import on its way: lines of one type are gathered and written some at a time."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self.resources = resources
        self.identity = identity
        self.done = Imported()
        self.user_id: UserId | None = None
        self.kind = ""
        self.rows: list[Row] = []
        self.remakes_summaries = False
        self.documents = DocumentImport(resources, identity)
        self.sources: dict[str, str] = {}
        """The ids of sources that are here under the same name, by the ids of the export."""

    async def take(self, line: str, number: int) -> None:
        if len(line) > MAX_LINE:
            raise InvalidInput(f"a line of the export has more than {MAX_LINE} characters")
        if not line.strip():
            return
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise InvalidInput("a line of the export is not a JSON object")
        if number == 1:
            await self._begin(said)
            return
        kind, row = said.get("type"), said.get("row")
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
        if header.get("version") not in READ_VERSIONS:
            versions = " and ".join(map(str, READ_VERSIONS))
            raise InvalidInput(f"this server reads exports of version {versions} only")
        if (whose := header.get("user_id")) is not None:
            self.user_id = UserId(checked_id("user_id", str(whose)))
            if self.identity.user_id is None:
                # Row-level security then refuses what is another user's.
                self.identity = replace(self.identity, user_id=self.user_id)
        async with self.resources.database.transaction(self.identity) as tx:
            self.remakes_summaries = await storage.has_tombstones(tx)

    async def finish(self) -> Imported:
        await self._flush()
        self.documents.finish()
        async with self.resources.database.transaction(self.identity) as tx:
            await audit.record(tx, "import", "tenant", self.identity.tenant_id, written=self.done.written)
        self.resources.forget_tenant(self.identity.tenant_id)
        return self.done

    def _count(self, kind: str, written: int) -> None:
        self.done.written[kind] = self.done.written.get(kind, 0) + written

    async def _flush(self) -> None:
        rows, self.rows = self.rows, []
        if not rows:
            return
        if self.kind == "item":
            await self._write_items(rows)
            return
        checked = await self._ready([checked_row(self.kind, row) for row in rows])
        async with self.resources.database.transaction(self.identity) as tx:
            written = await self._write(tx, checked)
        self._count(self.kind, written)
        if self.kind == "tenant":
            self.resources.forget_tenant(self.identity.tenant_id)  # its policy holds for all that follows

    async def _ready(self, rows: list[Row]) -> list[Row]:
        """Rows as they belong here: with the sources of this tenant, and without what it does not want kept."""
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
        here = self.sources.get(str(row.get("source_id")))
        return row if here is None else {**row, "source_id": here}

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
        written = await storage.import_rows(tx, self.kind, rows, user_id=self.user_id)
        if self.kind == "run":
            for name, kind in (("turn_log", "turn"), ("tool_calls", "tool_call")):
                await storage.import_rows(tx, kind, _nested(rows, name), user_id=self.user_id)
        elif self.kind == "source":
            self.sources |= await storage.same_sources(tx, rows)
        elif self.kind == "document":
            await self.documents.end_others(tx, rows)
        return written

    async def _write_items(self, rows: list[Row]) -> None:
        left = [row for row in rows if not (self.remakes_summaries and _is_rolling_summary(row))]
        checked = [self._with_source(checked_row("item", row)) for row in left]
        ready = await self._indexed(checked)
        bodies = {row_id(row, "item_id"): body_of(row) for row in checked if row.get("payload")}
        async with self.resources.database.transaction(self.identity) as tx:
            written = await storage.import_items(tx, ready, user_id=self.user_id)
            known = await storage.count_items(tx, [row_id(row, "item_id") for row in checked])
            await storage.import_rows(tx, "evidence", _evidence(checked), user_id=self.user_id)
            await storage.import_rows(tx, "access", _accesses(checked, set(written)), user_id=self.user_id)
            await outbox.add(tx, EMBED_TOPIC, written)
        for item_id in written:
            if item_id in bodies:
                await self._keep_body(item_id, *bodies[item_id])
        self.resources.wake(EMBED_TOPIC)
        self._count("item", len(written))
        self.done.known_items += known - len(written)
        self.done.forgotten_items += len(rows) - known

    async def _indexed(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with personal data taken out as at any write, and with their index columns."""
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
        ready = []
        for row, clean, column in zip(rows, cleaned, columns, strict=True):
            if clean.problem is not None:
                raise clean.problem
            is_empty = row.get("anonymized_at") is not None
            ready.append(
                {
                    **_cleaned(row, clean),
                    "tsv": "" if is_empty else column.tsv,
                    "terms": "\\x" if is_empty else "\\x" + column.terms.hex(),
                    "tokens": "\\x" if is_empty else "\\x" + column.tokens.hex(),
                    "traits": 0 if is_empty else column.traits,
                }
            )
        return ready

    async def _keep_body(self, item_id: UUID, payload_key: str, body: bytes) -> None:
        object_key = None
        if len(body) > OBJECT_BYTES:
            object_key = await self.resources.get(Objects).put(body, owner=f"{self.identity.tenant_id}/{payload_key}")
        async with self.resources.database.transaction(self.identity) as tx:
            await memory_storage.insert_payload(
                tx,
                item_id,
                payload_key,
                size=len(body),
                sha256=hashlib.sha256(body).digest(),
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


def _evidence(rows: Sequence[Row]) -> list[Row]:
    """What items rest on, from an export of version 1."""
    return [{**link, "item_id": row["item_id"]} for row in rows for link in row.get("evidence", [])]


def _accesses(rows: Sequence[Row], written: set[UUID]) -> list[Row]:
    return [
        {**row["access"], "item_id": row["item_id"]}
        for row in rows
        if row.get("access") is not None and row_id(row, "item_id") in written
    ]


def _nested(rows: Sequence[Row], name: str) -> list[Row]:
    return [one for row in rows for one in row.get(name, [])]


NOT_WHOLE = "the parts of a file of the export do not follow each other"


class DocumentImport:
    """The documents of one import: which of them lost something on the way, and the file that is being read."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self.resources = resources
        self.identity = identity
        self._masked: set[UUID] = set()
        self._parts: list[bytes] = []
        self._of: tuple[UUID, int, int] | None = None

    def source(self, row: Row) -> Row:
        """A source, without its folder where this server may not read it."""
        if row.get("folder") is None:
            return row
        try:
            return {**row, "folder": str(allowed_folder(self.resources, Path(str(row["folder"]))))}
        except (Forbidden, InvalidInput, OSError, ValueError):
            return {**row, "folder": None}

    async def clean_documents(self, rows: Sequence[Row]) -> list[Row]:
        news = [NewItem(content=row["title"], kind=Kind.DOCUMENT_CHUNK, metadata=row["metadata"]) for row in rows]
        cleaned = await sanitise_items(self.resources, self.identity, news)
        self._masked.update(row_id(row, "document_id") for row, one in zip(rows, cleaned, strict=True) if one.masked)
        return [
            {**row, "title": one.new.content, "metadata": one.new.metadata}
            for row, one in zip(rows, cleaned, strict=True)
        ]

    async def clean_chunks(self, rows: Sequence[Row]) -> list[Row]:
        """Places of chunks without what the tenant does not want kept in their headings."""
        news = [NewItem(content="-", kind=Kind.DOCUMENT_CHUNK, metadata={"heading": row["heading"]}) for row in rows]
        cleaned = await sanitise_items(self.resources, self.identity, news)
        self._masked.update(row_id(row, "document_id") for row, one in zip(rows, cleaned, strict=True) if one.masked)
        return [{**row, "heading": one.new.metadata["heading"]} for row, one in zip(rows, cleaned, strict=True)]

    async def end_others(self, tx: Transaction, rows: Sequence[Row]) -> None:
        """Take the chunks out of recall whose document was not taken over: the one of that name that is here stands."""
        orphans = await storage.chunks_of_none(tx, [row_id(row, "document_id") for row in rows])
        await knowledge_storage.end_chunks(tx, orphans, now=self.resources.clock())

    async def take_part(self, row: Mapping[str, Any]) -> int:
        """Read a part of a file; with the last one the file is kept, if its document stands here whole. How many were."""
        part, parts = whole_number(row, "part", least=1), whole_number(row, "parts", least=1)
        of = row_id(row, "document_id"), whole_number(row, "revision", least=1), parts
        if part != len(self._parts) + 1 or part > parts or (self._parts and of != self._of):
            raise InvalidInput(NOT_WHOLE, field="part")
        self._of = of
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
        if of[0] in self._masked:
            return 0
        return await self._keep(of[0], of[1], body, media_type=str(row.get("media_type")))

    def finish(self) -> None:
        if self._parts:
            raise InvalidInput(NOT_WHOLE, field="part")

    async def _keep(self, document_id: UUID, revision: int, body: bytes, *, media_type: str) -> int:
        async with self.resources.database.transaction(self.identity) as tx:
            if not await storage.lacks_file(tx, document_id, revision=revision):
                return 0
        object_key = None
        if len(body) > OBJECT_BYTES:
            owner = f"{self.identity.tenant_id}/{knowledge_storage.payload_key_of(document_id)}"
            object_key = await self.resources.get(Objects).put(body, owner=owner)
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
