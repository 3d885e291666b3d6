"""What verbs need to know of a tenant at every call, kept in the process for a moment.

All of it is derived and may be a little old: how many items there are, how rare a term is, which language and model
the tenant uses. Nothing that decides who may see what is ever kept here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from recordari.core.cache import BoundedMap
from recordari.core.identity import Identity, TenantId
from recordari.core.telemetry import get_log
from recordari.db.database import Database
from recordari.errors import RecordariError
from recordari.memory import storage as memory_storage
from recordari.memory import vector_storage
from recordari.memory.rules import Collection
from recordari.tenants import storage as tenants_storage

log = get_log(__name__)

MOST_TENANTS = 10_000
MOST_TERMS = 20_000
SHORTEST, LONGEST = 1.0, 300.0  # seconds until a view is looked at again
OVERDUE = 2.0  # times that: then no answer rests on it any more
MOVED = 0.05  # a tenant that grew by less than this part has the same rare and common terms
MODEL_SECONDS = 2.0  # once a tenant has moved to another model, the one before finds nothing


@dataclass(slots=True, kw_only=True)
class TenantView:
    """One tenant as it was a moment ago."""

    language: str
    model_id: str | None
    items: int
    told: int
    """How many of the items repeat no other: all but the facts whose message is there too."""
    mean_length: float
    looked_at: float
    model_looked_at: float
    frequencies: dict[str, int] = field(default_factory=dict)
    counted_at: int
    """How many items there were when the first of the frequencies were counted."""

    @property
    def lasts(self) -> float:
        """Seconds until it is looked at again."""
        return min(max(self.items / 1_000, SHORTEST), LONGEST)

    def collection(self, terms: Sequence[str]) -> Collection:
        """What the ranker must know of the tenant's items: a word is not commoner because facts repeat it."""
        return Collection(
            items=self.told,
            mean_length=self.mean_length,
            frequencies={term: self.frequencies.get(term, 0) for term in terms},
        )


class TenantViews:
    """Keeps a view of each tenant seen lately; the smaller the tenant, the sooner it is looked at again."""

    def __init__(self) -> None:
        self._views: BoundedMap[TenantId, TenantView] = BoundedMap(MOST_TENANTS)
        self._renewals: dict[TenantId, asyncio.Task[TenantView]] = {}
        self._under_way: set[asyncio.Task[TenantView]] = set()

    async def get(self, database: Database, identity: Identity) -> TenantView:
        """The view of the identity's tenant; one that is due is renewed behind the call, one that is overdue before it."""
        # Everything here is of the whole tenant: one user's words must not weigh in another's answer.
        identity = Identity(tenant_id=identity.tenant_id)
        view = self._views.get(identity.tenant_id)
        now = time.monotonic()
        if view is None or now - view.looked_at > view.lasts * OVERDUE:
            return await asyncio.shield(self._renewal(database, identity))
        if now - view.looked_at > view.lasts:
            self._renewal(database, identity)
        if now - view.model_looked_at > MODEL_SECONDS:
            await _look_at_model(database, identity, view)
        return view

    def _renewal(self, database: Database, identity: Identity) -> asyncio.Task[TenantView]:
        """The look at the tenant that is under way, begun now if there is none."""
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
            seen = await self._look(database, identity)
        finally:
            is_wanted = self._renewals.get(tenant_id) is asyncio.current_task()
            if is_wanted:
                del self._renewals[tenant_id]
        if not is_wanted:
            return seen  # the tenant was changed meanwhile
        view = self._views.get(tenant_id)
        if view is not None and abs(seen.items - view.counted_at) <= view.counted_at * MOVED:
            seen.frequencies, seen.counted_at = view.frequencies, view.counted_at
        self._views.put(tenant_id, seen)
        return seen

    async def close(self) -> None:
        """Let what is under way end."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def with_terms(self, database: Database, identity: Identity, terms: Sequence[str]) -> TenantView:
        """The same, and how rare these terms are."""
        view = await self.get(database, identity)
        unknown = [term for term in dict.fromkeys(terms) if term not in view.frequencies]
        if unknown:
            found = await memory_storage.document_frequencies(database, Identity(tenant_id=identity.tenant_id), unknown)
            if len(view.frequencies) > MOST_TERMS:
                view.frequencies.clear()
            view.frequencies.update({term: _uncapped(count, view.told) for term, count in found.items()})
        return view

    def forget_tenant(self, tenant_id: TenantId) -> None:
        """Look again at the next call: something about the tenant was changed."""
        self._views.pop(tenant_id)
        self._renewals.pop(tenant_id, None)

    def _settle(self, renewal: asyncio.Task[TenantView]) -> None:
        """Note why a view could not be renewed; whoever waits for it is told, and the next call tries again."""
        self._under_way.discard(renewal)
        if not renewal.cancelled() and isinstance(error := renewal.exception(), RecordariError):
            log.warning("view_not_renewed", error=type(error).__name__)

    async def _look(self, database: Database, identity: Identity) -> TenantView:
        asked, models, collection = (
            tenants_storage.ask_tenant(),
            vector_storage.ask_models(),
            memory_storage.ask_collection(),
        )
        looked_at = time.monotonic()
        await database.read_batch(identity, [asked, models, collection])
        tenant, (items, told, mean_length) = asked.answer, collection.answer
        return TenantView(
            language=tenant.language if tenant is not None else "english",
            model_id=models.answer.active,
            items=items,
            told=told,
            mean_length=mean_length,
            looked_at=looked_at,
            model_looked_at=looked_at,
            counted_at=items,
        )


async def _look_at_model(database: Database, identity: Identity, view: TenantView) -> None:
    """Bring up to date what takes no counting."""
    looked_at, asked, models = time.monotonic(), tenants_storage.ask_tenant(), vector_storage.ask_models()
    await database.read_batch(identity, [asked, models])
    if asked.answer is not None:
        view.language = asked.answer.language
    view.model_id, view.model_looked_at = models.answer.active, looked_at


def _uncapped(found: int, items: int) -> int:
    """A term that reached the cap is common; how common is guessed."""
    return max(found, items // 4) if found >= memory_storage.FREQUENCY_CAP else found
