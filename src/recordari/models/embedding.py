"""The embedders, and the one place that chooses among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import numpy as np

from recordari.errors import ConfigurationError
from recordari.models.base import Embedder, InstantEmbedder, Matrix, Vector, unit_rows
from recordari.models.inference import DenseEncoder, Encoder, ThreadedEmbedder
from recordari.models.pull import pull
from recordari.models.registry import ModelKind, find_model
from recordari.models.remote import OpenAIEmbedder, TEIEmbedder
from recordari.models.static import StaticEmbedder

DEFAULT_MODEL = "e5-small-v2"


class EmbeddingProvider(StrEnum):
    """Who computes the vectors."""

    LOCAL = "local"
    OPENAI = "openai"
    TEI = "tei"
    FASTEMBED = "fastembed"
    SENTENCE_TRANSFORMERS = "sentence-transformers"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpec:
    """The settings an embedder is made from."""

    provider: EmbeddingProvider = EmbeddingProvider.LOCAL
    model: str = DEFAULT_MODEL
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    dimensions: int | None = None
    query_prefix: str = ""
    passage_prefix: str = ""
    cache_dir: Path | None = None
    mirror: str | Path | None = None
    threads: int = 2
    query_cache_size: int = 1024
    timeout: float = 10.0
    offline: bool = False


def make_embedder(spec: EmbeddingSpec) -> Embedder | None:
    """Make the embedder that the settings name; `None` when embedding is switched off.

    Nothing is loaded or asked yet: that happens in `ready()` or at the first use, and a model that cannot be
    had raises `ProviderError` there, with what to do. The caller goes on with keywords alone.
    """
    match EmbeddingProvider(spec.provider):
        case EmbeddingProvider.NONE:
            return None
        case EmbeddingProvider.LOCAL:
            return _make_local(spec)
        case EmbeddingProvider.FASTEMBED:
            return FastembedEmbedder(
                spec.model,
                cache_dir=spec.cache_dir,
                threads=spec.threads,
                query_cache_size=spec.query_cache_size,
            )
        case EmbeddingProvider.SENTENCE_TRANSFORMERS:
            return SentenceTransformersEmbedder(
                spec.model,
                cache_dir=spec.cache_dir,
                query_prefix=spec.query_prefix,
                passage_prefix=spec.passage_prefix,
                query_cache_size=spec.query_cache_size,
            )
        case EmbeddingProvider.OPENAI | EmbeddingProvider.TEI as provider:
            if not spec.base_url:
                raise ConfigurationError(f"The embedding provider {provider} needs a base URL.")
            make = OpenAIEmbedder if provider is EmbeddingProvider.OPENAI else TEIEmbedder
            return make(
                spec.model,
                base_url=spec.base_url,
                api_key=spec.api_key,
                dimensions=spec.dimensions,
                query_prefix=spec.query_prefix,
                passage_prefix=spec.passage_prefix,
                query_cache_size=spec.query_cache_size,
                timeout=spec.timeout,
            )


def _make_local(spec: EmbeddingSpec) -> Embedder:
    kind = find_model(spec.model).kind
    if kind is ModelKind.STATIC:
        return StaticEmbedder(
            spec.model,
            cache_dir=spec.cache_dir,
            mirror=spec.mirror,
            query_cache_size=spec.query_cache_size,
            offline=spec.offline,
        )
    if kind is ModelKind.DENSE:
        return LocalEmbedder(
            spec.model,
            cache_dir=spec.cache_dir,
            mirror=spec.mirror,
            threads=spec.threads,
            query_cache_size=spec.query_cache_size,
            offline=spec.offline,
        )
    raise ConfigurationError(f"{spec.model} scores pairs and cannot embed; choose a dense or static model.")


class LocalEmbedder(ThreadedEmbedder):
    """Embeds with a transformer of the registry on this machine's processor.

    Sub-batches are small on purpose: measured with int8 models on two cores, batches of 4 to 8 are the
    fastest (32 is a third slower), and a question never waits longer than one of them takes.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        cache_dir: Path | None = None,
        mirror: str | Path | None = None,
        threads: int = 1,
        query_cache_size: int = 1024,
        offline: bool = False,
    ) -> None:
        spec = find_model(model)

        def load() -> Encoder:
            files = pull(model, cache_dir=cache_dir, mirror=mirror, offline=offline)
            return DenseEncoder(files, threads=threads)

        super().__init__(
            model_id=spec.model_id, dimensions=spec.dimensions, load=load, query_cache_size=query_cache_size
        )


