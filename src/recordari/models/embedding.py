"""The embedders, and the choice among them."""

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
from recordari.models.inference import DenseEncoder, ThreadedEmbedder
from recordari.models.pull import PROFILES, pull
from recordari.models.registry import ModelKind, find_model
from recordari.models.static import StaticEncoder, load_static_tokens


class EmbeddingProvider(StrEnum):
    LOCAL = "local"
    OPENAI = "openai"
    TEI = "tei"
    FASTEMBED = "fastembed"
    SENTENCE_TRANSFORMERS = "sentence-transformers"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpec:
    """The settings of an embedder; each provider reads those that concern it."""

    provider: EmbeddingProvider = EmbeddingProvider.LOCAL
    model: str = PROFILES["best"]
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
    attempts: int = 3
    offline: bool = False


def make_embedder(spec: EmbeddingSpec) -> Embedder | None:
    """Make the embedder that the settings name; `None` when embedding is switched off.

    Nothing is loaded or sent yet: that happens in `ready()` or at the first use. A model that is not available
    raises `ProviderError` there and says what to do; the caller continues with keywords alone.
    """
    match EmbeddingProvider(spec.provider):
        case EmbeddingProvider.NONE:
            return None
        case EmbeddingProvider.OPENAI:
            return OpenAIEmbedder(spec)
        case EmbeddingProvider.TEI:
            return TEIEmbedder(spec)
        case EmbeddingProvider.FASTEMBED | EmbeddingProvider.SENTENCE_TRANSFORMERS:
            return PackagedEmbedder(spec)
        case EmbeddingProvider.LOCAL:
            match find_model(spec.model).kind:
                case ModelKind.STATIC:
                    return StaticEmbedder(spec)
                case ModelKind.DENSE:
                    return LocalEmbedder(spec)
                case ModelKind.CROSS_ENCODER:
                    raise ConfigurationError(
                        f"{spec.model} scores pairs and cannot embed; choose a dense or static model."
                    )


class LocalEmbedder(ThreadedEmbedder):
    """Embeds with a transformer of the registry on this machine's processor.

    Sub-batches are small on purpose: measured with int8 models on two cores, batches of 4 to 8 are the
    fastest (32 is a third slower), and a question never waits longer than one of them takes.
    """

    def __init__(self, spec: EmbeddingSpec) -> None:
        def load() -> DenseEncoder:
            files = pull(spec.model, cache_dir=spec.cache_dir, mirror=spec.mirror, offline=spec.offline)
            return DenseEncoder(files, threads=spec.threads)

        model = find_model(spec.model)
        super().__init__(
            model_id=model.model_id, dimensions=model.dimensions, load=load, query_cache_size=spec.query_cache_size
        )


class StaticEmbedder(ThreadedEmbedder):
    """Embeds with static token vectors: thousands of passages a second on one core."""

    batch_texts = 128
    batch_characters = 200_000

    def __init__(self, spec: EmbeddingSpec) -> None:
        def load() -> StaticEncoder:
            return StaticEncoder(
                load_static_tokens(spec.model, cache_dir=spec.cache_dir, mirror=spec.mirror, offline=spec.offline)
            )

        model = find_model(spec.model)
        super().__init__(
            model_id=model.model_id, dimensions=model.dimensions, load=load, query_cache_size=spec.query_cache_size
        )

    async def embed_query(self, text: str) -> Vector:
        """Embed one question, in this thread if the table is loaded: a call of another thread takes longer."""
        vector = self.embed_query_now(text)
        return vector if vector is not None else await super().embed_query(text)

    def embed_query_now(self, text: str) -> Vector | None:
        """The same; None before the table is loaded."""
        vector = self._questions.get(text)
        if vector is None and (new := self.embed_now(text)) is not None:
            vector = self._questions.put(text, new)
        return vector

    def embed_now(self, text: str) -> Vector | None:
        """Embed one passage in this thread, which takes a fraction of a millisecond; None before the table is loaded."""
        return self._model.use_now(lambda encoder: encoder.query(text))


class PackagedEmbedder(ThreadedEmbedder):
    """Embeds with the package fastembed or sentence-transformers, if it is installed."""

    batch_texts = 32
    batch_characters = 10_000

    def __init__(self, spec: EmbeddingSpec) -> None:
        encoder = _Fastembed if spec.provider == EmbeddingProvider.FASTEMBED else _SentenceTransformers
        super().__init__(
            model_id=f"{spec.provider}/{spec.model}",
            load=lambda: encoder(spec),
            query_cache_size=spec.query_cache_size,
        )


class _PackagedEncoder(ABC):
    """A model that another package loads; its vectors are scaled to length one."""

    def __init__(self, spec: EmbeddingSpec) -> None:
        self._spec = spec
        try:
            self._model = self._load(str(spec.cache_dir) if spec.cache_dir else None)
        except ImportError as error:
            raise ConfigurationError(
                f"The embedding provider {spec.provider} is not installed: pip install {spec.provider}"
            ) from error
        self.dimensions = len(self.query("dimensions"))

    def query(self, text: str) -> Vector:
        vector: Vector = self._unit_rows(self._query_vectors(text))[0]
        return vector

    def passages(self, texts: Sequence[str]) -> Matrix:
        return self._unit_rows(self._passage_vectors(texts))

    def _unit_rows(self, vectors: Iterable[Any]) -> Matrix:
        rows = np.asarray(list(vectors), dtype=np.float32)
        return unit_rows(rows, model_id=f"{self._spec.provider}/{self._spec.model}")

    @abstractmethod
    def _load(self, cache_dir: str | None) -> Any: ...

    @abstractmethod
    def _query_vectors(self, text: str) -> Iterable[Any]: ...

    @abstractmethod
    def _passage_vectors(self, texts: Sequence[str]) -> Iterable[Any]: ...


