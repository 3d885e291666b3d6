"""Routes of single items: list, read, edit, invalidate, restore, pin, rate; and of the rulings of the judge."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from recordari.core.checks import MAX_REASON
from recordari.core.identity import Role, Scope
from recordari.core.items import MAX_LABEL, Item, Kind, Tier, Trust
from recordari.errors import NotFound
from recordari.facts import curate, extract
from recordari.facts.curate import ItemState, Provenance
from recordari.facts.extract import PreviewedFact
from recordari.facts.rules.claims import Opinion
from recordari.facts.rules.conflict import PastRuling
from recordari.kit.problems import error_responses
from recordari.kit.rest import (
    MISMATCH,
    PROBLEMS,
    AdminCaller,
    AgentCaller,
    Cursor,
    IfMatch,
    Limit,
    Page,
    Strict,
    client,
    cursor_of,
    etag_of,
    id_position,
    page_of,
    paged,
    require_match,
)
from recordari.memory import items, versions
from recordari.memory.remember import Remembered

router = APIRouter(prefix="/v1/items", tags=["items"], responses=PROBLEMS)

OVERTAKEN = error_responses({409: "It is not the current version, or a newer item contradicts it."})

Reason = Annotated[
    str | None, Field(default=None, max_length=MAX_REASON, description="Why; it is written to the audit.")
]
Kinds = Annotated[list[Kind] | None, Query(description="Only these kinds; all, if left out.")]
Label = Annotated[str | None, Query(min_length=1, max_length=MAX_LABEL)]
When = Annotated[AwareDatetime | None, Query(description="By `event_time`.")]
AsOf = Annotated[AwareDatetime | None, Query(description="What was true at that moment.")]
KnownAt = Annotated[AwareDatetime | None, Query(description="What was recorded by that moment.")]


class ReasonRequest(Strict):
    """The reason of a change."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the meeting was cancelled"}]})

    reason: Reason


class PinRequest(Strict):
    """Whether to pin an item."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"pinned": False}]})

    pinned: bool = True


class EditRequest(Strict):
    """The new text of a fact or procedure."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content": "Ana prefers aisle seats", "reason": "misheard"}]}
    )

    content: str = Field(min_length=1)
    reason: Reason


class FeedbackRequest(Strict):
    """Your opinion of an item."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"opinion": "useful"}]})

    opinion: Annotated[Opinion, Field(strict=False)]
    reason: Reason


class PreviewRequest(Strict):
    """A text, and the settings to try on it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"text": "I live in Lund and take aspirin", "speaker": "Ana", "learning": {"never": ["aspirin"]}}
            ]
        }
    )

    text: str = Field(min_length=1)
    speaker: str | None = Field(default=None, max_length=MAX_LABEL, description="Who says it.")
    event_time: AwareDatetime | None = Field(default=None, strict=False, description="When; now, if left out.")
    agent_id: str | None = Field(default=None, max_length=MAX_LABEL, description="Whose settings of an agent count.")
    learning: dict[str, Any] | None = Field(
        default=None, description="The setting `learning` to try; the tenant's, if left out."
    )


class ConfidenceShown(BaseModel):
    confidence: float


