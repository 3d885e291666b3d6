"""Sessions: open, resume and close them; their messages, window and notes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import ConfigDict, Field

from recordari.core.identity import Scope
from recordari.core.items import Trust
from recordari.kit.rest import (
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
from recordari.sessions import messages as messages_verbs
from recordari.sessions import runs, sessions
from recordari.sessions.rules.sessions import CloseReason, NoteKind, SessionStatus
from recordari.sessions.rules.window import MessageRole, NewMessage

MAX_MESSAGES = 500
WEEK = 7 * 24 * 3600

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=PROBLEMS)


class FoldShown(Shown):
    """A lasting summary of messages that fell out of the window, and the places it covers."""

    summary_id: UUID
    first: int
    last: int


class SessionShown(Shown):
    """A session as it stands."""

    session_id: str = Field(examples=["chat-17"])
    session_ref: UUID
    root_id: str = Field(description="The first session of its line.")
    continues: str | None = Field(description="The closed session that it goes on from.")
    user_id: str | None
    agent_id: str | None
    status: SessionStatus
    close_reason: CloseReason | None
    idle_seconds: int
    notes_seconds: int
    window_share: float
    metadata: dict[str, Any]
    opened_at: datetime
    active_at: datetime
    closed_at: datetime | None
    messages: int
    window_from: int
    window_tokens: int
    epoch: int
    epoch_from: int | None
    epoch_to: int | None
    prompt_tokens: int | None
    summary: str
    summary_id: UUID | None
    summarised_to: int
    folded_to: int
    folds: list[FoldShown]


class OpenedShown(Shown):
    """The session to work in, and whether it was made just now."""

    session: SessionShown
    was_new: bool


class SessionRequest(Strict):
    """A session to open."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"session_id": "chat-17"}]})

    session_id: str | None = Field(default=None, max_length=200)
    idle_seconds: int | None = Field(default=None, ge=60, le=520 * WEEK)
    metadata: dict[str, Any] | None = None


class MessageRequest(Strict):
    """A message to add."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content": "Where is my parcel?", "role": "user", "message_id": "m-1"}]}
    )

    content: str = Field(min_length=1)
    role: MessageRole = Field(default=MessageRole.USER, strict=False)
    message_id: str | None = Field(default=None, max_length=200)
    name: str | None = Field(default=None, max_length=200)
    at: Moment | None = None
    metadata: dict[str, Any] | None = None


class MessagesRequest(Strict):
    """Messages to add in this order, all of them or none."""

    messages: list[MessageRequest] = Field(min_length=1, max_length=MAX_MESSAGES)
    scope: Scope | None = Field(
        default=None, strict=False, description="`user`: can be recalled in other sessions too."
    )
    prompt_tokens: int | None = Field(default=None, ge=0, description="Tokens of the last turn's prompt.")


class WindowStateShown(Shown):
    """How full the window is, and what has left it."""

    session_id: str
    first: int
    tokens: int
    limit: int
    epoch: int
    compressed: bool
    hint: str | None
    folds: list[FoldShown]


class AddedShown(Shown):
    """Where messages were kept, and how full the window is now."""

    session_id: str
    messages: list[Remembered]
    window: WindowStateShown


class MessageShown(Shown):
    """A message as it was kept."""

    item_id: UUID
    position: int
    role: MessageRole
    speaker: str | None
    content: str
    tokens: int
    scope: Scope
    event_time: datetime
    payload_key: str | None
    message_id: str | None
    summary_id: UUID | None
    trust: Trust
    metadata: dict[str, Any]


class WindowShown(Shown):
    """The messages in the window, and the tail of them that belongs in the prompt."""

    state: WindowStateShown
    messages: list[MessageShown]
    active: list[MessageShown]


class NoteShown(Shown):
    """A note of a session."""

    note_id: UUID
    kind: NoteKind
    content: str
    importance: float
    item_id: UUID | None
    created_at: datetime


class TurnStateShown(Shown):
    """Where the agent of a session stands."""

    session_id: str
    run_id: str
    number: int
    status: str
    data: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class ResumedShown(Shown):
    """Everything to go on from, without a replay of what was said."""

    session: SessionShown
    summary: str
    carried_over: str
    window: WindowShown
    notes: list[NoteShown]
    turn_state: TurnStateShown | None


class NoteRequest(Strict):
    """A note to keep for the rest of a session."""

    content: str = Field(min_length=1, max_length=2_000)
    kind: NoteKind = Field(default=NoteKind.NOTE, strict=False)
    importance: float = Field(default=0.5, ge=0, le=1)


class UsageRequest(Strict):
    """How large the last turn's prompt was."""

    prompt_tokens: int = Field(ge=0)


