"""Sessions: open, resume and close them; their messages, window and notes."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import ConfigDict, Field

from recordari.core.identity import Scope
from recordari.kit.rest import (
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
from recordari.sessions import messages as messages_verbs
from recordari.sessions import runs, sessions
from recordari.sessions.messages import Added
from recordari.sessions.rules.runs import TurnState
from recordari.sessions.rules.sessions import Note, NoteKind, Session, SessionStatus
from recordari.sessions.rules.window import Message, MessageRole, NewMessage, Window, WindowState
from recordari.sessions.sessions import Opened, ResumedSession

MAX_MESSAGES = 500
WEEK = 7 * 24 * 3600

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=PROBLEMS)


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
    speaker: str | None = Field(default=None, max_length=200)
    event_time: Moment | None = None
    metadata: dict[str, Any] | None = None


class MessagesRequest(Strict):
    """Messages to add in this order, all of them or none."""

    messages: list[MessageRequest] = Field(min_length=1, max_length=MAX_MESSAGES)
    scope: Scope | None = Field(
        default=None, strict=False, description="`user`: can be recalled in other sessions too."
    )
    prompt_tokens: int | None = Field(default=None, ge=0, description="Tokens of the last turn's prompt.")


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
    status_code=201,
    responses={200: {"model": Opened, "description": "It was open already."}},
)
async def open_session(caller: AgentCaller, wanted: SessionRequest, response: Response) -> Opened:
    """Open the session of that id or make it; without an id, make one."""
    opened = await sessions.open_session(
        *caller,
        wanted.session_id,
        idle=timedelta(seconds=wanted.idle_seconds) if wanted.idle_seconds is not None else None,
        metadata=wanted.metadata,
    )
    if not opened.was_new:
        response.status_code = 200
    return opened


@router.get(
    "",
    operation_id="list_sessions",
    openapi_extra=client(part="items", cursor="before"),
    response_model=Page[Session],
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


@router.get("/{session_id}", operation_id="get_session")
async def get_session(caller: AgentCaller, session_id: str) -> Session:
    """One session, open or closed."""
    return await sessions.get_session(*caller, session_id)


@router.post("/{session_id}/close", operation_id="close_session")
async def close_session(caller: AgentCaller, session_id: str) -> Session:
    """Close a session; activity under its id goes on in a successor."""
    return await sessions.close_session(*caller, session_id)


@router.get("/{session_id}/resume", operation_id="resume_session")
async def resume_session(caller: AgentCaller, session_id: str) -> ResumedSession:
    """Take a session up again from its summary, window and notes."""
    return await sessions.resume_session(*caller, session_id)


@router.post("/{session_id}/messages", operation_id="add_messages")
async def add_messages(caller: AgentCaller, session_id: str, wanted: MessagesRequest) -> Added:
    """Keep messages; one sent again with the same `message_id` is the same message."""
    new = [NewMessage(**message.model_dump()) for message in wanted.messages]
    return await messages_verbs.add_messages(
        *caller, new, session_id=session_id, scope=wanted.scope, prompt_tokens=wanted.prompt_tokens
    )


@router.get(
    "/{session_id}/messages",
    operation_id="list_messages",
    openapi_extra=client(part="items"),
    response_model=Page[Message],
)
async def list_messages(
    caller: AgentCaller,
    session_id: str,
    after: After = 0,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """Messages in order."""
    start = number_position(cursor) if cursor is not None else after
    found = await messages_verbs.list_messages(*caller, session_id, after=start or 0, until=until, limit=limit + 1)
    return page_of(found, limit, lambda message: message.position)


@router.get("/{session_id}/window", operation_id="get_window")
async def get_window(caller: AgentCaller, session_id: str) -> Window:
    """The messages that stand before the agent now."""
    return await messages_verbs.get_window(*caller, session_id)


@router.post("/{session_id}/usage", operation_id="report_usage")
async def report_usage(caller: AgentCaller, session_id: str, usage: UsageRequest) -> WindowState:
    """Say how many tokens the last turn's prompt had; past 80 % of the window it is compressed."""
    return await messages_verbs.report_usage(*caller, session_id, usage.prompt_tokens)


@router.post("/{session_id}/notes", operation_id="add_note", status_code=201)
async def add_note(caller: AgentCaller, session_id: str, note: NoteRequest) -> Note:
    """Note something for the rest of a session."""
    return await sessions.add_note(*caller, session_id, note.content, kind=note.kind, importance=note.importance)


@router.get(
    "/{session_id}/notes", operation_id="list_notes", openapi_extra=client(part="items"), response_model=Page[Note]
)
async def list_notes(caller: AgentCaller, session_id: str) -> object:
    """Decisions, action items and other notes."""
    return {"items": await sessions.list_notes(*caller, session_id), "next_cursor": None}


@router.delete("/{session_id}/notes/{note_id}", operation_id="delete_note", status_code=204)
async def delete_note(caller: AgentCaller, session_id: str, note_id: UUID) -> None:
    """Remove a note that no longer holds, such as a task that is done."""
    await sessions.delete_note(*caller, session_id, note_id)


@router.get("/{session_id}/turn_state", operation_id="get_turn_state")
async def get_turn_state(caller: AgentCaller, session_id: str) -> TurnState:
    """Where the agent of a session stands."""
    return await runs.get_turn_state(*caller, session_id)
