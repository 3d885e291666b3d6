"""Rows that say how much a tenant keeps and writes."""

from __future__ import annotations

from datetime import date

from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.domain.quotas import Quota, Usage, quota_of

queries = Queries(__name__)


async def find_usage(tx: Transaction) -> tuple[Quota, Usage | None]:
    """The tenant's limits and what it used; None before the first count."""
    rows = await tx.dicts(queries.find_usage)
    if not rows:
        return quota_of("", {}), None
    (row,) = rows
    quota = quota_of(row["plan"], row["settings"])
    if row["day"] is None:
        return quota, None
    return quota, Usage(items=row["items"], bytes=row["bytes"], writes=row["writes"], day=row["day"])


async def add_usage(tx: Transaction, *, items: int, size: int, day: date) -> None:
    """Add what was written since the last time."""
    await tx.run(queries.add_usage, items=items, bytes=size, writes=items, day=day)


async def measure_usage(tx: Transaction, *, day: date) -> None:
    """Count what is really kept."""
    await tx.run(queries.measure_usage, day=day)
