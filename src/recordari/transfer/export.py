"""Exports a tenant or one user as JSON Lines that an import reads again (T6); docs/export.md describes each type.

The first line is a header, `{"format": "recordari-export", "version": 3, "user_id": …, "exported_at": …}`. Every further
line is `{"type": …, "row": {…}}` with the columns of that type; ids, times, validity and chains of supersession are kept.
Derived data (vectors, index columns, entities, profiles, counts) is left out and made again. Secrets (keys, webhooks, DSNs
of databases, the salt of tombstones) and the audit are never exported.

- `item` has `payload` (the whole body behind a preview, in Base64) and `access` (how often it was recalled);
- `run` has its `turn_log` and `tool_calls`, `proposal` the `items` it is about, as they were then;
- `state` and `workflow` have their JSON as the saved text (`value_text`, `spec_text`);
- `workflow` has its prior (`prior_alpha`, `prior_beta`), which the `outcome` lines update;
- `file` is a part of the original of a document, in Base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from recordari.core.identity import Identity, checked_id
from recordari.db import audit
from recordari.kit.resources import Resources
from recordari.memory.objects import Objects
from recordari.recall.accesses import AccessCounts
from recordari.tenants.tenants import require_admin
from recordari.transfer import storage
from recordari.transfer.storage import Exported

FORMAT = "recordari-export"
VERSION = 3
PAGE = 500
FILES = 20  # of a page: each may be as large as a body in the database
PART = 6 * 2**20  # bytes of a file in one line


async def export(resources: Resources, identity: Identity, *, user_id: str | None = None) -> AsyncIterator[str]:
    """Export the tenant or one user, line by line; without the role admin you can export only your own user."""
    if user_id is None or identity.user_id != user_id:
        require_admin(identity)
    exported_id = checked_id("user_id", user_id) if user_id is not None else None
    async with resources.database.transaction(identity) as tx:
        subject = ("user", user_id) if user_id is not None else ("tenant", identity.tenant_id)
        await audit.record(tx, "export", *subject)
    await resources.get(AccessCounts).flush()
    exported_at = resources.clock().isoformat()
    yield json.dumps({"format": FORMAT, "version": VERSION, "user_id": exported_id, "exported_at": exported_at})
    for kind in storage.EXPORTED:
        after, limit = "", FILES if kind == "file" else PAGE
        while True:
            async with resources.database.transaction(identity) as tx:
                page = await storage.export_page(tx, kind, user_id=exported_id, after=after, limit=limit)
            for exported in page:
                for row in _parts(kind, await _with_body(resources, kind, exported)):
                    yield json.dumps({"type": kind, "row": row}, ensure_ascii=False)
            if len(page) < limit:
                break
            after = page[-1].key


async def _with_body(resources: Resources, kind: str, exported: Exported) -> dict[str, Any]:
    row = exported.row
    if exported.object_key is None:
        return row
    body = base64.b64encode(await resources.get(Objects).get(exported.object_key)).decode()
    return {**row, "body": body} if kind == "file" else {**row, "payload": {**row["payload"], "body": body}}


def _parts(kind: str, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The row, or a file in parts that each fit a line."""
    if kind != "file":
        yield row
        return
    body, step = row["body"], PART * 4 // 3
    parts = max(1, -(-len(body) // step))
    for part in range(parts):
        yield {**row, "part": part + 1, "parts": parts, "body": body[part * step : (part + 1) * step]}
