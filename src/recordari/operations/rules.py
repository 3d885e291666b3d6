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

MOST_AGENTS = 5  # named in a brief


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
class AgentRuns:
    agent_id: str
    runs: int
    failed: int


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
    agents: Sequence[AgentRuns] = ()
    """The agents with the most runs."""


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
    if waiting := day.counts["proposals_open"]:
        said = "proposal waits" if waiting == 1 else "proposals wait"
        warnings.append(f"{waiting:,} {said} for a decision; list with `recordari proposals list`.")
    if refused := day.counts["sweeps_refused"]:
        warnings.append(
            f"The retention policy refused {_counted(refused, 'sweep')}, because too much would have ended at once. Look at a "
            "dry run, then sweep with force, or change the policy."
        )
    failed, ended = day.counts["runs_failed"], day.counts["runs_failed"] + day.counts["runs_completed"]
    if failed >= 5 and failed * 5 >= ended:
        warnings.append(f"{failed:,} of {ended:,} runs that ended have failed.")
    return warnings


def daily_brief(day: Day) -> str:
    counts, warnings = day.counts, warnings_of(day)
    lines = [
        f"# {day.tenant}: daily brief of {day.day.isoformat()}",
        "",
        "## To look at",
        *([f"- {warning}" for warning in warnings] or ["Nothing."]),
        "",
        "## Last 24 hours",
        *_happened(day),
        "",
        "## Now",
        f"- Items: {counts['items']:,}. Open sessions: {counts['sessions_open']:,}.",
        f"- Episodes: {counts['episodes']:,} of {MAX_EPISODES:,} ({counts['episodes'] / MAX_EPISODES:.0%}).",
        f"- Background work: {day.waiting:,} waiting, {day.dead_letters:,} given up.",
    ]
    return "\n".join(lines) + "\n"


def _happened(day: Day) -> list[str]:
    """What happened, in sentences; a subject without anything to tell is left out."""
    counts = day.counts
    lines = []
    if counts["messages_new"] or counts["sessions_opened"] or counts["sessions_closed"]:
        people = f" with {_counted(counts['users_seen'], 'person', 'people')}" if counts["users_seen"] else ""
        lines.append(
            f"- {_counted(counts['sessions_opened'], 'session')} opened{people} and {counts['sessions_closed']:,} closed; "
            f"{_counted(counts['messages_new'], 'message')}."
        )
    if counts["runs_started"]:
        ended = [
            f"{counts[name]:,} {said}"
            for name, said in (
                ("runs_completed", "completed"),
                ("runs_failed", "failed"),
                ("runs_running", "still running"),
            )
            if counts[name]
        ]
        lines.append(
            f"- {_counted(counts['runs_started'], 'run')} started ({', '.join(ended)}), with "
            f"{_counted(counts['tool_calls'], 'tool call')}."
        )
    if day.agents:
        lines.append(f"- Agents at work: {', '.join(_agent(agent) for agent in day.agents)}.")
    if counts["facts_new"] or counts["procedures_new"]:
        replaced = f"; {_counted(counts['facts_superseded'], 'older fact')} ended" if counts["facts_superseded"] else ""
        lines.append(
            f"- Learnt: {_counted(counts['facts_new'], 'fact')} and "
            f"{_counted(counts['procedures_new'], 'procedure')}{replaced}."
        )
    costs = " and ".join(f"{written_cost(cost)} {currency}" for currency, cost in day.costs.items())
    if counts["tokens_in"] or counts["tokens_out"] or costs:
        lines.append(
            f"- Spent: {counts['tokens_in']:,} tokens in and {counts['tokens_out']:,} out; cost {costs or 'not reported'}."
        )
    return lines or ["Nothing happened."]


def _agent(agent: AgentRuns) -> str:
    failed = f", {agent.failed:,} failed" if agent.failed else ""
    return f"{agent.agent_id} ({_counted(agent.runs, 'run')}{failed})"


def _counted(number: int, singular: str, plural: str | None = None) -> str:
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def written_cost(cost: Decimal) -> str:
    """A cost with two digits after the point, or with as many as it takes to show two that count."""
    digits = max(2, 1 - cost.adjusted()) if cost and cost < 1 else 2
    return f"{cost:,.{digits}f}"
