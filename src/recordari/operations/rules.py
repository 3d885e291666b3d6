"""The daily brief of a tenant, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.sessions.rules.runs import EPISODE_DAYS, MAX_EPISODES, WARN_EPISODES


class ReportKind(StrEnum):
    DAILY_BRIEF = "daily_brief"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    report_id: UUID
    kind: ReportKind
    day: date
    body: str
    figures: dict[str, Any]
    warnings: list[str]
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The figures of a daily brief; changes are those of the last 24 hours."""

    tenant: str
    day: date
    counts: Mapping[str, int]
    costs: Mapping[str, Decimal]
    dead_letters: int
    waiting: int
    quotas: Sequence[str] = ()
    """Limits of the plan that are nearly used."""


def warnings_of(day: Day) -> list[str]:
    warnings = [f"{quota}. Forget something, or ask for another plan." for quota in day.quotas]
    episodes = day.counts["episodes"]
    if episodes >= WARN_EPISODES:
        warnings.append(
            f"{episodes:,} of at most {MAX_EPISODES:,} episodes are stored. Above that the oldest are deleted; "
            f"all are deleted after {EPISODE_DAYS} days."
        )
    if day.dead_letters:
        warnings.append(
            f"{day.dead_letters:,} pieces of background work have failed. Look at the dead letters, remove the cause "
            "and replay them."
        )
    failed, ended = day.counts["runs_failed"], day.counts["runs_failed"] + day.counts["runs_completed"]
    if failed >= 5 and failed * 5 >= ended:
        warnings.append(f"{failed:,} of {ended:,} runs that ended have failed.")
    return warnings


def daily_brief(day: Day) -> str:
    counts, warnings = day.counts, warnings_of(day)
    costs = ", ".join(f"{cost:,.2f} {currency}" for currency, cost in day.costs.items()) or "none reported"
    lines = [
        f"# {day.tenant}: daily brief of {day.day.isoformat()}",
        "",
        "## To look at",
        *([f"- {warning}" for warning in warnings] or ["Nothing."]),
        "",
        "## Last 24 hours",
        f"- Sessions: {counts['sessions_opened']:,} opened, {counts['sessions_closed']:,} closed.",
        f"- Messages: {counts['messages_new']:,}.",
        (
            f"- Runs: {counts['runs_started']:,} started, of which {counts['runs_completed']:,} completed, "
            f"{counts['runs_failed']:,} failed and {counts['runs_running']:,} still running."
        ),
        f"- Tool calls: {counts['tool_calls']:,}.",
        f"- Tokens: {counts['tokens_in']:,} in, {counts['tokens_out']:,} out. Cost: {costs}.",
        "",
        "## Now",
        f"- Items: {counts['items']:,}. Open sessions: {counts['sessions_open']:,}.",
        f"- Episodes: {counts['episodes']:,} of {MAX_EPISODES:,} ({counts['episodes'] / MAX_EPISODES:.0%}).",
        f"- Background work: {day.waiting:,} waiting, {day.dead_letters:,} given up.",
    ]
    return "\n".join(lines) + "\n"
