"""Rows of reports and their figures, and of answers to idempotent requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from psycopg.types.json import Jsonb

from recordari.core.identity import Identity
from recordari.core.items import Kind, Tier, layer
from recordari.db.database import Database, Transaction
from recordari.db.pipeline import Part
from recordari.db.queries import Queries, columns_of
from recordari.operations.rules import AgentRuns, Report, ReportKind

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


async def count_runs_by_agent(tx: Transaction, *, since: datetime, limit: int) -> list[AgentRuns]:
    return await tx.all(queries.count_runs_by_agent, AgentRuns, since=since, limit=limit)


async def sum_costs(tx: Transaction, *, since: datetime) -> dict[str, Decimal]:
    return {row["currency"]: row["cost"] for row in await tx.dicts(queries.sum_costs, since=since)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveDay:
    """The new items of a day (UTC), by kind."""

    day: date
    new: dict[str, int]


async def count_new(tx: Transaction, *, since: date) -> list[ActiveDay]:
    return await tx.all(queries.count_new, ActiveDay, since=since)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemCount:
    kind: str
    tier: str
    scope: str
    state: str
    number: int
    bytes: int
    pinned: int

    @property
    def layer(self) -> str:
        return layer(Kind(self.kind), Tier(self.tier))


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
class NewAnswer:
    """An encrypted answer under the hashes of its key and its request, with the ids that it shows."""

    key_hash: bytes
    request_hash: bytes
    sealed: bytes
    shows: list[str]
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """The request of a key, and the encrypted answer unless it was emptied."""

    request_hash: bytes
    sealed: bytes | None


async def find_answer(database: Database, identity: Identity, key_hash: bytes, *, now: datetime) -> StoredAnswer | None:
    rows = await database.execute(identity, queries.find_answer, key_hash=key_hash, now=now)
    return StoredAnswer(request_hash=rows[0][0], sealed=rows[0][1]) if rows else None


def parts_of_answer(answer: NewAnswer, *, now: datetime) -> list[Part]:
    """The queries that save an answer; they fail if the key has one already."""
    return [
        (queries.delete_expired_answer, {"key_hash": answer.key_hash, "now": now}),
        (queries.insert_answer, columns_of(answer)),
    ]


async def delete_expired(tx: Transaction, *, now: datetime) -> int:
    return await tx.run(queries.delete_expired, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    version_number: int
    version: str
    encoding: str
    clock: datetime
    extensions: dict[str, str]
    text_leakproof: bool
    bytes: int


async def describe_server(database: Database) -> ServerState:
    async with database.queue() as rows:
        state = await rows.maybe(queries.describe_server, ServerState)
    assert state is not None
    return state
