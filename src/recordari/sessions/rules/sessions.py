"""Sessions: a series of runs, messages and notes that closes when it has been idle.

A closed session is never opened again. Later activity under its id opens a **successor**: a new session with an id
made by the server, which `continues` the closed one. Such sessions form a line, named by the id of the first
(`root_id`). A line has at most one open session, so that a caller can keep using the same id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.frozen import quickly_made
from recordari.core.identity import AgentId, Identity, Owner, Role, SessionId, UserId, owned_by, session_thread
from recordari.core.items import PROJECT, Trust
from recordari.errors import Conflict, InvalidInput

IDLE_LIMIT = timedelta(hours=24)  # T1
OPERATOR_IDLE_LIMIT = timedelta(days=30)  # T1
NOTES_LIFETIME = timedelta(hours=24)  # W3: after the last activity
MAX_NOTES = 50  # W3
LONGEST_LIMIT = timedelta(days=3650)


class SessionStatus(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class CloseReason(StrEnum):
    ASKED = "asked"
    IDLE = "idle"


class NoteKind(StrEnum):
    DECISION = "decision"
    ACTION_ITEM = "action_item"
    TOOL_RESULT = "tool_result"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A lasting summary of messages that left the window, and the positions it covers."""

    summary_id: UUID
    first: int
    last: int


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    __pydantic_config__ = DESCRIBED

    session_id: SessionId
    session_ref: UUID
    """The server's own id of the session; cursors use it."""
    root_id: SessionId
    """The first session of its line."""
    continues: SessionId | None
    """The closed session that it continues."""
    user_id: UserId | None
    agent_id: AgentId | None
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
    """How often it was compressed."""
    epoch_from: int | None
    """The position at which the tail begins that a `stable` context shows; null: the first."""
    epoch_to: int | None
    """The last position when the session was compressed."""
    prompt_tokens: int | None
    summary: str
    summary_id: UUID | None
    summarised_to: int
    folded_to: int
    summary_trust: Trust = Trust.AGENT
    """The least trust of the messages in the summary, and at most `agent`."""
    folds: tuple[Fold, ...] = ()
    tail_before: int = 0
    """How many messages are before that tail."""
    tail_moves: int = 0
    """How often the tail moved without a compression."""

    @property
    def owned_by(self) -> Owner:
        return owned_by(self.user_id, self.agent_id)

    @property
    def thread(self) -> str:
        return session_thread(self.owned_by, self.session_id)

    def is_idle(self, now: datetime) -> bool:
        return self.active_at + timedelta(seconds=self.idle_seconds) < now

    def has_notes(self, now: datetime) -> bool:
        """Whether its notes have not expired."""
        return now <= self.active_at + timedelta(seconds=self.notes_seconds)

    def fold_of(self, position: int) -> UUID | None:
        """The lasting summary that covers a position in the thread."""
        return next((fold.summary_id for fold in self.folds if fold.first <= position <= fold.last), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNote:
    """Something to keep in mind during a session."""

    note_id: UUID
    kind: NoteKind
    content: str
    importance: float
    item_id: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPolicy:
    """The tenant's setting `sessions`.

    For example `{"idle_hours": 24, "operator_idle_hours": 720, "agents": {"ops": 720}, "operators": ["ana"],
    "notes_hours": 24, "window_share": 0.5}`; a missing or invalid value has its default.
    """

    idle: timedelta = IDLE_LIMIT
    operator_idle: timedelta = OPERATOR_IDLE_LIMIT
    agents: Mapping[str, timedelta] = field(default_factory=dict)
    operators: frozenset[str] = frozenset()
    notes: timedelta = NOTES_LIFETIME
    window_share: float = 0.5

    def idle_limit(self, *, user_id: str | None, agent_id: str | None) -> timedelta:
        """The limit of the agent, else of operators, else of the tenant."""
        if agent_id is not None and agent_id in self.agents:
            return self.agents[agent_id]
        return self.operator_idle if user_id is not None and user_id in self.operators else self.idle


def session_policy(settings: Mapping[str, Any]) -> SessionPolicy:
    setting, default = settings.get("sessions"), SessionPolicy()
    if not isinstance(setting, dict):
        return default
    agents, operators = setting.get("agents"), setting.get("operators")
    share: Any = setting.get("window_share")
    return SessionPolicy(
        idle=_hours(setting.get("idle_hours"), default.idle),
        operator_idle=_hours(setting.get("operator_idle_hours"), default.operator_idle),
        agents={
            str(agent): _hours(hours, default.idle)
            for agent, hours in (agents.items() if isinstance(agents, dict) else ())
        },
        operators=frozenset(map(str, operators)) if isinstance(operators, list) else frozenset(),
        notes=_hours(setting.get("notes_hours"), default.notes),
        window_share=float(share) if _is_number(share) and 0 < share <= 1 else default.window_share,
    )


def _hours(value: Any, default: timedelta) -> timedelta:
    if not _is_number(value) or not 0 < value <= LONGEST_LIMIT.total_seconds() / 3600:
        return default
    return timedelta(seconds=max(1, round(value * 3600)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def may_see(identity: Identity, *, user_id: UserId | None, agent_id: AgentId | None) -> bool:
    """Whether the identity may see a session or run of this user and agent; an administrator sees all."""
    if identity.role is Role.ADMIN:
        return True
    return (user_id is None or identity.user_id in {None, user_id}) and (
        agent_id is None or identity.agent_id in {None, agent_id}
    )


def earlier_sessions(sessions: Sequence[Session], *, project: str | None, line: str | None, most: int) -> list[Session]:
    """The first of these sessions that something was said in, of the project if one is named, not of the current line."""
    chosen = [
        session
        for session in sessions
        if session.messages and session.root_id != line
        if project is None or session.metadata.get(PROJECT) == project
    ]
    return chosen[:most]


def sole_owner(own: Owner, owners: Sequence[Owner], *, noun: str) -> Owner:
    """The owner whose thing an administrator means by an id: their own, or the only one; `Conflict` when there are more."""
    if own in owners or not owners:
        return own
    if len(owners) > 1:
        raise Conflict(
            f"several users or agents have a {noun} with this id; name the one you mean (Recordari-User, "
            "Recordari-Agent, --user, --agent)",
            field="user_id",
        )
    return owners[0]


def checked_limit(limit: timedelta) -> timedelta:
    if not timedelta(seconds=1) <= limit <= LONGEST_LIMIT:
        raise InvalidInput("idle must be from one second to ten years", field="idle")
    return limit
