"""The window of a session: which messages stand before the agent now, within a bound of tokens.

Two things move it. When its messages exceed the bound, the oldest leave until a good part is free again, so that the
beginning of the prompt changes seldom. And when a turn reports that the model's window was more than 80 % full, the
context is compressed: the tail that is shown shrinks from 20 messages to 4, and a new epoch begins. Within an epoch
the tail only grows at its end, so that a prompt cache keeps its prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import Scope, SessionId
from recordari.core.items import Trust
from recordari.core.tokens import MESSAGE_OVERHEAD, cut_to_tokens, message_tokens
from recordari.errors import InvalidInput
from recordari.sessions.rules.sessions import Fold, Session

DEFAULT_MODEL_TOKENS = 128_000
FREED = 0.4  # the part of the bound that is free after messages have left
COMPRESS_ABOVE = 0.8  # W5
TAIL = 20  # W5
COMPRESSED_TAIL = 4  # W5
SUMMARY_EVERY = 5  # W3
HINT = (
    "This conversation was shortened: earlier messages are not shown here. Before you answer anything that rests on "
    "them, call `recall` and read what it returns; do not guess."
)
CUT = "\n… [cut to fit the window]"


class MessageRole(StrEnum):
    """Who speaks in a conversation."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


TRUST: dict[MessageRole, Trust] = {
    MessageRole.USER: Trust.USER,
    MessageRole.ASSISTANT: Trust.AGENT,
    MessageRole.TOOL: Trust.TOOL,
    MessageRole.SYSTEM: Trust.AGENT,
}
_ROLES = {Trust.USER: MessageRole.USER, Trust.AGENT: MessageRole.ASSISTANT, Trust.TOOL: MessageRole.TOOL}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to add to a session."""

    content: str
    role: MessageRole = MessageRole.USER
    message_id: str | None = None
    """Sent again with the same id it is the same message; without one, every call adds another."""
    speaker: str | None = None
    """Who speaks, where that is more than the role."""
    event_time: datetime | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as it was kept."""

    __pydantic_config__ = DESCRIBED

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
    summary_id: UUID | None = None
    """The lasting summary that covers it, once it has left the window."""
    trust: Trust = Trust.USER
    metadata: dict[str, Any] = field(default_factory=dict)
    """What was handed in with it, and what we noted beside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """How full the window is, and what has left it."""

    session_id: SessionId
    first: int
    tokens: int
    limit: int
    epoch: int
    compressed: bool
    hint: str | None
    folds: tuple[Fold, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The messages in the window, oldest first, and the tail of them that belongs in the prompt."""

    state: WindowState
    messages: tuple[Message, ...]
    active: tuple[Message, ...]


def role_of(trust: str, metadata: dict[str, Any]) -> MessageRole:
    """The role of a kept message; one that came by another way has it from its carrier."""
    given = metadata.get("role")
    return MessageRole(given) if given in set(MessageRole) else _ROLES.get(Trust(trust), MessageRole.USER)


def window_limit(model_tokens: int, share: float) -> int:
    """The bound of the window in tokens: a share of the model's."""
    return max(1, int(model_tokens * share))


def counted(content: str, limit: int) -> int:
    """The tokens of a message in the window; one larger than the bound is shown cut to it."""
    return min(message_tokens(content), limit)


def slid_to(tokens: Sequence[tuple[int, int]], limit: int) -> tuple[int, int]:
    """Where the window begins when it is past its bound, and the tokens left in it.

    `tokens` are the places in the window with their tokens, oldest first. The newest message always stays.
    """
    aim = int(limit * (1 - FREED))
    kept = 0
    first = tokens[-1][0]
    for position, size in reversed(tokens):
        if kept and kept + size > aim:
            break
        kept += min(size, limit)
        first = position
    return first, kept


def compresses(session: Session, *, prompt_tokens: int, model_tokens: int, last: int) -> bool:
    """Whether a turn's usage begins a new epoch; said twice of the same messages, it does so once."""
    return prompt_tokens > COMPRESS_ABOVE * model_tokens and (session.epoch_to is None or last > session.epoch_to)


def state_of(session: Session, *, limit: int) -> WindowState:
    """The state of a session's window."""
    return WindowState(
        session_id=session.session_id,
        first=session.window_from,
        tokens=min(session.window_tokens, limit),
        limit=limit,
        epoch=session.epoch,
        compressed=session.epoch > 0,
        hint=HINT if session.epoch > 0 else None,
        folds=session.folds,
    )


def window_of(session: Session, messages: Sequence[Message], *, limit: int) -> Window:
    """The window over messages in order, oldest first; whatever was written, it keeps its bound."""
    kept: list[Message] = []
    total = 0
    for message in reversed(messages):
        fitted = _fitted(message, limit)
        if kept and total + fitted.tokens > limit:
            break
        kept.append(fitted)
        total += fitted.tokens
    kept.reverse()
    state = state_of(session, limit=limit)
    return Window(
        state=replace(state, first=kept[0].position if kept else state.first, tokens=total),
        messages=tuple(kept),
        active=_active(session, kept),
    )


def _active(session: Session, kept: Sequence[Message]) -> tuple[Message, ...]:
    if session.epoch_from is None:
        return tuple(kept[-TAIL:])
    return tuple(message for message in kept if message.position >= session.epoch_from)


def _fitted(message: Message, limit: int) -> Message:
    tokens = message_tokens(message.content)
    if tokens <= limit:
        content = message.content
    else:
        room = limit - MESSAGE_OVERHEAD - message_tokens(CUT)
        content = cut_to_tokens(message.content, max(1, room)) + CUT
        tokens = limit
    return replace(message, content=content, tokens=tokens)


def checked_usage(prompt_tokens: int) -> int:
    """Return the tokens that a turn reported, if they can be a count."""
    if not 0 <= prompt_tokens < 2**31:
        raise InvalidInput("prompt_tokens must be a count of tokens", field="prompt_tokens")
    return prompt_tokens
