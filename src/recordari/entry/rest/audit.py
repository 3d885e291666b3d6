"""The audit: who changed what and why, by id."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from recordari.errors import InvalidInput
from recordari.kit.rest import PROBLEMS, AdminMemory, Cursor, Limit, Page, Shown, id_position, page_of

router = APIRouter(prefix="/v1/audit", tags=["audit"], responses=PROBLEMS)


class AuditShown(Shown):
    """One line of the audit."""

    audit_id: UUID
    at: datetime
    actor: str
    action: str = Field(examples=["key.create"])
    subject_kind: str = Field(examples=["key"])
    subject_id: str
    reason: str | None
    details: dict[str, Any]


SubjectKind = Annotated[str | None, Query(max_length=100, description="With `subject_id`: only of that subject.")]
SubjectId = Annotated[str | None, Query(max_length=200)]


@router.get("", operation_id="list_audit", response_model=Page[AuditShown])
async def list_audit(
    memory: AdminMemory,
    subject_kind: SubjectKind = None,
    subject_id: SubjectId = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """The audit, newest first."""
    if (subject_kind is None) != (subject_id is None):
        raise InvalidInput("give subject_kind and subject_id together", field="subject_id")
    rows = await memory.list_audit(
        subject_kind=subject_kind, subject_id=subject_id, before=id_position(cursor), limit=limit + 1
    )
    return page_of(rows, limit, lambda entry: entry.audit_id)