@router.get("", operation_id="list_items", openapi_extra=client(cursor="before"), response_model=Page[Item])
async def list_items(
    caller: AgentCaller,
    kind: Kinds = None,
    scope: Scope | None = None,
    category: Label = None,
    subject: Label = None,
    trust: Trust | None = None,
    tier: Tier | None = None,
    session_id: Label = None,
    state: ItemState = ItemState.LIVE,
    pinned: bool = False,
    since: When = None,
    until: When = None,
    as_of: AsOf = None,
    known_at: KnownAt = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> object:
    """Items newest first, such as all facts (`kind=fact`). Another `state` than `live` needs the role admin."""
    page = await curate.list_items(
        *caller,
        kinds=kind,
        scope=scope,
        category=category,
        subject=subject,
        trust=trust,
        tier=tier,
        session_id=session_id,
        state=state,
        pinned=pinned,
        since=since,
        until=until,
        as_of=as_of,
        known_at=known_at,
        before=id_position(cursor),
        limit=limit,
    )
    return {"items": page.items, "next_cursor": cursor_of(page.next_before)}


@router.get("/{item_id}", operation_id="get_item")
async def get_item(caller: AgentCaller, item_id: UUID, response: Response) -> Item:
    """One item; its `ETag` guards changes. Only the role admin sees superseded and invalidated items."""
    item = await items.get_item(*caller, item_id)
    if item.invalid_at is not None and caller.identity.role is not Role.ADMIN:
        raise NotFound("there is no such item")
    response.headers["ETag"] = etag_of(item)
    return item


@router.get("/{item_id}/history", operation_id="item_history")
async def item_history(caller: AdminCaller, item_id: UUID) -> list[Item]:
    """Every version of an item, oldest first."""
    return await versions.item_history(*caller, item_id)


@router.get("/{item_id}/provenance", operation_id="item_provenance")
async def item_provenance(caller: AgentCaller, item_id: UUID) -> Provenance:
    """The sources of an item, what rests on it, its trend, and its feedback."""
    return await curate.item_provenance(*caller, item_id)


@router.patch("/{item_id}", operation_id="edit_item", responses={**OVERTAKEN, **MISMATCH})
async def edit_item(caller: AgentCaller, item_id: UUID, edit: EditRequest, if_match: IfMatch = None) -> Remembered:
    """Give a fact or procedure another text. The answer is the new version, which supersedes this one."""
    await _check_match(caller, item_id, if_match)
    return await curate.edit_item(*caller, item_id, **dict(edit))


@router.post("/{item_id}/invalidate", operation_id="invalidate_item", status_code=204, responses=MISMATCH)
async def invalidate_item(
    caller: AgentCaller, item_id: UUID, body: ReasonRequest | None = None, if_match: IfMatch = None
) -> None:
    """Mark an item as no longer true: it leaves recall and stays on record."""
    await _check_match(caller, item_id, if_match)
    await curate.invalidate_item(*caller, item_id, reason=body.reason if body else None)


@router.post("/{item_id}/restore", operation_id="restore_item", status_code=204, responses={**OVERTAKEN, **MISMATCH})
async def restore_item(
    caller: AdminCaller, item_id: UUID, body: ReasonRequest | None = None, if_match: IfMatch = None
) -> None:
    """Make an invalidated or superseded item current again, unless a newer one contradicts it."""
    await _check_match(caller, item_id, if_match)
    await curate.restore_item(*caller, item_id, reason=body.reason if body else None)


@router.put("/{item_id}/pin", operation_id="pin_item", status_code=204)
async def pin_item(caller: AgentCaller, item_id: UUID, request: PinRequest | None = None) -> None:
    """Keep an item until a person ends it: neither the judge nor decay may. `pinned: false` lifts that again."""
    await curate.pin_item(*caller, item_id, pinned=request is None or request.pinned)


@router.post("/{item_id}/feedback", operation_id="give_feedback", openapi_extra=client(part="confidence"))
async def give_feedback(caller: AgentCaller, item_id: UUID, body: FeedbackRequest) -> ConfidenceShown:
    """Rate an item as useful or wrong; each person has one vote."""
    return ConfidenceShown(confidence=await curate.give_feedback(*caller, item_id, **dict(body)))


facts_router = APIRouter(prefix="/v1/facts", tags=["items"], responses=PROBLEMS)


@facts_router.post("/preview", operation_id="preview_facts")
async def preview_facts(caller: AgentCaller, request: PreviewRequest) -> list[PreviewedFact]:
    """What would be learnt from a text; nothing is kept."""
    return await extract.preview_facts(*caller, **dict(request))


rulings_router = APIRouter(prefix="/v1/rulings", tags=["items"], responses=PROBLEMS)


@rulings_router.get("", operation_id="list_rulings", **paged(PastRuling, cursor="before"))
async def list_rulings(caller: AdminCaller, limit: Limit = curate.RULINGS, cursor: Cursor = None) -> object:
    """The last rulings that ended a fact, newest first, each with both texts and its rule; for a user that user's alone."""
    rows = await curate.list_rulings(*caller, before=id_position(cursor), limit=limit + 1)
    return page_of(rows, limit, lambda ruling: ruling.ruling_id)


@rulings_router.post("/{ruling_id}/undo", operation_id="undo_ruling", status_code=204)
async def undo_ruling(caller: AdminCaller, ruling_id: UUID, body: ReasonRequest | None = None) -> None:
    """Undo a ruling: the fact that it ended is exactly as before. The fact that ended it stays."""
    await curate.undo_ruling(*caller, ruling_id, reason=body.reason if body else None)


async def _check_match(caller: AgentCaller, item_id: UUID, if_match: str | None) -> None:
    if if_match is not None:
        require_match(if_match, etag_of(await items.get_item(*caller, item_id)))
