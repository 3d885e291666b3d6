"""Usage is added to the database some seconds after the writes, and at once when somebody looks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from tests.stored import rows

from recordari.config import Settings
from recordari.core.identity import Identity
from recordari.kit.resources import Resources
from recordari.tenants.tenants import ensure_tenant
from recordari.tenants.usage import Usages


async def test_several_who_look_at_once_are_all_answered_and_count_each_write_once(
    resources: Resources, settings: Settings
) -> None:
    """Each look first writes down what was admitted; they must not take it from under each other."""
    tenants = [await ensure_tenant(resources, f"tenant-{number}") for number in range(4)]
    identities = [Identity(tenant_id=tenant.tenant_id) for tenant in tenants]
    usages = Usages(resources.database, seconds=600)
    now = datetime.now(UTC)
    for identity in identities:
        await usages.admit(identity, items=3, size=30, now=now)
    await asyncio.gather(*(usages.flush() for _ in range(3)), *(usages.look(one, now=now) for one in identities))
    written = rows(settings, "SELECT DISTINCT writes FROM recordari.usage WHERE writes > 0")
    assert written == [{"writes": 3}]
    await usages.close()
