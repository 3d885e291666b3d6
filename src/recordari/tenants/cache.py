"""What every call asks of a tenant and a user, kept in the process for two seconds: settings and the time zone.

A stricter setting must bind every process soon, so nothing here is older than that. Nothing that decides who may see what is
kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from recordari.core.cache import BoundedMap
from recordari.core.identity import Identity, TenantId, UserId
from recordari.db.database import Database
from recordari.tenants import storage

MOST_TENANTS = 10_000
SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPreferences:
    """What a tenant has set, and where its user is."""

    settings: Mapping[str, Any]
    zone: ZoneInfo


class TenantCache:
    """Keeps the settings of tenants and the time zones of users."""

    def __init__(self) -> None:
        self._known: BoundedMap[tuple[TenantId, UserId | None], TenantPreferences] = BoundedMap(
            MOST_TENANTS, seconds=SECONDS
        )

    async def get(self, database: Database, identity: Identity) -> TenantPreferences:
        """What the identity's tenant has set, and its user's time zone."""
        key = (identity.tenant_id, identity.user_id)
        known = self._known.get(key)
        if known is None:
            tenant, user = storage.ask_tenant(), storage.ask_user(identity.user_id)
            await database.read_batch(identity, [tenant, user])
            known = TenantPreferences(
                settings=tenant.answer.settings if tenant.answer is not None else {},
                zone=ZoneInfo(user.answer.time_zone if user.answer is not None else "UTC"),
            )
            self._known.put(key, known)
        return known

    def forget_tenant(self, tenant_id: TenantId) -> None:
        """Look again at the next call: something about the tenant was changed."""
        self._known.drop(lambda key, _: key[0] == tenant_id)
