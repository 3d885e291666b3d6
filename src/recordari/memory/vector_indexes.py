"""Giving large tenants an index over their vectors, and taking it away again: a job of each tenant.

A small tenant is searched exactly. One that has `vector_index_from` live vectors gets an index of its own, as long
as it is among the `MOST_INDEXES` largest; it loses it below half of that, when it changes its model, or when
larger tenants need the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from recordari.core.identity import Identity
from recordari.core.telemetry import get_log
from recordari.db import jobs
from recordari.db.database import Transaction
from recordari.kit.resources import Resources
from recordari.memory import vector_storage
from recordari.memory.vector_storage import IndexSpec, VectorIndex, VectorIndexes

log = get_log(__name__)

JOB = "vector_index"
MOST_INDEXES = 50
LATER = timedelta(minutes=1)
CLEARLY_LARGER = 1.2  # by which a tenant must exceed the smallest indexed one to take its place: no back and forth


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What to do: drop first, then build."""

    drop: tuple[VectorIndex, ...] = ()
    build: tuple[IndexSpec, ...] = ()


async def maintain(resources: Resources, identity: Identity, **_: Any) -> None:
    """Build the tenant's index, or drop it, or do nothing: whatever its size asks for. A job."""
    async with resources.database.transaction(identity) as tx:
        specs = await _specs(tx)
        existing = await vector_storage.list_indexes(tx)
    least = resources.settings.vector_index_from
    changes = decide(identity, specs, existing, least=least, most=MOST_INDEXES)
    if changes == Changes():
        return
    indexes = resources.find(VectorIndexes)
    if indexes is None:
        log.info("vector_index_not_changed", reason="the owner's connection is not known")
    elif not await _made(indexes, identity, changes):
        # Another index is being built: come back later instead of keeping a worker waiting.
        async with resources.database.transaction(identity) as tx:
            await look_later(resources, tx)


async def look_later(resources: Resources, tx: Transaction) -> None:
    """Have the job run in a minute, once, however often this is called meanwhile: many vectors are coming in."""
    name = f"{JOB}:{tx.identity.tenant_id}"
    await jobs.defer(tx, JOB, queueing_lock=name, lock=name, schedule_at=resources.clock() + LATER)


def decide(
    identity: Identity, specs: Sequence[IndexSpec], existing: Sequence[VectorIndex], *, least: int, most: int
) -> Changes:
    """Compare what the tenant should have with what the catalogue holds."""
    prefix = vector_storage.tenant_prefix(identity)
    own = {index.name: index for index in existing if index.name.startswith(prefix)}
    others = sorted((index for index in existing if index.name not in own), key=lambda index: index.rows)
    drop, build = [], []
    for spec in specs:
        index = own.pop(spec.name(identity), None)
        larger = sum(other.rows > spec.rows for other in others)
        if index is not None and index.is_valid:
            if spec.rows < least / 2 or larger >= most:
                drop.append(index)
            continue
        if index is not None:
            drop.append(index)
        if spec.rows < least or larger >= most:
            continue
        if len(others) >= most:
            if spec.rows < others[0].rows * CLEARLY_LARGER:
                continue
            drop.append(others.pop(0))
        build.append(spec)
    return Changes(drop=(*drop, *own.values()), build=tuple(build))


async def _specs(tx: Transaction) -> list[IndexSpec]:
    """Indexes that the tenant's models could have: the one in use, and the one it is being moved to."""
    models = await vector_storage.find_models(tx)
    specs = []
    for model_id in dict.fromkeys(filter(None, [models.active, models.target])):
        dimensions = await vector_storage.vector_dimensions(tx, model_id)
        if dimensions is not None:
            rows = await vector_storage.count_vectors(tx, model_id)
            specs.append(IndexSpec(model_id=model_id, dimensions=dimensions, rows=rows))
    return specs


async def _made(indexes: VectorIndexes, identity: Identity, changes: Changes) -> bool:
    """Make the changes; False when another build stands in the way."""
    for index in changes.drop:
        if not await indexes.drop(index):
            return False
        log.info("vector_index_dropped", name=index.name)
    for spec in changes.build:
        if not await indexes.build(identity, spec):
            return False
        log.info("vector_index_built", name=spec.name(identity), rows=spec.rows)
    return True
