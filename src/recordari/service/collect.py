"""Removing objects that nothing points to: what an upload left behind that never became a row.

An object is removed only when it is older than the grace period, no row points to it, and both are still so at the end:
an upload writes its object first and its row moments later, and writing an object that is there renews its time.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from recordari.core.identity import Identity
from recordari.core.telemetry import get_log
from recordari.kit.resources import Resources
from recordari.service.forget import remove_discarded
from recordari.storage import retention

log = get_log(__name__)

JOB = "collect_objects"
AT_ONCE = 500


async def collect_objects(resources: Resources, identity: Identity, **_: Any) -> int:
    """Remove the tenant's objects that no row points to; how many. A weekly job."""
    removed = await remove_discarded(resources, identity)
    before = resources.clock() - timedelta(hours=resources.settings.object_grace_hours)
    held: list[str] = []
    async for found in resources.objects.list_of(str(identity.tenant_id)):
        if found.modified_at < before:
            held.append(found.key)
        if len(held) >= AT_ONCE:
            removed += await _collect(resources, identity, held)
            held = []
    removed += await _collect(resources, identity, held)
    if removed:
        log.info("objects_collected", objects=removed)
    return removed


async def _collect(resources: Resources, identity: Identity, keys: list[str]) -> int:
    before = resources.clock() - timedelta(hours=resources.settings.object_grace_hours)
    removed = 0
    for key in await _unused(resources, identity, keys):
        # Once more for this one alone: the page may have taken long.
        if await _unused(resources, identity, [key]) and await resources.objects.delete_older(key, before):
            removed += 1
    return removed


async def _unused(resources: Resources, identity: Identity, keys: list[str]) -> list[str]:
    if not keys:
        return []
    async with resources.database.transaction(identity) as tx:
        used = await retention.list_used_objects(tx, keys)
    return [key for key in keys if key not in used]
