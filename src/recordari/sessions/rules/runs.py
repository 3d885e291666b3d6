"""Runs: one agent run, job or thread inside a session, with its turns, tool calls and cost."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, PlainSerializer

from recordari.core.checks import check_moment, check_text, check_times, is_readable, json_text
from recordari.core.described import DESCRIBED
from recordari.core.identity import AgentId, Owner, RunId, SessionId, UserId, checked_id, owned_by
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
MAX_TYPE = 100  # characters of a media type
JSON_TYPE = "application/json"
BYTES_TYPE = "application/octet-stream"


def _plain_number(cost: Decimal) -> str:
    return f"{cost:f}"


# A function of ours: pydantic cannot read the signature of a method of str under Python 3.13.
Cost = Annotated[Decimal, PlainSerializer(_plain_number, return_type=str, when_used="json")]
"""An amount of money; in JSON a text without an exponent, such as "0.0000025"."""


class RunStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """The tokens and the cost of a turn or a run."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost: Cost = Decimal(0)

    def __post_init__(self) -> None:
        if self.tokens_in < 0 or self.tokens_out < 0 or not self.cost.is_finite() or self.cost < 0:
            raise InvalidInput("tokens and cost must not be negative", field="usage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
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
    cost: Cost
    currency: str
    turns: int
    calls: int
    metadata: dict[str, Any]
    started_at: datetime
    ended_at: datetime | None

    @property
    def owned_by(self) -> Owner:
        """Its owner, who is that of its session."""
        return owned_by(self.user_id, self.agent_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a run, as logged."""

    __pydantic_config__ = DESCRIBED

    number: int
    status: RunStatus
    episodes: tuple[UUID, ...]
    """The episodes that it began with."""
    prompt_tokens: int | None
    tokens_in: int
    tokens_out: int
    cost: Cost
    error: str | None
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnState:
    """The last turn of a session and the data stored with it; written at the start and the end of each turn."""

    session_id: SessionId
    run_id: RunId
    number: int
    status: RunStatus
    data: dict[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToolCall:
    name: str
    arguments: str | Mapping[str, Any] | list[Any]
    """The exact JSON text that the model wrote, or a value to be written as JSON."""
    result: Any = None
    """Text, a JSON value, or bytes; bytes are kept as their Base64 text."""
    result_type: str | None = None
    """The media type of the result; not needed for text and JSON values. Unless it is text or JSON, `result` is Base64."""
    call_id: str | None = None
    """The model's own id of the call. Models repeat ids within a run, so it identifies nothing."""
    number: int | None = None
    """Its position in the run, from 1. The same number again is the same call; without a number every call is new."""
    error: str | None = None
    latency_ms: float | None = None
    started_at: datetime | None = None
    useful: bool = False
    """Whether the result is worth a note in the session."""

    def __post_init__(self) -> None:
        if isinstance(self.result, bytes | bytearray | memoryview):
            object.__setattr__(self, "result", base64.b64encode(self.result).decode())
            object.__setattr__(self, "result_type", self.result_type or BYTES_TYPE)

    @property
    def has_blank_result(self) -> bool:
        return self.result is None or (isinstance(self.result, str) and not self.result.strip())

    @property
    def has_bytes(self) -> bool:
        """Whether the result is neither text nor JSON."""
        return self.result is not None and self.result_type is not None and not is_readable(self.result_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A tool call of a run, as recorded."""

    __pydantic_config__ = DESCRIBED

    number: int
    call_id: str | None
    turn: int
    name: str
    arguments: str
    """The exact JSON text of the arguments."""
    result_id: UUID | None
    result_key: str | None
    result_bytes: int | None
    error: str | None
    latency_ms: float | None
    started_at: datetime
    result_sha256: Annotated[bytes | None, Field(exclude=True)] = None
    """Never part of an answer."""
    result_type: str | None = None
    """The media type of the result; null: plain text."""
    result: Any = None
    """The whole result, on request and if it is still stored: text, a JSON value, or the Base64 text of bytes."""

    @property
    def result_body(self) -> bytes | None:
        """The result as bytes."""
        if self.result is None:
            return None
        if self.result_type is not None and not is_readable(self.result_type):
            return base64.b64decode(self.result)
        return (self.result if isinstance(self.result, str) else json.dumps(self.result, ensure_ascii=False)).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """The result of a tool call as it is stored."""

    content: str
    """What its item says: the text, or a description of bytes."""
    body: bytes
    media_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedTurn:
    """A turn that has begun, with the agent's latest episodes, oldest first."""

    run: Run
    turn: Turn
    episodes: tuple[Item, ...] = ()
    was_new: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A run with all of its turns and tool calls."""

    run: Run
    turns: tuple[Turn, ...]
    calls: tuple[ToolCall, ...] = ()


def run_input(values: Mapping[str, Any], episodes: list[UUID]) -> dict[str, Any]:
    """The input of a run, with the ids of its episodes under a key of their own."""
    if EPISODES_KEY in values:
        raise InvalidInput(f"the server sets the key {EPISODES_KEY!r} of a run's input; leave it out", field="input")
    return {**checked_json("input", dict(values)), EPISODES_KEY: [str(episode) for episode in episodes]}


def with_more_episodes(values: Mapping[str, Any], episodes: list[UUID]) -> dict[str, Any]:
    """The input of a run after a further turn: every episode once, in order."""
    ids = [*values.get(EPISODES_KEY, []), *map(str, episodes)]
    return {**values, EPISODES_KEY: list(dict.fromkeys(ids))}


def check_end(run: Run, status: RunStatus, *, output: Any = None) -> bool:
    """Whether the run must still be ended; `Conflict` when it has ended with another status or output."""
    if run.status not in {RunStatus.RUNNING, status}:
        raise Conflict(f"the run has {run.status} already; start another one")
    if run.status is RunStatus.RUNNING:
        return True
    if output is not None and output != run.output:
        raise Conflict(f"the run has {run.status} already, with another output; start another one", field="output")
    return False


def arguments_text(arguments: str | Mapping[str, Any] | list[Any]) -> str:
    """The JSON text of a call's arguments; text from a model stays as it is, even if it is not valid JSON."""
    if not isinstance(arguments, str):
        arguments = json_text(dict(arguments) if isinstance(arguments, Mapping) else arguments, field="arguments")
    return checked_text("arguments", arguments, most_bytes=MAX_ARGUMENT_BYTES)


def checked_text(name: str, text: str, *, most_bytes: int | None = None) -> str:
    """Return text that the database can store: valid Unicode, no U+0000, within the limit."""
    check_text(name, text)
    if most_bytes is not None and len(text.encode()) > most_bytes:
        raise InvalidInput(f"{name} must have at most {most_bytes} bytes", field=name)
    return text


def read_result(call: NewToolCall) -> ReadResult | None:
    """The result of a call to store, or `InvalidInput` where value and media type do not fit."""
    if call.result is None:
        return None
    media_type = call.result_type or (None if isinstance(call.result, str) else JSON_TYPE)
    if media_type is not None:
        _check_media_type(media_type)
    if call.has_bytes:
        body = _decoded(call.result, str(media_type))
        content = f"{call.name} returned {len(body):,} bytes of {media_type}"
        return ReadResult(content=content, body=body, media_type=media_type)
    text = _readable(call.result, media_type)
    return ReadResult(content=text, body=text.encode(), media_type=media_type)


def _check_media_type(media_type: str) -> None:
    if (
        len(checked_text("result_type", media_type)) > MAX_TYPE
        or media_type.count("/") != 1
        or not media_type.isascii()
    ):
        raise InvalidInput("result_type must be a media type such as image/png", field="result_type")


def _decoded(result: Any, media_type: str) -> bytes:
    try:
        body = base64.b64decode(result, validate=True) if isinstance(result, str) else b""
    except binascii.Error:
        body = b""
    if not body:
        raise InvalidInput(f"a result of type {media_type} must be bytes, or their Base64 text", field="result")
    return body


def _readable(result: Any, media_type: str | None) -> str:
    """The text of a result; JSON that is given as text is kept to the letter."""
    is_json = media_type is not None and not media_type.casefold().startswith("text/")
    if not isinstance(result, str):
        if not is_json:
            raise InvalidInput(f"a result of type {media_type} must be text", field="result")
        return checked_text("result", json_text(result, field="result"))
    if is_json:
        try:
            json.loads(result)
        except (ValueError, RecursionError):
            raise InvalidInput("the result is no JSON; leave result_type out for plain text", field="result") from None
    return checked_text("result", result)


def shown_result(body: bytes, media_type: str | None) -> Any:
    """A stored result as a replay shows it."""
    if media_type is None or media_type.casefold().startswith("text/"):
        return body.decode()
    if not is_readable(media_type):
        return base64.b64encode(body).decode()
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()  # masked since, or cut


def checked_json(name: str, value: Any) -> Any:
    """Return a value that can be stored as JSON."""
    json_text(value, field=name)
    return value


def checked_call(call: NewToolCall) -> NewToolCall:
    checked_id("name", call.name)
    if call.call_id is not None:
        checked_id("call_id", call.call_id)
    if call.latency_ms is not None and not 0 <= call.latency_ms < 1e12:
        raise InvalidInput("latency_ms must be a time in milliseconds", field="latency_ms")
    check_times(started_at=call.started_at)
    if call.started_at is not None:
        check_moment("started_at", call.started_at)
    return call


def numbers_of(calls: Sequence[NewToolCall], recorded: int) -> list[int]:
    """The number of each call in a run that has so many: its own, or else the next."""
    numbers, following = [], recorded + 1
    for call in calls:
        number = following if call.number is None else call.number
        if not 1 <= number <= following:
            raise Conflict(f"the next tool call of this run has the number {following}", field="number")
        following = max(following, number + 1)
        numbers.append(number)
    return numbers


def error_text(error: str) -> str:
    """The beginning of an error message: that much is stored."""
    return checked_text("error", error)[:MAX_ERROR_CHARACTERS]


def read_arguments(arguments: Any) -> Any:
    """Parse arguments before masking: in text, a masked number is no longer JSON and the names of fields are lost."""
    if isinstance(arguments, Mapping):
        return dict(arguments)
    try:
        value = json.loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return arguments  # a list, or a value that `arguments_text` refuses
    return value if isinstance(value, dict | list) else arguments
