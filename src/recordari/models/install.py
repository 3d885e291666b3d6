"""Local models: which there are, fetching them, checking them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from recordari.config import Settings
from recordari.models import pull, registry
from recordari.models.pull import Progress, PullProgress
from recordari.models.registry import VerifyReport

__all__ = [
    "ModelState",
    "PullProgress",
    "VerifyReport",
    "list_models",
    "needed_models",
    "pull_model",
    "verify_model",
]

# The embedding model of each profile. Either way the static table re-scores what was found.
PROFILES = {"best": "e5-small-v2", "fast": "potion-base-8M"}
RESCORER = "potion-base-8M"
RERANKER = "ms-marco-MiniLM-L-12"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """A model that Recordari knows, and whether its files are on this machine."""

    name: str
    kind: str
    dimensions: int
    bytes: int
    license: str
    needed: bool
    installed: bool


def needed_models(settings: Settings) -> tuple[str, ...]:
    """Name the local models that these settings use."""
    names = [RESCORER]
    if settings.embedding_provider == "local":
        names.insert(0, settings.embedding_model or PROFILES[settings.embedding_profile])
    if settings.rerank_provider == "local":
        names.append(settings.rerank_model or RERANKER)
    return tuple(dict.fromkeys(names))


def models_dir(settings: Settings) -> Path:
    """Name the folder of the models."""
    return settings.cache_dir / "models"


def list_models(settings: Settings) -> list[ModelState]:
    """Every known model."""
    return [
        ModelState(
            name=spec.name,
            kind=spec.kind,
            dimensions=spec.dimensions,
            bytes=spec.size,
            license=spec.license,
            needed=spec.name in needed_models(settings),
            installed=registry.installed(spec.name, models_dir(settings)),
        )
        for spec in registry.list_models()
    ]


async def pull_model(settings: Settings, name: str, *, progress: Progress | None = None) -> Path:
    """Fetch a model unless it is here and unharmed; the folder of its files."""
    files = await asyncio.to_thread(
        pull.pull,
        name,
        cache_dir=models_dir(settings),
        mirror=settings.model_mirror,
        progress=progress,
        offline=settings.offline,
    )
    return files.folder


async def verify_model(settings: Settings, name: str) -> VerifyReport:
    """Read every file of a model and compare it with its pin."""
    return await asyncio.to_thread(registry.verify, name, models_dir(settings))
