"""The only place that constructs: opens the database and the providers, and closes them again in the right order."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from recordari import schedule
from recordari.config import Settings
from recordari.core.secrets import Secrets
from recordari.core.telemetry import Telemetry, get_log
from recordari.databases.ask import ModelSqlWriter
from recordari.db import migrate
from recordari.db.database import Database
from recordari.db.embedded.server import EmbeddedServer
from recordari.db.outbox import Wakeups
from recordari.db.pool import PoolOptions
from recordari.errors import ConfigurationError, ProviderError, RecordariError
from recordari.kit.resources import Resources
from recordari.lifetime.decay import AccessCounts
from recordari.memory.objects import EncryptedObjects, LocalObjects, Objects, S3Objects, S3Spec, StoresByKey
from recordari.memory.vector_storage import VectorIndexes
from recordari.models import install
from recordari.models.base import Embedder
from recordari.models.embedding import Embedders, EmbeddingProvider, EmbeddingSpec, make_embedder
from recordari.models.language import LanguageModel, ModelSpec, make_token_counter
from recordari.models.reranking import DEFAULT_CROSS_ENCODER, RerankProvider, RerankSpec, make_reranker
from recordari.models.static import StaticTokens, load_static_tokens
from recordari.operations import doctor
from recordari.operations.doctor import Check
from recordari.recall.answer_cache import RecallCache
from recordari.recall.tenant_view import TenantViews
from recordari.sessions.cache import Cache, NoCache, RedisCache, SessionCache
from recordari.sessions.language import ModelRules, ModelSplitter, ModelSummariser
from recordari.tenants.usage import Usages

log = get_log(__name__)

DATABASE_NAME = "recordari"
APP_LOGIN = "recordari"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the database is: as the application, and as the owner where that is known."""

    dsn: str
    owner_dsn: str | None
    login: str
    password: str | None = None


def embedded_server(settings: Settings) -> EmbeddedServer:
    """The embedded server of these settings, not started."""
    return EmbeddedServer(
        settings.home / "postgres",
        bin_dir=settings.postgres_bin_dir,
        run_as=settings.postgres_user,
    )


@asynccontextmanager
async def open_address(settings: Settings) -> AsyncIterator[Address]:
    """The database to use: the configured one, or the embedded server, started and released here."""
    if settings.database_url is not None:
        dsn = settings.database_url.get_secret_value()
        login, password = migrate.login_of(dsn)
        owner_dsn = settings.database_owner_url.get_secret_value() if settings.database_owner_url else None
        yield Address(dsn=dsn, owner_dsn=owner_dsn, login=login, password=password)
        return
    server = embedded_server(settings)
    await asyncio.to_thread(server.acquire)
    try:
        await migrate.ensure_database(server.dsn(), DATABASE_NAME)
        yield Address(
            dsn=server.dsn(user=APP_LOGIN, database=DATABASE_NAME),
            owner_dsn=server.dsn(database=DATABASE_NAME),
            login=APP_LOGIN,
        )
    finally:
        await asyncio.to_thread(server.release)


async def bring_up_to_date(settings: Settings, address: Address) -> list[str]:
    """Migrate where permitted; raise `ConfigurationError` when steps are missing and may not be applied."""
    if settings.auto_migrate and address.owner_dsn is not None:
        return await migrate.prepare(address.owner_dsn, login=address.login, password=address.password)
    missing = await migrate.pending(address.dsn)
    if missing:
        raise ConfigurationError(
            f"the database lacks {len(missing)} migrations; set RECORDARI_DATABASE_OWNER_URL and run `recordari db init`"
        )
    return []


