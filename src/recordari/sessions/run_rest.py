"""Runs: start and end them, record their turns and tool calls, replay them exactly; and episodes."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from recordari.core.identity import Scope
from recordari.core.items import Item
from recordari.kit.rest import (
    MISMATCH,
    PROBLEMS,
    AgentCaller,
    Cursor,
    Limit,
    Moment,
    Page,
    Shown,
    Strict,
    client,
    id_position,
    page_of,
)
from recordari.memory.remember import Remembered
from recordari.sessions import episodes as episodes_verbs
from recordari.sessions import runs
from recordari.sessions import state as state_verbs
from recordari.sessions.rules.runs import MAX_ARGUMENT_BYTES, MOST_EPISODES_GIVEN, NewToolCall, RunStatus, Usage
from recordari.sessions.rules.state import LONGEST_TTL, OwnerKind

state_router = APIRouter(prefix="/v1/state", tags=["state"], responses=PROBLEMS)


class StateShown(Shown):
    """One key and its value."""

    key: str
    value: Any
    version: int
    updated_at: datetime
    expires_at: datetime | None


class StateRequest(Strict):
    """A value to keep; `if_version` 0 writes only where there is no such key yet."""

    value: Any
    ttl_seconds: int | None = Field(default=None, ge=1, le=int(LONGEST_TTL.total_seconds()))
    if_version: int | None = Field(default=None, ge=0)


Version = Annotated[int | None, Query(ge=0)]
Prefix = Annotated[str, Query(max_length=200)]


@state_router.put(
    "/{owner}/{owner_id}/{state_key:path}", operation_id="set_state", response_model=StateShown, responses=MISMATCH
)
async def set_state(
    caller: AgentCaller, owner: OwnerKind, owner_id: str, state_key: str, wanted: StateRequest
) -> object:
    """Keep JSON under a key; all keys of one owner have 128 KiB together."""
    ttl = timedelta(seconds=wanted.ttl_seconds) if wanted.ttl_seconds is not None else None
    return await state_verbs.set_state(
        *caller, state_key, wanted.value, owner=owner, owner_id=owner_id, ttl=ttl, if_version=wanted.if_version
    )


@state_router.get("/{owner}/{owner_id}", operation_id="list_state", response_model=list[StateShown])
async def list_state(caller: AgentCaller, owner: OwnerKind, owner_id: str, prefix: Prefix = "") -> object:
    """Every key that has not expired."""
    return await state_verbs.list_state(*caller, owner=owner, owner_id=owner_id, prefix=prefix)


@state_router.get("/{owner}/{owner_id}/{state_key:path}", operation_id="get_state", response_model=StateShown)
async def get_state(caller: AgentCaller, owner: OwnerKind, owner_id: str, state_key: str) -> object:
    """One key that has not expired."""
    return await state_verbs.get_state(*caller, state_key, owner=owner, owner_id=owner_id)


@state_router.delete(
    "/{owner}/{owner_id}/{state_key:path}", operation_id="delete_state", status_code=204, responses=MISMATCH
)
async def delete_state(
    caller: AgentCaller, owner: OwnerKind, owner_id: str, state_key: str, if_version: Version = None
) -> None:
    """Remove one key."""
    await state_verbs.delete_state(*caller, state_key, owner=owner, owner_id=owner_id, if_version=if_version)


MAX_CALLS = 200

runs_router = APIRouter(prefix="/v1/runs", tags=["runs"], responses=PROBLEMS)
episodes_router = APIRouter(prefix="/v1/episodes", tags=["episodes"], responses=PROBLEMS)


class UsageBody(Strict):
    """What a turn or a run cost."""

    tokens_in: int = Field(default=0, ge=0)
    tokens_out: int = Field(default=0, ge=0)
    cost: Decimal = Field(default=Decimal(0), ge=0, strict=False)

    def usage(self) -> Usage:
        """The same for the domain."""
        return Usage(tokens_in=self.tokens_in, tokens_out=self.tokens_out, cost=self.cost)


class RunShown(Shown):
    """A run."""

    run_id: str
    run_ref: UUID
    session_id: str
    user_id: str | None
    agent_id: str | None
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


class TurnShown(Shown):
    """One turn of a run."""

    number: int
    status: RunStatus
    episodes: list[UUID]
    prompt_tokens: int | None
    tokens_in: int
    tokens_out: int
    cost: Decimal
    error: str | None
    started_at: datetime
    ended_at: datetime | None


class StartedShown(Shown):
    """A turn just begun, and the agent's last episodes to begin with, oldest first."""

    run: RunShown
    turn: TurnShown
    episodes: list[Item]
    was_new: bool


