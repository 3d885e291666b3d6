"""What every noun's models share: strictness, moments in time, and pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from recordari.entry.rest.errors import Problem
from recordari.errors import InvalidInput

T = TypeVar("T")
Row = TypeVar("Row")

MAX_PAGE = 100


class Strict(BaseModel):
    """A body that is taken exactly: no unknown field, no text where a number belongs."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Shown(BaseModel):
    """A thing as callers see it, made from the domain's own."""

    model_config = ConfigDict(from_attributes=True)


def _only_text(value: object) -> object:
    if not isinstance(value, str | datetime):
        raise ValueError("must be a date and time such as 2027-01-31T09:00:00Z")  # noqa: TRY004  # pydantic's way
    return value


def _within_calendar(value: datetime) -> datetime:
    try:
        value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie within the years 1 to 9999 in UTC") from None
    return value


Moment = Annotated[
    AwareDatetime,
    Field(strict=False),
    BeforeValidator(_only_text, json_schema_input_type=datetime),
    AfterValidator(_within_calendar),
]
"""A moment in a body: ISO 8601 text with its offset, never a bare number."""


class Page(BaseModel, Generic[T]):
    """Some of a list, and where the rest begins."""

    items: list[T]
    next_cursor: str | None = Field(description="Give it as `cursor` to get what follows; null at the end.")


Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Most items of a page.")]
Cursor = Annotated[str | None, Query(max_length=1024, description="Where to go on: `next_cursor` of the page before.")]


def position(cursor: str | None) -> str | None:
    """What a cursor stands for; `InvalidInput` when it is not one of ours."""
    if cursor is None:
        return None
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise InvalidInput("this is not a cursor; take `next_cursor` of a page", field="cursor") from None


def id_position(cursor: str | None) -> UUID | None:
    """The id that a cursor stands for."""
    written = position(cursor)
    try:
        return UUID(written) if written is not None else None
    except ValueError:
        raise InvalidInput("this is not a cursor; take `next_cursor` of a page", field="cursor") from None


def number_position(cursor: str | None) -> int | None:
    """The number that a cursor stands for."""
    written = position(cursor)
    if written is None:
        return None
    if not written.isascii() or not written.isdigit() or len(written) > 18:
        raise InvalidInput("this is not a cursor; take `next_cursor` of a page", field="cursor")
    return int(written)


def cursor_of(place: object | None) -> str | None:
    """The cursor that stands for a place; null at the end."""
    return base64.urlsafe_b64encode(str(place).encode()).decode().rstrip("=") if place is not None else None


def page_of(rows: Sequence[Row], limit: int, key: Callable[[Row], object]) -> dict[str, Any]:
    """A page of at most `limit` of the rows; one more was asked for, to see whether there are more."""
    shown = rows[:limit]
    more = len(rows) > limit
    return {"items": shown, "next_cursor": cursor_of(key(shown[-1]) if more else None)}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description, "content": {"application/problem+json": {}}}
    for status, description in {
        401: "No valid credential.",
        403: "The credential does not reach this.",
        404: "Missing, or not yours.",
        409: "The present state forbids it, or the `Idempotency-Key` was used for another request.",
        413: "Too large.",
        422: "Not valid.",
        429: "Too many requests, or a quota is used up.",
        503: "At capacity, or the database is away.",
        504: "It took too long.",
    }.items()
}
"""The answers that any route may give when it does not give its own."""
