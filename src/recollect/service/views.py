"""What verbs need to know of a tenant at every call, kept in the process for a moment.

All of it is derived and may be a little old: how many items there are, how rare a term is, which language and model
the tenant uses. Nothing that decides who may see what is ever kept here.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

from recollect.domain.context import ContextSettings
from recollect.domain.identity import Identity, TenantId, UserId
from recollect.domain.privacy import PrivacyPolicy
from recollect.domain.ranking import Collection
from recollect.errors import InvalidInput
from recollect.storage import search, tenants, vectors
from recollect.storage.database import Database, Transaction

MOST_TENANTS = 10_000
MOST_TERMS = 20_000
SHORTEST, LONGEST = 1.0, 300.0
MOVED = 0.05  # a tenant that grew by less than this part has the same rare and common terms
POLICY_SECONDS = 2.0  # a stricter policy must bind every process soon


@dataclass(slots=True, kw_only=True)
class TenantView:
    """One tenant as it was a moment ago."""

    language: str
    model_id: str | None
    items: int
    told: int
    """How many of the items repeat no other: all but the facts whose message is there too."""
    mean_length: float
    expires: float
    frequencies: dict[str, int] = field(default_factory=dict)

    def collection(self, terms: Sequence[str]) -> Collection:
        """What the ranker must know of the tenant's items: a word is not commoner because facts repeat it."""
        return Collection(
            items=self.told,
            mean_length=self.mean_length,
            frequencies={term: self.frequencies.get(term, 0) for term in terms},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What a tenant and a user want of every context."""

    context: ContextSettings
    zone: ZoneInfo
    expires: float


class TenantViews:
    """Keeps a view of each tenant seen lately; the smaller the tenant, the sooner it is looked at again."""

    def __init__(self) -> None:
        self._views: OrderedDict[TenantId, TenantView] = OrderedDict()
        self._policies: OrderedDict[TenantId, tuple[PrivacyPolicy, float]] = OrderedDict()
        self._preferences: OrderedDict[tuple[TenantId, UserId | None], Preferences] = OrderedDict()

    async def get(self, database: Database, identity: Identity) -> TenantView:
        """The view of the identity's tenant."""
        view = self._views.get(identity.tenant_id)
        if view is None or view.expires < time.monotonic():
            async with database.transaction(identity) as tx:
                seen = await self._look(tx)
            if view is not None and abs(seen.items - view.items) <= view.items * MOVED:
                seen.frequencies = view.frequencies
            self._views[identity.tenant_id] = view = seen
            while len(self._views) > MOST_TENANTS:
                self._views.popitem(last=False)
        return view

    async def with_terms(self, database: Database, identity: Identity, terms: Sequence[str]) -> TenantView:
        """The same, and how rare these terms are."""
        view = await self.get(database, identity)
        unknown = [term for term in dict.fromkeys(terms) if term not in view.frequencies]
        if unknown:
            found = await search.document_frequencies(database, identity, unknown)
            if len(view.frequencies) > MOST_TERMS:
                view.frequencies.clear()
            view.frequencies.update({term: _uncapped(count, view.told) for term, count in found.items()})
        return view

    async def privacy(self, database: Database, identity: Identity) -> PrivacyPolicy:
        """What the identity's tenant wants done with personal data and secrets."""
        policy, expires = self._policies.get(identity.tenant_id, (PrivacyPolicy(), 0.0))
        if expires < time.monotonic():
            async with database.transaction(identity) as tx:
                tenant = await tenants.find_tenant(tx)
            policy = _policy(tenant.settings.get("privacy") if tenant is not None else None)
            self._policies[identity.tenant_id] = policy, time.monotonic() + POLICY_SECONDS
            while len(self._policies) > MOST_TENANTS:
                self._policies.popitem(last=False)
        return policy

    async def preferences(self, database: Database, identity: Identity) -> Preferences:
        """What the identity's tenant and user want of a context."""
        key = (identity.tenant_id, identity.user_id)
        found = self._preferences.get(key)
        if found is None or found.expires < time.monotonic():
            async with database.transaction(identity) as tx:
                tenant = await tenants.find_tenant(tx)
                user = await tenants.find_user(tx, identity.user_id) if identity.user_id is not None else None
            self._preferences[key] = found = Preferences(
                context=_context_settings(tenant.settings.get("context") if tenant is not None else None),
                zone=ZoneInfo(user.time_zone if user is not None else "UTC"),
                expires=time.monotonic() + POLICY_SECONDS,
            )
            while len(self._preferences) > MOST_TENANTS:
                self._preferences.popitem(last=False)
        return found

    def forget(self, tenant_id: TenantId) -> None:
        """Look again at the next call: something about the tenant was changed."""
        for key in [key for key in self._preferences if key[0] == tenant_id]:
            del self._preferences[key]
        self._views.pop(tenant_id, None)
        self._policies.pop(tenant_id, None)

    async def _look(self, tx: Transaction) -> TenantView:
        tenant = await tenants.find_tenant(tx)
        models = await vectors.find_models(tx)
        items, told, mean_length = await search.measure_collection(tx)
        return TenantView(
            language=tenant.language if tenant is not None else "english",
            model_id=models.active,
            items=items,
            told=told,
            mean_length=mean_length,
            expires=time.monotonic() + min(max(items / 1_000, SHORTEST), LONGEST),
        )


def _policy(setting: object) -> PrivacyPolicy:
    """The policy of a setting. One that an older version wrote and this one cannot read must not leave texts unread."""
    try:
        return PrivacyPolicy.read(setting)
    except InvalidInput:
        return PrivacyPolicy()


def _context_settings(setting: object) -> ContextSettings:
    """The settings of a context. One that an older version wrote and this one cannot read must not stop a turn."""
    try:
        return ContextSettings.read(setting)
    except InvalidInput:
        return ContextSettings()


def _uncapped(found: int, items: int) -> int:
    """A term that reached the cap is common; how common is guessed."""
    return max(found, items // 4) if found >= search.FREQUENCY_CAP else found