class ToolCallShown(Shown):
    """A tool call in its place; `arguments` is the exact text that was recorded."""

    number: int
    call_id: str | None
    turn: int
    name: str
    arguments: str
    result: str | None
    result_id: UUID | None
    result_key: str | None
    result_bytes: int | None
    error: str | None
    latency_ms: float | None
    started_at: datetime


class ReplayShown(Shown):
    """A run from its first call to its last."""

    run: RunShown
    turns: list[TurnShown]
    calls: list[ToolCallShown]


class RunRequest(Strict):
    """A run to start."""

    run_id: str | None = Field(default=None, max_length=200)
    session_id: str | None = Field(default=None, max_length=200)
    input: dict[str, Any] | None = None
    episodes: int = Field(default=10, ge=0, le=MOST_EPISODES_GIVEN)
    currency: str = Field(default="USD", min_length=3, max_length=3)
    metadata: dict[str, Any] | None = None


class TurnRequest(Strict):
    """A turn to begin."""

    episodes: int = Field(default=10, ge=0, le=MOST_EPISODES_GIVEN)


class TurnEnd(Strict):
    """How a turn ended."""

    usage: UsageBody | None = None
    prompt_tokens: int | None = Field(default=None, ge=0)
    state: dict[str, Any] | None = None
    error: str | None = None


class RunEnd(Strict):
    """How a run ended well."""

    output: Any = None
    usage: UsageBody | None = None


class RunFailure(Strict):
    """How a run failed."""

    error: str = Field(min_length=1)
    output: Any = None
    usage: UsageBody | None = None


class ToolCallRequest(Strict):
    """A tool call to record; `arguments` is the JSON text that the model wrote, or a value."""

    name: str = Field(min_length=1, max_length=200)
    arguments: str | dict[str, Any] | list[Any] = Field(max_length=MAX_ARGUMENT_BYTES)
    result: str | None = None
    call_id: str | None = Field(default=None, max_length=200)
    number: int | None = Field(
        default=None, ge=1, description="Its place in the run; the same number again is the same call."
    )
    error: str | None = None
    latency_ms: float | None = Field(default=None, ge=0)
    started_at: Moment | None = None
    useful: bool = False


class ToolCallsRequest(Strict):
    """Tool calls in the order they were made."""

    calls: list[ToolCallRequest] = Field(min_length=1, max_length=MAX_CALLS)


class DelegationRequest(Strict):
    """What a task hands to the run that does it."""

    value: Any


class EpisodeRequest(Strict):
    """Something that the agent did."""

    content: str = Field(min_length=1)
    run_id: str | None = Field(default=None, max_length=200)
    session_id: str | None = Field(default=None, max_length=200)
    episode_id: str | None = Field(default=None, max_length=200)
    scope: Scope | None = Field(default=None, strict=False)
    event_time: Moment | None = None
    metadata: dict[str, Any] | None = None


Status = Annotated[RunStatus | None, Query()]
Name = Annotated[str | None, Query(max_length=200)]
When = Annotated[datetime | None, Query()]
Number = Annotated[int, Query(ge=1, le=MOST_EPISODES_GIVEN)]


@runs_router.post(
    "",
    operation_id="start_run",
    response_model=StartedShown,
    status_code=201,
    responses={200: {"model": StartedShown, "description": "It was started before."}},
)
async def start_run(caller: AgentCaller, wanted: RunRequest, response: Response) -> object:
    """Start a run and its first turn; the same `run_id` again is the same run."""
    started = await runs.start_run(*caller, **wanted.model_dump())
    if not started.was_new:
        response.status_code = 200
    return started


