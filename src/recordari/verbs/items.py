"""What is remembered."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from uuid import UUID

from recordari.core.identity import Scope, checked_choice, optional_choice
from recordari.core.items import Item, Kind, NewItem
from recordari.memory import items, remember
from recordari.memory.items import ToolOutput
from recordari.memory.remember import News, Remembered
from recordari.transfer import foreign
from recordari.transfer.rules import ForeignSource, ImportedForeign
from recordari.verbs.bound import Bound


class ItemVerbs(Bound):
    """The verbs of items."""

    async def remember(
        self,
        content: str,
        *,
        kind: Kind | str = Kind.CHAT_MESSAGE,
        scope: Scope | str | None = None,
        **more: Any,
    ) -> Remembered:
        """Keep one item; `more` are the further fields of `NewItem`, such as `speaker`, `event_time`, `source_ref`."""
        new = NewItem(
            content=content,
            kind=checked_choice("kind", Kind, kind),
            scope=optional_choice("scope", Scope, scope),
            **more,
        )
        return await remember.remember(self.resources, self.identity, new)

    async def remember_many(self, items: Sequence[NewItem]) -> list[Remembered]:
        """Keep up to 1,000 items in the order given, all of them or none."""
        return await remember.remember_many(self.resources, self.identity, items)

    async def remember_fact(
        self,
        content: str,
        *,
        scope: Scope | str = Scope.USER,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> Remembered:
        """Keep a fact across sessions; stating it again finds the same row."""
        return await remember.remember_fact(
            self.resources,
            self.identity,
            content,
            scope=checked_choice("scope", Scope, scope),
            metadata=metadata or {},
            **more,
        )

    def import_items(
        self, items: News, *, total: int = 0, progress: Callable[[int, int], None] | None = None
    ) -> AsyncIterator[list[Remembered]]:
        """Keep any number of items, batch by batch; started again, it goes on where it stopped."""
        return remember.import_items(self.resources, self.identity, items, total=total, progress=progress)

    async def import_foreign(
        self, source: ForeignSource | str, document: Any, *, progress: Callable[[int, int], None] | None = None
    ) -> ImportedForeign:
        """Keep what `mem0` or `zep` exported, read from JSON; done again, it goes on where it stopped."""
        chosen = checked_choice("source", ForeignSource, source)
        return await foreign.import_foreign(self.resources, self.identity, chosen, document, progress=progress)

    async def get_item(self, item_id: UUID) -> Item:
        """One item."""
        return await items.get_item(self.resources, self.identity, item_id)

    async def read_tool_output(self, key: str, *, start: int = 0, length: int | None = None) -> ToolOutput:
        """The whole body behind an elided item, or a range of its bytes."""
        return await items.read_tool_output(self.resources, self.identity, key, start=start, length=length)
