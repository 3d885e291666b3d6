"""Statistics and settings of tenants that every call needs, cached in the process for a moment.

They may be a little old: the number of items, the frequency of terms, the language, the model. Nothing that decides
about access is cached here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recordari.core.cache import BoundedMap
from recordari.core.identity import Identity, TenantId, job_identity
from recordari.core.telemetry import get_log
from recordari.db.database import Database
from recordari.errors import RecordariError
from recordari.memory import storage as memory_storage
from recordari.memory import vector_storage
from recordari.memory.rules import Collection
from recordari.memory.storage import CollectionCounts
from recordari.tenants import storage as tenants_storage

log = get_log(__name__)

MOST_TENANTS = 10_000
MOST_TERMS = 20_000
SHORTEST, LONGEST = 1.0, 300.0  # seconds until a view is looked at again
OVERDUE = 2.0  # times that: then it is not used any more
MOVED = 0.05  # a tenant that grew by less than this part has the same rare and common terms
MOST_COUNTED = 50_000  # items of a tenant that are counted one by one
COUNTED_ANEW = 5_000  # a tenant with fewer items is counted item by item each time
MODEL_SECONDS = 2.0  # short, because the old model finds nothing after a move


@dataclass(slots=True, kw_only=True)
class TenantView:
    """One tenant as it was a moment ago."""

    language: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    model_id: str | None
    items: int
    distinct_items: int
    """Without repetitions: all but the facts whose message is live."""
    mean_length: float
    looked_at: float
    model_looked_at: float
    passages: int = 0
    has_passages: bool = False
    """Whether any text of it was cut into passages."""
    frequencies: dict[str, int] = field(default_factory=dict)
    counted_at: int
    """The number of items when the first frequencies were counted."""
    read: CollectionCounts
    """As the items were counted one by one, of a large tenant a part of them."""
    written: int
    """What the writes had counted at that time."""

    @property
    def lasts(self) -> float:
        return min(max(self.items / 1_000, SHORTEST), LONGEST)

    def learn(self, frequencies: Mapping[str, int]) -> None:
        """Keep the frequencies that were read."""
        if len(self.frequencies) > MOST_TERMS:
            self.frequencies.clear()
        items = self.distinct_items + self.passages
        self.frequencies |= {term: _uncapped(count, items) for term, count in frequencies.items()}

    def collection(self, terms: Sequence[str]) -> Collection:
        """Statistics for the ranker; a word is not more common because facts repeat it."""
        return Collection(
            items=self.distinct_items + self.passages,
            mean_length=self.mean_length,
            frequencies={term: self.frequencies.get(term, 0) for term in terms},
        )


class TenantViews:
    """Caches a view of each recent tenant; a smaller tenant is read again sooner."""

    def __init__(self) -> None:
        self._views: BoundedMap[TenantId, TenantView] = BoundedMap(MOST_TENANTS)
        self._renewals: dict[TenantId, asyncio.Task[TenantView]] = {}
        self._under_way: set[asyncio.Task[TenantView]] = set()

    async def get(self, database: Database, identity: Identity) -> TenantView:
        """The view of the tenant. A view that is due is renewed in the background, an overdue one before the call."""
        view = self._views.get(identity.tenant_id)
        now = time.monotonic()
        if view is not None and now - view.looked_at <= view.lasts and now - view.model_looked_at <= MODEL_SECONDS:
            return view
        # Of the whole tenant: rows of one user must not affect the answers of another.
        identity = job_identity(identity.tenant_id, "view")
        if view is None or now - view.looked_at > view.lasts * OVERDUE:
            return await asyncio.shield(self._renewal(database, identity))
        if now - view.looked_at > view.lasts:
            self._renewal(database, identity)
        if now - view.model_looked_at > MODEL_SECONDS:
            await _read_model(database, identity, view)
        return view

    def _renewal(self, database: Database, identity: Identity) -> asyncio.Task[TenantView]:
        """The running renewal, started now if there is none."""
        renewal = self._renewals.get(identity.tenant_id)
        if renewal is None:
            renewal = asyncio.create_task(self._renew(database, identity))
            self._renewals[identity.tenant_id] = renewal
            self._under_way.add(renewal)
            renewal.add_done_callback(self._settle)
        return renewal

    async def _renew(self, database: Database, identity: Identity) -> TenantView:
        tenant_id = identity.tenant_id
        try:
            view = await _read(database, identity, self._views.get(tenant_id))
        finally:
            is_current = self._renewals.get(tenant_id) is asyncio.current_task()
            if is_current:
                del self._renewals[tenant_id]
        if not is_current:
            return view  # the tenant was changed meanwhile
        old = self._views.get(tenant_id)
        if old is not None and abs(view.items - old.counted_at) <= old.counted_at * MOVED:
            view.frequencies, view.counted_at = old.frequencies, old.counted_at
        self._views.put(tenant_id, view)
        return view

    async def close(self) -> None:
        """Wait for running renewals."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def with_terms(self, database: Database, identity: Identity, terms: Sequence[str]) -> TenantView:
        """The view, with the frequencies of these terms."""
        view = await self.get(database, identity)
        unknown = [term for term in dict.fromkeys(terms) if term not in view.frequencies]
        if unknown:
            # Of the whole tenant, as the view is.
            of_all = job_identity(identity.tenant_id, "view")
            view.learn(await memory_storage.document_frequencies(database, of_all, unknown))
        return view

    def forget_tenant(self, tenant_id: TenantId) -> None:
        """Read the tenant again at the next call, because it was changed."""
        self._views.pop(tenant_id)
        self._renewals.pop(tenant_id, None)

    def _settle(self, renewal: asyncio.Task[TenantView]) -> None:
        """Log a failed renewal. Callers that wait for it get the error, and the next call tries again."""
        self._under_way.discard(renewal)
        if not renewal.cancelled() and isinstance(error := renewal.exception(), RecordariError):
            log.warning("view_not_renewed", error=type(error).__name__)


