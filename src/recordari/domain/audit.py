"""The exact record of what was changed, by whom and why: ids and reasons, never content."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID


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
