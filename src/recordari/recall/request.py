"""The request and the answer of recall."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from recordari.core.checks import check_times, checked_content
from recordari.core.described import DESCRIBED, LEFT_OUT_IF_EMPTY
from recordari.core.frozen import quickly_made
from recordari.core.identity import AgentId, AskedScope, Identity, Owner, Role, Scope, SessionId, UserId, require_owner
from recordari.core.items import READ_COLUMNS, Kind, Tier, Trust
from recordari.errors import Forbidden, InvalidInput

MAX_TOP_K = 50
AGENT_TOP_K = 20  # R1: the most that an agent's tool returns
MAX_QUERY_CHARACTERS = 8_000


class Arm(StrEnum):
    """A part of recall that can be switched off, to measure its worth."""

    TEXT = "text"
    VECTOR = "vector"
    TIME = "time"
    ENTITY = "entity"
    LATE = "late"
    SESSION = "session"
    WORDING = "wording"


class Via(StrEnum):
    """How an item was seen: in an answer of recall, in a context, or in a search of documents."""

    RECALL = "recall"
    CONTEXT = "context"
    SEARCH = "search"


@dataclass(frozen=True, slots=True)
class SeenBy:
    owned_by: Owner
    agent_id: AgentId | None
    session_id: SessionId | None
    via: Via


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemUse:
    """Who saw an item, and where."""

    __pydantic_config__ = DESCRIBED

    user_id: UserId | None
    agent_id: AgentId | None
    session_id: SessionId | None
    via: Via
    last_at: datetime
    """When last."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    query: str
    top_k: int = 5
    source_kinds: tuple[Kind, ...] | None = None
    scope: AskedScope = AskedScope.ANY
    leaves_out: AskedScope | None = None
    """Of `any`, a place that is not searched."""
    enable_rerank: bool = True
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    """What was true then."""
    known_at: datetime | None = None
    """What was recorded by then."""
    archived: bool = True
    """Whether archived items are found, unless the tenant hides them."""
    include_superseded: bool = False
    explain: bool = False
    source_id: UUID | None = None
    """Only documents of this source."""
    arms: frozenset[Arm] = frozenset(Arm)
    project: str | None = None
    """The piece of work whose items are preferred."""
    min_confidence: float = 0.0
    """Below it the answer has no items."""
    counts_as_use: bool = True
    """Whether the items of the answer count as used; False if the caller notes the use itself."""
    is_part: bool = False
    """Whether the question is one sentence of a longer one, whose answers are joined."""

    @property
    def is_past(self) -> bool:
        return self.as_of is not None or self.known_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """The part of a long text that fits the question; `start` and `past` count bytes of the whole text."""

    __pydantic_config__ = DESCRIBED

    ordinal: int
    """Its number, from 1."""
    start: int
    """Where it begins: `read_tool_output` reads on from there."""
    past: int
    content: str


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledItem:
    """An item of the answer."""

    __pydantic_config__ = DESCRIBED

    id: UUID
    source_kind: Kind
    source_ref: str
    content: str
    event_time: datetime
    score: float
    """Higher is better; compare it only within one answer."""
    scope: Scope
    tier: Tier
    """How long it lasts."""
    speaker: str | None
    trust: Trust
    """Who carried the text here."""
    session_id: str | None
    payload_key: str | None
    """Not null: `content` is a preview; `read_tool_output` gives all of it under this key."""
    valid_at: datetime
    invalid_at: datetime | None
    archived: bool
    """It had faded, so no context showed it unasked; this recall brings it back within a second."""
    metadata: dict[str, Any] = field(default_factory=dict)
    passage: Annotated[Passage | None, LEFT_OUT_IF_EMPTY] = None
    """Of a long text: the part that fits the question, and where it is."""
    citation: Annotated[Citation | None, LEFT_OUT_IF_EMPTY] = None
    """Where it is in its document; only from `search_knowledge`."""
    shared_from: str | None = None
    """The tenant that shares it; null: your own."""
    same_as: tuple[UUID, ...] = ()
    """Items left out because this one says the same: facts taken from this message, equal texts."""
    found_by: tuple[str, ...] = ()
    """The arms that found it: `text` its words, `vector` its meaning, `time` the time asked about, `entity` a name;
    `beside`: it is next to such an item."""


SHOWN_COLUMNS = {one.name: one.name for one in fields(RecalledItem) if one.name in READ_COLUMNS} | {
    "id": "item_id",
    "source_kind": "kind",
    "archived": "archived_at",
}
"""The columns of an item that a recalled one shows, by its fields; `archived` is whether there is such a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallAnswer:
    """The answer of memory, and how far it can be trusted to be complete."""

    __pydantic_config__ = DESCRIBED

    items: tuple[RecalledItem, ...]
    total: int
    """How many items this answer has."""
    degraded: bool
    """Something is not embedded yet, or the question could not be: keywords are complete, meaning is not."""
    rerank_used: bool
    confidence: float = 0.0
    """The probability that the answer contains what was asked, 0 to 1."""
    hint: Annotated[str | None, LEFT_OUT_IF_EMPTY] = None
    """What to make of an answer that is empty or not sure."""
    trace: Annotated[dict[str, Any] | None, LEFT_OUT_IF_EMPTY] = None
    """Why: arms, ranks, scores, items left out. Only with `explain`."""


def check_request(identity: Identity, request: RecallRequest) -> None:
    checked_content(request.query, field="query")
    if len(request.query) > MAX_QUERY_CHARACTERS:
        raise InvalidInput(f"query must have at most {MAX_QUERY_CHARACTERS} characters", field="query")
    if not 1 <= request.top_k <= MAX_TOP_K:
        raise InvalidInput(f"top_k must be between 1 and {MAX_TOP_K}", field="top_k")
    if not 0 <= request.min_confidence <= 1:
        raise InvalidInput("min_confidence must be between 0 and 1", field="min_confidence")
    if request.include_superseded and identity.role is not Role.ADMIN:
        raise Forbidden("only an administrator may see superseded items")
    check_times(since=request.since, until=request.until, as_of=request.as_of, known_at=request.known_at)
    if request.since is not None and request.until is not None and request.since >= request.until:
        raise InvalidInput("since must be before until", field="since")
    require_owner(request.scope, identity, identity.session_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """Where in which document a chunk is; `first` and `past` count characters of the document's text."""

    __pydantic_config__ = DESCRIBED

    document_id: UUID
    document: str
    title: str
    source_id: UUID
    source: str
    revision: int
    ordinal: int
    """The chunk's number; `GET /v1/documents/{document_id}/text` reads those around it."""
    heading: tuple[str, ...]
    page: int | None
    first: int
    past: int
