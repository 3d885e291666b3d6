"""Documents of an export on their way in: what privacy takes out of them, whose name is taken, and their files (K1, T6)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from recordari.core.identity import Identity
from recordari.core.items import Kind, NewItem
from recordari.db.database import Transaction
from recordari.errors import Forbidden, InvalidInput, TooLarge
from recordari.kit.resources import Resources
from recordari.knowledge import storage as knowledge_storage
from recordari.knowledge.sources import allowed_folder
from recordari.knowledge.storage import Original
from recordari.memory import storage as memory_storage
from recordari.memory.objects import Objects
from recordari.memory.remember import OBJECT_BYTES
from recordari.privacy.sanitise import sanitise_items
from recordari.transfer import storage
from recordari.transfer.import_checks import Row, decoded, row_id, whole_number

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
        """Documents without what the tenant does not want kept."""
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
        """Say that the export ended within a file, if it did."""
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
