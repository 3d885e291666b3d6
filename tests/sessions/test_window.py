"""The window: a bound of tokens that always holds, and a prefix that seldom changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordari.core.identity import Scope, SessionId
from recordari.core.tokens import cut_to_tokens, estimated_tokens, message_tokens
from recordari.sessions.rules.sessions import Session, SessionStatus, session_policy
from recordari.sessions.rules.window import (
    CUT,
    HINT,
    Message,
    MessageRole,
    compresses,
    role_named,
    role_of,
    slid_to,
    window_limit,
    window_of,
)

NOW = datetime(2026, 5, 2, tzinfo=UTC)
SESSION = Session(
    session_id=SessionId("s"),
    session_ref=UUID(int=1),
    root_id=SessionId("s"),
    continues=None,
    user_id=None,
    agent_id=None,
    status=SessionStatus.OPEN,
    close_reason=None,
    idle_seconds=3600,
    notes_seconds=3600,
    window_share=0.5,
    metadata={},
    opened_at=NOW,
    active_at=NOW,
    closed_at=None,
    messages=0,
    window_from=1,
    window_tokens=0,
    epoch=0,
    epoch_from=None,
    epoch_to=None,
    prompt_tokens=None,
    summary="",
    summary_id=None,
    summarised_to=0,
    folded_to=0,
)


def message(position: int, content: str = "a few words") -> Message:
    return Message(
        item_id=UUID(int=position),
        position=position,
        role=MessageRole.USER,
        speaker="user",
        content=content,
        tokens=message_tokens(content),
        scope=Scope.SESSION,
        event_time=NOW,
        payload_key=None,
        message_id=None,
    )


@given(st.lists(st.integers(1, 400), min_size=1, max_size=80), st.integers(1, 600))
def test_sliding_keeps_the_newest_and_frees_room(sizes: list[int], limit: int) -> None:
    entries = [(place, min(size, limit)) for place, size in enumerate(sizes, start=1)]
    first, left = slid_to(entries, limit)
    assert 1 <= first <= len(sizes)
    assert left == sum(size for place, size in entries if place >= first)
    assert left <= max(int(limit * 0.6), entries[-1][1])


@given(st.lists(st.text(max_size=300), max_size=40), st.integers(20, 400))
def test_the_window_never_exceeds_its_bound_and_shows_the_newest(texts: list[str], limit: int) -> None:
    messages = [message(place, text) for place, text in enumerate(texts, start=1)]
    window = window_of(SESSION, messages, limit=limit)
    assert window.state.tokens == sum(one.tokens for one in window.messages) <= limit
    assert sum(message_tokens(one.content) for one in window.messages) <= limit
    if messages:
        assert window.messages[-1].position == messages[-1].position
    assert [one.position for one in window.messages] == sorted(one.position for one in window.messages)


def test_a_message_larger_than_the_window_is_shown_cut() -> None:
    window = window_of(SESSION, [message(1, "word " * 5_000)], limit=100)
    (shown,) = window.messages
    assert shown.content.endswith(CUT) and message_tokens(shown.content) <= 100


def test_the_active_tail_is_twenty_messages() -> None:
    window = window_of(SESSION, [message(place) for place in range(1, 41)], limit=10_000)
    assert [one.position for one in window.active] == list(range(21, 41))
    assert len(window.messages) == 40 and window.state.hint is None


def test_in_an_epoch_the_tail_grows_only_at_its_end() -> None:
    session = replace(SESSION, epoch=1, epoch_from=37, epoch_to=40)
    began = window_of(session, [message(place) for place in range(1, 41)], limit=10_000)
    later = window_of(session, [message(place) for place in range(1, 71)], limit=10_000)
    assert [one.position for one in began.active] == [37, 38, 39, 40]
    assert later.active[:4] == began.active and len(later.active) == 34
    assert began.state.compressed and began.state.hint == HINT and "`recall`" in HINT


@pytest.mark.parametrize(
    ("prompt_tokens", "last", "begins"), [(800, 50, False), (801, 50, True), (801, 40, False), (5000, 41, True)]
)
def test_an_epoch_begins_above_eighty_percent_and_once_for_the_same_messages(
    prompt_tokens: int, last: int, begins: bool
) -> None:
    session = replace(SESSION, epoch=1, epoch_from=37, epoch_to=40)
    assert compresses(session, prompt_tokens=prompt_tokens, model_tokens=1_000, last=last) is begins


def test_the_window_is_a_share_of_the_models() -> None:
    assert window_limit(128_000, 0.5) == 64_000
    assert window_limit(1, 0.01) == 1


def test_a_role_comes_from_the_carrier_when_nothing_else_says_it() -> None:
    assert role_of("agent", {}) is MessageRole.ASSISTANT
    assert role_of("agent", {"role": "system"}) is MessageRole.SYSTEM
    assert role_of("document", {"role": "nonsense"}) is MessageRole.TOOL
    assert role_of("external", {"role": "user"}) is MessageRole.TOOL
    assert role_of("user", {"role": "assistant"}) is MessageRole.USER


def test_an_unknown_role_of_another_system_is_nobodys_word() -> None:
    names = ("user", "Human", "ai", "model", "developer", "function", "norole", "")
    assert [role_named(name) for name in names] == ["user", "user", "assistant", "assistant", "system", *["tool"] * 3]


@given(st.text(max_size=500))
def test_more_text_never_costs_fewer_tokens(text: str) -> None:
    assert estimated_tokens(text + "more") >= estimated_tokens(text)
    assert (estimated_tokens(text) == 0) == (text == "")


@given(st.text(max_size=500), st.integers(1, 60))
def test_cut_text_is_a_beginning_within_the_limit(text: str, limit: int) -> None:
    cut = cut_to_tokens(text, limit)
    assert text.startswith(cut) and estimated_tokens(cut) <= limit


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog.", 9, 14),
        ('{"flight_number":"HAT136","date":"2024-05-20","price":250}', 18, 36),
        ("今日は天気がいいので散歩に行きましょう。", 16, 30),
        ("Привет, как твои дела сегодня вечером?", 9, 25),
    ],
)
def test_estimates_are_of_the_right_size(text: str, least: int, most: int) -> None:
    assert least <= estimated_tokens(text) <= most


def test_a_policy_that_makes_no_sense_has_its_defaults() -> None:
    assert session_policy({"sessions": {"idle_hours": -1, "window_share": 7, "agents": 3}}) == session_policy({})
    assert session_policy({"sessions": "x"}) == session_policy({})


def test_the_idle_limit_is_the_agents_then_the_operators_then_the_tenants() -> None:
    policy = session_policy({"sessions": {"idle_hours": 2, "agents": {"ops": 5}, "operators": ["ana"]}})
    hours = [
        policy.idle_limit(user_id=user, agent_id=agent).total_seconds() / 3600
        for user, agent in [("ana", "ops"), ("ana", "sdr"), ("bob", "sdr"), (None, None)]
    ]
    assert hours == [5, 720, 2, 2]