@runs_router.get(
    "", operation_id="list_runs", openapi_extra=client(part="items", cursor="before"), response_model=Page[RunShown]
)
async def list_runs(
    caller: AgentCaller,
    status: Status = None,
    agent_id: Name = None,
    session_id: Name = None,
    since: When = None,
    until: When = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """Runs, newest first."""
    found = await runs.list_runs(
        *caller,
        status=status,
        agent_id=agent_id,
        session_id=session_id,
        since=since,
        until=until,
        before=id_position(cursor),
        limit=limit + 1,
    )
    return page_of(found, limit, lambda run: run.run_ref)


@runs_router.get("/{run_id}", operation_id="get_run", response_model=RunShown)
async def get_run(caller: AgentCaller, run_id: str) -> object:
    """One run."""
    return await runs.get_run(*caller, run_id)


@runs_router.post("/{run_id}/turns", operation_id="start_turn", response_model=StartedShown, status_code=201)
async def start_turn(caller: AgentCaller, run_id: str, wanted: TurnRequest) -> object:
    """Begin the next turn with the agent's last episodes."""
    return await runs.start_turn(*caller, run_id, episodes=wanted.episodes)


@runs_router.post("/{run_id}/turns/end", operation_id="end_turn", response_model=TurnShown)
async def end_turn(caller: AgentCaller, run_id: str, end: TurnEnd) -> object:
    """End the present turn."""
    usage = end.usage.usage() if end.usage is not None else None
    return await runs.end_turn(
        *caller, run_id, usage=usage, prompt_tokens=end.prompt_tokens, state=end.state, error=end.error
    )


@runs_router.post("/{run_id}/complete", operation_id="complete_run", response_model=RunShown)
async def complete_run(caller: AgentCaller, run_id: str, end: RunEnd) -> object:
    """End a run well."""
    usage = end.usage.usage() if end.usage is not None else None
    return await runs.complete_run(*caller, run_id, output=end.output, usage=usage)


@runs_router.post("/{run_id}/fail", operation_id="fail_run", response_model=RunShown)
async def fail_run(caller: AgentCaller, run_id: str, end: RunFailure) -> object:
    """End a run that failed, and say why."""
    usage = end.usage.usage() if end.usage is not None else None
    return await runs.fail_run(*caller, run_id, error=end.error, output=end.output, usage=usage)


@runs_router.post("/{run_id}/tool_calls", operation_id="record_tool_calls", response_model=list[ToolCallShown])
async def record_tool_calls(caller: AgentCaller, run_id: str, wanted: ToolCallsRequest) -> object:
    """Append tool calls in the order given; one with the same `number` again is the same call."""
    return await runs.record_tool_calls(*caller, run_id, [NewToolCall(**call.model_dump()) for call in wanted.calls])


@runs_router.get("/{run_id}/replay", operation_id="replay_run", response_model=ReplayShown)
async def replay_run(caller: AgentCaller, run_id: str, results: bool = True) -> object:
    """Every turn and tool call in order, exactly as recorded."""
    return await runs.replay_run(*caller, run_id, results=results)


@runs_router.put("/{run_id}/delegated/{name}", operation_id="delegate", response_model=StateShown)
async def delegate(caller: AgentCaller, run_id: str, name: str, handed: DelegationRequest) -> object:
    """Hand something to a run; it lives as long as the run does."""
    return await state_verbs.delegate(*caller, name, handed.value, run_id=run_id)


@runs_router.get("/{run_id}/delegated", operation_id="delegated", response_model=dict[str, Any])
async def delegated(caller: AgentCaller, run_id: str) -> object:
    """What the run was handed, by name."""
    return await state_verbs.delegated(*caller, run_id=run_id)


@episodes_router.post("", operation_id="append_episode", response_model=Remembered, status_code=201)
async def append_episode(caller: AgentCaller, episode: EpisodeRequest) -> object:
    """Keep what the agent did."""
    return await episodes_verbs.append_episode(*caller, **episode.model_dump())


@episodes_router.get("/last", operation_id="last_episodes", response_model=list[Item])
async def last_episodes(caller: AgentCaller, limit: Number = 10) -> object:
    """The agent's last episodes, oldest first."""
    return await episodes_verbs.last_episodes(*caller, limit=limit)