class _Fastembed(_PackagedEncoder):
    def _load(self, cache_dir: str | None) -> Any:
        from fastembed import TextEmbedding

        return TextEmbedding(self._spec.model, cache_dir=cache_dir, threads=self._spec.threads)

    def _query_vectors(self, text: str) -> Iterable[Any]:
        vectors: Iterable[Any] = self._model.query_embed(text)
        return vectors

    def _passage_vectors(self, texts: Sequence[str]) -> Iterable[Any]:
        vectors: Iterable[Any] = self._model.passage_embed(texts)
        return vectors


class _SentenceTransformers(_PackagedEncoder):
    def _load(self, cache_dir: str | None) -> Any:
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(self._spec.model, cache_folder=cache_dir)

    def _query_vectors(self, text: str) -> Iterable[Any]:
        return self._encode([self._spec.query_prefix + text])

    def _passage_vectors(self, texts: Sequence[str]) -> Iterable[Any]:
        return self._encode([self._spec.passage_prefix + text for text in texts])

    def _encode(self, texts: list[str]) -> Iterable[Any]:
        vectors: Iterable[Any] = self._model.encode(texts, convert_to_numpy=True, show_progress_bar=False)
        return vectors


class Embedders:
    """Finds the embedder of a model id; makes it at the first use and keeps it."""

    query_timeout = 5.0
    """Seconds to wait for a question's vector."""

    def __init__(self, primary: Embedder | None, make: Callable[[str], Embedder | None]) -> None:
        self.primary = primary
        self._make = make
        self._others: dict[str, Embedder | None] = {}

    def of(self, model_id: str | None) -> Embedder | None:
        """The embedder whose vectors carry this model id; None when it is not available here."""
        if model_id is None or self.primary is None or model_id == self.primary.model_id:
            return self.primary
        if model_id not in self._others:
            try:
                self._others[model_id] = self._make(model_id)
            except ConfigurationError:
                self._others[model_id] = None
        return self._others[model_id]

    def instant(self, model_id: str | None) -> InstantEmbedder | None:
        """The same if it embeds a text at once, else None."""
        embedder = self.of(model_id)
        return cast("InstantEmbedder", embedder) if hasattr(embedder, "embed_now") else None

    async def close(self) -> None:
        for embedder in [self.primary, *self._others.values()]:
            if embedder is not None:
                await embedder.close()


class RemoteEmbedder(ABC):
    """The common part of embedders behind HTTP: batches, checks of the answer, and a cache of questions.

    The length of the vectors is a setting, or comes from the first answer. An answer of another length is an
    error, so that a model changed on the server never mixes with the stored vectors.
    """

    provider: str
    batch_size = 32

    def __init__(self, spec: EmbeddingSpec) -> None:
        if not spec.base_url:
            raise ConfigurationError(f"The embedding provider {self.provider} needs a base URL.")
        self._spec = spec
        self._dimensions = spec.dimensions
        self._questions = QueryCache(spec.query_cache_size)
        self._service = JsonService(
            f"the embedding service {self.model_id}",
            base_url=spec.base_url,
            api_key=spec.api_key,
            timeout=spec.timeout,
            attempts=spec.attempts,
        )

    @property
    def model_id(self) -> str:
        """The name stored beside each vector; shortened vectors are another model."""
        shortened = f"#{self._spec.dimensions}" if self._spec.dimensions else ""
        return f"{self.provider}/{self._spec.model}{shortened}"

    @property
    def dimensions(self) -> int:
        if self._dimensions is None:
            raise ProviderError(
                f"The dimensions of {self.model_id} are known only once it has been used.",
                service="the embedding model",
            )
        return self._dimensions

    async def ready(self) -> None:
        """Send one text, to see that the service works and how long its vectors are."""
        await self._embed(["dimensions"])

    async def embed_query(self, text: str) -> Vector:
        if (vector := self._questions.get(text)) is not None:
            return vector
        return self._questions.put(text, (await self._embed([self._spec.query_prefix + text]))[0])

    async def embed_passages(self, texts: Sequence[str]) -> Matrix:
        if not texts:
            if self._dimensions is None:
                await self.ready()
            return np.empty((0, self.dimensions), dtype=np.float32)
        prefixed = [self._spec.passage_prefix + text for text in texts]
        parts = [
            await self._embed(prefixed[start : start + self.batch_size])
            for start in range(0, len(prefixed), self.batch_size)
        ]
        return np.concatenate(parts)

    async def close(self) -> None:
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

    def _malformed(self, problem: str) -> ProviderError:
        return ProviderError(f"The answer of {self.model_id} {problem}.", service="the embedding model")

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
        body: dict[str, Any] = {"model": self._spec.model, "input": texts}
        if self._spec.dimensions is not None:
            body["dimensions"] = self._spec.dimensions
        return await self._service.post("/embeddings", body)

    def _vectors(self, answer: Any) -> list[Any]:
        entries = answer["data"]
        vectors = {int(entry["index"]): entry["embedding"] for entry in entries}
        if len(vectors) != len(entries):
            raise self._malformed("repeats an index")
        return [vectors[position] for position in range(len(entries))]


class TEIEmbedder(RemoteEmbedder):
    """Embeds with a text-embeddings-inference server."""

    provider = "tei"

    async def _request(self, texts: list[str]) -> Any:
        return await self._service.post("/embed", {"inputs": texts, "truncate": True})

    def _vectors(self, answer: Any) -> list[Any]:
        if not isinstance(answer, list):
            raise self._malformed("is not a list of vectors")
        return answer
