"""Routes of sessions, messages, notes, runs, episodes and state."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import ConfigDict, Field

from recordari.core.identity import Scope
from recordari.core.items import Item, Trust
from recordari.kit.rest import (
    MISMATCH,
    PROBLEMS,
    AgentCaller,
    Cursor,
    Limit,
    Moment,
    Page,
    Strict,
    client,
    id_position,
    number_position,
    page_of,
)
from recordari.memory.remember import Remembered
from recordari.sessions import episodes as episodes_verbs
from recordari.sessions import messages as messages_verbs
from recordari.sessions import runs, sessions
from recordari.sessions import state as state_verbs
from recordari.sessions.messages import Added
from recordari.sessions.rules.runs import (
    MAX_ARGUMENT_BYTES,
    MAX_TYPE,
    MOST_EPISODES_GIVEN,
    NewToolCall,
    Replay,
    Run,
    RunStatus,
    RunUsage,
    StartedTurn,
    ToolCall,
    Turn,
    TurnState,
)
from recordari.sessions.rules.sessions import NoteKind, Session, SessionNote, SessionStatus
from recordari.sessions.rules.state import LONGEST_TTL, OwnerKind, StateEntry
from recordari.sessions.rules.window import Message, MessageRole, NewMessage, Window, WindowState
from recordari.sessions.sessions import Opened, ResumedSession

MAX_CALLS = 200
MAX_MESSAGES = 500
WEEK = 7 * 24 * 3600

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=PROBLEMS)
runs_router = APIRouter(prefix="/v1/runs", tags=["runs"], responses=PROBLEMS)
episodes_router = APIRouter(prefix="/v1/episodes", tags=["episodes"], responses=PROBLEMS)
state_router = APIRouter(prefix="/v1/state", tags=["state"], responses=PROBLEMS)

Name = Annotated[str | None, Query(max_length=200)]


class SessionRequest(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"session_id": "chat-17"}]})

    session_id: str | None = Field(default=None, max_length=200)
    idle_seconds: int | None = Field(default=None, ge=60, le=520 * WEEK)
    metadata: dict[str, Any] | None = None


class MessageRequest(Strict):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content": "Where is my parcel?", "role": "user", "message_id": "m-1"}]}
    )

    content: str = Field(min_length=1)
    role: MessageRole = Field(default=MessageRole.USER, strict=False)
    message_id: str | None = Field(default=None, max_length=200)
    speaker: str | None = Field(default=None, max_length=200)
    event_time: Moment | None = None
    metadata: dict[str, Any] | None = None
    trust: Trust | None = Field(
        default=None, strict=False, description="Who carried the text here, if less trusted than the role."
    )


class MessagesRequest(Strict):
    """Messages to add in this order, all of them or none."""

    messages: list[MessageRequest] = Field(min_length=1, max_length=MAX_MESSAGES)
    scope: Scope | None = Field(default=None, strict=False, description="`user`: other sessions can recall them too.")
    prompt_tokens: int | None = Field(default=None, ge=0, description="Tokens of the last turn's prompt.")


class NoteRequest(Strict):
    content: str = Field(min_length=1, max_length=2_000)
    kind: NoteKind = Field(default=NoteKind.NOTE, strict=False)
    importance: float = Field(default=0.5, ge=0, le=1)


class UsageRequest(Strict):
    prompt_tokens: int = Field(ge=0)


OpenOrClosed = Annotated[SessionStatus | None, Query(description="Only open or only closed sessions.")]
After = Annotated[int, Query(ge=0, description="Messages after this position.")]
Until = Annotated[int | None, Query(ge=0, description="Messages up to this position.")]


@router.post(
    "",
    operation_id="open_session",
    status_code=201,
    responses={200: {"model": Opened, "description": "It was open already."}},
)
async def open_session(caller: AgentCaller, body: SessionRequest, response: Response) -> Opened:
    """Open the session with this id or create it; without an id, create one."""
    idle = timedelta(seconds=body.idle_seconds) if body.idle_seconds is not None else None
    opened = await sessions.open_session(*caller, body.session_id, idle=idle, metadata=body.metadata)
    if not opened.was_new:
        response.status_code = 200
    return opened


@router.get(
    "", operation_id="list_sessions", openapi_extra=client(part="items", cursor="before"), response_model=Page[Session]
)
async def list_sessions(
    caller: AgentCaller,
    status: OpenOrClosed = None,
    agent_id: Name = None,
    user_id: Name = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """List sessions, newest first."""
    rows = await sessions.list_sessions(
        *caller, status=status, agent_id=agent_id, user_id=user_id, before=id_position(cursor), limit=limit + 1
    )
    return page_of(rows, limit, lambda session: session.session_ref)


@router.get("/{session_id}", operation_id="get_session")
async def get_session(caller: AgentCaller, session_id: str) -> Session:
    """Read one session, open or closed."""
    return await sessions.get_session(*caller, session_id)


@router.post("/{session_id}/close", operation_id="close_session")
async def close_session(caller: AgentCaller, session_id: str) -> Session:
    """Close a session; later activity under its id opens a successor."""
    return await sessions.close_session(*caller, session_id)


@router.get("/{session_id}/resume", operation_id="resume_session")
async def resume_session(caller: AgentCaller, session_id: str) -> ResumedSession:
    """Resume a session from its summary, window and notes."""
    return await sessions.resume_session(*caller, session_id)


@router.post("/{session_id}/messages", operation_id="add_messages")
async def add_messages(caller: AgentCaller, session_id: str, body: MessagesRequest) -> Added:
    """Add messages; one sent again with the same `message_id` is the same message."""
    new = [NewMessage(**message.model_dump()) for message in body.messages]
    return await messages_verbs.add_messages(
        *caller, new, session_id=session_id, scope=body.scope, prompt_tokens=body.prompt_tokens
    )


LISTED = client(part="items")


@router.get("/{session_id}/messages", operation_id="list_messages", openapi_extra=LISTED, response_model=Page[Message])
async def list_messages(
    caller: AgentCaller,
    session_id: str,
    after: After = 0,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """List the messages of a session, oldest first."""
    start = number_position(cursor) if cursor is not None else after
    rows = await messages_verbs.list_messages(*caller, session_id, after=start or 0, until=until, limit=limit + 1)
    return page_of(rows, limit, lambda message: message.position)


@router.get("/{session_id}/window", operation_id="get_window")
async def get_window(caller: AgentCaller, session_id: str) -> Window:
    """The messages in the agent's window now."""
    return await messages_verbs.get_window(*caller, session_id)


