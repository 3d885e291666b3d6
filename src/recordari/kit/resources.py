"""The first argument of every verb: the database, the settings, the clock, the models, and the parts of the rooms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol, TypeVar, runtime_checkable

from recordari.config import Settings
from recordari.core.identity import TenantId
from recordari.core.secrets import Secrets
from recordari.core.telemetry import Telemetry
from recordari.core.tokens import TokenCounter, prudent_tokens
from recordari.db.database import Database
from recordari.db.jobs import Schedule
from recordari.db.outbox import Wakeups
from recordari.models.base import Reranker
from recordari.models.embedding import Embedders
from recordari.models.static import StaticTokens

Clock = Callable[[], datetime]
Part = TypeVar("Part")


@runtime_checkable
class RemembersTenants(Protocol):
    """A part that caches something about tenants in the process."""

    def forget_tenant(self, tenant_id: TenantId) -> None:
        """Drop the cached state of a tenant that has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Made once by `wiring.py`; passed first to every verb."""

    settings: Settings
    database: Database
    clock: Clock
    wakeups: Wakeups
    embedders: Embedders
    static_tokens: StaticTokens | None
    """The table for late interaction; None where it is not installed."""
    reranker: Reranker | None
    secrets: Secrets
    """Encrypts secrets at rest."""
    parts: Mapping[type, object] = field(default_factory=dict)
    """Objects that rooms keep for the whole process, by class or protocol: caches, counters, stores, model tasks."""
    tenant_settings: Mapping[str, Callable[[object], object]] = field(default_factory=dict)
    """Readers of the structured settings of a tenant; a reader raises `InvalidInput`."""
    count_tokens: TokenCounter = prudent_tokens
    telemetry: Telemetry = field(default_factory=Telemetry)
    job_names: frozenset[str] = frozenset()
    schedules: tuple[Schedule, ...] = ()

    def get(self, kind: type[Part]) -> Part:
        part = self.find(kind)
        if part is None:
            raise LookupError(f"wiring.py makes no {kind.__name__}")
        return part

    def find(self, kind: type[Part]) -> Part | None:
        """Return the part of that class or protocol; None if it is not configured."""
        return self.parts.get(kind)  # type: ignore[return-value]  # the key is the type of the value

    def replacing(self, kind: type[Part], part: Part) -> Resources:
        return replace(self, parts={**self.parts, kind: part})

    def forget_tenant(self, tenant_id: TenantId) -> None:
        def forget() -> None:
            for part in self.parts.values():
                if isinstance(part, RemembersTenants):
                    part.forget_tenant(tenant_id)

        forget()
        self.database.after_commit(forget)

    def wake(self, topic: str) -> None:
        """Tell the workers of every process that entries of the topic were committed to the outbox."""
        self.database.after_commit(lambda: self.wakeups.wake(topic))

    def in_steps(self) -> Resources:
        """The same for a verb whose steps commit one by one: it may take long, and repeating it does no harm."""
        database = self.database.in_steps()
        return self if database is self.database else replace(self, database=database)
