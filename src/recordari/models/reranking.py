"""Rerankers: a cross-encoder on this machine, or a service over HTTP (R4).

Each checks its answer and raises `ProviderError` on anything odd; the caller keeps the merge order then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from recordari.errors import ConfigurationError, InvalidInput, ProviderError
from recordari.models.base import Reranker
from recordari.models.http import JsonService
from recordari.models.inference import CrossEncoder, LazyModel, Urgency, cut_batches
from recordari.models.pull import pull
from recordari.models.registry import ModelKind, find_model

DEFAULT_CROSS_ENCODER = "ms-marco-MiniLM-L-12"
MAX_PASSAGES = 20  # R4: up to 20 candidates
BATCH_PAIRS = 4  # the fastest size for int8 models, and a cancelled caller frees the thread soon
BATCH_CHARACTERS = 800


class RerankProvider(StrEnum):
    """Who scores the passages."""

    LOCAL = "local"
    TEI = "tei"
    COHERE = "cohere"
    JINA = "jina"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankSpec:
    """The settings a reranker is made from."""

    provider: RerankProvider = RerankProvider.NONE
    model: str = DEFAULT_CROSS_ENCODER
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    cache_dir: Path | None = None
    mirror: str | Path | None = None
    threads: int = 1
    timeout: float = 5.0
    offline: bool = False


def make_reranker(spec: RerankSpec) -> Reranker | None:
    """Make the reranker that the settings name; `None` when reranking is switched off."""
    provider = RerankProvider(spec.provider)
    if provider is RerankProvider.NONE:
        return None
    if provider is RerankProvider.LOCAL:
        return LocalCrossEncoder(
            spec.model,
            cache_dir=spec.cache_dir,
            mirror=spec.mirror,
            threads=spec.threads,
            offline=spec.offline,
        )
    if not spec.base_url:
        raise ConfigurationError(f"The rerank provider {provider} needs a base URL.")
    return HttpReranker(provider, model=spec.model, base_url=spec.base_url, api_key=spec.api_key, timeout=spec.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dialect:
    path: str
    request: Callable[[str, str, list[str]], dict[str, Any]]
    results: Callable[[Any], Any]
    score: str


def _documents_request(model: str, query: str, passages: list[str]) -> dict[str, Any]:
    return {"model": model, "query": query, "documents": passages, "top_n": len(passages)}


DIALECTS: Mapping[RerankProvider, _Dialect] = MappingProxyType(
    {
        RerankProvider.TEI: _Dialect(
            path="/rerank",
            request=lambda _model, query, passages: {"query": query, "texts": passages, "truncate": True},
            results=lambda answer: answer,
            score="score",
        ),
        RerankProvider.COHERE: _Dialect(
            path="/v1/rerank",
            request=_documents_request,
            results=lambda answer: answer["results"],
            score="relevance_score",
        ),
        RerankProvider.JINA: _Dialect(
            path="/v1/rerank",
            request=lambda *parts: {**_documents_request(*parts), "return_documents": False},
            results=lambda answer: answer["results"],
            score="relevance_score",
        ),
    }
)


class HttpReranker:
    """Scores passages with a service that speaks TEI's, Cohere's or Jina's dialect."""

    def __init__(
        self,
        dialect: RerankProvider,
        *,
        model: str,
        base_url: str,
        api_key: str | None = None,
        timeout: float = 5.0,
        attempts: int = 2,
    ) -> None:
        if dialect not in DIALECTS:
            raise ConfigurationError(f"No rerank service speaks {dialect}; choose tei, cohere or jina.")
        self._dialect = DIALECTS[dialect]
        self._model = model
        self._model_id = f"{dialect}/{model}"
        self._service = JsonService(
            f"the rerank service {self._model_id}",
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            attempts=attempts,
        )

    @property
    def model_id(self) -> str:
        """Which model answers."""
        return self._model_id

    async def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each passage between 0 and 1, in the order given."""
        _check_number(passages)
        if not passages:
            return []
        body = self._dialect.request(self._model, query, list(passages))
        answer = await self._service.post(self._dialect.path, body)
        return self._scores(answer, len(passages))

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    def _scores(self, answer: Any, expected: int) -> list[float]:
        try:
            found = {int(entry["index"]): float(entry[self._dialect.score]) for entry in self._dialect.results(answer)}
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ProviderError(
                f"The answer of {self._model_id} is not a list of scores.", service="the reranker"
            ) from error
        if sorted(found) != list(range(expected)):
            raise ProviderError(
                f"The answer of {self._model_id} does not score each of {expected} passages.", service="the reranker"
            )
        if not all(math.isfinite(score) for score in found.values()):
            raise ProviderError(
                f"The answer of {self._model_id} has a score that is not a number.", service="the reranker"
            )
        scores = [found[position] for position in range(expected)]
        if all(0.0 <= score <= 1.0 for score in scores):
            return scores
        # Some servers answer raw logits; the logistic function keeps their order and gives the scale.
        return [_logistic(score) for score in scores]


class LocalCrossEncoder:
    """Scores passages with a cross-encoder of the registry; about 13 ms a passage on one core."""

    def __init__(
        self,
        model: str = DEFAULT_CROSS_ENCODER,
        *,
        cache_dir: Path | None = None,
        mirror: str | Path | None = None,
        threads: int = 1,
        offline: bool = False,
    ) -> None:
        spec = find_model(model)
        if spec.kind is not ModelKind.CROSS_ENCODER:
            raise ConfigurationError(f"{model} embeds texts and cannot score pairs.")
        self._model_id = spec.model_id
        self._model = LazyModel(
            spec.model_id,
            lambda: CrossEncoder(pull(model, cache_dir=cache_dir, mirror=mirror, offline=offline), threads=threads),
        )

    @property
    def model_id(self) -> str:
        """Which model answers."""
        return self._model_id

    async def ready(self) -> None:
        """Fetch and load the model now instead of at the first use."""
        await self._model.use(Urgency.QUESTION, lambda _encoder: None)

    async def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each passage between 0 and 1, in the order given."""
        _check_number(passages)
        scores = [0.0] * len(passages)
        lengths = [len(query) + len(passage) for passage in passages]
        for batch in cut_batches(lengths, texts=BATCH_PAIRS, characters=BATCH_CHARACTERS):
            found = await self._score(query, [passages[position] for position in batch])
            for position, score in zip(batch, found, strict=True):
                scores[position] = score
        return scores

    async def close(self) -> None:
        """End the thread and forget the model."""
        await self._model.close()

    async def _score(self, query: str, passages: list[str]) -> list[float]:
        return await self._model.use(Urgency.QUESTION, lambda encoder: encoder.scores(query, passages))


def _check_number(passages: Sequence[str]) -> None:
    if len(passages) > MAX_PASSAGES:
        raise InvalidInput(f"At most {MAX_PASSAGES} passages are reranked at once; {len(passages)} were given.")


def _logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, value))))
