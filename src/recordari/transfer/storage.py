"""Rows of exports and imports, as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from recordari.db.database import Transaction
from recordari.db.pipeline import LEAK_GUARD
from recordari.db.queries import Queries, Query
from recordari.errors import InvalidInput
from recordari.tenants.rules import SETTING as QUOTAS

queries = Queries(__name__)

EXPORTED: dict[str, Query] = {
    "tenant": queries.export_tenant,
    "user": queries.export_users,
    "agent": queries.export_agents,
    "source": queries.export_sources,
    "session": queries.export_sessions,
    "run": queries.export_runs,
    "turn_state": queries.export_turn_states,
    "item": queries.export_items,
    "evidence": queries.export_evidence,
    "note": queries.export_notes,
    "state_owner": queries.export_state_owners,
    "state": queries.export_state,
    "entry": queries.export_entries,
    "document": queries.export_documents,
    "chunk": queries.export_chunks,
    "file": queries.export_files,
    # After the items: facts that copy a source which was protected later are written, and then ended by a worker.
    "protected_source": queries.export_protected_sources,
    "feedback": queries.export_feedback,
    "hold": queries.export_holds,
    "question": queries.export_questions,
    "workflow": queries.export_workflows,
    "choice": queries.export_choices,
    "outcome": queries.export_outcomes,
    "proposal": queries.export_proposals,
    "report": queries.export_reports,
}
"""The types of rows in the order of an export: rows that others point to come first."""
OF_A_USER = frozenset(
    ["user", "session", "run", "turn_state", "item", "evidence", "note", "state_owner", "state", "entry", "feedback"]
)
"""The types of rows in the export of one user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One row, and its key in the order of its type."""

    key: str
    row: dict[str, Any]
    object_key: str | None = None
    """The object with the whole body of an item or document that is not in the database."""


async def export_page(tx: Transaction, kind: str, *, user_id: str | None, after: str, limit: int) -> list[Exported]:
    """A page of rows of one type after a key: of the tenant, or of one user."""
    if user_id is not None and kind not in OF_A_USER:
        return []
    rows = await tx.dicts(EXPORTED[kind], user_id=user_id, after=after, limit=limit, quotas=QUOTAS)
    return [Exported(**row) for row in rows]


_IMPORTED: dict[str, Query] = {
    "user": queries.import_users,
    "agent": queries.import_agents,
    "source": queries.import_sources,
    "session": queries.import_sessions,
    "run": queries.import_runs,
    "turn": queries.import_turns,
    "tool_call": queries.import_tool_calls,
    "turn_state": queries.import_turn_states,
    "evidence": queries.import_evidence,
    "access": queries.import_access,
    "note": queries.import_notes,
    "state_owner": queries.import_owners,
    "state": queries.import_state,
    "entry": queries.import_entries,
    "document": queries.import_documents,
    "chunk": queries.import_chunks,
    "protected_source": queries.import_protected_sources,
    "feedback": queries.import_feedback,
    "hold": queries.import_holds,
    "question": queries.import_questions,
    "choice": queries.import_choices,
    "outcome": queries.import_outcomes,
    "report": queries.import_reports,
}
_BEFORE = {"state": queries.import_state_owners}
"""The owners of new keys are written anew, so that no copy of their state in a cache stays valid."""
_AFTER = {"protected_source": queries.import_protected_texts}


async def sessions_of_hosts(tx: Transaction, session_ids: Sequence[str], *, user_id: str | None) -> set[str]:
    """Those of the sessions that the hooks of a coding agent have kept."""
    rows = await tx.dicts(queries.sessions_of_hosts, session_ids=list(session_ids), user_id=user_id)
    return {row["session_id"] for row in rows}


async def has_tombstones(tx: Transaction) -> bool:
    return bool(await tx.value(queries.has_tombstones))


async def import_rows(tx: Transaction, kind: str, rows: Sequence[Mapping[str, Any]], *, user_id: str | None) -> int:
    """Insert the rows of one type that do not exist yet, with a `user_id` only that user's; returns their number."""
    if not rows:
        return 0
    if query := _BEFORE.get(kind):
        await _run(tx, query, rows)
    count = await _run(tx, _IMPORTED[kind], rows, user_id=user_id)
    if query := _AFTER.get(kind):
        await _run(tx, query, rows)
    return count


async def import_tenant(tx: Transaction, *, language: str, settings: Mapping[str, Any]) -> int:
    """Set the language and settings of a tenant that has no settings and no memory yet; returns 1 if it did."""
    return await tx.run(queries.import_tenant, language=language, settings=Jsonb({**settings}), quotas=QUOTAS)


async def same_sources(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    sources = await _dicts(tx, queries.same_sources, rows)
    return {str(row["given"]): str(row["here"]) for row in sources}


async def import_items(tx: Transaction, rows: Sequence[Mapping[str, Any]], *, user_id: str | None) -> list[UUID]:
    return [row["item_id"] for row in await _dicts(tx, queries.import_items, rows, user_id=user_id)]


async def count_items(tx: Transaction, item_ids: Sequence[UUID]) -> int:
    return int(await tx.value(queries.count_items, item_ids=list(item_ids)))


async def chunks_of_none(tx: Transaction, document_ids: Sequence[UUID]) -> list[UUID]:
    rows = await tx.dicts(queries.chunks_of_none, document_ids=list(document_ids))
    return [row["item_id"] for row in rows]


async def lacks_file(tx: Transaction, document_id: UUID, *, revision: int) -> bool:
    """Whether a document exists whole at that revision and has no file; locked."""
    return bool(await tx.value(queries.lacks_file, document_id=document_id, revision=revision))


async def import_workflows(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> int:
    workflow_ids = [row["workflow_id"] for row in await _dicts(tx, queries.import_workflows, rows)]
    await _run(tx, queries.link_workflows, rows, workflow_ids=workflow_ids)
    return len(workflow_ids)


async def import_proposals(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> int:
    proposal_ids = [row["proposal_id"] for row in await _dicts(tx, queries.import_proposals, rows)]
    await _run(tx, queries.import_proposal_inputs, rows, proposal_ids=proposal_ids)
    return len(proposal_ids)


async def _run(tx: Transaction, query: Query, rows: Sequence[Mapping[str, Any]], **parameters: Any) -> int:
    with _refusing_rows():
        return await tx.run(query, rows=_of_tenant(tx, rows), **parameters)


async def _dicts(
    tx: Transaction, query: Query, rows: Sequence[Mapping[str, Any]], **parameters: Any
) -> list[dict[str, Any]]:
    with _refusing_rows():
        return await tx.dicts(query, rows=_of_tenant(tx, rows), **parameters)


@contextmanager
def _refusing_rows() -> Iterator[None]:
    """Turn the database's error about a row into `InvalidInput`, except the leak guard's, which every door knows."""
    try:
        yield
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.InsufficientPrivilege) as error:
        if error.diag.message_detail == LEAK_GUARD:
            raise
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            raise InvalidInput("a row of the export is another user's") from error
        raise InvalidInput("a row of the export has a value that cannot be") from error


def _of_tenant(tx: Transaction, rows: Sequence[Mapping[str, Any]]) -> Jsonb:
    # The tenant in the file does not count: rows are written into the tenant that imports them.
    return Jsonb([{**row, "tenant_id": str(tx.identity.tenant_id)} for row in rows])
