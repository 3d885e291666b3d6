"""Items, questions and answers as the doors take and show them: the same for REST, MCP and the command line."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from recordari.core.identity import AskedScope, Scope
from recordari.core.items import MAX_LABEL, MAX_SOURCE_REF, Kind, NewItem, Tier, Trust
from recordari.kit.rest import Moment, Shown, Strict
from recordari.recall.request import MAX_QUERY_CHARACTERS, MAX_TOP_K

# Strict models take an enum only from its member; in JSON a member is its text.
KindName = Annotated[Kind, Field(strict=False)]
ScopeName = Annotated[Scope, Field(strict=False)]
TierName = Annotated[Tier, Field(strict=False)]
TrustName = Annotated[Trust, Field(strict=False)]
AskedScopeName = Annotated[AskedScope, Field(strict=False)]

Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL)]
SourceRef = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_SOURCE_REF,
        description="Your own key for it: the same kind and key again is the same item.",
    ),
]
Metadata = Annotated[dict[str, Any], Field(max_length=100, description="Any JSON of yours, kept as it is.")]
ITEM_EXAMPLE: JsonDict = {
    "content": "The launch is on 14 May",
    "kind": "chat_message",
    "speaker": "Ana",
    "session_id": "chat-1",
    "event_time": "2026-05-02T14:23:01Z",
    "source_ref": "message-4711",
}


class ItemRequest(Strict):
    """Something to remember; what is left out follows from the kind and from who asks."""

    model_config = ConfigDict(json_schema_extra={"examples": [ITEM_EXAMPLE]})

    content: str = Field(
        min_length=1, description="The text. Over 16 KiB the item carries a preview, and all of it can be read."
    )
    kind: KindName = Kind.CHAT_MESSAGE
    scope: ScopeName | None = Field(default=None, description="Who may see it.")
    tier: TierName | None = Field(default=None, description="What ends it.")
    source_ref: SourceRef | None = None
    speaker: Label | None = Field(default=None, description="Who said it.")
    event_time: Moment | None = Field(default=None, description="When it happened; now, if left out.")
    session_id: str | None = Field(
        default=None, min_length=1, max_length=200, description="Its session; else that of `Recordari-Session`."
    )
    trust: TrustName | None = Field(default=None, description="Who carried the text here.")
    subject: Label | None = None
    predicate: Label | None = None
    object: Label | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    category: Label | None = None
    metadata: Metadata = Field(default_factory=dict)

    def new_item(self) -> NewItem:
        """What the library takes."""
        return NewItem(**{name: getattr(self, name) for name in type(self).model_fields})


class ImportedItem(ItemRequest):
    """One line of an import. Its key is required: with it an import that was cut short can be sent again."""

    source_ref: SourceRef


class RememberedShown(Shown):
    """Which item holds what was said."""

    id: UUID
    was_new: bool = Field(description="False: it was here already.")
    source_ref: str = Field(examples=["message-4711"])
    payload_key: str | None = Field(
        default=None, description="Where the whole text can be read (`read_tool_output`) when the item is a preview."
    )


class ItemShown(Shown):
    """An item."""

    item_id: UUID
    kind: Kind
    scope: Scope
    tier: Tier
    user_id: str | None
    agent_id: str | None
    session_id: str | None
    run_id: str | None
    source_ref: str
    content: str
    speaker: str | None
    trust: Trust
    event_time: datetime
    created_at: datetime
    valid_at: datetime
    invalid_at: datetime | None
    superseded_by: UUID | None
    subject: str | None
    predicate: str | None
    object: str | None
    confidence: float | None
    category: str | None
    payload_key: str | None
    metadata: dict[str, Any]
    shared_from: str | None = Field(default=None, description="The tenant that shares it; null: your own.")


class FactRequest(Strict):
    """A fact to keep across sessions."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content": "Ana prefers tea, and no sugar", "scope": "user"}]}
    )

    content: str = Field(min_length=1)
    scope: ScopeName = Field(default=Scope.USER, description="Whose fact it is: the user's or the agent's.")
    metadata: Metadata = Field(default_factory=dict)


class FactShown(Shown):
    """Which item holds the fact."""

    id: UUID
    was_new: bool = Field(description="False: it was known already.")
    source_ref: str = Field(examples=["fact:user:ana:0123456789abcdef"])


Query = Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS, description="The question, in your words.")]
TopK = Annotated[int, Field(ge=1, le=MAX_TOP_K, description="Most items of the answer.")]


