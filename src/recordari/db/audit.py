"""The audit: the exact record of changes, with actor and reason, by id and never with content."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.checks import BEGINNING, END
from recordari.core.ids import LAST, new_id
from recordari.db.database import Transaction
from recordari.db.queries import Queries


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line of the audit."""

    audit_id: UUID
    at: datetime
    actor: str
    action: str
    subject_kind: str
    subject_id: str
    reason: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


queries = Queries(__name__)


async def record(
    tx: Transaction, action: str, subject_kind: str, subject_id: object, *, reason: str | None = None, **details: Any
) -> None:
    """Append an entry; `details` are ids and counts, never content."""
    await tx.run(
        queries.insert_entry,
        audit_id=new_id(),
        actor=tx.identity.actor,
        action=action,
        subject_kind=subject_kind,
        subject_id=str(subject_id),
        reason=reason,
        details=Jsonb(details),
    )


async def list_entries(
    tx: Transaction,
    *,
    actor: str | None,
    action: str | None,
    since: datetime | None,
    until: datetime | None,
    before: UUID | None,
    limit: int,
) -> list[AuditEntry]:
    filters = {"actor": actor, "action": action, "since": since or BEGINNING, "until": until or END}
    return await tx.all(queries.list_entries, AuditEntry, **filters, before=before or LAST, limit=limit)


async def list_entries_of(
    tx: Transaction, *, subject_kind: str, subject_id: str, before: UUID | None, limit: int
) -> list[AuditEntry]:
    return await tx.all(
        queries.list_entries_of,
        AuditEntry,
        subject_kind=subject_kind,
        subject_id=subject_id,
        before=before or LAST,
        limit=limit,
    )
