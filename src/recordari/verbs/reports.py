"""How memory fares: daily briefs, figures, and how much of the plan is used."""

from __future__ import annotations

from datetime import date
from uuid import UUID

from recordari.operations import reports
from recordari.operations import reports as operations_reports
from recordari.operations.reports import Stats
from recordari.operations.rules import Report
from recordari.tenants import usage
from recordari.tenants.usage import QuotaStanding
from recordari.verbs.bound import Bound


class ReportVerbs(Bound):
    """The verbs of reports and figures."""

    async def make_daily_brief(self) -> Report:
        """Write today's brief of the tenant now instead of at its time."""
        return await reports.make_daily_brief(self.resources, self.identity)

    async def list_reports(self, *, before: date | None = None, limit: int = 50) -> list[Report]:
        """Daily briefs, newest first."""
        return await reports.list_reports(self.resources, self.identity, before=before, limit=limit)

    async def get_report(self, report_id: UUID) -> Report:
        """One report."""
        return await reports.get_report(self.resources, self.identity, report_id)

    async def memory_stats(self) -> Stats:
        """What the tenant's memory holds, what waits and what was given up."""
        return await operations_reports.memory_stats(self.resources, self.identity)

    async def quota_standing(self) -> QuotaStanding:
        """How much of its plan the tenant uses."""
        return await usage.quota_standing(self.resources, self.identity)