async def _read(database: Database, identity: Identity, old: TenantView | None) -> TenantView:
    """The tenant as it is now. A large one that hardly changed is not counted again, but as the writes count it."""
    read_at, tenant, models = time.monotonic(), tenants_storage.ask_tenant(), vector_storage.ask_models()
    counts, since = None, memory_storage.ask_written_count()
    if old is not None and old.read.items >= COUNTED_ANEW:
        await database.read_batch(identity, [tenant, models, since])
        counts = _moved(old.read, since.answer - old.written)
    if old is None or counts is None:
        collection = memory_storage.ask_collection(most=MOST_COUNTED)
        await database.read_batch(identity, [tenant, models, since, collection])
        counts = read = _whole(collection.answer, since.answer)
        written = since.answer
    else:
        read, written = old.read, old.written
    return TenantView(
        language=tenant.answer.language if tenant.answer is not None else "english",
        settings=tenant.answer.settings if tenant.answer is not None else {},
        model_id=models.answer.active,
        has_passages=models.answer.has_passages,
        items=counts.items,
        distinct_items=counts.distinct_items,
        mean_length=counts.mean_length,
        passages=counts.passages,
        looked_at=read_at,
        model_looked_at=read_at,
        counted_at=counts.items,
        read=read,
        written=written,
    )


def _whole(counts: CollectionCounts, written: int) -> CollectionCounts:
    """The counts of a tenant of which only a part was counted: the rest is taken to be of the same sort."""
    if counts.items < MOST_COUNTED or written <= counts.items:
        return counts
    return replace(counts, items=written, distinct_items=round(counts.distinct_items * written / counts.items))


def _moved(counts: CollectionCounts, more: int) -> CollectionCounts | None:
    """The counts after so many more items of the same sort; None where they are too many for that."""
    if abs(more) > counts.items * MOVED:
        return None
    items = counts.items + more
    return replace(counts, items=items, distinct_items=round(counts.distinct_items * items / counts.items))


async def _read_model(database: Database, identity: Identity, view: TenantView) -> None:
    """Update the columns that need no counting."""
    read_at, tenant, models = time.monotonic(), tenants_storage.ask_tenant(), vector_storage.ask_models()
    await database.read_batch(identity, [tenant, models])
    if tenant.answer is not None:
        view.language, view.settings = tenant.answer.language, tenant.answer.settings
    view.model_id, view.has_passages, view.model_looked_at = models.answer.active, models.answer.has_passages, read_at


def _uncapped(count: int, items: int) -> int:
    """A term that reached the cap is common; its frequency is guessed."""
    return max(count, items // 4) if count >= memory_storage.FREQUENCY_CAP else count
