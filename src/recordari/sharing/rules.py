"""Sharing: which memories may be given to other tenants, and how the two sides stand.

An organisation groups tenants. A tenant's administrator shares single memories with named tenants of the same organisation;
the receiving administrator accepts the giver once. What arrives is a copy in the receiver's own rows: found by recall there
like anything else, marked with where it comes from, read-only, and gone in the moment in which it is withdrawn.
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
"""What is known, how things are done, and what can be looked up; never what was said."""
RECEIVED_TRUST = Trust.EXTERNAL
"""To the receiver a copy is text from outside: it ends nothing that its own people said, and is never promoted."""


class LinkStatus(StrEnum):
    """How the receiver stands to a tenant that shares with it."""

    OFFERED = "offered"
    ACCEPTED = "accepted"
    DECLINED = "declined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The organisation that a tenant belongs to."""

    organisation: str
    joined_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A tenant of an organisation, as an operator sees it."""

    organisation: str
    tenant: str
    joined_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One memory given to one tenant."""

    __pydantic_config__ = DESCRIBED

    item_id: UUID
    to_tenant_id: TenantId
    tenant: str
    """The name of the tenant that receives it."""
    shared_by: str
    shared_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLink:
    """A tenant that shares with this one, and whether that was accepted."""

    __pydantic_config__ = DESCRIBED

    from_tenant_id: TenantId
    tenant: str
    """The name of the tenant that shares."""
    status: LinkStatus
    offered_at: datetime
    decided_at: datetime | None
    items: int
    """How many memories of it are here."""


def copy_ref(owner: TenantId, item_id: UUID) -> str:
    """The reference of a copy in the receiving tenant."""
    return f"shared:{owner}:{item_id}"