@router.post("/{session_id}/usage", operation_id="report_usage")
async def report_usage(caller: AgentCaller, session_id: str, body: UsageRequest) -> WindowState:
    """Report how many tokens the last turn's prompt had; above 80 % of the model's context the window is compressed."""
    return await messages_verbs.report_usage(*caller, session_id, body.prompt_tokens)


@router.post("/{session_id}/notes", operation_id="add_note", status_code=201)
async def add_note(caller: AgentCaller, session_id: str, body: NoteRequest) -> SessionNote:
    """Add a note for the rest of a session."""
    return await sessions.add_note(*caller, session_id, **dict(body))


@router.get("/{session_id}/notes", operation_id="list_notes", openapi_extra=LISTED, response_model=Page[SessionNote])
async def list_notes(caller: AgentCaller, session_id: str) -> object:
    """List decisions, action items and other notes."""
    return {"items": await sessions.list_notes(*caller, session_id), "next_cursor": None}


@router.delete("/{session_id}/notes/{note_id}", operation_id="delete_note", status_code=204)
async def delete_note(caller: AgentCaller, session_id: str, note_id: UUID) -> None:
    """Remove a note that no longer applies, such as a task that is done."""
    await sessions.delete_note(*caller, session_id, note_id)


@router.get("/{session_id}/turn_state", operation_id="get_turn_state")
async def get_turn_state(caller: AgentCaller, session_id: str) -> TurnState:
    """Read the turn state of a session: its last turn and the data stored with it."""
    return await runs.get_turn_state(*caller, session_id)


class UsageBody(Strict):
    tokens_in: int = Field(default=0, ge=0)
    tokens_out: int = Field(default=0, ge=0)
    cost: Decimal = Field(default=Decimal(0), ge=0, strict=False)