@asynccontextmanager
async def open_resources(settings: Settings) -> AsyncIterator[Resources]:
    """Everything the verbs need, closed again in the right order."""
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(open_address(settings))
        await bring_up_to_date(settings, address)
        database = Database(
            address.dsn,
            PoolOptions(
                min_size=settings.pool_min_size,
                max_size=settings.pool_max_size,
                timeout=settings.pool_timeout,
                statement_timeout=settings.statement_timeout,
            ),
        )
        await database.open()
        stack.push_async_callback(database.close)
        await database.refuse_unsafe_role()
        telemetry = Telemetry(tracing=settings.tracing)
        telemetry.watch("recordari_pool", "Figures of the connection pool.", database.statistics)
        wakeups = Wakeups(database)
        stack.push_async_callback(wakeups.close)
        embedders = make_embedders(settings)
        stack.push_async_callback(embedders.close)
        reranker = make_reranker(_rerank_spec(settings))
        if reranker is not None:
            stack.push_async_callback(reranker.close)
        if settings.window_override is not None:
            log.warning("window_override_is_set", tokens=settings.window_override)
        cache = make_cache(settings)
        stack.push_async_callback(cache.close)
        session_cache = SessionCache(cache, database)
        recall_cache = RecallCache()
        telemetry.watch("recordari_recall_cache", "Answers kept for contexts.", recall_cache.statistics)
        accesses, usages, views = AccessCounts(database), Usages(database), TenantViews()
        stack.push_async_callback(accesses.close)
        stack.push_async_callback(usages.close)
        stack.push_async_callback(views.close)
        telemetry.watch("recordari_session_cache", "Reads and drops of the session cache.", session_cache.statistics)
        yield Resources(
            settings=settings,
            database=database,
            clock=lambda: datetime.now(UTC),
            wakeups=wakeups,
            embedders=embedders,
            static_tokens=await load_late_interaction(settings),
            reranker=reranker,
            objects=make_objects(settings),
            session_cache=session_cache,
            accesses=accesses,
            usages=usages,
            views=views,
            secrets=make_secrets(settings),
            **make_tasks(settings),
            vector_indexes=VectorIndexes(address.owner_dsn) if address.owner_dsn else None,
            telemetry=telemetry,
            count_tokens=make_token_counter(settings.token_counter),
            recall_cache=recall_cache,
            job_names=frozenset(schedule.JOBS),
            schedules=schedule.schedules(schedule.JOBS),
        )


def make_secrets(settings: Settings) -> Secrets:
    """What encrypts secrets at rest; its key is read, or made, when it is first needed."""
    key = settings.secret_key
    return Secrets(home=settings.home, key=key.get_secret_value() if key else None)


def make_language_model(settings: Settings) -> LanguageModel | None:
    """The configured language model; its package is not imported before it is first asked."""
    if settings.llm_provider == "none":
        return None
    if settings.llm_model is None:
        raise ConfigurationError("set RECORDARI_LLM_MODEL to the name of the model")
    key = settings.llm_api_key
    return LanguageModel(
        ModelSpec(
            provider=settings.llm_provider,
            model=settings.llm_model,
            base_url=settings.llm_url,
            api_key=key.get_secret_value() if key else None,
            timeout=settings.llm_timeout,
        )
    )


def make_tasks(settings: Settings) -> dict[str, Any]:
    """What the configured language model does, by the field of `Resources`; the rest is left to the offline rules."""
    model = make_language_model(settings)
    if model is None:
        return {}
    can_do: dict[str, dict[str, Any]] = {
        "facts": {"llm": ModelRules(model)},
        "summaries": {"summariser": ModelSummariser(model)},
        "steps": {"splitter": ModelSplitter(model)},
        "sql": {"sql_writer": ModelSqlWriter(model)},
    }
    return {name: made for task in settings.llm_tasks for name, made in can_do[task].items()}


def make_cache(settings: Settings) -> Cache:
    """The configured Redis; without one, nothing is cached and its package is not imported."""
    if settings.redis_url is None:
        return NoCache()
    return RedisCache(
        settings.redis_url.get_secret_value(), timeout=settings.redis_timeout, ttl=settings.redis_ttl_seconds
    )


def make_objects(settings: Settings) -> Objects:
    """The configured bucket, or a folder beside the database; encrypted where keys are set."""
    store: StoresByKey = LocalObjects(settings.home / "objects")
    if settings.object_bucket is not None:
        access, secret = settings.object_access_key, settings.object_secret_key
        store = S3Objects(
            S3Spec(
                bucket=settings.object_bucket,
                prefix=settings.object_prefix,
                endpoint=settings.object_endpoint,
                region=settings.object_region,
                access_key=access.get_secret_value() if access else None,
                secret_key=secret.get_secret_value() if secret else None,
            )
        )
    if not settings.object_keys:
        return store
    return EncryptedObjects(store, tuple(_object_key(key.get_secret_value()) for key in settings.object_keys))


def _object_key(written: str) -> bytes:
    try:
        return base64.b64decode(written, validate=True)
    except ValueError:
        return b""  # refused with the others that are no keys


