"""Items, questions and answers as the doors take and show them: the same for REST, MCP and the command line."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from recordari.core.identity import Scope
from recordari.core.items import MAX_LABEL, MAX_SOURCE_REF, Kind, NewItem, Tier, Trust
from recordari.kit.rest import Moment, Shown, Strict

# Strict models take an enum only from its member; in JSON a member is its text.
KindName = Annotated[Kind, Field(strict=False)]
ScopeName = Annotated[Scope, Field(strict=False)]
TierName = Annotated[Tier, Field(strict=False)]
TrustName = Annotated[Trust, Field(strict=False)]

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
