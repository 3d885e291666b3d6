"""Conversations: messages, window, summary and notes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from recordari.core.identity import Scope, checked_choice, optional_choice
from recordari.learning import consolidate
from recordari.learning.consolidate import Consolidated
from recordari.sessions import messages, runs, sessions
from recordari.sessions.messages import Added
from recordari.sessions.rules.runs import TurnState
from recordari.sessions.rules.sessions import Note, NoteKind, Session, SessionStatus
from recordari.sessions.rules.window import Message, NewMessage, Window, WindowState
from recordari.sessions.sessions import Opened, Resumed
from recordari.verbs.bound import Bound


class SessionVerbs(Bound):
    """The verbs of sessions."""

    async def open_session(
        self,
        session_id: str | None = None,
        *,
        idle_limit: timedelta | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Opened:
        """Open the session of that id or make it; without an id, make one."""
        return await sessions.open_session(
            self.resources, self.identity, session_id, idle_limit=idle_limit, metadata=metadata
        )

    async def resume_session(self, session_id: str) -> Resumed:
        """Take a session up again from its summary, window and notes."""
        return await sessions.resume_session(self.resources, self.identity, session_id)

    async def close_session(self, session_id: str) -> Session:
        """Close a session; activity under its id goes on in a successor."""
        return await sessions.close_session(self.resources, self.identity, session_id)

    async def consolidate_session(self, session_id: str) -> Consolidated:
        """Let what a closed session taught outlive it, now instead of within the hour."""
        return await consolidate.consolidate_session(self.resources, self.identity, session_id)

    async def get_session(self, session_id: str) -> Session:
        """One session, open or closed."""
        return await sessions.get_session(self.resources, self.identity, session_id)

    async def list_sessions(self, *, status: SessionStatus | str | None = None, **more: Any) -> list[Session]:
        """Sessions, newest first; `more` are `agent_id`, `user_id`, `since`, `until`, `before` and `limit`."""
        chosen = optional_choice("status", SessionStatus, status)
        return await sessions.list_sessions(self.resources, self.identity, status=chosen, **more)

    async def add_messages(
        self,
        new: Sequence[NewMessage],
        *,
        session_id: str | None = None,
        scope: Scope | str | None = None,
        prompt_tokens: int | None = None,
    ) -> Added:
        """Keep messages of a session in the order given, all of them or none; how full its window is now."""
        return await messages.add_messages(
            self.resources,
            self.identity,
            session_id,
            new,
            scope=optional_choice("scope", Scope, scope),
            prompt_tokens=prompt_tokens,
        )

    async def list_messages(self, session_id: str, **more: Any) -> list[Message]:
        """Messages of a session in order; `more` are `after`, `until` (places) and `limit`."""
        return await messages.list_messages(self.resources, self.identity, session_id, **more)

    async def get_window(self, session_id: str) -> Window:
        """The messages that stand before the agent now, and the tail of them for its prompt."""
        return await messages.get_window(self.resources, self.identity, session_id)

    async def report_usage(self, session_id: str, prompt_tokens: int) -> WindowState:
        """Say how many tokens the last turn's prompt had; past 80 % of the window it is compressed."""
        return await messages.report_usage(self.resources, self.identity, session_id, prompt_tokens)

    async def add_note(
        self, session_id: str, content: str, *, kind: NoteKind | str = NoteKind.NOTE, importance: float = 0.5
    ) -> Note:
        """Note something for the rest of a session."""
        return await sessions.add_note(
            self.resources,
            self.identity,
            session_id,
            content,
            kind=checked_choice("kind", NoteKind, kind),
            importance=importance,
        )

    async def list_notes(self, session_id: str) -> list[Note]:
        """Decisions, action items and other notes of a session."""
        return await sessions.list_notes(self.resources, self.identity, session_id)

    async def get_turn_state(self, session_id: str) -> TurnState:
        """Where the agent of a session stands."""
        return await runs.get_turn_state(self.resources, self.identity, session_id)