class RunRequest(Strict):
    run_id: str | None = Field(default=None, max_length=200)
    session_id: str | None = Field(default=None, max_length=200)
    input: dict[str, Any] | None = None
    episodes: int = Field(default=10, ge=0, le=MOST_EPISODES_GIVEN)
    currency: str = Field(default="USD", min_length=3, max_length=3)
    metadata: dict[str, Any] | None = None


class TurnRequest(Strict):
    episodes: int = Field(default=10, ge=0, le=MOST_EPISODES_GIVEN)


class TurnEnd(Strict):
    usage: UsageBody | None = None
    prompt_tokens: int | None = Field(default=None, ge=0)
    state: dict[str, Any] | None = None
    error: str | None = None


class RunEnd(Strict):
    output: Any = None
    usage: UsageBody | None = None


class RunFailure(Strict):
    error: str = Field(min_length=1)
    output: Any = None
    usage: UsageBody | None = None


class ToolCallRequest(Strict):
    """A tool call to record; `arguments` is the JSON text that the model wrote, or a value."""

    name: str = Field(min_length=1, max_length=200)
    arguments: str | dict[str, Any] | list[Any] = Field(max_length=MAX_ARGUMENT_BYTES)
    result: Any = Field(default=None, description="Text, a JSON value, or bytes in Base64.")
    result_type: str | None = Field(
        default=None,
        max_length=MAX_TYPE,
        description="Its media type; not needed for text and JSON. Unless it is one of these, `result` is Base64.",
    )
    call_id: str | None = Field(default=None, max_length=200)
    number: int | None = Field(
        default=None, ge=1, description="Its position in the run; the same number again is the same call."
    )
    error: str | None = None
    latency_ms: float | None = Field(default=None, ge=0)
    started_at: Moment | None = None
    useful: bool = False


class ToolCallsRequest(Strict):
    """Tool calls in the order they were made."""

    calls: list[ToolCallRequest] = Field(min_length=1, max_length=MAX_CALLS)


class DelegationRequest(Strict):
    """A value that a task hands to its run."""

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


def _usage(body: UsageBody | None) -> RunUsage | None:
    return RunUsage(**dict(body)) if body is not None else None


@runs_router.post(
    "",
    operation_id="start_run",
    status_code=201,
    responses={200: {"model": StartedTurn, "description": "It was started before."}},
)
async def start_run(caller: AgentCaller, body: RunRequest, response: Response) -> StartedTurn:
    """Start a run and its first turn; the same `run_id` again is the same run."""
    started = await runs.start_run(*caller, **body.model_dump())
    if not started.was_new:
        response.status_code = 200
    return started


