"""Protocols of the outside helpers, and the one way in which quality fails open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recordari.core.cache import BoundedMap
from recordari.core.telemetry import get_log
from recordari.errors import ProviderError

log = get_log(__name__)

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]
T = TypeVar("T")


@runtime_checkable
class Embedder(Protocol):
    """Turns text into unit vectors; questions and passages may be embedded differently."""

    @property
    def model_id(self) -> str:
        """The name stored beside each vector: vectors of different models are never compared."""

    @property
    def dimensions(self) -> int:
        """Length of each vector."""

    async def embed_query(self, text: str) -> Vector:
        """Embed one question; answered before any waiting passage."""

    async def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Embed passages, one row each, in the order given."""

    async def close(self) -> None:
        """Give back threads and connections."""


class InstantEmbedder(Embedder, Protocol):
    """One that embeds a text in less time than it takes to hand it to somebody else."""

    def embed_now(self, text: str) -> Vector | None:
        """Embed one passage in this thread; None while the model is not loaded."""


@runtime_checkable
class Reranker(Protocol):
    """Scores passages against a question; higher is better, on the scale 0 to 1."""

    @property
    def model_id(self) -> str:
        """Which model answers."""

    async def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        """One score per passage, in the order given."""

    async def close(self) -> None:
        """Give back threads and connections."""


async def fail_open(operation: str, call: Callable[[], Awaitable[T]], *, fallback: T, seconds: float) -> tuple[T, bool]:
    """Run a quality step within a time budget; on any failure answer `fallback` and say so.

    Returns the value and whether the step really ran. Only quality goes through here: truth fails loudly.
    """
    try:
        async with asyncio.timeout(seconds):
            return await call(), True
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the answer goes on without it
        log.warning("failed_open", operation=operation, error=type(error).__name__)
        return fallback, False


def fail_open_now(operation: str, call: Callable[[], T], *, fallback: T) -> T:
    """The same for a step that is done at once in this thread."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the answer goes on without it
        log.warning("failed_open", operation=operation, error=type(error).__name__)
        return fallback


class QueryCache(BoundedMap[str, Vector]):
    """The vectors of the questions asked last; they are read-only, because every caller shares them."""

    def put(self, key: str, value: Vector, *, seconds: float | None = None) -> Vector:
        """Keep the vector of a question, and return it."""
        value.setflags(write=False)
        return super().put(key, value, seconds=seconds)


def unit_rows(rows: NDArray[np.floating[Any]], *, model_id: str) -> Matrix:
    """Scale each row to length one; a row that is not finite or has no direction is an error.

    pgvector answers NaN for the cosine of such rows, which would spoil the order of a whole result.
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise ProviderError(f"{model_id} gave a vector that is zero or not finite.", service="the embedding model")
    return np.asarray(rows / lengths, dtype=np.float32)
