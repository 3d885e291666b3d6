"""What every verb is given: the database, the settings, the clock and the outside helpers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from recollect.config import Settings
from recollect.domain.jobs import Schedule
from recollect.domain.tokens import TokenCounter, prudent_tokens
from recollect.providers.base import Reranker
from recollect.providers.distilling import Distiller, OfflineDistiller
from recollect.providers.embedders import Embedders
from recollect.providers.extraction import Extractor
from recollect.providers.llm import LLM, OfflineRules, Splitter
from recollect.providers.objects import Objects
from recollect.providers.secrets import Secrets
from recollect.providers.sql_writing import SqlWriter
from recollect.providers.static import StaticTokens
from recollect.providers.summarising import OfflineSummariser, Summariser
from recollect.service.access import AccessCounts
from recollect.service.query_places import QueryPlaces
from recollect.service.recall_cache import RecallCache
from recollect.service.session_cache import SessionCache
from recollect.service.shelves import Shelves
from recollect.service.threads import Threads
from recollect.service.usage import Usages
from recollect.service.views import TenantViews
from recollect.storage.database import Database
from recollect.storage.outbox import Wakeups
from recollect.storage.vector_indexes import VectorIndexes
from recollect.telemetry import Telemetry

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Made once by `wiring.py`; passed first to every service function."""

    settings: Settings
    database: Database
    clock: Clock
    wakeups: Wakeups
    embedders: Embedders
    static_tokens: StaticTokens | None
    """The table for late interaction, which is left out where there is none."""
    reranker: Reranker | None
    objects: Objects
    session_cache: SessionCache
    accesses: AccessCounts
    usages: Usages
    secrets: Secrets
    """Encrypts what must be read again and may not stand in the clear."""
    vector_indexes: VectorIndexes | None = None
    """Who builds indexes of large tenants; None where the owner's connection is not known."""
    views: TenantViews = field(default_factory=TenantViews)
    shelves: Shelves = field(default_factory=Shelves)
    threads: Threads = field(default_factory=Threads)
    summariser: Summariser = field(default_factory=OfflineSummariser)
    sql_writer: SqlWriter | None = None
    """Who turns questions into SQL; None where no language model is configured."""
    query_places: QueryPlaces = field(default_factory=QueryPlaces)
    llm: LLM = field(default_factory=OfflineRules)
    extractor: Extractor = field(default_factory=Extractor)
    distiller: Distiller = field(default_factory=OfflineDistiller)
    splitter: Splitter | None = None
    """Who cuts a question into steps; without one, rules do."""
    count_tokens: TokenCounter = prudent_tokens
    recall_cache: RecallCache = field(default_factory=RecallCache)
    telemetry: Telemetry = field(default_factory=Telemetry)
    job_names: frozenset[str] = frozenset()
    schedules: tuple[Schedule, ...] = ()

    def wake(self, topic: str) -> None:
        """Tell the workers of every process that entries of the topic were committed to the outbox."""
        self.wakeups.wake(topic)
