"""Events, which name a change by id and type, and webhooks, which post them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import Field

from recordari.core.described import DESCRIBED
from recordari.errors import InvalidInput

MOST_WEBHOOKS = 20
MAX_URL = 2000
SECRET_PREFIX = "whsec_"  # noqa: S105 - how such a secret begins, not one
SECRET_BYTES = 32
_PORTS = range(1, 65536)


class EventType(StrEnum):
    ITEM_CREATED = "item.created"
    ITEM_CHANGED = "item.changed"
    ITEM_SUPERSEDED = "item.superseded"
    ITEM_INVALIDATED = "item.invalidated"
    ITEM_RESTORED = "item.restored"
    ITEM_ARCHIVED = "item.archived"
    ITEM_FORGOTTEN = "item.forgotten"
    ITEM_REMOVED = "item.removed"
    USER_ERASED = "user.erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    __pydantic_config__ = DESCRIBED

    position: int
    """The position in the feed."""
    at: datetime
    type: EventType
    subject_id: UUID
    """The item, or the erasure of a user."""
    kind: str | None
    """Kind of the item."""

    def written(self) -> dict[str, Any]:
        return {**asdict(self), "at": self.at.isoformat(), "type": str(self.type), "subject_id": str(self.subject_id)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An address that events are posted to, and the state of its deliveries."""

    __pydantic_config__ = DESCRIBED

    webhook_id: UUID
    url: str
    types: tuple[EventType, ...]
    """Empty: every type."""
    secret: Annotated[str, Field(exclude=True)] = ""
    """Encrypted; no door shows it."""
    is_active: bool
    position: int
    """The last event that was delivered."""
    failing_since: datetime | None
    failures: int
    """Since the last success."""
    last_error: str | None
    delivered_at: datetime | None
    created_at: datetime


def checked_url(url: str) -> str:
    """Return the address of a webhook; `InvalidInput` unless events can be posted there."""
    try:
        parts = urlsplit(url)
        is_good = (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and not parts.fragment
            and (parts.port is None or parts.port in _PORTS)
            and url.isascii()
            and url.isprintable()
            and " " not in url
        )
    except ValueError:
        is_good = False
    if not is_good or len(url) > MAX_URL:
        raise InvalidInput("url must be an http or https address without a user name or a fragment", field="url")
    return url


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Sign a delivery: an HMAC-SHA256 over its id, its time and its body."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    digest = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def checked_types(types: Sequence[str]) -> tuple[EventType, ...]:
    """Return types of events, each once; empty: every type."""
    try:
        return tuple(dict.fromkeys(EventType(each) for each in types))
    except ValueError:
        raise InvalidInput(f"events must be among {', '.join(EventType)}", field="types") from None
