"""Read single items, and the whole text behind a preview."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from uuid import UUID

from recordari.core.checks import TEXT_TYPE, is_readable
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity, Role, Scope, owned_by
from recordari.core.items import Item
from recordari.core.text import LONGEST_CHARACTER, characters_begun
from recordari.db.database import Transaction
from recordari.db.pipeline import READ_ONLY
from recordari.errors import Conflict, InvalidInput, NotFound
from recordari.kit.resources import Resources
from recordari.memory import storage
from recordari.memory.objects import Objects

NO_SUCH_OUTPUT = "there is no such tool output; its key is the payload_key of an item that you can see"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """The whole body behind a preview, or a range of it."""

    __pydantic_config__ = DESCRIBED

    key: str
    content: str
    """Text; of a body that is no text, its bytes in Base64."""
    start: int
    """The byte at which `content` begins."""
    total_bytes: int
    is_whole: bool
    next_start: int | None = None
    """The start of the next range; null at the end."""
    media_type: str = TEXT_TYPE


async def read_tool_output(
    resources: Resources, identity: Identity, key: str, *, start: int = 0, length: int | None = None
) -> ToolOutput:
    """Read the whole body behind a preview, or a range of it in bytes.

    A range has the characters that begin in it, so no character is lost between two ranges.
    """
    if start < 0 or (length is not None and length < 1):
        raise InvalidInput("start must not be negative, and length must be at least 1")
    async with resources.database.transaction(identity) as tx:
        line = await storage.line_of(tx, identity.owned_by, identity.session_id)
        payload = await storage.find_payload(tx, key, session_ids=line)
    if payload is None:
        raise NotFound(NO_SUCH_OUTPUT)
    rest = max(0, payload.size - start)
    size = rest if length is None else min(length + LONGEST_CHARACTER - 1, rest)
    body = b""
    if payload.body is not None:
        body = payload.body[start : start + size]
    elif size:
        assert payload.object_key is not None
        body = await resources.get(Objects).get(payload.object_key, start=start, length=size)
    is_text = is_readable(payload.media_type)
    first, past = characters_begun(body, length) if is_text else (0, len(body) if length is None else length)
    shown = body[first:past]
    past = first + len(shown)
    return ToolOutput(
        key=key,
        content=shown.decode() if is_text else base64.b64encode(shown).decode(),
        start=start + first,
        total_bytes=payload.size,
        is_whole=start == 0 and past == payload.size,
        next_start=start + past if past and start + past < payload.size else None,
        media_type=payload.media_type,
    )


async def get_item(resources: Resources, identity: Identity, item_id: UUID) -> Item:
    """One item that you may see."""
    async with resources.database.transaction(identity) as tx:
        item = await storage.find_item(tx, item_id)
        if item is None or not await _may_see(tx, item):
            raise NotFound("there is no such item")
    return item


def refuse_shared(item: Item) -> None:
    """Raise `Conflict` for a copy of a shared item: only its owner changes it."""
    if item.shared_from is not None:
        raise Conflict(READ_ONLY, shared_from=item.shared_from)


async def _may_see(tx: Transaction, item: Item) -> bool:
    identity = tx.identity
    if identity.role is Role.ADMIN:
        return True
    match item.scope:
        case Scope.TENANT:
            return True
        case Scope.USER:
            return item.user_id == identity.user_id
        case Scope.AGENT:
            return item.agent_id == identity.agent_id
        case Scope.SESSION:
            owner = owned_by(item.user_id, item.agent_id)
            return owner == identity.owned_by and item.session_id in await storage.line_of(
                tx, owner, identity.session_id
            )
