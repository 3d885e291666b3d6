"""The only place that constructs: opens the database and the providers, and closes them in the right order."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from recordari import schedule
from recordari.config import Settings
from recordari.context.assemble import ModelSplitter, Splitter
from recordari.context.questions import Answerer, ModelAnswerer
from recordari.context.rules.context import ContextSettings
from recordari.core.secrets import Secrets
from recordari.core.telemetry import Telemetry, get_log
from recordari.databases.ask import ModelSqlWriter, QueryPlaces, SqlWriter
from recordari.db.address import bring_up_to_date, open_address
from recordari.db.database import Database
from recordari.db.outbox import Wakeups, backlog
from recordari.db.pool import MIN_SIZE, PoolOptions
from recordari.errors import ConfigurationError, ProviderError
from recordari.events.follow import Feeds
from recordari.facts.language import LLM, ModelRules, OfflineCategories, OfflineRules
from recordari.facts.rules.learning import learning_of
from recordari.kit.resources import Resources
from recordari.knowledge.reader import Extractor
from recordari.learning.consolidate import Distiller, OfflineDistiller
from recordari.memory.index import Threads
from recordari.memory.objects import EncryptedObjects, LocalObjects, Objects, S3Objects, S3Spec, StoresByKey
from recordari.memory.remember import Categoriser
from recordari.memory.tenant_view import TenantViews
from recordari.memory.vector_storage import VectorIndexes
from recordari.models import pull
from recordari.models.base import Embedder
from recordari.models.embedding import Embedders, EmbeddingProvider, EmbeddingSpec, make_embedder
from recordari.models.language import LanguageModel, LanguageModelSpec, make_token_counter
from recordari.models.reranking import RerankProvider, RerankSpec, make_reranker
from recordari.models.static import StaticTokens, load_static_tokens
from recordari.privacy.rules.masking import PrivacyPolicy
from recordari.recall.accesses import AccessCounts, RecallTimes
from recordari.recall.ask import CitingAnswerer, ModelCitingAnswerer
from recordari.recall.process_cache import SnapshotCache
from recordari.recall.results import RecallCache
from recordari.recall.rules.sources import Archive, history_weight
from recordari.recall.search import Crowds, MemoryTerms
from recordari.sessions.cache import SessionCache
from recordari.sessions.messages import OpenSessions
from recordari.sessions.summaries import ModelSummariser, OfflineSummariser, Summariser
from recordari.tenants.tenants import TenantCache
from recordari.tenants.usage import Usages
from recordari.worker import dispatch

log = get_log(__name__)


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncIterator[Resources]:
    """Open everything that the verbs need, for as long as the block lasts."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(open_address(settings))
        await bring_up_to_date(settings, address)
        database = Database(
            address.dsn,
            PoolOptions(
                min_size=min(MIN_SIZE, settings.pool_max_size),
                max_size=settings.pool_max_size,
                timeout=settings.pool_timeout,
                statement_timeout=settings.statement_timeout,
                behind_pooler={"auto": None, "none": False, "transaction": True}[settings.database_pooler],
            ),
        )
        await database.open()
        stack.push_async_callback(database.close)
        await database.refuse_unsafe_role()
        telemetry = Telemetry(tracing=settings.tracing)
        telemetry.watch("recordari_pool", "Figures of the connection pool.", database.statistics)
        telemetry.watch("recordari_queue", "Background work of all tenants.", lambda: backlog(database))
        wakeups = Wakeups(database)
        stack.push_async_callback(wakeups.close)
        embedders = make_embedders(settings)
        stack.push_async_callback(embedders.close)
        reranker = make_reranker(_rerank_spec(settings))
        if reranker is not None:
            stack.push_async_callback(reranker.close)
        if settings.window_override is not None:
            log.warning("window_override_is_set", tokens=settings.window_override)
        parts = make_parts(settings, database, owner_dsn=address.owner_dsn)
        for kind in (AccessCounts, SessionCache, Usages, TenantViews, Feeds):
            stack.push_async_callback(parts[kind].close)
        telemetry.watch("recordari_recall_cache", "Answers kept for contexts.", parts[RecallCache].statistics)
        telemetry.watch("recordari_feed", "Readers and listeners of change feeds.", parts[Feeds].figures)
        session_cache = parts[SessionCache]
        telemetry.watch("recordari_session_cache", "Reads and drops of the session cache.", session_cache.statistics)
        yield Resources(
            settings=settings,
            database=database,
            clock=lambda: datetime.now(UTC),
            wakeups=wakeups,
            embedders=embedders,
            static_tokens=await load_late_interaction(settings),
            reranker=reranker,
            secrets=Secrets(home=settings.home, key=_plain(settings.secret_key)),
            parts=parts,
            tenant_settings={
                "archive": Archive.read,
                "context": ContextSettings.read,
                "history": history_weight,
                "privacy": PrivacyPolicy.read,
                "learning": learning_of,
            },
            count_tokens=make_token_counter(settings.token_counter),
            telemetry=telemetry,
            job_names=frozenset(schedule.JOBS),
            schedules=dispatch.schedules(schedule.JOBS),
        )


