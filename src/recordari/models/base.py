"""Protocols of embedders and rerankers, and the one way in which quality fails open."""

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
    def dimensions(self) -> int: ...

    async def embed_query(self, text: str) -> Vector:
        """Embed one question, before any waiting passage."""

    async def embed_passages(self, texts: Sequence[str]) -> Matrix: ...

    async def close(self) -> None: ...


class InstantEmbedder(Embedder, Protocol):
    """An embedder that is faster than the call of another thread."""

    def embed_now(self, text: str) -> Vector | None:
        """Embed one passage in this thread; None before the model is loaded."""

    def embed_query_now(self, text: str) -> Vector | None:
        """The same for a question."""


@runtime_checkable
class Reranker(Protocol):
    """Scores passages against a question; higher is better, on the scale 0 to 1."""

    @property
    def model_id(self) -> str: ...

    @property
    def most_passages(self) -> int:
        """How many of the first candidates it reads."""

    async def rerank(self, query: str, passages: Sequence[str]) -> list[float]: ...

    async def close(self) -> None: ...


async def fail_open(operation: str, call: Callable[[], Awaitable[T]], *, fallback: T, seconds: float) -> tuple[T, bool]:
    """Run a quality step within a time budget, and return its value and True; after any failure `fallback` and False.

    Only quality goes through here: truth fails loudly.
    """
    try:
        async with asyncio.timeout(seconds):
            return await call(), True
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the caller continues without it
        log.warning("failed_open", operation=operation, error=type(error).__name__)
        return fallback, False


def fail_open_now(operation: str, call: Callable[[], T], *, fallback: T) -> T:
    """The same for a step that blocks, and takes no time worth a limit."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever a provider raises, the caller continues without it
        log.warning("failed_open", operation=operation, error=type(error).__name__)
        return fallback


class QueryCache(BoundedMap[str, Vector]):
    """The vectors of the latest questions; they are read-only, because all callers share them."""

    def put(self, key: str, value: Vector, *, seconds: float | None = None) -> Vector:
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