@runs_router.get(
    "", operation_id="list_runs", openapi_extra=client(part="items", cursor="before"), response_model=Page[Run]
)
async def list_runs(
    caller: AgentCaller,
    status: RunStatus | None = None,
    agent_id: Name = None,
    session_id: Name = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """List runs, newest first."""
    rows = await runs.list_runs(
        *caller,
        status=status,
        agent_id=agent_id,
        session_id=session_id,
        since=since,
        until=until,
        before=id_position(cursor),
        limit=limit + 1,
    )
    return page_of(rows, limit, lambda run: run.run_ref)


@runs_router.get("/{run_id}", operation_id="get_run")
async def get_run(caller: AgentCaller, run_id: str) -> Run:
    """Read one run."""
    return await runs.get_run(*caller, run_id)


@runs_router.post("/{run_id}/turns", operation_id="start_turn", status_code=201)
async def start_turn(caller: AgentCaller, run_id: str, body: TurnRequest) -> StartedTurn:
    """Begin the next turn with the agent's last episodes."""
    return await runs.start_turn(*caller, run_id, episodes=body.episodes)


@runs_router.post("/{run_id}/turns/end", operation_id="end_turn")
async def end_turn(caller: AgentCaller, run_id: str, body: TurnEnd) -> Turn:
    """End the current turn."""
    return await runs.end_turn(*caller, run_id, **dict(body) | {"usage": _usage(body.usage)})


@runs_router.post("/{run_id}/complete", operation_id="complete_run")
async def complete_run(caller: AgentCaller, run_id: str, body: RunEnd) -> Run:
    """End a run that succeeded."""
    return await runs.complete_run(*caller, run_id, output=body.output, usage=_usage(body.usage))


@runs_router.post("/{run_id}/fail", operation_id="fail_run")
async def fail_run(caller: AgentCaller, run_id: str, body: RunFailure) -> Run:
    """End a run that failed, and say why."""
    return await runs.fail_run(*caller, run_id, error=body.error, output=body.output, usage=_usage(body.usage))


@runs_router.post("/{run_id}/tool_calls", operation_id="record_tool_calls")
async def record_tool_calls(caller: AgentCaller, run_id: str, body: ToolCallsRequest) -> list[ToolCall]:
    """Append tool calls in this order; one with the same `number` again is the same call."""
    return await runs.record_tool_calls(*caller, run_id, [NewToolCall(**call.model_dump()) for call in body.calls])


@runs_router.get("/{run_id}/replay", operation_id="replay_run")
async def replay_run(caller: AgentCaller, run_id: str, results: bool = True) -> Replay:
    """Every turn and tool call of a run in order, exactly as recorded."""
    return await runs.replay_run(*caller, run_id, results=results)


@runs_router.put("/{run_id}/delegated/{name}", operation_id="delegate")
async def delegate(caller: AgentCaller, run_id: str, name: str, body: DelegationRequest) -> StateEntry:
    """Hand a value to a run; it stays until the run ends."""
    return await state_verbs.delegate(*caller, name, body.value, run_id=run_id)


@runs_router.get("/{run_id}/delegated", operation_id="delegated", response_model=dict[str, Any])
async def delegated(caller: AgentCaller, run_id: str) -> object:
    """All values that were handed to the run, by name."""
    return await state_verbs.delegated(*caller, run_id=run_id)


@episodes_router.post("", operation_id="append_episode", status_code=201)
async def append_episode(caller: AgentCaller, body: EpisodeRequest) -> Remembered:
    """Record something that the agent did."""
    return await episodes_verbs.append_episode(*caller, **body.model_dump())


@episodes_router.get("/last", operation_id="last_episodes")
async def last_episodes(
    caller: AgentCaller, limit: Annotated[int, Query(ge=1, le=MOST_EPISODES_GIVEN)] = 10
) -> list[Item]:
    """The agent's last episodes, oldest first."""
    return await episodes_verbs.last_episodes(*caller, limit=limit)


class StateRequest(Strict):
    """A value to store; `if_version` 0 writes only if there is no such key yet."""

    value: Any
    ttl_seconds: int | None = Field(default=None, ge=1, le=int(LONGEST_TTL.total_seconds()))
    if_version: int | None = Field(default=None, ge=0)


Version = Annotated[int | None, Query(ge=0)]
Prefix = Annotated[str, Query(max_length=200)]


@state_router.put("/{owner}/{owner_id}/{key:path}", operation_id="set_state", responses=MISMATCH)
async def set_state(caller: AgentCaller, owner: OwnerKind, owner_id: str, key: str, body: StateRequest) -> StateEntry:
    """Store JSON under a key; all keys of one owner have 128 KiB together."""
    ttl = timedelta(seconds=body.ttl_seconds) if body.ttl_seconds is not None else None
    return await state_verbs.set_state(
        *caller, key, body.value, owner=owner, owner_id=owner_id, ttl=ttl, if_version=body.if_version
    )


@state_router.get("/{owner}/{owner_id}", operation_id="list_state")
async def list_state(caller: AgentCaller, owner: OwnerKind, owner_id: str, prefix: Prefix = "") -> list[StateEntry]:
    """List the keys that have not expired."""
    return await state_verbs.list_state(*caller, owner=owner, owner_id=owner_id, prefix=prefix)


@state_router.get("/{owner}/{owner_id}/{key:path}", operation_id="get_state")
async def get_state(caller: AgentCaller, owner: OwnerKind, owner_id: str, key: str) -> StateEntry:
    """Read one key that has not expired."""
    return await state_verbs.get_state(*caller, key, owner=owner, owner_id=owner_id)


@state_router.delete("/{owner}/{owner_id}/{key:path}", operation_id="delete_state", status_code=204, responses=MISMATCH)
async def delete_state(
    caller: AgentCaller, owner: OwnerKind, owner_id: str, key: str, if_version: Version = None
) -> None:
    """Remove one key."""
    await state_verbs.delete_state(*caller, key, owner=owner, owner_id=owner_id, if_version=if_version)
