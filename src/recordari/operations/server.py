"""The server as a tenant's administrator may see it: how its database and models are, and the settings in force.

Nothing here names a folder, an address or a secret: those belong to the operator, who has `recordari doctor`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from recordari.config import Settings
from recordari.core.described import DESCRIBED
from recordari.core.identity import Identity
from recordari.db import migrate
from recordari.errors import RecordariError
from recordari.kit.resources import Resources
from recordari.memory.vector_storage import VectorIndexes
from recordari.models.base import fail_open
from recordari.operations.doctor import Check, check_vector_indexes, fail, ok, warn
from recordari.operations.storage import describe_server
from recordari.tenants.tenants import require_admin

ANSWER_SECONDS = 5.0
HIDDEN = "set"
"""Shown instead of a value that only the operator may know."""
OPERATORS = frozenset({"host", "port", "allowed_hosts", "model_mirror", "jwt_issuer", "jwt_audience"})
PRIVATE_ENDINGS = ("_url", "_dir", "_bucket", "_prefix", "_endpoint", "_region", "_files", "_folders", "_claims")
HELPFUL_PREFIXES = frozenset({"embedding_query_prefix", "embedding_passage_prefix"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInForce:
    """A setting of the server, and its value now."""

    __pydantic_config__ = DESCRIBED

    name: str
    value: Any
    """`set` in place of a secret, a folder or an address; null if it is not set."""
    is_default: bool
    description: str


async def server_health(resources: Resources, identity: Identity) -> list[Check]:
    """Check the database and every model that the server uses; a check that is not `ok` has advice."""
    require_admin(identity)
    return [
        *await _check_database(resources),
        await _check_embedder(resources),
        _check_late_interaction(resources),
        await _check_reranker(resources),
        _check_language_model(resources.settings),
        check_vector_indexes(owner_known=resources.find(VectorIndexes) is not None),
        _check_worker(resources.settings),
    ]


async def settings_in_force(resources: Resources, identity: Identity) -> list[SettingInForce]:
    """List the settings of the server as they are in force, without secrets, folders and addresses."""
    require_admin(identity)
    settings = resources.settings
    return [
        SettingInForce(
            name=name,
            value=_shown(name, getattr(settings, name)),
            is_default=getattr(settings, name) == field.get_default(call_default_factory=True),
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def _shown(name: str, value: Any) -> Any:
    if value is None:
        return None
    is_private = name in OPERATORS or (name.endswith(PRIVATE_ENDINGS) and name not in HELPFUL_PREFIXES)
    if is_private or isinstance(value, Path | SecretStr) or name == "object_keys":
        return HIDDEN if value else None
    return value


async def _check_database(resources: Resources) -> list[Check]:
    began = time.monotonic()
    try:
        await resources.database.ping()
        took = (time.monotonic() - began) * 1000
        state = await describe_server(resources.database)
        pending = await migrate.pending(resources.database.dsn)
    except RecordariError as error:
        return [fail("database", error.message, "see the log of the server")]
    where = "embedded" if resources.settings.database_url is None else "your own"
    answers = ok("database", f"PostgreSQL {state.version}, {where}, answers after {took:.1f} ms")
    if pending:
        return [answers, fail("migrations", f"{len(pending)} missing", "run `recordari db migrate`")]
    return [answers, ok("migrations", "all applied")]


async def _check_embedder(resources: Resources) -> Check:
    embedder = resources.embedders.primary
    if embedder is None:
        return warn("embedder", "none: recall goes by keywords alone", "set RECORDARI_EMBEDDING_PROVIDER")
    found, answered = await _answers(lambda: embedder.embed_query("ready?"))
    if answered:
        return ok("embedder", f"{embedder.model_id}, {embedder.dimensions} dimensions, answers after {found}")
    return warn(
        "embedder", f"{embedder.model_id} does not answer: recall goes by keywords alone", "see the server's log"
    )


async def _check_reranker(resources: Resources) -> Check:
    reranker = resources.reranker
    if reranker is None:
        return ok("reranker", "none")
    found, answered = await _answers(lambda: reranker.rerank("ready?", ["yes"]))
    if answered:
        return ok("reranker", f"{reranker.model_id}, answers after {found}")
    return warn("reranker", f"{reranker.model_id} does not answer: recall keeps its own order", "see the server's log")


async def _answers(call: Callable[[], Awaitable[object]]) -> tuple[str, bool]:
    began = time.monotonic()
    _, answered = await fail_open("health", call, fallback=None, seconds=ANSWER_SECONDS)
    return f"{(time.monotonic() - began) * 1000:.1f} ms", answered


def _check_late_interaction(resources: Resources) -> Check:
    if resources.static_tokens is None and resources.settings.embedding_provider != "none":
        return warn("late interaction", "off: recall is weaker without it", "run `recordari models pull` on the server")
    return ok("late interaction", "on" if resources.static_tokens is not None else "off")


def _check_language_model(settings: Settings) -> Check:
    if settings.llm_provider == "none":
        return ok("language model", "none: rules take facts and write summaries")
    return ok("language model", f"{settings.llm_model} ({settings.llm_provider}) for {', '.join(settings.llm_tasks)}")


def _check_worker(settings: Settings) -> Check:
    return ok("background work", "in this process" if settings.worker else "in a process of its own")
