"""Routes that remember: one item, many at once, facts, and whole histories line by line; and the graph of entities."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.config import JsonDict

from recordari.core.checks import check_json
from recordari.core.identity import Scope
from recordari.core.items import MAX_LABEL, MAX_SOURCE_REF, Item, Kind, NewItem, Tier, Trust
from recordari.errors import InvalidInput, RecordariError, TooLarge
from recordari.kit.problems import error_responses, field_errors
from recordari.kit.rest import (
    PROBLEMS,
    AgentCaller,
    Cursor,
    Limit,
    Moment,
    Strict,
    client,
    id_position,
    page_of,
    paged,
)
from recordari.memory import entities
from recordari.memory import remember as remember_verbs
from recordari.memory.batches import IMPORT_BATCH
from recordari.memory.entities import MOST_NODES, EntityGraph
from recordari.memory.remember import MAX_BATCH, Remembered

MAX_DEPTH = 32

router = APIRouter(prefix="/v1", tags=["items"], responses=PROBLEMS)
entities_router = APIRouter(prefix="/v1/entities", tags=["entities"], responses=PROBLEMS)
Around = Annotated[UUID | None, Query(description="Only entities that are mentioned together with this one.")]
OtherId = Annotated[UUID | None, Query(description="Only items that mention this entity too.")]
Nodes = Annotated[int, Query(ge=1, le=MOST_NODES, description="Most entities.")]

CONFLICT = error_responses({409: "Its `source_ref` belongs to another text."})

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
        description="Your own key: the same kind and key again is the same item.",
    ),
]
Metadata = Annotated[dict[str, Any], Field(max_length=100, description="Any JSON of yours, stored unchanged.")]
ITEM_EXAMPLE: JsonDict = {
    "content": "The launch is on 14 May",
    "kind": "chat_message",
    "speaker": "Ana",
    "session_id": "chat-1",
    "event_time": "2026-05-02T14:23:01Z",
    "source_ref": "message-4711",
}


class ItemRequest(Strict):
    """An item to remember. Defaults come from its kind and the caller."""

    model_config = ConfigDict(json_schema_extra={"examples": [ITEM_EXAMPLE]})

    content: str = Field(
        min_length=1, description="The text. Over 16 KiB the item has a preview, and you can read the whole."
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
        return NewItem(**vars(self))


class ImportedItem(ItemRequest):
    """One line of an import. Its key is required, so that you can send an interrupted import again."""

    source_ref: SourceRef


class ItemBatch(Strict):
    model_config = ConfigDict(json_schema_extra={"examples": [{"items": [ITEM_EXAMPLE]}]})

    items: list[ItemRequest] = Field(min_length=1, max_length=MAX_BATCH)


class BatchShown(BaseModel):
    items: list[Remembered]


class FactRequest(Strict):
    """A fact to keep across sessions."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content": "Ana prefers tea, and no sugar", "scope": "user"}]}
    )

    content: str = Field(min_length=1)
    scope: ScopeName = Field(default=Scope.USER, description="Whose fact it is: the user's or the agent's.")
    subject: Label | None = Field(default=None, description="Whom or what it is about.")
    predicate: Label | None = Field(default=None, description="What is said of it, such as `lives in`.")
    object: Label | None = Field(default=None, description="The value, such as `Lisbon`.")
    category: Label | None = Field(default=None, description="By its wording, if left out.")
    event_time: Moment | None = Field(default=None, description="Since when it is so; now, if left out.")
    metadata: Metadata = Field(default_factory=dict)


class ImportSummary(BaseModel):
    """The counts of an import."""

    read: int = Field(description="Lines with an item on them.")
    new: int
    existing: int = Field(description="Items that existed already.")


LINE_SCHEMA = ImportedItem.model_json_schema(ref_template="#/components/schemas/{model}")
del LINE_SCHEMA["$defs"]  # they are among the components


@router.post(
    "/items",
    operation_id="remember",
    status_code=201,
    responses={200: {"model": Remembered, "description": "It existed already."}, **CONFLICT},
)
async def remember(caller: AgentCaller, item: ItemRequest, response: Response) -> Remembered:
    """Remember one item of any kind. Recall finds it by its words at once, and by meaning moments later."""
    (remembered,) = await remember_verbs.remember_many(*caller, [item.new_item()])
    return _with_status(remembered, response)


@router.post("/items/batch", operation_id="remember_many", openapi_extra=client(part="items"), responses=CONFLICT)
async def remember_many(caller: AgentCaller, batch: ItemBatch) -> BatchShown:
    """Remember up to 1,000 items in order, all of them or none."""
    with _naming_item():
        return BatchShown(items=await remember_verbs.remember_many(*caller, [item.new_item() for item in batch.items]))


@router.post(
    "/remember_fact",
    operation_id="remember_fact",
    status_code=201,
    responses={200: {"model": Remembered, "description": "It was known already."}},
)
async def remember_fact(caller: AgentCaller, fact: FactRequest, response: Response) -> Remembered:
    """Keep a fact of a user or an agent across sessions; stating it again finds the same item."""
    return _with_status(await remember_verbs.remember_fact(*caller, **dict(fact)), response)


