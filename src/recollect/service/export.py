"""Export and import of a tenant or of one user, as JSON Lines that round-trip (T6).

The first line is a header, `{"format": "recollect-export", "version": 1, "user_id": …, "exported_at": …}`. Every further
line is `{"type": …, "row": {…}}` with the columns of that type:

- `user`, `agent`, `session`, `note`: as they stand in the database;
- `run` with its `turn_log` and `tool_calls`;
- `item` with `evidence` (what it rests on) and `payload` (the whole body behind a preview, in Base64). Ids, times, validity
  and chains of supersession are kept; vectors and index columns are left out and made again;
- `state`, whose `value_text` is the JSON that was handed in;
- `entry`, with its document.

An import writes what is not here yet: done again it changes nothing. What was forgotten here stays forgotten, and so do
users who were erased. Where anything was forgotten, summaries of an older export could still tell it: they are left out and
made again from the messages.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from recollect.domain.identity import Identity, Scope, checked_choice, checked_id
from recollect.domain.items import MAX_CONTENT_BYTES, Kind, NewItem, Tier, Trust, checked_content
from recollect.errors import InvalidInput, RecollectError
from recollect.service.index import EMBED_TOPIC, derive
from recollect.service.messages import SUMMARISE_TOPIC
from recollect.service.remember import OBJECT_BYTES
from recollect.service.resources import Resources
from recollect.service.sanitise import sanitise_items
from recollect.service.streams import each
from recollect.service.tenants import require_admin
from recollect.storage import audit, exports, items, outbox
from recollect.storage.database import Transaction

FORMAT = "recollect-export"
VERSION = 1
PAGE = 500
BATCH = 200
MAX_LINE = 64 * 2**20
NO_SUMMARY: dict[str, Any] = {"summary": "", "summary_id": None, "summarised_to": 0, "folded_to": 0, "folds": []}

Lines = Iterable[str] | AsyncIterable[str]


@dataclass(slots=True, kw_only=True)
class Imported:
    """How much an import wrote, by type; and of items, how many were here and how many stay forgotten."""

    written: dict[str, int] = field(default_factory=dict)
    known_items: int = 0
    forgotten_items: int = 0


async def export(resources: Resources, identity: Identity, *, user_id: str | None = None) -> AsyncIterator[str]:
    """Everything of the tenant, or of one user, line by line; a user may export what is the user's own."""
    if user_id is None or identity.user_id != user_id:
        require_admin(identity)
    whose = checked_id("user_id", user_id) if user_id is not None else None
    async with resources.database.transaction(identity) as tx:
        subject = ("user", user_id) if user_id is not None else ("tenant", identity.tenant_id)
        await audit.record(tx, "export", *subject)
    header = {"format": FORMAT, "version": VERSION, "user_id": whose, "exported_at": resources.clock().isoformat()}
    yield json.dumps(header)
    for kind in exports.EXPORTED:
        after = ""
        while True:
            async with resources.database.transaction(identity) as tx:
                page = await exports.export_page(tx, kind, user_id=whose, after=after, limit=PAGE)
            for one in page:
                row = one.row
                if one.object_key is not None:
                    body = await resources.objects.get(one.object_key)
                    row = {**row, "payload": {**row["payload"], "body": base64.b64encode(body).decode()}}
                yield json.dumps({"type": kind, "row": row}, ensure_ascii=False)
            if len(page) < PAGE:
                break
            after = page[-1].key


async def import_export(resources: Resources, identity: Identity, lines: Lines) -> Imported:
    """Write what an export holds and this tenant does not."""
    require_admin(identity)
    importing = _Import(resources, identity)
    number = 0
    async for line in each(lines):
        number += 1
        try:
            await importing.take(line, number)
        except RecollectError as error:
            error.details.setdefault("line", number)
            raise
    if number == 0:
        raise InvalidInput("the export is empty")
    return await importing.finish()


