"""What this process wrote last in each thread, so that the next message can be embedded with the head of it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

from recordari.core.identity import Scope, TenantId
from recordari.core.items import Kind
from recordari.domain.indexing import PREVIOUS_HEAD
from recordari.storage.items import Row

MOST_THREADS = 10_000


@dataclass(frozen=True, slots=True)
class Said:
    """The last message of a thread."""

    item_id: UUID
    content_hash: bytes
    scope: Scope
    speaker: str | None
    head: str


class Threads:
    """Keeps the last message of the threads written to lately; whether it still is the last, only the database knows."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[TenantId, str], Said] = OrderedDict()

    def note(self, tenant_id: TenantId, row: Row) -> None:
        """A row was written at the end of its thread."""
        if row.thread is None:
            return
        key, item = (tenant_id, row.thread), row.item
        self._last.pop(key, None)
        if item.kind is Kind.CHAT_MESSAGE:
            self._last[key] = Said(
                row.item_id, item.content_hash, item.scope, item.speaker, item.content[:PREVIOUS_HEAD]
            )
        while len(self._last) > MOST_THREADS:
            self._last.popitem(last=False)

    def before(self, tenant_id: TenantId, row: Row) -> Said | None:
        """The message that a row follows, as far as this process knows."""
        if row.thread is None or row.item.kind is not Kind.CHAT_MESSAGE:
            return None
        said = self._last.get((tenant_id, row.thread))
        return said if said is not None and said.scope is row.item.scope else None
