"""Rows of reports and their figures, and of answers to idempotent requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.db.database import Transaction
from recordari.db.queries import Queries, columns_of
from recordari.operations.rules import Report, ReportKind

queries = Queries(__name__)
LAST_DAY = date(9999, 12, 31)


async def save_report(tx: Transaction, report: Report) -> Report:
    (saved,) = await tx.all(queries.save_report, Report, **columns_of(report, figures=Jsonb(report.figures)))
    return saved


async def find_report(tx: Transaction, report_id: UUID) -> Report | None:
    return await tx.maybe(queries.find_report, Report, report_id=report_id)


async def list_reports(tx: Transaction, kind: ReportKind, *, before: date | None, limit: int) -> list[Report]:
    return await tx.all(queries.list_reports, Report, kind=kind, before=before or LAST_DAY, limit=limit)


async def count_day(tx: Transaction, *, since: datetime) -> dict[str, int]:
    (row,) = await tx.dicts(queries.count_day, since=since)
    return {name: int(number) for name, number in row.items()}


async def sum_costs(tx: Transaction, *, since: datetime) -> dict[str, Decimal]:
    return {row["currency"]: row["cost"] for row in await tx.dicts(queries.sum_costs, since=since)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCount:
    kind: str
    tier: str
    scope: str
    state: str
    number: int
    bytes: int
    pinned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCounts:
    vectors: int
    payloads: int
    payload_bytes: int
    open_sessions: int
    closed_sessions: int
    runs: int
    holds: int


async def count_items(tx: Transaction) -> list[ItemCount]:
    return await tx.all(queries.count_items, ItemCount)


async def count_others(tx: Transaction) -> OtherCounts:
    (counts,) = await tx.all(queries.count_others, OtherCounts)
    return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerClaim:
    """The right to answer under a key: hashes of the key and of the request, and an id of the claim."""

    key_hash: bytes
    request_hash: bytes
    claim: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """The request of a key, and the encrypted answer once there is one."""

    request_hash: bytes
    sealed: bytes | None


async def claim_answer(
    tx: Transaction, claim: AnswerClaim, *, now: datetime, silent_since: datetime, expires_at: datetime
) -> bool:
    """Claim the right to answer; False if another request has answered or is about to."""
    times = {"now": now, "silent_since": silent_since, "expires_at": expires_at}
    return await tx.value(queries.claim_answer, **columns_of(claim, **times)) is not None


async def find_answer(tx: Transaction, key_hash: bytes) -> StoredAnswer | None:
    return await tx.maybe(queries.find_answer, StoredAnswer, key_hash=key_hash)


async def save_answer(tx: Transaction, claim: AnswerClaim, sealed: bytes) -> None:
    await tx.run(queries.save_answer, key_hash=claim.key_hash, claim=claim.claim, sealed=sealed)


async def drop_claim(tx: Transaction, claim: AnswerClaim) -> None:
    await tx.run(queries.drop_claim, key_hash=claim.key_hash, claim=claim.claim)


async def delete_expired(tx: Transaction, *, now: datetime) -> int:
    return await tx.run(queries.delete_expired, now=now)
