"""What changes in memory, and webhooks that carry it on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any
from uuid import UUID

from recordari.events import follow, webhooks
from recordari.events.rules import Event, EventType, Webhook
from recordari.events.webhooks import NewWebhook
from recordari.verbs.bound import Bound


class EventVerbs(Bound):
    """The verbs of events and webhooks."""

    async def list_events(self, **more: Any) -> list[Event]:
        """What changed, oldest first; `more` are `after` (a position), `types` and `limit`."""
        return await follow.list_events(self.resources, self.identity, **more)

    def follow_events(
        self, *, after: int | None = None, types: Sequence[EventType | str] = ()
    ) -> AsyncGenerator[Event | None, None]:
        """What changes from now on, or from a position on, as it happens; None when nothing did for a moment."""
        return follow.follow_events(self.resources, self.identity, after=after, types=types)

    async def create_webhook(self, url: str, *, types: Sequence[EventType | str] = ()) -> NewWebhook:
        """Send what happens from now on to an address; its secret is shown this once."""
        return await webhooks.create_webhook(self.resources, self.identity, url, types=types)

    async def list_webhooks(self) -> list[Webhook]:
        """The tenant's webhooks, and how each fares."""
        return await webhooks.list_webhooks(self.resources, self.identity)

    async def get_webhook(self, webhook_id: UUID) -> Webhook:
        """One webhook."""
        return await webhooks.get_webhook(self.resources, self.identity, webhook_id)

    async def set_webhook_active(self, webhook_id: UUID, *, is_active: bool) -> Webhook:
        """Switch a webhook off, or on again."""
        return await webhooks.set_webhook_active(self.resources, self.identity, webhook_id, is_active=is_active)

    async def delete_webhook(self, webhook_id: UUID) -> None:
        """Tell an address nothing more."""
        await webhooks.delete_webhook(self.resources, self.identity, webhook_id)
