"""Memories given to other tenants of the organisation, and received from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from recordari.sharing import share
from recordari.sharing.rules import Membership, Share, ShareLink
from recordari.sharing.share import Shared
from recordari.verbs.bound import Bound


class ShareVerbs(Bound):
    """The verbs of sharing."""

    async def get_organisation(self) -> Membership:
        """The organisation that the tenant belongs to."""
        return await share.get_organisation(self.resources, self.identity)

    async def share(self, item_ids: Sequence[UUID], with_tenants: Sequence[str]) -> list[Shared]:
        """Give memories to tenants of the same organisation, read-only, until they are withdrawn."""
        return await share.share(self.resources, self.identity, item_ids, with_tenants)

    async def list_shares(self, **request: Any) -> list[Share]:
        """What the tenant shares and with whom, newest items first; `request` are `before` and `limit`."""
        return await share.list_shares(self.resources, self.identity, **request)

    async def withdraw(self, item_id: UUID, *, tenant: str | None = None) -> int:
        """Take a shared memory back, from one tenant or from all; gone there when this returns."""
        return await share.withdraw(self.resources, self.identity, item_id, tenant=tenant)

    async def list_share_links(self) -> list[ShareLink]:
        """Which tenants share with this one, and whether that was accepted."""
        return await share.list_share_links(self.resources, self.identity)

    async def accept_share_link(self, tenant: str) -> ShareLink:
        """Let arrive what a tenant shares."""
        return await share.accept_share_link(self.resources, self.identity, tenant)

    async def decline_share_link(self, tenant: str) -> ShareLink:
        """Take nothing from a tenant, or nothing any more."""
        return await share.decline_share_link(self.resources, self.identity, tenant)
