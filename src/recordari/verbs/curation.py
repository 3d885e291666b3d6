"""Items one by one, for who looks after them: looked at, corrected, pinned, forgotten and held."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from recordari.core.items import Item
from recordari.facts import curate
from recordari.facts.curate import ItemPage, ListRequest, Standing
from recordari.facts.rules.evidence import Opinion
from recordari.lifetime import forget
from recordari.lifetime.forget import Forgotten
from recordari.lifetime.storage import Hold
from recordari.memory import versions
from recordari.memory.remember import Remembered
from recordari.verbs.bound import Bound


class CurationVerbs(Bound):
    """The verbs of curation."""

    async def list_items(self, **request: Any) -> ItemPage:
        """Items newest first; `request` are the fields of `ListRequest`, such as `kinds`, `state`, `before`."""
        return await curate.list_items(self.resources, self.identity, ListRequest(**request))

    async def item_history(self, item_id: UUID) -> list[Item]:
        """Every version that an item stands in line with, oldest first."""
        return await versions.history(self.resources, self.identity, item_id)

    async def item_standing(self, item_id: UUID) -> Standing:
        """What an item rests on, how it fares, and what people think of it."""
        return await curate.standing(self.resources, self.identity, item_id)

    async def edit_item(self, item_id: UUID, content: str, *, reason: str | None = None) -> Remembered:
        """Give a fact or procedure another text, as a new version that supersedes the old one."""
        return await curate.edit_item(self.resources, self.identity, item_id, content, reason=reason)

    async def invalidate_item(self, item_id: UUID, *, reason: str | None = None) -> None:
        """Say that an item is no longer true."""
        await curate.invalidate_item(self.resources, self.identity, item_id, reason=reason)

    async def restore_item(self, item_id: UUID, *, reason: str | None = None) -> None:
        """Undo that an item was invalidated or superseded, unless something newer contradicts it."""
        await curate.restore_item(self.resources, self.identity, item_id, reason=reason)

    async def pin_item(self, item_id: UUID, *, pinned: bool = True) -> None:
        """Keep an item until a person ends it, or no longer."""
        await curate.pin_item(self.resources, self.identity, item_id, pinned=pinned)

    async def give_feedback(self, item_id: UUID, opinion: Opinion | str, *, reason: str | None = None) -> float:
        """Say that an item was useful or wrong; how sure it is now."""
        return await curate.give_feedback(self.resources, self.identity, item_id, opinion, reason=reason)

    async def forget(self, item_id: UUID, *, reason: str | None = None, dry_run: bool = False) -> Forgotten:
        """Redact an item with everything derived from it; it does not come back. A dry run only says what that would be."""
        return await forget.forget(self.resources, self.identity, item_id, reason=reason, dry_run=dry_run)

    async def hold(self, item_id: UUID, action_id: str) -> bool:
        """Note that an action rests on an item, which nothing may remove from then on."""
        return await forget.hold(self.resources, self.identity, item_id, action_id)

    async def release(self, item_id: UUID, action_id: str) -> None:
        """Note that an action rests on an item no longer."""
        await forget.release(self.resources, self.identity, item_id, action_id)

    async def list_holds(self, item_id: UUID) -> list[Hold]:
        """The actions that rest on an item."""
        return await forget.list_holds(self.resources, self.identity, item_id)