@router.post(
    "/import",
    operation_id="import_items",
    responses=CONFLICT,
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "One item per line, in the form of `ImportedItem`; `source_ref` is required.",
            "content": {"application/x-ndjson": {"schema": LINE_SCHEMA}},
        }
    },
)
async def import_items(caller: AgentCaller, request: Request) -> ImportSummary:
    """Remember any number of items while they arrive, one JSON object per line.

    An error names its line; the lines before it are kept. You can send everything again at any time: items that exist
    are skipped.
    """
    lines = Lines()
    items = lines.read_stream(request.stream(), max_bytes=caller.resources.settings.max_body_bytes)
    async with aclosing(items):
        return await lines.summed(remember_verbs.import_items(*caller, items))


@entities_router.get("", operation_id="entity_graph")
async def entity_graph(caller: AgentCaller, around: Around = None, limit: Nodes = 200) -> EntityGraph:
    """The people, things and places that your newest memories mention, and the items that link them."""
    return await entities.entity_graph(*caller, around=around, limit=limit)


@entities_router.get("/{entity_id}/items", operation_id="entity_items", **paged(Item, cursor="before"))
async def entity_items(
    caller: AgentCaller, entity_id: UUID, other_id: OtherId = None, limit: Limit = 50, cursor: Cursor = None
) -> object:
    """The memories that mention an entity, newest first; with `other_id`, those that mention both."""
    rows = await entities.entity_items(
        *caller, entity_id, other_id=other_id, before=id_position(cursor), limit=limit + 1
    )
    return page_of(rows, limit, lambda item: item.item_id)


def _with_status(remembered: Remembered, response: Response) -> Remembered:
    if not remembered.was_new:
        response.status_code = 200
    return remembered


@contextmanager
def _naming_item() -> Iterator[None]:
    """Add the item of the body to an error."""
    try:
        yield
    except RecordariError as error:
        index = error.details.pop("index", None)
        if index is None:
            raise
        item, field = f"items.{index}", error.details.get("field")
        raise type(error)(f"{item}: {error.message}", field=f"{item}.{field}" if field else item) from error


class Lines:
    """Reads items from lines and knows the line of each.

    A bad line ends the reading: the items before it are imported, then `finish` raises.
    """

    def __init__(self) -> None:
        self._number = 0
        self._items = 0
        # A refused item is one of the last two batches: one is read while the other is kept.
        self._numbers: deque[int] = deque(maxlen=2 * IMPORT_BATCH)
        self._bad: RecordariError | None = None

    def read(self, lines: Iterable[bytes]) -> Iterator[NewItem]:
        for line in lines:
            if self._bad is not None:
                return
            if (new := self._item(line)) is not None:
                yield new

    async def read_stream(self, chunks: AsyncIterable[bytes], *, max_bytes: int) -> AsyncGenerator[NewItem, None]:
        """The items of lines that arrive in chunks; a line may have `max_bytes`."""
        rest = bytearray()
        async for chunk in chunks:
            rest += chunk
            end = rest.rfind(b"\n", len(rest) - len(chunk))
            if end >= 0:
                for new in self.read(bytes(rest[:end]).split(b"\n")):
                    yield new
                del rest[: end + 1]
            if len(rest) > max_bytes and self._bad is None:
                self._number += 1
                self._refuse(TooLarge(f"a line may have at most {max_bytes} bytes"))
            if self._bad is not None:
                return
        for new in self.read([bytes(rest)]):
            yield new

    async def summed(self, batches: AsyncIterable[list[Remembered]]) -> ImportSummary:
        """Count the items while they are kept batch by batch; an error names its line."""
        read = new = 0
        try:
            async for batch in batches:
                read += len(batch)
                new += sum(remembered.was_new for remembered in batch)
        except RecordariError as error:
            raise self.located(error) from error
        self.finish()
        return ImportSummary(read=read, new=new, existing=read - new)

    def finish(self) -> None:
        if self._bad is not None:
            raise self._bad

    def located(self, error: RecordariError) -> RecordariError:
        """The error of an import, with its line."""
        index = error.details.get("index")
        return error if index is None else _at_line(error, self._numbers[index - self._items])

    def _item(self, line: bytes) -> NewItem | None:
        self._number += 1
        if not line.strip():
            return None
        try:
            check_json(line, max_depth=MAX_DEPTH)
            new = ImportedItem.model_validate_json(line).new_item()
        except ValidationError as error:
            fields = field_errors(error.errors())[:5]
            reasons = "; ".join(f"{each.field}: {each.message}" if each.field else each.message for each in fields)
            self._refuse(InvalidInput(reasons))
            return None
        except InvalidInput as error:
            self._refuse(error)
            return None
        self._items += 1
        self._numbers.append(self._number)
        return new

    def _refuse(self, error: RecordariError) -> None:
        self._bad = _at_line(error, self._number)


def _at_line(error: RecordariError, number: int) -> RecordariError:
    return type(error)(
        f"line {number}: {error.message}; the lines before it are kept: correct it and send everything again",
        field=f"line {number}",
    )
