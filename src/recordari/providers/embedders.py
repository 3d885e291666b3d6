"""The embedders of this process: the configured one, and those of tenants that still use another model."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from recordari.errors import ConfigurationError
from recordari.providers.base import Embedder, InstantEmbedder


class Embedders:
    """Finds the embedder for a model id; makes it at the first use and keeps it."""

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