class RecallRequestBody(Strict):
    """A question to memory."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"query": "ANCHOR_TOKEN_7a3f9 metabase order count", "top_k": 5, "source_kinds": ["tool_output"]}
            ]
        }
    )

    query: Query
    top_k: TopK = 5
    source_kinds: list[KindName] | None = Field(
        default=None, min_length=1, max_length=len(Kind), description="Only these kinds; all, if left out."
    )
    scope: AskedScopeName = Field(default=AskedScope.ANY, description="Where to look.")
    enable_rerank: bool = Field(default=True, description="Let a cross-encoder reorder, where one is set up.")
    since: Moment | None = Field(default=None, description="Only what happened then or later.")
    until: Moment | None = Field(default=None, description="Only what happened before then.")
    as_of: Moment | None = Field(default=None, description="What was true at that moment.")
    include_superseded: bool = Field(default=False, description="Retired facts too; needs the role admin.")
    explain: bool = Field(default=False, description="Also say why: arms, ranks, scores, what was left out.")


class KnowledgeRequest(Strict):
    """A question to the documents."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "How do I return a parcel?"}]})

    query: Query
    top_k: TopK = 5
    source: str | None = Field(default=None, min_length=1, max_length=200, description="Only this source, by its name.")
    enable_rerank: bool = Field(default=True, description="Let a cross-encoder reorder, where one is set up.")
    since: Moment | None = Field(default=None, description="Only what was taken in then or later.")
    until: Moment | None = Field(default=None, description="Only what was taken in before then.")
    as_of: Moment | None = Field(default=None, description="What the documents said at that moment.")
    explain: bool = Field(default=False, description="Also say why: arms, ranks, scores, what was left out.")


class RecalledItemShown(Shown):
    """An item of an answer."""

    id: UUID
    source_kind: Kind
    source_ref: str = Field(examples=["tool_call_id_xyz"])
    content: str
    event_time: datetime
    score: float = Field(description="Higher is better; to be compared within one answer only.")
    scope: Scope
    speaker: str | None
    trust: Trust = Field(description="Who carried the text here.")
    session_id: str | None
    payload_key: str | None = Field(
        description="Not null: `content` is a preview; `read_tool_output` gives all of it under this key."
    )
    valid_at: datetime
    invalid_at: datetime | None
    metadata: dict[str, Any]
    shared_from: str | None = Field(default=None, description="The tenant that shares it; null: your own.")
    same_as: list[UUID] = Field(
        description="Items left out because this one says the same: facts taken from this message, equal texts."
    )
    found_by: list[str] = Field(
        description="What found it: `text` its words, `vector` its meaning, `time` the time asked about, `entity` a name; "
        "`beside`: it stands next to such an item."
    )


class CitationShown(Shown):
    """Where in which document a text stands; `first` and `past` count characters of the document's text."""

    document_id: UUID
    document: str = Field(examples=["returns.md"])
    title: str
    source_id: UUID
    source: str
    revision: int
    ordinal: int = Field(description="The chunk's place; `GET /v1/documents/{document_id}/text` reads those around it.")
    heading: list[str]
    page: int | None
    first: int
    past: int


class KnowledgeItemShown(RecalledItemShown):
    """A text of a document, and where it stands."""

    citation: CitationShown | None = Field(description="Null for a text that came in without a document.")


class RecallShown(Shown):
    """What memory answers."""

    items: list[RecalledItemShown]
    total: int = Field(description="How many items this answer has.")
    degraded: bool = Field(
        description="Something is not embedded yet: keyword recall is complete, recall by meaning is not."
    )
    rerank_used: bool


class ExplainedRecallShown(RecallShown):
    """What memory answers, and why where that was asked for."""

    trace: dict[str, Any] | None = Field(default=None, description="Only with `explain`.")


class KnowledgeShown(ExplainedRecallShown):
    """What the documents say."""

    items: list[KnowledgeItemShown]  # type: ignore[assignment]  # the same with one thing more


class ToolOutputShown(Shown):
    """A whole body, or a range of it."""

    key: str = Field(examples=["tout_0123456789abcdef0123456789abcdef"])
    content: str
    start: int = Field(description="The byte at which `content` begins.")
    total_bytes: int
    is_whole: bool
    next_start: int | None = Field(description="Where to go on reading; null: this is the end.")


class ImportSummary(BaseModel):
    """What an import did."""

    read: int = Field(description="Lines with an item on them.")
    new: int
    existing: int = Field(description="Items that were here already.")


class ProfileShown(Shown):
    """What is known of a user or an agent."""

    content: str = Field(examples=["Preferences: Ana prefers tea."])
    facts: int = Field(description="How many facts it tells.")
    writer: str = Field(description="The offline rules, or the model that wrote it.")
    made_at: datetime | None
