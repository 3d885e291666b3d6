"""What callers hand in: text and moments that can be kept, or an error that names the field."""

from __future__ import annotations

from datetime import UTC, datetime

from recordari.errors import InvalidInput


def check_text(field: str, text: str) -> None:
    """Raise `InvalidInput` for text that no database takes: with U+0000, or not valid Unicode."""
    if "\x00" in text:
        raise InvalidInput(f"{field} must not contain the character U+0000", field=field)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{field} contains half a surrogate pair, which is not valid text", field=field) from None


def check_times(**moments: datetime | None) -> None:
    """Raise `InvalidInput` for what is no moment, and for one without a time zone."""
    for name, moment in moments.items():
        if moment is not None and not isinstance(moment, datetime):
            raise InvalidInput(f"{name} must be a datetime", field=name)
        if moment is not None and moment.tzinfo is None:
            raise InvalidInput(f"{name} must carry a time zone, as in 2026-05-02T14:23:01Z", field=name)


def check_moment(name: str, moment: datetime) -> None:
    """Raise `InvalidInput` for a moment at the edge of the calendar, which could be written and not read again."""
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{name} must lie within the years 1 to 9999 in UTC", field=name) from None
