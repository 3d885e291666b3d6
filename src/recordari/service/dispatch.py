"""Working through the outbox: lease a batch, hand it to its handler, note how it went."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from recordari.core.identity import Identity, Role, TenantId
from recordari.core.telemetry import get_log
from recordari.db import outbox
from recordari.db.outbox import Batch
from recordari.domain.jobs import retry_delay
from recordari.errors import DatabaseUnavailable, Overloaded, ProviderError, RecordariError
from recordari.kit.resources import Resources

log = get_log(__name__)

Handler = Callable[[Resources, Identity, Batch], Awaitable[None]]

# Failures of the surroundings, not of the work: they use up no try.
OUTAGES = (ProviderError, DatabaseUnavailable, Overloaded)
LONGEST_OUTAGE_DELAY = timedelta(seconds=60)
OUTAGE_PATIENCE = timedelta(days=1)


class Outcome(StrEnum):
    """How it went with a batch."""

    DONE = "done"
    FAILED = "failed"
    OUTAGE = "outage"
    """Something outside is out of order."""


@dataclass(slots=True, kw_only=True)
class Round:
    """Where the round over the tenants stands, so that each gets its turn."""

    fresh: TenantId = outbox.FIRST_TENANT
    tried: TenantId = outbox.FIRST_TENANT


def lease_of(resources: Resources) -> timedelta:
    """How long a batch is held without a sign of life."""
    return timedelta(seconds=resources.settings.job_stalled_seconds)


async def claim_fresh(resources: Resources, topic: str, place: Round, *, batches: int, size: int) -> list[Batch]:
    """Lease work never tried before, of at most `batches` tenants, going on after the last one served."""
    lease = lease_of(resources)
    async with resources.database.queue() as rows:
        claimed = await outbox.claim_fresh(rows, topic, after=place.fresh, tenants=batches, size=size, lease=lease)
        if not claimed and place.fresh != outbox.FIRST_TENANT:
            claimed = await outbox.claim_fresh(
                rows, topic, after=outbox.FIRST_TENANT, tenants=batches, size=size, lease=lease
            )
    place.fresh = claimed[-1].tenant_id if claimed else outbox.FIRST_TENANT
    return claimed


async def claim_tried(resources: Resources, topic: str, place: Round) -> Batch | None:
    """Lease one entry that failed or crashed before, alone, so that it can harm no other."""
    lease, budget = lease_of(resources), resources.settings.job_max_attempts
    async with resources.database.queue() as rows:
        claimed = await outbox.claim_tried(rows, topic, after=place.tried, budget=budget, lease=lease)
        if claimed is None and place.tried != outbox.FIRST_TENANT:
            claimed = await outbox.claim_tried(rows, topic, after=outbox.FIRST_TENANT, budget=budget, lease=lease)
    place.tried = claimed.tenant_id if claimed else outbox.FIRST_TENANT
    return claimed


async def renew(resources: Resources, batches: Sequence[Batch]) -> None:
    """Keep the batches that are being worked on."""
    async with resources.database.queue() as rows:
        await outbox.renew(rows, batches, lease=lease_of(resources))


async def handle(
    resources: Resources, handler: Handler, batch: Batch, *, seconds: float, strikes_off: bool = False
) -> Outcome:
    """Run the handler on a batch and note how it went; a handler that strikes its batch off leaves nothing to do."""
    identity = Identity(tenant_id=batch.tenant_id, role=Role.ADMIN, actor=f"job:{batch.topic}")
    try:
        async with asyncio.timeout(seconds):
            await handler(resources, identity, batch)
        if not strikes_off:
            async with resources.database.transaction(identity) as tx:
                await outbox.done(tx, batch)
    except asyncio.CancelledError:
        await asyncio.shield(_note(resources, identity, batch, None))
        raise
    except Exception as error:  # noqa: BLE001 - whatever a handler raises, its batch is tried again or parked
        log.warning("batch_failed", topic=batch.topic, entries=len(batch), error=type(error).__name__)
        await _note(resources, identity, batch, error)
        return Outcome.OUTAGE if isinstance(error, OUTAGES) else Outcome.FAILED
    return Outcome.DONE


async def _note(resources: Resources, identity: Identity, batch: Batch, error: Exception | None) -> None:
    """Save the outcome; if even that fails, the lease runs out and the entries come due by themselves."""
    settings = resources.settings
    name = type(error).__name__
    try:
        async with resources.database.transaction(identity) as tx:
            if error is None:
                await outbox.release(tx, batch)
            elif isinstance(error, OUTAGES):
                await outbox.postpone(
                    tx,
                    batch,
                    error=name,
                    shortest=timedelta(seconds=settings.job_retry_seconds),
                    longest=LONGEST_OUTAGE_DELAY,
                    patience=OUTAGE_PATIENCE,
                )
            else:
                delay = retry_delay(batch.attempts, first=settings.job_retry_seconds)
                await outbox.fail(
                    tx, batch, error=name, delay=timedelta(seconds=delay), budget=settings.job_max_attempts
                )
    except RecordariError as failure:
        log.warning("outcome_not_saved", topic=batch.topic, error=type(failure).__name__)