def make_embedders(settings: Settings) -> Embedders:
    """The configured embedder, and a way to the local models that other tenants may still use."""

    def of_model_id(model_id: str) -> Embedder | None:
        return make_embedder(_embedding_spec(settings, model=model_id.partition("@")[0]))

    return Embedders(make_embedder(_embedding_spec(settings)), of_model_id)


def _embedding_spec(settings: Settings, *, model: str | None = None) -> EmbeddingSpec:
    key = settings.embedding_api_key
    return EmbeddingSpec(
        provider=EmbeddingProvider.LOCAL if model else EmbeddingProvider(settings.embedding_provider),
        model=model or settings.embedding_model or install.PROFILES[settings.profile],
        base_url=settings.embedding_url,
        api_key=key.get_secret_value() if key else None,
        dimensions=settings.embedding_dimensions,
        query_prefix=settings.embedding_query_prefix,
        passage_prefix=settings.embedding_passage_prefix,
        cache_dir=install.models_dir(settings),
        mirror=settings.model_mirror,
        threads=settings.embedding_threads,
        offline=settings.offline,
    )


def _rerank_spec(settings: Settings) -> RerankSpec:
    key = settings.rerank_api_key
    return RerankSpec(
        provider=RerankProvider(settings.rerank_provider),
        model=settings.rerank_model or DEFAULT_CROSS_ENCODER,
        base_url=settings.rerank_url,
        api_key=key.get_secret_value() if key else None,
        cache_dir=install.models_dir(settings),
        mirror=settings.model_mirror,
        timeout=settings.rerank_timeout,
        offline=settings.offline,
    )


async def load_late_interaction(settings: Settings) -> StaticTokens | None:
    """The static token table; None, with a warning, where it cannot be had."""
    if settings.embedding_provider == "none":
        return None
    try:
        return await asyncio.to_thread(
            _static_tokens, install.models_dir(settings), settings.model_mirror, settings.offline
        )
    except ProviderError as error:
        log.warning("late_interaction_off", error=error)
        return None


@lru_cache(maxsize=4)
def _static_tokens(cache_dir: Path, mirror: str | None, offline: bool) -> StaticTokens:
    return load_static_tokens(cache_dir=cache_dir, mirror=mirror, offline=offline)


async def check_ready(resources: Resources) -> None:
    """Raise unless the database answers and has every migration."""
    await resources.database.ping()
    if await migrate.pending(resources.database.dsn):
        raise ConfigurationError("the database lacks migrations; run `recordari db migrate`")


def owner_of(address: Address) -> str:
    """Give the owner's connection; raise `ConfigurationError` where only the application's is known."""
    if address.owner_dsn is None:
        raise ConfigurationError(
            "this needs the owner's connection to your PostgreSQL; set RECORDARI_DATABASE_OWNER_URL"
        )
    return address.owner_dsn


def setup_script(settings: Settings) -> str:
    """Write the SQL by which an administrator prepares the configured database where we may not."""
    if settings.database_url is None:
        raise ConfigurationError("the embedded database needs no script; set RECORDARI_DATABASE_URL first")
    login, _ = migrate.login_of(settings.database_url.get_secret_value())
    owner = settings.database_owner_url
    return migrate.setup_script(login, migrate.login_of(owner.get_secret_value())[0] if owner else None)


async def diagnose(settings: Settings, *, start: bool = True) -> list[Check]:
    """Look at everything Recordari needs; `start` allows to start the embedded server for it."""
    checks = [
        *doctor.check_machine(settings),
        *doctor.check_configuration(settings),
        *doctor.check_models(settings),
    ]
    if settings.database_url is None:
        programs, info = await asyncio.to_thread(doctor.check_programs, settings, embedded_server(settings))
        checks.append(programs)
        if info is None:
            return checks
        if not info.running and not start:
            return [*checks, doctor.warn("database", "not running", "leave out --no-start to start it")]
    where = "embedded" if settings.database_url is None else "RECORDARI_DATABASE_URL"
    try:
        async with open_address(settings) as address:
            if settings.database_url is None:  # yours is only looked at
                await bring_up_to_date(settings, address)
            indexes = doctor.check_vector_indexes(owner_known=address.owner_dsn is not None)
            return [*checks, *await doctor.check_database(address.dsn, where=where), indexes]
    except RecordariError as error:
        return [*checks, doctor.failure("database", error)]
