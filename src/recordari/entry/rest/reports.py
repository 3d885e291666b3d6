"""Reports for people: the daily briefs of a tenant."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any
from uuid import UUID

from fastapi import APIRouter

from recordari.domain.reports import Report, ReportKind
from recordari.errors import InvalidInput
from recordari.kit.rest import PROBLEMS, AdminMemory, Cursor, Limit, Page, Shown, page_of, position

router = APIRouter(prefix="/v1/reports", tags=["reports"], responses=PROBLEMS)


class ReportShown(Shown):
    """A report as it was written."""

    report_id: UUID
    kind: ReportKind
    day: date
    body: str
    figures: dict[str, Any]
    warnings: list[str]
    created_at: datetime


@router.get("", operation_id="list_reports", response_model=Page[ReportShown])
async def list_reports(memory: AdminMemory, limit: Limit = 50, cursor: Cursor = None) -> object:
    """Daily briefs, newest first."""
    found = await memory.list_reports(before=_day(position(cursor)), limit=limit + 1)
    return page_of(found, limit, lambda report: report.day)


@router.post("/daily_brief", operation_id="make_daily_brief", response_model=ReportShown)
async def make_daily_brief(memory: AdminMemory) -> Report:
    """Write today's brief now instead of at its time."""
    return await memory.make_daily_brief()


@router.get("/{report_id}", operation_id="get_report", response_model=ReportShown)
async def get_report(memory: AdminMemory, report_id: UUID) -> Report:
    """One report."""
    return await memory.get_report(report_id)


def _day(written: str | None) -> date | None:
    try:
        return date.fromisoformat(written) if written is not None else None
    except ValueError:
        raise InvalidInput("this is not a cursor; take `next_cursor` of a page", field="cursor") from None
