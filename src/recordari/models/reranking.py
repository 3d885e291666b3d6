"""Rerankers: a cross-encoder on this machine, or a service over HTTP (R4).

Each checks the model's answer and raises `ProviderError` if it is malformed; the caller then keeps the merge order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any

from recordari.core.cache import BoundedMap
from recordari.errors import ConfigurationError, InvalidInput, ProviderError
from recordari.models.base import Reranker
from recordari.models.http import JsonService
from recordari.models.inference import CrossEncoder, LazyModel, Urgency, cut_batches
from recordari.models.pull import RERANKER, pull
from recordari.models.registry import ModelKind, find_model

OF_SERVICES = 20  # R4: up to 20 candidates
OF_THIS_MACHINE = 40
"""More: what the first ten leave out is among the 21st to 40th nearly as often as among the ten before (docs/ranking.md)."""
BATCH_PAIRS = 4  # the fastest size for int8 models, and a cancelled caller frees the thread soon
BATCH_CHARACTERS = 800
MOST_PAIRS = 20_000  # scores kept in the process, about 3 MB


class RerankProvider(StrEnum):
    LOCAL = "local"
    TEI = "tei"
    COHERE = "cohere"
    JINA = "jina"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankSpec:
    """The settings of a reranker; each provider reads those that concern it."""

    provider: RerankProvider = RerankProvider.NONE
    model: str = RERANKER
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    cache_dir: Path | None = None
    mirror: str | Path | None = None
    threads: int = 1
    timeout: float = 5.0
    attempts: int = 2
    offline: bool = False


def make_reranker(spec: RerankSpec) -> Reranker | None:
    """Make the reranker that the settings name; `None` when reranking is switched off."""
    match RerankProvider(spec.provider):
        case RerankProvider.NONE:
            return None
        case RerankProvider.LOCAL:
            return LocalCrossEncoder(spec)
        case _:
            return HttpReranker(spec)


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

    most_passages = OF_SERVICES

    def __init__(self, spec: RerankSpec) -> None:
        if not spec.base_url:
            raise ConfigurationError(f"The rerank provider {spec.provider} needs a base URL.")
        self._dialect = DIALECTS[spec.provider]
        self._model = spec.model
        self.model_id = f"{spec.provider}/{spec.model}"
        self._service = JsonService(
            f"the rerank service {self.model_id}",
            base_url=spec.base_url,
            api_key=spec.api_key,
            timeout=spec.timeout,
            attempts=spec.attempts,
        )

    async def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        _check_number(passages, self.most_passages)
        if not passages:
            return []
        body = self._dialect.request(self._model, query, list(passages))
        answer = await self._service.post(self._dialect.path, body)
        return self._scores(answer, len(passages))

    async def close(self) -> None:
        await self._service.close()

    def _scores(self, answer: Any, expected: int) -> list[float]:
        try:
            by_index = {
                int(entry["index"]): float(entry[self._dialect.score]) for entry in self._dialect.results(answer)
            }
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise self._malformed("is not a list of scores") from error
        if sorted(by_index) != list(range(expected)):
            raise self._malformed(f"does not score each of {expected} passages")
        scores = [by_index[position] for position in range(expected)]
        if not all(map(math.isfinite, scores)):
            raise self._malformed("has a score that is not a number")
        if all(0.0 <= score <= 1.0 for score in scores):
            return scores
        # Some servers answer raw logits; the logistic function keeps their order and gives the scale.
        return [1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, score)))) for score in scores]

    def _malformed(self, problem: str) -> ProviderError:
        return ProviderError(f"The answer of {self.model_id} {problem}.", service="the reranker")


class LocalCrossEncoder:
    """Scores passages with a cross-encoder of the registry, about 13 ms each on one core, and keeps the scores."""

    most_passages = OF_THIS_MACHINE

    def __init__(self, spec: RerankSpec) -> None:
        model = find_model(spec.model)
        if model.kind is not ModelKind.CROSS_ENCODER:
            raise ConfigurationError(f"{spec.model} embeds texts and cannot score pairs.")

        def load() -> CrossEncoder:
            files = pull(spec.model, cache_dir=spec.cache_dir, mirror=spec.mirror, offline=spec.offline)
            return CrossEncoder(files, threads=spec.threads)

        self.model_id = model.model_id
        self._model = LazyModel(model.model_id, load)
        self._scores: BoundedMap[bytes, float] = BoundedMap(MOST_PAIRS)

    async def ready(self) -> None:
        await self._model.use(Urgency.QUESTION, lambda _encoder: None)

    async def rerank(self, query: str, passages: Sequence[str]) -> list[float]:
        _check_number(passages, self.most_passages)
        keys = [_pair_key(query, passage) for passage in passages]
        scores = {key: score for key in keys if (score := self._scores.get(key)) is not None}
        missing = {key: passage for key, passage in zip(keys, passages, strict=True) if key not in scores}
        texts, new_keys = list(missing.values()), list(missing)
        lengths = [len(query) + len(passage) for passage in texts]
        for batch in cut_batches(lengths, texts=BATCH_PAIRS, characters=BATCH_CHARACTERS):
            part = [texts[position] for position in batch]
            results = await self._model.use(Urgency.QUESTION, partial(CrossEncoder.scores, query=query, passages=part))
            # Kept batch by batch: a question that ran out of time goes on from here when it is asked again.
            for position, score in zip(batch, results, strict=True):
                scores[new_keys[position]] = self._scores.put(new_keys[position], score)
        return [scores[key] for key in keys]

    async def close(self) -> None:
        await self._model.close()
        self._scores.clear()


def _pair_key(query: str, passage: str) -> bytes:
    """A digest: what was forgotten must not stay here as text."""
    return blake2b(f"{len(query)} {query}{passage}".encode(errors="surrogatepass"), digest_size=16).digest()


def _check_number(passages: Sequence[str], most: int) -> None:
    if len(passages) > most:
        raise InvalidInput(f"At most {most} passages are reranked at once; you sent {len(passages)}.")