Status = Annotated[SessionStatus | None, Query(description="Only open or only closed ones.")]
Owner = Annotated[str | None, Query(max_length=200)]
After = Annotated[int, Query(ge=0, description="Messages after this place.")]
Until = Annotated[int | None, Query(ge=0, description="Messages up to this place.")]


@router.post(
    "",
    operation_id="open_session",
    response_model=OpenedShown,
    status_code=201,
    responses={200: {"model": OpenedShown, "description": "It was open already."}},
)
async def open_session(caller: AgentCaller, wanted: SessionRequest, response: Response) -> object:
    """Open the session of that id or make it; without an id, make one."""
    opened = await sessions.open_session(
        *caller,
        wanted.session_id,
        idle_limit=timedelta(seconds=wanted.idle_seconds) if wanted.idle_seconds is not None else None,
        metadata=wanted.metadata,
    )
    if not opened.was_new:
        response.status_code = 200
    return opened


@router.get(
    "",
    operation_id="list_sessions",
    openapi_extra=client(part="items", cursor="before"),
    response_model=Page[SessionShown],
)
async def list_sessions(
    caller: AgentCaller,
    status: Status = None,
    agent_id: Owner = None,
    user_id: Owner = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """Sessions, newest first."""
    found = await sessions.list_sessions(
        *caller, status=status, agent_id=agent_id, user_id=user_id, before=id_position(cursor), limit=limit + 1
    )
    return page_of(found, limit, lambda session: session.session_ref)


@router.get("/{session_id}", operation_id="get_session", response_model=SessionShown)
async def get_session(caller: AgentCaller, session_id: str) -> object:
    """One session, open or closed."""
    return await sessions.get_session(*caller, session_id)


@router.post("/{session_id}/close", operation_id="close_session", response_model=SessionShown)
async def close_session(caller: AgentCaller, session_id: str) -> object:
    """Close a session; activity under its id goes on in a successor."""
    return await sessions.close_session(*caller, session_id)


@router.get("/{session_id}/resume", operation_id="resume_session", response_model=ResumedShown)
async def resume_session(caller: AgentCaller, session_id: str) -> object:
    """Take a session up again from its summary, window and notes."""
    return await sessions.resume_session(*caller, session_id)


@router.post("/{session_id}/messages", operation_id="add_messages", response_model=AddedShown)
async def add_messages(caller: AgentCaller, session_id: str, wanted: MessagesRequest) -> object:
    """Keep messages; one sent again with the same `message_id` is the same message."""
    new = [NewMessage(**message.model_dump()) for message in wanted.messages]
    return await messages_verbs.add_messages(
        *caller, new, session_id=session_id, scope=wanted.scope, prompt_tokens=wanted.prompt_tokens
    )


@router.get("/{session_id}/messages", operation_id="list_messages", response_model=list[MessageShown])
async def list_messages(
    caller: AgentCaller, session_id: str, after: After = 0, until: Until = None, limit: Limit = 50
) -> object:
    """Messages in order."""
    return await messages_verbs.list_messages(*caller, session_id, after=after, until=until, limit=limit)


@router.get("/{session_id}/window", operation_id="get_window", response_model=WindowShown)
async def get_window(caller: AgentCaller, session_id: str) -> object:
    """The messages that stand before the agent now."""
    return await messages_verbs.get_window(*caller, session_id)


@router.post("/{session_id}/usage", operation_id="report_usage", response_model=WindowStateShown)
async def report_usage(caller: AgentCaller, session_id: str, usage: UsageRequest) -> object:
    """Say how many tokens the last turn's prompt had; past 80 % of the window it is compressed."""
    return await messages_verbs.report_usage(*caller, session_id, usage.prompt_tokens)


@router.post("/{session_id}/notes", operation_id="add_note", response_model=NoteShown, status_code=201)
async def add_note(caller: AgentCaller, session_id: str, note: NoteRequest) -> object:
    """Note something for the rest of a session."""
    return await sessions.add_note(*caller, session_id, note.content, kind=note.kind, importance=note.importance)


@router.get("/{session_id}/notes", operation_id="list_notes", response_model=list[NoteShown])
async def list_notes(caller: AgentCaller, session_id: str) -> object:
    """Decisions, action items and other notes."""
    return await sessions.list_notes(*caller, session_id)


@router.get("/{session_id}/turn_state", operation_id="get_turn_state", response_model=TurnStateShown)
async def get_turn_state(caller: AgentCaller, session_id: str) -> object:
    """Where the agent of a session stands."""
    return await runs.get_turn_state(*caller, session_id)
