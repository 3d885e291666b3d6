"""The outbox: work that commits with the change that causes it, and is then done at least once.

`add` writes rows in the transaction of the change; after its commit `Wakeups.wake` wakes the workers. A worker leases
rows (`claim_fresh`, `claim_tried`), works with no transaction open, and then calls `done`. A lease counts as a try at
once, so that a crash counts too; `attempts` is also the fencing token that shows a worker that it lost its lease.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, overload
from uuid import UUID

import psycopg

from recordari.core.identity import TenantId
from recordari.core.telemetry import get_log
from recordari.db.database import BatchedQuery, Database, QueueTransaction, Transaction
from recordari.db.jobs import DeadLetter
from recordari.db.queries import Queries
from recordari.errors import Conflict, RecordariError

log = get_log(__name__)
queries = Queries(__name__)

FIRST_TENANT = TenantId(UUID(int=0))
# A wake-up waits this long for others to join it: a NOTIFY in every commit would cut inserts to a quarter.
NOTIFY_WINDOW = 0.03
LISTEN_PROBE = 30.0
MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True)
class Batch(Sequence[UUID]):
    """Leased entries of one tenant and topic; as a sequence, the ids of the things to work on."""

    topic: str
    tenant_id: TenantId
    ids: tuple[int, ...]
    refs: tuple[UUID, ...]
    attempts: int

    def __len__(self) -> int:
        return len(self.refs)

    def __iter__(self) -> Iterator[UUID]:
        return iter(self.refs)

    @overload
    def __getitem__(self, index: int) -> UUID: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[UUID, ...]: ...
    def __getitem__(self, index: int | slice) -> UUID | tuple[UUID, ...]:
        return self.refs[index]

    def parameters(self) -> dict[str, Any]:
        """The entries as queries name them: rows with other `attempts` are leased by another worker."""
        return {"ids": list(self.ids), "attempts": self.attempts}


async def add(tx: Transaction, topic: str, refs: Sequence[UUID]) -> None:
    """Ask for work on `refs` after this transaction; call `resources.wake(topic)` once it has committed."""
    if refs:
        await tx.run(queries.add_entries, topic=topic, refs=list(refs))


async def done(tx: Transaction, batch: Batch) -> None:
    """Delete the entries of a batch, in the transaction that saves the result.

    A handler that calls this has its effect exactly once: `Conflict` rolls it back when the lease was lost.
    Entries that were erased meanwhile are no conflict. If a handler does not call it, its caller does.
    """
    if await tx.value(queries.delete_done, **batch.parameters()):
        raise Conflict("another worker has taken this work over")


async def pending(tx: Transaction, topic: str) -> int:
    """Count the tenant's entries of the topic, dead letters included."""
    return int(await tx.value(queries.count_pending, topic=topic))


def ask_waiting(topics: Sequence[str]) -> BatchedQuery[bool]:
    """Whether the tenant has entries of the topics, dead letters included; for `read_batch`."""
    return BatchedQuery(queries.is_waiting, lambda rows: bool(rows[0]["is_waiting"]), topics=list(topics))


async def claim_fresh(
    rows: QueueTransaction, topic: str, *, after: TenantId, tenants: int, size: int, lease: timedelta
) -> list[Batch]:
    """Lease up to `size` entries each of the next `tenants` tenants after `after`; from the first one if none is after."""
    if not rows.of_cluster:
        leased = await rows.dicts(
            queries.claim_fresh, topic=topic, after=after, tenants=tenants, size=size, lease=lease
        )
        return _batches(topic, leased)
    # A cluster skips what is locked on one node at a time.
    due = await rows.dicts(queries.fresh_tenants, topic=topic, after=after, tenants=tenants)
    due = due or await rows.dicts(queries.fresh_tenants, topic=topic, after=FIRST_TENANT, tenants=tenants)
    leased = []
    for row in due:
        leased += await rows.dicts(queries.claim_fresh_of, topic=topic, of=row["tenant_id"], size=size, lease=lease)
    return _batches(topic, leased)


async def claim_tried(
    rows: QueueTransaction, topic: str, *, after: TenantId, budget: int, lease: timedelta
) -> Batch | None:
    """Lease one entry that failed or crashed before, of the next tenant in turn; park those out of tries."""
    if not rows.of_cluster:
        await rows.run(queries.park_exhausted, topic=topic, budget=budget)
        leased = await rows.dicts(queries.claim_tried, topic=topic, after=after, budget=budget, lease=lease)
        return next(iter(_batches(topic, leased)), None)
    for row in await rows.dicts(queries.exhausted_tenants, topic=topic, budget=budget):
        await rows.run(queries.park_exhausted_of, topic=topic, of=row["tenant_id"], budget=budget)
    for row in await rows.dicts(queries.tried_tenants, topic=topic, after=after, budget=budget):
        leased = await rows.dicts(queries.claim_tried_of, topic=topic, of=row["tenant_id"], budget=budget, lease=lease)
        if leased:
            return next(iter(_batches(topic, leased)))
    return None


def _batches(topic: str, leased: Sequence[Mapping[str, Any]]) -> list[Batch]:
    ordered = sorted(leased, key=itemgetter("tenant_id", "outbox_id"))
    batches = []
    for tenant_id, group in groupby(ordered, key=itemgetter("tenant_id")):
        rows = list(group)
        ids, refs = tuple(row["outbox_id"] for row in rows), tuple(row["ref"] for row in rows)
        batches.append(Batch(topic, tenant_id, ids, refs, rows[0]["attempts"]))
    return batches