def make_parts(settings: Settings, database: Database, *, owner_dsn: str | None) -> dict[type, Any]:
    """The parts that rooms share in the process, by class or protocol."""
    parts: dict[type, Any] = {
        AccessCounts: AccessCounts(database),
        Categoriser: OfflineCategories(),
        RecallTimes: RecallTimes(),
        Distiller: OfflineDistiller(),
        Extractor: Extractor(),
        Feeds: Feeds(),
        LLM: OfflineRules(),
        Objects: make_objects(settings),
        dispatch.Pace: dispatch.Pace(),
        dispatch.Courtesy: dispatch.Courtesy(),
        QueryPlaces: QueryPlaces(),
        RecallCache: RecallCache(),
        SessionCache: SessionCache(_plain(settings.redis_url)),
        OpenSessions: OpenSessions(),
        SnapshotCache: SnapshotCache(),
        Crowds: Crowds(),
        MemoryTerms: MemoryTerms(),
        Summariser: OfflineSummariser(),
        TenantCache: TenantCache(),
        TenantViews: TenantViews(),
        Threads: Threads(),
        Usages: Usages(database),
        **make_tasks(settings),
    }
    if owner_dsn is not None:
        parts[VectorIndexes] = VectorIndexes(owner_dsn)
    return parts


def _plain(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None


def make_language_model(settings: Settings) -> LanguageModel | None:
    """The configured language model; its package is imported at its first use."""
    if settings.llm_provider == "none":
        return None
    if settings.llm_model is None:
        raise ConfigurationError("set RECORDARI_LLM_MODEL to the name of the model")
    return LanguageModel(
        LanguageModelSpec(
            provider=settings.llm_provider,
            model=settings.llm_model,
            base_url=settings.llm_url,
            api_key=_plain(settings.llm_api_key),
            timeout=settings.llm_timeout,
        )
    )


def make_tasks(settings: Settings) -> dict[type, Any]:
    """The tasks of the configured language model; offline rules do the others."""
    model = make_language_model(settings)
    if model is None:
        return {}
    tasks: dict[str, dict[type, Any]] = {
        "facts": {LLM: ModelRules(model)},
        "summaries": {Summariser: ModelSummariser(model), Answerer: ModelAnswerer(model)},
        "steps": {Splitter: ModelSplitter(model)},
        "sql": {SqlWriter: ModelSqlWriter(model)},
        "answers": {CitingAnswerer: ModelCitingAnswerer(model)},
    }
    return {part: made for task in settings.llm_tasks for part, made in tasks[task].items()}


def make_objects(settings: Settings) -> Objects:
    """The configured bucket, or a folder beside the database; encrypted if keys are set."""
    store: StoresByKey = LocalObjects(settings.home / "objects")
    if settings.object_bucket is not None:
        bucket, _, folder = settings.object_bucket.partition("/")
        store = S3Objects(
            S3Spec(
                bucket=bucket,
                folder=folder.rstrip("/"),
                endpoint=settings.object_endpoint,
                region=settings.object_region,
                access_key=_plain(settings.object_access_key),
                secret_key=_plain(settings.object_secret_key),
            )
        )
    if not settings.object_keys:
        return store
    return EncryptedObjects(store, tuple(_object_key(key.get_secret_value()) for key in settings.object_keys))


def _object_key(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""  # `EncryptedObjects` refuses it, as every key of a wrong length


def make_embedders(settings: Settings) -> Embedders:
    """The configured embedder, and those of local models that other tenants may still use."""

    def of_model_id(model_id: str) -> Embedder | None:
        return make_embedder(_embedding_spec(settings, model=model_id.partition("@")[0]))

    return Embedders(make_embedder(_embedding_spec(settings)), of_model_id)


def _embedding_spec(settings: Settings, *, model: str | None = None) -> EmbeddingSpec:
    return EmbeddingSpec(
        provider=EmbeddingProvider.LOCAL if model else EmbeddingProvider(settings.embedding_provider),
        model=model or settings.embedding_model or pull.PROFILES[settings.embedding_profile],
        base_url=settings.embedding_url,
        api_key=_plain(settings.embedding_api_key),
        dimensions=settings.embedding_dimensions,
        query_prefix=settings.embedding_prefixes.query,
        passage_prefix=settings.embedding_prefixes.passage,
        cache_dir=pull.models_dir(settings),
        mirror=settings.model_mirror,
        offline=settings.offline,
    )


def _rerank_spec(settings: Settings) -> RerankSpec:
    return RerankSpec(
        provider=RerankProvider(settings.reranker),
        model=settings.rerank_model or pull.RERANKER,
        base_url=settings.rerank_url,
        api_key=_plain(settings.rerank_api_key),
        cache_dir=pull.models_dir(settings),
        mirror=settings.model_mirror,
        timeout=settings.rerank_timeout,
        offline=settings.offline,
    )


async def load_late_interaction(settings: Settings) -> StaticTokens | None:
    """The static token table; None, with a warning, if it is not available."""
    if settings.embedding_provider == "none":
        return None
    try:
        return await asyncio.to_thread(
            _static_tokens, pull.models_dir(settings), settings.model_mirror, settings.offline
        )
    except ProviderError as error:
        log.warning("late_interaction_off", error=error)
        return None


@lru_cache(maxsize=4)
def _static_tokens(cache_dir: Path, mirror: str | None, offline: bool) -> StaticTokens:
    return load_static_tokens(cache_dir=cache_dir, mirror=mirror, offline=offline)
