"""What every verb is given: the database, the settings, the clock and the outside helpers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from recordari.config import Settings
from recordari.core.secrets import Secrets
from recordari.core.telemetry import Telemetry
from recordari.core.tokens import TokenCounter, prudent_tokens
from recordari.databases.ask import QueryPlaces, SqlWriter
from recordari.db.database import Database
from recordari.db.outbox import Wakeups
from recordari.facts.language import LLM, OfflineRules, Splitter
from recordari.knowledge.reading.reader import Extractor
from recordari.learning.consolidate import Distiller, OfflineDistiller
from recordari.lifetime.decay import AccessCounts
from recordari.memory.index import Threads
from recordari.memory.objects import Objects
from recordari.memory.vector_storage import VectorIndexes
from recordari.models.base import Reranker
from recordari.models.embedding import Embedders
from recordari.models.static import StaticTokens
from recordari.recall.answer_cache import RecallCache
from recordari.recall.process_cache import Shelves
from recordari.recall.tenant_view import TenantViews
from recordari.sessions.cache import SessionCache
from recordari.sessions.messages import OfflineSummariser, Summariser
from recordari.tenants.usage import Usages
from recordari.worker.rules import Schedule

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
