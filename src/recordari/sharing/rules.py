"""Sharing: which memories a tenant may share, and the states of a share.

An organisation groups tenants. A tenant's administrator shares single memories with named tenants of the same organisation;
the receiving administrator accepts the giver once. The receiver gets a copy in its own rows: recall finds it like any
item, it shows its origin, is read-only, and is removed in the transaction that withdraws it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from recordari.core.described import DESCRIBED
from recordari.core.identity import TenantId
from recordari.core.items import KINDS, Trust

SHAREABLE = frozenset(kind for kind, rule in KINDS.items() if rule.is_shareable)
"""Facts, procedures and knowledge, never messages."""
RECEIVED_TRUST = Trust.EXTERNAL
"""To the receiver a copy is external text: it supersedes nothing that its own people said, and is never promoted."""


class LinkStatus(StrEnum):
    OFFERED = "offered"
    ACCEPTED = "accepted"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    organisation: str
    joined_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    organisation: str
    tenant: str
    joined_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One memory that is shared with one tenant."""

    __pydantic_config__ = DESCRIBED

    item_id: UUID
    to_tenant_id: TenantId
    tenant: str
    """The name of the tenant that receives it."""
    shared_by: str
    shared_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLink:
    """A tenant that shares with this one, and whether this one accepted."""

    __pydantic_config__ = DESCRIBED

    from_tenant_id: TenantId
    tenant: str
    """The name of the tenant that shares."""
    status: LinkStatus
    offered_at: datetime
    decided_at: datetime | None
    items: int
    """The number of copies from it."""
