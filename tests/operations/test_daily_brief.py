"""The words of a daily brief: what happened, what needs a decision, and costs that are not rounded away."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

import pytest

from recordari.operations.rules import AgentRuns, Day, daily_brief, warnings_of, written_cost

QUIET = dict.fromkeys(
    [
        *("items", "episodes", "messages_new", "facts_new", "facts_superseded", "procedures_new", "users_seen"),
        *("sessions_open", "sessions_opened", "sessions_closed", "proposals_open", "sweeps_refused", "tool_calls"),
        *("runs_started", "runs_running", "runs_completed", "runs_failed", "tokens_in", "tokens_out"),
    ],
    0,
)


def brief_of(costs: Mapping[str, Decimal] | None = None, agents: tuple[AgentRuns, ...] = (), **counts: int) -> Day:
    return Day(
        tenant="shop",
        day=date(2026, 5, 2),
        counts={**QUIET, **counts},
        costs=costs or {},
        dead_letters=0,
        waiting=0,
        agents=agents,
    )


@pytest.mark.parametrize(
    ("cost", "written"),
    [
        ("12.5", "12.50"),
        ("1234.567", "1,234.57"),
        ("0.25", "0.25"),
        ("0.0042", "0.0042"),
        ("0.00000317", "0.0000032"),
        ("0", "0.00"),
    ],
)
def test_a_small_cost_keeps_the_digits_that_count(cost: str, written: str) -> None:
    assert written_cost(Decimal(cost)) == written


def test_a_quiet_day_says_so() -> None:
    body = daily_brief(brief_of())
    assert "## To look at\nNothing.\n" in body and "## Last 24 hours\nNothing happened.\n" in body


def test_what_happened_is_told_in_sentences() -> None:
    day = brief_of(
        {"EUR": Decimal("0.004"), "USD": Decimal(3)},
        (AgentRuns(agent_id="support", runs=4, failed=1), AgentRuns(agent_id="sdr", runs=1, failed=0)),
        sessions_opened=2,
        sessions_closed=1,
        users_seen=1,
        messages_new=31,
        facts_new=1,
        facts_superseded=2,
        runs_started=5,
        runs_completed=4,
        runs_failed=1,
        tool_calls=9,
    )
    assert daily_brief(day).partition("## Last 24 hours\n")[2].partition("\n\n")[0].splitlines() == [
        "- 2 sessions opened with 1 person and 1 closed; 31 messages.",
        "- 5 runs started (4 completed, 1 failed), with 9 tool calls.",
        "- Agents at work: support (4 runs, 1 failed), sdr (1 run).",
        "- Learnt: 1 fact and 0 procedures; 2 older facts ended.",
        "- Spent: 0 tokens in and 0 out; cost 0.0040 EUR and 3.00 USD.",
    ]


def test_proposals_and_refused_sweeps_are_to_be_looked_at() -> None:
    warnings = warnings_of(brief_of(proposals_open=1, sweeps_refused=2))
    assert warnings[0] == "1 proposal waits for a decision; list with `recordari proposals list`."
    assert warnings[1].startswith("The retention policy refused 2 sweeps")
