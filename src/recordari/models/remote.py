"""Embedders behind HTTP: OpenAI-compatible services and Hugging Face's text-embeddings-inference (TEI)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from recordari.errors import ProviderError
from recordari.models.base import Matrix, QueryCache, Vector, unit_rows
from recordari.models.http import JsonService


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
