"""Rows on their way out of a tenant, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recordari.db.database import Transaction
from recordari.db.queries import Queries, Query
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
    # After the items: a fact that was there before its source was protected is no copy made later.
    "protected_source": queries.export_protected_sources,
    "feedback": queries.export_feedback,
    "hold": queries.export_holds,
    "procedure": queries.export_procedures,
    "choice": queries.export_choices,
    "outcome": queries.export_outcomes,
    "proposal": queries.export_proposals,
    "report": queries.export_reports,
}
"""What an export holds, in the order it is written: what others point to comes first."""
OF_A_USER = frozenset(
    {
        "user",
        "session",
        "run",
        "turn_state",
        "item",
        "evidence",
        "note",
        "state_owner",
        "state",
        "entry",
        "feedback",
    }
)
"""What the export of one user holds; all else is the tenant's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One row, and its place in the order of its type."""

    key: str
    row: dict[str, Any]
    object_key: str | None = None
    """Where the whole body of an item or a document is, when it is not in the database."""


async def export_page(tx: Transaction, kind: str, *, user_id: str | None, after: str, limit: int) -> list[Exported]:
    """Some rows of one type after the place given: of the tenant, or of one user."""
    if user_id is not None and kind not in OF_A_USER:
        return []
    rows = await tx.dicts(EXPORTED[kind], user_id=user_id, after=after, limit=limit, quotas=QUOTAS)
    return [Exported(**row) for row in rows]