class FastembedEmbedder(ThreadedEmbedder):
    """Embeds with the package fastembed, if it is installed."""

    batch_texts = 32
    batch_characters = 10_000

    def __init__(
        self,
        model: str,
        *,
        cache_dir: Path | None = None,
        threads: int = 1,
        query_cache_size: int = 1024,
        **options: Any,
    ) -> None:
        super().__init__(
            model_id=f"fastembed/{model}",
            load=lambda: _Fastembed(model, cache_dir=cache_dir, threads=threads, **options),
            query_cache_size=query_cache_size,
        )


class _Fastembed:
    def __init__(self, model: str, *, cache_dir: Path | None, threads: int, **options: Any) -> None:
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise ConfigurationError(
                "The embedding provider fastembed is not installed: pip install fastembed"
            ) from error
        folder = str(cache_dir) if cache_dir else None
        self._name = f"fastembed/{model}"
        self._model = TextEmbedding(model, cache_dir=folder, threads=threads, **options)
        self.dimensions = len(self.query("dimensions"))

    def query(self, text: str) -> Vector:
        vector: Vector = self._rows(self._model.query_embed(text))[0]
        return vector

    def passages(self, texts: Sequence[str]) -> Matrix:
        return self._rows(self._model.passage_embed(texts))

    def _rows(self, vectors: Iterable[Any]) -> Matrix:
        return unit_rows(np.asarray(list(vectors), dtype=np.float32), model_id=self._name)


class SentenceTransformersEmbedder(ThreadedEmbedder):
    """Embeds with the package sentence-transformers, if it is installed."""

    batch_texts = 32
    batch_characters = 10_000

    def __init__(
        self,
        model: str,
        *,
        cache_dir: Path | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        query_cache_size: int = 1024,
    ) -> None:
        super().__init__(
            model_id=f"sentence-transformers/{model}",
            load=lambda: _SentenceTransformers(
                model, cache_dir=cache_dir, query_prefix=query_prefix, passage_prefix=passage_prefix
            ),
            query_cache_size=query_cache_size,
        )


class _SentenceTransformers:
    def __init__(self, model: str, *, cache_dir: Path | None, query_prefix: str, passage_prefix: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise ConfigurationError(
                "The embedding provider sentence-transformers is not installed: pip install sentence-transformers"
            ) from error
        self._name = f"sentence-transformers/{model}"
        self._model = SentenceTransformer(model, cache_folder=str(cache_dir) if cache_dir else None)
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self.dimensions = len(self.query("dimensions"))

    def query(self, text: str) -> Vector:
        vector: Vector = self._rows([self._query_prefix + text])[0]
        return vector

    def passages(self, texts: Sequence[str]) -> Matrix:
        return self._rows([self._passage_prefix + text for text in texts])

    def _rows(self, texts: Sequence[str]) -> Matrix:
        vectors = self._model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
        return unit_rows(np.asarray(vectors, dtype=np.float32), model_id=self._name)


class Embedders:
    """Finds the embedder for a model id; makes it at the first use and keeps it."""

    query_timeout = 5.0
    """Seconds to wait for a question's vector."""

    def __init__(self, primary: Embedder | None, make: Callable[[str], Embedder | None]) -> None:
        self.primary = primary
        self._make = make
        self._made: dict[str, Embedder | None] = {}

    def of(self, model_id: str | None) -> Embedder | None:
        """The embedder whose vectors carry this model id; None when it cannot be had here."""
        if model_id is None or self.primary is None or model_id == self.primary.model_id:
            return self.primary
        if model_id not in self._made:
            try:
                self._made[model_id] = self._make(model_id)
            except ConfigurationError:
                self._made[model_id] = None
        return self._made[model_id]

    def instant(self, model_id: str | None) -> InstantEmbedder | None:
        """The same if it embeds a text at once; None for every other one."""
        embedder = self.of(model_id)
        return cast("InstantEmbedder", embedder) if hasattr(embedder, "embed_now") else None

    async def close(self) -> None:
        """Close every embedder that was made."""
        for embedder in [self.primary, *self._made.values()]:
            if embedder is not None:
                await embedder.close()
