"""Runs: one agent run, job or thread inside a session; its turns, its tool calls, what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field

from recordari.core.checks import check_moment, check_text, check_times, json_text
from recordari.core.described import DESCRIBED
from recordari.core.identity import AgentId, RunId, SessionId, UserId, checked_id
from recordari.core.items import Item
from recordari.errors import Conflict, InvalidInput

EPISODES_GIVEN = 10  # E2
MOST_EPISODES_GIVEN = 100
EPISODE_DAYS = 90  # E3
MAX_EPISODES = 100_000  # E3: of a tenant
WARN_EPISODES = 80_000  # E3
EPISODES_KEY = "episodes"
ABANDONED = "abandoned: its session was closed while it ran"
MAX_ERROR_CHARACTERS = 4_000
MAX_ARGUMENT_BYTES = 1024 * 1024


class RunStatus(StrEnum):
    """How a run or a turn stands."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """What a turn or a run cost."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        if self.tokens_in < 0 or self.tokens_out < 0 or not self.cost.is_finite() or self.cost < 0:
            raise InvalidInput("tokens and cost must not be negative", field="usage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run."""

    run_id: RunId
    run_ref: UUID
    session_id: SessionId
    user_id: UserId | None
    agent_id: AgentId | None
    status: RunStatus
    input: dict[str, Any]
    output: Any
    error: str | None
    tokens_in: int
    tokens_out: int
    cost: Decimal
    currency: str
    turns: int
    calls: int
    metadata: dict[str, Any]
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A row of the log: one turn of a run."""

    __pydantic_config__ = DESCRIBED

    number: int
    status: RunStatus
    episodes: tuple[UUID, ...]
    """The episodes that it began with."""
    prompt_tokens: int | None
    tokens_in: int
    tokens_out: int
    cost: Decimal
    error: str | None
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """Where the agent of a session stands: made at its first turn, renewed at the start and end of each."""

    session_id: SessionId
    run_id: RunId
    number: int
    status: RunStatus
    data: dict[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToolCall:
    """A tool call to record."""

    name: str
    arguments: str | Mapping[str, Any] | list[Any]
    """The exact JSON text that the model wrote, or a value that we write as JSON."""
    result: str | None = None
    call_id: str | None = None
    """As the model named it. Models do use a name twice in a run, so that nothing is told apart by it."""
    number: int | None = None
    """Its place in the run, from 1. Recorded again with the same number it is the same call; without, every record is
    another call."""
    error: str | None = None
    latency_ms: float | None = None
    started_at: datetime | None = None
    useful: bool = False
    """Whether the result is worth a note in the session."""

    @property
    def says_nothing(self) -> bool:
        """Whether there is no result, or a blank one."""
        return self.result is None or not self.result.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call of a run, in its place."""

    __pydantic_config__ = DESCRIBED

    number: int
    call_id: str | None
    turn: int
    name: str
    arguments: str
    """The exact text that was recorded."""
    result_id: UUID | None
    result_key: str | None
    result_bytes: int | None
    error: str | None
    latency_ms: float | None
    started_at: datetime
    result_sha256: Annotated[bytes | None, Field(exclude=True)] = None
    """No door shows it."""
    result: str | None = None
    """The whole result where it was asked for and is still kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedTurn:
    """A turn just begun, and the latest episodes of the agent to begin with, oldest first."""

    run: Run
    turn: Turn
    episodes: tuple[Item, ...] = ()
    was_new: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A run from its first call to its last."""

    run: Run
    turns: tuple[Turn, ...]
    calls: tuple[ToolCall, ...] = field(default_factory=tuple)


def run_input(given: Mapping[str, Any] | None, episodes: list[UUID]) -> dict[str, Any]:
    """A run's input with the episodes it was given, which have their own key."""
    if given is not None and EPISODES_KEY in given:
        raise InvalidInput(f"the key {EPISODES_KEY!r} of a run's input is filled in by us", field="input")
    return {**checked_json("input", dict(given or {})), EPISODES_KEY: [str(one) for one in episodes]}


def with_more_episodes(given: Mapping[str, Any], episodes: list[UUID]) -> dict[str, Any]:
    """A run's input after a further turn: every episode once, in the order they were given."""
    known = [*given.get(EPISODES_KEY, []), *map(str, episodes)]
    return {**given, EPISODES_KEY: list(dict.fromkeys(known))}


def check_end(run: Run, wanted: RunStatus) -> bool:
    """Whether a run is still to be ended that way; False when it was, `Conflict` when it ended otherwise."""
    if run.status is RunStatus.RUNNING:
        return True
    if run.status is wanted:
        return False
    raise Conflict(f"the run has {run.status} already; start another one")


def arguments_text(arguments: str | Mapping[str, Any] | list[Any]) -> str:
    """The JSON text of a call's arguments; text that a model wrote stays as it is, even if it is not valid JSON."""
    if not isinstance(arguments, str):
        arguments = json_text(dict(arguments) if isinstance(arguments, Mapping) else arguments, field="arguments")
    return checked_text("arguments", arguments, most_bytes=MAX_ARGUMENT_BYTES)


def checked_text(name: str, text: str, *, most_bytes: int | None = None) -> str:
    """Return text that a database can keep: valid Unicode, no U+0000, within the limit."""
    check_text(name, text)
    if most_bytes is not None and len(text.encode()) > most_bytes:
        raise InvalidInput(f"{name} must have at most {most_bytes} bytes", field=name)
    return text


def checked_json(name: str, value: Any) -> Any:
    """Return a value that can be kept as JSON."""
    json_text(value, field=name)
    return value


def checked_call(call: NewToolCall) -> NewToolCall:
    """Return a tool call whose fields can be kept."""
    checked_id("name", call.name)
    if call.call_id is not None:
        checked_id("call_id", call.call_id)
    if call.latency_ms is not None and not 0 <= call.latency_ms < 1e12:
        raise InvalidInput("latency_ms must be a time in milliseconds", field="latency_ms")
    check_times(started_at=call.started_at)
    if call.started_at is not None:
        check_moment("started_at", call.started_at)
    return call


def places_of(calls: Sequence[NewToolCall], recorded: int) -> list[int]:
    """The place of each call in a run that has so many: the one it names, or the next."""
    places, following = [], recorded + 1
    for call in calls:
        place = following if call.number is None else call.number
        if not 1 <= place <= following:
            raise Conflict(f"the next tool call of this run has the number {following}", field="number")
        following = max(following, place + 1)
        places.append(place)
    return places


def error_text(error: str) -> str:
    """What is kept of an error: its beginning."""
    return checked_text("error", error)[:MAX_ERROR_CHARACTERS]


def read_arguments(arguments: Any) -> Any:
    """Arguments as a value: masked as text, a number would no longer be JSON, and a name would say nothing."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    try:
        value = json.loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return arguments  # a list, or what the rules of calls refuse
    return value if isinstance(value, dict | list) else arguments
