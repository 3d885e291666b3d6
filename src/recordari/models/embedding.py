"""The embedders, and the one place that chooses among them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import numpy as np

from recordari.errors import ConfigurationError, ProviderError
from recordari.models.base import Embedder, InstantEmbedder, Matrix, QueryCache, Vector, unit_rows
from recordari.models.http import JsonService
from recordari.models.inference import DenseEncoder, Encoder, ThreadedEmbedder
from recordari.models.pull import pull
from recordari.models.registry import ModelKind, find_model
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


class RemoteEmbedder(ABC):
    """What embedders behind HTTP share: batches, checks of the answer, and a cache of questions.

    The length of the vectors is learned from the first answer, or given; an answer of another length is an
    error, so that a model changed on the server never mixes with what is stored.
    """

    provider: str
    batch_size = 32

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        dimensions: int | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        query_cache_size: int = 1024,
        timeout: float = 10.0,
        attempts: int = 3,
    ) -> None:
        self._model = model
        self._asked_dimensions = dimensions
        self._dimensions = dimensions
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix
        self._questions = QueryCache(query_cache_size)
        self._service = JsonService(
            f"the embedding service {self.model_id}",
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            attempts=attempts,
        )

    @property
    def model_id(self) -> str:
        """The name stored beside each vector; shortened vectors are another model."""
        shortened = f"#{self._asked_dimensions}" if self._asked_dimensions else ""
        return f"{self.provider}/{self._model}{shortened}"

    @property
    def dimensions(self) -> int:
        """Length of each vector; known after `ready()`."""
        if self._dimensions is None:
            raise ProviderError(
                f"The dimensions of {self.model_id} are known only once it has been used.",
                service="the embedding model",
            )
        return self._dimensions

    async def ready(self) -> None:
        """Ask the service once, to learn that it works and how long its vectors are."""
        await self._embed(["dimensions"])

    async def embed_query(self, text: str) -> Vector:
        """Embed one question."""
        if (known := self._questions.get(text)) is not None:
            return known
        return self._questions.put(text, (await self._embed([self._query_prefix + text]))[0])

    async def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Embed passages, one row each, in the order given."""
        if not texts:
            if self._dimensions is None:
                await self.ready()
            return np.empty((0, self.dimensions), dtype=np.float32)
        prefixed = [self._passage_prefix + text for text in texts]
        parts = [
            await self._embed(prefixed[start : start + self.batch_size])
            for start in range(0, len(prefixed), self.batch_size)
        ]
        return np.concatenate(parts)

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()
        self._questions.clear()

    async def _embed(self, texts: list[str]) -> Matrix:
        answer = await self._request(texts)
        try:
            rows = np.asarray(self._vectors(answer), dtype=np.float32)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise self._malformed("is not a list of vectors") from error
        if rows.ndim != 2 or len(rows) != len(texts) or rows.shape[1] == 0:
            raise self._malformed(f"has the shape {rows.shape} for {len(texts)} texts")
        if self._dimensions is None:
            self._dimensions = rows.shape[1]
        if rows.shape[1] != self._dimensions:
            raise self._malformed(f"has vectors of length {rows.shape[1]} instead of {self._dimensions}")
        return unit_rows(rows, model_id=self.model_id)

    def _malformed(self, what: str) -> ProviderError:
        return ProviderError(f"The answer of {self.model_id} {what}.", service="the embedding model")

    @abstractmethod
    async def _request(self, texts: list[str]) -> Any:
        """Send one batch."""

    @abstractmethod
    def _vectors(self, answer: Any) -> list[Any]:
        """Find the vectors in the answer, in the order of the texts; malformed data may raise."""


class OpenAIEmbedder(RemoteEmbedder):
    """Embeds with an OpenAI-compatible service; `base_url` ends before `/embeddings`."""

    provider = "openai"

    async def _request(self, texts: list[str]) -> Any:
        body: dict[str, Any] = {"model": self._model, "input": texts}
        if self._asked_dimensions is not None:
            body["dimensions"] = self._asked_dimensions
        return await self._service.post("/embeddings", body)

    def _vectors(self, answer: Any) -> list[Any]:
        entries = answer["data"]
        found = {int(entry["index"]): entry["embedding"] for entry in entries}
        if len(found) != len(entries):
            raise self._malformed("repeats an index")
        return [found[position] for position in range(len(entries))]


class TEIEmbedder(RemoteEmbedder):
    """Embeds with a text-embeddings-inference server."""

    provider = "tei"

    async def _request(self, texts: list[str]) -> Any:
        return await self._service.post("/embed", {"inputs": texts, "truncate": True})

    def _vectors(self, answer: Any) -> list[Any]:
        if not isinstance(answer, list):
            raise self._malformed("is not a list of vectors")
        return answer