async def make_due(rows: QueueTransaction, *, longest: timedelta) -> None:
    """Make entries due that are put off for more than `longest`, because the clock was set back since."""
    await rows.run(queries.make_due, longest=longest)


async def renew(rows: QueueTransaction, batches: Sequence[Batch], *, lease: timedelta) -> None:
    """Extend the leases of entries in work."""
    if rows.of_cluster:
        for batch in batches:
            await rows.run(queries.renew_leases_of, of=batch.tenant_id, lease=lease, **batch.parameters())
        return
    await rows.run(
        queries.renew_leases,
        ids=[outbox_id for batch in batches for outbox_id in batch.ids],
        attempts=[batch.attempts for batch in batches for _ in batch.ids],
        lease=lease,
    )


async def fail(tx: Transaction, batch: Batch, *, error: str, delay: timedelta, budget: int) -> None:
    """Record a failed try: due again after the delay, or parked when the budget is used up."""
    await tx.run(queries.fail_entries, error=error, delay=delay, budget=budget, **batch.parameters())


async def postpone(
    tx: Transaction, batch: Batch, *, error: str, shortest: timedelta, longest: timedelta, patience: timedelta
) -> None:
    """Record an outage: the try does not count, and the next one comes after half the entries' age."""
    limits = {"shortest": shortest, "longest": longest, "patience": patience}
    await tx.run(queries.postpone_entries, error=error, **limits, **batch.parameters())


async def release(tx: Transaction, batch: Batch) -> None:
    """Hand a batch back untried."""
    await tx.run(queries.release_entries, **batch.parameters())


async def count_by_topic(tx: Transaction) -> tuple[dict[str, int], dict[str, int]]:
    """Count by topic the entries that wait, and those that were given up."""
    return _by_topic(await tx.dicts(queries.count_by_topic))


def ask_by_topic() -> BatchedQuery[tuple[dict[str, int], dict[str, int]]]:
    return BatchedQuery(queries.count_by_topic, _by_topic)


def _by_topic(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int], dict[str, int]]:
    return (
        {row["topic"]: row["pending"] for row in rows if row["pending"]},
        {row["topic"]: row["parked"] for row in rows if row["parked"]},
    )


async def list_parked(tx: Transaction, *, before: int, limit: int) -> list[DeadLetter]:
    return await tx.all(queries.list_parked, DeadLetter, before=before, limit=limit)


async def replay_parked(tx: Transaction, outbox_id: int) -> str | None:
    """Give an entry its tries back; returns its topic, or None when there is no such entry."""
    topic: str | None = await tx.value(queries.replay_parked, outbox_id=outbox_id)
    return topic


async def replay_all_parked(tx: Transaction) -> list[str]:
    """Give every dead letter its tries back; returns the topic of each."""
    return [row["topic"] for row in await tx.dicts(queries.replay_all_parked)]


async def discard_parked(tx: Transaction, outbox_id: int) -> bool:
    """Delete a dead letter; False when there is none."""
    return await tx.run(queries.discard_parked, outbox_id=outbox_id) == 1


async def backlog(database: Database) -> dict[str, float]:
    """Figures of the work of all tenants: how much waits, since when, and what was given up."""
    async with database.queue() as rows:
        (figures,) = await rows.dicts(queries.backlog, most=MOST_COUNTED)
    return figures


class Wakeups:
    """Wakes the workers: those of this process at once, those of others by one debounced NOTIFY at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._name = secrets.token_hex(8)
        self._bells: dict[str, asyncio.Event] = {}
        self._unsent: set[str] = set()
        self._sending: asyncio.Task[None] | None = None

    def bell(self, topic: str) -> asyncio.Event:
        """An event that is set when there may be work of the topic; the worker that waits for it clears it."""
        return self._bells.setdefault(topic, asyncio.Event())

    def wake(self, topic: str) -> None:
        """Wake the workers after work of the topic was committed."""
        self.bell(topic).set()
        self._unsent.add(topic)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while self._unsent:
            await asyncio.sleep(NOTIFY_WINDOW)
            topics, self._unsent = self._unsent, set()
            try:
                await self._database.notify(queries.notify, " ".join([self._name, *sorted(topics)]))
            except RecordariError as error:
                # Nothing is lost: every worker also looks for work at each tick.
                log.warning("wake_up_not_sent", error=type(error).__name__)

    def heard(self, payload: str) -> None:
        """Wake the workers of this process for a NOTIFY of another; an empty payload wakes all."""
        name, *topics = payload.split() or [""]
        if name != self._name:
            for bell in [self.bell(topic) for topic in topics] if name else list(self._bells.values()):
                bell.set()

    async def close(self) -> None:
        """Stop; a wake-up not yet sent is made up for by the others' tick."""
        if self._sending is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending


async def listen(dsn: str, heard: Callable[[str], None]) -> None:
    """Pass on the notifications of other processes, for ever, on a connection of its own; raises when that breaks."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True, connect_timeout=5) as connection:
        await connection.execute(queries.listen.sql)
        heard("")  # earlier notifications were missed
        while True:
            async for notification in connection.notifies(timeout=LISTEN_PROBE):
                heard(notification.payload)
            await connection.execute(queries.probe.sql)