class _Import:
    """One import on its way: lines of one type are gathered and written some at a time."""

    def __init__(self, resources: Resources, identity: Identity) -> None:
        self.resources = resources
        self.identity = identity
        self.done = Imported()
        self.kind = ""
        self.rows: list[dict[str, Any]] = []
        self.remakes_summaries = False

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
        if kind not in exports.EXPORTED or not isinstance(row, dict):
            raise InvalidInput(f"a line of the export has no type among {', '.join(exports.EXPORTED)}, or no row")
        if kind != self.kind or len(self.rows) >= BATCH:
            await self._flush()
            self.kind = kind
        self.rows.append(row)

    async def _begin(self, header: Mapping[str, Any]) -> None:
        if header.get("format") != FORMAT:
            raise InvalidInput("this is not an export of Recollect: its first line has another format")
        if header.get("version") != VERSION:
            raise InvalidInput(f"this version reads exports of version {VERSION} only")
        async with self.resources.database.transaction(self.identity) as tx:
            self.remakes_summaries = await exports.has_tombstones(tx)

    async def finish(self) -> Imported:
        await self._flush()
        async with self.resources.database.transaction(self.identity) as tx:
            await audit.record(tx, "import", "tenant", self.identity.tenant_id, written=self.done.written)
        self.resources.views.forget(self.identity.tenant_id)
        return self.done

    async def _flush(self) -> None:
        rows, self.rows = self.rows, []
        if not rows:
            return
        if self.kind == "item":
            await self._write_items(rows)
            return
        async with self.resources.database.transaction(self.identity) as tx:
            written = await self._write(tx, rows)
        self.done.written[self.kind] = self.done.written.get(self.kind, 0) + written

    async def _write(self, tx: Transaction, rows: list[dict[str, Any]]) -> int:
        if self.kind == "session" and self.remakes_summaries:
            rows = [{**row, **NO_SUMMARY} for row in rows]
            await outbox.add(tx, SUMMARISE_TOPIC, [_uuid(row, "session_ref") for row in rows])
            self.resources.wake(SUMMARISE_TOPIC)
        written = await exports.import_rows(tx, self.kind, rows)
        if self.kind == "run":
            await exports.import_rows(tx, "turn", [turn for row in rows for turn in row.get("turn_log", [])])
            await exports.import_rows(tx, "tool_call", [call for row in rows for call in row.get("tool_calls", [])])
        return written

    async def _write_items(self, rows: list[dict[str, Any]]) -> None:
        if self.remakes_summaries:
            left = [
                row for row in rows if row.get("kind") != Kind.SESSION_SUMMARY or row.get("tier") == Tier.PERSISTENT
            ]
        else:
            left = rows
        checked = [_checked(row) for row in left]
        ready = await self._indexed(checked)
        bodies = {_uuid(row, "item_id"): _body(row) for row in checked if row.get("payload")}
        async with self.resources.database.transaction(self.identity) as tx:
            written = await exports.import_items(tx, ready)
            known = await exports.count_items(tx, [_uuid(row, "item_id") for row in checked])
            await exports.import_rows(tx, "evidence", _evidence(checked))
            await outbox.add(tx, EMBED_TOPIC, written)
        for item_id in written:
            if item_id in bodies:
                await self._keep_body(item_id, *bodies[item_id])
        self.resources.wake(EMBED_TOPIC)
        self.done.written["item"] = self.done.written.get("item", 0) + len(written)
        self.done.known_items += known - len(written)
        self.done.forgotten_items += len(rows) - known

    async def _indexed(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows with personal data taken out as at any write, and with their index columns."""
        news = [
            NewItem(
                content=row["content"],
                kind=row["kind"],
                **{name: row.get(name) for name in ("speaker", "subject", "predicate", "object", "category")},
                metadata=row.get("metadata") or {},
            )
            for row in rows
        ]
        cleaned = await sanitise_items(self.resources, self.identity, news)
        view = await self.resources.views.get(self.resources.database, self.identity)
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
                    **row,
                    "content": clean.new.content,
                    **{
                        name: getattr(clean.new, name)
                        for name in ("speaker", "subject", "predicate", "object", "category")
                    },
                    "metadata": clean.new.metadata,
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
            object_key = await self.resources.objects.put(body, owner=f"{self.identity.tenant_id}/{payload_key}")
        async with self.resources.database.transaction(self.identity) as tx:
            await items.insert_payload(
                tx,
                item_id,
                payload_key,
                size=len(body),
                sha256=hashlib.sha256(body).digest(),
                body=None if object_key else body,
                object_key=object_key,
            )


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    """An item's row with everything found good that the database does not check by itself."""
    checked_choice("kind", Kind, row.get("kind", ""))
    checked_choice("scope", Scope, row.get("scope", ""))
    checked_choice("tier", Tier, row.get("tier", ""))
    checked_choice("trust", Trust, row.get("trust", ""))
    if len(checked_content(row.get("content", "")).encode()) > MAX_CONTENT_BYTES:
        raise InvalidInput(f"an item has at most {MAX_CONTENT_BYTES} bytes of content", field="content")
    for name in ("user_id", "agent_id", "session_id", "run_id"):
        if row.get(name) is not None:
            checked_id(name, row[name])
    for name in ("event_time", "created_at", "valid_at"):
        try:
            datetime.fromisoformat(row[name])
        except (KeyError, TypeError, ValueError):
            raise InvalidInput(f"an item of the export has no valid {name}", field=name) from None
    _uuid(row, "item_id")
    return row


def _uuid(row: Mapping[str, Any], name: str) -> UUID:
    try:
        return UUID(row[name])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidInput(f"a row of the export has no valid {name}", field=name) from None


def _body(row: Mapping[str, Any]) -> tuple[str, bytes]:
    try:
        return str(row["payload"]["payload_key"]), base64.b64decode(row["payload"]["body"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        raise InvalidInput("the payload of an item of the export cannot be read", field="payload") from None


def _evidence(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**link, "item_id": row["item_id"]} for row in rows for link in row.get("evidence", [])]
