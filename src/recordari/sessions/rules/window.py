"""The window of a session: the messages that the agent sees now, within a limit of tokens.

Two things move it. When its messages exceed the limit, the oldest leave until 40 % of it are free again, so that the
beginning of the prompt rarely changes. And when a turn reports that the model's context was more than 80 % full, the
window is compressed: the active tail shrinks from 20 messages to 4, and a new epoch begins.

A `stable` context shows a tail that only grows at its end, so that a prompt cache keeps its prefix. The session knows
where that tail begins. It grows from 20 messages to 40 and then begins again with the last 20; a compression makes it 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.frozen import quickly_made
from recordari.core.identity import Scope, SessionId, optional_choice
from recordari.core.items import Kind, Trust, least_trusted
from recordari.core.tokens import MESSAGE_OVERHEAD, cut_to_tokens, message_tokens
from recordari.errors import InvalidInput
from recordari.sessions.rules.sessions import Fold, Session

DEFAULT_MODEL_TOKENS = 128_000
FREED = 0.4  # the part of the limit that is free after messages have left
COMPRESS_ABOVE = 0.8  # W5
TAIL = 20  # W5
COMPRESSED_TAIL = 4  # W5
LONGEST_TAIL = 40  # messages of a tail that only grows
AMPLE_TAIL = 2_800  # tokens that the smallest usual context shows of a tail
LINE_TOKENS = 80  # around a message in a context
SUMMARY_EVERY = 5  # W3
HINT = (
    "This conversation was shortened: earlier messages are not shown here. Before you answer anything that rests on "
    "them, call `recall` and read what it returns; do not guess."
)
CUT = "\n… [cut to fit the window]"


class MessageRole(StrEnum):
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
_ROLES = {Trust.USER: MessageRole.USER, Trust.AGENT: MessageRole.ASSISTANT}
_OTHER_NAMES = {  # of the roles, in other systems
    "human": MessageRole.USER,
    "ai": MessageRole.ASSISTANT,
    "model": MessageRole.ASSISTANT,
    "chatbot": MessageRole.ASSISTANT,
    "developer": MessageRole.SYSTEM,
}


def role_named(name: str) -> MessageRole:
    """The role that another system calls so. Text in an unknown role counts as a tool's: nobody vouches for it."""
    name = name.strip().lower()
    return MessageRole(name) if name in set(MessageRole) else _OTHER_NAMES.get(name, MessageRole.TOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    content: str
    role: MessageRole = MessageRole.USER
    message_id: str | None = None
    """The same id again is the same message; without an id every message is new."""
    speaker: str | None = None
    """The name of the speaker, if it says more than the role."""
    event_time: datetime | None = None
    metadata: dict[str, Any] | None = None
    trust: Trust | str | None = None
    """Who carried the text here, if less trusted than the role: `external` for an e-mail that a user passes on."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    __pydantic_config__ = DESCRIBED

    item_id: UUID
    position: int
    role: MessageRole
    """`user` and `assistant` only for text that they vouch for; text of any other carrier has the role `tool`."""
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
    kind: Kind = Kind.CHAT_MESSAGE
    """`tool_output` for a message of the role `tool`, else `chat_message`."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """The caller's metadata, and the server's own."""

    @property
    def said_by(self) -> str:
        """The speaker; without a name the role, or the carrier of a text that is in nobody's role."""
        return self.speaker or str(self.role if TRUST[self.role] is self.trust else self.trust)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowState:
    """How full the window is, and which messages have left it."""

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
    """The messages in the window, oldest first; after a compression only the tail that is left."""

    __pydantic_config__ = DESCRIBED

    state: WindowState
    messages: tuple[Message, ...]
    active: tuple[Message, ...]
    """The tail that belongs in the prompt: 20 messages, and after a compression 4 and those that follow."""


def role_of(trust: str, metadata: dict[str, Any]) -> MessageRole:
    """The role of a stored message. It follows from the trust unless the one in the metadata has the same trust."""
    role = metadata.get("role")
    if role in set(MessageRole) and TRUST[MessageRole(role)] == trust:
        return MessageRole(role)
    return _ROLES.get(Trust(trust), MessageRole.TOOL)


def trust_of(role: MessageRole, trust: Trust | str | None) -> Trust:
    """The trust of a new message: that of its role, or a lower one."""
    given, own = optional_choice("trust", Trust, trust), TRUST[role]
    if given is None:
        return own
    if least_trusted([given, own]) is not given:
        raise InvalidInput(f"a message of the role {role} is trusted as {own} at most", field="trust")
    return given


def window_limit(model_tokens: int, share: float) -> int:
    """The limit of the window in tokens: a share of the model's context."""
    return max(1, int(model_tokens * share))


def counted(content: str, limit: int) -> int:
    """The tokens of a message in the window; a message above the limit is cut to it."""
    return min(message_tokens(content), limit)


def slid_to(tokens: Sequence[tuple[int, int]], limit: int) -> tuple[int, int]:
    """The first position of a window that was above its limit, and the tokens in it.

    `tokens` are the positions in the window with their tokens, oldest first. The newest message always stays.
    """
    target = int(limit * (1 - FREED))
    total, first = 0, tokens[-1][0]
    for position, size in reversed(tokens):
        if total and total + size > target:
            break
        total += min(size, limit)
        first = position
    return first, total


def compresses(session: Session, *, prompt_tokens: int, model_tokens: int, last: int) -> bool:
    """Whether a turn's usage begins a new epoch: when it rises above 80 %, not with each report that is still above.

    `session` has the report before. If usage never falls, the next epoch begins when the tail is long again.
    """
    most = COMPRESS_ABOVE * model_tokens
    if prompt_tokens <= most or (session.epoch_to is not None and last <= session.epoch_to):
        return False
    was_above = session.epoch > 0 and session.prompt_tokens is not None and session.prompt_tokens > most
    return not was_above or last - (session.epoch_from or 1) + 1 >= TAIL


def tail_must_move(session: Session) -> bool:
    """Whether the stable tail has become too long, or begins before the window."""
    return session.messages - session.tail_before > LONGEST_TAIL or (session.epoch_from or 1) < session.window_from


def with_tail(session: Session, tokens: Sequence[tuple[int, int]], *, length: int, compressed: bool) -> Session:
    """The session with a tail of its last messages; `tokens` are the positions from the old tail on, with their tokens.

    If a context may have moved the old tail to keep its budget, the count goes past all those moves.
    """
    tail = [position for position, _ in tokens if position >= session.window_from][-length:]
    moved = len(tokens) if sum(size + LINE_TOKENS for _, size in tokens) > AMPLE_TAIL else 0
    return replace(
        session,
        epoch_from=tail[0] if tail else session.window_from,
        tail_before=max(0, session.messages - len(tail)),
        tail_moves=session.tail_moves + moved + (not compressed),
    )


def state_of(session: Session, *, limit: int) -> WindowState:
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
    """The window over messages in order, oldest first; it never exceeds its limit."""
    newest: list[Message] = []
    total = 0
    for message in reversed(messages):
        fitting = _cut(message, limit)
        if newest and total + fitting.tokens > limit:
            break
        newest.append(fitting)
        total += fitting.tokens
    shown, state = newest[::-1], state_of(session, limit=limit)
    if state.compressed:
        shown = [each for each in shown if each.position >= (session.epoch_from or 1)]
    tokens = sum(each.tokens for each in shown)
    return Window(
        state=replace(state, first=shown[0].position if shown else state.first, tokens=tokens),
        messages=tuple(shown),
        active=tuple(shown if state.compressed else shown[-TAIL:]),
    )


def _cut(message: Message, limit: int) -> Message:
    tokens = message_tokens(message.content)
    if tokens <= limit:
        return replace(message, tokens=tokens)
    room = limit - MESSAGE_OVERHEAD - message_tokens(CUT)
    return replace(message, content=cut_to_tokens(message.content, max(1, room)) + CUT, tokens=limit)


def checked_usage(prompt_tokens: int) -> int:
    if not 0 <= prompt_tokens < 2**31:
        raise InvalidInput("prompt_tokens must be a number of tokens", field="prompt_tokens")
    return prompt_tokens
