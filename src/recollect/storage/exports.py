"""Rows on their way out of a tenant and into another, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from recollect.errors import InvalidInput
from recollect.storage.database import Transaction
from recollect.storage.queries import Queries, Query

queries = Queries("exports")

EXPORTED: dict[str, Query] = {
    "user": queries.export_users,
    "agent": queries.export_agents,
    "session": queries.export_sessions,
    "run": queries.export_runs,
    "item": queries.export_items,
    "note": queries.export_notes,
    "state": queries.export_state,
    "entry": queries.export_entries,
}
"""What an export holds, in the order it is written: what others point to comes first."""
_IMPORTED: dict[str, tuple[Query, ...]] = {
    "user": (queries.import_users,),
    "agent": (queries.import_agents,),
    "session": (queries.import_sessions,),
    "run": (queries.import_runs,),
    "turn": (queries.import_turns,),
    "tool_call": (queries.import_tool_calls,),
    "note": (queries.import_notes,),
    "state": (queries.import_state_owners, queries.import_state),
    "entry": (queries.import_entries,),
    "evidence": (queries.import_evidence,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One row, and its place in the order of its type."""

    key: str
    row: dict[str, Any]
    object_key: str | None = None
    """Where the whole body of an item is, when it is not in the database."""


async def export_page(tx: Transaction, kind: str, *, user_id: str | None, after: str, limit: int) -> list[Exported]:
    """Some rows of one type after the place given: of the tenant, or of one user."""
    rows = await tx.dicts(EXPORTED[kind], user_id=user_id, after=after, limit=limit)
    return [Exported(**row) for row in rows]


async def has_tombstones(tx: Transaction) -> bool:
    """Whether the tenant has forgotten anything."""
    return bool(await tx.value(queries.has_tombstones))


async def import_rows(tx: Transaction, kind: str, rows: Sequence[Mapping[str, Any]]) -> int:
    """Write rows of one type that are not here yet; how many."""
    if not rows:
        return 0
    written = 0
    for query in _IMPORTED[kind]:
        written = await _run(tx, query, rows)
    return written


async def import_items(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> list[UUID]:
    """Write items that are not here yet and were not forgotten; which those were."""
    try:
        found = await tx.dicts(queries.import_items, rows=_of_tenant(tx, rows))
    except (psycopg.DataError, psycopg.errors.NotNullViolation, psycopg.errors.CheckViolation) as error:
        if getattr(error.diag, "constraint_name", None) == "items_leak_guard":
            raise
        raise InvalidInput("an item of the export has a value that cannot be") from error
    return [row["item_id"] for row in found]


async def count_items(tx: Transaction, item_ids: Sequence[UUID]) -> int:
    """How many of these items are here."""
    return int(await tx.value(queries.count_items, item_ids=list(item_ids)))


async def _run(tx: Transaction, query: Query, rows: Sequence[Mapping[str, Any]]) -> int:
    try:
        return await tx.run(query, rows=_of_tenant(tx, rows))
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        raise InvalidInput("a row of the export has a value that cannot be") from error


def _of_tenant(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> Jsonb:
    # Whatever a file says: rows are written into the tenant that imports them.
    return Jsonb([{**row, "tenant_id": str(tx.identity.tenant_id)} for row in rows])
