"""Rows of reports with the figures they are made from, and of answers kept for repeated requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.db.database import Transaction
from recordari.db.queries import Queries
from recordari.operations.rules import Report, ReportKind

queries = Queries(__name__)
LAST_DAY = date(9999, 12, 31)


async def save_report(
    tx: Transaction,
    *,
    report_id: UUID,
    kind: ReportKind,
    day: date,
    body: str,
    figures: Mapping[str, object],
    warnings: list[str],
    now: datetime,
) -> Report:
    """Save the report of a day in the place of an earlier one."""
    (report,) = await tx.all(
        queries.save_report,
        Report,
        report_id=report_id,
        kind=kind,
        day=day,
        body=body,
        figures=Jsonb(dict(figures)),
        warnings=warnings,
        now=now,
    )
    return report


async def find_report(tx: Transaction, report_id: UUID) -> Report | None:
    """One report."""
    return await tx.maybe(queries.find_report, Report, report_id=report_id)


async def list_reports(tx: Transaction, kind: ReportKind, *, before: date | None, limit: int) -> list[Report]:
    """Reports of one kind, newest day first."""
    return await tx.all(queries.list_reports, Report, kind=kind, before=before or LAST_DAY, limit=limit)


async def count_day(tx: Transaction, *, since: datetime) -> dict[str, int]:
    """What the tenant holds, and what happened in it since the moment given."""
    (row,) = await tx.dicts(queries.count_day, since=since)
    return {name: int(number) for name, number in row.items()}


async def sum_costs(tx: Transaction, *, since: datetime) -> dict[str, Decimal]:
    """What runs cost since the moment given, by currency."""
    return {row["currency"]: row["cost"] for row in await tx.dicts(queries.sum_costs, since=since)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCount:
    """How many items stand alike, and how large their texts are."""

    kind: str
    tier: str
    scope: str
    state: str
    number: int
    bytes: int
    pinned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCounts:
    """How much there is of everything that is no item."""

    vectors: int
    payloads: int
    payload_bytes: int
    open_sessions: int
    closed_sessions: int
    runs: int
    holds: int


async def count_items(tx: Transaction) -> list[ItemCount]:
    """Count the tenant's items by kind, tier, scope and state."""
    return await tx.all(queries.count_items, ItemCount)


async def count_others(tx: Transaction) -> OtherCounts:
    """Count what is no item."""
    (counts,) = await tx.all(queries.count_others, OtherCounts)
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """What stands under a key: the request it is for, and the encrypted answer once there is one."""

    request_hash: bytes
    sealed: bytes | None


async def claim_answer(
    tx: Transaction, claim: AnswerClaim, *, now: datetime, silent_since: datetime, expires_at: datetime
) -> bool:
    """Take the right to answer; False when somebody answered or is about to."""
    taken = await tx.value(
        queries.claim_answer,
        key_hash=claim.key_hash,
        request_hash=claim.request_hash,
        claim=claim.claim,
        now=now,
        silent_since=silent_since,
        expires_at=expires_at,
    )
    return taken is not None


async def find_answer(tx: Transaction, key_hash: bytes) -> StoredAnswer | None:
    """What stands under a key."""
    return await tx.maybe(queries.find_answer, StoredAnswer, key_hash=key_hash)


async def save_answer(tx: Transaction, claim: AnswerClaim, sealed: bytes) -> None:
    """Keep an answer."""
    await tx.run(queries.save_answer, key_hash=claim.key_hash, claim=claim.claim, sealed=sealed)


async def drop_claim(tx: Transaction, claim: AnswerClaim) -> None:
    """Give the right to answer up."""
    await tx.run(queries.drop_claim, key_hash=claim.key_hash, claim=claim.claim)


async def delete_expired(tx: Transaction, *, now: datetime) -> int:
    """Remove answers whose time is over; how many."""
    return await tx.run(queries.delete_expired, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerClaim:
    """Who answers under a key: by hashes of the key and of the request, and an id of the claim itself."""

    key_hash: bytes
    request_hash: bytes
    claim: UUID
